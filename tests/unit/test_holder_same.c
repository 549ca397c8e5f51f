/* tests/unit/test_holder_same.c — the holder process of `snib run` as it is
 * shipped, all of it, and the waits of `snib latch` and `snib barrier`, against
 * a world of the test's: see same.h, holder_world.h.
 *
 * A line is each call by which it does something: what it polls and for how
 * long, what it asks of the store, says to the supervisor, answers to who asks,
 * writes, closes, whom it kills, how it ends. The page is one at the end.
 * wraps: getrlimit poll __poll_chk read __read_chk write send recv __recv_chk close
 * wraps: open fcntl kill waitpid fork getpid getppid getpgid setpgid getsid
 * wraps: setsid prctl dup2 close_range eventfd signalfd sigprocmask nanosleep isatty
 * wraps: ioctl syscall _exit clock_gettime socket bind listen accept4 connect
 * wraps: getsockopt setsockopt geteuid getrandom gethostname opendir readdir
 * wraps: closedir readlink pthread_detach pthread_join sigaction
 * wraps: snib_client_open snib_client_free snib_client_url snib_client_id
 * wraps: snib_client_store_status snib_owner_new snib_client_fd snib_client_next snib_client_cancel
 * wraps: snib_lock_new snib_lock_free snib_try snib_try_for_start
 * wraps: snib_release snib_renew snib_grant_status snib_grant_explain
 * wraps: snib_grant_request snib_grant_export snib_grant_abandon snib_client_inspect
 * wraps: snib_view_free snib_multi_new snib_multi_free snib_multi_try
 * wraps: snib_multi_try_for snib_multi_cancel snib_multi_missing
 * wraps: snib_multi_release
 * wraps: snib_multi_status snib_semaphore_get snib_latch_left
 * wraps: snib_barrier_try_for_start snib_latch_try_for_start */
#include "holder_client.h"
#include "holder_host.h"
#include "holder_pass.h"

#include "cli/holder/holder.h"
#include "cli/words/duration.h"

enum { RUNS_MAX = 2500 };

/* -- a run --------------------------------------------------------------------------------- */

static void processes_begin(void)
{
    static const int tree[][3] = {
        {SECOND_SUPERVISOR, 1, 400},
        {SECOND_COMMAND, SECOND_SUPERVISOR, SECOND_COMMAND},
        {OUTER_SUPERVISOR, SECOND_COMMAND, SECOND_COMMAND},
        {OUTER_COMMAND, OUTER_SUPERVISOR, OUTER_COMMAND},
        {SHELL, OUTER_COMMAND, OUTER_COMMAND},
        {LEASH, SHELL, OUTER_COMMAND}};
    for (size_t i = 0; i < COUNT_OF(tree); i++) {
        process_begins(tree[i][0], tree[i][1], tree[i][2], "sh");
    }
    if (chance("a job of its own", 8)) {
        process(LEASH)->group = LEASH;
    }
    if (chance("no shell", 2)) {
        process(LEASH)->parent = OUTER_COMMAND;
        process(SHELL)->state = 0;
    }
    process_begins(OUTER_HOLDER,
                   chance("holder's parent", 3) ? 1 : OUTER_SUPERVISOR,
                   OUTER_HOLDER, "snib-keeper");
    if (chance("it is a snib acquire's", 3)) {
        process(OUTER_HOLDER)->session = OUTER_HOLDER;
    }
    if (chance("it is the shell's child", 2)) {
        process(OUTER_HOLDER)->parent = 1;
    }
}

static void make_times(struct plan *p)
{
    static const int64_t waits[] = {INT64_MAX, INT64_MAX, 0, 2000, 9000, 30000};
    static const int64_t ttls[] = {30000, 30000, 4000, 600};
    struct supervisor_rules *r = &p->rules;
    p->ttl_ms = ttls[pick("ttl", 4)];
    p->wait_ms = waits[pick("wait", 6)];
    p->started_ns = w.now - (int64_t)pick("started", 3) * S;
    *r = (struct supervisor_rules){
        .ttl = p->ttl_ms * MS,
        .margin = supervisor_margin(p->ttl_ms * MS),
        .wait = SUPERVISOR_NEVER,
        .request = 3 * S,
        .on_lost = (enum supervisor_on_lost)pick("on lost", 3),
        .lost_signal = SIGUSR1};
    r->on_lost = chance("kill", 2) ? SUPERVISOR_LOST_KILL : r->on_lost;
    r->grace =
        chance("long grace", 3) ? r->ttl / 2 : supervisor_default_grace(r->ttl);
}

