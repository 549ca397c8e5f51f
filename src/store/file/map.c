/* store/file/map.c — the file is made, checked, mapped and joined.
 *
 * Who lives. Each client holds a shared flock on the file for as long as it
 * lives. A client that gets the exclusive one is alone: it makes the file if it
 * is empty, and finds what killed clients have left (sweep.c). Then it changes
 * to the shared one. That drops the lock for an instant; another one may be
 * alone then, and this client has nothing in the file yet.
 *
 * A flock belongs to the open file: a child of fork() shares it, and keeps
 * others from being alone until it ends or calls exec. Nothing else depends on
 * it. */
#include "store/file/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"

#define REMEDY SNIB__FILE_REMEDY

uint64_t snib__map_head_sum(const struct snib__file_head *h)
{
    uint64_t sum = snib__map_hash(h->layout, &h->shape,
                                  offsetof(struct snib__file_head, sum) -
                                      offsetof(struct snib__file_head, shape));
    return snib__map_hash(sum, h->host, sizeof h->host);
}

/* -- the parts of the file -------------------------------------------------- */

static uint64_t map_parts(struct snib__map *m,
                          const struct snib__file_shape *shape)
{
    uint64_t slots = SNIB__FILE_HEAD;
    uint64_t roots =
        slots + (uint64_t)shape->slots * sizeof(struct snib__file_slot);
    uint64_t values = roots + (uint64_t)shape->roots * 8;
    uint64_t end = values + (uint64_t)shape->value_roots * 8;
    end = (end + SNIB__FILE_HEAD - 1) / SNIB__FILE_HEAD * SNIB__FILE_HEAD;
    m->slots = (void *)(m->base + slots);
    m->roots = (void *)(m->base + roots);
    m->value_roots = (void *)(m->base + values);
    m->slot_count = shape->slots;
    m->root_count = shape->roots;
    m->value_root_count = shape->value_roots;
    m->first = (uint32_t)(end / SNIB__FILE_UNIT);
    return end;
}

static snib_err map_range(struct snib__map *m, const struct snib__place *p,
                          struct snib_error *reterr)
{
    m->limit = SNIB__FILE_MOST;
    void *base =
        mmap(NULL, m->limit, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    if (base == MAP_FAILED) {
        return errno == ENODEV
                   ? snib__fail(reterr, SNIB_ERR_CONFIG,
                                "lock file %s cannot be mapped: its file "
                                "system has no shared memory; " REMEDY,
                                p->path)
                   : snib__fail(reterr, SNIB_ERR_LIMIT,
                                "lock file %s cannot be mapped: %s (it takes "
                                "%zu MiB of address space: ulimit -v)",
                                p->path, strerror(errno), m->limit >> 20);
    }
    m->base = base;
    m->head = base;
    return SNIB_ERR_OK;
}

/* -- making ----------------------------------------------------------------- */

/* Nothing is in it, or what somebody left who was killed while he made it. */
static bool map_is_blank(const struct snib__map *m, uint64_t size)
{
    uint64_t n = size < SNIB__FILE_HEAD ? size : SNIB__FILE_HEAD;
    if (size >= SNIB__FILE_HEAD &&
        memcmp(m->head->magic, SNIB__FILE_MAKING, sizeof m->head->magic) == 0) {
        return true;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (m->base[i]) {
            return false;
        }
    }
    return true;
}

/* errno e of a try to make room. */
static snib_err map_fail_room(const struct snib__place *p, int e,
                              struct snib_error *reterr)
{
    if (e == EOPNOTSUPP || e == ENOSYS) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "lock file %s: its file system (%s) cannot keep room "
                          "for a file; put it on another (tmpfs, ext4, "
                          "xfs), " REMEDY,
                          p->path, p->fs);
    }
    if (e == EFBIG) {
        return snib__fail(reterr, SNIB_ERR_LIMIT,
                          "lock file %s would be larger than this process may "
                          "make a file (ulimit -f)",
                          p->path);
    }
    return snib__host_cannot(e, p->path, reterr, "cannot make lock file %s: %s",
                             p->path, strerror(e));
}

