/* store/etcd/history.c — a cluster that has forgotten.
 *
 * The revision of a cluster rises with each change, and never falls. After
 * `etcdctl snapshot restore` the same hosts may answer under the same name, with
 * the keys of then: grants that stood are not there, and a lock that was released
 * may be held. Who sees a revision below one that was seen before has all that is
 * held asked about. Who sees none, since others have written more in between than
 * was lost, hears of it by the next renewal of each grant. Tokens rise through it
 * by the clocks of the clients (token.c). */
#include <stdio.h>
#include <string.h>

#include "store/etcd/etcd_i.h"

enum { HISTORY_ADDRESS = 120 /* so much of it is shown */ };

/* Grants that stood may be forgotten: all that is held is asked about. */
void snib__etcd_forgets(struct snib__etcd *e, const char *what)
{
    e->revision = 0;
    e->out->moved = true;
    memset(e->kept, 0, sizeof e->kept);
    snib__etcd_guesses_forget(e);
    snib__etcd_leases_doubt(e);
    if (e->out->log) {
        char words[HISTORY_ADDRESS + 200];
        snprintf(words, sizeof words, "etcd: %.*s: %s", HISTORY_ADDRESS,
                 e->out->conn[e->session.at]->address, what);
        e->out->log(e->out->log_data, SNIB_LOG_WARN, words);
    }
}

/* The revision of a cluster never falls. It may come back from a backup under its
 * own name. */
void snib__etcd_saw(struct snib__etcd *e, const struct etcd_call *c,
                    int64_t revision)
{
    if (revision < c->revision && revision < e->revision) {
        snib__etcd_forgets(
            e, "this cluster has gone back in time, as one does that "
               "is restored from a backup");
    }
    e->revision = revision > e->revision ? revision : e->revision;
}

/* Another one may have been made in its place, of a backup, say. But one that was
 * left does not come back: if it does, the list has hosts of both, and a lock in
 * one is none in the other. */
bool snib__etcd_cluster_is(struct snib__etcd *e, uint64_t cluster)
{
    struct etcd_session *s = &e->session;
    if (s->left && s->left == cluster) {
        return false;
    }
    if (s->cluster && s->cluster != cluster) {
        s->left = s->cluster;
        snib__etcd_forgets(e, "another cluster answers, or one that was "
                              "restored from a backup");
    }
    s->cluster = cluster;
    return true;
}
