/* cli/supervisor/plan.h: arguments become a plan, at each bound; or they are refused,
 * word by word, before anything is sent.
 * wraps: isatty fcntl proc_now proc_is_ours */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/supervisor/plan.h"
#include "cli/words/duration.h"

#define MS SUPERVISOR_MS
#define S  SUPERVISOR_S

enum { STARTED = 4711 };

/* -- the host ---------------------------------------------------------------- */

static bool at_terminal, proc_is_there;

int __wrap_isatty(int fd);
int __wrap_isatty(int fd)
{
    return fd == 2 && at_terminal;
}

/* What may be written to is 1, 4 and 5. */
static int flags_of(int fd)
{
    switch (fd) {
    case 0:
        return O_RDONLY;
    case 1:
        return O_WRONLY;
    case 3:
        return O_RDONLY | O_NONBLOCK;
    case 4:
        return O_RDWR | O_APPEND;
    case 5:
        return O_WRONLY | O_NONBLOCK;
    default:
        errno = EBADF;
        return -1;
    }
}

int __wrap_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...)
{
    assert_int_equal(what, F_GETFL);
    return flags_of(fd);
}

int64_t __wrap_proc_now(void);
int64_t __wrap_proc_now(void)
{
    return STARTED;
}

bool __wrap_proc_is_ours(void);
bool __wrap_proc_is_ours(void)
{
    return proc_is_there;
}

/* -- what was said ------------------------------------------------------------- */

static int stderr_was, words;

static int begin(void **state)
{
    (void)state;
    unsetenv("SNIB_URL");
    unsetenv("SNIB_STORE_FILE");
    stderr_was = dup(2);
    words = memfd_create("stderr", MFD_CLOEXEC);
    return words >= 0 && dup2(words, 2) == 2 && chdir("/") == 0 ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    dup2(stderr_was, 2);
    close(stderr_was);
    close(words);
    return 0;
}

