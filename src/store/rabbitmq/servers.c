/* store/rabbitmq/servers.c — which server of the list is next, and when.
 *
 * What is wrong with one says nothing about the others: all that waits is refused
 * only if that is so of each. */
#include <string.h>

#include "store/rabbitmq/rabbitmq_i.h"

enum { SERVERS_REST_MAX_MS = 2000, SERVERS_REST_BARRED_MS = 5000 };

/* A name that nobody knows, or no descriptor left for a connection: where there was
 * one before, that may pass. */
static bool servers_is_hopeless(const struct mq_session *s)
{
    return (s->hopeless || s->err == SNIB_ERR_LIMIT) && !s->ever;
}

static void servers_in_vain(struct mq_session *s)
{
    bool hopeless = servers_is_hopeless(s);
    if (!s->vain++) {
        s->vain_barred = s->vain_hopeless = 0;
        s->mild.err = SNIB_ERR_OK;
    }
    s->vain_barred += s->barred;
    s->vain_hopeless += !s->barred && hopeless;
    if (!s->barred && !hopeless) {
        s->mild.err = s->err;
        memcpy(s->mild.text, s->text, sizeof s->text);
    }
}

/* The next attempt: at once if there is a server that was not tried yet. */
void snib__mq_servers_next(struct snib__mq *z, snib_instant now)
{
    struct mq_session *s = &z->session;
    uint32_t all = z->out->conns;
    servers_in_vain(s);
    s->at = (s->at + 1) % all;
    s->rest_until = now;
    if (s->vain < all) {
        return;
    }
    s->vain = 0;
    s->refuses = s->vain_barred + s->vain_hopeless >= all;
    if (s->mild.err) {
        s->err = s->mild.err;
        memcpy(s->text, s->mild.text, sizeof s->text);
    }
    int64_t half = s->rest.ns / 2, most = snib__ms(SERVERS_REST_MAX_MS).ns;
    snib_duration pause = {
        half + (int64_t)snib__rng_below(&z->rng, (uint64_t)half + 1)};
    s->rest_until = snib__after(
        now, s->vain_barred == all ? snib__ms(SERVERS_REST_BARRED_MS) : pause);
    s->rest.ns = s->rest.ns * 2 < most ? s->rest.ns * 2 : most;
    s->in_vain = true;
}
