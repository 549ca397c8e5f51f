/* store/redis/errors.c — what an error reply of Redis means.
 *
 * One table from the first word to what we do. Redis before 7 wraps the
 * errors of commands inside scripts ("ERR Error running script (call to
 * f_…): @user_script:6: -OOM command not allowed …"); 7.0 puts the word
 * first. Both forms give the same class. Texts of a server are data: nothing
 * beyond the word (and the documented wrapper) is looked at, except the few
 * whole phrases of phrases[], which carry no word of their own.
 *
 * Every class but NOSCRIPT means that nothing was applied: our scripts have
 * no command that can fail after their first write. */
#include <string.h>

#include "store/redis/redis_i.h"

static const struct {
    const char *word;
    error_kind kind;
} words[] =
    {
        {"LOADING", E_RETRY},    /* reading its dump                          */
        {"BUSY", E_RETRY},       /* somebody's script runs for too long       */
        {"MASTERDOWN", E_RETRY}, /* replica without its primary               */
        {"TRYAGAIN", E_RETRY},   /* slot under migration                      */
        {"CLUSTERDOWN", E_RETRY},
        {"READONLY", E_DROP}, /* became a replica                          */
        {"NOAUTH", E_DENIED},
        {"WRONGPASS", E_DENIED},
        {"NOPERM", E_DENIED},
        {"OOM", E_STORE},        /* maxmemory                                 */
        {"MISCONF", E_STORE},    /* cannot write its dump                     */
        {"NOREPLICAS", E_STORE}, /* min-replicas-to-write                     */
        {"DENIED", E_STORE},     /* protected mode                            */
        {"MOVED", E_STORE},      /* a cluster: not this URL scheme            */
        {"ASK", E_STORE},
        {"CROSSSLOT", E_STORE},
        {"SNIBFLOOR", E_STORE},
        {"SNIBCLOCK", E_STORE},
        {"SNIBLATE", E_STORE},
        {"WRONGTYPE", E_CORRUPT},
        {"CORRUPT", E_CORRUPT}, /* our scripts: a record is not ours         */
        {"NOSCRIPT", E_NOSCRIPT},
        {"SNIBARG", E_BUG},
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

static const char *find(const char *text, size_t size, const char *what)
{
    return memmem(text, size, what, strlen(what));
}

static bool word_kind(const char *text, size_t size, error_kind *ret)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].word);
        if (size >= n && !memcmp(text, words[i].word, n) &&
            (size == n || text[n] == ' ')) {
            *ret = words[i].kind;
            return true;
        }
    }
    return false;
}

error_kind snib__redis_error_kind(const char *text, uint32_t size)
{
    error_kind kind = E_STORE;
    const char *end = text + size;
    if (word_kind(text, size, &kind)) {
        return kind;
    }
    if (size > 4 && !memcmp(text, "ERR ", 4)) {
        if (find(text, size, "Error running script")) {
            const char *p = find(text, size, "@user_script");
            while (p && (p = find(p, (size_t)(end - p), ": "))) {
                p += 2; /* 6.2 has the dash before its own words only     */
                p += p < end && *p == '-';
                if (word_kind(p, (size_t)(end - p), &kind)) {
                    return kind;
                }
            }
        }
        for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) {
            if (find(text, size, phrases[i].phrase)) {
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

void snib__redis_error_text(char *ret, size_t size, const char *text,
                            uint32_t text_size)
{
    size_t n = 0;
    for (; n + 1 < size && n < text_size; n++) {
        ret[n] = text[n] >= 0x20 && text[n] < 0x7f ? text[n] : '?';
    }
    ret[n] = 0;
}
