/* A lock file in which another program has written: rows of any values in any
 * of its tables. The whole library is asked, by two clients: each call returns,
 * says what it means, and nobody is given what the other was given just
 * before. */
#include "fuzz.h"

#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "snib.h"
#include "snib/deadlock.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/semaphore.h"
#include "snib/value.h"

enum { CALLS_MAX = 24, ROWS_MAX = 12 };

static struct {
    const uint8_t *p, *end;
} dice;

static uint32_t roll(void)
{
    return dice.p < dice.end ? *dice.p++ : 0;
}

static char file[64];
static sqlite3 *stranger;

/* -- the stranger's rows -------------------------------------------------------- */

/* Before each input: who holds, shares and waits in either of two names, what is
 * left of others, two values. ?1: an hour from now. */
static const char *const honest[] = {
    "BEGIN IMMEDIATE",
    "DELETE FROM lock",
    "DELETE FROM claim",
    "DELETE FROM value",
    "DELETE FROM meta",
    "INSERT INTO meta SELECT * FROM kept",
    "INSERT INTO lock VALUES(x'61',NULL,2048,NULL,1,0)",
    "INSERT INTO lock VALUES(x'62',3,4096,NULL,NULL,2)",
    "INSERT INTO lock VALUES(x'63',NULL,1,1,NULL,0)",
    "INSERT INTO claim SELECT id, name, zeroblob(15) || char(id), zeroblob(14)"
    " || 'r' || char(id), kind, 1, 1, state, 1000 + id, 0, 0, 30000000000,"
    " CASE dead WHEN 0 THEN ?1 ELSE 5 END, 0, 0, 0, '', '', 0, 0, NULL, NULL"
    " FROM (SELECT 1 id, x'61' name, 0 kind, 1 state, 0 dead UNION"
    " SELECT 2, x'61', 0, 0, 0 UNION SELECT 3, x'61', 2, 0, 0 UNION"
    " SELECT 4, x'61', 0, 0, 1 UNION SELECT 5, x'62', 3, 5, 0 UNION"
    " SELECT 6, x'62', 3, 5, 1 UNION SELECT 7, x'62', 3, 0, 0 UNION"
    " SELECT 8, x'61', 0, 2, 0 UNION SELECT 9, x'61', 0, 3, 1 UNION"
    " SELECT 10, x'62', 3, 4, 0)",
    "INSERT INTO value SELECT x'62', until, record, bytes FROM kept_value",
    "COMMIT"};

/* One row more, or one column of some rows changed. */
static const struct table {
    const char *name;
    int columns;
    const char *column[22];
} tables[] = {
    {"claim", 22, {"id",    "name",  "client", "request", "kind",  "permits",
                   "holds", "state", "token",  "room",    "floor", "lease",
                   "until", "pid",   "start",  "pidns",   "bell",  "about",
                   "rank",  "delay", "beside", "slot"}},
    {"lock", 6, {"name", "size", "token", "gate", "holder", "shares"}},
    {"value", 4, {"name", "until", "record", "bytes"}},
    {"meta", 2, {"key", "value"}},
};

static void bind(sqlite3_stmt *st, int column)
{
    static const int64_t numbers[] = {
        0,  1,         2,         3,          5,       INT64_MAX, INT64_MIN,
        -1, INT32_MAX, INT32_MIN, UINT32_MAX, 1000000, 1 << 20};
    uint32_t what = roll();
    uint8_t bytes[1024];
    size_t size;
    switch (what % 8) {
    case 0:
    case 1:
    case 2:
        sqlite3_bind_int64(
            st, column, numbers[roll() % (sizeof numbers / sizeof *numbers)]);
        break;
    case 3: /* near the clock of this machine */
        sqlite3_bind_int64(st, column, (int64_t)(roll() << 8 | roll()) << 32);
        break;
    case 4:
        sqlite3_bind_text(st, column, roll() & 1 ? "a" : "b", 1, SQLITE_STATIC);
        break;
    case 5:
        sqlite3_bind_blob(st, column, roll() & 1 ? "a" : "b", 1, SQLITE_STATIC);
        break;
    case 6:
        size = what >> 3 & 1 ? 16 : roll() * 4;
        memset(bytes, (int)roll(), size);
        for (size_t i = 0; i < size && i < 40; i++) {
            bytes[i] = (uint8_t)roll();
        }
        if (what >> 4 & 1) {
            sqlite3_bind_text(st, column, (char *)bytes, (int)size,
                              SQLITE_TRANSIENT);
        } else {
            sqlite3_bind_blob(st, column, bytes, (int)size, SQLITE_TRANSIENT);
        }
        break;
    default:
        if (roll() & 1) {
            sqlite3_bind_double(st, column, 1e300);
        } else if (roll() & 1) { /* far more than anything of ours */
            sqlite3_bind_zeroblob(st, column, 1 << 16);
        } else {
            sqlite3_bind_null(st, column);
        }
    }
}