/* And it is empty again. */
static const char *said(void)
{
    static char text[2048];
    ssize_t n = pread(words, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    assert_int_equal(ftruncate(words, 0), 0);
    lseek(words, 0, SEEK_SET);
    return text;
}

/* -- a plan ---------------------------------------------------------------------- */

static struct cli_args args;
static struct plan plan;
static const char *names[] = {"a"};
static char word[] = "true";
static char *command[] = {word, NULL};

static void ask_anew(void)
{
    options_defaults(&args);
    args.subcommand = "run";
    at_terminal = false;
    proc_is_there = true;
}

static int planned(void)
{
    return plan_make(&plan, &args, names, 1, command);
}

static void is_taken(void)
{
    assert_int_equal(planned(), CLI_OK);
    assert_string_equal(said(), "");
}

static void is_refused(const char *why)
{
    char line[600];
    snprintf(line, sizeof line, "snib run: %s (see: snib run --help)\n", why);
    assert_int_equal(planned(), CLI_USAGE);
    assert_string_equal(said(), line);
}

static void who_asks_for_nothing_has_the_defaults(void **state)
{
    (void)state;
    ask_anew();
    is_taken();
    assert_ptr_equal(plan.args, &args);
    assert_ptr_equal(plan.names, names);
    assert_int_equal(plan.name_count, 1);
    assert_ptr_equal(plan.command, command);
    assert_null(plan.url);
    assert_null(plan.program);
    assert_int_equal(plan.kind, SNIB_KIND_MUTEX);
    assert_int_equal(plan.permits, 0);
    assert_int_equal(plan.capacity, 0);
    assert_int_equal(plan.priority, 0);
    assert_int_equal(plan.lock_delay_ms, 0);
    assert_int_equal(plan.ttl_ms, 30000);
    assert_true(plan.wait_ms == INT64_MAX);
    assert_int_equal(plan.holder_pidfd, -1);
    assert_false(plan.elect);
    assert_int_equal(plan.started_ns, STARTED);
    assert_int_equal(plan.rules.ttl, 30 * S);
    assert_int_equal(plan.rules.grace, 5 * S);
    assert_int_equal(plan.rules.margin, 400 * MS);
    assert_true(plan.rules.wait == SUPERVISOR_NEVER);
    assert_int_equal(plan.rules.slack, 300 * MS);
    assert_int_equal(plan.rules.request, 3 * S);
    assert_int_equal(plan.rules.hold_min, 0);
    assert_int_equal(plan.rules.max_run, 0);
    assert_int_equal(plan.rules.on_lost, SUPERVISOR_LOST_KILL);
}

static void what_is_asked_for_is_in_the_plan(void **state)
{
    (void)state;
    ask_anew();
    args.ttl_ms = 1000;
    args.grace_ms = 300;
    args.wait_ms = 2000;
    args.hold_min_ms = 400;
    args.max_run_ms = 250;
    args.on_lost = SUPERVISOR_LOST_SIGNAL;
    args.lost_signal = SIGUSR1;
    args.lock_delay_ms = 5;
    args.priority = 7;
    is_taken();
    assert_int_equal(plan.ttl_ms, 1000);
    assert_int_equal(plan.wait_ms, 2000);
    assert_int_equal(plan.lock_delay_ms, 5);
    assert_int_equal(plan.priority, 7);
    assert_int_equal(plan.rules.ttl, 1 * S);
    assert_int_equal(plan.rules.margin, 100 * MS);
    assert_int_equal(plan.rules.grace, 300 * MS);
    assert_int_equal(plan.rules.wait, 2300 * MS);
    assert_int_equal(plan.rules.hold_min, 400 * MS);
    assert_int_equal(plan.rules.max_run, 250 * MS);
    assert_int_equal(plan.rules.on_lost, SUPERVISOR_LOST_SIGNAL);
    assert_int_equal(plan.rules.lost_signal, SIGUSR1);
}

/* A single attempt has the time of one request; for ever is no limit. */
static void a_wait_of_0_and_one_for_ever_are_not_counted(void **state)
{
    (void)state;
    ask_anew();
    args.wait_ms = 0;
    args.max_run_ms = DURATION_FOREVER;
    is_taken();
    assert_int_equal(plan.wait_ms, 0);
    assert_int_equal(plan.rules.wait, 3 * S);
    assert_int_equal(plan.rules.max_run, 0);
    args.wait_ms = DURATION_FOREVER;
    is_taken();
    assert_true(plan.wait_ms == INT64_MAX);
    assert_true(plan.rules.wait == SUPERVISOR_NEVER);
}

#define TTL_WHY                                                                \
    ": below, no time is left to stop a command in; above, a dead holder "     \
    "blocks for too long"
#define GRACE_WHY                                                              \
    ": TERM comes that long before the lease could end, and a renewal must "   \
    "fit before it"

static void a_lease_is_from_250_ms_to_a_day(void **state)
{
    static const int64_t good[] = {250, 251, 86399999, 86400000};
    (void)state;
    ask_anew();
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        args.ttl_ms = good[i];
        is_taken();
        assert_int_equal(plan.ttl_ms, good[i]);
        assert_int_equal(plan.rules.ttl, good[i] * MS);
    }
    args.ttl_ms = 249;
    is_refused("--ttl must be from 250ms to 24h, not 249ms" TTL_WHY);
    args.ttl_ms = 86400001;
    args.ttl_label = "SNIB_TTL";
    is_refused("SNIB_TTL must be from 250ms to 24h, not 86400001ms" TTL_WHY);
}

static void a_grace_is_half_the_lease_at_most(void **state)
{
    (void)state;
    ask_anew();
    args.ttl_ms = 1000;
    args.grace_ms = 0;
    is_taken();
    assert_int_equal(plan.rules.grace, 0);
    args.grace_ms = 500;
    is_taken();
    assert_int_equal(plan.rules.grace, 500 * MS);
    args.grace_ms = 501;
    is_refused(
        "--grace may be at most half the --ttl, not 501ms of 1s" GRACE_WHY);
    args.ttl_ms = 251;
    args.grace_ms = 126;
    is_refused(
        "--grace may be at most half the --ttl, not 126ms of 251ms" GRACE_WHY);
    args.grace_ms = 125;
    is_taken();
}

/* -- names ----------------------------------------------------------------------- */

