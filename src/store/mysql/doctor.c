/* store/mysql/doctor.c — is this server set up so that our promises hold? */
#include <stdio.h>

#include "base/error.h"
#include "snib/inspect.h"
#include "store/mysql/mysql_i.h"

enum { DOCTOR_PACKET = 1 << 20, DOCTOR_NO_TABLE = 1146 };

static void doctor_see_server(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char version[64], database[64], user[96], text[300];
    snib__sql_get_text(rows, 0, 0, version, sizeof version);
    snib__sql_get_text(rows, 0, 1, database, sizeof database);
    snib__sql_get_text(rows, 0, 2, user, sizeof user);
    snprintf(text, sizeof text, "%s%s",
             strstr(version, "MariaDB") ? "" : "MySQL ", version);
    snib__sql_doctor_tell(d, SNIB_LEVEL_OK, "server", text, "");
    snprintf(text, sizeof text, "%s, as user %s, %lld sessions to be seen",
             database, user, (long long)snib__sql_get_int(rows, 0, 5));
    snib__sql_doctor_tell(d, SNIB_LEVEL_OK, "database", text, "");
    snib__sql_doctor_clock(d, snib__sql_get_int(rows, 0, 4));
    snib__sql_doctor_latency(d);
}

static void doctor_see_durable(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char text[200], logged[60] = "no binary log";
    bool logs = snib__sql_get_int(rows, 0, 1) != 0;
    long long flush = snib__sql_get_int(rows, 0, 0);
    long long sync = snib__sql_get_int(rows, 0, 2);
    if (logs) {
        snprintf(logged, sizeof logged, "sync_binlog=%lld", sync);
    }
    snprintf(text, sizeof text, "innodb_flush_log_at_trx_commit=%lld, %s",
             flush, logged);
    snib__sql_doctor_judge(
        d, flush == 1 && (!logs || sync == 1), SNIB_LEVEL_WARN, "durable", text,
        "set both to 1: otherwise a crash of the machine (with 0, of the "
        "server) can forget the newest grants");
    snprintf(text, sizeof text, "innodb_doublewrite=%lld",
             (long long)snib__sql_get_int(rows, 0, 3));
    snib__sql_doctor_judge(d, snib__sql_get_int(rows, 0, 3) != 0,
                           SNIB_LEVEL_WARN, "disk-writes", text,
                           "set it on, unless the file system never tears a "
                           "page: a crash of the machine can lose all");
}

static void doctor_see_isolation(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char isolation[40];
    snib__sql_get_text(rows, 0, 0, isolation, sizeof isolation);
    snib__sql_doctor_judge(d, !strcmp(isolation, "READ-COMMITTED"),
                           SNIB_LEVEL_FAIL, "isolation", isolation,
                           "something between here and the server changes it; "
                           "remove that");
}

static void doctor_see_packets(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char text[80];
    long long bytes = snib__sql_get_int(rows, 0, 0);
    snprintf(text, sizeof text, "max_allowed_packet=%lld", bytes);
    snib__sql_doctor_judge(d, bytes >= DOCTOR_PACKET, SNIB_LEVEL_WARN,
                           "packets", text,
                           "set it to 1M or more: what is done for several "
                           "locks at once, and values, need that");
}

static void doctor_see_replicas(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    long long all = snib__sql_get_int(rows, 0, 0);
    long long sure = snib__sql_get_int(rows, 0, 1);
    char text[200];
    snprintf(text, sizeof text,
             all ? "a primary with %lld replicas, %lld of them semi-synchronous"
                 : "a primary without replicas",
             all, sure);
    snib__sql_doctor_judge(
        d, !all || sure, SNIB_LEVEL_WARN, "replicas", text,
        "a failover can lose the newest grants: use semi-synchronous "
        "replication (AFTER_SYNC), or pass the fencing token to what the lock "
        "protects (docs/FENCING.md)");
    if (snib__sql_get_int(rows, 0, 2)) {
        snib__sql_doctor_tell(
            d, SNIB_LEVEL_WARN, "cluster", "a node of a Galera cluster",
            "let all clients use one node: two of them on two nodes may hold "
            "the same lock, and waiters only poll (docs/MYSQL.md)");
    }
}

