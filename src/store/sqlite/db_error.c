/* store/sqlite/db_error.c — what SQLite's error codes mean to the user of a
 * lock file. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/sqlite/internal.h"

/* SQLITE_PROTOCOL: SQLite gave up in a race for the wal-index, which is as good
 * as busy. */
bool snib__db_is_busy(int rc)
{
    int simple = rc & 0xff;
    return simple == SQLITE_BUSY || simple == SQLITE_LOCKED ||
           simple == SQLITE_PROTOCOL;
}

static int db_error_errno(sqlite3_file *file)
{
    int e = 0;
    if (file && file->pMethods) {
        file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &e);
    }
    return e;
}

/* SQLite takes a page that the disk cannot read for a damaged one
 * (SQLITE_IOERR_CORRUPTFS, which a statement turns into SQLITE_CORRUPT). Only
 * the file of that page, the database or the -wal, keeps the errno. */
int snib__db_unread(struct snib__db *db, int rc)
{
    static const int where[] = {SQLITE_FCNTL_FILE_POINTER,
                                SQLITE_FCNTL_JOURNAL_POINTER};
    for (int i = 0; i < 2 && db->handle && (rc & 0xff) == SQLITE_CORRUPT; i++) {
        sqlite3_file *file = NULL;
        sqlite3_file_control(db->handle, "main", where[i], &file);
        int e = db_error_errno(file);
        if (e == EIO || e == ENXIO) {
            return e;
        }
    }
    return 0;
}

static snib_err db_error_moved(const struct snib__lockfile *p,
                               struct snib_error *reterr)
{
    const char *which = snib__files_moved(p);
    if (!snib__host_leads_to(p->given, p->dir)) {
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "%s leads elsewhere by now (a link in it was "
                          "switched or removed): others do not see lock "
                          "file %s; start this program anew",
                          p->given, p->path);
    }
    return snib__fail(reterr, SNIB_ERR_STORE,
                      "%s%slock file %s was removed or replaced while in "
                      "use; start this program anew",
                      which && *which ? which + 1 : "",
                      which && *which ? " of " : "", p->path);
}

snib_err snib__db_fail(struct snib__db *db, int rc, const char *path,
                       struct snib_error *reterr)
{
    /* The connection's text is that of its last call, which need not be the one
     * that failed ("not an error"). */
    bool last =
        db->handle && (sqlite3_errcode(db->handle) & 0xff) == (rc & 0xff);
    const char *text = last ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc);
    int cause = last ? sqlite3_system_errno(db->handle) : errno;
    if (snib__db_is_busy(rc)) {
        return snib__busy_fail(
            db, db->handle ? sqlite3_extended_errcode(db->handle) : rc, path,
            reterr);
    }
    if (rc == SQLITE_READONLY_DBMOVED) {
        return db_error_moved(db->lockfile, reterr);
    }
    int unread = snib__db_unread(db, rc);
    if (unread) {
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "lock file %s cannot be read: %s; look at the disk "
                          "below it (dmesg)",
                          path, strerror(unread));
    }
    bool full = cause == ENOSPC || cause == EDQUOT;
    switch ((rc & 0xff) == SQLITE_IOERR && full ? SQLITE_FULL : rc & 0xff) {
    case SQLITE_FULL:
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "no space left for lock file %s; nothing was "
                          "changed",
                          path);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "lock file %s has become read-only", path);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:
    case SQLITE_MISMATCH:
        return snib__fail(reterr, SNIB_ERR_CORRUPT,
                          "lock file %s is damaged (%s); move it away when "
                          "nobody holds a lock",
                          path, text);
    case SQLITE_NOMEM:
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    case SQLITE_CONSTRAINT:
        return snib__fail(reterr, SNIB_ERR_INTERNAL, "lock file %s: %s", path,
                          text);
    default:
        return snib__fail(reterr, SNIB_ERR_STORE, "lock file %s: %s%s%s", path,
                          text, cause ? ": " : "",
                          cause ? strerror(cause) : "");
    }
}

snib_err snib__db_fail_open(struct snib__db *db, int rc, const char *path,
                            struct snib_error *reterr)
{
    int simple = rc & 0xff;
    bool asked = simple == SQLITE_CANTOPEN || simple == SQLITE_IOERR;
    int e = asked && db->handle ? sqlite3_system_errno(db->handle) : 0;
    if (e == ENOENT && snib__host_is_full(db->lockfile->dir)) {
        e = ENOSPC; /* SQLite tried again without making the file */
    }
    snib_err err = snib__host_lacks(e, path, reterr);
    if (err) {
        return err;
    }
    err = snib__db_fail(db, rc, path, reterr);
    bool later =
        err == SNIB_ERR_STORE && (simple != SQLITE_CANTOPEN || e == EIO);
    if (later || err == SNIB_ERR_NOMEM) {
        return err;
    }
    if (reterr) { /* the text is right, but the file cannot be used */
        reterr->code = SNIB_ERR_CONFIG;
    }
    return SNIB_ERR_CONFIG;
}
