/* store/etcd/watch.c — being told: one watch a client, on one key of its own.
 *
 * Whoever grants a lock to a waiter, or ends a holder by force, puts the request
 * ids under the notifier key of that client, in the same transaction. The watch
 * is made with each connection and kept: a watch from a revision that is past
 * already is served up to 100 ms late. What is missed while there is none, the
 * polls find out. */
#include <stdio.h>
#include <string.h>

#include "store/etcd/etcd_i.h"

void snib__etcd_watch_begin(struct snib__etcd *e, snib_instant now)
{
    struct etcd_key key;
    snib__etcd_key_notifier(e, e->client, &key);
    snib__buf_clear(&e->message);
    snib__etcd_put_watch(&e->message, snib__etcd_text_of(&key));
    snib__etcd_call(e, now, &e->session.watch, SNIB__ETCD_WATCH, &e->message);
}

/* The connection is left when this step is over. */
static void watch_ends(struct snib__etcd *e, const struct etcd_reply *reply)
{
    struct etcd_session *s = &e->session;
    if (s->state == ETCD_GREETS || s->state == ETCD_AUTH ||
        s->state == ETCD_LOGIN || s->state == ETCD_READY) {
        s->leave = true;
        s->leave_err = reply->err ? reply->err : SNIB_ERR_UNREACHABLE;
        s->leave_barred = reply->end == ETCD_REFUSED;
        snprintf(s->leave_text, sizeof s->leave_text, "%.100s: %.140s",
                 e->out->conn[s->at]->address,
                 reply->text[0] ? reply->text : "the watch has ended");
    }
}

/* The stream has ended. */
void snib__etcd_watch_done(struct snib__etcd *e, snib_instant now,
                           struct etcd_call *c, const struct etcd_reply *reply)
{
    (void)now;
    (void)c;
    watch_ends(e, reply);
}

static void watch_told(struct snib__etcd *e, struct snib__etcd_text ids)
{
    uint64_t id[2];
    for (size_t at = 0; ids.size - at >= ETCD_ID; at += ETCD_ID) {
        if (!snib__etcd_id_read((const char *)ids.bytes + at, ETCD_ID, id)) {
            return;
        }
        if (e->tolds < ETCD_TOLD) {
            memcpy(e->told[e->tolds++], id, sizeof id);
        } else {
            e->told_all = true;
        }
    }
}

/* Its refusal comes as an answer, in the words of an error. */
static void watch_refused(const struct snib__etcd *e, const char *reason,
                          struct etcd_reply *ret)
{
    struct snib__h2_stream s = {.end = SNIB__H2_ANSWERED};
    bool denied = strstr(reason, "permission") != NULL;
    s.status =
        denied ? SNIB__GRPC_PERMISSION_DENIED : SNIB__GRPC_INVALID_ARGUMENT;
    snprintf(s.text, sizeof s.text, "%setcdserver: %.150s",
             denied ? "permission denied: " : "", reason);
    *ret = (struct etcd_reply){.end = ETCD_AGAIN};
    snib__etcd_judge(&s, false, ret);
    if (ret->err != SNIB_ERR_DENIED) {
        ret->end = ETCD_AGAIN;
        ret->err = SNIB_ERR_UNREACHABLE;
    } else if (denied) {
        snprintf(ret->text, sizeof ret->text,
                 "permission denied for the keys %s...: give this user's role "
                 "readwrite there (docs/ETCD.md)",
                 e->prefix);
    }
}

void snib__etcd_watch_heard(struct snib__etcd *e, struct etcd_call *c,
                            const uint8_t *bytes, size_t size)
{
    struct snib__etcd_watched w;
    struct snib__etcd_pair pair;
    (void)c;
    snib__etcd_read_watch(bytes, size, &w);
    while (snib__etcd_next_event(&w, &pair)) {
        watch_told(e, pair.value);
    }
    if (w.canceled) {
        struct etcd_reply reply;
        watch_refused(e, w.reason, &reply);
        watch_ends(e, &reply);
    } else if (w.created && !e->session.watching) {
        e->session.watch_came = true;
    }
}
