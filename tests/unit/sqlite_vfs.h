/* tests/unit/sqlite_vfs.h — where SQLite keeps its files in unit.sqlite_same:
 * the tree of sqlite_world.h, with locks between connections as of processes.
 * Nothing of it is told: what SQLite does there is SQLite's. */
#ifndef SNIB_TESTS_SQLITE_VFS_H
#define SNIB_TESTS_SQLITE_VFS_H

#include "sqlite_world.h"

struct opened {
    sqlite3_file base;
    struct node *node, *shm;
    char path[280];
    int level;
    int shm_shared, shm_sole; /* a bit each                                 */
    bool gone_at_close;
};

static int lent_errno; /* what the library says of its last call            */

/* SQLite makes what lies beside a file like that file. */
static struct node *make_upgrade(const char *path, const char *main)
{
    const struct node *like = node_at(main);
    struct node *n = make_file(path, S_IFREG | 0600);
    if (like) {
        n->mode = like->mode;
        n->gid = like->gid;
    }
    return n;
}

static struct opened *opened_of(sqlite3_file *f)
{
    return (struct opened *)f;
}

/* -- bytes -------------------------------------------------------------------------- */

static int vfs_read(sqlite3_file *f, void *to, int size, sqlite3_int64 at)
{
    const struct node *n = opened_of(f)->node;
    int64_t left = n->size > at ? n->size - at : 0;
    size_t there = (size_t)(left < size ? left : size);
    if (there) {
        memcpy(to, n->data + at, there);
    }
    memset((uint8_t *)to + there, 0, (size_t)size - there);
    return (int)there < size ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
}

static int vfs_write(sqlite3_file *f, const void *from, int size,
                     sqlite3_int64 at)
{
    struct node *n = opened_of(f)->node;
    node_room(n, at + size);
    memcpy(n->data + at, from, (size_t)size);
    return SQLITE_OK;
}

static int vfs_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    struct node *n = opened_of(f)->node;
    n->size = size < n->size ? size : n->size;
    return SQLITE_OK;
}

static int vfs_sync(sqlite3_file *f, int flags)
{
    (void)f;
    (void)flags;
    return SQLITE_OK;
}

static int vfs_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    *ret = opened_of(f)->node->size;
    return SQLITE_OK;
}

/* -- locks of the file ----------------------------------------------------------------- */

static int vfs_unlock(sqlite3_file *f, int level)
{
    struct opened *o = opened_of(f);
    struct node *n = o->node;
    if (o->level > SQLITE_LOCK_SHARED) {
        n->reserved = n->reserved == o ? NULL : n->reserved;
        n->exclusive = n->exclusive == o ? NULL : n->exclusive;
    }
    if (level == SQLITE_LOCK_NONE && o->level > SQLITE_LOCK_NONE) {
        n->shared--;
    }
    o->level = level < o->level ? level : o->level;
    return SQLITE_OK;
}

static int vfs_lock(sqlite3_file *f, int level)
{
    struct opened *o = opened_of(f);
    struct node *n = o->node;
    if (level <= o->level) {
        return SQLITE_OK;
    }
    if ((n->exclusive && n->exclusive != o) ||
        (level > SQLITE_LOCK_SHARED && n->reserved && n->reserved != o)) {
        return SQLITE_BUSY;
    }
    if (o->level == SQLITE_LOCK_NONE) {
        n->shared++;
        o->level = SQLITE_LOCK_SHARED;
    }
    if (level > SQLITE_LOCK_SHARED) {
        n->reserved = o;
        o->level = SQLITE_LOCK_RESERVED;
    }
    if (level > SQLITE_LOCK_RESERVED) {
        if (n->shared > 1) {
            return SQLITE_BUSY;
        }
        n->exclusive = o;
        o->level = SQLITE_LOCK_EXCLUSIVE;
    }
    return SQLITE_OK;
}

static int vfs_reserved(sqlite3_file *f, int *ret)
{
    *ret = opened_of(f)->node->reserved != NULL;
    return SQLITE_OK;
}

/* -- the index of the log ----------------------------------------------------------------- */

static int vfs_map(sqlite3_file *f, int region, int size, int extend,
                   void volatile **ret)
{
    struct opened *o = opened_of(f);
    char path[300];
    *ret = NULL;
    if (!o->shm) {
        snprintf(path, sizeof path, "%s-shm", o->path);
        o->shm = node_at(path);
        o->shm = o->shm ? o->shm : make_upgrade(path, o->path);
    }
    if (region >= SHM_REGIONS) {
        return SQLITE_IOERR_SHMMAP;
    }
    if (!o->shm->shm[region] && extend) {
        o->shm->shm[region] = calloc(1, (size_t)size);
    }
    *ret = o->shm->shm[region];
    return SQLITE_OK;
}

static bool is_free(const struct opened *o, int i, bool shared)
{
    const struct node *n = o->shm;
    int others = n->shm_shared[i] - (o->shm_shared >> i & 1);
    return !(n->shm_sole[i] && n->shm_sole[i] != o) && (shared || others == 0);
}

static int vfs_shm_lock(sqlite3_file *f, int offset, int count, int flags)
{
    struct opened *o = opened_of(f);
    bool shared = flags & SQLITE_SHM_SHARED;
    if (!o->shm) {
        return SQLITE_OK;
    }
    for (int i = offset; i < offset + count; i++) {
        if ((flags & SQLITE_SHM_LOCK) && !is_free(o, i, shared)) {
            return SQLITE_BUSY;
        }
    }
    for (int i = offset; i < offset + count; i++) {
        int bit = 1 << i;
        int *mine = shared ? &o->shm_shared : &o->shm_sole;
        int by = flags & SQLITE_SHM_LOCK ? !(*mine & bit) : -!!(*mine & bit);
        if (shared) {
            o->shm->shm_shared[i] += by;
        } else if (by) {
            o->shm->shm_sole[i] = by > 0 ? o : NULL;
        }
        *mine = flags & SQLITE_SHM_LOCK ? *mine | bit : *mine & ~bit;
    }
    return SQLITE_OK;
}

