/* tests/unit/test_words_same.c — the pure parts of src/core by chance: store
 * URLs, names, who stands behind a claim, scores of a ring, versions of values,
 * words of refusals and of forced releases, who waits for whom.
 *
 * What they say of inputs by dice, good ones and hostile, is a number a run, in
 * words_same.txt (core_same.h). */
#include "words_versions.h"
#include "words_waits.h"

#include "base/error.h"
#include "core/about.h"
#include "core/name.h"
#include "core/ring.h"
#include "core/url.h"

enum { RUNS = 400, TURNS = 60 };

static char text[6000];
static size_t used;

static void add(const char *piece)
{
    size_t n = strlen(piece);
    if (used + n < sizeof text) {
        memcpy(text + used, piece, n + 1);
        used += n;
    }
}

#define ADD_ONE_OF(...)                                                        \
    do {                                                                       \
        static const char *const some[] = {__VA_ARGS__};                       \
        add(ONE_OF(some));                                                     \
    } while (0)

static void add_many(char c, uint32_t n)
{
    for (; n; n--) {
        add((const char[]){c, 0});
    }
}

/* One byte is another, or there is one more or less. */
static void damage(void)
{
    static const char bytes[] = "%?@:/[],&=+\x01\x7f\xff gGzZ09";
    size_t at = used ? below((uint32_t)used) : 0;
    char c = bytes[below(sizeof bytes - 1)];
    switch (below(3)) {
    case 0:
        text[at] = used ? c : 0;
        break;
    case 1:
        memmove(text + at, text + at + (used > 0), used - at + (used == 0));
        used -= used > 0;
        break;
    default:
        if (used + 2 < sizeof text) {
            memmove(text + at + 1, text + at, used - at + 1);
            text[at] = c;
            used++;
        }
    }
}

/* -- URLs --------------------------------------------------------------------- */

static void add_words(void)
{
    ADD_ONE_OF("", "a", "anna", "%41b", "x%2Fy", "~_-.", "p%C3%A4ss", "%7e",
               "\xc3\xa4", "s e", "%", "%4", "%00", "%7f", "%1F", "%zz",
               "A,B+c", "!*'()", "%25", "%aF", "AZaz09", "@[`{", "%Aa%0f",
               "%G0", "%0g", "%`0", "%:0");
}

static void add_host(void)
{
    ADD_ONE_OF("h", "db.example", "10.0.0.1", "[::1]", "AZaz09", "[AFaf09::]",
               "[fe80::1%25eth0]", "", "[1:2:3:4:5:6:1.2.3.4]", "a_b-c", "A.B",
               "h!", "[::1", "[::g]", "[1]", "[::]", "[:]", "[::1]x",
               "[fe80::%25]", "[fe80::%eth]", "[fe80::%25e!]", "[fe80::%25x]",
               "[::1%25abcdefghijklmno]", "[::1%25abcdefghijklmnop]");
    if (one_in(30)) {
        add_many('h', 251 + below(4));
    }
    if (one_in(30)) {
        add("[");
        add_many(':', 44 + below(3));
        add("]");
    }
    if (one_in(2)) {
        ADD_ONE_OF(":6379", ":1", ":65535", ":65536", ":0", ":", ":99999",
                   ":100000", ":12a", ":00007", ":x", ":a1");
    }
}

static void add_query(void)
{
    uint32_t n = one_in(20) ? 15 + below(3) : below(3);
    for (uint32_t i = 0; i < n; i++) {
        add(i ? "&" : "?");
        if (n > 10) {
            add((const char[]){(char)('a' + i), '=', 0});
            continue;
        } else {
            ADD_ONE_OF("db", "wait", "socket", "Password", "my_secret", "AUTH",
                       "token", "credit", "pwd", "passwor", "node_ms", "%61",
                       "", "a", "toke", "Z~", "aut");
        }
        add(one_in(25) ? "" : "=");
        ADD_ONE_OF("", "1", "/run/x.sock", "a%20b", "%3F", "~:,+", "%", "a=b",
                   "q\"", "\xff");
    }
    if (one_in(30)) {
        ADD_ONE_OF("?", "&", "?&", "@", "#x");
    }
}