static void names_are_sorted_and_each_is_looked_at(void **state)
{
    const char *some[] = {"b", "c", "a"}, *twice[] = {"a", "a"},
               *apart[] = {"b", "a", "c", "b"}, *odd[] = {"a", "b", ""};
    (void)state;
    ask_anew();
    assert_int_equal(plan_make(&plan, &args, some, 3, command), CLI_OK);
    assert_string_equal(some[0], "a");
    assert_string_equal(some[1], "b");
    assert_string_equal(some[2], "c");
    assert_int_equal(plan.name_count, 3);
    assert_string_equal(said(), "");
    assert_int_equal(plan_make(&plan, &args, twice, 2, command), CLI_USAGE);
    assert_string_equal(said(), "snib run: lock 'a' is named twice (see: snib "
                                "run --help)\n");
    assert_int_equal(plan_make(&plan, &args, apart, 4, command), CLI_USAGE);
    assert_string_equal(said(), "snib run: lock 'b' is named twice (see: snib "
                                "run --help)\n");
    assert_int_equal(plan_make(&plan, &args, odd, 3, command), CLI_USAGE);
    assert_string_equal(said(), "snib run: the lock name is empty (see: snib "
                                "run --help)\n");
}

static void there_are_1_to_64_names(void **state)
{
    static char text[PLAN_NAMES_MAX + 1][8];
    const char *many[PLAN_NAMES_MAX + 1];
    (void)state;
    ask_anew();
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        snprintf(text[i], sizeof text[i], "n%02zu", i);
        many[i] = text[i];
    }
    assert_int_equal(COUNT_OF(many), 65);
    assert_int_equal(plan_make(&plan, &args, many, 64, command), CLI_OK);
    assert_string_equal(said(), "");
    assert_int_equal(plan_make(&plan, &args, many, 65, command), CLI_USAGE);
    assert_string_equal(said(), "snib run: 65 lock names; 64 are possible "
                                "(see: snib run --help)\n");
    assert_int_equal(plan_make(&plan, &args, many, 0, command), CLI_USAGE);
    assert_string_equal(said(), "snib run: a lock name is missing (see: snib "
                                "run --help)\n");
    args.has_dashes = true;
    assert_int_equal(plan_make(&plan, &args, many, 0, command), CLI_USAGE);
    assert_string_equal(said(), "snib run: no lock name before -- (see: snib "
                                "run --help)\n");
}

/* -- kinds ----------------------------------------------------------------------- */

static void a_kind_is_one_of_four(void **state)
{
    static const struct {
        const char *text;
        snib_kind kind;
    } t[] = {{"mutex", SNIB_KIND_MUTEX},
             {"read", SNIB_KIND_READ},
             {"write", SNIB_KIND_WRITE},
             {"semaphore", SNIB_KIND_PERMITS}};
    (void)state;
    ask_anew();
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        args.kind = t[i].text;
        is_taken();
        assert_int_equal(plan.kind, t[i].kind);
    }
    args.kind = "barrier";
    is_refused("--kind: 'barrier' is not mutex, read, write or semaphore");
    args.read = true;
    args.kind = NULL;
    is_taken();
    assert_int_equal(plan.kind, SNIB_KIND_READ);
    args.kind = "read";
    is_taken();
    assert_int_equal(plan.kind, SNIB_KIND_READ);
    args.kind = "write";
    is_refused("-r is --kind read; it excludes --kind write");
}

static void a_lock_delay_is_a_day_at_most(void **state)
{
    (void)state;
    ask_anew();
    args.lock_delay_ms = 1;
    is_taken();
    assert_int_equal(plan.lock_delay_ms, 1);
    args.lock_delay_ms = 86400000;
    is_taken();
    assert_int_equal(plan.lock_delay_ms, 86400000);
    args.lock_delay_ms = 86400001;
    is_refused("--lock-delay may be at most 24h: that long the lock stays "
               "closed when its holder dies");
}

