/* tests/live/bare_postgres.c — a session of libpq: a statement a line on stdin, the
 * first value of its answer a line on stdout (test_advisory.py). */
#include <stdio.h>
#include <stdlib.h>

#include <libpq-fe.h>

int main(int argc, char **argv)
{
    char where[100], line[2000];
    if (argc != 2) {
        fputs("usage: bare_postgres PORT\n", stderr);
        return 64;
    }
    snprintf(where, sizeof where,
             "host=127.0.0.1 port=%d user=snib dbname=snib", atoi(argv[1]));
    PGconn *c = PQconnectdb(where);
    if (PQstatus(c) != CONNECTION_OK) {
        fputs(PQerrorMessage(c), stderr);
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        PGresult *r = PQexec(c, line);
        if (PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) != 1) {
            fputs(PQerrorMessage(c), stderr);
            return 1;
        }
        puts(PQgetvalue(r, 0, 0));
        fflush(stdout);
        PQclear(r);
    }
    PQfinish(c);
    return 0;
}