static void add_url(void)
{
    ADD_ONE_OF("redis:", "rediss:", "file:", "memory:", "redlock:", "redlocks:",
               "redis+unix:", "+unix:", "x+unix:", "ReDiS:", "a-b.c+d:", "1a:",
               "", ":", "s!:", "Z9:", "anna:", "a", "z:");
    if (one_in(3)) {
        ADD_ONE_OF("", "//", "/", "///", "/a/b.db", "./x", "a@b", "anna:p@h",
                   "/x@y", "/x:y@z", ".x@y", ".x:y@z", "//x@y", "a,b+c:d@",
                   "%2F%2Fx", "%2F", "x%40y", "~\xc3\xa4", "%2f/y", "C:\\x");
        add_words();
        add_query();
        return;
    }
    add("//");
    if (one_in(3)) {
        add_words();
        ADD_ONE_OF("", ":", ":pw", ":p@w", ":%2F", "::");
        add_words();
        add("@");
    }
    for (uint32_t n = one_in(4) ? 2 + below(7) : 1; n; n--) {
        add_host();
        add(n > 1 ? "," : "");
    }
    ADD_ONE_OF("", "", "/", "/0", "/15", "/a%20b", "/x@y", "//", "/\x7f");
    add_query();
}

static void take_apart(void)
{
    struct snib__url *url;
    struct snib_error error = {0};
    add_url();
    if (one_in(60)) {
        add_many('x', 4094 - (uint32_t)(used < 4000 ? used : 4000) + below(4));
    }
    for (uint32_t n = one_in(3) ? below(3) : 0; n; n--) {
        damage();
    }
    snib__mem_fail_at(one_in(40), false);
    snib_err err = snib__url_parse(one_in(90) ? NULL : text, &url, &error);
    snib__mem_fail_at(0, false);
    TELL("url", err, url != NULL);
    tell_error(&error);
    if (!url) {
        assert_true(err != SNIB_ERR_OK);
        return;
    }
    tell_text("scheme", url->scheme);
    tell_text("user", url->user);
    tell_text("password", url->password);
    tell_text("host", url->host);
    tell_text("path", url->path);
    tell_text("safe", url->safe);
    TELL("port", url->port, url->nodes, url->queries);
    for (uint32_t i = 0; i < url->nodes; i++) {
        tell_text("node", url->node[i].host);
        TELL("port", url->node[i].port);
    }
    for (uint32_t i = 0; i < url->queries; i++) {
        tell_text("key", url->query[i].key);
        tell_text("value", snib__url_query(url, url->query[i].key));
    }
    tell_text("none", snib__url_query(url, "nothing"));
    snib__url_free(url);
}

/* -- names ---------------------------------------------------------------------- */

static void add_bytes(uint32_t n)
{
    static const char bytes[] = "abc{}%~ \x01\x1f\x20\x7e\x7f\x80\xff/09AF";
    for (; n; n--) {
        add((const char[]){bytes[below(sizeof bytes - 1)], 0});
    }
}

static void use_name(void)
{
    struct snib__name *a = NULL, *b = NULL;
    struct snib_error error = {0};
    char raw[SNIB_NAME_MAX];
    add_bytes(one_in(20) ? 509 + below(6) : one_in(4) ? 0 : below(20));
    snib__mem_fail_at(one_in(30), false);
    snib_err err = snib__name_new(one_in(40) ? NULL : text,
                                  one_in(2) ? used : 0, &a, &error);
    snib__mem_fail_at(0, false);
    TELL("name", err, a != NULL);
    tell_error(&error);
    if (!a) {
        return;
    }
    tell_bytes("raw", a->raw, a->raw_size + 1);
    tell_bytes("safe", a->safe, a->safe_size + 1);
    TELL("hash", (int64_t)a->hash, a->raw == a->safe);
    if (one_in(2)) {
        damage();
    }
    if (!snib__name_new(text, used, &b, &error)) {
        TELL("same", snib__name_same(a, b));
        b->hash = a->hash;
        TELL("same", snib__name_same(a, b));
    }
    assert_int_equal(snib__name_decode(a->safe, a->safe_size, raw),
                     a->raw_size);
    assert_memory_equal(raw, a->raw, a->raw_size);
    snib__free(a);
    snib__free(b);
}

/* A spelling that may be another's. */
static void decode_name(void)
{
    char raw[SNIB_NAME_MAX];
    for (uint32_t n = one_in(20) ? 510 + below(4) : below(6); n; n--) {
        ADD_ONE_OF("a", "%7B", "%7D", "%25", "~", " ", "%00", "%FF", "Z");
    }
    if (one_in(2)) {
        ADD_ONE_OF("%", "%7", "%7b", "%41", "{", "\x7f", "\x80", "%G0", "%0G",
                   "%@0", "%0@", "%:0", "%/0", "%20", "%7E", "%7F", "%1F",
                   "%80");
        ADD_ONE_OF("", "", "x");
    }
    size_t size = snib__name_decode(text, used, raw);
    TELL("decoded", size != 0);
    tell_bytes("raw", raw, size);
}

/* -- who stands behind a claim ----------------------------------------------------- */

