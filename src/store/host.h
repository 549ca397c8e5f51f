/* store/host.h — what an embedded store asks its host: clocks, processes, users
 * of files, file systems. */
#ifndef SNIB__STORE_HOST_H
#define SNIB__STORE_HOST_H

#include "base/error.h"
#include "base/time.h"

/* What the store takes from its surroundings; tests change it. */
struct snib__host {
    char boot[40]; /* /proc/sys/kernel/random/boot_id */
    bool timens;   /* in a time namespace with an offset */
    bool proc;     /* /proc is that of our pid namespace */
    int64_t pid, start, pidns;
    uint64_t fs_magic;    /* 0: ask statfs */
    int64_t wall_skew_ms; /* added to CLOCK_REALTIME */
    int64_t skew_ns;      /* added to CLOCK_BOOTTIME for leases */
};

void snib__host_read(struct snib__host *);
/* Can leases stand in a file on it? CONFIG: its clock is not the host's, or the
 * boot is not known. */
snib_err snib__host_fits(const struct snib__host *, struct snib_error *reterr);
/* CLOCK_BOOTTIME: for waiting. */
snib_instant snib__host_now(void);
/* Up to 10 ms behind, and cheaper; it does not count a suspend. Only to tell
 * whether a while has passed. */
snib_instant snib__host_coarse(void);
/* The same as snib__host_now with the skew of a test: for leases. */
snib_instant snib__host_lease_now(const struct snib__host *);
int64_t snib__host_wall_ms(const struct snib__host *);
/* What has to be added to snib__host_lease_now to have Unix time, in ns. The
 * clocks are read one right after the other, so that it is the same each time. */
int64_t snib__host_wall_offset(const struct snib__host *);
/* The same, up to 10 ms behind, and cheaper. */
int64_t snib__host_wall_coarse_ms(const struct snib__host *);
/* The kernel's own file systems, in which nobody can make a file. */
enum { SNIB__FS_PROC = 0x9fa0, SNIB__FS_SYSFS = 0x62656572 };
/* The file system's name if locks may live there. Else NULL, and *ret_other is
 * how to name it in an error ("NFS", "type 0x…"); size is at least 24 bytes. */
const char *snib__fs_name(uint64_t magic, char *ret_other, size_t size);
/* True only if the process has certainly ended. `thorough` also compares the
 * start time (it reads /proc), which finds out a pid that was used again. */
bool snib__host_gone(const struct snib__host *, int64_t pid, int64_t start,
                     int64_t pidns, bool thorough);
/* A pidfd of this process, or -1. */
int snib__host_pidfd(const struct snib__host *, int64_t pid, int64_t pidns);
/* Has another process a flock of what this descriptor names? If so, ret is that
 * process in words: "process 4312", "a child of the ended process 4312". False:
 * none is seen. */
#define SNIB__WHO 52
bool snib__host_user_of(int fd, char ret[SNIB__WHO]);
/* A number of 32 bits for that of an inode, which may have more. */
static inline uint32_t snib__host_inode(uint64_t ino)
{
    return (uint32_t)(ino ^ ino >> 32);
}
/* Has any process, this one or another, a flock of the file whose inode has this
 * number (snib__host_inode) on the file system of that descriptor? The same
 * words. mine: only processes of this user are seen. */
bool snib__host_user_at(int fd, uint32_t inode, bool mine, char ret[SNIB__WHO]);
/* Says what errno e means if something is used up: LIMIT for descriptors, with
 * the limit that has to be raised; NOMEM for memory; STORE for the disk. OK: e
 * means something else. what: the path that could not be opened or made. */
snib_err snib__host_lacks(int e, const char *what, struct snib_error *);
/* The same, or else an error with this text: STORE if the disk failed (EIO),
 * CONFIG if not. */
snib_err snib__host_cannot(int e, const char *what, struct snib_error *,
                           const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* A directory as it was named ("" is the root), from the root on whatever the
 * current directory will be. *ret, which the caller frees: that path, for
 * snib__host_leads_to(); NULL: it is `real`, to which it was resolved. NOMEM;
 * CONFIG, STORE: the current directory cannot be told. */
snib_err snib__host_given(const char *dir, const char *real, char **ret,
                          struct snib_error *reterr);
/* Does that path still lead to this directory? Of NULL: yes. */
bool snib__host_leads_to(const char *given, int dir);

#endif
