/* tests/unit/proc_world.h — the /proc of unit.proc_same: processes that come and go,
 * fork, stop and run between any two reads, and what it has of them. See
 * test_proc_same.c. */
#ifndef SNIB_TESTS_PROC_WORLD_H
#define SNIB_TESTS_PROC_WORLD_H

#include "same.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "cli/supervisor/proc.h"
#include "cli/supervisor/proc_i.h"

enum { PROCESSES = 14, SELF = 1000 };

#define ADDRESS "1000.0123456789abcdef"
#define OTHER   "2000.fedcba9876543210"

static struct process {
    int pid, parent, group, threads; /* pid 0: there is none                */
    char state;
    int64_t start;
    long long voluntary, forced;
    const char *address; /* in its environment; NULL: it has none           */
    const char *mark;    /* the address that its limits have                */
    bool holder, hidden, waits;
    const char *program;
} processes[PROCESSES];

static struct {
    int64_t now;
    int next_pid;
    rlim_t limit, most;
    int rate; /* one of so many calls fails; 0: none                        */
    struct {
        char text[3000];
        int size, at;
    } files[FD_MAX];
    int dir_at; /* of the list of /proc                                     */
    struct dirent entry;
} w;

/* -- processes ----------------------------------------------------------------- */

static struct process *process_of(int64_t pid)
{
    for (int i = 0; i < PROCESSES; i++) {
        if (processes[i].pid == pid && pid > 0) {
            return &processes[i];
        }
    }
    return NULL;
}

static int some_pid(void)
{
    static const int odd[] = {0, -1, 1, 2, SELF, 99999};
    const struct process *p = &processes[pick("which", PROCESSES)];
    return p->pid && !chance("odd pid", 8) ? p->pid
                                           : odd[pick("odd", COUNT_OF(odd))];
}

static void process_comes(void)
{
    static const char *const addresses[] = {NULL, NULL, ADDRESS, OTHER, ""};
    static const char *const programs[] = {"/bin/true", "/bin/sh", "/bin/tr"};
    struct process *p = &processes[pick("place", PROCESSES)];
    if (p->pid) {
        return;
    }
    *p = (struct process){
        .pid = ++w.next_pid,
        .threads = 1 + chance("threads", 5),
        .state = "SSSRTZXtD"[pick("state", 9)],
        .start = 5000 + w.next_pid,
        .voluntary = (long long)pick("switches", 3),
        .forced = (long long)pick("switches", 3),
        .address = addresses[pick("address", COUNT_OF(addresses))],
        .mark = chance("has a mark", 3) ? (chance("other", 3) ? OTHER : ADDRESS)
                                        : NULL,
        .holder = chance("holder", 4),
        .hidden = chance("hidden", 9),
        .waits = chance("waits", 2),
        .program = programs[pick("program", COUNT_OF(programs))]};
    int above = some_pid();
    p->parent = above == p->pid ? 1 : above > 0 ? above : 1;
    p->group = chance("own group", 2) ? p->pid : 2001 + (int)pick("group", 3);
}

static void something_changes(void)
{
    struct process *p = &processes[1 + pick("changing", PROCESSES - 1)];
    switch (pick("change", 7)) {
    case 0:
        p->pid = 0;
        break;
    case 1:
        p->state = "SRTZX"[pick("state", 5)];
        break;
    case 2:
        p->voluntary++;
        break;
    case 3:
        p->forced++;
        break;
    case 4:
        p->parent = 1;
        break;
    default:
        process_comes();
    }
}

static void meanwhile(void)
{
    if (chance("meanwhile", 12)) {
        something_changes();
    }
}

static bool goes_wrong(const char *call)
{
    static const int errors[] = {EMFILE, ENOMEM, EACCES, EPERM,
                                 ENOENT, ESRCH,  EIO,    EINTR};
    static char which[40];
    snprintf(which, sizeof which, "fails %s", call);
    if (!w.rate || !chance(which, (uint64_t)w.rate)) {
        return false;
    }
    errno = errors[pick("errno", COUNT_OF(errors))];
    tell("%s fails: %d", call, errno);
    return true;
}

/* -- what /proc has ---------------------------------------------------------------- */

static int write_stat(const struct process *p, char *ret, size_t size)
{
    static const char *const names[] = {"sh", "a) b", ")", "x (y) z", ""};
    int n = snprintf(ret, size, "%d (%s) %c %d %d", p->pid,
                     names[pick("comm", COUNT_OF(names))], p->state, p->parent,
                     p->group);
    for (int field = 6; field <= 24; field++) {
        n += snprintf(ret + n, size - (size_t)n, " %lld",
                      field == 20   ? (long long)p->threads
                      : field == 22 ? (long long)p->start
                                    : field);
    }
    switch (pick("cut stat", 30)) {
    case 0:
        return 12;
    case 1:
        return 0;
    case 2:
        return snprintf(ret, size, "%d sh S 1 1", p->pid);
    default:
        return n;
    }
}