static void doctor_see_tables(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char table[80], engine[40], text[160];
    for (int i = 0; i < rows->count; i++) {
        snib__sql_get_text(rows, i, 0, table, sizeof table);
        snib__sql_get_text(rows, i, 1, engine, sizeof engine);
        snprintf(text, sizeof text, "the table %s has the engine %s", table,
                 engine);
        snib__sql_doctor_tell(d, SNIB_LEVEL_FAIL, "tables", text,
                              "ALTER TABLE … ENGINE=InnoDB: another one keeps "
                              "no promise");
    }
}

static void doctor_see_size(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char text[160];
    snprintf(text, sizeof text, "tables %s_… have layout %d, %lld names",
             snib__my_of(&d->session->sql)->store->prefix, SNIB__MY_SCHEMA,
             (long long)snib__sql_get_int(rows, 0, 0));
    snib__sql_doctor_tell(d, SNIB_LEVEL_OK, "layout", text, "");
}

static void doctor_see_listeners(void *data, struct snib__sql_rows *rows)
{
    struct snib__sql_doctor *d = data;
    char text[100];
    snprintf(text, sizeof text, "%lld clients of this user listen",
             (long long)snib__sql_get_int(rows, 0, 0));
    snib__sql_doctor_tell(d, SNIB_LEVEL_OK, "wake-up", text, "");
}

static const struct snib__sql_question doctor_questions[] = {
    {SNIB__MY_DOCTOR_SERVER, doctor_see_server, "server"},
    {SNIB__MY_DOCTOR_DURABLE, doctor_see_durable, "durable"},
    {SNIB__MY_DOCTOR_ISOLATION, doctor_see_isolation, "isolation"},
    {SNIB__MY_DOCTOR_PACKETS, doctor_see_packets, "packets"},
    {SNIB__MY_DOCTOR_REPLICAS, doctor_see_replicas, "replicas"},
    {SNIB__MY_DOCTOR_TABLES, doctor_see_tables, "tables"},
    {SNIB__MY_DOCTOR_SIZE, doctor_see_size, "layout"},
    {SNIB__MY_DOCTOR_LISTENERS, doctor_see_listeners, "wake-up"},
};

/* Of a dialect. */
static const struct snib__sql_question doctor_recipe[] = {
    {SNIB__MY_DOCTOR_SERVER, doctor_see_server, "server"},
    {SNIB__MY_DOCTOR_DURABLE, doctor_see_durable, "durable"},
    {SNIB__MY_DOCTOR_ISOLATION, doctor_see_isolation, "isolation"},
    {SNIB__MY_DOCTOR_REPLICAS, doctor_see_replicas, "replicas"},
    {SNIB__SQL_DO_RECIPE_DOCTOR, snib__sql_recipe_see_doctor, "dialect"},
};

static void doctor_see_getlock(void *data, struct snib__sql_rows *rows)
{
    char text[200];
    snprintf(
        text, sizeof text,
        "named locks (GET_LOCK); they end with their sessions. This user "
        "sees %lld connections, of %lld at most: each lock that is held or "
        "waited for needs one",
        (long long)snib__sql_get_int(rows, 0, 0),
        (long long)snib__sql_get_int(rows, 0, 1));
    snib__sql_doctor_tell(data, SNIB_LEVEL_OK, "dialect", text, "");
}

/* The nodes of a cluster know nothing of each other's named locks. */
static void doctor_see_getlock_nodes(void *data, struct snib__sql_rows *rows)
{
    if (snib__sql_get_int(rows, 0, 2)) {
        snib__sql_doctor_tell(
            data, SNIB_LEVEL_WARN, "cluster", "a node of a Galera cluster",
            "let all clients use one node: a named lock is that node's alone, "
            "so two of them on two nodes hold the same lock "
            "(docs/GET_LOCK.md)");
    }
}

