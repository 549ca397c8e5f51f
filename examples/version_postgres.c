/* examples/version_postgres.c — a stock counted down by a version column, in a
 * PostgreSQL table of the program's own.
 *
 *   version_postgres "host=… dbname=…"      (without: as psql finds its server)
 *
 * Run several at once: each piece is sold once, and nobody waits for anybody.
 * The table has a column for the id of the attempt. So when the connection is
 * lost while a commit is on its way, the program finds out what became of it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <snib/steps/libpq.h>

enum { SOLD_OUT = 1 };

struct sale {
    struct snib_pq_update update;
    int64_t version;
    int stock;
};

/* What was read may be old by now. Compute; have no effect elsewhere. */
static int read_stock(void *data, PGconn *c, struct snib_version_attempt *a)
{
    struct sale *s = data;
    PGresult *r =
        PQexec(c, "SELECT version, stock FROM example_item WHERE id = 4711");
    int answer = snib_pq_row(a, c, r);
    if (answer == 1) {
        s->version = atoll(PQgetvalue(r, 0, 0));
        s->stock = atoi(PQgetvalue(r, 0, 1));
        if (s->stock == 0) {
            a->stopped = SOLD_OUT;
            answer = 0;
        }
    }
    PQclear(r);
    return answer;
}

static int write_stock(void *data, PGconn *c, struct snib_version_attempt *a)
{
    struct sale *s = data;
    char version[24], stock[24];
    const char *const values[] = {stock, a->id, version};
    snprintf(version, sizeof version, "%lld", (long long)s->version);
    snprintf(stock, sizeof stock, "%d", s->stock - 1);
    return snib_pq_changed(
        a, c,
        PQexecParams(c,
                     "UPDATE example_item SET stock = $1, attempt = $2,"
                     " version = version + 1"
                     " WHERE id = 4711 AND version = $3",
                     3, NULL, values, NULL, NULL, 0));
}

/* The commit was not answered. FOR UPDATE waits until the server is through with
 * it. */
static int stock_stands(void *data, PGconn *c, struct snib_version_attempt *a)
{
    struct sale *s = data;
    PGresult *r = PQexec(c, "SELECT version, attempt FROM example_item"
                            " WHERE id = 4711 FOR UPDATE");
    int answer = snib_pq_row(a, c, r);
    if (answer == 1) {
        answer = snib_step_stands(a, s->version, atoll(PQgetvalue(r, 0, 0)),
                                  PQgetvalue(r, 0, 1));
    }
    PQclear(r);
    return answer;
}

static PGconn *reconnect(void *data, PGconn *c)
{
    (void)data;
    PQreset(c);
    return c;
}

/* Several that make the table at once: all but one may be told that it is there.
 * What counts is the last answer. */
static int fill(PGconn *c)
{
    int done = 0;
    static const char *const statements[] = {
        "SET client_min_messages = warning",
        "CREATE TABLE IF NOT EXISTS example_item(id bigint PRIMARY KEY,"
        " stock int NOT NULL, version bigint NOT NULL, attempt text)",
        "INSERT INTO example_item VALUES(4711, 50, 1, NULL)"
        " ON CONFLICT DO NOTHING",
    };
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        PGresult *r = PQexec(c, statements[i]);
        done = PQresultStatus(r) == PGRES_COMMAND_OK;
        PQclear(r);
    }
    return done;
}

int main(int argc, char **argv)
{
    struct snib_version_options options = SNIB_INIT(snib_version_options);
    struct snib_error e = {SNIB_ERR_OK, ""};
    PGconn *c = PQconnectdb(argc > 1 ? argv[1] : "");
    struct sale sale = {.update = {.connection = c,
                                   .read = read_stock,
                                   .write = write_stock,
                                   .stands = stock_stands,
                                   .reconnect = reconnect,
                                   .data = &sale}};
    uint32_t attempts, all = 0;
    int sold = 0, stopped = 0;
    if (PQstatus(c) != CONNECTION_OK || !fill(c)) {
        fprintf(stderr, "%s", PQerrorMessage(c));
        PQfinish(c);
        return 1;
    }
    options.wait_ms = 10000;
    while (!snib_version_update(&options, snib_pq_step, &sale.update, &stopped,
                                &attempts, &e) &&
           stopped != SOLD_OUT) {
        sold++;
        all += attempts;
    }
    if (e.code) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
    }
    printf("sold %d, in %u attempts\n", sold, (unsigned)all);
    PQfinish(sale.update.connection);
    return e.code ? 1 : 0;
}
