/* store/postgres/connect.c — connecting, and a look at who answers.
 *
 *   DOWN --libpq connects--> settings --> layout --> ready
 *     ^                         |           `--no tables--> they are made
 *     +---- any failure --------+               (one client at a time)
 *           the next attempt not before a pause has passed
 *
 * Refused are: a server that is too old; a standby, which would answer reads
 * from the past and take no writes; a pooler, behind which one session of ours
 * is many of the server's, so that settings, prepared statements and LISTEN are
 * another session's; tables of another layout.
 *
 * TLS. libpq verifies only when it is told to: `verify-full`, with the file of
 * this machine's CAs, since it knows no "system" before version 16. */
#include <poll.h>
#include <stdio.h>

#include "base/error.h"
#include "store/postgres/postgres_i.h"

static void connect_ignore(void *data, const PGresult *res)
{
    (void)data;
    (void)res;
}

static bool connect_begin(struct snib__pg_conn *k, const char *application)
{
    const struct snib__postgres *p = k->store;
    const char *const key[] = {"host",
                               "port",
                               "dbname",
                               "user",
                               "password",
                               "sslmode",
                               "sslrootcert",
                               "gssencmode",
                               "options",
                               "application_name",
                               "keepalives_idle",
                               "keepalives_interval",
                               "keepalives_count",
                               NULL};
    const char *const value[] = {
        p->address.host,
        p->address.port,
        p->address.database,
        p->address.user,
        p->address.password,
        p->address.verify ? "verify-full" : "disable",
        p->address.verify ? snib__sql_authorities(p->address.ca) : NULL,
        "disable",
        "",
        application,
        "10",
        "5",
        "3",
        NULL};
    k->c = p->pq.PQconnectStartParams(key, value, 0);
    if (k->c) {
        k->is.up = true;
        p->pq.PQsetNoticeReceiver(k->c, connect_ignore, NULL);
        /* So the text of a refusal has its number, whatever its language. */
        (void)p->pq.PQsetErrorVerbosity(k->c, PQERRORS_VERBOSE);
    }
    return k->c != NULL;
}

/* FAILED and OK are libpq's; anything else: the time is over. */
static PostgresPollingStatusType connect_wait(struct snib__pg_conn *k,
                                              snib_instant until)
{
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    while (status == PGRES_POLLING_READING || status == PGRES_POLLING_WRITING) {
        if (k->store->pq.PQstatus(k->c) == CONNECTION_BAD) {
            return PGRES_POLLING_FAILED;
        }
        if (!snib__pg_wait(k, status == PGRES_POLLING_READING,
                           status == PGRES_POLLING_WRITING, until)) {
            return status;
        }
        status = k->store->pq.PQconnectPoll(k->c);
    }
    return status;
}

/* A server that was reached before is likely to come back: its name may vanish
 * while it restarts. */
static bool connect_was_reached(struct snib__postgres *p)
{
    pthread_mutex_lock(&p->listener.mu);
    bool reached = p->server.version != 0;
    pthread_mutex_unlock(&p->listener.mu);
    return reached;
}

static snib__sql_end connect_failed(struct snib__pg_conn *k,
                                    PostgresPollingStatusType status,
                                    struct snib_error *fault)
{
    struct snib__postgres *p = k->store;
    bool failed = status == PGRES_POLLING_FAILED || status == PGRES_POLLING_OK;
    snib_err err =
        failed ? snib__pg_fail_connect(p, p->pq.PQerrorMessage(k->c), fault)
               : snib__fail(fault, SNIB_ERR_UNREACHABLE,
                            "%s: no answer from the server", p->address.where);
    bool lacks = failed && err == SNIB_ERR_UNREACHABLE &&
                 snib__sql_lacks_descriptor(p->address.where,
                                            p->pq.PQerrorMessage(k->c), fault);
    snib__pg_quit(k);
    if (err != SNIB_ERR_UNREACHABLE || lacks) {
        return lacks ? SNIB__SQL_DOWN : SNIB__SQL_REFUSED;
    }
    /* The library's words for this are in any language. */
    if (!failed || p->address.socket ||
        !snib__sql_no_such_host(p->address.host)) {
        return SNIB__SQL_DOWN;
    }
    snib__fail(fault, err, "%s: there is no such host", p->address.where);
    return connect_was_reached(p) ? SNIB__SQL_DOWN : SNIB__SQL_REFUSED;
}

