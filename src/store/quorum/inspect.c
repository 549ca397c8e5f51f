/* store/quorum/inspect.c — asking every node who holds, and whether it is fit.
 *
 * INSPECT and LIST need answers of a majority; what fewer nodes show could be
 * anything. Soon after a majority has answered they do without the other nodes,
 * if no answer of those can change who holds. Otherwise a server that accepts
 * connections but stays silent would cost each INSPECT all of its limit. FORCE
 * ends the lock wherever it can, and says so when that was no majority. DOCTOR
 * tells of each node by name, also of those that are down; without a majority
 * it ends with the error of any other request. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/record.h"
#include "snib/inspect.h"
#include "store/quorum/quorum_i.h"

void snib__inspect_start(struct snib__quorum *q, snib_instant now,
                         struct task *task)
{
    struct snib__request *rq = task->parent;
    int64_t spare = snib__between(now, rq->limit).ns / 8;
    task->stage = ST_INSPECT;
    /* a server may be asked after this request has ended */
    if (rq->text_size) {
        snib__buf_add(&task->text, rq->text, rq->text_size);
    }
    task->results = snib__alloc(q->count * sizeof *task->results);
    if (!task->results || task->text.failed) {
        snib__task_tell(q, task, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM, NULL);
        snib__task_end(q, task);
        return;
    }
    spare = spare < 100 * 1000000 ? spare : 100 * 1000000;
    for (uint32_t k = 0; k < q->count; k++) {
        snib_instant limit = snib__before(rq->limit, (snib_duration){spare});
        if (rq->verb != SNIB__DOCTOR && q->node[k].ever) {
            limit = snib__sooner(limit, snib__after(now, snib__ms(INSPECT_MS)));
        }
        limit = snib__sooner(limit, snib__after(now, q->patience));
        snib__buf_init(&task->results[k], rq->said.result->limit);
        snib__part_inspect(q, now, task, k, limit);
    }
}

/* -- doctor ---------------------------------------------------------------- */

/* A node's findings, each with the node's address before its text. */
static void inspect_of_node(const struct snib__quorum *q, struct task *task,
                            uint32_t k)
{
    struct snib__buf *out = task->parent->said.result;
    const char *address = q->out->conn[k * NODE_CONNS]->address;
    struct snib__rec r;
    snib__rec_begin(&r, snib__buf_bytes(&task->results[k]),
                    snib__buf_size(&task->results[k]));
    while (snib__rec_next_row(&r)) {
        snib__rec_row(out, (enum snib__row)r.row);
        while (snib__rec_next_field(&r)) {
            if (r.field == SNIB__F_TEXT) {
                char text[512];
                int n = snprintf(text, sizeof text, "%.100s: %.*s", address,
                                 (int)(r.size < 400 ? r.size : 400),
                                 (const char *)r.data);
                snib__rec_bytes(out, SNIB__F_TEXT, text, n > 0 ? (size_t)n : 0);
            } else {
                snib__rec_bytes(out, (enum snib__field)r.field, r.data, r.size);
            }
        }
    }
}

static void inspect_doctor(struct snib__quorum *q, struct task *task)
{
    struct snib__buf *out = task->parent->said.result;
    uint32_t well = 0;
    char text[160], why[252];
    snib__buf_clear(out);
    for (uint32_t k = 0; k < q->count; k++) {
        bool answered = task->part[k].has == HAS_NOTHING;
        well += answered;
        inspect_of_node(q, task, k);
        if (!answered && !snib__buf_size(&task->results[k])) {
            snprintf(text, sizeof text, "%.100s: no answer",
                     q->out->conn[k * NODE_CONNS]->address);
            snib__rec_finding(
                out, SNIB_LEVEL_FAIL, "reachable", text,
                "check that the server runs and lets this host connect");
        }
    }
    snprintf(text, sizeof text, "%u of %u servers answer, %u are needed", well,
             q->count, q->majority);
    snib__rec_finding(out,
                      well < q->majority ? SNIB_LEVEL_FAIL
                      : well < q->count  ? SNIB_LEVEL_WARN
                                         : SNIB_LEVEL_OK,
                      "majority", text,
                      well == q->count ? "" : "bring the others up");
    if (q->count % 2 == 0) {
        snprintf(text, sizeof text,
                 "%u servers survive the loss of no more than %u would",
                 q->count, q->count - 1);
        snib__rec_finding(out, SNIB_LEVEL_WARN, "majority", text,
                          "use an odd number of servers");
    }
    if (well < q->majority) {
        snib_err err = snib__nodes_why(q, task, why, sizeof why);
        snib__task_tell(q, task, SNIB__NOT_APPLIED, err, why);
    } else {
        snib__task_tell(q, task, SNIB__DONE, SNIB_ERR_OK, NULL);
    }
}

