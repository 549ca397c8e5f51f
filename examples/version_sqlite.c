/* examples/version_sqlite.c — a stock counted down by a version column, in an
 * SQLite table of the program's own.
 *
 *   version_sqlite FILE
 *
 * Run several at once: each piece is sold once. Nobody has the file to himself
 * while he computes, only while he writes. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <snib/steps/sqlite.h>

enum { SOLD_OUT = 1 };

struct sale {
    struct snib_sqlite_update update;
    sqlite3_stmt *select, *change;
    sqlite3_int64 version;
    int stock;
};

/* What was read may be old by now. Compute; have no effect elsewhere. */
static int read_stock(void *data, sqlite3 *c, struct snib_version_attempt *a)
{
    struct sale *s = data;
    int answer = snib_sqlite_row(a, c, sqlite3_step(s->select));
    if (answer == 1) {
        s->version = sqlite3_column_int64(s->select, 0);
        s->stock = sqlite3_column_int(s->select, 1);
        if (s->stock == 0) {
            a->stopped = SOLD_OUT;
            answer = 0;
        }
    }
    sqlite3_reset(s->select);
    return answer;
}

static int write_stock(void *data, sqlite3 *c, struct snib_version_attempt *a)
{
    struct sale *s = data;
    sqlite3_bind_int(s->change, 1, s->stock - 1);
    sqlite3_bind_text(s->change, 2, a->id, -1, SQLITE_TRANSIENT);
    sqlite3_bind_int64(s->change, 3, s->version);
    int answer = snib_sqlite_changed(a, c, sqlite3_step(s->change));
    sqlite3_reset(s->change);
    return answer;
}

/* The disk failed in the commit. */
static int stock_stands(void *data, sqlite3 *c, struct snib_version_attempt *a)
{
    struct sale *s = data;
    int answer = snib_sqlite_row(a, c, sqlite3_step(s->select));
    if (answer == 1) {
        const char *id = (const char *)sqlite3_column_text(s->select, 2);
        answer = snib_step_stands(
            a, s->version, sqlite3_column_int64(s->select, 0), id ? id : "");
    }
    sqlite3_reset(s->select);
    return answer;
}

static int prepare(struct sale *s, sqlite3 *c)
{
    sqlite3_busy_timeout(c, 10000); /* for these alone */
    int done =
        sqlite3_exec(c,
                     "CREATE TABLE IF NOT EXISTS example_item("
                     "id INTEGER PRIMARY KEY, stock, version, attempt);"
                     "INSERT OR IGNORE INTO example_item VALUES(4711, 50, 1, "
                     "NULL)",
                     NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(c,
                           "SELECT version, stock, attempt FROM example_item"
                           " WHERE id = 4711",
                           -1, &s->select, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(c,
                           "UPDATE example_item SET stock = ?, attempt = ?,"
                           " version = version + 1"
                           " WHERE id = 4711 AND version = ?",
                           -1, &s->change, NULL) == SQLITE_OK;
    sqlite3_busy_timeout(c, 0); /* the pauses are the library's */
    return done;
}

int main(int argc, char **argv)
{
    struct snib_version_options options = SNIB_INIT(snib_version_options);
    struct snib_error e = {SNIB_ERR_OK, ""};
    struct sale sale = {.update = {.read = read_stock,
                                   .write = write_stock,
                                   .stands = stock_stands,
                                   .data = &sale}};
    uint32_t attempts, all = 0;
    int sold = 0, stopped = 0;
    sqlite3 *c = NULL;
    if (argc != 2 || sqlite3_open(argv[1], &c) != SQLITE_OK ||
        !prepare(&sale, c)) {
        fprintf(stderr, "version_sqlite FILE: %s\n",
                c ? sqlite3_errmsg(c) : "");
        sqlite3_close(c);
        return 1;
    }
    sale.update.connection = c;
    options.wait_ms = 10000;
    while (!snib_version_update(&options, snib_sqlite_step, &sale.update,
                                &stopped, &attempts, &e) &&
           stopped != SOLD_OUT) {
        sold++;
        all += attempts;
    }
    if (e.code) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
    }
    printf("sold %d, in %u attempts\n", sold, (unsigned)all);
    sqlite3_finalize(sale.select);
    sqlite3_finalize(sale.change);
    sqlite3_close(c);
    return e.code ? 1 : 0;
}
