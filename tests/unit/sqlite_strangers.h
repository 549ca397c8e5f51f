/* tests/unit/sqlite_strangers.h — what happens around the clients of
 * unit.sqlite_same: strangers write to the file, remove it, put other rows into
 * it. See sqlite_world.h. */
#ifndef SNIB_TESTS_SQLITE_STRANGERS_H
#define SNIB_TESTS_SQLITE_STRANGERS_H

#include "sqlite_asked.h"

static const char *main_path; /* as most ask for it                         */
static const char *real_path; /* where that is                              */

/* -- a stranger's connection --------------------------------------------------------- */

enum { TABLES = 4 };

static struct {
    sqlite3 *db;
    const struct node *node, *shm; /* as they were when it opened            */
    bool writes;
    sqlite3_stmt *tables[TABLES]; /* that read all of one                    */
} stranger;

static void stranger_leaves(void)
{
    if (stranger.db) {
        real_exec(stranger.db, "ROLLBACK");
        for (int i = 0; i < TABLES; i++) {
            sqlite3_finalize(stranger.tables[i]);
        }
        real_close(stranger.db);
    }
    memset(&stranger, 0, sizeof stranger);
}

static bool stranger_comes(void)
{
    char shm[300];
    snprintf(shm, sizeof shm, "%s-shm", real_path);
    const struct node *n = node_at(real_path);
    if (stranger.db && stranger.node == n && stranger.shm == node_at(shm)) {
        return true;
    }
    stranger_leaves();
    if (!n || !S_ISREG(n->mode) || n->size == 0 || !node_at(shm)) {
        return false;
    }
    bool ok = !real_open(real_path, &stranger.db,
                         SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX);
    stranger.node = n;
    stranger.shm = node_at(shm);
    if (ok) {
        int on = 1;
        __real_sqlite3_file_control(stranger.db, "main",
                                    SQLITE_FCNTL_PERSIST_WAL, &on);
        __real_sqlite3_db_config(stranger.db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
                                 1, (int *)NULL);
    }
    return ok;
}

static void stranger_says(const char *text)
{
    if (stranger_comes()) {
        int rc = real_exec(stranger.db, text);
        tell("stranger: %s: %d", text, rc);
    }
}

static void stranger_writes(void)
{
    if (stranger.writes) {
        stranger_says(chance("kept", 2) ? "COMMIT" : "ROLLBACK");
        stranger.writes = false;
    } else if (stranger_comes()) {
        stranger_says("BEGIN IMMEDIATE");
        stranger.writes = true;
    }
}

/* Between two calls, too, files go. */
static void meanwhile(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-bells/files"};
    char path[300];
    if (chance("meanwhile", theme == FILES ? 40 : 200)) {
        snprintf(path, sizeof path, "%s%s", real_path, ends[pick("end", 4)]);
        tell("meanwhile %s goes: %d", path, entry_drop(path));
    }
}

/* Somebody is found dead: who would pass him over may have to wait. */
static void while_ringing(void)
{
    if (!stranger.writes && chance("writes just then", 5) && stranger_comes()) {
        stranger_writes();
    }
}

/* Somebody sleeps: others go on. */
static void while_asleep(void)
{
    if (stranger.writes && chance("ends its write", 4)) {
        stranger_writes();
    }
    if (w.outside && chance("stranger goes", 4)) {
        w.outside = 0;
    }
    if (chance("moves the file", 400)) {
        entry_drop(real_path);
    }
}

/* -- rows that none of ours would write ---------------------------------------------------- */

static const char *some_cell(void)
{
    static const char *const cells[] = {"NULL",
                                        "0",
                                        "1",
                                        "-1",
                                        "2",
                                        "5",
                                        "3",
                                        "4",
                                        "77",
                                        "1000",
                                        "2001",
                                        "2147483647",
                                        "2147483648",
                                        "-2147483648",
                                        "4294967295",
                                        "4294967296",
                                        "1000000000",
                                        "1000000001",
                                        "2305843009213693951",
                                        "2305843009213693952",
                                        "9007199254740959",
                                        "9007199254740960",
                                        "9007199254740992",
                                        "4611686018427387904",
                                        "9223372036854775807",
                                        "-9223372036854775808",
                                        "1.5",
                                        "'text'",
                                        "'../up'",
                                        "''",
                                        "x''",
                                        "x'00'",
                                        "'b007a'",
                                        "'2'",
                                        "x'000102030405060708090a0b0c0d0e0f'",
                                        "zeroblob(300)",
                                        "printf('%060d', 7)",
                                        "5000000000",
                                        "1790000000000"};
    return cells[pick("cell", COUNT_OF(cells))];
}

