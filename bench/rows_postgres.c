/* bench/rows_postgres.c — a lock in PostgreSQL against what a user would write
 * there: a row that two UPDATEs lock and free (as ShedLock's), and the server's own
 * pg_advisory_lock, which has no lease, no fence, and nothing on disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "bench.h"

struct pair { /* two prepared statements */
    PGconn *c;
    const char *first, *second;
};

static void must_be(PGresult *res, const PGconn *c)
{
    ExecStatusType status = PQresultStatus(res);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        die("%s", PQerrorMessage(c));
    }
    PQclear(res);
}

static struct pair pair_open(bool durable, const char *acquire,
                             const char *release)
{
    struct pair p = {PQconnectdb(settings.postgres_url), "a", "r"};
    if (PQstatus(p.c) != CONNECTION_OK) {
        die("%s", PQerrorMessage(p.c));
    }
    must_be(PQexec(p.c, durable ? "SET synchronous_commit=on"
                                : "SET synchronous_commit=off"),
            p.c);
    must_be(PQexec(p.c, "SET client_min_messages=warning"), p.c);
    must_be(PQexec(p.c, "CREATE TABLE IF NOT EXISTS bare(name text PRIMARY "
                        "KEY, lock_until timestamptz, locked_by text)"),
            p.c);
    must_be(PQexec(p.c, "INSERT INTO bare VALUES('bench', now(), '') ON "
                        "CONFLICT DO NOTHING"),
            p.c);
    must_be(PQprepare(p.c, "a", acquire, 0, NULL), p.c);
    must_be(PQprepare(p.c, "r", release, 0, NULL), p.c);
    return p;
}

static void pair_run(void *data)
{
    struct pair *p = data;
    must_be(PQexecPrepared(p->c, p->first, 0, NULL, NULL, NULL, 0), p->c);
    must_be(PQexecPrepared(p->c, p->second, 0, NULL, NULL, NULL, 0), p->c);
}

static void against(const char *what, double goal, const char *options,
                    bool durable, const char *acquire, const char *release)
{
    char url[200];
    struct finding f = {.row = "postgres",
                        .what = what,
                        .unit = "us",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = goal};
    snprintf(url, sizeof url, "%s%s", settings.postgres_url, options);
    struct snib_client *client = open_client(url);
    struct snib_lock *lock = open_lock(client, "bench");
    struct pair p = pair_open(durable, acquire, release);
    measure_alone(&f, work_of_lock(lock), (struct work){pair_run, &p, 1});
    PQfinish(p.c);
    snib_lock_free(lock);
    snib_client_free(client);
}

void row_postgres(void)
{
    static const char take[] =
        "UPDATE bare SET lock_until=now()+interval '30 s', locked_by='me' "
        "WHERE name='bench' AND lock_until<=now()";
    static const char give[] =
        "UPDATE bare SET lock_until=now() WHERE name='bench'";
    against("acquire+release, durable; a row and two UPDATEs", 1.0, "", true,
            take, give);
    against("  the same, not durable", 2.0, "?durable=no", false, take, give);
    against("  not durable; pg_advisory_lock", 3.3, "?durable=no", false,
            "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_unlock(1)");
}
