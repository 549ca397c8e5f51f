/* tests/unit/sqlite_world.h — the host under a lock file: a tree of files that
 * is nowhere but in memory, descriptors, users, processes, a clock. See same.h.
 *
 * A run has calls that fail: none, one function often, or all seldom. */
#ifndef SNIB_TESTS_SQLITE_WORLD_H
#define SNIB_TESTS_SQLITE_WORLD_H

#include "same.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "store/sqlite/internal.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

enum {
    NODES = 160,
    ENTRIES = 160,
    FDS = 80,
    FIRST_FD = 10,
    SHM_REGIONS = 4,
    SHM_LOCKS = 8,
    QUEUE = 6, /* datagrams that lie unread                                 */
    WATCHED = 16,
    PROCESSES = 6,
    SELF = 1000,
    STRANGER = 4312 /* a process that is no client of the test's            */
};

/* -- files ---------------------------------------------------------------------- */

struct node {
    uint64_t ino;
    mode_t mode;
    uid_t uid;
    gid_t gid;
    unsigned links;
    uint8_t *data;
    int64_t size, reserve;
    char to[128]; /* of a symbolic link                                     */
    /* SQLite's locks, of connections                                       */
    int shared;
    const void *reserved, *exclusive;
    uint8_t *shm[SHM_REGIONS];
    int shm_shared[SHM_LOCKS];
    const void *shm_sole[SHM_LOCKS];
    /* of a socket                                                          */
    bool heard; /* somebody has it open                                     */
    int unread;
    struct {
        size_t size;
        uint8_t bytes[64];
    } queue[QUEUE];
};

enum fd_is { FD_CLOSED, FD_DIR, FD_SOCKET, FD_EPOLL, FD_PIDFD, FD_TEXT };

struct process {
    int64_t pid, start;
    char state;
    bool ended, gone; /* gone: reaped                                       */
};

static struct {
    int64_t now, wall_ms; /* ns since boot; Unix time at boot               */
    uid_t uid;
    gid_t gid, groups[3];
    int group_count;
    mode_t umask;
    pid_t pid;
    int64_t pidns;
    struct node nodes[NODES];
    int node_count;
    struct {
        char path[280]; /* "": free                                         */
        struct node *node;
    } entries[ENTRIES];
    struct {
        enum fd_is is;
        struct node *node;
        int flock;
        int64_t pid;
        char text[600];
        int at;
        struct {
            int fd;
            uint32_t data;
        } watched[WATCHED];
    } fds[FDS];
    struct process processes[PROCESSES];
    int outside; /* LOCK_SH, LOCK_EX of the bells, by a stranger; 0: none    */
    const char *only; /* call that fails often; NULL: all may               */
    int rate;         /* one of so many fails; 0: none                      */
    int poor;         /* one of so many steps finds no memory; 0: none      */
    int doubt;        /* one of so many commits fails; 0: none              */
    uint64_t magic;   /* of the file system                                 */
} w;

static struct node *node_new(mode_t mode)
{
    assert_true(w.node_count < NODES);
    struct node *n = &w.nodes[w.node_count++];
    *n = (struct node){.ino = 500 + (uint64_t)w.node_count,
                       .mode = mode,
                       .uid = w.uid,
                       .gid = w.gid,
                       .links = 1};
    return n;
}

static int entry_at(const char *path)
{
    for (int i = 0; i < ENTRIES; i++) {
        if (path[0] && strcmp(w.entries[i].path, path) == 0) {
            return i;
        }
    }
    return -1;
}

static struct node *node_at(const char *path)
{
    int i = entry_at(path);
    return i < 0 ? NULL : w.entries[i].node;
}

static void entry_put(const char *path, struct node *node)
{
    int i = entry_at(path);
    for (int k = 0; k < ENTRIES && i < 0; k++) {
        i = w.entries[k].path[0] ? -1 : k;
    }
    assert_true(i >= 0 && strlen(path) < sizeof w.entries[i].path);
    snprintf(w.entries[i].path, sizeof w.entries[i].path, "%s", path);
    w.entries[i].node = node;
}

static bool entry_drop(const char *path)
{
    int i = entry_at(path);
    if (i >= 0) {
        w.entries[i].node->links--;
        w.entries[i].path[0] = 0;
    }
    return i >= 0;
}

static const char *path_of(const struct node *node)
{
    for (int i = 0; i < ENTRIES; i++) {
        if (w.entries[i].path[0] && w.entries[i].node == node) {
            return w.entries[i].path;
        }
    }
    return "(gone)";
}

static void parent_of(const char *path, char *ret, size_t size)
{
    const char *slash = strrchr(path, '/');
    snprintf(ret, size, "%.*s", slash ? (int)(slash - path) : 0, path);
    if (!ret[0]) {
        snprintf(ret, size, "/");
    }
}

/* A new file of this user's, as open(2) and others make it. */
static struct node *make_file(const char *path, mode_t mode)
{
    char above[300];
    parent_of(path, above, sizeof above);
    struct node *dir = node_at(above), *n = node_new(mode & ~w.umask);
    if (dir && (dir->mode & S_ISGID)) {
        n->gid = dir->gid;
        n->mode |= S_ISDIR(mode) ? S_ISGID : 0;
    }
    entry_put(path, n);
    return n;
}

static struct node *make_dir(const char *path, mode_t mode, uid_t uid,
                             gid_t gid)
{
    struct node *n = node_new(S_IFDIR | mode);
    n->uid = uid;
    n->gid = gid;
    entry_put(path, n);
    return n;
}