static void vfs_barrier(sqlite3_file *f)
{
    (void)f;
}

static int vfs_unmap(sqlite3_file *f, int remove)
{
    struct opened *o = opened_of(f);
    vfs_shm_lock(f, 0, SHM_LOCKS, SQLITE_SHM_UNLOCK | SQLITE_SHM_SHARED);
    vfs_shm_lock(f, 0, SHM_LOCKS, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
    if (remove && o->shm) {
        char path[300];
        snprintf(path, sizeof path, "%s-shm", o->path);
        entry_drop(path);
    }
    o->shm = NULL;
    return SQLITE_OK;
}

/* -- files --------------------------------------------------------------------------------- */

static int vfs_close(sqlite3_file *f)
{
    struct opened *o = opened_of(f);
    vfs_unmap(f, 0);
    vfs_unlock(f, SQLITE_LOCK_NONE);
    if (o->gone_at_close && o->path[0]) {
        entry_drop(o->path);
    }
    return SQLITE_OK;
}

static int vfs_control(sqlite3_file *f, int what, void *arg)
{
    (void)f;
    if (what == SQLITE_FCNTL_LAST_ERRNO) {
        *(int *)arg = lent_errno;
        return SQLITE_OK;
    }
    return what == SQLITE_FCNTL_PERSIST_WAL ? SQLITE_OK : SQLITE_NOTFOUND;
}

static int vfs_sector(sqlite3_file *f)
{
    (void)f;
    return 512;
}

static int vfs_traits(sqlite3_file *f)
{
    (void)f;
    return 0;
}

static const sqlite3_io_methods vfs_methods = {
    .iVersion = 2,
    .xClose = vfs_close,
    .xRead = vfs_read,
    .xWrite = vfs_write,
    .xTruncate = vfs_truncate,
    .xSync = vfs_sync,
    .xFileSize = vfs_size,
    .xLock = vfs_lock,
    .xUnlock = vfs_unlock,
    .xCheckReservedLock = vfs_reserved,
    .xFileControl = vfs_control,
    .xSectorSize = vfs_sector,
    .xDeviceCharacteristics = vfs_traits,
    .xShmMap = vfs_map,
    .xShmLock = vfs_shm_lock,
    .xShmBarrier = vfs_barrier,
    .xShmUnmap = vfs_unmap,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f,
                    int flags, int *ret_flags)
{
    struct opened *o = opened_of(f);
    (void)vfs;
    *o = (struct opened){.node = name ? node_at(name) : node_new(S_IFREG)};
    if (!o->node && (flags & SQLITE_OPEN_CREATE) && strrchr(name, '-')) {
        char above[280];
        snprintf(above, sizeof above, "%.*s", (int)(strrchr(name, '-') - name),
                 name);
        o->node = make_upgrade(name, above);
    }
    if (!o->node || !S_ISREG(o->node->mode)) {
        return SQLITE_CANTOPEN;
    }
    snprintf(o->path, sizeof o->path, "%s", name ? name : "");
    o->gone_at_close = flags & SQLITE_OPEN_DELETEONCLOSE;
    o->base.pMethods = &vfs_methods;
    if (ret_flags) {
        *ret_flags = flags;
    }
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
    (void)vfs;
    (void)sync;
    return entry_drop(name) ? SQLITE_OK : SQLITE_IOERR_DELETE_NOENT;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int how, int *ret)
{
    const struct node *n = node_at(name);
    (void)vfs;
    *ret = n && (how != SQLITE_ACCESS_EXISTS || n->size > 0);
    return SQLITE_OK;
}

static int vfs_path(sqlite3_vfs *vfs, const char *name, int size, char *ret)
{
    (void)vfs;
    snprintf(ret, (size_t)size, "%s", name);
    return SQLITE_OK;
}

static int vfs_random(sqlite3_vfs *vfs, int size, char *ret)
{
    static uint8_t next;
    (void)vfs;
    for (int i = 0; i < size; i++) {
        ret[i] = (char)(++next * 37);
    }
    return size;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    w.now += us * INT64_C(1000);
    return us;
}

static int vfs_time(sqlite3_vfs *vfs, sqlite3_int64 *ret)
{
    (void)vfs;
    *ret = INT64_C(210866760000000) + w.wall_ms + w.now / MS;
    return SQLITE_OK;
}

static int vfs_error(sqlite3_vfs *vfs, int size, char *ret)
{
    (void)vfs;
    (void)size;
    (void)ret;
    return lent_errno;
}

static sqlite3_vfs vfs_world = {
    .iVersion = 2,
    .szOsFile = sizeof(struct opened),
    .mxPathname = 260,
    .zName = "world",
    .xOpen = vfs_open,
    .xDelete = vfs_delete,
    .xAccess = vfs_access,
    .xFullPathname = vfs_path,
    .xRandomness = vfs_random,
    .xSleep = vfs_sleep,
    .xGetLastError = vfs_error,
    .xCurrentTimeInt64 = vfs_time,
};

static void begin_vfs(void)
{
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    assert_int_equal(sqlite3_vfs_register(&vfs_world, 1), SQLITE_OK);
}

#endif
