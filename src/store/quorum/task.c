/* store/quorum/task.c — a task's memory and timer, and its answer to the core.
 *
 * A task that is told lives on until no node owes it an answer. Some are kept
 * for later requests. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/quorum/quorum_i.h"

struct task *snib__task_new(struct snib__quorum *q,
                            const struct snib__name *name, const uint64_t id[2])
{
    struct snib__link *l = snib__list_pop(&q->spare);
    struct task *task = l ? SNIB__CONTAINER(l, struct task, link) : NULL;
    size_t size = sizeof *task + q->count * sizeof task->part[0];
    struct snib__name *copy = NULL;
    if (task) {
        q->spares--;
    } else {
        task = snib__alloc(size);
    }
    if (task && name &&
        snib__name_new(name->raw, name->raw_size, &copy, NULL)) {
        snib__buf_free(&task->text);
        snib__free(task);
        task = NULL;
    }
    if (!task || !snib__heap_reserve(&q->timers, q->tasks + 1)) {
        snib__free(copy);
        if (task) {
            snib__buf_free(&task->text);
        }
        snib__free(task);
        return NULL;
    }
    struct snib__buf text = task->text;
    memset(task, 0, size);
    task->text = text;
    task->text.limit = 4096;
    snib__buf_clear(&task->text);
    task->name = copy;
    task->id[0] = id[0];
    task->id[1] = task->core_id = id[1];
    for (uint32_t k = 0; k < q->count; k++) {
        task->part[k].task = task;
        task->part[k].node = (uint8_t)k;
    }
    snib__link_init(&task->link);
    snib__list_push(&q->bucket[id[0] % BUCKETS], &task->link);
    q->tasks++;
    return task;
}

void snib__task_free(struct snib__quorum *q, struct task *task)
{
    snib__heap_remove(&q->timers, &task->timer);
    snib__unlink(&task->link);
    snib__free(task->name);
    task->name = NULL;
    q->tasks--;
    q->sweeps -= task->is_sweep;
    for (uint32_t k = 0; task->results && k < q->count; k++) {
        snib__buf_free(&task->results[k]);
    }
    snib__free(task->results);
    task->results = NULL;
    if (q->spares < SPARE_MAX) {
        q->spares++;
        snib__list_push(&q->spare, &task->link);
    } else {
        snib__buf_free(&task->text);
        snib__free(task);
    }
}

void snib__task_end(struct snib__quorum *q, struct task *task)
{
    task->stage = ST_DRAIN;
    if (task->busy) {
        snib__heap_remove(&q->timers, &task->timer);
    } else {
        snib__task_free(q, task);
    }
}

void snib__task_timer(struct snib__quorum *q, struct task *task,
                      snib_instant at)
{
    snib__heap_set(&q->timers, &task->timer, at);
}

void snib__task_tell(struct snib__quorum *q, struct task *task,
                     snib__answer answer, snib_err err, const char *text)
{
    struct snib__request *rq = task->parent;
    task->parent = NULL;
    rq->said.answer = answer;
    rq->said.err = err;
    if (err && text) {
        snib__fail(rq->said.reterr, err, "%s", text);
    } else if (err) {
        snib__fail_plain(rq->said.reterr, err);
    }
    /* else its interim answer is still in the list */
    if (!snib__linked(&rq->link)) {
        snib__list_push(&q->out->answered, &rq->link);
    }
}

void snib__task_lost(struct snib__quorum *q, struct task *task, bool revoked)
{
    const struct snib_error *said = task->parent->said.reterr;
    char text[sizeof said->text] = "";
    if (revoked && said) { /* a node told who forced it */
        memcpy(text, said->text, sizeof text);
    }
    snib__task_tell(q, task, SNIB__NO, SNIB_ERR_LOST, *text ? text : NULL);
}

int64_t snib__quorum_between(struct snib__quorum *q, int64_t least,
                             int64_t most)
{
    return least + (most > least ? (int64_t)snib__rng_below(
                                       &q->rng, (uint64_t)(most - least) + 1)
                                 : 0);
}
