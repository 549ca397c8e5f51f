/* tests/unit/redis_says.h — what a server says to the store, by chance: errors
 * of each class and in each wrapping, answers of the right shape whose parts
 * may be something else, grants that are pushed. */
#ifndef SNIB_TESTS_REDIS_SAYS_H
#define SNIB_TESTS_REDIS_SAYS_H

#include "redis_heard.h"

#include "snib/value.h"

enum { WIRE = 1 << 19 };

/* What is on its way to the store, a line each. */
static struct wire {
    char bytes[WIRE];
    size_t start, end;
} wires[SESSIONS];

static int at; /* the line that is spoken on                              */

static void put(const void *bytes, size_t size)
{
    struct wire *w = &wires[at];
    assert_true(w->end + size <= WIRE);
    memcpy(w->bytes + w->end, bytes, size);
    w->end += size;
}

static void put_text(const char *text)
{
    put(text, strlen(text));
}

static void put_head(char type, int64_t n)
{
    char text[32];
    put(text,
        (size_t)snprintf(text, sizeof text, "%c%" PRId64 "\r\n", type, n));
}

static void put_bulk(const void *bytes, size_t size)
{
    put_head('$', (int64_t)size);
    put(bytes, size);
    put_text("\r\n");
}

/* -- errors ---------------------------------------------------------------------- */

static const char *any_error(void)
{
    static const char *const heads[] = {
        "",
        "",
        "",
        "",
        "ERR ",
        "ERR Error running script (call to f_5): @user_script:6: ",
        "ERR Error running script (call to f_5): @user_script:6: -",
        "ERR Error running script (call to f_5): @user_script: 6: user: ",
        "ERR Error running script (call to f_5): @user_scrip:6: ",
        "ERR Error running scripts: @user_script:6: ",
        "ERR Error running script",
        "ERR Error running script: ",
        "@user_script: 6: -",
        "err "};
    static const char *const words[] = {
        "LOADING",     "LOADING",   "BUSY",      "MASTERDOWN", "TRYAGAIN",
        "CLUSTERDOWN", "READONLY",  "READONLY",  "NOAUTH",     "WRONGPASS",
        "NOPERM",      "OOM",       "MISCONF",   "NOREPLICAS", "DENIED",
        "MOVED",       "ASK",       "CROSSSLOT", "SNIBFLOOR",  "SNIBCLOCK",
        "SNIBLATE",    "WRONGTYPE", "WRONGTYPE", "CORRUPT",    "NOSCRIPT",
        "NOSCRIPT",    "SNIBARG",   "EXECABORT", "SNIX ",      "SNIBS",
        "SNIB",        "",          "-OOM",      "OO",         "ERR",
        "E",           "oom"};
    static const char *const phrases[] = {
        "The user executing the script can't",
        "ACL failure in script",
        "has no permissions",
        "AUTH <password> called without any password",
        "Client sent AUTH, but no password is set",
        "invalid password",
        "invalid username-password",
        "DB index is out of range",
        "max number of clients reached",
        "unknown command",
        "unknown command 'HELLO', with args",
        "unknown comman",
        "has no permission",
        "x"};
    static const char *const tails[] = {
        "",          " ",
        " so it is", "x",
        ":",         ": -OOM not now",
        " keys *",   " no \x1f[1m\x7f\x80 ~text",
        ": LOADING", " of several keys"};
    static char text[800];
    int n;
    const char *head = ANY_OF(heads), *word = ANY_OF(words);
    const char *tail = ANY_OF(tails);
    if (one_in(4)) {
        word = ANY_OF(phrases);
        head = one_in(6) ? head : "ERR ";
        tail = one_in(2) ? tail : "";
    }
    if (one_in(same.topic == ERRORS ? 4 : 20)) {
        head = "";
        word = "NOSCRIPT";
    }
    n = snprintf(text, sizeof text, "%s%s%s", head, word, tail);
    if (one_in(12)) {
        memset(text + n, 'y', 400);
        text[n + (int)below(400)] = 0;
    }
    return text;
}

static void put_error(void)
{
    put_text("-");
    put_text(any_error());
    put_text("\r\n");
}

/* -- parts of an answer ------------------------------------------------------------ */

