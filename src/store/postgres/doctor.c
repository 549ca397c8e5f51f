/* store/postgres/doctor.c — is this server set up so that our promises hold? */
#include <stdio.h>

#include "base/error.h"
#include "snib/inspect.h"
#include "store/postgres/postgres_i.h"

enum { DOCTOR_LISTENERS = 64 };

static void doctor_see_server(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char version[64], database[64], user[64], started[40], text[300];
    snib__sql_get_text(rows, 0, 0, version, sizeof version);
    snib__sql_get_text(rows, 0, 1, database, sizeof database);
    snib__sql_get_text(rows, 0, 2, user, sizeof user);
    snib__sql_get_text(rows, 0, 5, started, sizeof started);
    snprintf(text, sizeof text, "PostgreSQL %s, since %s", version, started);
    snib__sql_doctor_tell(d, SNIB_LEVEL_OK, "server", text, "");
    snprintf(text, sizeof text, "%s, as user %s, %lld sessions", database, user,
             (long long)snib__sql_get_int(rows, 0, 6));
    snib__sql_doctor_tell(d, SNIB_LEVEL_OK, "database", text, "");
    snib__sql_doctor_clock(d, snib__sql_get_int(rows, 0, 4));
    snib__sql_doctor_latency(d);
}

static void doctor_see_settings(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char commit[24], fsync[8], pages[8], isolation[24], names[64], vacuum[8];
    char text[200];
    snib__sql_get_text(rows, 0, 0, commit, sizeof commit);
    snib__sql_get_text(rows, 0, 1, fsync, sizeof fsync);
    snib__sql_get_text(rows, 0, 2, pages, sizeof pages);
    snib__sql_get_text(rows, 0, 3, isolation, sizeof isolation);
    snib__sql_get_text(rows, 0, 4, names, sizeof names);
    snib__sql_get_text(rows, 0, 6, vacuum, sizeof vacuum);
    snprintf(text, sizeof text, "grants: synchronous_commit=%s", commit);
    snib__sql_doctor_judge(
        d, strcmp(commit, "off") != 0, SNIB_LEVEL_WARN, "durable", text,
        "without ?durable=no a crash of the server forgets no grant");
    snprintf(text, sizeof text, "fsync=%s, full_page_writes=%s", fsync, pages);
    snib__sql_doctor_judge(
        d, !strcmp(fsync, "on") && !strcmp(pages, "on"), SNIB_LEVEL_FAIL,
        "disk-writes", text,
        "set both on: without them a crash of the machine can lose "
        "grants, or all");
    snib__sql_doctor_judge(
        d, !strcmp(isolation, "read committed"), SNIB_LEVEL_FAIL, "isolation",
        isolation, "a trigger or hook of the server changes it; remove that");
    snprintf(text, sizeof text, "autovacuum=%s", vacuum);
    snib__sql_doctor_judge(d, !strcmp(vacuum, "on"), SNIB_LEVEL_WARN, "vacuum",
                           text, "set it on: the tables grow with each change");
}

static void doctor_see_replicas(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    long long all = snib__sql_get_int(rows, 0, 0);
    long long together = snib__sql_get_int(rows, 0, 1);
    long long lag = snib__sql_get_int(rows, 0, 2);
    char text[200], behind[60] = "";
    if (lag >= 0) {
        snprintf(behind, sizeof behind, ", %lld ms behind at most", lag);
    }
    snprintf(text, sizeof text,
             all ? "a primary with %lld standbys, %lld of them synchronous%s"
                 : "a primary without standbys",
             all, together, behind);
    snib__sql_doctor_judge(
        d, !all || together, SNIB_LEVEL_WARN, "replicas", text,
        "a failover can lose the newest grants: set "
        "synchronous_standby_names, or pass the fencing token to what "
        "the lock protects (docs/FENCING.md)");
}

static void doctor_see_missing(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char text[400] = "", one[80];
    for (int i = 0; i < rows->count; i++) {
        size_t used = strlen(text);
        snib__sql_get_text(rows, i, 0, one, sizeof one);
        snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", one);
    }
    if (rows->count) {
        snib__sql_doctor_lacks(d, text);
    }
}

static void doctor_see_rights(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char text[300] = "all that are needed", one[40], remedy[80];
    size_t used = 0;
    snprintf(remedy, sizeof remedy, "give the user the rights listed in %s",
             d->page);
    for (int i = 0; i < rows->count && used < sizeof text - 64; i++) {
        snib__sql_get_text(rows, i, 0, one, sizeof one);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                 i ? ", " : "missing: ", one);
    }
    if (rows->count || !d->lacks) { /* a table that is missing shows no right */
        snib__sql_doctor_judge(d, rows->count == 0, SNIB_LEVEL_FAIL,
                               "permissions", text, remedy);
    }
}

