/* store/redis/inspect_reply.c — a reply to INSPECT, LIST or DOCTOR: is it an
 * error, and whose?
 *
 * An inspection stays in flight until its last step. An error ends it, unless it
 * is a finding (of a DOCTOR), or of one lock among those that a LIST has found:
 * that one is left out. */
#include <string.h>

#include "store/redis/inspect_i.h"

/* Is the lock that a LIST has found on its way to another node of the cluster,
 * or there already? That one lists it. */
static bool inspect_reply_is_elsewhere(const struct snib__redis *s,
                                       const struct snib__resp_cell *c)
{
    static const char *const words[] = {"MOVED ", "ASK ", "TRYAGAIN "};
    bool is = false;
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        is = is || !strncmp(c->text, words[k], strlen(words[k]));
    }
    return s->slots && is;
}

void snib__inspect_answered(struct snib__redis *s, snib_instant now, int i,
                            const struct flight *f,
                            const struct snib__resp_cell *c)
{
    struct snib__request *rq = f->rq;
    bool damaged = c->type == SNIB__RESP_ERROR &&
                   snib__redis_error_kind(c->text, c->size) == E_CORRUPT;
    if (c->type == SNIB__RESP_ERROR && f->verb == SNIB__LIST &&
        (damaged || inspect_reply_is_elsewhere(s, c))) {
        char clean[200];
        snib__redis_error_words(clean, sizeof clean, c->text, c->size);
        if (snib__inspect_leaves_out(s, now, i, rq, clean, damaged)) {
            return;
        }
    }
    if (c->type == SNIB__RESP_ERROR && f->verb != SNIB__DOCTOR) {
        snib__request_set_where(rq, 0, M_FLIGHT);
        snib__session_forget(s, rq);
        snib__reply_error(s, now, i, f, c->text, c->size);
    } else {
        snib__inspect_reply(s, now, i, rq, c);
    }
}
