/* tests/live/bare_mysql.c — a session of libmariadb: a statement a line on stdin, the
 * first value of its answer a line on stdout (test_getlock.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mysql.h>

int main(int argc, char **argv)
{
    char line[2000];
    MYSQL *c = mysql_init(NULL);
    if (argc != 2) {
        fputs("usage: bare_mysql PORT\n", stderr);
        return 64;
    }
    if (!mysql_real_connect(c, "127.0.0.1", "snib", "", "snib",
                            (unsigned)atoi(argv[1]), NULL, 0)) {
        fprintf(stderr, "%s\n", mysql_error(c));
        return 1;
    }
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, ";\n")] = 0;
        MYSQL_RES *r = mysql_query(c, line) ? NULL : mysql_store_result(c);
        MYSQL_ROW row = r ? mysql_fetch_row(r) : NULL;
        if (!row) {
            fprintf(stderr, "%s\n", mysql_error(c));
            return 1;
        }
        puts(row[0] ? row[0] : "NULL");
        fflush(stdout);
        mysql_free_result(r);
    }
    mysql_close(c);
    return 0;
}
