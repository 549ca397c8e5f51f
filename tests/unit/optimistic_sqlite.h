/* tests/unit/optimistic_sqlite.h — a counter in an SQLite file, counted up by the
 * ready step, on a disk that can be made to fail. */
#ifndef SNIB_TESTS_OPTIMISTIC_SQLITE_H
#define SNIB_TESTS_OPTIMISTIC_SQLITE_H

#include "unit.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "snib/steps/sqlite.h"
#include "snib/steps/step.h"

/* -- SQLite: a disk that fails ------------------------------------------------- */

static int syncs_fail; /* so many of the next ones */
static int fails_with = SQLITE_IOERR_FSYNC;
static sqlite3_io_methods methods[2];
static const sqlite3_io_methods *real[2]; /* of the database, of its log */
static sqlite3_vfs vfs;

static int sync_or_fail(sqlite3_file *f, int flags)
{
    if (syncs_fail > 0) {
        syncs_fail--;
        return fails_with;
    }
    return real[f->pMethods == &methods[1]]->xSync(f, flags);
}

static int open_file(sqlite3_vfs *v, const char *name, sqlite3_file *f,
                     int flags, int *ret_flags)
{
    sqlite3_vfs *below = v->pAppData;
    int code = below->xOpen(below, name, f, flags, ret_flags);
    if (code == SQLITE_OK &&
        (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL))) {
        int which = (flags & SQLITE_OPEN_WAL) != 0;
        real[which] = f->pMethods;
        methods[which] = *real[which];
        methods[which].xSync = sync_or_fail;
        f->pMethods = &methods[which];
    }
    return code;
}

static void make_vfs(void)
{
    sqlite3_vfs *below = sqlite3_vfs_find("unix");
    vfs = *below;
    vfs.zName = "failing";
    vfs.pAppData = below;
    vfs.xOpen = open_file;
    assert_int_equal(sqlite3_vfs_register(&vfs, 0), SQLITE_OK);
}

/* -- SQLite: a counter ---------------------------------------------------------- */

struct counter {
    struct snib_sqlite_update u;
    int id;
    int64_t version, n;
    int reads, asked;
    bool fails_once; /* the first read is followed by a disk that fails */
    int fails;       /* so often; 0: once */
    const char *write;
};

static char folder[] = "/tmp/snib-optimistic-XXXXXX";
static char path[64];

static sqlite3 *open_db(const char *vfs_name)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(path, &db,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                     vfs_name),
                     SQLITE_OK);
    return db;
}

static void run(sqlite3 *db, const char *text)
{
    char *why = NULL;
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK) {
        fail_msg("%s: %s", text, why);
    }
}

static int64_t number(sqlite3 *db, const char *text)
{
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t v = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return v;
}

static int make_file(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/db", folder);
    make_vfs();
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    rmdir(folder);
    sqlite3_vfs_unregister(&vfs);
    return 0;
}

static sqlite3 *fresh(void)
{
    char log[80];
    unlink(path);
    snprintf(log, sizeof log, "%s-wal", path);
    unlink(log);
    sqlite3 *db = open_db("failing");
    run(db, "CREATE TABLE item(id INTEGER PRIMARY KEY, n, version, attempt);"
            "INSERT INTO item VALUES(1, 0, 1, NULL)");
    return db;
}

static int read_counter(void *data, sqlite3 *db, struct snib_version_attempt *a)
{
    struct counter *c = data;
    sqlite3_stmt *s;
    int code = sqlite3_prepare_v2(
        db, "SELECT version, n FROM item WHERE id = ?", -1, &s, NULL);
    if (code != SQLITE_OK) {
        return snib_sqlite_error(a, db, code);
    }
    sqlite3_bind_int(s, 1, c->id);
    int answer = snib_sqlite_row(a, db, sqlite3_step(s));
    if (answer == 1) {
        c->version = sqlite3_column_int64(s, 0);
        c->n = sqlite3_column_int64(s, 1);
    }
    sqlite3_finalize(s);
    c->reads++;
    if (c->fails_once && c->reads == 1) {
        syncs_fail = c->fails ? c->fails : 1;
    }
    return answer;
}

static int write_counter(void *data, sqlite3 *db,
                         struct snib_version_attempt *a)
{
    struct counter *c = data;
    sqlite3_stmt *s;
    int code = sqlite3_prepare_v2(db, c->write, -1, &s, NULL);
    if (code != SQLITE_OK) {
        return snib_sqlite_error(a, db, code);
    }
    sqlite3_bind_int(s, 1, c->id);
    sqlite3_bind_int64(s, 2, c->version);
    sqlite3_bind_int64(s, 3, c->n + 1);
    sqlite3_bind_text(s, 4, a->id, -1, SQLITE_STATIC);
    int answer = snib_sqlite_changed(a, db, sqlite3_step(s));
    sqlite3_finalize(s);
    return answer;
}

static int counter_stands(void *data, sqlite3 *db,
                          struct snib_version_attempt *a)
{
    struct counter *c = data;
    sqlite3_stmt *s;
    c->asked++;
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT version, attempt FROM item WHERE id = ?",
                           -1, &s, NULL),
        SQLITE_OK);
    sqlite3_bind_int(s, 1, c->id);
    int answer = snib_sqlite_row(a, db, sqlite3_step(s));
    if (answer == 1) {
        const char *id = (const char *)sqlite3_column_text(s, 1);
        answer = snib_step_stands(a, c->version, sqlite3_column_int64(s, 0),
                                  id ? id : "");
    }
    sqlite3_finalize(s);
    return answer;
}

static struct counter counter_of(sqlite3 *db)
{
    struct counter c = {.id = 1,
                        .write = "UPDATE item SET n = ?3, attempt = ?4, "
                                 "version = version + 1 "
                                 "WHERE id = ?1 AND version = ?2"};
    c.u.connection = db;
    c.u.read = read_counter;
    c.u.write = write_counter;
    return c;
}

static snib_err update(struct counter *c, int64_t wait_ms, uint32_t *attempts,
                       int *stopped, struct snib_error *e)
{
    struct snib_version_options o = SNIB_INIT(snib_version_options);
    o.wait_ms = wait_ms;
    c->u.data = c;
    return snib_version_update(&o, snib_sqlite_step, &c->u, stopped, attempts,
                               e);
}

#endif