/* Something else in the place of what is due; true: it stands there. */
static bool astray(void)
{
    static const char *const other[] = {
        "$-1\r\n",    "*-1\r\n", "*0\r\n",       "*2\r\n:1\r\n$3\r\nabc\r\n",
        "$0\r\n\r\n", "+OK\r\n", "$2\r\n17\r\n", "$3\r\n017\r\n",
        ":0\r\n",     ":1\r\n",  ":-1\r\n"};
    if (!one_in(same.astray)) {
        return false;
    }
    if (one_in(6)) {
        put_error();
    } else {
        put_text(ANY_OF(other));
    }
    return true;
}

static void say_int(int64_t right)
{
    if (!astray()) {
        put_head(':', number(right));
    }
}

static void say_bytes(const void *bytes, size_t size)
{
    if (!astray()) {
        put_bulk(bytes, size);
    }
}

static void say_text(const char *text)
{
    say_bytes(text, strlen(text));
}

/* As Redis itself answers: a text. */
static void say_digits(int64_t right)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, number(right));
    say_text(text);
}

/* Now and then the head says another number than what follows. */
static void say_list(uint32_t n)
{
    if (same.astray && one_in(40 * (uint64_t)same.astray)) {
        heard.session[at].framed = false;
        n = (uint32_t)below(8);
    }
    put_head('*', n);
}

/* n of them, now and then the last ones are missing. */
static void say_ints(const int64_t *v, uint32_t n)
{
    if (one_in(same.astray)) {
        n -= (uint32_t)below(n < 3 ? n : 3);
    }
    say_list(n);
    for (uint32_t i = 0; i < n; i++) {
        say_int(v[i]);
    }
}

/* -- locks ------------------------------------------------------------------------- */

static int64_t clock_said(void)
{
    return one_in(40) ? server_clock() + (int64_t)below(9) - 4 : server_clock();
}

static int64_t token_said(int64_t clock)
{
    static const int64_t odd[] = {0, -1, 1, TOP53 - 1, TOP53, TOP53 + 1};
    static const int64_t upgrade_of[] = {-1, 0, 1023, 1024, 1025};
    int64_t token = clock * 1024 + (int64_t)below(64);
    if (one_in(10)) {
        token = (clock + FAR_MS) * 1024 + ANY_OF(upgrade_of);
    } else if (one_in(20)) {
        token = ANY_OF(odd);
    }
    return token;
}

static int64_t code_said(void)
{
    static const int8_t mostly[] = {1, 1, 1, 1, 1, 1, 1, 1,  1, 1,  2, 3,
                                    3, 4, 5, 6, 7, 8, 9, 10, 0, 11, -1};
    static const int8_t waits[] = {2, 2, 2, 2, 2, 2, 2, 3, 3,
                                   3, 3, 3, 1, 1, 1, 4, 5, 8};
    bool waits_here =
        same.topic == WAITING || one_in(same.topic == GREETINGS ? 2 : 12);
    return waits_here ? ANY_OF(waits) : ANY_OF(mostly);
}

static int64_t lease_said(int64_t lease)
{
    static const int64_t upgrade_of[] = {-1, 0, 1};
    return one_in(3)   ? lease + ANY_OF(upgrade_of)
           : one_in(8) ? ANY_OF(upgrade_of)
           : one_in(8) ? lease / 3
                       : lease;
}

/* What is left of a holder's lease. */
static int64_t left_said(void)
{
    static const int64_t left[] = {0,   1,    5,     30,        200,       500,
                                   950, 3000, 30000, 172800000, 172800001, -1};
    return ANY_OF(left);
}

/* The reply of acquire.lua: lease as asked; k: what was pushed meanwhile, or
 * NULL. */