snib__sql_end snib__pg_connect(struct snib__pg_conn *k, const char *application,
                               snib_instant until, struct snib_error *fault)
{
    const struct snib__pq *pq = &k->store->pq;
    if (!connect_begin(k, application)) {
        snib__fail_plain(fault, SNIB_ERR_NOMEM);
        return SNIB__SQL_REFUSED;
    }
    PostgresPollingStatusType status = connect_wait(k, until);
    if (status == PGRES_POLLING_OK && pq->PQsetnonblocking(k->c, 1) == 0 &&
        pq->PQenterPipelineMode(k->c) == 1) {
        return SNIB__SQL_OK;
    }
    return connect_failed(k, status, fault);
}

/* -- who answers ----------------------------------------------------------- */

struct connect_seen {
    int64_t pid, standby, us, life;
    bool rows;
};

static void connect_see_settings(void *data, struct snib__sql_rows *rows)
{
    struct connect_seen *seen = data;
    seen->pid = snib__sql_get_int(rows, 0, 0);
    seen->standby = snib__sql_get_int(rows, 0, 1);
    seen->us = snib__sql_get_int(rows, 0, 2);
    seen->life = snib__sql_get_int(rows, 0, 3);
}

static void connect_see_number(void *data, struct snib__sql_rows *rows)
{
    struct connect_seen *seen = data;
    seen->rows = rows->count > 0;
    seen->pid = seen->rows ? snib__sql_get_int(rows, 0, 0) : 0;
}

static void connect_remember(struct snib__postgres *p, int version,
                             int64_t life)
{
    pthread_mutex_lock(&p->listener.mu);
    p->server.version = version;
    p->server.connected =
        p->server.sessions++ ? p->server.connected : snib__sql_now();
    snprintf(p->server.life, sizeof p->server.life, "%lld", (long long)life);
    pthread_mutex_unlock(&p->listener.mu);
}

static snib__sql_end connect_refuse(struct snib_error *fault, snib_err err,
                                    const struct snib__postgres *p,
                                    const char *words)
{
    snib__fail(fault, err, "%s: %s", p->address.where, words);
    return SNIB__SQL_REFUSED;
}

static snib__sql_end connect_judge(const struct snib__pg_conn *k,
                                   const struct connect_seen *seen,
                                   struct snib_error *fault)
{
    struct snib__postgres *p = k->store;
    if (seen->standby) {
        (void)connect_refuse(fault, SNIB_ERR_STORE, p,
                             "the server is a standby; connect to the primary");
        return SNIB__SQL_DOWN; /* it may become one */
    }
    if (seen->pid != p->pq.PQbackendPID(k->c)) {
        return connect_refuse(
            fault, SNIB_ERR_CONFIG, p,
            "a pooler (PgBouncer?) stands before the server, where a session "
            "is not one; connect to the server itself");
    }
    return SNIB__SQL_OK;
}

