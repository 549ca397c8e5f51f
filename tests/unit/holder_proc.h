/* tests/unit/holder_proc.h — the rest of holder_host.h: processes, and what
 * /proc tells of them. */
#ifndef SNIB_TESTS_HOLDER_PROC_H
#define SNIB_TESTS_HOLDER_PROC_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>

/* -- files ----------------------------------------------------------------------- */

/* 61 bits of the random ones in the address, behind the user's number. */
static void write_limits(const struct fake_process *p)
{
    const char *dot = strchr(w.page.address, '.');
    unsigned long long mark = dot ? strtoull(dot + 1, NULL, 16) >> 3 : 0;
    char soft[40] = "unlimited";
    if (p->marked && dot) {
        snprintf(soft, sizeof soft, "%llu", mark | 1ull << 61);
    }
    snprintf(w.file, sizeof w.file,
             "Limit                     Soft Limit           Hard Limit\n"
             "Max cpu time              unlimited            unlimited\n"
             "Max file locks            %-20s unlimited            locks\n",
             soft);
}

static void write_status(const struct fake_process *p)
{
    static int switches = 4;
    char state = p->state == 'S' && (p->deaf || chance("on the processor", 8))
                     ? 'R'
                     : p->state;
    switches += chance("has run", 8);
    snprintf(w.file, sizeof w.file,
             "Name:\t%s\nState:\t%c (sleeping)\nPid:\t%d\nThreads:\t%d\n"
             "voluntary_ctxt_switches:\t%d\n"
             "nonvoluntary_ctxt_switches:\t%d\n",
             p->comm, state, p->pid, chance("threads", 20) ? 2 : 1, switches,
             chance("was forced", 20) ? switches : 0);
}

static void write_children(const struct fake_process *p)
{
    size_t used = 0;
    w.file[0] = '\0';
    for (int i = 0; i < PROCS_MAX; i++) {
        if (w.procs[i].state != 0 && w.procs[i].parent == p->pid) {
            used += (size_t)snprintf(w.file + used, sizeof w.file - used, "%d ",
                                     w.procs[i].pid);
        }
    }
    if (chance("another child", 20)) {
        snprintf(w.file + used, sizeof w.file - used, "4711 ");
    }
}

/* One string behind the other; a bar stands for the end of each. */
static void write_environ(const struct fake_process *p)
{
    snprintf(w.file, sizeof w.file, "HOME=/|SNIB_HELD=x=%s|LANG=C",
             p->knows ? w.page.address : "1.0000000000000000");
}

static bool write_of_process(const struct fake_process *p, const char *what)
{
    if (strcmp(what, "stat") == 0) {
        snprintf(w.file, sizeof w.file,
                 "%d (%s) %c %d %d 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 %d 0 "
                 "%d 10 20\n",
                 p->pid, p->comm, p->state, p->parent, p->group,
                 p->headless ? 2 : 1, p->pid * 3);
    } else if (strcmp(what, "status") == 0) {
        write_status(p);
    } else if (strcmp(what, "limits") == 0) {
        write_limits(p);
    } else if (strcmp(what, "environ") == 0) {
        write_environ(p);
    } else if (strcmp(what, "comm") == 0) {
        snprintf(w.file, sizeof w.file, "%s\n", p->comm);
    } else if (strcmp(what, "wchan") == 0) {
        snprintf(w.file, sizeof w.file, "%s",
                 chance("elsewhere", 20) ? "pipe_read" : "do_wait");
    } else if (strstr(what, "children")) {
        write_children(p);
    } else {
        return false;
    }
    return true;
}

static int open_of_process(const char *path)
{
    char what[100];
    int pid;
    if (sscanf(path, "/proc/%d/%99s", &pid, what) != 2 || !process(pid) ||
        !write_of_process(process(pid), what)) {
        errno = ENOENT;
        return -1;
    }
    w.file_size = strlen(w.file);
    for (char *c = w.file;
         strcmp(what, "environ") == 0 && c < w.file + w.file_size; c++) {
        *c = *c == '|' ? '\0' : *c;
    }
    return fd_new("file");
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    int mode = flags & O_CREAT ? va_arg(list, int) : 0;
    va_end(list);
    if (!same.on) {
        return __real_open(path, flags, mode);
    }
    w.file_at = 0;
    w.file_size = 0;
    if (fails("open")) {
        return -1;
    }
    if (strncmp(path, "/proc/", 6) == 0 && !strstr(path, "boot_id")) {
        return open_of_process(path);
    }
    tell("opens %s %d %d %d %o", path, flags & O_ACCMODE,
         (flags & O_CLOEXEC) != 0, (flags & O_NOFOLLOW) != 0, mode);
    if (strcmp(path, "/dev/null") == 0) {
        return fd_new("null");
    }
    if (strstr(path, "told") && flags & O_CREAT) {
        return fd_new("note");
    }
    snprintf(w.file, sizeof w.file, "%s\n",
             strstr(path, "boot_id") || chance("told", 2) ? "b007" : "ab");
    w.file_size = strlen(w.file);
    return fd_new("file");
}

/* -- the list of processes ----------------------------------------------------------- */

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    if (!same.on) {
        return __real_opendir(path);
    }
    tell("lists %s", path);
    w.dir_at = -1;
    return fails("opendir") ? NULL : (DIR *)(void *)&w.dir_at;
}