static void say_acquired(int64_t lease, const struct known *k)
{
    static const int64_t counts[] = {
        1, 1, 5, 0, -1, UINT32_MAX, INT64_C(1) << 32};
    static const int64_t sizes[] = {0, 1, 5, 1000000000, 1000000001, -1};
    static const int64_t rooms[] = {31, 31, 31, 0, 1, 1024, 1025, -1};
    static const int64_t places[] = {
        1, 2, 3, 3, 0, UINT32_MAX, INT64_C(1) << 32};
    int64_t code = code_said(), clock = clock_said();
    bool pushed = k && k->token && one_in(2);
    if (pushed && one_in(2)) {
        clock = k->ends + (int64_t)below(3) - 1;
    }
    if (pushed) {
        code = 1 + (int64_t)below(2);
    }
    int64_t v[8] = {code, clock};
    uint32_t n = 2;
    if (code == 1) {
        v[n++] = pushed ? k->token + (int64_t)below(3) - 1 : token_said(clock);
        v[n++] = ANY_OF(rooms);
        v[n++] = lease_said(lease);
        v[n++] = ANY_OF(counts);
        v[n++] = ANY_OF(counts);
        n -= one_in(3) ? (uint32_t)below(3) : 0;
    } else if (code == 2) {
        v[n++] = ANY_OF(places);
        v[n++] = left_said();
    } else if (code == 3) {
        v[n++] = left_said();
    } else if (code == 6) {
        v[n++] = ANY_OF(sizes);
    }
    say_ints(v, n);
}

static void say_several(const struct command *c)
{
    uint32_t n = c->locks;
    n -= one_in(same.astray) ? (uint32_t)below(n) : 0;
    say_list(n);
    for (uint32_t i = 0; i < n; i++) {
        if (one_in(8)) {
            put_head('*', 3);
            say_int(0);
            say_int(clock_said());
            say_text(any_error());
        } else {
            say_acquired(c->lease[i], NULL);
        }
    }
}

static const char *revoked_said(void)
{
    static const char *const texts[] = {"REVOKED by anna on ci-7: bad",
                                        "REVOKED ",
                                        "REVOKED",
                                        "REVOKE",
                                        "REVOKEX by",
                                        "",
                                        "-",
                                        "REVOKED \x01\xff"};
    static char text[500];
    if (one_in(10)) {
        memset(text, 'z', sizeof text - 1);
        memcpy(text, "REVOKED ", 8);
        return text;
    }
    return ANY_OF(texts);
}

static void say_renewed(uint32_t n)
{
    static const int64_t codes[] = {1,
                                    1,
                                    1,
                                    1,
                                    1,
                                    1,
                                    0,
                                    2,
                                    3,
                                    4,
                                    5,
                                    6,
                                    -1,
                                    INT64_C(4) + UINT32_MAX,
                                    INT64_C(5) + UINT32_MAX,
                                    INT64_C(6) + UINT32_MAX};
    n -= one_in(same.astray) ? (uint32_t)below(n + 1) : 0;
    say_list(n + 1);
    say_int(clock_said());
    for (uint32_t i = 0; i < n; i++) {
        if (one_in(8)) {
            say_text(revoked_said());
        } else if (one_in(8)) {
            char text[900];
            const char *dash = one_in(2) ? "-" : "";
            snprintf(text, sizeof text, "%s%s", dash, any_error());
            say_text(text);
        } else {
            say_int(ANY_OF(codes));
        }
    }
}

static void say_released(void)
{
    static const int64_t codes[] = {1, 1, 1, 0, 2, 2, 3, -1};
    int64_t code = ANY_OF(codes);
    bool why = one_in(2);
    say_list(1 + why);
    say_int(code);
    if (why) {
        say_text(revoked_said());
    }
}

static void say_cancelled(void)
{
    int64_t code = 1 + (int64_t)below(3);
    int64_t v[2] = {code, token_said(server_clock())};
    say_ints(v, 1 + (uint32_t)one_in(2));
}

static void say_terms(void)
{
    static const int64_t sizes[] = {-1, 0, 1, 7, 1000000000, 1000000001};
    static const int64_t codes[] = {1, 1, 1, 0, 0, 4, 6, 6, 9, 2, -1};
    int64_t v[6] = {0};
    v[0] = ANY_OF(codes);
    v[1] = clock_said();
    v[2] = ANY_OF(sizes);
    v[3] = (int64_t)below(3);
    v[4] = (int64_t)below(3) - 1;
    v[5] = (int64_t)below(4);
    say_ints(v, one_in(2) || v[0] < 2 ? 6 : v[0] == 6 ? 3 : 2);
}

/* -- values ------------------------------------------------------------------------- */

static int64_t version_said(void)
{
    static const int64_t odd[] = {0, 1, -1, TOP53 - 1, TOP53};
    return one_in(3) ? ANY_OF(odd) : server_clock() * 1024;
}

