/* store/host.c — facts of this host and process; has a process ended?
 *
 * Leases of a file are instants of CLOCK_BOOTTIME, so all that use the file
 * must share that clock: the same boot (boot id), no time namespace with an
 * offset, no network file system.
 *
 * A process counts as gone only when that is certain. Its pid must be of our
 * own pid namespace, and the kernel must say that it does not exist or has
 * ended, or /proc that another process has the pid now. In any doubt (a kernel
 * without pidfd_open, a foreign /proc) it is not gone; its lease ends its
 * claims. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "store/host.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* Read a whole small file as text. False: it cannot be read. */
static bool host_slurp(const char *path, char *ret, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t n = 0;
    if (fd < 0) {
        return false;
    }
    while (used + 1 < size &&
           (n = TEMP_FAILURE_RETRY(read(fd, ret + used, size - 1 - used))) >
               0) {
        used += (size_t)n;
    }
    close(fd);
    ret[used] = 0;
    return n >= 0;
}

/* The start time (field 22) and the state letter of /proc/PID/stat. The
 * program's name before them may contain anything, so count from the last
 * ')'. */
static bool host_read_stat(int64_t pid, int64_t *ret_start, char *ret_state)
{
    char path[48], text[1024], *p;
    long long start;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    if (!host_slurp(path, text, sizeof text) || !(p = strrchr(text, ')')) ||
        p[1] != ' ' || !p[2]) {
        return false;
    }
    *ret_state = p[2];
    if (sscanf(p + 3,
               "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%*s %*s %*s %*s %*s %*s %lld",
               &start) != 1) {
        return false;
    }
    *ret_start = start;
    return start > 0;
}

static bool host_has_time_offset(void)
{
    char text[256], *p;
    long long s = 0, ns = 0;
    if (!host_slurp("/proc/self/timens_offsets", text, sizeof text)) {
        return false; /* a kernel without time namespaces */
    }
    p = strstr(text, "boottime");
    return p && sscanf(p, "boottime %lld %lld", &s, &ns) == 2 && (s || ns);
}

void snib__host_read(struct snib__host *h)
{
    char text[64];
    struct stat st;
    char state;
    ssize_t n;
    *h = (struct snib__host){.pid = getpid()};
    if (host_slurp("/proc/sys/kernel/random/boot_id", text, sizeof text)) {
        text[strcspn(text, "\n")] = 0;
        snprintf(h->boot, sizeof h->boot, "%.39s", text);
    }
    h->timens = host_has_time_offset();
    n = readlink("/proc/self", text, sizeof text - 1);
    if (n > 0) {
        text[n] = 0;
        h->proc = strtoll(text, NULL, 10) == h->pid;
    }
    if (h->proc && stat("/proc/self/ns/pid", &st) == 0) {
        h->pidns = (int64_t)st.st_ino;
    }
    if (!h->proc || !host_read_stat(h->pid, &h->start, &state)) {
        h->start = 0;
    }
}

static snib_instant host_instant(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (snib_instant){(int64_t)t.tv_sec * 1000000000 + t.tv_nsec};
}

snib_instant snib__host_now(void)
{
    return host_instant(CLOCK_BOOTTIME);
}

snib_instant snib__host_coarse(void)
{
    return host_instant(CLOCK_MONOTONIC_COARSE);
}

snib_instant snib__host_lease_now(const struct snib__host *h)
{
    return (snib_instant){snib__host_now().ns + h->skew_ns};
}

int64_t snib__host_wall_ms(const struct snib__host *h)
{
    return host_instant(CLOCK_REALTIME).ns / 1000000 + h->wall_skew_ms;
}

int64_t snib__host_wall_offset(const struct snib__host *h)
{
    enum { NEAR_NS = 2000, TRIES = 50 };
    for (int tries = 0;; tries++) {
        int64_t a = snib__host_lease_now(h).ns;
        int64_t wall = host_instant(CLOCK_REALTIME).ns;
        int64_t b = snib__host_lease_now(h).ns;
        if (b - a < NEAR_NS || tries == TRIES) {
            return wall + h->wall_skew_ms * 1000000 - (a + b) / 2;
        }
    }
}