static void map_fill_reserve(struct snib__map *m)
{
    for (uint32_t c = 0; c < SNIB__FILE_SMALL; c++) {
        uint32_t want = SNIB__FILE_RESERVED;
        uint32_t unit = (uint32_t)snib__file_load(&m->head->reserve[c]);
        for (; want && unit; want--) {
            struct snib__file_block *b = snib__block_at(m, unit, c);
            unit = b ? (uint32_t)snib__file_load(&b->next) : 0;
        }
        for (; want; want--) {
            bool reserved;
            unit = snib__block_take(m, c, true, &reserved);
            if (unit) {
                snib__block_push(m, &m->head->reserve[c], unit, c);
            }
            if (!unit || reserved) {
                return; /* the disk is full: it has what it has */
            }
        }
    }
}

/* The compiler, too, must write all before it first, and nothing behind it. */
static void map_write_magic(struct snib__map *m, const char magic[8])
{
    atomic_thread_fence(memory_order_seq_cst);
    memcpy(m->head->magic, magic, sizeof m->head->magic);
    atomic_thread_fence(memory_order_seq_cst);
    snib__file_before("magic");
}

/* The head is made from scratch. A client that is killed in here leaves nothing,
 * or the word by which the next one knows that. */
static snib_err map_make(struct snib__map *m, const struct snib__place *p,
                         const struct snib__host *h,
                         const struct snib__file_shape *shape, uint64_t key,
                         struct snib_error *reterr)
{
    struct utsname name;
    uint64_t end = map_parts(m, shape);
    if (strcmp(p->fs, "btrfs") == 0) {
        snib__map_keep_room(m);
    }
    int e = snib__map_allocate(m, 0, end);
    if (e) {
        return map_fail_room(p, e, reterr);
    }
    struct snib__file_head *head = m->head;
    map_write_magic(m, SNIB__FILE_MAKING);
    memset(m->base + sizeof head->magic, 0, end - sizeof head->magic);
    head->layout = SNIB__FILE_LAYOUT;
    head->shape = *shape;
    head->key = key;
    head->made_ms = snib__host_wall_ms(h);
    memcpy(head->boot, h->boot, sizeof head->boot);
    if (!uname(&name)) {
        snprintf(head->host, sizeof head->host, "%.63s", name.nodename);
    }
    head->sum = snib__map_head_sum(head);
    atomic_store(&head->size, end);
    atomic_store(&head->top, m->first);
    atomic_store(&head->owners, 1);
    map_fill_reserve(m);
    map_write_magic(m, SNIB__FILE_MAGIC);
    return SNIB_ERR_OK;
}

/* -- checking --------------------------------------------------------------- */

static snib_err map_fail_foreign(const struct snib__place *p, const char *what,
                                 struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_CONFIG, "%s %s; move it away or " REMEDY,
                      p->path, what);
}

static bool map_is_shape(const struct snib__file_shape *s)
{
    return s->slots > 0 && s->slots <= 1 << 16 && s->roots > 0 &&
           s->roots <= 1 << 20 && s->value_roots > 0 &&
           s->value_roots <= 1 << 20 && !(s->roots & (s->roots - 1)) &&
           !(s->value_roots & (s->value_roots - 1));
}

/* Is a file that had this size shorter than its head says? Whoever makes it grow
 * does so before the head says so: it may have grown since. */
static bool map_is_short(const struct snib__map *m, uint64_t size)
{
    uint64_t said = atomic_load_explicit(&m->head->size, memory_order_acquire);
    return size < said && snib__map_size(m) < said;
}

