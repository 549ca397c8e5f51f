/* tests/unit/sqlite_library.h — SQLite as the store calls it: each call is a
 * line with what it answers, and some answer by dice that they have failed. See
 * sqlite_world.h. */
#ifndef SNIB_TESTS_SQLITE_LIBRARY_H
#define SNIB_TESTS_SQLITE_LIBRARY_H

#include "sqlite_vfs.h"

int __real_sqlite3_open_v2(const char *path, sqlite3 **ret, int flags,
                           const char *vfs);
int __real_sqlite3_step(sqlite3_stmt *st);
int __real_sqlite3_prepare_v2(sqlite3 *db, const char *text, int size,
                              sqlite3_stmt **ret, const char **tail);
int __real_sqlite3_prepare_v3(sqlite3 *db, const char *text, int size,
                              unsigned flags, sqlite3_stmt **ret,
                              const char **tail);
int __real_sqlite3_exec(sqlite3 *db, const char *text,
                        int (*row)(void *, int, char **, char **), void *data,
                        char **error);
int __real_sqlite3_close(sqlite3 *db);

/* SQLite calls functions of its own that are wrapped here, if it is linked as
 * an archive: these are not told. */
static int within;

static int real_step(sqlite3_stmt *st)
{
    within++;
    int rc = __real_sqlite3_step(st);
    within--;
    return rc;
}

static int real_prepare(sqlite3 *db, const char *text, int size, unsigned flags,
                        sqlite3_stmt **ret, const char **tail)
{
    within++;
    int rc = __real_sqlite3_prepare_v3(db, text, size, flags, ret, tail);
    within--;
    return rc;
}

static int real_exec(sqlite3 *db, const char *text)
{
    within++;
    int rc = __real_sqlite3_exec(db, text, NULL, NULL, NULL);
    within--;
    return rc;
}

static int real_open_by(const char *path, sqlite3 **ret, int flags,
                        const char *vfs)
{
    within++;
    int rc = __real_sqlite3_open_v2(path, ret, flags, vfs);
    within--;
    return rc;
}

static int real_open(const char *path, sqlite3 **ret, int flags)
{
    return real_open_by(path, ret, flags, NULL);
}

static int real_close(sqlite3 *db)
{
    within++;
    int rc = __real_sqlite3_close(db);
    within--;
    return rc;
}

/* -- who has which connection -------------------------------------------------------- */

enum { CONNECTIONS = 40 };

static struct {
    sqlite3 *handle;
    struct snib__db *db;
} connections[CONNECTIONS];

static struct snib__db *db_of(const sqlite3 *handle)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        if (handle && connections[i].handle == handle) {
            return connections[i].db;
        }
    }
    return NULL;
}

/* Until when it will be patient. */
static void tell_patience(const sqlite3 *handle)
{
    const struct snib__db *db = db_of(handle);
    if (db) {
        int64_t left = db->busy_until.ns - w.now;
        tell("patient for %lld, yields %d, waited %u",
             (long long)(db->busy_until.ns ? left : 0), db->yields, db->waits);
    }
}

/* -- what fails ---------------------------------------------------------------------- */

static const int codes_given[] = {SQLITE_FULL,
                                  SQLITE_IOERR,
                                  SQLITE_IOERR_WRITE,
                                  SQLITE_IOERR_READ,
                                  SQLITE_CORRUPT,
                                  SQLITE_CORRUPT,
                                  SQLITE_NOTADB,
                                  SQLITE_ERROR,
                                  SQLITE_MISMATCH,
                                  SQLITE_NOMEM,
                                  SQLITE_CONSTRAINT,
                                  SQLITE_READONLY,
                                  SQLITE_PERM,
                                  SQLITE_BUSY,
                                  SQLITE_BUSY_SNAPSHOT,
                                  SQLITE_LOCKED,
                                  SQLITE_PROTOCOL,
                                  SQLITE_CANTOPEN,
                                  SQLITE_INTERRUPT,
                                  SQLITE_READONLY_DBMOVED,
                                  SQLITE_IOERR_CORRUPTFS,
                                  SQLITE_CANTOPEN_DIRTYWAL};

/* What the connection says of its last call, while that is one of these. */
static struct {
    bool on;
    int code, system;
    int of_files[2];
    sqlite3_file file[2];
} lent;

