/* tests/unit/test_grantfile_same.c — what `snib acquire` hands out, as it is
 * shipped: grants as text and in files, who is asked about them, and SNIB_HELD,
 * against a world of the test's: see same.h, grantfile_world.h.
 *
 * A line is each call of libc and of the library, each answer, what is said, and
 * all that is read out of a text.
 * wraps: getrlimit open read __read_chk write close fsync fstat lstat unlink rename
 * wraps: renameat2 getpid geteuid getpwuid clock_gettime fork waitpid _exit
 * wraps: socket connect getsockopt setsockopt send recv __recv_chk poll
 * wraps: __poll_chk proc_boot_id proc_start proc_ended cli_open cli_open_as
 * wraps: snib_client_free snib_client_url snib_client_inspect snib_view_free
 * wraps: snib_lock_new snib_lock_free snib_grant_adopt snib_grant_status
 * wraps: snib_grant_abandon snib_release snib_client_store_status faccessat
 * wraps: gethostname */
#include "grantfile_library.h"

#include "cli/holder/grantfile.h"

enum { RUNS_MAX = 1000, MOVES = 24 };

#define CLIENT  "0123456789abcdef0123456789abcdef"
#define REQUEST "00000000000000aa00000000000000bb"
#define BOOT    "01234567-89ab-cdef-0123-456789abcdef"

/* The first one, as a rule. */
static const char *mostly(const char *what, const char *const list[], size_t n)
{
    return chance(what, 8) ? list[pick(what, n)] : list[0];
}

#define MOSTLY(what, ...)                                                      \
    mostly(what, (const char *const[]){__VA_ARGS__},                           \
           COUNT_OF(((const char *const[]){__VA_ARGS__})))

static const char *long_name(size_t size, char letter)
{
    static char text[4][SNIB_NAME_MAX + 2];
    static int turn;
    turn = (turn + 1) % 4;
    memset(text[turn], letter, size);
    text[turn][size] = 0;
    return text[turn];
}

static const char *some_name(void)
{
    static const char *const names[] = {"x", "a b", "n:\xc3\xa9", "a/b_-.+%",
                                        "\x01=:"};
    size_t i = pick("name", COUNT_OF(names) + 2);
    return i < COUNT_OF(names)
               ? names[i]
               : long_name(SNIB_NAME_MAX, i == COUNT_OF(names) ? 'n' : '\xff');
}

static const char *some_address(void)
{
    return MOSTLY("address", "1000.0123456789abcdef", "0.0123456789abcdef",
                  "4294967295.00000000000000ff", "12345678901.0123456789abcdef",
                  "1000.0123456789abcde", "1000.0123456789ABCDEF",
                  "1000.0123456789abcdef0", "x.0123456789abcdef", "1000",
                  ".0123456789abcdef", "0000000000000000000.0123456789abcdef",
                  "1000.0123456789abcde.", "");
}

/* -- grants ---------------------------------------------------------------------- */

static void tell_grant(const struct grantfile *g)
{
    tell("at %s, %lld since %lld, token %lld, boot %s, lease %lld", g->address,
         (long long)g->holder_process_pid, (long long)g->holder_start,
         (long long)g->token, g->boot, (long long)g->ttl_ms);
    tell("name %zu, store %s, none %d, %s as %s, kind %d of %u until %lld",
         g->name_size, g->store, g->no_holder, g->detached_grant, g->identity,
         (int)g->kind, g->permits, (long long)g->deadline_ns);
    same_stir(g->name, sizeof g->name);
}