/* -- ends ------------------------------------------------------------------ */

static int64_t inspect_count_of(const struct snib__buf *rows)
{
    struct snib__rec r;
    int64_t n = 0;
    snib__rec_begin(&r, snib__buf_bytes(rows), snib__buf_size(rows));
    while (snib__rec_next_row(&r)) {
        while (snib__rec_next_field(&r)) {
            if (r.field == SNIB__F_COUNT) {
                n = snib__rec_value_i64(&r);
            }
        }
    }
    return n;
}

static void inspect_forced(struct snib__quorum *q, struct task *task)
{
    uint32_t done = 0;
    int64_t most = 0;
    char why[252];
    for (uint32_t k = 0; k < q->count; k++) {
        int64_t n = inspect_count_of(&task->results[k]);
        done += task->part[k].has == HAS_NOTHING;
        most = n > most ? n : most;
    }
    if (done >= q->majority) {
        snib__buf_clear(task->parent->said.result);
        snib__rec_row(task->parent->said.result, SNIB__ROW_COUNT);
        snib__rec_i64(task->parent->said.result, SNIB__F_COUNT, most);
        snib__task_tell(q, task, SNIB__DONE, SNIB_ERR_OK, NULL);
    } else {
        snib_err err = snib__nodes_why(q, task, why, sizeof why);
        snib__task_tell(q, task, done ? SNIB__UNKNOWN : SNIB__NOT_APPLIED,
                        done ? SNIB_ERR_UNKNOWN : err, why);
    }
}

static void inspect_merged(struct snib__quorum *q, struct task *task)
{
    char why[252];
    if (snib__parts_with(q, task, HAS_NOTHING) < q->majority) {
        snib_err err = snib__nodes_why(q, task, why, sizeof why);
        snib__task_tell(q, task, SNIB__NOT_APPLIED, err, why);
        return;
    }
    snib__buf_clear(task->parent->said.result);
    snib__merge_locks(q, task, task->parent->said.result);
    if (task->parent->said.result->failed) {
        snib__task_tell(q, task, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM, NULL);
    } else {
        snib__task_tell(q, task, SNIB__DONE, SNIB_ERR_OK, NULL);
    }
}

/* A majority has answered: how long do the other nodes get, so that as a rule
 * all is shown? As long again as the majority took, and at least as long as any
 * request to a server gets, but at most an eighth of the client's patience. */
static snib_duration inspect_grace(const struct snib__quorum *q,
                                   snib_instant now, const struct task *task)
{
    int64_t ns = snib__between(task->began, now).ns;
    int64_t least = NODE_LEAST_MS * INT64_C(1000000);
    int64_t most = q->patience.ns / 8;
    ns = ns > least ? ns : least;
    return (snib_duration){ns < most ? ns : most};
}

/* Are the answers that are there enough? */
static bool inspect_is_enough(struct snib__quorum *q, snib_instant now,
                              struct task *task)
{
    snib__verb verb = task->parent->verb;
    if ((verb != SNIB__INSPECT && verb != SNIB__LIST) ||
        snib__parts_with(q, task, HAS_NOTHING) < q->majority) {
        return false;
    }
    if (!task->until.ns) {
        task->until = snib__after(now, inspect_grace(q, now, task));
        snib__task_timer(q, task, task->until);
    }
    return snib__reached(now, task->until) && snib__merge_settled(q, task);
}

void snib__inspect_check(struct snib__quorum *q, snib_instant now,
                         struct task *task)
{
    if (task->busy && !inspect_is_enough(q, now, task)) {
        return;
    }
    switch (task->parent->verb) {
    case SNIB__DOCTOR:
        inspect_doctor(q, task);
        break;
    case SNIB__FORCE:
        inspect_forced(q, task);
        break;
    case SNIB__INSPECT:
    case SNIB__LIST:
        inspect_merged(q, task);
        break;
    case SNIB__ACQUIRE:
    case SNIB__RENEW:
    case SNIB__RELEASE:
    case SNIB__CANCEL:
    case SNIB__PARAMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY:
        break;
    }
    snib__task_end(q, task);
}
