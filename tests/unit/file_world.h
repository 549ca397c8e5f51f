/* tests/unit/file_world.h — the host under a mapped file: a few directories that
 * are nowhere but in memory, files whose bytes are a real memfd, descriptors,
 * processes, a clock. See same.h.
 *
 * A run has calls that fail: none, one function often, or all seldom. A disk may
 * be full. What fdatasync() brought to the disk is kept, for the power failure. */
#ifndef SNIB_TESTS_FILE_WORLD_H
#define SNIB_TESTS_FILE_WORLD_H

#include "same.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "store/file/internal.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

enum {
    NODES = 40,
    ENTRIES = 16,
    FDS = 60,
    FIRST_FD = 10,
    MAPPINGS = 12,
    WATCHED = 12,
    PROCESSES = 60,
    SELF = 1000,
    NOBODY = -1
};

/* -- what there is ------------------------------------------------------------- */

struct node {
    uint64_t ino;
    mode_t mode;
    uid_t uid;
    unsigned links;
    const struct node *to; /* of a symbolic link; NULL: to nowhere          */
    /* of a file: its descriptor, all that it may ever have, what is on the
     * disk                                                                 */
    int memory;
    uint8_t *bytes, *disk;
    uint64_t size, disk_size;
    int stranger; /* LOCK_SH, LOCK_EX: a process that is no client; 0       */
};

enum fd_is { FD_CLOSED, FD_DIR, FD_FILE, FD_EVENT, FD_EPOLL, FD_PIDFD };

struct process {
    int64_t pid, start;
    bool ended, gone; /* gone: reaped                                       */
};

static struct {
    int64_t now, wall_ms; /* ns since boot; Unix time at boot               */
    uid_t uid;
    int64_t pidns;
    char boot[40];
    struct node nodes[NODES];
    int node_count;
    struct {
        char path[280]; /* "": free                                         */
        struct node *node;
    } entries[ENTRIES];
    struct {
        enum fd_is is;
        int who; /* the client that opened it                               */
        struct node *node;
        int flock;
        bool locked; /* the byte `lock`                                     */
        int64_t lock;
        int64_t pid;
        uint64_t count;
        struct {
            int fd;
            uint32_t data;
        } watched[WATCHED];
    } fds[FDS];
    struct {
        uint8_t *base; /* NULL: free                                        */
        size_t size;
        struct node *node;
        int who;
    } mappings[MAPPINGS];
    struct process processes[PROCESSES];
    int process_count;
    int who;        /* the client inside; NOBODY                              */
    bool child;     /* the one inside is a forked child's copy                */
    bool damaged;   /* somebody wrote into the file, or it was lost           */
    uint64_t most;  /* so large a file may become on this disk              */
    uint64_t fsize; /* ulimit -f                                            */
    uint64_t magic; /* of the file system                                   */
    const char *only; /* call that fails often; NULL: all may               */
    int rate;         /* one of so many fails; 0: none                      */
    int poor;         /* one of so many steps finds no memory; 0: none      */
} w;

/* -- files ----------------------------------------------------------------------- */

static struct node *node_new(mode_t mode)
{
    assert_true(w.node_count < NODES);
    struct node *n = &w.nodes[w.node_count++];
    *n = (struct node){.ino = 500 + (uint64_t)w.node_count,
                       .mode = mode,
                       .uid = w.uid,
                       .links = 1,
                       .memory = -1};
    return n;
}

void *__real_mmap(void *at, size_t size, int rights, int how, int fd,
                  off_t from);
int __real_fallocate(int fd, int how, off_t from, off_t size);