int64_t snib__host_wall_coarse_ms(const struct snib__host *h)
{
    return host_instant(CLOCK_REALTIME_COARSE).ns / 1000000 + h->wall_skew_ms;
}

const char *snib__fs_name(uint64_t magic, char *ret_other, size_t size)
{
    static const struct {
        uint32_t magic;
        bool ok;
        const char *name;
    } known[] = {
        {0xef53, true, "ext2/3/4"},     {0x58465342, true, "xfs"},
        {0x9123683e, true, "btrfs"},    {0xf2f52010, true, "f2fs"},
        {0x2fc12fc1, true, "zfs"},      {0x01021994, true, "tmpfs"},
        {0x794c7630, true, "overlay"},  {0x6969, false, "NFS"},
        {0xff534d42, false, "CIFS"},    {0xfe534d42, false, "SMB2"},
        {0x517b, false, "SMB"},         {0x65735546, false, "FUSE"},
        {0x01021997, false, "9p"},      {0x00c36400, false, "Ceph"},
        {0x5346414f, false, "AFS"},     {0x0bd00bd0, false, "Lustre"},
        {0x786f4256, false, "vboxsf"},  {0x01161970, false, "GFS2"},
        {0x7461636f, false, "OCFS2"},   {0x4d44, false, "FAT"},
        {SNIB__FS_PROC, false, "proc"}, {SNIB__FS_SYSFS, false, "sysfs"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].magic == magic) {
            if (!known[i].ok) {
                snprintf(ret_other, size, "%s", known[i].name);
                return NULL;
            }
            return known[i].name;
        }
    }
    snprintf(ret_other, size, "type 0x%llx", (unsigned long long)magic);
    return NULL;
}

int snib__host_pidfd(const struct snib__host *h, int64_t pid, int64_t pidns)
{
    if (pid <= 0 || pid > INT32_MAX || !pidns || pidns != h->pidns) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
}

bool snib__host_gone(const struct snib__host *h, int64_t pid, int64_t start,
                     int64_t pidns, bool thorough)
{
    int64_t start_now;
    char state;
    int fd = snib__host_pidfd(h, pid, pidns);
    if (fd < 0) {
        return errno == ESRCH;
    }
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool ended = poll(&p, 1, 0) == 1 && (p.revents & POLLIN);
    close(fd);
    if (ended || !thorough || start <= 0) {
        return ended;
    }
    return host_read_stat(pid, &start_now, &state) && start_now != start;
}

/* -- who uses a file ------------------------------------------------------- */

/* Whose flock to look for in /proc/locks. A line of it: "7: FLOCK  ADVISORY
 * READ 4312 fe:01:1234 0 EOF". The device there is the kernel's own. On ext,
 * xfs, f2fs, zfs and tmpfs stat shows the same one, so a lock with another
 * device is one of another file. On btrfs stat shows one for each subvolume, on
 * overlay one for each layer, so there the inode has to do. */
struct wanted {
    bool others;  /* not this process's */
    bool mine;    /* processes of this user only */
    bool any_dev; /* dev says nothing */
    dev_t dev;
    uint64_t ino;
    bool of_32; /* ino is its number of 32 bits */
};

static bool host_hides_device(const struct statfs *fs)
{
    return (uint32_t)fs->f_type == 0x9123683e || /* btrfs */
           (uint32_t)fs->f_type == 0x794c7630;   /* overlay */
}

/* Has the process that took this lock ended? (It may have left its flock to a
 * child.) /proc of other users' processes may be hidden from us. */
static bool host_has_ended(int64_t pid)
{
    int64_t start;
    char state;
    if (host_read_stat(pid, &start, &state)) {
        return state == 'Z' || state == 'X';
    }
    return kill((pid_t)pid, 0) && errno == ESRCH;
}

