/* store/postgres/doctor.c — is this server set up so that our promises hold?
 *
 * The questions are sent together; each answer becomes findings. What cannot be
 * looked at is a finding too, never an error. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "snib/inspect.h"
#include "store/postgres/postgres_i.h"

enum { DOCTOR_SLOW_MS = 50, DOCTOR_LISTENERS = 64, DOCTOR_CLOCK_MS = 60000 };

struct doctor_look {
    struct snib__buf *out;
    const struct snib__postgres *store;
    snib_instant sent;
};

static void doctor_tell(struct doctor_look *d, snib_level level,
                        const char *check, const char *text, const char *remedy)
{
    snib__rec_row(d->out, SNIB__ROW_FINDING);
    snib__rec_i64(d->out, SNIB__F_LEVEL, level);
    snib__rec_text(d->out, SNIB__F_CHECK, check);
    snib__rec_text(d->out, SNIB__F_TEXT, text);
    snib__rec_text(d->out, SNIB__F_REMEDY, remedy);
}

/* OK without a remedy, else `bad` with it. */
static void doctor_judge(struct doctor_look *d, bool good, snib_level bad,
                         const char *check, const char *text,
                         const char *remedy)
{
    doctor_tell(d, good ? SNIB_LEVEL_OK : bad, check, text, good ? "" : remedy);
}

static void doctor_clock(struct doctor_look *d, int64_t us)
{
    char text[160];
    int64_t here = (d->sent.ns + d->store->wall_offset_ns) / 1000;
    long long ms = (us - here) / 1000;
    if (!d->store->wall_offset_ns) {
        return;
    }
    snprintf(text, sizeof text, "the server's is %lld ms %s this host's",
             ms < 0 ? -ms : ms, ms < 0 ? "behind" : "ahead of");
    doctor_judge(d, llabs(ms) < DOCTOR_CLOCK_MS, SNIB_LEVEL_WARN, "clock", text,
                 "let NTP set both: leases do not mind, but ages are shown "
                 "wrongly, and tokens of a clock that is set back rise slowly");
}

static void doctor_see_server(void *data, const struct snib__pq *pq,
                              PGresult *res)
{
    struct doctor_look *d = data;
    char version[64], database[64], user[64], started[40], text[300];
    double ms = (double)snib__between(d->sent, snib__pg_now()).ns / 1e6;
    snib__pg_get_text(pq, res, 0, 0, version, sizeof version);
    snib__pg_get_text(pq, res, 0, 1, database, sizeof database);
    snib__pg_get_text(pq, res, 0, 2, user, sizeof user);
    snib__pg_get_text(pq, res, 0, 5, started, sizeof started);
    snprintf(text, sizeof text, "PostgreSQL %s, since %s", version, started);
    doctor_tell(d, SNIB_LEVEL_OK, "server", text, "");
    snprintf(text, sizeof text, "%s, as user %s, %lld sessions", database, user,
             (long long)snib__pg_get_int(pq, res, 0, 6));
    doctor_tell(d, SNIB_LEVEL_OK, "database", text, "");
    doctor_clock(d, snib__pg_get_int(pq, res, 0, 4));
    snprintf(text, sizeof text, "a round trip takes %.2f ms", ms);
    doctor_judge(d, ms < DOCTOR_SLOW_MS, SNIB_LEVEL_WARN, "latency", text,
                 "leases must be many times longer than a round trip; use a "
                 "nearer server");
}

static void doctor_see_settings(void *data, const struct snib__pq *pq,
                                PGresult *res)
{
    struct doctor_look *d = data;
    char commit[24], fsync[8], pages[8], isolation[24], names[64], vacuum[8];
    char text[200];
    snib__pg_get_text(pq, res, 0, 0, commit, sizeof commit);
    snib__pg_get_text(pq, res, 0, 1, fsync, sizeof fsync);
    snib__pg_get_text(pq, res, 0, 2, pages, sizeof pages);
    snib__pg_get_text(pq, res, 0, 3, isolation, sizeof isolation);
    snib__pg_get_text(pq, res, 0, 4, names, sizeof names);
    snib__pg_get_text(pq, res, 0, 6, vacuum, sizeof vacuum);
    snprintf(text, sizeof text, "grants: synchronous_commit=%s", commit);
    doctor_judge(d, strcmp(commit, "off") != 0, SNIB_LEVEL_WARN, "durable",
                 text,
                 "without ?durable=no a crash of the server forgets no grant");
    snprintf(text, sizeof text, "fsync=%s, full_page_writes=%s", fsync, pages);
    doctor_judge(d, !strcmp(fsync, "on") && !strcmp(pages, "on"),
                 SNIB_LEVEL_FAIL, "disk-writes", text,
                 "set both on: without them a crash of the machine can lose "
                 "grants, or all");
    doctor_judge(d, !strcmp(isolation, "read committed"), SNIB_LEVEL_FAIL,
                 "isolation", isolation,
                 "a trigger or hook of the server changes it; remove that");
    snprintf(text, sizeof text, "autovacuum=%s", vacuum);
    doctor_judge(d, !strcmp(vacuum, "on"), SNIB_LEVEL_WARN, "vacuum", text,
                 "set it on: the tables grow with each change");
}

