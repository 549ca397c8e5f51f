/* bench/service.c — a server for one row. bench/servers.py starts it, as the
 * tests do, and ends it with the row: no other row is to share the cores with
 * it. */
#include <stdio.h>
#include <string.h>

#include "bench.h"

enum { START_S = 1800 }; /* another client may have to be fetched and built */

bool service_start(struct service *s, const char *row)
{
    static const char missing[] = "missing ";
    char line[sizeof s->url + sizeof s->client + 20];
    int pid = 0;
    if (!settings.servers) {
        report_skip(row, "no servers.py");
        return false;
    }
    memset(s, 0, sizeof *s);
    s->keeper = child_start(settings.servers, row, NULL, NULL);
    child_line(&s->keeper, line, sizeof line, START_S);
    if (strncmp(line, missing, strlen(missing)) == 0) {
        child_end(&s->keeper);
        report_skip(row, strdup(line + strlen(missing)));
        return false;
    }
    if (sscanf(line, "%99s %d %299[^\n]", s->url, &pid, s->client) < 2) {
        die("%s: %s", settings.servers, line);
    }
    settings.server_pid = pid;
    return true;
}

const char *service_address(const struct service *s)
{
    const char *at = strstr(s->url, "://");
    return at ? at + 3 : s->url;
}

void service_stop(struct service *s)
{
    settings.server_pid = 0;
    child_end(&s->keeper);
}