static int draw_fault(const char *call, const char *what)
{
    static const int systems[] = {0,      0,      ENOSPC, EDQUOT, EIO,
                                  EMFILE, ENFILE, ENOMEM, EACCES};
    static const int reads[] = {0, EIO, ENXIO, ENOENT};
    int code = codes_given[pick("code", COUNT_OF(codes_given))];
    lent.on = true;
    lent.code = chance("of another call", 4) ? SQLITE_DONE : code;
    lent.system = systems[pick("system", COUNT_OF(systems))];
    lent.of_files[0] = reads[pick("file", 4)];
    lent.of_files[1] = reads[pick("log", 4)];
    if (chance("says why", 2)) {
        errno = systems[pick("system", COUNT_OF(systems))];
    }
    tell("%s %.30s fails: %d", call, what, code);
    return code;
}

/* "which": of whole kinds, or of this one. */
static bool sqlite_falters(const char *kind)
{
    return falters(kind) || falters("sqlite");
}

int __real_sqlite3_errcode(sqlite3 *db);
int __wrap_sqlite3_errcode(sqlite3 *db)
{
    return lent.on && !within ? lent.code & 0xff : __real_sqlite3_errcode(db);
}

int __real_sqlite3_extended_errcode(sqlite3 *db);
int __wrap_sqlite3_extended_errcode(sqlite3 *db)
{
    return lent.on && !within ? lent.code : __real_sqlite3_extended_errcode(db);
}

const char *__real_sqlite3_errmsg(sqlite3 *db);
const char *__wrap_sqlite3_errmsg(sqlite3 *db)
{
    return lent.on && !within ? "said of the last call"
                              : __real_sqlite3_errmsg(db);
}

int __real_sqlite3_system_errno(sqlite3 *db);
int __wrap_sqlite3_system_errno(sqlite3 *db)
{
    return lent.on && !within ? lent.system : __real_sqlite3_system_errno(db);
}

static int lent_control(sqlite3_file *f, int what, void *arg)
{
    assert_int_equal(what, SQLITE_FCNTL_LAST_ERRNO);
    *(int *)arg = lent.of_files[f - lent.file];
    return SQLITE_OK;
}

int __real_sqlite3_file_control(sqlite3 *db, const char *name, int what,
                                void *arg);
int __wrap_sqlite3_file_control(sqlite3 *db, const char *name, int what,
                                void *arg)
{
    static const sqlite3_io_methods methods = {.iVersion = 1,
                                               .xFileControl = lent_control};
    if (within) {
        return __real_sqlite3_file_control(db, name, what, arg);
    }
    tell("control %s %d", name, what);
    if (what == SQLITE_FCNTL_PERSIST_WAL) {
        tell("is %d", *(int *)arg);
    }
    int i = what == SQLITE_FCNTL_JOURNAL_POINTER;
    if (!lent.on || (what != SQLITE_FCNTL_FILE_POINTER && !i)) {
        return __real_sqlite3_file_control(db, name, what, arg);
    }
    lent.file[i].pMethods = lent.of_files[i] == ENOENT ? NULL : &methods;
    *(sqlite3_file **)arg =
        lent.of_files[i] || i ? &lent.file[i] : (sqlite3_file *)NULL;
    return SQLITE_OK;
}

static void meanwhile(void); /* sqlite_strangers.h                          */
static void while_ringing(void);

/* A disk on which commits fail; others write behind one that has. */
static int commit_fails(void)
{
    int code = draw_fault("commit", "");
    code = chance("the disk", 3) ? code : SQLITE_IOERR_WRITE;
    for (int i = 0; i < 3; i++) {
        while_ringing();
    }
    tell("commit: %d", code);
    return code;
}

/* -- statements ----------------------------------------------------------------------- */

/* With what it is asked, as it begins. */
static void stir_bound(sqlite3_stmt *st)
{
    within++;
    char *text = sqlite3_stmt_busy(st) ? NULL : sqlite3_expanded_sql(st);
    within--;
    if (text) {
        same_stir(text, strlen(text));
    }
    sqlite3_free(text);
}

