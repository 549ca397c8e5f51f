/* tests/unit/redis_heard.h — what the store has asked a server for: the words
 * of each command, stirred into the number, and what an answer needs of them.
 *
 * A script stands in the number as its place in the list, not as its text: a
 * change of a script is no change of the store. */
#ifndef SNIB_TESTS_REDIS_HEARD_H
#define SNIB_TESTS_REDIS_HEARD_H

#include "redis_dice.h"

#include "store/redis/redis_i.h"

enum {
    ROW = 2048,  /* commands of a line that are not answered yet          */
    WORDS = 700, /* of a command: 128 renewals have 644                   */
    KNOWN = 24,
    INBOX = 1 << 23
};

enum plain {
    P_OTHER,
    P_SCRIPT,
    P_HELLO,
    P_SELECT,
    P_SET,
    P_GET,
    P_TIME,
    P_SUBSCRIBE,
    P_PING,
    P_ROLE,
    P_INFO,
    P_CONFIG,
    P_SCAN,
    P_MULTI,
    P_QUEUED, /* SET and XADD behind MULTI */
    P_EXEC
};

struct command {
    enum plain what;
    int script;     /* P_SCRIPT                                           */
    uint32_t locks; /* of a SEVERAL, RENEW, DROP, EXEC                    */
    int64_t lease[BATCH_MAX];
    int64_t sent_ns;
    char id[33];   /* of the first                                       */
    char word[72]; /* SUBSCRIBE: the channel, CONFIG: of what            */
};

/* An acquire that was heard: of its waiter a grant may be told. */
struct known {
    char id[33], key[80];
    int64_t poll[3], sent_ns[3]; /* the last ones, newest first             */
    int64_t lease, token, ends;  /* of the grant that was pushed            */
};

static struct {
    snib_instant now;
    int64_t begun_ns, clock_ms; /* clock_ms: the server's, at that instant  */
    struct {
        struct command row[ROW];
        uint32_t first, count;
        char inbox[INBOX];
        size_t size;
        bool framed; /* each answer so far was one value                    */
        bool multi;
        uint32_t sets; /* behind it                                         */
    } session[SESSIONS];
    struct known known[KNOWN];
    uint32_t known_count;
    char client[33], channel[2][72];
} heard;

static int64_t server_clock(void)
{
    return heard.clock_ms + (heard.now.ns - heard.begun_ns) / 1000000;
}

struct word {
    const char *p;
    size_t n;
};

static bool word_is(struct word w, const char *text)
{
    return w.n == strlen(text) && !memcmp(w.p, text, w.n);
}

static int64_t word_number(struct word w)
{
    char text[24];
    snprintf(text, sizeof text, "%.*s", (int)w.n, w.p);
    return strtoll(text, NULL, 10);
}

static void keep(char *ret, size_t size, struct word w)
{
    snprintf(ret, size, "%.*s", (int)w.n, w.p);
}

static struct known *known_as(const char *id)
{
    for (uint32_t i = 0; i < KNOWN; i++) {
        if (!strcmp(heard.known[i].id, id)) {
            return &heard.known[i];
        }
    }
    return NULL;
}

static void know(struct word id, struct word key, int64_t poll, int64_t lease)
{
    char text[33];
    keep(text, sizeof text, id);
    struct known *k = known_as(text);
    if (!k) {
        k = &heard.known[heard.known_count++ % KNOWN];
        *k = (struct known){0};
        memcpy(k->id, text, sizeof text);
        keep(k->key, sizeof k->key, key);
    }
    for (int i = 2; i > 0; i--) {
        k->poll[i] = k->poll[i - 1];
        k->sent_ns[i] = k->sent_ns[i - 1];
    }
    k->poll[0] = poll;
    k->sent_ns[0] = heard.now.ns;
    k->lease = lease;
}

static int script_of(struct word how, struct word what)
{
    bool full = word_is(how, "EVAL");
    for (int s = 0; s < SNIB__SCRIPTS; s++) {
        const struct snib__redis_script *script = &snib__redis_scripts[s];
        if (full ? what.n == script->size &&
                       !memcmp(what.p, script->text, what.n)
                 : word_is(what, script->sha1)) {
            return s;
        }
    }
    fail_msg("no script of ours: %.*s", (int)(what.n < 60 ? what.n : 60),
             what.p);
    return -1;
}

static void hear_script(struct command *c, const struct word *w, uint32_t words)
{
    uint32_t keys = (uint32_t)word_number(w[2]);
    const struct word *arg = w + 3 + keys;
    assert_true(keys + 3 <= words);
    uint32_t args = words - 3 - keys;
    c->what = P_SCRIPT;
    c->script = script_of(w[0], w[1]);
    c->locks = 1;
    if (c->script == SNIB__SCRIPT_ACQUIRE ||
        c->script == SNIB__SCRIPT_SEVERAL) {
        bool one = c->script == SNIB__SCRIPT_ACQUIRE;
        c->locks = keys / 7;
        assert_int_equal(args, 16 * c->locks + !one);
        assert_in_range(c->locks, 1, BATCH_MAX);
        for (uint32_t i = 0; i < c->locks; i++) {
            const struct word *a = arg + !one + 16 * i;
            c->lease[i] = word_number(a[2]);
            know(a[1], w[3 + 7 * i], word_number(a[4]), c->lease[i]);
        }
        keep(c->id, sizeof c->id, arg[1 + !one]);
        keep(heard.client, sizeof heard.client, arg[!one]);
    } else if (c->script == SNIB__SCRIPT_RENEW) {
        c->locks = keys / 2;
        assert_int_equal(args, 1 + 3 * c->locks);
    } else if (c->script == SNIB__SCRIPT_DROP) {
        c->locks = keys;
        assert_int_equal(args, keys);
    }
}