static void make_plan(void)
{
    static const char *names[1];
    static const int64_t ttls[] = {30000, 50, 86400000};
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_WRITE,
                                      SNIB_KIND_READ, SNIB_KIND_PERMITS};
    names[0] = some_name();
    w.plan = (struct plan){.names = names,
                           .name_count = 1,
                           .kind = kinds[pick("kind", 4)],
                           .permits = chance("many", 4) ? SNIB_PERMITS_MAX : 3,
                           .ttl_ms = ttls[pick("ttl", 3)]};
    w.page = (struct plan_page){.holder_process_pid = HOLDER,
                                .deadline_ns = w.now + 30 * S};
    w.page.tokens[0] = chance("large", 3) ? INT64_MAX : 5;
    snprintf(w.page.address, sizeof w.page.address, "1000.0123456789abcdef");
    snprintf(w.page.client_id, sizeof w.page.client_id, CLIENT);
    snprintf(
        w.page.store, sizeof w.page.store, "%s",
        MOSTLY("store", "redis://h:6379/0", "file:/x/y\n", "redis://\x7f", ""));
    snprintf(w.page.detached_grant, sizeof w.page.detached_grant,
             "snib1:" CLIENT ":" REQUEST ":%lld", (long long)w.page.tokens[0]);
}

/* What is written down is read as it was. */
static void check_read(const struct grantfile *is, const struct grantfile *was)
{
    assert_int_equal(is->token, was->token);
    assert_int_equal(is->ttl_ms, was->ttl_ms);
    assert_int_equal(is->name_size, was->name_size);
    assert_memory_equal(is->name, was->name, was->name_size);
    assert_string_equal(is->boot, was->boot);
    assert_string_equal(is->address, was->address);
    assert_string_equal(is->detached_grant, was->detached_grant);
    assert_int_equal(is->holder_start, was->holder_start);
    assert_int_equal(is->deadline_ns, was->deadline_ns);
}

static void make_grant(void)
{
    struct grantfile again;
    make_plan();
    if (chance("detached", 2)) {
        grantfile_of_detached(&w.plan, &w.page, &w.g);
    } else {
        grantfile_of(&w.plan, &w.page, &w.g);
    }
    tell_grant(&w.g);
    memset(w.text, 'x', sizeof w.text);
    w.text[0] = 0;
    grantfile_text(&w.g, w.text);
    tell("grant %s", w.text);
    bool read = grantfile_read(&w.args, w.text, &again);
    assert_true(read || strlen(w.boot) < 18);
    if (read) {
        check_read(&again, &w.g);
        w.g = again; /* with what is only read                              */
    }
}

/* -- texts that are none, or nearly ------------------------------------------------------ */

static void compose_name(struct text *t)
{
    size_t i = pick("of names", 10);
    const char *bytes = long_name(SNIB_NAME_MAX + (i == 8), i ? 'n' : '\xff');
    if (i < 2 || i == 8) { /* as long as may be, and longer                 */
        text_add_percent(t, bytes, strlen(bytes));
        return;
    }
    text_add(t, MOSTLY("part of name", "x", "a%20b", "%C3%A9", "%", "%4", "%zz",
                       "", "%00", "a%3Ab", "a%3ab", "a b"));
}

static void compose_of_holder(struct text *t)
{
    text_add(
        t, MOSTLY("prefix", "snib1:", "snib1:", "snib2:", "snib1", "snib1::"));
    text_add(t, some_address());
    text_add(t, MOSTLY("pid", ":77", ":1", ":0", ":-1", ":9223372036854775807",
                       ":9223372036854775808", ":x", ""));
    text_add(t, MOSTLY("start", ".1234567:", ".0:", ".-5:", ".:", ":"));
    text_add(t, MOSTLY("token", "5:", "1:", "0:", "-1:", "9223372036854775807:",
                       ":", "x:"));
    text_add(t, MOSTLY("boot", "01234567-89ab-cdef", "00000000-0000-0000", "",
                       "01234567-89ab-cde", "01234567-89ab-cdef0",
                       "01234567-89ab-cdeX"));
    if (chance("old", 8)) {
        return;
    }
    text_add(t, MOSTLY("lease", ":30000:", ":1:", ":0:", ":-1:",
                       ":9999999999999999999:", ":99999999999999999999:", ":",
                       ":5", "::"));
    compose_name(t);
}