static const struct snib__sql_question doctor_getlock[] = {
    {SNIB__MY_DOCTOR_SERVER, doctor_see_server, "server"},
    {SNIB__MY_DOCTOR_REPLICAS, doctor_see_getlock_nodes, "cluster"},
    {SNIB__MY_GETLOCK_DOCTOR, doctor_see_getlock, "dialect"},
};

/* Add a name to those in a list; twice in a row is once. */
static void doctor_note_table(const char *right, const char *prefix,
                              char *ret_list, size_t size)
{
    char table[80];
    struct snib__buf name;
    snib__buf_init(&name, sizeof table);
    snib__my_expand(prefix, right, NULL, NULL, &name);
    const char *at = snib__buf_text(&name),
               *on = at ? strstr(at, " on ") : NULL;
    snprintf(table, sizeof table, "%s", on ? on + 4 : "");
    snib__buf_free(&name);
    size_t used = strlen(ret_list), n = strlen(table);
    bool last = used >= n && !strcmp(ret_list + used - n, table);
    if (!last) {
        snprintf(ret_list + used, size - used, "%s%s", used ? ", " : "", table);
    }
}

/* Each right by a statement that needs it and does nothing: the lists of rights
 * that the server has are of users, roles and wildcards. A table that is not
 * there says so. */
static void doctor_rights(struct snib__sql_doctor *d)
{
    struct snib__sql_session *s = d->session;
    const struct snib__mysql *p = snib__my_of(&s->sql)->store;
    const char *right, *text;
    char tables[400] = "";
    struct snib__buf missing;
    snib__buf_init(&missing, 2000);
    for (int i = 0;
         (text = snib__my_right(&p->recipe, i, &right)) && s->conn->up; i++) {
        snib__sql_script_clear(&s->script);
        snib__sql_add_text(&s->script, text);
        snib__sql_sync(&s->script);
        bool refused = s->link->run(s, 1) == SNIB__SQL_REFUSED;
        if (refused && s->script.code == DOCTOR_NO_TABLE) {
            doctor_note_table(right, p->prefix, tables, sizeof tables);
        } else if (refused && s->sql.fault.code == SNIB_ERR_DENIED) {
            snib__buf_puts(&missing,
                           snib__buf_size(&missing) ? ", " : "missing: ");
            snib__my_expand(p->prefix, right, NULL, NULL, &missing);
        }
    }
    char remedy[80];
    snprintf(remedy, sizeof remedy, "give the user the rights listed in %s",
             d->page);
    bool all = snib__buf_size(&missing) == 0;
    const char *words = snib__buf_text(&missing);
    if (*tables) {
        snib__sql_doctor_lacks(d, tables);
    }
    if (!all || !d->lacks) { /* a table that is missing shows no right */
        snib__sql_doctor_judge(d, all, SNIB_LEVEL_FAIL, "permissions",
                               all     ? "all that are needed"
                               : words ? words
                                       : "some are missing",
                               remedy);
    }
    snib__buf_free(&missing);
}

snib__sql_end snib__my_doctor(struct snib__sql *q, struct snib__request *r)
{
    struct snib__my_session *s = snib__my_of(q);
    struct snib__sql_doctor d = {.out = r->said.result,
                                 .session = &s->tables,
                                 .address = &s->store->address,
                                 .page = snib__my_page(s->store),
                                 .recipe = &s->store->recipe,
                                 .wall_offset_ns = s->store->wall_offset_ns};
    if (s->store->getlock.on) {
        return snib__sql_doctor_ask(&d, doctor_getlock,
                                    sizeof doctor_getlock /
                                        sizeof doctor_getlock[0]);
    }
    bool recipe = s->store->recipe.on;
    size_t count = recipe
                       ? sizeof doctor_recipe / sizeof doctor_recipe[0]
                       : sizeof doctor_questions / sizeof doctor_questions[0];
    snib__sql_end end = snib__sql_doctor_ask(
        &d, recipe ? doctor_recipe : doctor_questions, count);
    if (!end) {
        doctor_rights(&d);
    }
    return end;
}
