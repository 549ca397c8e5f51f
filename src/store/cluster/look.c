/* store/cluster/look.c — LIST and DOCTOR, which all homes are asked.
 *
 * A list without the locks of one home would look like a whole one, so it fails
 * if one does not answer. The doctor tells of each home by its address, also of
 * those that are down. */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/record.h"
#include "store/cluster/cluster_i.h"

/* Clocks of nodes that differ by more are told. A lock whose slot goes to
 * another node keeps the end that the first one wrote. */
enum { CLOCKS_APART_MS = 50 };

static uint32_t look_homes(const struct snib__cluster *q)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        n += q->slots->home[k].slots > 0;
    }
    return n;
}

static void look_ask(struct snib__cluster *q, struct look *look, struct part *p)
{
    const struct snib__request *rq = look->parent;
    snib_err err;
    p->look = look;
    p->rq = (struct snib__request){.verb = rq->verb,
                                   .id = {rq->id[0], rq->id[1]},
                                   .background = rq->background,
                                   .once = rq->once,
                                   .limit = rq->limit,
                                   .text = rq->text,
                                   .text_size = rq->text_size,
                                   .list = rq->list,
                                   .said.reterr = &p->error,
                                   .said.result = &p->rows,
                                   .user = p};
    snib__link_init(&p->rq.link);
    snib__link_init(&p->rq.store.link);
    snib__buf_init(&p->rows, rq->said.result->limit);
    struct node *n = snib__home_node(q, p->home, &err, &p->error);
    if (n) {
        snib__list_push(&n->chain, &p->rq.link);
        n->due++;
        look->busy++;
    } else {
        p->rq.said.answer = SNIB__NOT_APPLIED;
        p->rq.said.err = err;
    }
}

static void look_free(struct look *look)
{
    for (uint32_t i = 0; i < look->count; i++) {
        snib__buf_free(&look->part[i].rows);
    }
    snib__unlink(&look->link);
    snib__free(look);
}

/* -- what all have said ------------------------------------------------------ */

static const char *look_address(const struct snib__cluster *q,
                                const struct part *p)
{
    return q->slots->home[p->home].address;
}

static void look_list(struct snib__cluster *q, struct look *look)
{
    struct snib__request *rq = look->parent;
    const struct part *bad = NULL;
    char text[252];
    snib__buf_clear(rq->said.result);
    rq->said.left = (snib_duration){0};
    for (uint32_t i = 0; i < look->count; i++) {
        const struct part *p = &look->part[i];
        bad = bad || p->rq.said.answer == SNIB__DONE ? bad : p;
        snib__buf_add(rq->said.result, snib__buf_bytes(&p->rows),
                      snib__buf_size(&p->rows));
        if (p->rq.said.left.ns > rq->said.left.ns) {
            rq->said.left = p->rq.said.left;
        }
        rq->said.valid_from =
            i ? snib__sooner(rq->said.valid_from, p->rq.said.valid_from)
              : p->rq.said.valid_from;
    }
    if (bad) {
        snprintf(text, sizeof text, "%.100s: %.140s", look_address(q, bad),
                 bad->error.code ? bad->error.text
                                 : snib_err_text(bad->rq.said.err));
        snib__tell(q, rq, SNIB__NOT_APPLIED, bad->rq.said.err, text);
    } else if (rq->said.result->failed) {
        snib__tell(q, rq, SNIB__NOT_APPLIED, SNIB_ERR_LIMIT,
                   "the answer is too long");
    } else {
        snib__tell(q, rq, SNIB__DONE, SNIB_ERR_OK, NULL);
    }
}

/* A home's findings, each with its address before the text. */
static void look_findings(const struct snib__cluster *q, struct part *p)
{
    struct snib__buf *out = p->look->parent->said.result;
    struct snib__rec r;
    snib__rec_begin(&r, snib__buf_bytes(&p->rows), snib__buf_size(&p->rows));
    while (snib__rec_next_row(&r)) {
        snib__rec_row(out, (enum snib__row)r.row);
        while (snib__rec_next_field(&r)) {
            if (r.field == SNIB__F_TEXT) {
                char text[512];
                int n = snprintf(
                    text, sizeof text, "%.100s: %.*s", look_address(q, p),
                    (int)(r.size < 400 ? r.size : 400), (const char *)r.data);
                snib__rec_bytes(out, SNIB__F_TEXT, text, n > 0 ? (size_t)n : 0);
            } else {
                snib__rec_bytes(out, (enum snib__field)r.field, r.data, r.size);
            }
        }
    }
    if (p->rq.said.answer != SNIB__DONE && !snib__buf_size(&p->rows)) {
        char text[380];
        snprintf(text, sizeof text, "%.100s: %s", look_address(q, p),
                 p->error.code ? p->error.text : "no answer");
        snib__rec_finding(
            out, SNIB_LEVEL_FAIL, "reachable", text,
            "check that the server runs and lets this host connect");
    }
}

/* How many slots are those of nodes that could not be asked? */
static uint32_t look_slots_away(const struct snib__cluster *q,
                                const struct look *look)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < look->count; i++) {
        const struct part *p = &look->part[i];
        n +=
            p->rq.said.answer == SNIB__DONE ? 0 : q->slots->home[p->home].slots;
    }
    return n;
}

