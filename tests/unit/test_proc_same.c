/* tests/unit/test_proc_same.c — what `snib run` asks /proc, as it is shipped, against
 * a /proc of the test's: see same.h.
 *
 * Processes come and go, fork, stop and run between any two reads; what is read
 * is cut, empty, another user's. A line is each call of libc and each answer.
 * `unit.proc_same --run N` shows run N.
 * Not with AddressSanitizer, which calls what is wrapped before it has begun.
 *
 * wraps: fork read write waitpid _exit close open readlink kill opendir readdir
 * wraps: closedir getpid clock_gettime syscall getrlimit setrlimit __read_chk
 * wraps: __readlink_chk */
#include "proc_calls.h"

#include "cli/supervisor/proc.h"

enum { RUNS_MAX = 1500, MOVES = 60 };

/* -- what is asked -------------------------------------------------------------------- */

static void ask_of_one(void)
{
    int pid = some_pid();
    const struct process *p = process_of(pid);
    int64_t start = p ? p->start + chance("another start", 4) : 7;
    tell("of %d: start %lld", pid, (long long)proc_start(pid));
    tell("ended %d", proc_ended(pid));
    tell("parent %d", (int)proc_parent(pid));
    tell("stopped %d", proc_stopped(pid));
    tell("group %d", (int)proc_group(pid));
    if (pid > 0) {
        tell("gone %d", proc_is_gone(pid, start));
    }
}

static void ask_of_two(void)
{
    int a = some_pid(), b = some_pid();
    tell("%d above %d: %d", a, b, proc_is_ancestor(a, b));
    tell("not above: %d", proc_is_no_ancestor(a, b));
    tell("same program: %d", proc_same_program(a, b));
    tell("only waits: %d", (int)proc_only_waits(a, b));
}

/* One that does what is asked for, if nothing happens in between. */
static void ask_of_waiting(void)
{
    struct process *p = &processes[1 + pick("waiting", PROCESSES - 2)];
    struct process *child = p + 1;
    if (p->pid && child->pid) {
        for (int i = 0; i < PROCESSES; i++) {
            processes[i].parent =
                processes[i].parent == p->pid ? 1 : processes[i].parent;
        }
        child->parent = p->pid;
        p->threads = 1;
        p->state = "SSSR"[pick("state", 4)];
        p->waits = !chance("elsewhere", 6);
        p->hidden = false;
        tell("only waits: %d", (int)proc_only_waits(p->pid, child->pid));
    }
}

static void ask_for_list(void)
{
    static const char *const lists[] = {
        "12 345 6 ", "12 34", "0 ",   "2147483647 ", "2147483648 ",
        "",          "x 1 ",  "7 \n", " 5 ",         "-1 "};
    static const size_t sizes[] = {200, 200, 12, 6, 1};
    char text[200];
    pid_t pid;
    const char *at = lists[pick("list", COUNT_OF(lists))];
    while (proc_next_pid(&at, &pid)) {
        tell("next %d", (int)pid);
    }
    bool all = proc_list();
    tell("list %d of %zu", all, proc_list_count);
    for (size_t i = 0; i < proc_list_count; i++) {
        tell("%d", (int)proc_list_pids[i]);
    }
    all = proc_read_children(some_pid(), text,
                             sizes[pick("size", COUNT_OF(sizes))]);
    tell("children %d: %s", all, text);
}

static void ask_of_group(void)
{
    int group = chance("of one", 2) ? some_pid() : 2001 + (int)pick("group", 3);
    if (group > 1) {
        tell("group %d: %d", group, proc_group_alive(group));
    }
}

static void ask_for_marked(void)
{
    static const char *const addresses[] = {ADDRESS, ADDRESS, ADDRESS,
                                            OTHER,   "none",  "7."};
    const char *address = addresses[pick("address", COUNT_OF(addresses))];
    bool spares = chance("spares", 2);
    tell("kills %s %d: %d", address, spares,
         (int)proc_kill_marked(address, spares));
}

static void ask_of_host(void)
{
    static const rlim_t most[] = {RLIM_INFINITY, (rlim_t)1 << 61, 100,
                                  ((rlim_t)1 << 62) - 1};
    char boot[PROC_BOOT_ID];
    struct stat_fields s = {.state = "XZSZ"[pick("state", 4)],
                            .threads = 1 + (long)pick("threads", 2)};
    proc_boot_id(boot);
    tell("boot %s, ours %d, now %lld, dead %d", boot, proc_is_ours(),
         (long long)proc_now(), proc_is_dead(&s));
    w.most = most[pick("most", COUNT_OF(most))];
    proc_set_mark(chance("no mark", 4) ? "none" : ADDRESS);
    tell("limit %llu", (unsigned long long)w.limit);
}

static void move_on(void)
{
    static void (*const asks[])(void) = {
        ask_of_one,    ask_of_one,       ask_of_two,     ask_of_waiting,
        ask_for_list,  ask_of_group,     ask_for_marked, ask_for_marked,
        ask_of_host,   ask_of_waiting,   ask_of_group,   process_comes,
        process_comes, something_changes};
    asks[pick("ask", COUNT_OF(asks))]();
    w.now += 1234567;
}

static void live(void)
{
    static const int rates[] = {0, 0, 10, 40};
    w.now = 5000000000000;
    w.next_pid = 2000;
    w.limit = 7;
    w.rate = rates[pick("rate", COUNT_OF(rates))];
    processes[0] = (struct process){.pid = SELF,
                                    .parent = 1,
                                    .group = SELF,
                                    .threads = 1,
                                    .state = 'R',
                                    .start = 77,
                                    .address = ADDRESS,
                                    .mark = ADDRESS,
                                    .program = "/bin/snib"};
    for (int i = 0; i < 12; i++) {
        process_comes();
    }
    for (int i = 0; i < MOVES; i++) {
        move_on();
        assert_true(process_of(SELF)->state == 'R'); /* never itself        */
    }
    for (int fd = FD_FIRST; fd < FD_MAX; fd++) {
        assert_null(fds_open[fd].kind);
    }
    free(proc_list_pids);
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/proc_same.txt",
        .title = "Run, what snib run asks /proc: test_proc_same.c",
        .first = 1,
        .last = RUNS_MAX,
        .run = same_run,
    };
    if (argc == 3 && strcmp(argv[1], "--run") == 0) {
        same.shows = same.on = true;
        same.run = strtoull(argv[2], NULL, 10);
        live();
        same.on = false;
        return 0;
    }
    return same_main(argc, argv, &list);
}