static void compose_detached(struct text *t)
{
    text_add(t, "snib1:nokeeper");
    text_add(t, MOSTLY("kind of it", ":", ":", ".read:", ".semaphore.3:",
                       ".semaphore.0:", ".semaphore.1000000000:",
                       ".semaphore.1000000001:", ".semaphore.-1:",
                       ".semaphore.:", ".semaphore.3", ".reader:", ".", "x:"));
    compose_name(t);
    text_add(t, MOSTLY("client", ":" CLIENT ":", ":0123:", "::",
                       ":" CLIENT "0:", ":0123456789ABCDEF0123456789abcdef:"));
    text_add(t, MOSTLY("request", REQUEST ":", "00:", ":", REQUEST "0:"));
    text_add(t, MOSTLY("its token",
                       "5:", "0:", "1:", "-1:", "9223372036854775807:",
                       "9999999999999999999:", "99999999999999999999:", ":"));
    text_add(t, MOSTLY("its lease", "30000:", "50:", "49:", "86400000:",
                       "86400001:", "0:", "-5:", ":"));
    text_add(t, MOSTLY("deadline", "1030000000000:", "1:", "0:", "-1:", ":",
                       "9223372036854775807:"));
    text_add(t, MOSTLY("its boot", "01234567-89ab-cdef", "0", "",
                       "01234567-89ab-cdef0", "01234567-89ab-cdef:", "g"));
}

/* One byte may be another one, or the end. */
static void damage(char *text)
{
    size_t size = strlen(text);
    if (size && chance("damaged", 8)) {
        text[pick("where", size)] = "0:.%fzF-\x00\x80"[pick("with", 10)];
    }
}

static void compose(char ret[GRANT_TEXT_MAX])
{
    struct text t = {.bytes = ret, .size = GRANT_TEXT_MAX};
    ret[0] = 0;
    if (w.text[0] && chance("a true one", 4)) {
        text_add(&t, w.text);
    } else if (chance("of a holder", 2)) {
        compose_of_holder(&t);
    } else {
        compose_detached(&t);
    }
    damage(ret);
}

static void put_tokenfile(const char *grant)
{
    char lines[BYTES - 1000];
    struct text t = TEXT_IN(lines);
    lines[0] = 0;
    text_add(&t, MOSTLY("first", "grant=", "grant", "Grant=", ""));
    text_add(&t, grant);
    text_add(&t, MOSTLY("line ends", "\n", "", "\n\n", "\r\n"));
    text_add(&t, MOSTLY("more lines", "token=5\nstore=redis://h:6379/0\nx=y\n",
                        "store=file:/x/y\n", "token=5\nstore=file:x",
                        "token=5\nstore=\n", "token=5\nstore=redis://\\x7f\n",
                        "token=5\nstore=redis://u:***@h\nstore=later\n"));
    if (chance("long store", 16)) {
        size_t size = STOREURL_MAX - 1 + pick("one more", 2);
        text_add(&t, "token=5\nstore=");
        for (size_t i = 0; i < size; i++) {
            text_add(&t, "s");
        }
        text_add(&t, "\n");
    }
    entry_put(there, node_new(S_IFREG | 0600, lines));
}

static void read_one(void)
{
    static struct grantfile g;
    char grant[GRANT_TEXT_MAX];
    memset(&g, 0, sizeof g);
    compose(grant);
    bool in_file = chance("in a file", 2);
    if (in_file && !chance("as it is", 5)) {
        put_tokenfile(grant);
    }
    const char *operand = !in_file                ? grant
                          : chance("nowhere", 12) ? "/t/no\nwhere"
                                                  : there;
    tell("reads %s", in_file ? operand : grant);
    bool read = grantfile_read(&w.args, operand, &g);
    tell("read %d", read);
    if (read) {
        tell_grant(&g);
        assert_true(g.name_size <= SNIB_NAME_MAX && g.token > 0);
        if (chance("goes on with it", 2)) {
            w.g = g;
        }
    }
}

/* -- files -------------------------------------------------------------------------------- */

