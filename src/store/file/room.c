/* store/file/room.c — room on the disk, and what the head notes.
 *
 * The whole range that the file may ever have is mapped at once, longer
 * than the file. What lies beyond its end must not be touched (SIGBUS), and what
 * is used must have room on the disk (SIGBUS, too). So the head says up to
 * where fallocate() has made room, and a block is taken only below that.
 *
 * btrfs writes what changes to another place each time, which needs room again,
 * so on a full disk the next store into a clean page would end the process. A
 * file that is not copied on write keeps its place. Only an empty one can be made
 * one. */
#include "store/file/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

uint64_t snib__map_hash(uint64_t h, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    h ^= UINT64_C(0x9e3779b97f4a7c15) * (size + 1);
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        h = (h ^ v) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    for (; size; p++, size--) {
        h = (h ^ *p) * UINT64_C(0x100000001b3);
        h ^= h >> 29;
    }
    return h;
}

void snib__map_mark(struct snib__map *m, const struct snib__host *h)
{
    int64_t clock = snib__host_wall_ms(h) * 1024;
    if (snib__is_token(clock)) {
        snib__file_raise(&m->head->mark, clock);
    }
}

/* fallocate(2), not posix_fallocate(3): where a file system cannot keep room,
 * that one writes zeros, while others write there. */
int snib__map_allocate(const struct snib__map *m, uint64_t from, uint64_t to)
{
    struct rlimit may;
    int rc;
    /* beyond the limit the kernel would send SIGXFSZ */
    if (!getrlimit(RLIMIT_FSIZE, &may) && may.rlim_cur != RLIM_INFINITY &&
        to > may.rlim_cur) {
        return EFBIG;
    }
    do {
        rc = fallocate(m->fd, 0, (off_t)from, (off_t)(to - from));
    } while (rc && errno == EINTR);
    return rc ? errno : 0;
}

bool snib__map_keeps_room(const struct snib__map *m)
{
    int flags = 0;
    return ioctl(m->fd, FS_IOC_GETFLAGS, &flags) == 0 && (flags & FS_NOCOW_FL);
}

void snib__map_keep_room(const struct snib__map *m)
{
    int flags = 0;
    if (ioctl(m->fd, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_NOCOW_FL;
        /* where it cannot be, the doctor says so */
        (void)ioctl(m->fd, FS_IOC_SETFLAGS, &flags);
    }
}

uint64_t snib__map_size(const struct snib__map *m)
{
    struct stat st;
    return fstat(m->fd, &st) ? UINT64_MAX : (uint64_t)st.st_size;
}

bool snib__map_room(struct snib__map *m, uint64_t bytes)
{
    uint64_t size = snib__file_load(&m->head->size);
    if (bytes > m->limit) {
        m->full = EFBIG;
        return false;
    }
    while (size < bytes) {
        uint64_t want = size + SNIB__FILE_GROWTH;
        want = want > bytes ? want : bytes;
        want = want < m->limit ? want : m->limit;
        int e = snib__map_allocate(m, size, want);
        if (e && want > bytes) {
            want = bytes;
            e = snib__map_allocate(m, size, want);
        }
        if (e) {
            m->full = e;
            return false;
        }
        if (snib__file_cas(&m->head->size, &size, want)) {
            size = want;
        }
    }
    return true;
}
