/* store/sqlite/vfs.c — SQLite's way to the files, without a rollback journal.
 *
 * SQLite replays a file FILE-journal that lies beside FILE before it checks
 * whether FILE is in WAL mode, whoever put it there. In a directory that others
 * may write to, anybody can put one there. A journal that says "the file had no
 * pages" takes all leases away. One that names a super-journal has the file of
 * that name removed, whatever file it is, with the rights of the process that
 * opens the lock file next.
 *
 * A lock file is in WAL mode from its first page on, and never needs such a
 * journal. So our connections see the files through this VFS. It is SQLite's
 * own way (the program's default VFS), except that
 *
 *  looking for a file    finds a -wal only;
 *  opening a journal     fails: that of a file, or one above several;
 *  removing a file       is done to a -wal only (of a file without a page).
 *
 * SQLite knows the VFS by its name only while a thread opens a file: nothing of
 * ours is left in its list when the program unloads this library. The name has
 * our address in it, since a process may have this library twice. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "store/sqlite/internal.h"

static struct {
    pthread_mutex_t mutex;
    sqlite3_vfs vfs;
    sqlite3_vfs *real; /* set once: connections use it without the mutex */
    char name[40];
    int opening; /* threads that need the name */
} way = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static bool vfs_is_wal(const char *path)
{
    size_t size = strlen(path);
    return size > 4 && strcmp(path + size - 4, "-wal") == 0;
}

/* -- what differs ---------------------------------------------------------- */

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file,
                    int flags, int *ret_flags)
{
    (void)vfs;
    file->pMethods = NULL;
    if (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL)) {
        return SQLITE_CANTOPEN;
    }
    return way.real->xOpen(way.real, path, file, flags, ret_flags);
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    (void)vfs;
    return vfs_is_wal(path) ? way.real->xDelete(way.real, path, sync)
                            : SQLITE_IOERR_DELETE;
}

static int vfs_access(sqlite3_vfs *vfs, const char *path, int how, int *ret)
{
    (void)vfs;
    *ret = 0;
    return vfs_is_wal(path) ? way.real->xAccess(way.real, path, how, ret)
                            : SQLITE_OK;
}

/* -- what does not --------------------------------------------------------- */

static int vfs_full_path(sqlite3_vfs *vfs, const char *path, int size,
                         char *ret)
{
    (void)vfs;
    return way.real->xFullPathname(way.real, path, size, ret);
}

static int vfs_randomness(sqlite3_vfs *vfs, int size, char *ret)
{
    (void)vfs;
    return way.real->xRandomness(way.real, size, ret);
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return way.real->xSleep(way.real, us);
}

static int vfs_time(sqlite3_vfs *vfs, double *ret)
{
    (void)vfs;
    return way.real->xCurrentTime(way.real, ret);
}

static int vfs_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *ret)
{
    (void)vfs;
    return way.real->xCurrentTimeInt64(way.real, ret);
}

static int vfs_last_error(sqlite3_vfs *vfs, int size, char *ret)
{
    (void)vfs;
    return way.real->xGetLastError
               ? way.real->xGetLastError(way.real, size, ret)
               : 0;
}

/* -- opening --------------------------------------------------------------- */

static void vfs_describe(sqlite3_vfs *real)
{
    bool has_ms = real->iVersion >= 2 && real->xCurrentTimeInt64;
    snprintf(way.name, sizeof way.name, "snib-%p", (void *)&way);
    way.real = real;
    way.vfs = (sqlite3_vfs){
        .iVersion = 2,
        .szOsFile = real->szOsFile,
        .mxPathname = real->mxPathname,
        .zName = way.name,
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_path,
        .xRandomness = vfs_randomness,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_time,
        .xGetLastError = vfs_last_error,
        .xCurrentTimeInt64 = has_ms ? vfs_time_ms : NULL,
    };
}

static int vfs_come(void)
{
    int rc = SQLITE_OK;
    pthread_mutex_lock(&way.mutex);
    sqlite3_vfs *real = way.real ? way.real : sqlite3_vfs_find(NULL);
    if (!real) {
        rc = SQLITE_NOMEM; /* SQLite could not be initialised */
    } else if (!way.real) {
        vfs_describe(real);
    }
    if (!rc && way.opening == 0) {
        rc = sqlite3_vfs_register(&way.vfs, 0);
    }
    way.opening += !rc;
    pthread_mutex_unlock(&way.mutex);
    return rc;
}

static void vfs_go(void)
{
    pthread_mutex_lock(&way.mutex);
    if (--way.opening == 0) {
        sqlite3_vfs_unregister(&way.vfs);
    }
    pthread_mutex_unlock(&way.mutex);
}

int snib__vfs_open(const char *path, sqlite3 **ret, int flags)
{
    *ret = NULL;
    int rc = vfs_come();
    if (!rc) {
        rc = sqlite3_open_v2(path, ret, flags, way.name);
        vfs_go();
    }
    return rc;
}