static void write_one(void)
{
    struct grantfile again;
    make_grant();
    int place = grantfile_place(there);
    tell("place %d: %s, exit %d", place, grantfile_error(place),
         grantfile_exit(place));
    w.meddled = false;
    const struct node *was = node_at(there);
    int error = grantfile_write(there, &w.g, &w.plan, &w.page);
    tell("written %d: %s, exit %d", error, grantfile_error(error),
         grantfile_exit(error));
    tell_files();
    const struct node *is = node_at(there);
    if (error == GRANTFILE_OCCUPIED && !w.meddled && same.run % 3) {
        assert_ptr_equal(is, was); /* it is as it was                       */
    }
    if (error == 0 && !w.meddled) {
        assert_int_equal(is->mode, S_IFREG | 0600);
        w.whole = true;
        if (grantfile_read(&w.args, there, &again) && !w.meddled) {
            check_read(&again, &w.g);
        }
        w.whole = false;
    }
}

static void change_file(void)
{
    struct node *n = (struct node *)node_at(there);
    if (chance("something else", 3) || !n || !n->size) {
        something_is_there();
        return;
    }
    size_t most = chance("in its head", 2) && n->size > 40 ? 40 : n->size;
    n->bytes[pick("byte", most)] ^= 1;
    tell("a byte of it is another one");
}

static void remove_one(void)
{
    if (chance("written before", 2)) {
        write_one();
    }
    if (chance("changed before", 3)) {
        change_file();
    }
    grantfile_remove(there, &w.g);
    tell_files();
}

/* -- who is asked ------------------------------------------------------------------------- */

static void ask(void)
{
    struct control_request q = {.magic = CONTROL_MAGIC,
                                .verb = CONTROL_RENEW,
                                .lease_ms = 5000,
                                .token = w.g.token,
                                .holder_pid = 9};
    struct control_reply r = {0};
    enum grantfile_answer by = (enum grantfile_answer)99;
    int code = grantfile_ask(&w.g, &q, &r, &by);
    tell("asked: %d by %d", code, (int)by);
    assert_true(by == GRANTFILE_ANSWERED || code == CLI_LOST);
    if (by != GRANTFILE_ANSWERED) {
        r.text[0] = 0; /* nothing in it counts                              */
    } else {
        assert_non_null(memchr(r.text, 0, sizeof r.text));
        assert_non_null(memchr(r.store, 0, sizeof r.store));
        tell("%d %s %s cause %d", r.code, r.store, r.text, r.cause);
    }
    if (code == CLI_LOST && chance("says so", 2)) {
        grantfile_say_lost(&w.args, &w.g, by, r.text);
    }
}

static void say_lost(void)
{
    static const enum grantfile_answer all[] = {
        GRANTFILE_ANSWERED, GRANTFILE_GONE,    GRANTFILE_GONE,
        GRANTFILE_SILENT,   GRANTFILE_FOREIGN, GRANTFILE_SQUATTED};
    grantfile_say_lost(&w.args, &w.g, all[pick("who says so", 6)],
                       chance("no why", 2) ? "" : "it was\trevoked");
}

static void ask_store(void)
{
    int64_t deadline = 77;
    int code = 0;
    switch (pick("of the store", 4)) {
    case 0:
        code = detached_release(&w.args, &w.g);
        break;
    case 1:
    case 2:
        code = left_renew(&w.args, &w.g, chance("as acquired", 2) ? 0 : 7000,
                          &deadline);
        break;
    default:
        code = detached_deadline(&w.args, &w.g, &deadline);
        break;
    }
    tell("the store says %d, until %lld", code, (long long)deadline);
}

/* -- SNIB_HELD ------------------------------------------------------------------------------ */

static void tell_entry(const char *what, const struct held_entry *e)
{
    tell("%s %zu at %s", what, e->name_size, e->address);
    same_stir(e->name, e->name_size);
    assert_true(control_address_valid(e->address));
}

static void look_at_held(void)
{
    char held[3 * SNIB_NAME_MAX * 4];
    struct text t = TEXT_IN(held);
    struct held_entry e;
    const char *at = held;
    size_t there_are = pick("entries", 5), found = 0, back = 0;
    bool sound = true;
    held[0] = 0;
    for (size_t i = 0; i < there_are; i++) {
        const char *address = some_address();
        sound = sound && control_address_valid(address);
        held_add(&t, some_name(), address);
    }
    tell("held %s", held);
    if (chance("damaged held", 3)) {
        damage(held);
        sound = false;
    }
    while (held_next(&at, &e)) {
        tell_entry("next", &e);
        found++;
    }
    for (size_t end = strlen(held); held_last(held, &end, &e);) {
        tell_entry("last", &e);
        back++;
    }
    assert_int_equal(found, back);
    assert_true(!sound || t.cut || found == there_are);
    at = NULL;
    tell("of none %d", held_next(&at, &e));
}