static void only_a_semaphore_has_permits(void **state)
{
    static const struct {
        const char *kind, *why; /* why: it is refused */
        int64_t permits, capacity;
        uint32_t permits_then, capacity_then;
    } t[] = {
        {"semaphore", NULL, -1, -1, 1, 0},
        {"semaphore", NULL, 1, 1, 1, 1},
        {"semaphore", NULL, 3, -1, 3, 0},
        {"semaphore", NULL, 3, 3, 3, 3},
        {"semaphore", NULL, -1, 5, 1, 5},
        {"mutex", NULL, -1, -1, 0, 0},
        {"write", NULL, -1, -1, 0, 0},
        {"semaphore",
         "--permits 2 of --capacity 1: that many can never be had; ask for "
         "fewer, or make the semaphore larger",
         2, 1, 0, 0},
        {"semaphore", "--permits: expected 1 to 1000000000 permits, not 0", 0,
         -1, 0, 0},
        {"semaphore", "--permits: expected 1 to 1000000000 permits, not 0", 0,
         0, 0, 0},
        {"semaphore", "--capacity: expected 1 to 1000000000 permits, not 0", -1,
         0, 0, 0},
        {"mutex", "--permits needs --kind semaphore", 0, -1, 0, 0},
        {"mutex", "--permits needs --kind semaphore", 1, 1, 0, 0},
        {"read", "--capacity needs --kind semaphore", -1, 0, 0, 0},
        {"read", "--capacity needs --kind semaphore", -1, 1, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        ask_anew();
        args.kind = t[i].kind;
        args.permits = t[i].permits;
        args.capacity = t[i].capacity;
        if (t[i].why) {
            is_refused(t[i].why);
            continue;
        }
        is_taken();
        assert_int_equal(plan.permits, t[i].permits_then);
        assert_int_equal(plan.capacity, t[i].capacity_then);
    }
}

static void a_lock_is_made_by_what_the_plan_says(void **state)
{
    struct snib_lock_options o;
    (void)state;
    ask_anew();
    args.kind = "semaphore";
    args.permits = 2;
    args.capacity = 3;
    args.ttl_ms = 4000;
    args.lock_delay_ms = 5;
    args.priority = 6;
    is_taken();
    memset(&o, 0xff, sizeof o);
    plan_lock_options(&plan, &o);
    assert_int_equal(o.size, sizeof o);
    assert_int_equal(o.name_size, 0);
    assert_int_equal(o.kind, SNIB_KIND_PERMITS);
    assert_int_equal(o.permits, 2);
    assert_int_equal(o.capacity, 3);
    assert_int_equal(o.lease_ms, 4000);
    assert_int_equal(o.lock_delay_ms, 5);
    assert_int_equal(o.priority, 6);
    assert_int_equal(o.hold_max_ms, 0);
    assert_false(o.fixed_lease);
    assert_null(o.on_change);
}

/* -- the rest -------------------------------------------------------------------- */

static void a_lock_that_is_busy_ends_in_one_way(void **state)
{
    (void)state;
    ask_anew();
    args.busy_ok = true;
    is_taken();
    args.busy_exit = 0;
    is_refused("--busy-ok and --busy-exit exclude each other");
    args.busy_ok = false;
    is_taken();
}

static void a_status_is_written_to_what_is_open_for_it(void **state)
{
    static const char closed[] =
        " is closed, or open for reading only; expected one to write to, as "
        "with 3>FILE";
    static const int64_t good[] = {-1, 1, 4, 5};
    char why[200];
    (void)state;
    ask_anew();
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        args.status_fd = good[i];
        is_taken();
    }
    for (int fd = 0; fd <= 3; fd += 3) {
        args.status_fd = fd;
        snprintf(why, sizeof why, "--status-fd: %d%s", fd, closed);
        is_refused(why);
    }
    args.status_fd = 2;
    is_refused("--status-fd: 2 is not an open file descriptor");
}

static void where_proc_is_not_there_no_command_is_run(void **state)
{
    (void)state;
    ask_anew();
    proc_is_there = false;
    assert_int_equal(planned(), CLI_CONFIG);
    assert_string_equal(
        said(),
        "snib: /proc is not mounted, or shows another pid namespace: processes "
        "that the command leaves behind could not be found, and others would "
        "be signalled; mount it (mount -t proc proc /proc), or begin the "
        "namespace with its own (unshare --mount-proc)\n");
    assert_int_equal(plan_make(&plan, &args, names, 1, NULL), CLI_OK);
    assert_string_equal(said(), "");
    assert_null(plan.command);
}

static void a_quorum_has_no_priorities(void **state)
{
    static const char *const with_a_queue[] = {"redis://h", "file:/a"};
    (void)state;
    ask_anew();
    args.store = "redlock://h1,h2,h3";
    is_taken();
    assert_string_equal(plan.url, "redlock://h1,h2,h3");
    args.priority = 0;
    is_taken();
    args.priority = 1;
    assert_int_equal(planned(), CLI_CONFIG);
    assert_string_equal(said(),
                        "snib: redlock: has no queue in which --priority could "
                        "count: leave it out, or use another store\n");
    for (size_t i = 0; i < COUNT_OF(with_a_queue); i++) {
        args.store = with_a_queue[i];
        is_taken();
        assert_string_equal(plan.url, with_a_queue[i]);
    }
}

