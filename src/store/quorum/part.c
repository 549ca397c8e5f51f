/* store/quorum/part.c — asking one node, and which nodes are asked.
 *
 * A node gets a short limit for each request; if it does not answer within it,
 * the round counts without it. A node that fails is left alone for a while (50
 * ms, doubling to 1 s) as long as the others are a majority. Otherwise it would
 * cost every round its limit, and leave each time something that has to be
 * cancelled. After the while one request finds out whether it is back. A node
 * that owes hundreds of answers more than the others is left alone, too, lest
 * requests pile up behind it. Until a node has answered for the first time it
 * gets as long as the client grants any server, since connections are still
 * being made. */
#include <stdio.h>
#include <string.h>

#include "store/quorum/quorum_i.h"

static snib_duration part_node_limit(const struct snib__quorum *q,
                                     const struct task *task, uint32_t k)
{
    int64_t ns = q->node_limit.ns;
    if (!ns) {
        ns = NODE_LEAST_MS * INT64_C(1000000);
        ns = task->lease.ns / 20 > ns ? task->lease.ns / 20 : ns;
    }
    ns = ns > q->patience.ns || !q->node[k].ever ? q->patience.ns : ns;
    return (snib_duration){ns};
}

static struct snib__request *part_send(struct snib__quorum *q, snib_instant now,
                                       struct task *task, uint32_t k,
                                       snib__verb verb, doing what)
{
    struct part *p = &task->part[k];
    struct snib__request *rq = &p->rq;
    *rq = (struct snib__request){.verb = verb,
                                 .name = task->name,
                                 .id = {task->id[0], task->id[1]},
                                 .acquire.kind = SNIB_KIND_MUTEX,
                                 .acquire.permits = task->permits,
                                 .background = task->background,
                                 .lease = task->lease,
                                 .acquire.reserve = task->reserve,
                                 .text = snib__buf_text(&task->text),
                                 .said.reterr = &p->error,
                                 .user = p};
    p->error = (struct snib_error){0};
    rq->text_size = (uint32_t)snib__buf_size(&task->text);
    rq->limit = rq->exec.patience =
        snib__after(now, part_node_limit(q, task, k));
    snib__link_init(&rq->link);
    snib__link_init(&rq->store.link);
    snib__list_push(&q->node[k].chain, &rq->link);
    p->doing = (uint8_t)what;
    task->busy++;
    struct node *n = &q->node[k];
    n->due++;
    if (n->failing && snib__reached(now, n->rests_until)) {
        n->probed = true;
        n->rests_until = rq->limit;
    }
    return rq;
}

void snib__part_acquire(struct snib__quorum *q, snib_instant now,
                        struct task *task, uint32_t k, int64_t floor)
{
    struct snib__request *rq =
        part_send(q, now, task, k, SNIB__ACQUIRE, DO_ACQUIRE);
    rq->floor = floor;
}

void snib__part_renew(struct snib__quorum *q, snib_instant now,
                      struct task *task, uint32_t k)
{
    part_send(q, now, task, k, SNIB__RENEW, DO_RENEW)->token = task->token;
}

void snib__part_keep(struct snib__quorum *q, snib_instant now,
                     struct task *task, uint32_t k, snib_duration lease,
                     bool anyway)
{
    struct snib__request *rq = part_send(q, now, task, k, SNIB__RENEW, DO_KEEP);
    rq->token = task->token;
    rq->floor = task->token + task->reserve;
    rq->lease = lease;
    rq->acquire.may_queue = anyway;
}

void snib__part_end(struct snib__quorum *q, snib_instant now, struct task *task,
                    uint32_t k, bool release, bool resent)
{
    struct part *p = &task->part[k];
    struct snib__request *rq =
        part_send(q, now, task, k, release ? SNIB__RELEASE : SNIB__CANCEL,
                  release ? DO_RELEASE : DO_CANCEL);
    rq->token = release ? p->token : task->prior;
    rq->resent = resent;
}