static void strange_claim(void)
{
    static const char *const columns[] = {
        "name",  "client", "request", "kind",  "permits", "holds",  "state",
        "token", "room",   "floor",   "lease", "until",   "pid",    "start",
        "pidns", "bell",   "about",   "rank",  "delay",   "beside", "slot"};
    char text[200];
    snprintf(text, sizeof text, "UPDATE claim SET %s = %s WHERE id %% %d = %d",
             columns[pick("column", COUNT_OF(columns))], some_cell(),
             1 + (int)pick("each", 3), (int)pick("which", 2));
    stranger_says(text);
}

static void strange_lock(void)
{
    static const char *const columns[] = {"size", "token", "gate", "holder",
                                          "shares"};
    char text[200];
    snprintf(text, sizeof text, "UPDATE lock SET %s = %s WHERE name %s",
             columns[pick("column", COUNT_OF(columns))], some_cell(),
             chance("all", 2) ? "IS NOT NULL" : "= CAST('a' AS BLOB)");
    stranger_says(text);
}

static void strange_meta(void)
{
    static const char *const keys[] = {"floor", "broom", "version_floor",
                                       "boot",  "snib",  "floor"};
    char text[200];
    snprintf(text, sizeof text, "INSERT OR REPLACE INTO meta VALUES('%s', %s)",
             keys[pick("key", COUNT_OF(keys))], some_cell());
    stranger_says(text);
}

static void strange_token(void)
{
    static const char *const cells[] = {
        "-1",  "9007199254740960",   "9007199254740959", "'none'",
        "1.5", "9223372036854775807"};
    char text[200];
    snprintf(text, sizeof text,
             chance("floor", 3)
                 ? "INSERT OR REPLACE INTO meta VALUES('floor', %s)"
             : chance("seen", 4) ? "UPDATE claim SET floor = %s WHERE state = 0"
                                 : "UPDATE lock SET token = %s",
             cells[pick("token", COUNT_OF(cells))]);
    stranger_says(text);
}

static void strange_value(void)
{
    static const char *const columns[] = {"until", "record", "bytes"};
    char text[200];
    if (chance("large", 4)) { /* as large as a value may be; too large */
        snprintf(text, sizeof text, "UPDATE value SET bytes = zeroblob(%zu)",
                 SNIB_VALUE_MAX + pick("too large", 2));
    } else {
        snprintf(text, sizeof text, "UPDATE value SET %s = %s",
                 columns[pick("column", COUNT_OF(columns))],
                 chance("old", 3) ? "1000" : some_cell());
    }
    stranger_says(text);
}

static void many_rows(void)
{
    static const char *const texts[] = {
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE "
        "x < 257) INSERT OR IGNORE INTO lock(name, token) SELECT "
        "CAST(printf('n%03d', x) AS BLOB), x * 7 FROM n",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE "
        "x < 256) INSERT OR IGNORE INTO lock(name, token) SELECT "
        "CAST(printf('m%03d', x) AS BLOB), 9000 - x FROM n",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE "
        "x < 11) INSERT INTO claim(name, state, until, token, kind) SELECT "
        "CAST('a' AS BLOB), x % 6, x * 1000000000, x, x % 5 FROM n",
        "INSERT INTO lock(name, token) VALUES(x'', 5)",
        "INSERT OR IGNORE INTO lock(name, token) VALUES(zeroblob(900), 5)",
        "INSERT OR IGNORE INTO lock(name, token) VALUES(zeroblob(512), 5)",
        "INSERT OR IGNORE INTO lock(name, token) VALUES(zeroblob(513), 5)",
        "INSERT OR IGNORE INTO lock(name, token, holder) SELECT "
        "CAST('b}c' AS BLOB), 8, max(id) FROM claim",
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE "
        "x < 12) INSERT OR IGNORE INTO value SELECT "
        "CAST(printf('v%03d', x) AS BLOB), x, (SELECT record FROM value), x'00'"
        " FROM n"};
    stranger_says(texts[pick("rows", COUNT_OF(texts))]);
}

/* More wait than one step can notify; most of them are dead. */
static void some_wait(int from, int to)
{
    char text[500];
    snprintf(text, sizeof text,
             "WITH RECURSIVE n(x) AS (SELECT %d UNION ALL SELECT x + 1 FROM n "
             "WHERE x < %d) INSERT OR IGNORE INTO claim(name, state, kind, "
             "permits, until, request, bell, lease, token, rank) SELECT "
             "CAST('d' AS BLOB), 0, 1, 1, 900000000000000, "
             "CAST(printf('%%016d', x) AS BLOB), 'b' || x, 1000000000, 0, 0 "
             "FROM n",
             from, to);
    stranger_says(text);
}

