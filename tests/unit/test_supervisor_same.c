/* tests/unit/test_supervisor_same.c — the supervisor of `snib run` as it is shipped,
 * all of it, against a world of the test's: see same.h, supervisor_world.h.
 *
 * A line is each call by which it does something: what it polls and for how
 * long, what it arms, writes, sends, closes, whom it signals, who has the
 * terminal, what the command's process is given, how it ends.
 * wraps: getrlimit poll __poll_chk read __read_chk write send recv __recv_chk close
 * wraps: open fcntl kill waitpid waitid fork setpgid getpid getppid pipe2
 * wraps: socketpair mmap munmap prctl sigaction sigprocmask signalfd timerfd_create
 * wraps: timerfd_settime nanosleep isatty tcgetpgrp tcsetpgrp getpgrp syscall
 * wraps: execvp _exit holder_main proc_set_mark clock_gettime */
#include "supervisor_host.h"
#include "supervisor_tools.h"

#include "cli/supervisor/supervisor.h"

enum { RUNS_MAX = 1500 };

/* -- a run --------------------------------------------------------------------------------- */

static void make_rules(struct supervisor_rules *r)
{
    *r = (struct supervisor_rules){
        .ttl = 30 * S,
        .grace = (int64_t)pick("grace", 3) * 5 * S,
        .margin = S / 3,
        .wait = chance("limit", 3) ? 9 * S : SUPERVISOR_NEVER,
        .slack = SUPERVISOR_SLACK,
        .request = 3 * S,
        .hold_min = chance("hold", 4) ? 8 * S : 0,
        .max_run = chance("max", 4) ? 20 * S : 0,
        .on_lost = (enum supervisor_on_lost)pick("on lost", 3),
        .lost_signal = SIGUSR1};
}

static void set_store(struct cli_args *args)
{
    static char held_above[400];
    memset(held_above, 'x', sizeof held_above - 1);
    static const char *const urls[] = {NULL, "redis://h", "redis://u:p@h",
                                       "redis://u:***@h"};
    const char *url = urls[pick("url", 4)];
    unsetenv("SNIB_URL");
    unsetenv("SNIB_STORE_FILE");
    unsetenv("SNIB_HELD");
    if (url && chance("in the environment", 2)) {
        setenv("SNIB_URL", url, 1);
    } else {
        args->store = url;
    }
    if (chance("file", 3)) {
        setenv("SNIB_STORE_FILE", "/etc/store", 1);
        args->store_file = chance("option", 2) ? "/etc/other" : NULL;
    }
    if (chance("held", 3)) {
        setenv("SNIB_HELD",
               chance("long", 2) ? held_above : "x=1.0000000000000001", 1);
    }
    setenv("SNIB_SLOT", "77", 1);
    w.plan.url = url;
}

static int64_t next_term(void *data, const struct supervisor_term *t)
{
    static const int64_t rests[] = {0, 1, 800, 12000, SUPERVISOR_ENOUGH};
    (void)data;
    tell("term %d %s %d%d%d %d", t->code, supervisor_why_text(t->why), t->ran,
         t->by_command, t->lost, t->asked_to_end);
    return w.terms > 4 ? SUPERVISOR_ENOUGH : rests[pick("rest", 5)];
}

static void begin(struct cli_args *args)
{
    static const char *names[] = {"a b", "n:\xc3\xa9"};
    static char longest[SNIB_NAME_MAX + 1];
    static char word[] = "true";
    static char *command[] = {word, NULL};
    *args = (struct cli_args){.subcommand = "run", .busy_exit = -1};
    args->quiet = chance("quiet", 4);
    args->verbose = chance("verbose", 3);
    args->busy_ok = chance("busy ok", 6);
    args->busy_exit = chance("busy exit", 6) ? 99 : -1;
    fds_open[FD_FIRST].kind = "status, the user's";
    args->status_fd = chance("status fd", 2) ? FD_FIRST : -1;
    memset(longest, 0xff, sizeof longest - 1);
    names[0] = chance("long name", 3) ? longest : names[0];
    w.now = 1000 * S;
    w.armed = w.answer_at = INT64_MAX;
    w.answer = -1;
    w.foreground = chance("terminal", 2) ? SELF : chance("background", 2);
    w.plan = (struct plan){.args = args,
                           .names = names,
                           .name_count = chance("two", 4) ? 2 : 1,
                           .command = chance("acquire", 8) ? NULL : command,
                           .elect = chance("elect", 4),
                           .started_ns = w.now - S};
    make_rules(&w.plan.rules);
    set_store(args);
}

static void live(void)
{
    static struct cli_args args;
    struct plan_page *page = NULL;
    int socket = -1, code;
    begin(&args);
    if (w.plan.command && chance("again", 3)) {
        code = supervisor_repeat(&w.plan, next_term, NULL);
    } else {
        code = supervisor_run(&w.plan, &page, &socket);
    }
    tell("returns %d, page %d, socket %s", code, page == &w.page,
         fd_kind(socket));
    for (int fd = FD_FIRST; fd < FD_MAX; fd++) {
        tell("open at the end: %s", fd_kind(fd));
    }
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/supervisor_same.txt",
        .title = "Run, what the supervisor does: test_supervisor_same.c",
        .first = 1,
        .last = RUNS_MAX,
        .run = same_run,
    };
    return same_main(argc, argv, &list);
}