static void doctor_see_replicas(void *data, const struct snib__pq *pq,
                                PGresult *res)
{
    struct doctor_look *d = data;
    long long all = snib__pg_get_int(pq, res, 0, 0);
    long long together = snib__pg_get_int(pq, res, 0, 1);
    long long lag = snib__pg_get_int(pq, res, 0, 2);
    char text[200], behind[60] = "";
    if (lag >= 0) {
        snprintf(behind, sizeof behind, ", %lld ms behind at most", lag);
    }
    snprintf(text, sizeof text,
             all ? "a primary with %lld standbys, %lld of them synchronous%s"
                 : "a primary without standbys",
             all, together, behind);
    doctor_judge(d, !all || together, SNIB_LEVEL_WARN, "replicas", text,
                 "a failover can lose the newest grants: set "
                 "synchronous_standby_names, or pass the fencing token to what "
                 "the lock protects (docs/FENCING.md)");
}

static void doctor_see_rights(void *data, const struct snib__pq *pq,
                              PGresult *res)
{
    struct doctor_look *d = data;
    char text[300] = "all that are needed", one[40];
    size_t used = 0;
    int rows = pq->PQntuples(res);
    for (int i = 0; i < rows && used < sizeof text - 64; i++) {
        snib__pg_get_text(pq, res, i, 0, one, sizeof one);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                 i ? ", " : "missing: ", one);
    }
    doctor_judge(d, rows == 0, SNIB_LEVEL_FAIL, "permissions", text,
                 "give the user the rights listed in docs/POSTGRES.md");
}

static void doctor_see_tables(void *data, const struct snib__pq *pq,
                              PGresult *res)
{
    struct doctor_look *d = data;
    char kind[8], text[200];
    snib__pg_get_text(pq, res, 0, 3, kind, sizeof kind);
    snprintf(text, sizeof text, "schema %s has layout %d, %lld names, %lld KiB",
             d->store->schema, SNIB__PG_SCHEMA,
             (long long)snib__pg_get_int(pq, res, 0, 0),
             (long long)(snib__pg_get_int(pq, res, 0, 1) +
                         snib__pg_get_int(pq, res, 0, 2)) /
                 1024);
    doctor_tell(d, SNIB_LEVEL_OK, "layout", text, "");
    if (strcmp(kind, "p") != 0) {
        doctor_tell(d, SNIB_LEVEL_FAIL, "tables",
                    "the table lock is UNLOGGED: a crash empties it",
                    "ALTER TABLE … SET LOGGED, for all four tables");
    }
}

static void doctor_see_listeners(void *data, const struct snib__pq *pq,
                                 PGresult *res)
{
    struct doctor_look *d = data;
    char text[100];
    long long n = snib__pg_get_int(pq, res, 0, 0);
    snprintf(text, sizeof text, "%lld clients listen in this database", n);
    doctor_judge(d, n <= DOCTOR_LISTENERS, SNIB_LEVEL_WARN, "wake-up", text,
                 "each notification wakes all of them: use fewer clients, or "
                 "several databases");
}

static void doctor_tls(struct doctor_look *d)
{
    if (d->store->verify) {
        doctor_tell(d, SNIB_LEVEL_OK, "tls",
                    "encrypted; the server's certificate is verified", "");
    } else if (!d->store->here) {
        doctor_tell(d, SNIB_LEVEL_WARN, "tls", "none (?tls=no)",
                    "leave ?tls=no out, unless nobody else is on the way");
    }
}

static void doctor_failed(struct doctor_look *d, const struct snib_error *e)
{
    bool denied = e->code == SNIB_ERR_DENIED,
         set_up = e->code == SNIB_ERR_CONFIG;
    doctor_tell(d, SNIB_LEVEL_FAIL,
                denied   ? "permissions"
                : set_up ? "configuration"
                         : "reachable",
                e->text,
                denied   ? "check user and password, and give the user the "
                           "rights listed in docs/POSTGRES.md"
                : set_up ? "the text says what to do"
                         : "check the URL, and that the server runs and lets "
                           "this host connect");
}

static const struct {
    enum snib__pg_statement statement;
    snib__pg_row *see;
    const char *check;
} doctor_questions[] = {
    {SNIB__PG_DOCTOR_SERVER, doctor_see_server, "server"},
    {SNIB__PG_DOCTOR_SETTINGS, doctor_see_settings, "settings"},
    {SNIB__PG_DOCTOR_REPLICAS, doctor_see_replicas, "replicas"},
    {SNIB__PG_DOCTOR_RIGHTS, doctor_see_rights, "permissions"},
    {SNIB__PG_DOCTOR_TABLES, doctor_see_tables, "layout"},
    {SNIB__PG_DOCTOR_LISTENERS, doctor_see_listeners, "wake-up"},
};

snib__sql_end snib__pg_doctor(struct snib__sql *q, struct snib__request *r)
{
    struct snib__pg_session *s = snib__pg_of(q);
    struct doctor_look d = {.out = r->said.result, .store = s->store};
    snib__sql_end end = snib__pg_reach(&s->conn, q->until, &q->fault);
    doctor_tls(&d);
    for (size_t i = 0;
         !end && i < sizeof doctor_questions / sizeof doctor_questions[0];
         i++) {
        snib__pg_script_clear(&s->script);
        snib__pg_add(&s->script, doctor_questions[i].statement,
                     doctor_questions[i].see, &d);
        snib__pg_sync(&s->script);
        d.sent = snib__pg_now();
        end = snib__pg_script_run(s, 1);
        if (end == SNIB__SQL_REFUSED || end == SNIB__SQL_CONFLICT) {
            doctor_tell(&d, SNIB_LEVEL_WARN, doctor_questions[i].check,
                        q->fault.text, "this could not be looked at");
            end = SNIB__SQL_OK;
        }
    }
    if (end) {
        doctor_failed(&d, &q->fault);
    }
    return SNIB__SQL_OK;
}