static void make_environment(void)
{
    static const char *const held[] = {
        NULL,
        NULL,
        NULL,
        NULL,
        NULL,
        "q=7.0123456789abcdef",
        "q=1000.00000000000000aa:r=7.0123456789abcdef",
        "a%20b=7.0123456789abcdef",
        "q=7.0123456789abcdef:a%20b=7.0123456789abcdef",
        "n%3A%C3%A9=1000.00000000000000aa:r=7.0123456789abcdef",
        "a%20b=7.00000000000000aa:x=7.0123456789abcdef:n%3A%C3%A9="
        "7.0123456789abcdef",
        "a=7.0123456789abcdef:b=7.0123456789abcdef:c=7.0123456789abcdef:"
        "d=7.0123456789abcdef:e=7.0123456789abcdef:f=7.0123456789abcdef:"
        "g=7.0123456789abcdef:h=7.0123456789abcdef:i=7.0123456789abcdef:"
        "j=7.0123456789abcdef",
        "a%20b=nonsense:%:=:a%20b=1007.0123456789abcdef"};
    const char *value = held[pick("held", COUNT_OF(held))];
    unsetenv("SNIB_HELD");
    unsetenv("SUDO_UID");
    if (value) {
        setenv("SNIB_HELD", value, 1);
    }
    if (chance("sudo", 3)) {
        setenv("SUDO_UID", "1000", 1);
    }
    setenv("TERM", chance("dumb", 4) ? "dumb" : "xterm", 1);
}

static void make_args(struct cli_args *a)
{
    *a = (struct cli_args){.subcommand = "run", .busy_exit = -1};
    a->quiet = chance("quiet", 5);
    a->verbose = chance("verbose", 4);
    a->no_progress = chance("no progress", 8);
    a->busy_ok = chance("busy ok", 5);
    a->reentrant = !chance("not reentrant", 6);
    a->reason = chance("reason given", 2) ? "because" : NULL;
}

static void make_plan(struct plan *p)
{
    static const char *names[] = {"a b", "n:\xc3\xa9", "x"};
    static char word[] = "true";
    static char *command[] = {word, NULL};
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                      SNIB_KIND_PERMITS};
    *p = (struct plan){.args = &w.args,
                       .url = chance("url", 2) ? "redis://u:p@h" : NULL,
                       .program = "true",
                       .names = names,
                       .name_count = chance("several", 3) ? 2 : 1,
                       .command = chance("acquire", 3) ? NULL : command,
                       .kind = kinds[pick("of kind", 3)],
                       .capacity = chance("capacity", 2) ? 5 : 0,
                       .priority = (int)pick("priority", 2),
                       .lock_delay_ms = (int64_t)pick("delay", 2) * 500,
                       .holder_pidfd = -1};
    p->name_count += p->name_count == 2 && chance("three", 2);
    p->permits =
        p->kind == SNIB_KIND_PERMITS ? 1 + (uint32_t)pick("ours", 2) : 0;
    make_times(p);
    w.args.wait_ms = p->wait_ms != INT64_MAX  ? p->wait_ms
                     : chance("not given", 2) ? CLI_UNSET
                                              : DURATION_FOREVER;
    if (!p->command) { /* these have no --reentrant */
        w.args.reentrant = false;
        w.args.sh = chance("sh", 3);
        w.args.no_holder = p->name_count == 1 && chance("left behind", 4);
    }
}

static void begin(void)
{
    static const char *const urls[] = {
        "redis://h:6379/0", "file:/x/y", "file:/var/lib/snib/locks.db",
        "file:/home/anna/.local/state/snib/locks.db"};
    w.now = 1000 * S;
    w.uid = chance("root", 3) ? 0 : 1000;
    w.url = urls[chance("redis", 2) ? 0 : pick("store", 4)];
    w.away = chance("away at first", 8);
    w.away_error = SNIB_ERR_UNREACHABLE;
    w.slow = chance("slow", 4);
    w.never = chance("not heard of", 8);
    make_environment();
    make_args(&w.args);
    make_plan(&w.plan);
    processes_begin();
}

static void live(void)
{
    static const char *const kinds[] = {"the user's", "leash", "holder"};
    int socket, shift = (int)pick("order", 3);
    begin();
    if (same.run % 8 == 7) {
        live_passing();
        return;
    }
    for (int i = 0; i < 3; i++) {
        fds_open[FD_FIRST + (i + shift) % 3].kind = kinds[i];
    }
    socket = FD_FIRST + (1 + shift) % 3;
    if (!w.plan.command && chance("holder given", 3)) {
        w.plan.holder_pidfd = FD_FIRST + (2 + shift) % 3;
    }
    holder_main(&w.plan, &w.page, socket);
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/holder_same.txt",
        .title = "Run, what the holder process does: test_holder_same.c",
        .first = 1,
        .last = RUNS_MAX,
        .run = same_run,
    };
    return same_main(argc, argv, &list);
}