/* A transaction of SETs and one XADD takes free mutexes. */
static void hear_packet(int i, struct command *c, struct word w)
{
    if (word_is(w, "MULTI")) {
        heard.session[i].multi = true;
        heard.session[i].sets = 0;
        c->what = P_MULTI;
    } else if (word_is(w, "EXEC")) {
        heard.session[i].multi = false;
        c->locks = heard.session[i].sets;
        c->what = P_EXEC;
    } else if (heard.session[i].multi) {
        heard.session[i].sets += word_is(w, "SET");
        c->what = P_QUEUED;
    }
}

/* One command. */
static void hear(int i, const struct word *w, uint32_t words)
{
    static const char *const plain[] = {
        [P_HELLO] = "HELLO", [P_SELECT] = "SELECT",
        [P_SET] = "SET",     [P_GET] = "GET",
        [P_TIME] = "TIME",   [P_SUBSCRIBE] = "SUBSCRIBE",
        [P_PING] = "PING",   [P_ROLE] = "ROLE",
        [P_INFO] = "INFO",   [P_CONFIG] = "CONFIG",
        [P_SCAN] = "SCAN"};
    struct command c = {.sent_ns = heard.now.ns};
    for (size_t k = P_HELLO; k < COUNT_OF(plain); k++) {
        if (word_is(w[0], plain[k])) {
            c.what = (enum plain)k;
        }
    }
    hear_packet(i, &c, w[0]);
    if (words > 2 && (word_is(w[0], "EVAL") || word_is(w[0], "EVALSHA"))) {
        hear_script(&c, w, words);
        stir(c.script);
    }
    if (c.what == P_SUBSCRIBE) {
        keep(c.word, sizeof c.word, w[1]);
        bool told = w[1].n > 2 && !memcmp(w[1].p + w[1].n - 2, ":r", 2);
        memcpy(heard.channel[told], c.word, sizeof c.word);
    } else if (c.what == P_CONFIG) {
        keep(c.word, sizeof c.word, w[words - 1]);
    }
    show("  line %d hears %.*s, %d words, script %d", i, (int)w[0].n, w[0].p,
         (int)words, c.what == P_SCRIPT ? c.script : -1);
    stir(i);
    stir(words);
    for (uint32_t k = 0; k < words; k++) {
        if (k != 1 || c.what != P_SCRIPT) {
            show("    %.*s", (int)(w[k].n < 90 ? w[k].n : 90), w[k].p);
            stir_bytes(w[k].p, w[k].n);
        }
    }
    assert_true(heard.session[i].count < ROW);
    heard.session[i]
        .row[(heard.session[i].first + heard.session[i].count++) % ROW] = c;
}

/* "*3" or "$5" and the line's end; NULL: not all of it is there. */
static const char *head_of(const char *p, const char *end, char type,
                           size_t *ret)
{
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop) {
        return NULL;
    }
    assert_int_equal(*p, type);
    assert_int_equal(stop[-1], '\r');
    *ret = 0;
    for (p++; p < stop - 1; p++) {
        assert_in_range(*p, '0', '9');
        *ret = *ret * 10 + (size_t)(*p - '0');
    }
    return stop + 1;
}

/* A whole command at p, or NULL. */
static const char *hear_one(int i, const char *p, const char *end)
{
    static struct word w[WORDS];
    size_t words, n;
    p = head_of(p, end, '*', &words);
    if (!p) {
        return NULL;
    }
    assert_in_range(words, 1, WORDS);
    for (size_t k = 0; k < words; k++) {
        p = p < end ? head_of(p, end, '$', &n) : NULL;
        if (!p || (size_t)(end - p) < n + 2) {
            return NULL;
        }
        w[k] = (struct word){p, n};
        assert_memory_equal(p + n, "\r\n", 2);
        p += n + 2;
    }
    hear(i, w, (uint32_t)words);
    return p;
}

static void hear_bytes(int i, const uint8_t *bytes, size_t size)
{
    char *inbox = heard.session[i].inbox;
    assert_true(heard.session[i].size + size <= INBOX);
    memcpy(inbox + heard.session[i].size, bytes, size);
    heard.session[i].size += size;
    const char *p = inbox, *end = inbox + heard.session[i].size, *next;
    while (p < end && (next = hear_one(i, p, end))) {
        p = next;
    }
    heard.session[i].size = (size_t)(end - p);
    memmove(inbox, p, heard.session[i].size);
}

static void hear_nothing_more(int i)
{
    heard.session[i].first = heard.session[i].count = 0;
    heard.session[i].size = 0;
    heard.session[i].framed = true;
}

static bool heard_next(int i, struct command *ret)
{
    if (!heard.session[i].count) {
        return false;
    }
    *ret = heard.session[i].row[heard.session[i].first];
    heard.session[i].first = (heard.session[i].first + 1) % ROW;
    heard.session[i].count--;
    return true;
}

#endif
