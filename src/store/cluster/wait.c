/* store/cluster/wait.c — requests that wait here, and the ends of requests that
 * no node answers.
 *
 * None of them is at a server: it was never sent, or the server has refused it
 * before anything was done. But one that was in a queue may still be there,
 * where its slot is by now. */
#include <stdio.h>

#include "base/error.h"
#include "store/cluster/cluster_i.h"

void snib__tell(struct snib__cluster *q, struct snib__request *rq,
                snib__answer answer, snib_err err, const char *text)
{
    rq->said.answer = answer;
    rq->said.err = err;
    if (err && text) {
        snib__fail(rq->said.reterr, err, "%s", text);
    }
    if (rq->verb == SNIB__DOCTOR && err && rq->said.result) {
        snib__rec_finding(rq->said.result, SNIB_LEVEL_FAIL,
                          err == SNIB_ERR_CONFIG   ? "configuration"
                          : err == SNIB_ERR_DENIED ? "permissions"
                                                   : "reachable",
                          text ? text : snib_err_text(err),
                          err == SNIB_ERR_CONFIG
                              ? "the text says what to do"
                              : "check the URL, and that the nodes run and let "
                                "this host connect");
    }
    q->requests--;
    if (!snib__linked(&rq->link)) {
        snib__list_push(&q->out->answered, &rq->link);
    }
}

/* Why it waits, for people; the error of that. */
static snib_err wait_why(const struct snib__cluster *q,
                         const struct snib__request *rq, char *ret, size_t size)
{
    if (!q->slots->heard) {
        bool refused = q->err && q->err != SNIB_ERR_UNREACHABLE;
        snprintf(ret, size, "%s%s%.200s",
                 refused ? "" : "no node of the cluster answers",
                 refused      ? ""
                 : q->text[0] ? "; "
                              : " within the time allowed",
                 q->text);
        return q->err ? q->err : SNIB_ERR_UNREACHABLE;
    }
    if (!rq->name) {
        snprintf(ret, size, "no node of the cluster serves a slot");
        return SNIB_ERR_UNREACHABLE;
    }
    if (q->slots->crowded) {
        snprintf(ret, size,
                 "the cluster has more than %d nodes that serve slots",
                 NODES_MAX);
        return SNIB_ERR_LIMIT;
    }
    uint32_t slot = snib__slot_of(rq->name);
    if (q->slots->home_of[slot]) {
        snprintf(ret, size,
                 "the nodes of the cluster do not agree which of them serves "
                 "slot %u, which has this lock: is it being moved?",
                 slot);
        return SNIB_ERR_STORE;
    }
    snprintf(ret, size,
             "no node of the cluster serves slot %u, which has this lock: "
             "bring its node back, or give the slot to another one (redis-cli "
             "--cluster check HOST:PORT)",
             slot);
    return SNIB_ERR_UNREACHABLE;
}

void snib__give_up(struct snib__cluster *q, struct snib__request *rq)
{
    char text[252];
    snib_err err = wait_why(q, rq, text, sizeof text);
    if (rq->verb == SNIB__ACQUIRE && rq->acquire.placed) {
        snib__tell(q, rq, SNIB__UNKNOWN, SNIB_ERR_UNKNOWN, text);
    } else if (rq->said.err) { /* a node has said why */
        snib__tell(q, rq, SNIB__NOT_APPLIED, rq->said.err, NULL);
    } else {
        snib__tell(q, rq, SNIB__NOT_APPLIED, err, text);
    }
}

void snib__wait(struct snib__cluster *q, snib_instant now,
                struct snib__request *rq, int64_t ms)
{
    snib_instant until =
        ms ? snib__sooner(rq->limit, snib__after(now, snib__ms(ms)))
           : rq->limit;
    rq->store.looked = true;
    rq->store.asking = false;
    rq->store.moved = 0;
    rq->store.timer.index = 0;
    snib__list_push(&q->waiting, &rq->link);
    snib__heap_set(&q->timers, &rq->store.timer, until);
    if (rq->verb == SNIB__RENEW) { /* its holder is told */
        char text[252];
        rq->said.err = wait_why(q, rq, text, sizeof text);
        snib__fail(rq->said.reterr, rq->said.err, "%s", text);
        q->out->stuck = true;
    }
}

void snib__wait_over(struct snib__cluster *q, struct snib__request *rq)
{
    snib__heap_remove(&q->timers, &rq->store.timer);
    snib__unlink(&rq->link);
}

void snib__wait_fail(struct snib__cluster *q, bool all)
{
    SNIB__LIST_EACH_SAFE (l, next, &q->waiting) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (!rq->background && (all || (rq->once && !rq->resent))) {
            snib__wait_over(q, rq);
            snib__give_up(q, rq);
        }
    }
}

void snib__wait_cancel(struct snib__cluster *q, const uint64_t id[2])
{
    SNIB__LIST_EACH_SAFE (l, next, &q->waiting) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (rq->verb == SNIB__ACQUIRE && rq->id[0] == id[0] &&
            rq->id[1] == id[1]) {
            snib__wait_over(q, rq);
            snib__fail_plain(rq->said.reterr, SNIB_ERR_CANCELLED);
            snib__tell(q, rq,
                       rq->acquire.placed ? SNIB__UNKNOWN : SNIB__NOT_APPLIED,
                       SNIB_ERR_CANCELLED, NULL);
        }
    }
}