/* The file is not empty. */
static snib_err map_check(struct snib__map *m, const struct snib__place *p,
                          uint64_t size, struct snib_error *reterr)
{
    const struct snib__file_head *head = m->head;
    if (size >= 16 && memcmp(m->base, "SQLite format 3", 16) == 0) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "%s is an SQLite database; older snibs kept locks "
                          "in one: when none of them uses it, move it away "
                          "with its -wal, -shm and -bells, or " REMEDY,
                          p->path);
    }
    if (size < SNIB__FILE_HEAD ||
        memcmp(head->magic, SNIB__FILE_MAGIC, sizeof head->magic) != 0) {
        return map_fail_foreign(p, "is not a lock file of snib", reterr);
    }
    if (head->layout != SNIB__FILE_LAYOUT) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "lock file %s has layout %u, this snib knows %d; use "
                          "the newer snib everywhere, or move the file away "
                          "when nobody uses it",
                          p->path, head->layout, SNIB__FILE_LAYOUT);
    }
    if (head->sum != snib__map_head_sum(head) || !map_is_shape(&head->shape)) {
        return map_fail_foreign(p, "is damaged (its head)", reterr);
    }
    uint64_t end = map_parts(m, &head->shape);
    snib__file_before("check");
    if (size < end || map_is_short(m, size)) {
        return map_fail_foreign(p, "is damaged (it was cut off)", reterr);
    }
    return SNIB_ERR_OK;
}

/* -- joining ---------------------------------------------------------------- */

static bool map_is_boot(const struct snib__map *m, const struct snib__host *h)
{
    return memcmp(m->head->boot, h->boot, sizeof h->boot) == 0;
}

/* This client is alone. */
static snib_err map_alone(struct snib__map *m, const struct snib__place *p,
                          const struct snib__host *h,
                          const struct snib__file_shape *shape, uint64_t key,
                          uint64_t size, struct snib_error *reterr)
{
    if (map_is_blank(m, size)) {
        return map_make(m, p, h, shape, key, reterr);
    }
    /* After a power failure the head may say more than there is. */
    bool new_boot = size >= SNIB__FILE_HEAD && !map_is_boot(m, h);
    if (new_boot &&
        memcmp(m->head->magic, SNIB__FILE_MAGIC, sizeof m->head->magic) == 0 &&
        atomic_load(&m->head->size) > size) {
        atomic_store(&m->head->size, size);
    }
    snib_err err = map_check(m, p, size, reterr);
    bool missing =
        !err && atomic_load(&m->head->opened) != atomic_load(&m->head->closed);
    if (!err && (new_boot || missing)) {
        err = snib__sweep(m, h, new_boot, reterr);
        if (!err) {
            map_fill_reserve(m);
        }
    }
    return err;
}

static snib_err map_fail_flock(const struct snib__place *p,
                               struct snib_error *reterr)
{
    return errno == EWOULDBLOCK || errno == EINTR
               ? SNIB_ERR_OK
               : snib__host_cannot(errno, p->path, reterr, "%s: flock: %s",
                                   p->path, strerror(errno));
}

/* A file whose size cannot be told is not taken for an empty one. */
static snib_err map_size(const struct snib__map *m, const struct snib__place *p,
                         uint64_t *ret, struct snib_error *reterr)
{
    struct stat st;
    *ret = 0;
    if (fstat(m->fd, &st)) {
        return snib__host_cannot(errno, p->path, reterr,
                                 "lock file %s: its size cannot be told: %s",
                                 p->path, strerror(errno));
    }
    *ret = (uint64_t)st.st_size;
    return SNIB_ERR_OK;
}

/* The shared flock is held. *ret: this client is in. Else it has to try again,
 * since who made the file was killed, or another boot's clients live. */
static snib_err map_enter(struct snib__map *m, const struct snib__place *p,
                          const struct snib__host *h, bool *ret,
                          struct snib_error *reterr)
{
    uint64_t size;
    *ret = false;
    snib_err err = map_size(m, p, &size, reterr);
    if (err || map_is_blank(m, size)) {
        return err;
    }
    err = map_check(m, p, size, reterr);
    if (!err && map_is_boot(m, h)) {
        if (snib__place_moved(p, &size)) {
            return snib__fail(reterr, SNIB_ERR_STORE,
                              "lock file %s was removed or replaced while it "
                              "was being opened; try again",
                              p->path);
        }
        (void)snib__file_add(&m->head->opened, 1);
        snib__map_mark(m, h);
        m->joined = *ret = true;
    }
    return err;
}