/* Whichever part of it: the exit status is that part's. */
static void a_store_that_nobody_shares_is_refused(void **state)
{
    (void)state;
    ask_anew();
    args.store = "memory:";
    assert_int_equal(planned(), CLI_CONFIG);
    assert_non_null(strstr(said(), "excludes nobody here"));
    args.store_file = "/etc/store";
    is_refused("--store and --store-file exclude each other");
}

/* -- what a person at a terminal is told ------------------------------------------- */

static void is_told(const char *line)
{
    at_terminal = true;
    assert_int_equal(planned(), CLI_OK);
    assert_string_equal(said(), line);
    args.quiet = true;
    is_taken();
    args.quiet = false;
    at_terminal = false;
    is_taken();
}

static void a_reason_that_is_cut_is_told(void **state)
{
    char reason[130];
    (void)state;
    ask_anew();
    memset(reason, 'x', sizeof reason);
    reason[128] = reason[129] = '\0';
    args.reason = reason;
    is_told("");
    reason[128] = 'x';
    is_told("snib: --reason: others see its first 128 bytes of 129 at most\n");
}

static void a_store_of_this_directory_is_told(void **state)
{
    (void)state;
    ask_anew();
    args.store = "file:/x";
    is_told("");
    args.store = "file:x";
    is_told("snib: the store file:x is file:/x here; from another directory it "
            "is another one, with locks of its own\n");
    assert_string_equal(plan.url, "file:/x");
}

static int planned_of(const char **several, size_t count, char **to_run)
{
    return plan_make(&plan, &args, several, count, to_run);
}

static void which_words_are_names_is_told(void **state)
{
    const char *several[] = {"c", "b\x01", "a"};
    static char longest[2][SNIB_NAME_MAX + 1];
    const char *two[] = {longest[0], longest[1]};
    const char *line;
    (void)state;
    ask_anew();
    at_terminal = true;
    assert_int_equal(planned_of(several, 3, command), CLI_OK);
    assert_string_equal(said(), "snib: 3 locks: a, b\\x01, c; command: true\n");
    assert_int_equal(planned_of(several, 2, command), CLI_OK);
    assert_string_equal(said(), "snib: 2 locks: a, b\\x01; command: true\n");
    assert_int_equal(planned_of(several, 3, NULL), CLI_OK);
    assert_string_equal(said(), "");
    assert_int_equal(planned_of(several, 1, command), CLI_OK);
    assert_string_equal(said(), "");
    memset(longest[0], 'x', SNIB_NAME_MAX);
    memset(longest[1], 'y', SNIB_NAME_MAX);
    assert_int_equal(planned_of(two, 2, command), CLI_OK);
    line = said();
    assert_memory_equal(line, "snib: 2 locks: xxx", 18);
    assert_non_null(strstr(line, "x, y"));
    assert_non_null(strstr(line, "y ...; command: true\n"));
}

/* -- words apart ------------------------------------------------------------------- */