void snib__part_inspect(struct snib__quorum *q, snib_instant now,
                        struct task *task, uint32_t k, snib_instant limit)
{
    struct snib__request *rq =
        part_send(q, now, task, k, task->parent->verb, DO_INSPECT);
    rq->limit = rq->exec.patience = limit;
    rq->said.result = &task->results[k];
}

/* -- counting -------------------------------------------------------------- */

uint32_t snib__parts_with(const struct snib__quorum *q, const struct task *task,
                          has what)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        n += task->part[k].has == what && task->part[k].doing == DO_NOTHING;
    }
    return n;
}

bool snib__node_behind(const struct snib__quorum *q, uint32_t k)
{
    uint32_t quicker = 0;
    for (uint32_t i = 0; i < q->count; i++) {
        quicker += q->node[i].due + BEHIND_MAX <= q->node[k].due;
    }
    return quicker >= q->majority;
}

bool snib__node_rests(const struct snib__quorum *q, snib_instant now,
                      uint32_t k)
{
    uint32_t well = 0;
    for (uint32_t i = 0; i < q->count; i++) {
        well += snib__reached(now, q->node[i].rests_until);
    }
    return (well >= q->majority &&
            !snib__reached(now, q->node[k].rests_until)) ||
           snib__node_behind(q, k);
}

/* The most telling of the nodes' troubles: what a person has to repair comes
 * before what may pass. */
static int part_weight(snib_err err)
{
    switch (err) {
    case SNIB_ERR_DENIED:
        return 5;
    case SNIB_ERR_CONFIG:
        return 4;
    case SNIB_ERR_CORRUPT:
        return 3;
    case SNIB_ERR_STORE:
        return 2;
    default:
        return err != SNIB_ERR_OK;
    }
}

/* Where to cut a text that is too long: before the last advice that begins in
 * it ("; …"), else behind the last word that leaves room for the dots. */
static void part_cut(char *text, size_t room)
{
    size_t at = room;
    while (at > 1 && memcmp(text + at - 2, "; ", 2)) {
        at--;
    }
    if (at > 2) {
        text[at - 2] = 0;
        return;
    }
    at = room > 3 ? room - 3 : 0;
    while (at > 0 && text[at] != ' ') {
        at--;
    }
    snprintf(text + at, room - at + 1, "...");
}

void snib__node_why(char *text, size_t size, const char *address,
                    const char *why)
{
    size_t used = strlen(text);
    int n = snprintf(text + used, size - used, "%s%.60s: ", used ? "; " : "",
                     address);
    used += n > 0 ? (size_t)n : 0;
    if (used < size) {
        size_t room = size - used - 1, length = strlen(why);
        memcpy(text + used, why, length < room ? length : room);
        text[used + (length < room ? length : room)] = 0;
        if (length > room) {
            part_cut(text + used, room);
        }
    }
}

snib_err snib__nodes_why(const struct snib__quorum *q, const struct task *task,
                         char *ret, size_t size)
{
    uint32_t silent = 0;
    const struct snib_error *worst = NULL;
    uint32_t at = 0;
    for (uint32_t k = 0; k < q->count; k++) {
        const struct snib_error *said = &task->part[k].error;
        said = said->code ? said : &q->node[k].error;
        bool failed = task->part[k].has == HAS_FAILED ||
                      task->part[k].has == HAS_MAYBE ||
                      task->part[k].doing != DO_NOTHING;
        silent += failed;
        if (failed && said->code != SNIB_ERR_CANCELLED &&
            (!worst || part_weight(said->code) > part_weight(worst->code))) {
            worst = said;
            at = k;
        }
    }
    snprintf(ret, size, "no majority: %u of %u servers answered, %u must agree",
             q->count - silent, q->count, q->majority);
    if (worst) {
        snib__node_why(ret, size, q->out->conn[at * NODE_CONNS]->address,
                       worst->code ? worst->text : "no answer");
    }
    snib_err err = worst ? worst->code : SNIB_ERR_OK;
    return part_weight(err) > 1 ? err : SNIB_ERR_UNREACHABLE;
}