static snib__sql_end connect_look(struct snib__pg_conn *k,
                                  struct snib__sql_script *t,
                                  snib_instant until, struct snib_error *fault)
{
    struct snib__postgres *p = k->store;
    struct connect_seen seen = {0};
    int version = p->pq.PQserverVersion(k->c);
    if (p->advisory.on && version < SNIB__PG_OLDEST_ADVISORY) {
        return connect_refuse(
            fault, SNIB_ERR_CONFIG, p,
            "?dialect=advisory needs PostgreSQL 14, which ends "
            "sessions that stand still");
    }
    if (version < SNIB__PG_OLDEST) {
        return connect_refuse(fault, SNIB_ERR_CONFIG, p,
                              "the server is older than PostgreSQL 12");
    }
    snib__sql_script_clear(t);
    snib__sql_add(t, SNIB__PG_SETTINGS, connect_see_settings, &seen);
    snib__sql_int(t, p->durable);
    snib__sql_sync(t);
    snib__sql_end end = snib__pg_run(k, t, 1, until, fault);
    end = end ? end : connect_judge(k, &seen, fault);
    if (end) {
        return end;
    }
    snib__sql_heard_clock(&k->is, snib__sql_now(), seen.us);
    connect_remember(p, version, seen.life);
    k->counted = true;
    return SNIB__SQL_OK;
}

snib__sql_end snib__pg_connect_lock(struct snib__pg_conn *k,
                                    struct snib__sql_script *t,
                                    snib_instant until,
                                    struct snib_error *fault)
{
    struct connect_seen seen = {0};
    snib__sql_end end = snib__pg_connect(k, "snib: lock", until, fault);
    if (end) {
        return end;
    }
    snib__sql_script_clear(t);
    snib__sql_add(t, SNIB__PG_ADVISORY_SETTINGS, connect_see_settings, &seen);
    snib__sql_sync(t);
    end = snib__pg_run(k, t, 1, until, fault);
    return end ? end : connect_judge(k, &seen, fault);
}

/* -- the tables ------------------------------------------------------------ */

/* *ret: the layout's number; 0: there are no tables. */
static snib__sql_end connect_read_layout(struct snib__pg_conn *k,
                                         struct snib__sql_script *t,
                                         snib_instant until, int64_t *ret,
                                         struct snib_error *fault)
{
    struct connect_seen seen = {0};
    snib__sql_script_clear(t);
    snib__sql_add(t, SNIB__PG_LAYOUT, connect_see_number, &seen);
    snib__sql_sync(t);
    snib__sql_end end = snib__pg_run(k, t, 1, until, fault);
    *ret = seen.pid;
    bool none = !strcmp(t->state, "42P01") || !strcmp(t->state, "3F000");
    if (none && !k->c) { /* that was all that it said */
        *fault = k->is.why;
        return SNIB__SQL_DOWN;
    }
    return none ? SNIB__SQL_OK : end;
}

static snib__sql_end connect_make_tables(struct snib__pg_conn *k,
                                         struct snib__sql_script *t,
                                         snib_instant until,
                                         struct snib_error *fault)
{
    struct connect_seen seen = {0};
    snib__sql_script_clear(t);
    snib__sql_add(t, SNIB__PG_HAS_SCHEMA, connect_see_number, &seen);
    snib__sql_sync(t);
    snib__sql_end end = snib__pg_run(k, t, 1, until, fault);
    if (end) {
        return end;
    }
    snib__sql_script_clear(t);
    snib__sql_add(t, SNIB__SQL_DO_BEGIN, NULL, NULL);
    snib__sql_add_text(t,
                       "SELECT pg_advisory_xact_lock(hashtext('~'),1936615778"
                       ")");
    for (int i = seen.pid > 0; snib__pg_table(i); i++) {
        snib__sql_add_text(t, snib__pg_table(i));
    }
    snib__sql_add(t, SNIB__SQL_DO_COMMIT, NULL, NULL);
    snib__sql_sync(t);
    end = snib__pg_run(k, t, 1, until, fault);
    bool denied = !strcmp(t->state, "42501");
    if (t->state[0] && k->c) { /* the transaction that BEGIN has opened */
        struct snib_error none;
        snib__sql_script_clear(t);
        snib__sql_add(t, SNIB__SQL_DO_ROLLBACK, NULL, NULL);
        snib__sql_sync(t);
        (void)snib__pg_run(k, t, 1, until, &none);
    }
    if (denied) {
        return connect_refuse(
            fault, SNIB_ERR_CONFIG, k->store,
            "the tables are not there, and this user may not make them: give "
            "what \"snib doctor --schema\" prints to the database's owner");
    }
    return end;
}