static void doctor_see_tables(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char kind[8], text[200];
    snib__sql_get_text(rows, 0, 3, kind, sizeof kind);
    snprintf(text, sizeof text, "schema %s has layout %d, %lld names, %lld KiB",
             snib__pg_of(&d->session->sql)->store->schema, SNIB__PG_SCHEMA,
             (long long)snib__sql_get_int(rows, 0, 0),
             (long long)(snib__sql_get_int(rows, 0, 1) +
                         snib__sql_get_int(rows, 0, 2)) /
                 1024);
    snib__sql_doctor_tell(d, SNIB_LEVEL_OK, "layout", text, "");
    if (strcmp(kind, "p") != 0) {
        snib__sql_doctor_tell(d, SNIB_LEVEL_FAIL, "tables",
                              "the table lock is UNLOGGED: a crash empties it",
                              "ALTER TABLE … SET LOGGED, for all four tables");
    }
}

static void doctor_see_listeners(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char text[100];
    long long n = snib__sql_get_int(rows, 0, 0);
    snprintf(text, sizeof text, "%lld clients listen in this database", n);
    snib__sql_doctor_judge(
        d, n <= DOCTOR_LISTENERS, SNIB_LEVEL_WARN, "wake-up", text,
        "each notification wakes all of them: use fewer clients, or "
        "several databases");
}

static const struct snib__sql_question doctor_questions[] = {
    {SNIB__PG_DOCTOR_SERVER, doctor_see_server, "server"},
    {SNIB__PG_DOCTOR_SETTINGS, doctor_see_settings, "settings"},
    {SNIB__PG_DOCTOR_REPLICAS, doctor_see_replicas, "replicas"},
    {SNIB__PG_DOCTOR_MISSING, doctor_see_missing, "tables"},
    {SNIB__PG_DOCTOR_RIGHTS, doctor_see_rights, "permissions"},
    {SNIB__PG_DOCTOR_TABLES, doctor_see_tables, "layout"},
    {SNIB__PG_DOCTOR_LISTENERS, doctor_see_listeners, "wake-up"},
};

/* Of a dialect. */
static const struct snib__sql_question doctor_recipe[] = {
    {SNIB__PG_DOCTOR_SERVER, doctor_see_server, "server"},
    {SNIB__PG_DOCTOR_SETTINGS, doctor_see_settings, "settings"},
    {SNIB__PG_DOCTOR_REPLICAS, doctor_see_replicas, "replicas"},
    {SNIB__PG_RECIPE_RIGHTS, doctor_see_rights, "permissions"},
    {SNIB__SQL_DO_RECIPE_DOCTOR, snib__sql_recipe_see_doctor, "dialect"},
};

static void doctor_see_advisory(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char text[160];
    long long used = snib__sql_get_int(rows, 0, 2);
    long long room = snib__sql_get_int(rows, 0, 3);
    snprintf(text, sizeof text,
             "advisory locks: %lld held, %lld waited for; they end with their "
             "sessions",
             (long long)snib__sql_get_int(rows, 0, 0),
             (long long)snib__sql_get_int(rows, 0, 1));
    snib__sql_doctor_tell(d, SNIB_LEVEL_OK, "dialect", text, "");
    snprintf(text, sizeof text, "%lld of %lld connections are in use", used,
             room);
    snib__sql_doctor_judge(d, used * 4 < room * 3, SNIB_LEVEL_WARN,
                           "connections", text,
                           "each lock that is held or waited for needs one: "
                           "raise max_connections, or use fewer");
}

static const struct snib__sql_question doctor_advisory[] = {
    {SNIB__PG_DOCTOR_SERVER, doctor_see_server, "server"},
    {SNIB__PG_ADVISORY_DOCTOR, doctor_see_advisory, "dialect"},
};

snib__sql_end snib__pg_doctor(struct snib__sql *q, struct snib__request *r)
{
    struct snib__pg_session *s = snib__pg_of(q);
    struct snib__sql_doctor d = {.out = r->said.result,
                                 .session = &s->tables,
                                 .address = &s->store->address,
                                 .page = snib__pg_page(s->store),
                                 .recipe = &s->store->recipe,
                                 .wall_offset_ns = s->store->wall_offset_ns};
    if (s->store->advisory.on) {
        return snib__sql_doctor_ask(&d, doctor_advisory,
                                    sizeof doctor_advisory /
                                        sizeof doctor_advisory[0]);
    }
    if (s->store->recipe.on) {
        return snib__sql_doctor_ask(
            &d, doctor_recipe, sizeof doctor_recipe / sizeof doctor_recipe[0]);
    }
    return snib__sql_doctor_ask(&d, doctor_questions,
                                sizeof doctor_questions /
                                    sizeof doctor_questions[0]);
}