static void look_at_words(void)
{
    static const int errors[] = {
        0,     EPERM, ECONNREFUSED, ETIMEDOUT, ENOSPC, EDQUOT,
        EFBIG, EIO,   ENOMEM,       EACCES,    EPROTO, GRANTFILE_OCCUPIED};
    const char *address = some_address();
    int error = errors[pick("error", COUNT_OF(errors))];
    tell("%s is valid %d, of %u", address, control_address_valid(address),
         (unsigned)control_owner(address));
    tell("%d: %d, %d, exit %d %s", error,
         (int)grantfile_no_answer(error, chance("lives", 2)),
         (int)grantfile_no_answer(error, true), grantfile_exit(error),
         grantfile_error(error));
    grantfile_say_ended(&w.args, &w.g, "it had ended",
                        (const struct snib_client *)&w.args);
    struct cli_args args = grantfile_args(&w.args, &w.g);
    tell("opens %s %s %s", args.store ? args.store : "-",
         args.store_file ? args.store_file : "-", args.subcommand);
}

/* -- a run -------------------------------------------------------------------------------- */

static void set(const char *variable, const char *value)
{
    if (value) {
        setenv(variable, value, 1);
    } else {
        unsetenv(variable);
    }
}

static void begin(void)
{
    static const char *const boots[] = {BOOT,
                                        BOOT,
                                        BOOT,
                                        BOOT,
                                        "",
                                        "01234567-89ab-cdee-0123-456789abcdef",
                                        "fedcba98-89ab-cdef-0123-456789abcdef"};
    static const char *const urls[] = {"redis://h:6379/0", "redis://h:6379/0",
                                       "file:/x/y", "redis://u:***@h"};
    static const char *const subs[] = {"release", "renew", NULL};
    w.now = 1000 * S;
    w.uid = chance("root", 3) ? 0 : 1000;
    w.boot = boots[pick("boot id", COUNT_OF(boots))];
    w.url = urls[pick("url", 4)];
    w.alive = !chance("dead", 4);
    w.ended = chance("zombie", 6);
    w.names_as = chance("old file system", 3) ? 1 + (int)pick("which", 3) : 0;
    w.args.subcommand = subs[pick("command", 3)];
    w.args.store = chance("store given", 4) ? urls[pick("given", 4)] : NULL;
    w.args.store_file = chance("file given", 6) ? "/etc/store" : NULL;
    w.args.quiet = chance("quiet", 4);
    set("SNIB_URL", chance("in env", 4) ? "redis://env" : NULL);
    set("SNIB_STORE_FILE", chance("file in env", 6) ? "/etc/f" : NULL);
    if (chance("empty", 8)) {
        set("SNIB_URL", "");
    }
}

static void live(void)
{
    static void (*const moves[])(void) = {
        make_grant,   read_one,   read_one,  read_one,     write_one,
        write_one,    remove_one, ask,       ask,          say_lost,
        look_at_held, ask_store,  ask_store, look_at_words};
    begin();
    make_grant();
    for (int i = 0; i < MOVES; i++) {
        moves[pick("move", COUNT_OF(moves))]();
        w.now += MS;
    }
    for (int fd = FD_FIRST; fd < FD_MAX; fd++) {
        assert_null(fds_open[fd].kind);
    }
    assert_int_equal(views, 0);
    if (same.run % 3) {
        assert_int_equal(entry_at("/t/f.4242"), -1);
    }
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/grantfile_same.txt",
        .title = "Run, what becomes of grants in it: test_grantfile_same.c",
        .first = 1,
        .last = RUNS_MAX,
        .run = same_run,
    };
    return same_main(argc, argv, &list);
}