static void many_wait(void)
{
    int i = any_client();
    some_wait(1, 127 + (int)pick("crowd", 4));
    if (i >= 0) {
        struct snib__request r = request(SNIB__FORCE, 3);
        exec_one(i, &r);
    }
}

static void strange_schema(void)
{
    static const char *const texts[] = {
        "DELETE FROM meta",
        "DELETE FROM claim",
        "DELETE FROM lock",
        "DROP TABLE value",
        "DROP INDEX claim_order",
        "DROP TABLE claim",
        "CREATE TABLE theirs(x)",
        "PRAGMA user_version = 9",
        "UPDATE meta SET value = 'b007b' WHERE key = 'boot'",
        "UPDATE meta SET value = 3 WHERE key = 'snib'"};
    stranger_says(texts[pick("schema", COUNT_OF(texts))]);
}

static void strange_rows(void)
{
    if (theme == VALUES && chance("theme", 2)) {
        strange_value();
        return;
    }
    if (theme == DAMAGE && chance("theme", 2)) {
        strange_token();
        return;
    }
    switch (pick("rows of", 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        strange_claim();
        break;
    case 4:
    case 5:
        strange_lock();
        break;
    case 6:
    case 7:
        strange_meta();
        break;
    case 8:
        strange_value();
        break;
    case 9:
    case 10:
        many_rows();
        break;
    default:
        if (chance("schema", 3)) {
            strange_schema();
        }
    }
}

/* -- files --------------------------------------------------------------------------------- */

static void make_foreign(const char *path, int how)
{
    sqlite3 *db;
    if (how == 0) { /* no database */
        struct node *n = make_file(path, S_IFREG | 0600);
        node_room(n, 5000);
        memset(n->data, 'g', 5000);
        return;
    }
    make_file(path, S_IFREG | 0600);
    static const char *const texts[] = {
        "CREATE TABLE theirs(x)",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 7",
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value)",
        "CREATE TABLE meta(key, value); INSERT INTO meta VALUES('snib', 1)",
        "CREATE TABLE meta(key, value); INSERT INTO meta VALUES('snib', 2)"};
    if (how <= (int)COUNT_OF(texts) &&
        !real_open(path, &db, SQLITE_OPEN_READWRITE)) {
        real_exec(db, texts[how - 1]);
        real_close(db);
    }
}

static void change_rights(struct node *n)
{
    static const unsigned modes[] = {0600, 0660, 0644, 0666,  0700,  0770,
                                     0777, 0500, 0400, 02770, 01777, 0755};
    switch (pick("rights", 6)) {
    case 0:
        n->uid = n->uid ? 0 : 1000;
        break;
    case 1:
        n->gid = n->gid == 50 ? 100 : 50;
        break;
    case 2:
        n->links += n->links == 1;
        break;
    default:
        n->mode = (n->mode & S_IFMT) | modes[pick("mode", COUNT_OF(modes))];
    }
    tell("now %o %d %d %u", (unsigned)n->mode, (int)n->uid, (int)n->gid,
         n->links);
}

static void strange_file(void)
{
    static const char *const ends[] = {
        "", "-wal", "-shm", "-bells", "-bells/files", "-wal", "-shm"};
    static const char *const notes[] = {"1:1:2:3", "1:2", "nonsense", "",
                                        "2:1:2:3"};
    char path[300];
    snprintf(path, sizeof path, "%s%s", real_path,
             ends[pick("file", COUNT_OF(ends))]);
    struct node *n = node_at(path);
    tell("%s is changed", path);
    switch (pick("deed", 7)) {
    case 0:
    case 1:
        entry_drop(path);
        break;
    case 2:
        if (n && S_ISREG(n->mode) && n->size) { /* another one in its place */
            struct node *other = node_new(n->mode);
            node_room(other, n->size);
            memcpy(other->data, n->data, (size_t)n->size);
            entry_put(path, other);
        }
        break;
    case 3:
        entry_drop(path);
        snprintf(make_file(path, S_IFLNK | 0777)->to, 40, "%s",
                 notes[pick("note", COUNT_OF(notes))]);
        break;
    case 4:
        entry_drop(path);
        make_file(path, S_IFDIR | 0700);
        break;
    case 5:
        if (strcmp(path, real_path) == 0) {
            entry_drop(path);
            make_foreign(path, (int)pick("foreign", 7));
        }
        break;
    default:
        if (n) {
            change_rights(n);
        }
    }
}

#endif