static void tell_statement(const char *what, sqlite3_stmt *st)
{
    const char *text = within || !st ? NULL : sqlite3_sql(st);
    if (text) {
        tell("%s %.40s (%zu)", what, text, strlen(text));
        same.calls--; /* each step has one: it makes no run shorter        */
    }
}

int __real_sqlite3_reset(sqlite3_stmt *st);
int __wrap_sqlite3_reset(sqlite3_stmt *st)
{
    tell_statement("reset", st);
    return __real_sqlite3_reset(st);
}

int __real_sqlite3_clear_bindings(sqlite3_stmt *st);
int __wrap_sqlite3_clear_bindings(sqlite3_stmt *st)
{
    tell_statement("unbind", st);
    return __real_sqlite3_clear_bindings(st);
}

int __wrap_sqlite3_step(sqlite3_stmt *st)
{
    if (within) {
        return __real_sqlite3_step(st);
    }
    const char *text = sqlite3_sql(st);
    int code = SQLITE_OK;
    text = text ? text : "";
    if (strncmp(text, "BEGIN", 5) == 0) {
        tell_patience(sqlite3_db_handle(st));
    }
    bool ends = strcmp(text, "COMMIT") == 0;
    if (ends && w.doubt && chance("commit fails", (uint64_t)w.doubt)) {
        code = commit_fails();
    } else if (sqlite_falters("step")) {
        code = draw_fault("step", text);
    }
    /* A rollback ends a transaction whatever it says; a commit that failed
     * may have been one. */
    bool done = ends && chance("all the same", 2);
    if (code && strcmp(text, "ROLLBACK") != 0 && !done) {
        return code;
    }
    stir_bound(st);
    int rc = real_step(st);
    tell("step %.40s (%zu): %d", text, strlen(text), rc);
    lent.on = code != SQLITE_OK;
    return code ? code : rc;
}

int __wrap_sqlite3_prepare_v3(sqlite3 *db, const char *text, int size,
                              unsigned flags, sqlite3_stmt **ret,
                              const char **tail)
{
    if (within) {
        return __real_sqlite3_prepare_v3(db, text, size, flags, ret, tail);
    }
    if (sqlite_falters("prepare")) {
        *ret = NULL;
        return draw_fault("prepare", text);
    }
    int rc = real_prepare(db, text, size, flags, ret, tail);
    tell("prepare %.40s (%zu) %d %u: %d", text, strlen(text), size, flags, rc);
    lent.on = false;
    return rc;
}

int __wrap_sqlite3_prepare_v2(sqlite3 *db, const char *text, int size,
                              sqlite3_stmt **ret, const char **tail)
{
    return within ? __real_sqlite3_prepare_v2(db, text, size, ret, tail)
                  : __wrap_sqlite3_prepare_v3(db, text, size, 0, ret, tail);
}

int __wrap_sqlite3_exec(sqlite3 *db, const char *text,
                        int (*row)(void *, int, char **, char **), void *data,
                        char **error)
{
    if (within) {
        return __real_sqlite3_exec(db, text, row, data, error);
    }
    assert_true(!row && !data && !error);
    if (sqlite_falters("exec")) {
        return draw_fault("exec", text);
    }
    int rc = real_exec(db, text);
    tell("exec %.80s (%zu): %d", text, strlen(text), rc);
    lent.on = false;
    meanwhile();
    return rc;
}

/* What the doctor reads, of a file that is joined. */
static bool is_joined(const sqlite3 *handle)
{
    const struct snib__db *db = db_of(handle);
    return db && db->lockfile->file[0];
}

const unsigned char *__real_sqlite3_column_text(sqlite3_stmt *st, int column);
const unsigned char *__wrap_sqlite3_column_text(sqlite3_stmt *st, int column)
{
    static const char *const modes[] = {"wal", "WAL", "delete",
                                        "a mode of many letters"};
    static char torn[300];
    if (within) {
        return __real_sqlite3_column_text(st, column);
    }
    const char *text = sqlite3_sql(st);
    if (strstr(text, "journal_mode") && is_joined(sqlite3_db_handle(st))) {
        return (const unsigned char *)modes[pick("journal", 4)];
    }
    if (strstr(text, "quick_check") && chance("torn", 3)) {
        memset(torn, 'r', sizeof torn - 1);
        return (const unsigned char *)(chance("long", 2) ? torn
                                                         : "row 3 is missing");
    }
    return __real_sqlite3_column_text(st, column);
}

