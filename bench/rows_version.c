/* bench/rows_version.c — three ways to count a row of one's own table up, in one
 * PostgreSQL: SELECT … FOR UPDATE, a version column (snib_version_update), and a
 * lock of snib's around a read and a write. docs/OPTIMISTIC.md compares them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snib/steps/libpq.h>

#include "bench.h"

enum { PROCESSES = 8 };

struct row {
    PGconn *c;
    struct snib_pq_update update;
    struct snib_client *client;
    struct snib_lock *lock;
    char id[8], version[24], n[24];
    double inside_s; /* to compute the next state */
};

static PGresult *ask(const struct row *r, const char *statement, int params)
{
    const char *const values[] = {r->id, r->n, r->version};
    PGresult *res =
        PQexecPrepared(r->c, statement, params, values, NULL, NULL, 0);
    if (PQresultStatus(res) != PGRES_COMMAND_OK &&
        PQresultStatus(res) != PGRES_TUPLES_OK) {
        die("%s", PQerrorMessage(r->c));
    }
    return res;
}

static void run_text(PGconn *c, const char *text)
{
    PGresult *res = PQexec(c, text);
    if (PQresultStatus(res) != PGRES_COMMAND_OK) {
        die("%s", PQerrorMessage(c));
    }
    PQclear(res);
}

static void prepare(PGconn *c, const char *name, const char *text)
{
    PGresult *res = PQprepare(c, name, text, 0, NULL);
    if (PQresultStatus(res) != PGRES_COMMAND_OK) {
        die("%s", PQerrorMessage(c));
    }
    PQclear(res);
}

static void compute(struct row *r, const PGresult *res)
{
    snprintf(r->n, sizeof r->n, "%lld", atoll(PQgetvalue(res, 0, 0)) + 1);
    snprintf(r->version, sizeof r->version, "%s", PQgetvalue(res, 0, 1));
    if (r->inside_s > 0) {
        pause_s(r->inside_s);
    }
}

/* -- the three ways ------------------------------------------------------------- */

static void by_row_lock(void *data)
{
    struct row *r = data;
    run_text(r->c, "BEGIN");
    PGresult *res = ask(r, "lock", 1);
    compute(r, res);
    PQclear(res);
    PQclear(ask(r, "write", 2));
    run_text(r->c, "COMMIT");
}

static int version_read(void *data, PGconn *c, struct snib_version_attempt *a)
{
    struct row *r = data;
    PGresult *res = ask(r, "read", 1);
    int answer = snib_pq_row(a, c, res);
    if (answer == 1) {
        compute(r, res);
    }
    PQclear(res);
    return answer;
}

static int version_write(void *data, PGconn *c, struct snib_version_attempt *a)
{
    const struct row *r = data;
    return snib_pq_changed(a, c, ask(r, "change", 3));
}

static void by_version(void *data)
{
    struct row *r = data;
    struct snib_version_options o = SNIB_INIT(snib_version_options);
    struct snib_error e;
    o.wait_ms = INT64_MAX;
    if (snib_version_update(&o, snib_pq_step, &r->update, NULL, NULL, &e)) {
        die("%s: %s", snib_err_name(e.code), e.text);
    }
}

static void by_lock(void *data)
{
    struct row *r = data;
    struct snib_grant g;
    struct snib_error e;
    if (snib_acquire(r->lock, NULL, &g, &e)) {
        die("acquire: %s", e.text);
    }
    PGresult *res = ask(r, "read", 1);
    compute(r, res);
    PQclear(res);
    PQclear(ask(r, "write", 2));
    if (snib_release(r->lock, g, &e)) {
        die("release: %s", e.text);
    }
}

/* -- rows and those who count them ---------------------------------------------------- */