static void write_row(void)
{
    const struct table *t =
        &tables[roll() % 4 ? roll() % 2 : roll() % 4]; /* claims above all */
    uint32_t how = roll();
    char sql[160];
    sqlite3_stmt *st;
    int count = 1;
    if (how % 4) {
        snprintf(sql, sizeof sql, "UPDATE OR IGNORE %s SET %s = ?1", t->name,
                 t->column[roll() % (uint32_t)t->columns]);
        if (t->columns == 22 && how & 16) {
            snprintf(sql + strlen(sql), sizeof sql - strlen(sql),
                     " WHERE id = %u", 1 + roll() % 12);
        }
    } else {
        count = t->columns;
        snprintf(sql, sizeof sql, "INSERT OR REPLACE INTO %s VALUES(?1",
                 t->name);
        for (int i = 1; i <= count; i++) {
            size_t used = strlen(sql);
            snprintf(sql + used, sizeof sql - used, i < count ? ",?" : ")");
        }
    }
    MUST(!sqlite3_prepare_v2(stranger, sql, -1, &st, NULL));
    for (int i = 1; i <= count; i++) {
        bind(st, i);
    }
    sqlite3_step(st); /* refused where a row like it is there */
    sqlite3_finalize(st);
}

static void run(const char *sql)
{
    sqlite3_exec(stranger, sql, NULL, NULL, NULL);
}

/* -- the calls ------------------------------------------------------------------- */

static void is_told(snib_err err, const struct snib_error *e)
{
    MUST(err == e->code);
    MUST(memchr(e->text, 0, sizeof e->text));
    MUST(!err || e->text[0] || snib_err_text(err)[0]);
}

static void is_party(const struct snib_party *p)
{
    MUST(p->client_id && p->host && p->user && p->program && p->reason);
    MUST(p->request && strlen(p->client_id) <= 64 && strlen(p->request) <= 32);
}

static void is_view(const struct snib_view *v)
{
    MUST(v->name && !v->name[v->name_size] && v->name_size <= 1 << 16);
    for (size_t i = 0; i < v->holder_count; i++) {
        is_party(v->holders[i]);
    }
    for (size_t i = 0; i < v->waiter_count; i++) {
        is_party(v->waiters[i]);
    }
    for (size_t i = 0; i < v->closed_count; i++) {
        is_party(v->closed_by[i]);
    }
}

static void hear(void *data, const struct snib_finding *f)
{
    (void)data;
    MUST(f->check && f->text && f->remedy);
}

static snib_err acquire(struct snib_client *c, const char *name, snib_kind kind,
                        struct snib_lock **lock, struct snib_grant *grant)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_error e = {0};
    o.kind = kind;
    o.permits = kind == SNIB_KIND_PERMITS ? 1 : 0;
    o.capacity = kind == SNIB_KIND_PERMITS ? 2 : 0;
    MUST(!snib_lock_new(c, name, &o, lock, &e));
    snib_err err = snib_try_for(*lock, roll() & 1, NULL, grant, &e);
    is_told(err, &e);
    MUST(err || grant->token > 0);
    MUST(!err == snib_grant_held(*lock, *grant) || err == SNIB_ERR_LOST ||
         !err);
    return err;
}

/* Whoever was given it has it: the other is refused, and after the release the
 * token is higher. No stranger writes meanwhile. */
static void take(struct snib_client *one, struct snib_client *other,
                 const char *name)
{
    struct snib_lock *l[2] = {NULL, NULL};
    struct snib_grant g[2];
    struct snib_error e = {0};
    if (!acquire(one, name, SNIB_KIND_MUTEX, &l[0], &g[0])) {
        bool again = !acquire(other, name, SNIB_KIND_MUTEX, &l[1], &g[1]);
        MUST(!again || !snib_grant_held(l[0], g[0]));
        is_told(snib_release(l[0], g[0], &e), &e);
        snib_lock_free(l[1]);
    }
    snib_lock_free(l[0]);
}

static void look(struct snib_client *c, const char *name)
{
    struct snib_error e = {0};
    struct snib_view *v = NULL, **all = NULL;
    struct snib_cycle **circles = NULL;
    size_t n = 0;
    snib_err err;
    switch (roll() % 4) {
    case 0:
        err = snib_client_inspect(c, name, 0, &v, &e);
        is_told(err, &e);
        if (!err) {
            is_view(v);
        }
        snib_view_free(v);
        break;
    case 1:
        err = snib_client_list(c, NULL, &all, &n, &e);
        is_told(err, &e);
        for (size_t i = 0; !err && i < n; i++) {
            is_view(all[i]);
        }
        snib_views_free(all, n);
        break;
    case 2:
        is_told(snib_client_deadlocks(c, &circles, &n, &e), &e);
        snib_deadlocks_free(circles, n);
        break;
    default:
        is_told(snib_client_doctor(c, hear, NULL, &e), &e);
    }
}