static void where_the_names_end_the_command_begins(void **state)
{
    static char a[] = "a", b[] = "b", c[] = "c", d[] = "d";
    char *operands[] = {a, b, c, d, NULL};
    static const struct {
        bool dashes;
        int before, count, names, command; /* -1: there is none */
    } t[] = {
        {false, 0, 0, 0, -1}, {false, 0, 1, 1, -1}, {false, 0, 2, 1, 1},
        {false, 0, 4, 1, 1},  {true, 2, 4, 2, 2},   {true, 4, 4, 4, -1},
        {true, 3, 4, 3, 3},   {true, 0, 2, 0, 0},   {true, 0, 0, 0, -1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        size_t count = 99;
        char **to_run = operands;
        args = (struct cli_args){.has_dashes = t[i].dashes,
                                 .before_dashes = t[i].before};
        plan_split(&args, t[i].count, operands, &count, &to_run);
        assert_int_equal(count, t[i].names);
        assert_ptr_equal(to_run,
                         t[i].command < 0 ? NULL : operands + t[i].command);
    }
}

static void a_script_is_a_command_of_sh(void **state)
{
    char **to_run = NULL;
    (void)state;
    ask_anew();
    assert_int_equal(plan_script(&args, &to_run), CLI_OK);
    assert_null(to_run);
    to_run = command;
    assert_int_equal(plan_script(&args, &to_run), CLI_OK);
    assert_ptr_equal(to_run, command);
    args.script = "exit 3";
    assert_int_equal(plan_script(&args, &to_run), CLI_USAGE);
    assert_ptr_equal(to_run, command);
    assert_string_equal(said(),
                        "snib run: -c SCRIPT and a command exclude each other, "
                        "and 'true' begins a command (several names need a -- "
                        "behind them) (see: snib run --help)\n");
    to_run = NULL;
    assert_int_equal(plan_script(&args, &to_run), CLI_OK);
    assert_string_equal(to_run[0], "sh");
    assert_string_equal(to_run[1], "-c");
    assert_ptr_equal(to_run[2], args.script);
    assert_null(to_run[3]);
    assert_string_equal(said(), "");
}

/* An error of the library's, as the command line tells it. */
static void a_semaphore_without_a_size_is_told_what_to_give(void **state)
{
    static const struct {
        snib_kind kind;
        snib_err code;
        const char *name, *text;
    } t[] = {
        {SNIB_KIND_PERMITS, SNIB_ERR_CONFIG, "a",
         "the semaphore has no size yet; give --capacity N, or set it by snib "
         "semaphore --set N a"},
        {SNIB_KIND_PERMITS, SNIB_ERR_CONFIG, "-a\n",
         "the semaphore has no size yet; give --capacity N, or set it by snib "
         "semaphore --set N --name=-a\\x0A"},
        {SNIB_KIND_PERMITS, SNIB_ERR_STORE, "a", "before"},
        {SNIB_KIND_MUTEX, SNIB_ERR_CONFIG, "a", "before"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_error error = {.code = t[i].code, .text = "before"};
        struct plan p = {.kind = t[i].kind};
        plan_explain(&p, t[i].name, &error);
        assert_int_equal(error.code, t[i].code);
        assert_string_equal(error.text, t[i].text);
    }
}

static void the_name_before_an_error_is_not_told_twice(void **state)
{
    static const struct {
        const char *from, *to;
    } t[] = {
        {"'a': held", "held"},
        {"'a': b': held", "b': held"},
        {"held", "held"},
        {"'a' is held", "'a' is held"},
        {"a': held", "a': held"},
        {"'a': ", ""},
        {"", ""},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_error error = {.code = SNIB_ERR_BUSY};
        snprintf(error.text, sizeof error.text, "%s", t[i].from);
        plan_strip_name(&error);
        assert_string_equal(error.text, t[i].to);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest plans[] = {
        CASE(who_asks_for_nothing_has_the_defaults),
        CASE(what_is_asked_for_is_in_the_plan),
        CASE(a_wait_of_0_and_one_for_ever_are_not_counted),
        CASE(a_lease_is_from_250_ms_to_a_day),
        CASE(a_grace_is_half_the_lease_at_most),
        CASE(names_are_sorted_and_each_is_looked_at),
        CASE(there_are_1_to_64_names),
        CASE(a_kind_is_one_of_four),
        CASE(a_lock_delay_is_a_day_at_most),
        CASE(only_a_semaphore_has_permits),
        CASE(a_lock_is_made_by_what_the_plan_says),
        CASE(a_lock_that_is_busy_ends_in_one_way),
        CASE(a_status_is_written_to_what_is_open_for_it),
        CASE(where_proc_is_not_there_no_command_is_run),
        CASE(a_quorum_has_no_priorities),
        CASE(a_store_that_nobody_shares_is_refused),
        CASE(a_reason_that_is_cut_is_told),
        CASE(a_store_of_this_directory_is_told),
        CASE(which_words_are_names_is_told),
        CASE(where_the_names_end_the_command_begins),
        CASE(a_script_is_a_command_of_sh),
        CASE(a_semaphore_without_a_size_is_told_what_to_give),
        CASE(the_name_before_an_error_is_not_told_twice),
    };
    return RUN(plans);
}
