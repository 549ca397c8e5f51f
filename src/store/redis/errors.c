/* store/redis/errors.c — what an error reply of Redis means.
 *
 * One table leads from the first word of an error to what we do. Redis before
 * 7 wraps the errors of commands inside scripts ("ERR Error running script
 * (call to f_…): @user_script:6: -OOM command not allowed …"), and those that a
 * script catches ("@user_script: 6: -OOM …"); 7.0 puts the word first. Both forms give the same class. Texts of a server are data: we
 * read nothing beyond the word (and the documented wrapper), except for the
 * few whole phrases of phrases[], whose errors have no word of their own.
 * People are told the word and what it means, or else the server's own text
 * without the wrapper.
 *
 * Every class means that nothing was applied: our scripts have no command that
 * can fail after their first write, and NOSCRIPT means that none was run. (A
 * right that is taken from the user while it is connected may stop a script
 * half-way. A release that has removed the grant by then says that it is done;
 * the repeats of the others find out what became of them.) */
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_i.h"
#include "store/redis/slots.h"

static const struct {
    const char *word;
    error_kind kind;
    const char *says; /* our words; NULL: the server's text says enough     */
} words[] = {
    {"LOADING", E_RETRY,
     "the server is reading its data from disk and answers after that"},
    {"BUSY", E_RETRY, "a script of somebody keeps the server busy"},
    {"MASTERDOWN", E_RETRY, "a replica that has lost its primary"},
    {"TRYAGAIN", E_RETRY, NULL}, /* slot under migration               */
    {"CLUSTERDOWN", E_RETRY, NULL},
    {"READONLY", E_DROP, "the server has become a read-only replica"},
    {"NOAUTH", E_DENIED,
     "the server asks for a login: put user and password into the URL, "
     "redis://USER:PASSWORD@HOST (of the user default: redis://:PASSWORD"
     "@HOST)"},
    {"WRONGPASS", E_DENIED, "the server refuses this user or this password"},
    {"NOPERM", E_DENIED, NULL}, /* its text names the command or the key    */
    {"OOM", E_STORE,
     "the server has reached maxmemory and takes no writes; raise "
     "maxmemory or remove other data"},
    {"MISCONF", E_STORE,
     "the server takes no writes because it cannot save its data to disk; "
     "free room on its disk, its log says what failed"},
    {"NOREPLICAS", E_STORE,
     "the server takes no writes because fewer replicas are connected "
     "than its min-replicas-to-write"},
    {"DENIED", E_STORE,
     "the server is in protected mode: it takes connections from its own "
     "host only, until it has a password"},
    {"MOVED", E_STORE, NULL}, /* as a node of a cluster: node.c         */
    {"ASK", E_STORE, NULL},
    {"CROSSSLOT", E_STORE, NULL},
    {"SNIBFLOOR", E_STORE, NULL},
    {"SNIBCLOCK", E_STORE, NULL},
    {"SNIBLATE", E_STORE, NULL},
    {"SNIBEPOCH", E_DROP, /* before a new epoch: recovery.c */
     "the server was restarted, replaced or emptied, or its clock set back"},
    {"SNIBRECOVERY", E_CONFIG, NULL},
    {"SNIBREPLICAS", E_STORE, NULL},
    {"WRONGTYPE", E_CORRUPT, NULL},
    {"CORRUPT", E_CORRUPT, NULL}, /* our scripts: a record is not ours  */
    {"NOSCRIPT", E_NOSCRIPT, NULL},
    {"SNIBARG", E_BUG, NULL},
};

static const struct {
    const char *phrase;
    error_kind kind;
} phrases[] = {
    {"The user executing the script can't", E_DENIED},
    {"ACL failure in script", E_DENIED},
    {"has no permissions", E_DENIED},
    {"AUTH <password> called without any password", E_DENIED},
    {"Client sent AUTH, but no password is set", E_DENIED},
    {"invalid password", E_DENIED},
    {"invalid username-password", E_DENIED},
    {"DB index is out of range", E_STORE},
    {"max number of clients reached", E_STORE},
    {"unknown command", E_STORE},
};

static const char *errors_find(const char *text, size_t size, const char *what)
{
    return memmem(text, size, what, strlen(what));
}

/* The index in words[] of the word at the beginning; -1: none. */
static int errors_word_at(const char *text, size_t size)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].word);
        if (size >= n && !memcmp(text, words[i].word, n) &&
            (size == n || text[n] == ' ')) {
            return (int)i;
        }
    }
    return -1;
}

static bool errors_begins(const char *text, size_t size, const char *with)
{
    size_t n = strlen(with);
    return size >= n && !memcmp(text, with, n);
}

/* The index in words[] of the word that an error begins with or that is wrapped
 * in it, and where that word stands; -1: none. A script that catches an error and
 * passes it on has the line number before it, or nothing, but not the wrapper. */
