/* demo/shop.c — stock and orders in SQLite, with a fence.
 *
 * The shop is deliberately naive, as shops are: it reads, thinks, and writes
 * what it worked out ("left = 41"), and nothing in the schema forbids a second
 * order. What keeps it right is the lock around read and write, and where the
 * lock's holder was too late, the mark: see shop_enter and shop_sell, and
 * docs/FENCING.md. */
#include "demo.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum statement {
    ENTER,
    LEFT,
    HAS,
    BEGIN,
    UPDATE,
    FENCED,
    INSERT,
    COMMIT,
    ROLLBACK,
    MARK,
    STATEMENTS
};

static const char *const sql[STATEMENTS] = {
    [ENTER] = "UPDATE stock SET mark = ?2 WHERE product = ?1 AND mark <= ?2",
    [LEFT] = "SELECT left FROM stock WHERE product = ?1",
    [HAS] = "SELECT 1 FROM orders WHERE user = ?1",
    [BEGIN] = "BEGIN IMMEDIATE",
    [UPDATE] = "UPDATE stock SET left = ?2 WHERE product = ?1",
    [FENCED] = "UPDATE stock SET left = ?2 WHERE product = ?1 AND mark = ?3",
    [INSERT] = "INSERT INTO orders (product, user, token) VALUES (?1, ?2, ?3)",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [MARK] = "SELECT mark FROM stock WHERE product = ?1",
};

struct shop {
    sqlite3 *db;
    sqlite3_stmt *stmt[STATEMENTS];
};

static int be_patient(void *data, int tries)
{
    (void)data;
    usleep(tries < 10 ? 50 : 500);
    return tries < 20000;
}

static sqlite3 *open_db(const char *path)
{
    sqlite3 *db;
    if (sqlite3_open(path, &db) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", path, sqlite3_errmsg(db));
        sqlite3_close(db);
        return NULL;
    }
    sqlite3_busy_handler(db, be_patient, NULL);
    /* A scratch file: nobody minds its loss in a power cut. */
    sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL);
    return db;
}

bool shop_create(const char *path, const uint32_t stock[PRODUCTS])
{
    char text[512], extra[4096];
    const char *const ends[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(extra, sizeof extra, "%s%s", path, ends[i]);
        unlink(extra);
    }
    sqlite3 *db = open_db(path);
    bool ok = db && sqlite3_exec(db,
                                 "PRAGMA journal_mode = WAL;"
                                 "CREATE TABLE stock (product INTEGER PRIMARY "
                                 "KEY, first INT, left INT, mark INT);"
                                 "CREATE TABLE orders (id INTEGER PRIMARY KEY, "
                                 "product INT, user INT, token INT);"
                                 "CREATE INDEX orders_user ON orders (user);",
                                 NULL, NULL, NULL) == SQLITE_OK;
    for (uint32_t i = 0; ok && i < PRODUCTS; i++) {
        snprintf(text, sizeof text, "INSERT INTO stock VALUES (%u, %u, %u, 0)",
                 i, stock[i], stock[i]);
        ok = sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK;
    }
    if (!ok && db) {
        fprintf(stderr, "%s: %s\n", path, sqlite3_errmsg(db));
    }
    sqlite3_close(db);
    return ok;
}

struct shop *shop_open(const char *path)
{
    struct shop *s = calloc(1, sizeof *s);
    if (!s || !(s->db = open_db(path))) {
        free(s);
        return NULL;
    }
    for (int i = 0; i < STATEMENTS; i++) {
        if (sqlite3_prepare_v2(s->db, sql[i], -1, &s->stmt[i], NULL)) {
            fprintf(stderr, "%s: %s\n", path, sqlite3_errmsg(s->db));
            shop_close(s);
            return NULL;
        }
    }
    return s;
}

void shop_close(struct shop *s)
{
    for (int i = 0; s && i < STATEMENTS; i++) {
        sqlite3_finalize(s->stmt[i]);
    }
    if (s) {
        sqlite3_close(s->db);
    }
    free(s);
}

/* Run a statement with up to three numbers; its first column, or -1. A shop
 * whose database fails must not guess: it ends. */
static int64_t run(struct shop *s, enum statement which, int64_t a, int64_t b,
                   int64_t c)
{
    sqlite3_stmt *st = s->stmt[which];
    const int64_t values[] = {a, b, c};
    for (int i = 0; i < sqlite3_bind_parameter_count(st); i++) {
        sqlite3_bind_int64(st, i + 1, values[i]);
    }
    int rc = sqlite3_step(st);
    int64_t result = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : -1;
    sqlite3_reset(st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        fprintf(stderr, "shop: %s: %s\n", sql[which], sqlite3_errmsg(s->db));
        _exit(3);
    }
    return result;
}

bool shop_enter(struct shop *s, uint32_t product, int64_t token)
{
    run(s, ENTER, product, token, 0);
    return sqlite3_changes(s->db) == 1;
}

int64_t shop_left(struct shop *s, uint32_t product)
{
    return run(s, LEFT, product, 0, 0);
}

bool shop_has_order(struct shop *s, uint32_t user)
{
    return run(s, HAS, user, 0, 0) == 1;
}

int64_t shop_mark(struct shop *s, uint32_t product)
{
    return run(s, MARK, product, 0, 0);
}

bool shop_sell(struct shop *s, uint32_t product, int64_t left, uint32_t user,
               int64_t token)
{
    run(s, BEGIN, 0, 0, 0);
    run(s, token ? FENCED : UPDATE, product, left, token);
    if (sqlite3_changes(s->db) != 1) {
        run(s, ROLLBACK, 0, 0, 0);
        return false;
    }
    run(s, INSERT, product, user, token);
    run(s, COMMIT, 0, 0, 0);
    return true;
}

static int64_t number(struct shop *s, const char *query)
{
    sqlite3_stmt *st;
    int64_t n = -1;
    if (sqlite3_prepare_v2(s->db, query, -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW) {
        n = sqlite3_column_int64(st, 0);
    }
    sqlite3_finalize(st);
    return n;
}

#define PER_PRODUCT                                                            \
    "(SELECT first, (SELECT count(*) FROM orders o WHERE o.product = "         \
    "s.product) AS sold FROM stock s)"

struct tally shop_tally(struct shop *s)
{
    return (struct tally){
        .sold = number(s, "SELECT count(*) FROM orders"),
        .oversold =
            number(s, "SELECT sum(max(0, sold - first)) FROM " PER_PRODUCT),
        .unsold =
            number(s, "SELECT sum(max(0, first - sold)) FROM " PER_PRODUCT),
        .duplicates = number(s, "SELECT count(*) - count(DISTINCT user) "
                                "FROM orders"),
    };
}
