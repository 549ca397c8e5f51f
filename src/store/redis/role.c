/* store/redis/role.c — is the server that was reached one to be asked for locks?
 *
 * Its answer to HELLO says so. A replica is asked by ROLE which its primary is,
 * so that people can be told. A node of a cluster is judged when it has told the
 * map (node.c). */
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_i.h"

bool snib__role_is_primary(struct snib__redis *s, snib_instant now, int i,
                           const struct snib__resp_cell *c)
{
    struct session *l = &s->session[i];
    const struct snib__resp_cell *mode = snib__state_field(c, "mode");
    const struct snib__resp_cell *role = snib__state_field(c, "role");
    snib__state_hello(s, i, c);
    if (snib__resp_is(mode, "cluster") && !s->slots) {
        snib__session_cut(
            s, now, i, true, SNIB_ERR_CONFIG,
            "this server is a node of a Redis Cluster: write "
            "redis+cluster://HOST,HOST,HOST for it (rediss+cluster: with TLS)",
            true);
    } else if (snib__resp_is(mode, "standalone") && s->slots) {
        snib__session_cut(s, now, i, true, SNIB_ERR_CONFIG,
                          "this server is no node of a Redis Cluster "
                          "(cluster-enabled no): write redis://HOST for it",
                          true);
    } else if (snib__resp_is(mode, "sentinel")) {
        snib__session_cut(s, now, i, true, SNIB_ERR_CONFIG,
                          "this is a Sentinel, which keeps no locks; write "
                          "redis+sentinel://HOST,HOST,HOST/SERVICE for it",
                          true);
    } else if (s->slots && i != SUBS) {
        return true; /* it is judged when it has told the map               */
    } else if (snib__resp_is(role, "replica") || snib__resp_is(role, "slave")) {
        struct snib__buf *out = &s->out->conn[i]->out;
        snib__resp_begin(out, 1);
        snib__resp_text(out, "ROLE");
        snib__session_push(
            s, i, &(struct flight){.job = JOB_ROLE, .sent = now, .last = true});
        l->state = SESSION_REPLICA;
    } else {
        return true;
    }
    return false;
}

void snib__role_told(struct snib__redis *s, snib_instant now, int i,
                     const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *host = snib__resp_at(c, 1);
    char text[sizeof s->session[0].text], of[120] = "";
    int64_t port;
    if (host && host->type == SNIB__RESP_STRING &&
        snib__resp_number(snib__resp_at(c, 2), &port)) {
        char clean[80];
        snib__redis_error_text(clean, sizeof clean, host->text, host->size);
        snprintf(of, sizeof of,
                 strchr(clean, ':') ? " of [%s]:%lld" : " of %s:%lld", clean,
                 (long long)port);
    }
    snprintf(text, sizeof text,
             s->topology ? "%.*s is a replica%s, though it was named as the "
                           "primary: the servers are being asked again"
                         : "%.*s is a replica%s; locks live on the primary: "
                           "give its URL, or promote this one",
             ADDRESS_SHOWN, s->out->conn[i]->address, of);
    snib__state_demoted(s, i);
    snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE, text, false);
}