/* One try. *ret: this client is in. */
static snib_err map_try(struct snib__map *m, const struct snib__place *p,
                        const struct snib__host *h,
                        const struct snib__file_shape *shape, uint64_t key,
                        bool *ret, struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    uint64_t size;
    *ret = false;
    if (flock(m->fd, LOCK_EX | LOCK_NB) == 0) {
        err = map_size(m, p, &size, reterr);
        err = err ? err : map_alone(m, p, h, shape, key, size, reterr);
    } else {
        err = map_fail_flock(p, reterr);
    }
    if (!err && flock(m->fd, LOCK_SH | LOCK_NB) == 0) {
        err = map_enter(m, p, h, ret, reterr);
        if (!*ret) {
            flock(m->fd, LOCK_UN);
        }
    } else if (err) {
        flock(m->fd, LOCK_UN);
    } else {
        err = map_fail_flock(p, reterr);
    }
    return err;
}

static snib_err map_fail_waiting(const struct snib__map *m,
                                 const struct snib__place *p,
                                 const struct snib__host *h,
                                 struct snib_error *reterr)
{
    char who[SNIB__WHO];
    uint64_t size;
    bool known = snib__host_user_of(m->fd, who);
    bool sized = !map_size(m, p, &size, NULL);
    /* Who makes the file is alone meanwhile. Here others live in one that has
     * nothing in it. */
    if (sized && map_is_blank(m, size) &&
        flock(m->fd, LOCK_SH | LOCK_NB) == 0) {
        flock(m->fd, LOCK_UN);
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "lock file %s was cut off while others%s%s%s use it; "
                          "it can be used again once they have ended",
                          p->path, known ? " (" : "", known ? who : "",
                          known ? ")" : "");
    }
    if (sized && size >= SNIB__FILE_HEAD && !map_is_boot(m, h)) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "lock file %s is in use by processes that report "
                          "another boot id (a container with its own?); they "
                          "cannot share it: " REMEDY,
                          p->path);
    }
    return snib__fail(reterr, SNIB_ERR_STORE,
                      "lock file %s: another process%s%s%s is opening it and "
                      "does not come to an end",
                      p->path, known ? " (" : "", known ? who : "",
                      known ? ")" : "");
}

snib_err snib__map_open(struct snib__map *m, const struct snib__place *p,
                        const struct snib__host *h,
                        const struct snib__file_shape *shape, uint64_t key,
                        snib_duration patience, struct snib_error *reterr)
{
    const struct timespec pause = {.tv_nsec = 300000};
    snib_instant until = snib__after(snib__host_now(), patience);
    *m = (struct snib__map){.fd = p->fd};
    snib_err err = map_range(m, p, reterr);
    while (!err) {
        bool in;
        err = map_try(m, p, h, shape, key, &in, reterr);
        if (err || in) {
            break;
        }
        if (snib__reached(snib__host_now(), until)) {
            err = map_fail_waiting(m, p, h, reterr);
        }
        nanosleep(&pause, NULL);
    }
    if (err) {
        snib__map_close(m, false);
    }
    return err;
}

bool snib__map_is_cut(struct snib__map *m, uint64_t size)
{
    if (m->cut || !m->joined) {
        return m->cut;
    }
    m->cut = size < SNIB__FILE_HEAD || map_is_short(m, size);
    if (m->cut) { /* nobody asks for blocks any more */
        (void)mmap(m->base, (size_t)m->first * SNIB__FILE_UNIT,
                   PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    return m->cut;
}

void snib__map_close(struct snib__map *m, bool forked)
{
    if (m->joined && !forked) {
        if (!snib__map_is_cut(m, snib__map_size(m))) {
            snib__block_give_spares(m);
            (void)snib__file_add(&m->head->closed, 1);
        }
        /* Not by close() alone: a copy in a forked child would keep the
         * lock. */
        flock(m->fd, LOCK_UN);
    }
    if (m->base) {
        munmap(m->base, m->limit);
    }
    *m = (struct snib__map){.fd = -1};
}