struct dirent *__real_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir)
{
    static struct dirent entry;
    if (!same.on) {
        return __real_readdir(dir);
    }
    if (w.dir_at < 0) {
        w.dir_at = 0;
        snprintf(entry.d_name, sizeof entry.d_name, "self");
        return &entry;
    }
    while (w.dir_at < PROCS_MAX && w.procs[w.dir_at].state == 0) {
        w.dir_at++;
    }
    if (w.dir_at == PROCS_MAX) {
        return NULL;
    }
    snprintf(entry.d_name, sizeof entry.d_name, "%d", w.procs[w.dir_at++].pid);
    return &entry;
}

int __real_closedir(DIR *dir);
int __wrap_closedir(DIR *dir)
{
    if (!same.on) {
        return __real_closedir(dir);
    }
    tell("closes the list");
    return 0;
}

ssize_t __real_readlink(const char *path, char *to, size_t size);
ssize_t __wrap_readlink(const char *path, char *to, size_t size)
{
    int pid = 0;
    char text[40];
    if (!same.on) {
        return __real_readlink(path, to, size);
    }
    if (sscanf(path, "/proc/%d/exe", &pid) != 1 || chance("no exe", 12)) {
        return -1;
    }
    snprintf(text, sizeof text, "%s",
             pid == SELF || pid == LEASH || pid == OUTER_SUPERVISOR
                 ? "/bin/snib"
                 : "/bin/dash");
    memcpy(to, text, strlen(text));
    return (ssize_t)strlen(text);
}

/* -- processes ------------------------------------------------------------------------- */

int __wrap_kill(pid_t pid, int sig)
{
    bool any = false;
    tell("kills %d by %d", (int)pid, sig);
    if (fails("kill")) {
        return -1;
    }
    for (int i = 0; i < PROCS_MAX; i++) {
        struct fake_process *p = &w.procs[i];
        if (p->state != 0 && (p->group == -pid || p->pid == pid)) {
            any = true;
            if (sig != 0) {
                process_gets(p, sig);
            }
        }
    }
    errno = ESRCH;
    return any ? 0 : -1;
}

static long pidfd_open(int pid)
{
    int fd;
    if (pid == HOLDER || !process(pid)) {
        tell("pidfd of %d", pid);
        errno = ESRCH;
        return pid == HOLDER && !fails("pidfd_open") ? fd_new("holder") : -1;
    }
    if (same.run % 5 == 2 && chance("no pidfd", 2)) {
        tell("no pidfd of %d", pid);
        errno = chance("filtered", 2) ? EPERM : EMFILE;
        return -1;
    }
    fd = fd_new("pidfd");
    w.pidfd_of[fd] = pid;
    return fd;
}

static long pidfd_send(int fd, int sig)
{
    tell("signals %d by %d", w.pidfd_of[fd], sig);
    if (fails("pidfd_send_signal") || !process(w.pidfd_of[fd])) {
        return -1;
    }
    process_gets(process(w.pidfd_of[fd]), sig);
    return 0;
}

long __wrap_syscall(long number, ...)
{
    va_list list;
    va_start(list, number);
    int first = va_arg(list, int);
    int second = va_arg(list, int);
    va_end(list);
    return number == SYS_pidfd_open ? pidfd_open(first)
                                    : pidfd_send(first, second);
}

pid_t __wrap_fork(void)
{
    assert_false(same.on);
    return __real_fork();
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    return __real_waitpid(pid, status, options);
}

pid_t __real_getpid(void);
pid_t __wrap_getpid(void)
{
    return same.on ? SELF : __real_getpid();
}

/* As long as it lives it is our parent. */
pid_t __wrap_getppid(void)
{
    return w.supervisor_dead ? 1 : LEASH;
}

pid_t __wrap_getpgid(pid_t pid)
{
    tell("group of %d", (int)pid);
    return fails("getpgid") ? -1 : OUTER_COMMAND;
}

pid_t __wrap_getsid(pid_t pid)
{
    tell("session of %d", (int)pid);
    if (pid == 0 || pid == SELF) {
        return SESSION;
    }
    if (!process(pid)) {
        errno = ESRCH;
        return -1;
    }
    return process(pid)->session;
}

int __wrap_setpgid(pid_t pid, pid_t group)
{
    tell("setpgid %d %d", (int)pid, (int)group);
    return fails("setpgid") ? -1 : 0;
}

pid_t __wrap_setsid(void)
{
    tell("setsid");
    return SELF;
}

int __wrap_prctl(int what, ...)
{
    va_list list;
    va_start(list, what);
    const char *name = va_arg(list, const char *);
    va_end(list);
    tell("prctl %d %s", what, name);
    return 0;
}

static void tell_page(void)
{
    const struct plan_page *p = &w.page;
    for (size_t i = 0; i < w.plan.name_count; i++) {
        tell("token %d, slot %d", (int)p->tokens[i], (int)p->permit_slots[i]);
    }
    tell("%d times, above %lld, %s at %s", p->grants,
         (long long)p->outer_ttl_ns, p->client_id, p->address);
    tell("left %s, store %s, process %d", p->detached_grant, p->store,
         p->holder_process_pid);
}

void __wrap__exit(int code);
void __wrap__exit(int code)
{
    if (!same.on) {
        __real__exit(code);
    }
    tell("exits %d", code);
    tell_page();
    tell_open();
    same_end();
}

#endif
