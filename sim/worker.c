/* sim/worker.c — a worker of a client at a table: a thread that calls the store,
 * here one step after the other.
 *
 * The library's exec() takes a list of requests, works on it, and gives it back
 * when all are answered. A worker is such a thread to which steps are given one
 * by one, so that what is answered need not wait for what is not. Its steps are
 * requests that somebody waits for, or that nobody does, each for another lock,
 * in their order; several locks as one are a step of their own. A step goes
 * through the phases of driver.h and ends when its requests are answered: by the
 * decision, by the write's answer, by a limit. Of a fetch without an answer
 * nothing was done; of a write without one nobody knows. */
#include "base/error.h"
#include "sim/driver.h"

enum { PAUSE_US = 100, PAUSE_MAX_US = 6400, CONFLICTS_MAX = 12 };

void sim_worker_init(struct sim_driver *d, struct sim_worker *k)
{
    snib__list_init(&k->list);
    snib__list_init(&k->done);
    snib__snapshot_init(&k->s, d->id);
    sim_id_text(d->id, k->s.notifier);
    k->due = k->limit = SNIB__NEVER;
}

/* -- the answers of a step ------------------------------------------------- */

static void end_step(struct sim_worker *k)
{
    for (uint32_t i = 0; i < k->count; i++) {
        snib__list_push(&k->done, &k->r[i]->link);
    }
    k->count = 0;
    k->phase = SIM_IDLE;
    k->due = SNIB__NEVER;
    k->apart = k->apart && !snib__list_empty(&k->list);
}

void sim_request_in_vain(struct snib__request *r, bool blocked)
{
    r->said.answer = SNIB__NOT_APPLIED;
    r->exec.blocked = blocked;
    r->said.err = snib__fail(r->said.reterr, SNIB_ERR_UNREACHABLE,
                             blocked ? "the table did not answer in time"
                                     : "the table is not reached");
}

/* Nothing was done. A request whose limit is still to come is executed again a
 * little later, unless somebody wants to hear of the failure. */
static void in_vain(struct sim_driver *d, struct sim_worker *k, bool blocked)
{
    for (uint32_t i = 0; i < k->count; i++) {
        struct snib__request *r = k->r[i];
        bool late = snib__reached(sim_driver_now(d), r->exec.patience);
        bool hears = !blocked && (r->exec.impatient || r->verb == SNIB__RENEW);
        sim_request_in_vain(r, blocked);
        if (!late && !hears) {
            r->said.answer = SNIB__PENDING;
        }
    }
    end_step(k);
}

/* The server is unfit, or cannot do that: nothing was done. */
static void refuse(struct sim_worker *k, snib_err err, const char *why)
{
    for (uint32_t i = 0; i < k->count; i++) {
        k->r[i]->said.answer = SNIB__NOT_APPLIED;
        k->r[i]->said.err = snib__fail(k->r[i]->said.reterr, err, "%s", why);
    }
    end_step(k);
}

static void lose(struct sim_worker *k)
{
    snib__snapshot_lost(&k->s);
    end_step(k);
}

/* -- phases ---------------------------------------------------------------- */

/* By when the answer must have come: exec() returns by the limits of its
 * requests. */
static void wait_in(struct sim_driver *d, struct sim_worker *k,
                    enum sim_phase phase)
{
    k->phase = phase;
    k->due = snib__sooner(snib__after(sim_driver_now(d), d->request), k->limit);
}

static void send_fetch(struct sim_driver *d, struct sim_worker *k)
{
    struct snib__buf b;
    wait_in(d, k, SIM_CONNECT);
    if (!sim_conn_up(d, sim_conn_of(d, k))) {
        return;
    }
    snib__buf_init(&b, SIM_BUF_MAX);
    sim_fetch_message(k, &b);
    k->sent = sim_driver_now(d);
    wait_in(d, k, SIM_FETCH);
    k->call = ++d->calls;
    sim_conn_speak(d, sim_conn_of(d, k), SIM_MSG_FETCH, k->call, &b);
}

static void send_write(struct sim_driver *d, struct sim_worker *k)
{
    struct snib__buf b;
    snib__buf_init(&b, SIM_BUF_MAX);
    sim_write_message(d, k, &b);
    wait_in(d, k, SIM_WRITE);
    k->call = ++d->calls;
    sim_conn_speak(d, sim_conn_of(d, k), SIM_MSG_WRITE, k->call, &b);
}

/* Somebody was faster. So many of those who meet at a lock try again at other
 * times. */
static void conflict(struct sim_driver *d, struct sim_worker *k)
{
    int64_t us = PAUSE_US;
    for (int i = 0; i < k->conflicts && us < PAUSE_MAX_US; i++) {
        us *= 2;
    }
    snib__snapshot_again(&k->s);
    if (++k->conflicts ==
        CONFLICTS_MAX) { /* others on its list want to go on */
        in_vain(d, k, true);
        return;
    }
    us = us / 2 + (int64_t)snib__rng_below(&d->rng, (uint64_t)us);
    k->phase = SIM_REST;
    k->due = snib__sooner(
        snib__after(sim_driver_now(d), (snib_duration){us * 1000}), k->limit);
}