static void row_open(struct row *r, int id, double inside_s)
{
    *r = (struct row){.c = PQconnectdb(settings.postgres_url),
                      .client = open_client(settings.postgres_url),
                      .inside_s = inside_s};
    if (PQstatus(r->c) != CONNECTION_OK) {
        die("%s", PQerrorMessage(r->c));
    }
    snprintf(r->id, sizeof r->id, "%d", id);
    r->lock = open_lock(r->client, r->id);
    run_text(r->c, "SET client_min_messages=warning");
    prepare(r->c, "read", "SELECT n, version FROM counted WHERE id=$1::int");
    prepare(r->c, "lock",
            "SELECT n, version FROM counted WHERE id=$1::int FOR UPDATE");
    prepare(r->c, "write", "UPDATE counted SET n=$2::bigint WHERE id=$1::int");
    prepare(r->c, "change",
            "UPDATE counted SET n=$2::bigint, version=version+1 "
            "WHERE id=$1::int AND version=$3::bigint");
    r->update = (struct snib_pq_update){.connection = r->c,
                                        .read = version_read,
                                        .write = version_write,
                                        .data = r};
}

static void row_close(struct row *r)
{
    snib_lock_free(r->lock);
    snib_client_free(r->client);
    PQfinish(r->c);
}

static void make_table(void)
{
    PGconn *c = PQconnectdb(settings.postgres_url);
    if (PQstatus(c) != CONNECTION_OK) {
        die("%s", PQerrorMessage(c));
    }
    run_text(c, "SET client_min_messages=warning");
    run_text(c, "CREATE TABLE IF NOT EXISTS counted(id int PRIMARY KEY, "
                "n bigint NOT NULL, version bigint NOT NULL) "
                "WITH (fillfactor=50)");
    run_text(c, "INSERT INTO counted SELECT id, 0, 0 FROM "
                "generate_series(0, 99) id ON CONFLICT DO NOTHING");
    PQfinish(c);
}

/* What was read may be old by the write: each process counts its own row, or all
 * the same one ("one"). */
static void member_of(struct crowd *c, int me, void (*way)(void *))
{
    struct row r;
    row_open(&r, strcmp(c->name, "one") == 0 ? 0 : me + 1, c->inside_s);
    crowd_repeat(c, (struct work){way, &r, 1});
    row_close(&r);
}

static void member_row_lock(struct crowd *c, int me)
{
    member_of(c, me, by_row_lock);
}

static void member_version(struct crowd *c, int me)
{
    member_of(c, me, by_version);
}

static void member_lock(struct crowd *c, int me)
{
    member_of(c, me, by_lock);
}

static double rate(member *run, const char *name, double inside_s)
{
    struct crowd *c = crowd_new();
    c->name = name;
    c->inside_s = inside_s;
    struct span s = crowd_processes(c, PROCESSES, run, settings.seconds);
    crowd_free(c);
    return span_rate(&s);
}

static void crowds(const char *what, const char *name, double inside_s,
                   member *ours)
{
    struct finding f = {
        .row = "version", .what = what, .unit = "/s", .per_ratio = true};
    for (int i = 0; i < settings.rounds; i++) {
        double n = rate(ours, name, inside_s);
        finding_pair(&f, n, rate(member_row_lock, name, inside_s));
    }
    report(&f);
}

static void alone(const char *what, void (*ours)(void *))
{
    struct finding f = {
        .row = "version", .what = what, .unit = "us", .per_ratio = true};
    struct row a, b;
    row_open(&a, 0, 0);
    row_open(&b, 0, 0);
    measure_alone(&f, (struct work){ours, &a, 1},
                  (struct work){by_row_lock, &b, 1});
    row_close(&a);
    row_close(&b);
}

void row_version(void)
{
    make_table();
    alone("a row of one's own, version column; FOR UPDATE", by_version);
    alone("  a lock around it; FOR UPDATE", by_lock);
    crowds("  8 processes, a row each, version column; FOR UPDATE", "own", 0,
           member_version);
    crowds("  ... a lock each; FOR UPDATE", "own", 0, member_lock);
    crowds("  8 processes, one row, version column; FOR UPDATE", "one", 0,
           member_version);
    crowds("  ... a lock; FOR UPDATE", "one", 0, member_lock);
    crowds("  ... 5 ms to compute, version column; FOR UPDATE", "one", 0.005,
           member_version);
    crowds("  ... 5 ms to compute, a lock; FOR UPDATE", "one", 0.005,
           member_lock);
}