static void node_room(struct node *n, int64_t size)
{
    if (size > n->reserve) {
        n->reserve = size * 2 + 4096;
        n->data = realloc(n->data, (size_t)n->reserve);
        assert_non_null(n->data);
    }
    if (size > n->size) {
        memset(n->data + n->size, 0, (size_t)(size - n->size));
        n->size = size;
    }
}

/* -- descriptors ------------------------------------------------------------------ */

static int open_fd(enum fd_is is, struct node *node)
{
    int fd = 0;
    while (fd < FDS && w.fds[fd].is != FD_CLOSED) {
        fd++;
    }
    assert_true(fd < FDS);
    memset(&w.fds[fd], 0, sizeof w.fds[fd]);
    w.fds[fd].is = is;
    w.fds[fd].node = node;
    return fd + FIRST_FD;
}

static bool is_open(int fd, enum fd_is is)
{
    return fd >= FIRST_FD && fd < FIRST_FD + FDS &&
           w.fds[fd - FIRST_FD].is == is;
}

#define FD(fd) w.fds[(fd)-FIRST_FD]

/* "dir", "socket" … with its number: addresses have it, too. */
static const char *fd_text(int fd)
{
    static const char *const names[] = {"closed", "dir",   "socket",
                                        "epoll",  "pidfd", "text"};
    static char text[4][24];
    static int claim;
    bool ours = fd >= FIRST_FD && fd < FIRST_FD + FDS;
    claim = (claim + 1) % 4;
    snprintf(text[claim], sizeof text[claim], "%s %d",
             ours ? names[FD(fd).is] : "none", fd);
    return text[claim];
}

/* -- calls that fail ------------------------------------------------------------------ */

static const char *const calls_that_fail[] = {
    "open",     "read",       "fstatat",  "lstat",   "stat",      "fstat",
    "statfs",   "fstatvfs",   "mkdir",    "mkdirat", "mknodat",   "fchmodat",
    "renameat", "renameat2",  "unlinkat", "openat",  "realpath",  "faccess",
    "readlink", "readlinkat", "symlink",  "flock",   "socket",    "bind",
    "connect",  "sendto",     "recv",     "epoll",   "epoll_ctl", "epoll_wait",
    "pidfd",    "poll",       "fdopen",   "fopen",   "groups",    "pwuid",
    "grgid",    "atfork",     "prepare",  "step",    "exec",      "sqlite",
    "memory",   "forked",     "statx",    "fstatfs"};

static const int errors_given[] = {
    EMFILE, ENFILE, ENOMEM, EACCES, EPERM,  EIO,   EROFS,  ENOSPC,
    ENOENT, EEXIST, EINTR,  ELOOP,  EAGAIN, ESRCH, EINVAL, ECONNREFUSED};

static bool falters(const char *call)
{
    static char which[40];
    if (!w.rate || (w.only && strcmp(w.only, call) != 0)) {
        return false;
    }
    snprintf(which, sizeof which, "fails %s", call);
    return chance(which, (uint64_t)w.rate);
}

static bool goes_wrong(const char *call)
{
    if (!falters(call)) {
        return false;
    }
    errno = errors_given[pick("errno", COUNT_OF(errors_given))];
    tell("%s fails: %d", call, errno);
    return true;
}

static void draw_failures(void)
{
    static const int often[] = {1, 2, 3, 6}, seldom[] = {25, 80, 250};
    switch (pick("failures", 4)) {
    case 0:
        w.rate = 0;
        break;
    case 1:
    case 2:
        w.only = calls_that_fail[pick("only", COUNT_OF(calls_that_fail))];
        w.rate = often[pick("often", 4)];
        break;
    default:
        w.rate = seldom[pick("seldom", 3)];
    }
    w.poor = chance("is poor", 8) ? 4 : 0;
    w.doubt = chance("in doubt", 8) ? 3 : 0;
}

static bool lacks_memory(void)
{
    return falters("memory") || (w.poor && chance("poor", (uint64_t)w.poor));
}

static int fault(int e)
{
    errno = e;
    return -1;
}

/* -- processes --------------------------------------------------------------------------- */

static struct process *process_of(int64_t pid)
{
    for (int i = 0; i < PROCESSES; i++) {
        if (w.processes[i].pid == pid && !w.processes[i].gone) {
            return &w.processes[i];
        }
    }
    return NULL;
}

static void begin_processes(void)
{
    static const int64_t pids[PROCESSES] = {SELF, SELF + 1, 2001,
                                            2002, 2003,     STRANGER};
    for (int i = 0; i < PROCESSES; i++) {
        w.processes[i] = (struct process){
            .pid = pids[i], .start = 100 * (i + 1), .state = 'S'};
    }
}

static void process_changes(void)
{
    struct process *p = &w.processes[2 + pick("process", PROCESSES - 2)];
    switch (pick("changes", 5)) {
    case 0:
        p->ended = true;
        break;
    case 1:
        p->ended = p->gone = true;
        break;
    case 2: /* another one has its number */
        p->ended = p->gone = false;
        p->start += 7;
        break;
    case 3:
        p->state = "STtDZR"[pick("letter", 6)];
        break;
    default:
        p->ended = p->gone = false;
    }
    tell("process %d: %d %d %d %c", (int)p->pid, p->ended, p->gone,
         (int)p->start, p->state);
}

#endif