static int write_status(const struct process *p, char *ret, size_t size)
{
    static const char *const lacks[] = {
        "", "", "", "", "", "State", "Threads", "voluntary", "nonvoluntary"};
    const char *lack = lacks[pick("lacks", COUNT_OF(lacks))];
    int n = snprintf(ret, size, "Name:\tState:\nUmask:\t0022\n");
    if (strcmp(lack, "State") != 0) {
        n += snprintf(ret + n, size - (size_t)n, "State:\t%c (x)\n", p->state);
    }
    if (strcmp(lack, "Threads") != 0) {
        n += snprintf(ret + n, size - (size_t)n, "Threads:\t%d\n", p->threads);
    }
    if (strcmp(lack, "voluntary") != 0) {
        n += snprintf(ret + n, size - (size_t)n,
                      "voluntary_ctxt_switches:\t%lld\n", p->voluntary);
    }
    if (strcmp(lack, "nonvoluntary") != 0) {
        n += snprintf(ret + n, size - (size_t)n,
                      "nonvoluntary_ctxt_switches:\t%lld\n", p->forced);
    }
    return n;
}

static int write_children(const struct process *p, char *ret, size_t size)
{
    int n = 0;
    for (int i = 0; i < PROCESSES; i++) {
        if (processes[i].pid && processes[i].parent == p->pid) {
            n += snprintf(ret + n, size - (size_t)n, "%d ", processes[i].pid);
        }
    }
    return n;
}

static rlim_t mark_of(const char *address)
{
    return (rlim_t)(strtoull(strchr(address, '.') + 1, NULL, 16) >> 3) |
           (rlim_t)1 << 61;
}

static int write_limits(const struct process *p, char *ret, size_t size)
{
    char soft[32] = "unlimited";
    if (p->mark) {
        snprintf(soft, sizeof soft, "%llu",
                 (unsigned long long)mark_of(p->mark));
    }
    return snprintf(
        ret, size,
        "Limit                     Soft Limit           Hard Limit"
        "\nMax cpu time              7\n%s%-20s unlimited\nMax x  1",
        chance("no such line", 20) ? "Max file lockz            "
                                   : "Max file locks            ",
        soft);
}

static void add_environ(char *ret, size_t size, int *n, const char *name,
                        const char *text, const char *more)
{
    *n += snprintf(ret + *n, size - (size_t)*n, "%s%s%s", name, text, more) + 1;
}

static int write_environ(const struct process *p, char *ret, size_t size)
{
    int n = 0;
    const char *const parts[] = {"PATH=/bin", "XSNIB_HELD=" ADDRESS, "A="};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        add_environ(ret, size, &n, parts[i], "", "");
    }
    if (p->address) {
        add_environ(ret, size, &n, "SNIB_HELD=x=", p->address, " y=7.77");
    }
    if (chance("another", 4)) {
        add_environ(ret, size, &n, "SNIB_HELD=", OTHER, "");
    }
    return chance("no end", 6) ? n - 1 : n;
}

static bool write_file(const char *path, int fd)
{
    static const char *const boots[] = {
        "b007a\n", "b007a", "",
        "0123456789012345678901234567890123456789012345\n"};
    char name[32] = "";
    int pid = 0, other;
    char *to = w.files[fd].text;
    size_t size = sizeof w.files[fd].text;
    int *n = &w.files[fd].size;
    w.files[fd].at = 0;
    if (strstr(path, "boot_id")) {
        *n = snprintf(to, size, "%s", boots[pick("boot id", COUNT_OF(boots))]);
        return true;
    }
    if (sscanf(path, "/proc/%d/task/%d/%31s", &pid, &other, name) != 3) {
        sscanf(path, "/proc/%d/%31s", &pid, name);
    }
    const struct process *p = process_of(pid);
    if (!p) {
        errno = chance("is just ending", 2) ? ENOENT : ESRCH;
        return false;
    }
    if (p->hidden && strcmp(name, "stat") != 0) {
        errno = chance("not permitted", 2) ? EACCES : EPERM;
        return false;
    }
    *n = strcmp(name, "stat") == 0       ? write_stat(p, to, size)
         : strcmp(name, "status") == 0   ? write_status(p, to, size)
         : strcmp(name, "children") == 0 ? write_children(p, to, size)
         : strcmp(name, "limits") == 0   ? write_limits(p, to, size)
         : strcmp(name, "environ") == 0  ? write_environ(p, to, size)
         : strcmp(name, "comm") == 0
             ? snprintf(to, size, "%s\n",
                        p->holder            ? "snib-keeper"
                        : chance("alike", 4) ? "snib-keepers"
                                             : "sh")
             : snprintf(to, size, "%s",
                        p->waits              ? "do_wait"
                        : chance("almost", 2) ? "do_wait4"
                                              : "0");
    return true;
}

#endif
