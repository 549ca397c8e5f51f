/* tests/live/version_postgres.c — version_program.h on PostgreSQL. */
#include "snib/steps/libpq.h"

#include "version_program.h"

static void must(PGconn *c, const char *text)
{
    PGresult *r = PQexec(c, text);
    if (PQresultStatus(r) != PGRES_COMMAND_OK) {
        fprintf(stderr, "%s: %s", text, PQerrorMessage(c));
        exit(1);
    }
    PQclear(r);
}

static PGconn *connect_to(void)
{
    char info[200];
    snprintf(info, sizeof info,
             "host=127.0.0.1 port=%s user=snib dbname=snib connect_timeout=5 "
             "sslmode=disable gssencmode=disable",
             program.port);
    PGconn *c = PQconnectdb(info);
    if (PQstatus(c) == CONNECTION_OK && program.init) {
        must(c, program.init);
    }
    return c;
}

static PGconn *reconnect(void *data, PGconn *c)
{
    (void)data;
    program_wait_for_gate();
    PGconn *made = connect_to();
    if (PQstatus(made) != CONNECTION_OK) {
        PQfinish(made);
        return NULL;
    }
    PQfinish(c);
    return made;
}

static int read_row(void *data, PGconn *c, struct snib_version_attempt *a)
{
    char text[100];
    (void)data;
    snprintf(text, sizeof text, "SELECT version, n FROM item WHERE id = %ld",
             program.id);
    PGresult *r = PQexec(c, text);
    int answer = snib_pq_row(a, c, r);
    if (answer == 1) {
        program_read(PQgetvalue(r, 0, 0), PQgetvalue(r, 0, 1));
    }
    PQclear(r);
    return answer;
}

static int write_row(void *data, PGconn *c, struct snib_version_attempt *a)
{
    char text[200], id[60] = "";
    (void)data;
    if (program.column) {
        snprintf(id, sizeof id, ", attempt = '%s'", a->id);
    }
    snprintf(text, sizeof text,
             "UPDATE item SET n = %lld, version = version + 1%s WHERE id = %ld "
             "AND version = %lld",
             program.n + 1, id, program.id, program.version);
    int answer = snib_pq_changed(a, c, PQexec(c, text));
    if (answer == 1 && program.also) {
        program_nap(program.inner);
        snprintf(text, sizeof text,
                 "UPDATE item SET n = n + 1, version = version + 1 "
                 "WHERE id = %ld",
                 program.also);
        answer = snib_pq_changed(a, c, PQexec(c, text));
    }
    if (program.ignore) {
        PQclear(PQexec(c, "SELECT 1/0"));
    }
    return answer;
}

static int row_stands(void *data, PGconn *c, struct snib_version_attempt *a)
{
    char text[100];
    (void)data;
    snprintf(text, sizeof text,
             "SELECT version, attempt FROM item WHERE id = %ld FOR UPDATE",
             program.id);
    PGresult *r = PQexec(c, text);
    int answer = snib_pq_row(a, c, r);
    if (answer == 1) {
        answer =
            snib_step_stands(a, program.version, atoll(PQgetvalue(r, 0, 0)),
                             program.column ? PQgetvalue(r, 0, 1) : NULL);
    }
    PQclear(r);
    return answer;
}

int main(int argc, char **argv)
{
    program_begin(argc, argv);
    struct snib_pq_update u = {.connection = connect_to(),
                               .read = read_row,
                               .write = write_row,
                               .stands = program.stands ? row_stands : NULL,
                               .reconnect =
                                   program.reconnect ? reconnect : NULL};
    int status = program_run(snib_pq_step, &u);
    PQfinish(u.connection);
    return status;
}