static void look_slots(const struct snib__cluster *q, const struct look *look,
                       struct snib__buf *out)
{
    uint32_t none = snib__slots_unserved(q->slots);
    uint32_t away = look_slots_away(q, look);
    char text[160];
    if (none) {
        snprintf(text, sizeof text,
                 "%u of %d slots are served by no node: their locks cannot be "
                 "used",
                 none, SNIB__SLOTS);
        snib__rec_finding(out, SNIB_LEVEL_FAIL, "slots", text,
                          "bring the node back that had them, or give them to "
                          "others (redis-cli --cluster fix)");
    }
    if (away) {
        snprintf(text, sizeof text,
                 "%u of %d slots are those of nodes that could not be asked: "
                 "their locks cannot be used",
                 away, SNIB__SLOTS);
        snib__rec_finding(out, SNIB_LEVEL_FAIL, "slots", text,
                          "do what is said of those nodes, or promote their "
                          "replicas (CLUSTER FAILOVER TAKEOVER)");
    }
    if (!none && !away) {
        snprintf(text, sizeof text, "all %d slots have one of %u nodes",
                 SNIB__SLOTS, look->count);
        snib__rec_finding(out, SNIB_LEVEL_OK, "slots", text, "");
    }
}

static void look_clocks(const struct snib__cluster *q, snib_instant now,
                        const struct look *look, struct snib__buf *out)
{
    int64_t least = INT64_MAX, most = 0;
    char text[160];
    for (uint32_t i = 0; i < look->count; i++) {
        const struct node *n = &q->node[look->part[i].home];
        int64_t ms = n->store && look->part[i].rq.said.answer == SNIB__DONE
                         ? snib__redis_clock(n->store, now)
                         : 0;
        least = ms && ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    if (most && most - least > CLOCKS_APART_MS) {
        snprintf(text, sizeof text,
                 "the clocks of the nodes differ by about %" PRId64 " ms",
                 most - least);
        snib__rec_finding(out, SNIB_LEVEL_WARN, "clocks", text,
                          "run NTP on all: a lock whose slot goes to a node "
                          "that is ahead ends sooner there");
    }
}

static void look_doctor(struct snib__cluster *q, snib_instant now,
                        struct look *look)
{
    struct snib__request *rq = look->parent;
    const struct part *bad = NULL;
    uint32_t well = 0;
    snib__buf_clear(rq->said.result);
    for (uint32_t i = 0; i < look->count; i++) {
        struct part *p = &look->part[i];
        well += p->rq.said.answer == SNIB__DONE;
        bad = p->rq.said.answer == SNIB__DONE ? bad : p;
        look_findings(q, p);
    }
    look_slots(q, look, rq->said.result);
    look_clocks(q, now, look, rq->said.result);
    q->requests--;
    rq->said.answer = well ? SNIB__DONE : SNIB__NOT_APPLIED;
    rq->said.err = SNIB_ERR_OK;
    if (!well && bad) {
        rq->said.err = bad->rq.said.err;
        snib__fail(rq->said.reterr, rq->said.err, "%.100s: %.140s",
                   look_address(q, bad),
                   bad->error.code ? bad->error.text : "no answer");
    }
    if (rq->said.result->failed) {
        rq->said.answer = SNIB__NOT_APPLIED;
        rq->said.err = snib__fail_plain(rq->said.reterr, SNIB_ERR_LIMIT);
    }
    snib__list_push(&q->out->answered, &rq->link);
}

static void look_end(struct snib__cluster *q, snib_instant now,
                     struct look *look)
{
    if (look->busy) {
        return;
    }
    if (look->parent->verb == SNIB__DOCTOR) {
        look_doctor(q, now, look);
    } else {
        look_list(q, look);
    }
    look_free(look);
}

/* -- the header's functions -------------------------------------------------- */

bool snib__look_start(struct snib__cluster *q, snib_instant now,
                      struct snib__request *rq)
{
    uint32_t count = look_homes(q);
    struct look *look;
    if (!count) {
        return false;
    }
    look = snib__alloc(sizeof *look + count * sizeof look->part[0]);
    if (!look) {
        snib__fail_plain(rq->said.reterr, SNIB_ERR_NOMEM);
        snib__tell(q, rq, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM, NULL);
        return true;
    }
    look->parent = rq;
    snib__link_init(&look->link);
    snib__list_push(&q->looks, &look->link);
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        if (q->slots->home[k].slots) {
            struct part *p = &look->part[look->count++];
            p->home = k;
            look_ask(q, look, p);
        }
    }
    look_end(q, now, look);
    return true;
}

void snib__look_answered(struct snib__cluster *q, snib_instant now,
                         struct snib__request *rq)
{
    struct part *p = rq->user;
    p->look->busy--;
    look_end(q, now, p->look);
}

bool snib__look_has(const struct snib__cluster *q, uint32_t home)
{
    bool has = false;
    SNIB__LIST_EACH (l, &q->looks) {
        const struct look *look = SNIB__CONTAINER(l, struct look, link);
        for (uint32_t i = 0; i < look->count; i++) {
            has = has || look->part[i].home == home;
        }
    }
    return has;
}

void snib__look_limits(struct snib__cluster *q)
{
    SNIB__LIST_EACH (l, &q->looks) {
        struct look *look = SNIB__CONTAINER(l, struct look, link);
        for (uint32_t i = 0; i < look->count; i++) {
            look->parent->limit =
                snib__later(look->parent->limit, look->part[i].rq.limit);
        }
    }
}

void snib__looks_free(struct snib__cluster *q)
{
    SNIB__LIST_EACH_SAFE (l, next, &q->looks) {
        look_free(SNIB__CONTAINER(l, struct look, link));
    }
}