static bool host_is_mine(int64_t pid)
{
    char dir[40];
    struct stat st;
    snprintf(dir, sizeof dir, "/proc/%lld", (long long)pid);
    return stat(dir, &st) == 0 && st.st_uid == geteuid();
}

/* Is this line such a lock? *ret_pid: whose. *ret_dev: it has the same
 * device. */
static bool host_is_wanted(const struct wanted *w, const char *line,
                           int64_t *ret_pid, bool *ret_dev)
{
    char type[8];
    long long who;
    unsigned major, minor;
    unsigned long long ino;
    if (sscanf(line, "%*d: %7s %*s %*s %lld %x:%x:%llu", type, &who, &major,
               &minor, &ino) != 5) {
        return false;
    }
    *ret_pid = who;
    *ret_dev = makedev(major, minor) == w->dev;
    return (w->of_32 ? snib__host_inode(ino) : ino) == w->ino &&
           (*ret_dev || w->any_dev) && who > 0 && strcmp(type, "FLOCK") == 0 &&
           (!w->others || who != getpid()) && (!w->mine || host_is_mine(who));
}

/* The pid of a process with such a lock; 0: none is seen. A process that lives
 * goes before one that has ended, and a lock of the same device before others.
 * *ret_seen: a hash of all lines that were read. */
static int64_t host_look_for_lock(const struct wanted *w, uint64_t *ret_seen)
{
    char line[256];
    int64_t pid = 0, alike = 0, who;
    bool same;
    FILE *f = fopen("/proc/locks", "re");
    *ret_seen = 0;
    if (!f) {
        return 0;
    }
    while (!pid && fgets(line, sizeof line, f)) {
        for (const char *c = line; *c; c++) {
            *ret_seen = (*ret_seen ^ (uint8_t)*c) * 1099511628211u;
        }
        if (host_is_wanted(w, line, &who, &same)) {
            alike = alike ? alike : who;
            pid = same && !host_has_ended(who) ? who : 0;
        }
    }
    fclose(f);
    return pid ? pid : alike;
}

/* The kernel gives the list in pieces. When a lock ends between two pieces,
 * those behind it move up, and one is missed. So "none" is believed only when
 * two readings in a row are the same, or after TIMES readings, since a busy
 * list never stays the same. */
static int64_t host_find_lock(const struct wanted *w)
{
    enum { TIMES = 20 };
    uint64_t seen, before = 0;
    int64_t pid = host_look_for_lock(w, &before);
    for (int i = 1; !pid && i < TIMES; i++) {
        pid = host_look_for_lock(w, &seen);
        if (seen == before) {
            break;
        }
        before = seen;
    }
    return pid;
}

/* w: the other fields of what is wanted. */
static bool host_say_user(struct wanted w, int fd, char ret[SNIB__WHO])
{
    struct stat st;
    struct statfs fs;
    ret[0] = 0;
    if (fstat(fd, &st) || fstatfs(fd, &fs)) {
        return false;
    }
    w.any_dev = host_hides_device(&fs);
    w.dev = st.st_dev;
    w.ino = w.of_32 ? w.ino : st.st_ino;
    int64_t pid = host_find_lock(&w);
    if (pid > 0) {
        snprintf(ret, SNIB__WHO, "%s %lld",
                 host_has_ended(pid) ? "a child of the ended process"
                                     : "process",
                 (long long)pid);
    }
    return pid > 0;
}

bool snib__host_user_of(int fd, char ret[SNIB__WHO])
{
    return host_say_user((struct wanted){.others = true}, fd, ret);
}

bool snib__host_user_at(int fd, uint32_t inode, bool mine, char ret[SNIB__WHO])
{
    return host_say_user(
        (struct wanted){.mine = mine, .ino = inode, .of_32 = true}, fd, ret);
}