static void say_value(void)
{
    static char bytes[SNIB_VALUE_MAX + 1];
    size_t size = one_in(12) ? SNIB_VALUE_MAX + below(2) : below(30);
    memset(bytes, 'v', size);
    say_list(2);
    say_int(version_said());
    say_bytes(bytes, size);
}

static void say_changed(void)
{
    static const int64_t codes[] = {1, 1, 1, 0, 0, 4, 5, 2, 3, 6, -1};
    int64_t v[3] = {0};
    v[0] = ANY_OF(codes);
    v[1] = clock_said();
    v[2] = version_said();
    say_ints(v, v[0] <= 1 || one_in(3) ? 3 : 2);
}

/* -- what nobody asked for ------------------------------------------------------------ */

/* So that it is over just now, or is not yet. */
static int64_t claim_said(const struct known *k, int64_t sent_ns)
{
    static const int64_t odd[] = {0, 1, 3000, 86400000, 200};
    int64_t elapsed = (heard.now.ns - sent_ns) / 1000000;
    return one_in(3)   ? elapsed + (int64_t)below(3) - 1
           : one_in(4) ? ANY_OF(odd)
                       : k->lease + (one_in(6) ? 1 : 0);
}

static int grant_text(char *text, size_t size, struct known *k)
{
    static const int64_t slots[] = {0, 3, UINT32_MAX, INT64_C(1) << 32};
    static const int64_t rooms[] = {31, 31, 0, 1024, 1025};
    static const char *const ends[] = {"", "", "", "", "", "", " ", "}", "x"};
    int which = one_in(3) ? (int)below(3) : 0;
    int64_t clock = clock_said(), token = token_said(clock);
    int64_t claim = claim_said(k, k->sent_ns[which]);
    int width = one_in(16) ? 16 + (int)below(3) : 1;
    const char *key = one_in(12) ? (one_in(2) ? "snib:{}" : "snib:{") : k->key;
    int64_t reserve = ANY_OF(rooms), poll = one_in(12) ? 0 : k->poll[which];
    int n = snprintf(text, size,
                     "g %s %0*" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                     " %" PRId64 " ",
                     k->id, width, token, reserve, claim, poll, clock);
    if (one_in(5)) {
        n +=
            snprintf(text + n, size - (size_t)n, "%" PRId64 " ", ANY_OF(slots));
    }
    n += snprintf(text + n, size - (size_t)n, "%s%s", key, ANY_OF(ends));
    if (which < 2 && claim > 0) {
        k->token = token;
        k->ends = clock + claim;
    }
    return n;
}

static struct known *last_known(void)
{
    struct known *last = &heard.known[0];
    for (int i = 1; i < KNOWN; i++) {
        if (heard.known[i].sent_ns[0] > last->sent_ns[0]) {
            last = &heard.known[i];
        }
    }
    return last;
}

static void push(void)
{
    static const struct known nobody;
    struct known none = nobody, *k = &heard.known[below(KNOWN)];
    if (!one_in(4) && heard.known_count) { /* the last that was heard    */
        k = last_known();
    }
    char text[500];
    int n;
    if (!*k->id) {
        k = &none;
        memset(none.id, '0', 32);
    }
    if (one_in(5)) {
        n = snprintf(text, sizeof text, "r %s%s", k->id, one_in(8) ? " " : "");
    } else {
        n = grant_text(text, sizeof text, k);
    }
    if (one_in(12)) { /* one byte of it is another */
        char *byte = text + below(one_in(2) ? 40 : (uint64_t)n);
        *byte = ANY_OF("0aA :-}g/{`~");
    }
    if (one_in(16)) {
        n = (int)below((uint64_t)n + 1);
    }
    at = SUBS;
    heard.session[at].framed = false; /* not for us, it is a reply           */
    bool whole = !one_in(20);
    put_head('*', 2 + whole);
    say_text("message");
    say_text(one_in(16) ? "snib:other" : heard.channel[one_in(3)]);
    if (whole && one_in(20) && !memchr(text, '\n', (size_t)n)) {
        put_text("+"); /* a status, not a text                             */
        put(text, (size_t)n);
        put_text("\r\n");
    } else if (whole) {
        say_bytes(text, (size_t)n);
    }
    show("  push %.*s", n, text);
}

#endif