static void change(struct snib_client *c, const char *name)
{
    struct snib_error e = {0};
    struct snib_semaphore sem;
    struct snib_value *v = NULL;
    uint32_t n = 0;
    int64_t version = 0;
    bool set = false;
    switch (roll() % 9) {
    case 0:
        is_told(snib_client_force_release(c, name, 0, "", &n, &e), &e);
        break;
    case 1:
        is_told(snib_semaphore_get(c, name, 0, &sem, sizeof sem, &e), &e);
        break;
    case 2:
        is_told(snib_semaphore_set(c, name, 0, roll(), roll() & 1, &set, &e),
                &e);
        break;
    case 3:
        is_told(snib_semaphore_add(c, name, 0, (int)roll() - 128, &e), &e);
        break;
    case 4:
        is_told(snib_latch_set(c, name, 0, roll(), &set, &e), &e);
        break;
    case 5:
        is_told(snib_latch_count_down(c, name, 0, 1 + roll(), &n, &e), &e);
        break;
    case 6:
        is_told(snib_latch_try_for(c, name, 0, roll() & 1, &e), &e);
        break;
    case 7:
        if (!snib_value_get(c, name, 0, &v, &e)) {
            MUST(v);
        }
        snib_value_free(v);
        break;
    default:
        is_told(snib_value_put(c, name, 0, (int)roll() - 3, "x", 1, 0, &version,
                               &e),
                &e);
    }
}

static struct snib_client *open_client(void)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c = NULL;
    struct snib_error e = {0};
    char url[80];
    snprintf(url, sizeof url, "sqlite:%s", file);
    o.url = url;
    o.request_ms = 500;
    is_told(snib_client_open(&o, &c, &e), &e);
    return c;
}

static void end(struct snib_client *c)
{
    if (c) {
        snib_client_stop(c);
        snib_client_free(c);
    }
}

static void remove_file(void)
{
    char command[100];
    *strrchr(file, '/') = 0;
    snprintf(command, sizeof command, "rm -rf '%s'", file);
    MUST(system(command) == 0);
}

/* The tables are there from the first client on. */
static void begin(void)
{
    char dir[40] = "/dev/shm/snib-rows-XXXXXX";
    struct stat st;
    struct snib_error e = {0};
    if (stat("/dev/shm", &st)) {
        snprintf(dir, sizeof dir, "/tmp/snib-rows-XXXXXX");
    }
    MUST(mkdtemp(dir));
    snprintf(file, sizeof file, "%s/locks.db", dir);
    atexit(remove_file);
    struct snib_client *c = open_client();
    MUST(c && !snib_value_put(c, "a", 0, 0, "", 0, 0, NULL, &e));
    end(c);
    MUST(!sqlite3_open(file, &stranger));
    sqlite3_busy_timeout(stranger, 1000);
    run("CREATE TABLE kept AS SELECT * FROM meta;"
        "CREATE TABLE kept_value AS SELECT * FROM value");
}

/* A few hundred inputs a second: too few to begin with short ones. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char length[] = "-max_len=400", at_once[] = "-len_control=0";
    static char plain[] = "-entropic=0";
    want_option(argc, argv, length);
    want_option(argc, argv, at_once);
    want_option(argc, argv, plain);
    return 0;
}

/* The file as each input finds it, in one transaction. */
static void be_honest(void)
{
    enum { STATEMENTS = sizeof honest / sizeof *honest };
    static sqlite3_stmt *st[STATEMENTS];
    struct timespec now;
    MUST(!clock_gettime(CLOCK_BOOTTIME, &now));
    for (size_t i = 0; i < STATEMENTS; i++) {
        MUST(st[i] ||
             !sqlite3_prepare_v3(stranger, honest[i], -1,
                                 SQLITE_PREPARE_PERSISTENT, &st[i], NULL));
        sqlite3_bind_int64(st[i], 1, (now.tv_sec + 3600) * INT64_C(1000000000));
        MUST(sqlite3_step(st[i]) == SQLITE_DONE);
        sqlite3_reset(st[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"a", "b", "c", "b"};
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_WRITE,
                                      SNIB_KIND_READ, SNIB_KIND_PERMITS};
    if (!stranger) {
        begin();
    }
    be_honest();
    dice.p = data;
    dice.end = data + size;
    struct snib_client *c[2] = {open_client(), open_client()};
    MUST(c[0] && c[1]);
    for (int n = 0; n < CALLS_MAX && dice.p < dice.end; n++) {
        uint32_t what = roll();
        const char *name = names[what >> 4 & 3];
        struct snib_client *who = c[what >> 6 & 1];
        struct snib_lock *l = NULL;
        struct snib_grant g;
        switch (what % 8) {
        case 0:
        case 1:
        case 2:
            for (uint32_t rows = 1 + roll() % ROWS_MAX; rows > 0; rows--) {
                write_row();
            }
            break;
        case 3:
            take(who, c[who == c[0]], name);
            break;
        case 4:
            look(who, name);
            break;
        case 5: /* left to the end of its client */
            (void)acquire(who, name, kinds[roll() % 4], &l, &g);
            snib_lock_free(l);
            break;
        default:
            change(who, name);
        }
    }
    end(c[0]);
    end(c[1]);
    return 0;
}
