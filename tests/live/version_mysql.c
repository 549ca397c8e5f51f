/* tests/live/version_mysql.c — version_program.h on MariaDB. */
#include "snib/steps/libmariadb.h"

#include "version_program.h"

static MYSQL *connect_to(void)
{
    unsigned seconds = 20;
    MYSQL *c = mysql_init(NULL);
    mysql_options(c, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    mysql_options(c, MYSQL_OPT_READ_TIMEOUT, &seconds);
    if (!mysql_real_connect(c, "127.0.0.1", "snib", NULL, "snib",
                            (unsigned)atoi(program.port), NULL, 0)) {
        mysql_close(c);
        return NULL;
    }
    if (program.init && mysql_query(c, program.init)) {
        fprintf(stderr, "%s: %s\n", program.init, mysql_error(c));
        exit(1);
    }
    return c;
}

static MYSQL *reconnect(void *data, MYSQL *c)
{
    (void)data;
    program_wait_for_gate();
    MYSQL *made = connect_to();
    if (made) {
        mysql_close(c);
    }
    return made;
}

static int read_row(void *data, MYSQL *c, struct snib_version_attempt *a)
{
    char text[100];
    (void)data;
    snprintf(text, sizeof text, "SELECT version, n FROM item WHERE id = %ld",
             program.id);
    if (mysql_query(c, text)) {
        return snib_mariadb_error(a, mysql_errno(c), mysql_error(c));
    }
    MYSQL_RES *r = mysql_store_result(c);
    int answer = snib_mariadb_row(a, c, r);
    if (answer == 1) {
        MYSQL_ROW row = mysql_fetch_row(r);
        program_read(row[0], row[1]);
    }
    mysql_free_result(r);
    return answer;
}

/* By a prepared statement the one, as text the other. */
static int write_other(MYSQL *c, struct snib_version_attempt *a)
{
    char text[200];
    MYSQL_STMT *s = mysql_stmt_init(c);
    program_nap(program.inner);
    snprintf(text, sizeof text,
             "UPDATE item SET n = n + 1, version = version + 1 WHERE id = %ld",
             program.also);
    int failed =
        mysql_stmt_prepare(s, text, strlen(text)) || mysql_stmt_execute(s);
    int answer = snib_mariadb_stmt_changed(a, s, failed);
    mysql_stmt_close(s);
    return answer;
}

static int write_row(void *data, MYSQL *c, struct snib_version_attempt *a)
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
    int answer = snib_mariadb_changed(a, c, mysql_query(c, text));
    return answer == 1 && program.also ? write_other(c, a) : answer;
}

static int row_stands(void *data, MYSQL *c, struct snib_version_attempt *a)
{
    char text[100];
    (void)data;
    snprintf(text, sizeof text,
             "SELECT version, attempt FROM item WHERE id = %ld FOR UPDATE",
             program.id);
    if (mysql_query(c, text)) {
        return snib_mariadb_error(a, mysql_errno(c), mysql_error(c));
    }
    MYSQL_RES *r = mysql_store_result(c);
    int answer = snib_mariadb_row(a, c, r);
    if (answer == 1) {
        MYSQL_ROW row = mysql_fetch_row(r);
        answer =
            snib_step_stands(a, program.version, atoll(row[0]),
                             program.column ? (row[1] ? row[1] : "") : NULL);
    }
    mysql_free_result(r);
    return answer;
}

int main(int argc, char **argv)
{
    program_begin(argc, argv);
    struct snib_mariadb_update u = {
        .connection = connect_to(),
        .read = read_row,
        .write = write_row,
        .stands = program.stands ? row_stands : NULL,
        .reconnect = program.reconnect ? reconnect : NULL};
    if (!u.connection) {
        fprintf(stderr, "no connection\n");
        return 1;
    }
    int status = program_run(snib_mariadb_step, &u);
    mysql_close(u.connection);
    return status;
}