/* Its bytes. A file that nobody opens has none. */
static void node_remember(struct node *n)
{
    if (n->memory < 0) {
        n->memory = memfd_create("file", MFD_CLOEXEC);
        assert_return_code(n->memory, 0);
        n->bytes = __real_mmap(NULL, SNIB__FILE_MOST, PROT_READ | PROT_WRITE,
                               MAP_SHARED, n->memory, 0);
        n->disk =
            __real_mmap(NULL, SNIB__FILE_MOST, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert_true(n->bytes != MAP_FAILED && n->disk != MAP_FAILED);
    }
}

static void node_cut(struct node *n, uint64_t size)
{
    node_remember(n);
    assert_return_code(ftruncate(n->memory, (off_t)size), 0);
    n->size = size;
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

/* Directories lie at the root, and so do links to them. */
static struct node *dir_at(const char *path)
{
    struct node *n = node_at(path);
    return n && S_ISLNK(n->mode) ? (struct node *)(uintptr_t)n->to : n;
}

/* Where that leads, links to directories followed. "": nowhere. */
static const char *followed(const char *path)
{
    static char ret[300];
    char above[300];
    const char *slash = strrchr(path, '/');
    snprintf(ret, sizeof ret, "%s", path);
    if (slash && slash != path) {
        snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
        const struct node *dir = dir_at(above);
        snprintf(ret, sizeof ret, "%.20s%.200s", dir ? path_of(dir) : "",
                 dir ? slash : "");
    } else if (dir_at(path)) {
        snprintf(ret, sizeof ret, "%s", path_of(dir_at(path)));
    }
    return ret;
}

/* -- descriptors and mappings ------------------------------------------------------- */

#define FD(fd) w.fds[(fd)-FIRST_FD]

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
    w.fds[fd].who = w.who;
    return fd + FIRST_FD;
}

static bool is_open(int fd, enum fd_is is)
{
    return fd >= FIRST_FD && fd < FIRST_FD + FDS && FD(fd).is == is;
}

static const char *fd_text(int fd)
{
    static const char *const kinds[] = {"closed", "dir",   "file",
                                        "event",  "epoll", "pidfd"};
    static char text[4][24];
    static int turn;
    bool ours = fd >= FIRST_FD && fd < FIRST_FD + FDS;
    turn = (turn + 1) % 4;
    snprintf(text[turn], sizeof text[turn], "%s %d",
             ours ? kinds[FD(fd).is] : "none", fd);
    return text[turn];
}

static void fd_close(int fd)
{
    FD(fd).is = FD_CLOSED;
    for (int i = 0; i < FDS; i++) { /* and out of each set                 */
        for (int k = 0; k < WATCHED; k++) {
            if (w.fds[i].watched[k].fd == fd) {
                w.fds[i].watched[k].fd = 0;
            }
        }
    }
}

/* Which file's byte that is; NULL: no mapping has it. */
static struct node *mapped_at(const void *at, uint64_t *ret_offset)
{
    const uint8_t *p = at;
    for (int i = 0; i < MAPPINGS; i++) {
        const uint8_t *base = w.mappings[i].base;
        if (base && p >= base && p < base + w.mappings[i].size) {
            *ret_offset = (uint64_t)(p - base);
            return w.mappings[i].node;
        }
    }
    return NULL;
}

/* -- calls that fail ------------------------------------------------------------------ */

static const char *const calls_that_fail[] = {
    "open",      "openat",    "fstat",      "stat",   "fstatfs",   "fstatvfs",
    "realpath",  "mmap",      "flock",      "flock",  "fallocate", "fallocate",
    "fdatasync", "fdatasync", "fcntl",      "event",  "epoll",     "epoll_ctl",
    "thread",    "pidfd",     "epoll_wait", "getcwd", "uname",     "memory",
    "memory",    "limit",     "attr"};

static const int errors_given[] = {EMFILE, ENFILE, ENOMEM, EACCES,     EIO,
                                   EROFS,  ENOSPC, ENOENT, EINTR,      ELOOP,
                                   EAGAIN, ESRCH,  EINVAL, EOPNOTSUPP, ENOSYS,
                                   EFBIG,  EDQUOT, ENODEV, EISDIR};

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
    for (int i = 0; i < w.process_count; i++) {
        if (w.processes[i].pid == pid && !w.processes[i].gone) {
            return &w.processes[i];
        }
    }
    return NULL;
}

static struct process *process_new(void)
{
    assert_true(w.process_count < PROCESSES);
    struct process *p = &w.processes[w.process_count++];
    *p = (struct process){.pid = 2000 + w.process_count,
                          .start = 100 * w.process_count};
    return p;
}

/* Something happens to one that has ended, or is to. */
static void process_changes(struct process *p)
{
    switch (pick("changes", 5)) {
    case 0:
    case 1:
        p->ended = true;
        break;
    case 2:
        p->ended = p->gone = true;
        break;
    case 3: /* another one has its number */
        p->ended = p->gone = false;
        p->start += 7;
        break;
    default:
        p->ended = p->gone = false;
    }
    tell("process %d: %d %d %d", (int)p->pid, p->ended, p->gone, (int)p->start);
}

#endif