static snib__sql_end connect_tables(struct snib__pg_conn *k,
                                    struct snib__sql_script *t,
                                    snib_instant until,
                                    struct snib_error *fault)
{
    int64_t layout;
    snib__sql_end end = connect_read_layout(k, t, until, &layout, fault);
    if (!end && !layout) {
        end = connect_make_tables(k, t, until, fault);
        end = end ? end : connect_read_layout(k, t, until, &layout, fault);
    }
    if (!end && layout != SNIB__PG_SCHEMA) {
        snib__fail(fault, SNIB_ERR_CONFIG,
                   "%s: the tables in schema %s have layout %lld, this snib "
                   "knows %d; use the newer snib everywhere, or another schema "
                   "(?schema=)",
                   k->store->address.where, k->store->schema, (long long)layout,
                   SNIB__PG_SCHEMA);
        return SNIB__SQL_REFUSED;
    }
    return end;
}

/* -- the table of a dialect ------------------------------------------------ */

struct connect_recipe {
    const struct snib__postgres *p;
    snib__sql_end end;
    struct snib_error *fault;
};

static void connect_see_recipe(void *data, struct snib__sql_rows *rows)
{
    struct connect_recipe *seen = data;
    seen->end = snib__sql_recipe_check(&seen->p->recipe, rows, seen->p->schema,
                                       seen->fault);
}

static snib__sql_end connect_recipe(struct snib__pg_conn *k,
                                    struct snib__sql_script *t,
                                    snib_instant until,
                                    struct snib_error *fault)
{
    struct connect_recipe seen = {.p = k->store, .fault = fault};
    snib__sql_script_clear(t);
    snib__sql_add(t, SNIB__SQL_DO_RECIPE_TABLE, connect_see_recipe, &seen);
    snib__sql_sync(t);
    snib__sql_end end = snib__pg_run(k, t, 1, until, fault);
    return end ? end : seen.end;
}

/* -- what the tables' functions need of a connection ----------------------- */

static struct snib__pg_conn *connect_of(struct snib__sql_session *s)
{
    return &snib__pg_of(&s->sql)->conn;
}

static snib__sql_end connect_all(struct snib__sql_session *s)
{
    struct snib__pg_conn *k = connect_of(s);
    struct snib__sql_script t;
    snib__sql_end end =
        snib__pg_connect(k, "snib", s->sql.until, &s->sql.fault);
    if (end) {
        return end;
    }
    snib__sql_script_init(&t);
    end = connect_look(k, &t, s->sql.until, &s->sql.fault);
    if (!end && !k->store->advisory.on) {
        end = (k->store->recipe.on ? connect_recipe : connect_tables)(
            k, &t, s->sql.until, &s->sql.fault);
    }
    snib__sql_script_free(&t);
    if (end && k->c) {
        snib__pg_quit(k);
    }
    return end;
}

static bool connect_is_cut(struct snib__sql_session *s)
{
    struct snib__pg_conn *k = connect_of(s);
    const struct snib__pq *pq = &k->store->pq;
    struct pollfd fd = {.fd = pq->PQsocket(k->c), .events = POLLIN};
    if (poll(&fd, 1, 0) <= 0) {
        return false;
    }
    return !pq->PQconsumeInput(k->c) || pq->PQstatus(k->c) != CONNECTION_OK;
}

static void connect_quit(struct snib__sql_session *s)
{
    snib__pg_quit(connect_of(s));
}

static snib__sql_end connect_run(struct snib__sql_session *s, uint32_t certain)
{
    return snib__pg_run(connect_of(s), &s->script, certain, s->sql.until,
                        &s->sql.fault);
}

const struct snib__sql_link snib__pg_link = {
    .connect = connect_all,
    .is_cut = connect_is_cut,
    .quit = connect_quit,
    .run = connect_run,
    .notify = snib__pg_notify,
    .listener_of = snib__pg_listener_of,
};