static void some_words(char *to, size_t size)
{
    static const char *const pieces[] = {
        "a",        "b c",      "\xc3\xa4",         "%&=",    "\xe2\x82\xac",
        "~,@:/-._", "\x01\x7f", "\xf0\x9f\x98\x80", "AMZ09z", "@[`{/:"};
    size_t n = 0, most = one_in(3) ? size : below((uint32_t)size);
    memset(to, 0, size);
    while (n < most && !one_in(40)) {
        const char *p = ONE_OF(pieces);
        for (; *p && n < most; p++) {
            to[n++] = *p; /* with no NUL when it is full */
        }
    }
}

static int64_t some_number(void)
{
    static const int64_t numbers[] = {0, 1, -1, 7, 4312, INT64_MAX, INT64_MIN};
    return ONE_OF(numbers);
}

static void tell_about(const struct snib__about *a)
{
    tell_text("host", a->host);
    tell_text("user", a->user);
    tell_text("program", a->program);
    tell_text("reason", a->reason);
    TELL("about", a->pid, a->start, a->since_ms, a->owner, a->held_count,
         a->above_count, a->leashed);
    for (uint32_t i = 0; i < a->held_count; i++) {
        TELL("held", (int64_t)a->held[i]);
    }
}

static void write_about(void)
{
    struct snib__about a = {.leashed = one_in(2)}, b;
    struct snib__buf out;
    some_words(a.host, sizeof a.host);
    some_words(a.user, sizeof a.user);
    some_words(a.program, sizeof a.program);
    some_words(a.reason, sizeof a.reason);
    a.pid = some_number();
    a.start = some_number();
    a.since_ms = some_number();
    a.owner = some_number();
    a.held_count = one_in(2) ? below(SNIB__ABOUT_HELD + 1) : 0;
    a.above_count = below(a.held_count + 1);
    for (uint32_t i = 0; i < a.held_count; i++) {
        a.held[i] = some_bits() >> below(64);
    }
    snib__buf_init(&out, 4000);
    snib__about_write(&a, &out);
    assert_true(snib__buf_size(&out) <= SNIB__ABOUT_MAX);
    tell_bytes("about", snib__buf_bytes(&out), snib__buf_size(&out));
    snib__about_read(snib__buf_bytes(&out), snib__buf_size(&out), &b);
    tell_about(&b);
    snib__buf_free(&out);
}

static void read_about(void)
{
    struct snib__about a;
    for (uint32_t n = below(7); n; n--) {
        ADD_ONE_OF("host=", "user=", "program=", "reason=", "pid=", "start=",
                   "since=", "leashed=", "owner=", "held=", "above=", "hosts=",
                   "=", "", "Host=", "pid");
        ADD_ONE_OF("a", "%41%42", "%c3%A4", "%", "%4", "%00", "%zz", "%1g",
                   "12", "0", "1", "2", "01", "9223372036854775807", "-1", "1x",
                   "", "9223372036854775808", "92233720368547758070", "/", ":",
                   "%%", "0123456789abcdef",
                   "0123456789ABCDEF,00000000000000ff", "0123456789abcde",
                   "0123456789abcdef0", "0123456789abcdeg", "fedcba9876543210,",
                   "`", "@", "%G0", "%@1");
        if (one_in(6)) {
            add_bytes(below(200));
        }
        if (one_in(8)) {
            for (uint32_t k = 0; k < 4 + below(6); k++) {
                add("00000000000000a1,");
            }
        }
        if (one_in(30)) {
            add_many('w', 500 + below(30));
        }
        add(one_in(6) ? "" : "&");
    }
    snib__about_read(one_in(50) ? NULL : text, used, &a);
    tell_about(&a);
}

/* -- the ring --------------------------------------------------------------------- */

static void score(void)
{
    add_bytes(below(20));
    uint64_t key = snib__ring_hash(text, used), member = some_bits();
    TELL("ring", (int64_t)key, (int64_t)snib__ring_mix(member),
         (int64_t)snib__ring_score(member, below(5), key));
}

/* -- a run ------------------------------------------------------------------------- */

static void live(void)
{
    static void (*const parts[])(void) = {
        take_apart,  take_apart,    take_apart,      use_name,      decode_name,
        write_about, read_about,    score,           change_values, refuse,
        revoke,      look_at_waits, unpack_versions, look_at_waits};
    for (int i = 0; i < TURNS; i++) {
        used = 0;
        text[0] = 0;
        ONE_OF(parts)();
    }
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/words_same.txt",
        .title = "Run, what pure parts of src/core say: test_words_same.c",
        .first = 1,
        .last = RUNS,
        .run = same_run,
    };
    return same_main(argc, argv, &list);
}