/* -- connections ------------------------------------------------------------------------ */

int __wrap_sqlite3_open_v2(const char *path, sqlite3 **ret, int flags,
                           const char *vfs)
{
    if (within) {
        return __real_sqlite3_open_v2(path, ret, flags, vfs);
    }
    assert_ptr_not_equal(sqlite3_vfs_find(vfs), sqlite3_vfs_find(NULL));
    tell("sqlite3_open %s %x", path, (unsigned)flags);
    bool fails = sqlite_falters("open");
    int code = fails ? draw_fault("open", path) : SQLITE_OK;
    if (code == SQLITE_NOMEM) {
        *ret = NULL;
        return code;
    }
    int rc = real_open_by(path, ret, flags, vfs);
    lent.on = fails;
    return code ? code : rc;
}

int __wrap_sqlite3_close(sqlite3 *db)
{
    if (within) {
        return __real_sqlite3_close(db);
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        if (db && connections[i].handle == db) {
            connections[i].handle = NULL;
        }
    }
    int rc = real_close(db);
    tell("sqlite3_close %d: %d", db != NULL, rc);
    assert_int_equal(rc, SQLITE_OK); /* no statement is left                */
    return rc;
}

int __real_sqlite3_db_config(sqlite3 *db, int what, ...);
int __wrap_sqlite3_db_config(sqlite3 *db, int what, ...)
{
    va_list list;
    va_start(list, what);
    int value = va_arg(list, int);
    va_end(list);
    assert_int_equal(within, 0);
    tell("config %d %d", what, value);
    return __real_sqlite3_db_config(db, what, value, (int *)NULL);
}

int __real_sqlite3_busy_handler(sqlite3 *db, int (*busy)(void *, int),
                                void *data);
int __wrap_sqlite3_busy_handler(sqlite3 *db, int (*busy)(void *, int),
                                void *data)
{
    int i = 0;
    while (connections[i].handle) {
        i++;
        assert_true(i < CONNECTIONS);
    }
    connections[i].handle = db;
    connections[i].db = data;
    tell("busy handler");
    return __real_sqlite3_busy_handler(db, busy, data);
}

/* As if each commit were some more frames; 0: just these. */
static int (*on_frames)(void *, sqlite3 *, const char *, int);
static int frames_each = 1;

static int more_frames(void *data, sqlite3 *db, const char *name, int frames)
{
    static const int just[] = {255,  256,  257,  319,  320,  321,  1999, 2000,
                               2001, 2499, 2500, 2501, 7999, 8000, 8001};
    frames = frames_each ? frames * frames_each
                         : just[pick("just so many", COUNT_OF(just))];
    return on_frames(data, db, name, frames);
}

void *__real_sqlite3_wal_hook(sqlite3 *db,
                              int (*hook)(void *, sqlite3 *, const char *, int),
                              void *data);
void *__wrap_sqlite3_wal_hook(sqlite3 *db,
                              int (*hook)(void *, sqlite3 *, const char *, int),
                              void *data)
{
    on_frames = hook;
    return __real_sqlite3_wal_hook(db, more_frames, data);
}

int __real_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode,
                                     int *size, int *done);
int __wrap_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode,
                                     int *size, int *done)
{
    if (within) {
        return __real_sqlite3_wal_checkpoint_v2(db, name, mode, size, done);
    }
    tell("checkpoint %s %d", name, mode);
    tell_patience(db);
    within++;
    int rc = __real_sqlite3_wal_checkpoint_v2(db, name, mode, size, done);
    within--;
    return rc;
}

/* -- forks ------------------------------------------------------------------------------ */

static void (*fork_begins)(void), (*fork_is_over)(void), (*fork_in_child)(void);

int __wrap_pthread_atfork(void (*before)(void), void (*after)(void),
                          void (*child)(void))
{
    tell("atfork");
    if (goes_wrong("atfork")) {
        return ENOMEM;
    }
    fork_begins = before;
    fork_is_over = after;
    fork_in_child = child;
    return 0;
}

bool __real_snib__forked_waits(void);
bool __wrap_snib__forked_waits(void)
{
    bool waits = __real_snib__forked_waits();
    return falters("forked") || waits;
}

#endif