/* Begin anew with each of them alone. */
static void part(struct sim_worker *k)
{
    k->apart = true;
    while (k->count) {
        snib__list_push_front(&k->list, &k->r[--k->count]->link);
    }
    k->phase = SIM_IDLE;
    k->due = SNIB__NEVER;
}

static void decide(struct sim_driver *d, struct sim_worker *k)
{
    switch (snib__snapshot_decide(&k->s)) {
    case SNIB__SNAPSHOT_ANSWERED:
        sim_step_looked(d, k);
        end_step(k);
        break;
    case SNIB__SNAPSHOT_WRITE:
        send_write(d, k);
        break;
    case SNIB__SNAPSHOT_FETCH:
        send_fetch(d, k);
        break;
    case SNIB__SNAPSHOT_APART:
        part(k);
        break;
    }
}

/* -- what it hears --------------------------------------------------------- */

void sim_worker_hears(struct sim_driver *d, struct sim_worker *k,
                      enum sim_message what, int64_t call, struct sim_reader *r)
{
    if (call != k->call || (k->phase != SIM_FETCH && k->phase != SIM_WRITE)) {
        return; /* nobody waits for it any more */
    }
    if (what == SIM_MSG_ROWS) {
        sim_rows_message(k, r);
        decide(d, k);
    } else if (what == SIM_MSG_UNFIT) {
        snib__snapshot_again(&k->s);
        refuse(k, (snib_err)sim_get(r), "the table refuses");
    } else if (sim_get(r)) { /* applied */
        snib__snapshot_written(&k->s);
        end_step(k);
    } else {
        conflict(d, k);
    }
}

void sim_worker_up(struct sim_driver *d, struct sim_worker *k)
{
    if (k->phase == SIM_CONNECT) {
        send_fetch(d, k);
    }
}

void sim_worker_cut(struct sim_driver *d, struct sim_worker *k)
{
    if (k->phase == SIM_WRITE) {
        lose(k);
    } else if (k->phase == SIM_FETCH || k->phase == SIM_CONNECT) {
        in_vain(d, k, false);
    }
}

/* Its phase has come to its end. */
static void phase_is_over(struct sim_driver *d, struct sim_worker *k)
{
    bool late = snib__reached(sim_driver_now(d), k->limit);
    if (!late && (k->phase == SIM_FETCH || k->phase == SIM_WRITE)) {
        sim_conn_shut(d, sim_conn_of(d, k)); /* the table is silent */
    }
    switch (k->phase) {
    case SIM_IDLE:
        break;
    case SIM_CONNECT:
        in_vain(d, k, false);
        break;
    case SIM_FETCH:
        in_vain(d, k, late);
        break;
    case SIM_WRITE:
        lose(k);
        break;
    case SIM_REST:
        if (late) {
            in_vain(d, k, true);
        } else {
            send_fetch(d, k);
        }
        break;
    }
}

/* -- steps ----------------------------------------------------------------- */

/* May this request be in one step with those that are in it? A step ends by the
 * first limit of its requests, so those that somebody waits for have the same
 * one; but for several locks as one, which are never parted. */
static bool belongs(const struct sim_worker *k, const struct snib__request *r)
{
    const struct snib__request *first = k->r[0];
    if (!k->count) {
        return true;
    }
    if (k->apart || k->count == SNIB__SNAPSHOT_MAX ||
        !sim_changes_claims(first) || !sim_changes_claims(r) ||
        r->background != first->background ||
        sim_batch_of(r) != sim_batch_of(first) ||
        (!r->background && !sim_batch_of(r) &&
         r->exec.patience.ns != first->exec.patience.ns)) {
        return false;
    }
    for (uint32_t i = 0; i < k->count; i++) {
        if (sim_same_lock(k->r[i], r)) {
            return false;
        }
    }
    return true;
}

static void next_step(struct sim_driver *d, struct sim_worker *k)
{
    struct snib__link *l;
    k->limit = SNIB__NEVER;
    k->conflicts = 0;
    while (!snib__list_empty(&k->list) &&
           belongs(k, sim_request(snib__list_first(&k->list)))) {
        l = snib__list_pop(&k->list);
        k->r[k->count++] = sim_request(l);
        k->limit = snib__sooner(k->limit, sim_request(l)->exec.patience);
    }
    if (!sim_changes_claims(k->r[0])) {
        refuse(k, SNIB_ERR_UNSUPPORTED, "this table has locks only");
        return;
    }
    snib__snapshot_begin(&k->s, k->r, k->count);
    send_fetch(d, k);
}

void sim_worker_turn(struct sim_driver *d, struct sim_worker *k)
{
    if (k->count && snib__reached(sim_driver_now(d), k->due)) {
        phase_is_over(d, k);
    }
    while (!k->count && !snib__list_empty(&k->list)) {
        next_step(d, k);
    }
}

/* -- what it has ----------------------------------------------------------- */

bool sim_worker_is_busy(const struct sim_worker *k)
{
    return k->count || !snib__list_empty(&k->list) ||
           !snib__list_empty(&k->done);
}