static int errors_word_of(const char *text, uint32_t size, const char **ret_at)
{
    static const char wrapper[] = "ERR Error running script";
    static const char line[] = "@user_script";
    const char *p = text, *end = text + size;
    int found = errors_word_at(text, size);
    if (found < 0 && errors_begins(text, size, "-")) {
        p++;
        found = errors_word_at(p, size - 1);
    } else if (found < 0 && (errors_begins(text, size, wrapper) ||
                             errors_begins(text, size, line))) {
        p = errors_find(text, size, line);
        while (found < 0 && p &&
               (p = errors_find(p, (size_t)(end - p), ": "))) {
            p += 2; /* 6.2 puts a dash before its own words only            */
            p += p < end && *p == '-';
            found = errors_word_at(p, (size_t)(end - p));
        }
    }
    *ret_at = p;
    return found;
}

error_kind snib__redis_error_kind(const char *text, uint32_t size)
{
    const char *at;
    int word = errors_word_of(text, size, &at);
    if (word >= 0) {
        return words[word].kind;
    }
    if (size > 4 && !memcmp(text, "ERR ", 4)) {
        for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) {
            if (errors_find(text, size, phrases[i].phrase)) {
                return phrases[i].kind;
            }
        }
    }
    return E_STORE;
}

snib_err snib__redis_error_code(error_kind kind)
{
    switch (kind) {
    case E_DENIED:
        return SNIB_ERR_DENIED;
    case E_CORRUPT:
        return SNIB_ERR_CORRUPT;
    case E_CONFIG:
        return SNIB_ERR_CONFIG;
    case E_BUG:
        return SNIB_ERR_INTERNAL;
    case E_DROP:
        return SNIB_ERR_UNREACHABLE;
    case E_RETRY:
    case E_STORE:
    case E_NOSCRIPT:
        break;
    }
    return SNIB_ERR_STORE;
}

/* Where the server's own words begin: behind the last line number of a script
 * ("@user_script: 6: ", or "@user_script:6: "), if there is one. */
static const char *errors_bare(const char *text, uint32_t size)
{
    static const char line[] = "@user_script";
    const char *bare = text, *end = text + size, *p = text;
    while ((p = errors_find(p, (size_t)(end - p), line))) {
        p += sizeof line - 1;
        p += p < end && *p == ':';
        p += p < end && *p == ' ';
        while (p < end && *p >= '0' && *p <= '9') {
            p++;
        }
        if (end - p > 2 && p[0] == ':' && p[1] == ' ') {
            bare = p += 2;
        }
    }
    return bare;
}

void snib__redis_error_words(char *ret, size_t size, const char *text,
                             uint32_t text_size)
{
    const char *at;
    int word = errors_word_of(text, text_size, &at);
    if (word >= 0 && words[word].says) {
        snprintf(ret, size, "%s: %s", words[word].word, words[word].says);
        return;
    }
    at = word >= 0 ? at : errors_bare(text, text_size);
    snib__redis_error_text(ret, size, at, text_size - (uint32_t)(at - text));
}

void snib__redis_error_text(char *ret, size_t size, const char *text,
                            uint32_t text_size)
{
    size_t n = 0;
    while (text_size && (text[text_size - 1] == '\r' || /* before Redis 7 */
                         text[text_size - 1] == '\n')) {
        text_size--;
    }
    for (; n + 1 < size && n < text_size; n++) {
        ret[n] = text[n] >= 0x20 && text[n] < 0x7f ? text[n] : '?';
    }
    ret[n] = 0;
}

bool snib__redis_error_down(const struct snib__redis *s, const char *text,
                            char *ret, size_t size)
{
    static const char down[] = "CLUSTERDOWN";
    if (!s->slots || strncmp(text, down, sizeof down - 1) != 0) {
        return false;
    }
    s->slots->stale = true;
    snprintf(ret, size,
             strstr(text, "slot")
                 ? "no node of the cluster serves the slot of this lock "
                   "(CLUSTERDOWN): redis-cli --cluster check HOST:PORT says "
                   "which, bring its node back or give the slot to another"
                 : "the cluster is down (CLUSTERDOWN): a slot has no node, or "
                   "too few primaries agree (redis-cli --cluster check "
                   "HOST:PORT)");
    return true;
}

/* A character that means something to a pattern or a shell becomes '?'. */
void snib__redis_error_remedy(const char *safe, uint32_t n, char *text,
                              size_t size)
{
    char name[100];
    if (!n || n >= sizeof name || !strstr(text, "WRONGTYPE")) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        name[i] = (char)(strchr("*?[]\\'", safe[i]) ? '?' : safe[i]);
    }
    snprintf(text, size,
             "a key of this lock is of another type, so not ours: find it "
             "(redis-cli --scan --pattern 'snib:{%.*s}*', TYPE of each) and "
             "rename or delete it",
             (int)n, name);
}
