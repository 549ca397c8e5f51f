/* api/elect.c — leader election on a mutex.
 *
 * The lock does the work: its grant is the term, its token the term's number.
 * This file adds what a mutex has not: one record of whether this candidate
 * leads (several threads may ask), and changes that are told in order.
 *
 * Telling in order. The thread that campaigned tells LEADER, the background
 * thread tells AT_RISK and LOST, the thread that resigns tells FOLLOWER. They
 * may meet: a short lease can be lost before the campaign's thread runs again.
 * So a change goes into a queue under `mu`. The first thread with news of a
 * grant enters LEADER before its own news. One thread at a time empties the
 * queue, holding no lock. The queue is bounded: when it is full the latest
 * state replaces the one before it.
 *
 * Ending a campaign from outside. The campaign's thread waits inside
 * snib_acquire; its acquisition is taken away as if the handle were freed.
 * Between "campaigning" and the acquisition there is a moment in which there is
 * nothing to take away, so this is tried again until the campaign has ended.
 *
 * A campaign that was started has no thread (elect_start.c): `campaigning` is
 * set until its event was taken.
 *
 * Each campaign is an owner of its own. A term that another thread is resigning
 * is held until its release has been answered: the same owner would re-enter
 * that term.
 *
 * Forbidden: calling into the lock or the callback under `mu`; telling while
 * `campaigning` is set, since the callback may resign, and resigning waits for
 * the campaign's end. */
#include "api/elect_i.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

enum { CANCEL_AGAIN_MS = 5 }; /* between two attempts to end a campaign */

const char *snib_elect_state_text(snib_elect_state state)
{
    switch (state) {
    case SNIB_ELECT_FOLLOWER:
        return "follower";
    case SNIB_ELECT_LEADER:
        return "leader";
    case SNIB_ELECT_LEADER_AT_RISK:
        return "at risk";
    case SNIB_ELECT_LEADER_LOST:
        return "lost";
    }
    return "?";
}

/* -- the story ------------------------------------------------------------ */

void snib__elect_note(struct snib_elect *e, snib_elect_state state,
                      int64_t term)
{
    if (e->chapters && e->story[e->chapters - 1].state == state &&
        e->story[e->chapters - 1].term == term) {
        return;
    }
    if (e->chapters == SNIB__ELECT_STORY_MAX) {
        e->chapters--;
    }
    e->story[e->chapters++] = (struct snib__chapter){state, term};
}

void snib__elect_tell(struct snib_elect *e)
{
    while (!e->telling && e->chapters) {
        struct snib__chapter next = e->story[0];
        e->chapters--;
        memmove(e->story, e->story + 1, e->chapters * sizeof e->story[0]);
        if (!e->on_change) {
            continue;
        }
        e->telling = true;
        pthread_mutex_unlock(&e->mu);
        e->on_change(e->data, next.state, next.term);
        pthread_mutex_lock(&e->mu);
        e->telling = false;
    }
}

void snib__elect_begin_term(struct snib_elect *e, struct snib_grant grant)
{
    if (e->grant.ticket == grant.ticket) {
        return;
    }
    e->grant = grant;
    e->changes++;
    snib__elect_note(e, SNIB_ELECT_LEADER, grant.token);
    pthread_cond_broadcast(&e->changed);
}

void snib__elect_end_term(struct snib_elect *e)
{
    e->gone = e->grant.ticket;
    e->grant = (struct snib_grant){0};
    e->changes++;
    pthread_cond_broadcast(&e->changed);
}

/* The lock's on_change. */
static void elect_on_lock_change(void *data, struct snib_grant grant,
                                 snib_state state, snib_cause reason)
{
    struct snib_elect *e = data;
    (void)reason;
    pthread_mutex_lock(&e->mu);
    if (grant.ticket != e->gone) {
        snib__elect_begin_term(e, grant);
        switch (state) {
        case SNIB_STATE_HELD:
            snib__elect_note(e, SNIB_ELECT_LEADER, grant.token);
            break;
        case SNIB_STATE_AT_RISK:
            snib__elect_note(e, SNIB_ELECT_LEADER_AT_RISK, grant.token);
            break;
        case SNIB_STATE_LOST:
            snib__elect_note(e, SNIB_ELECT_LEADER_LOST, grant.token);
            break;
        case SNIB_STATE_RELEASED:
            break;
        }
        snib__elect_tell(e);
    }
    pthread_mutex_unlock(&e->mu);
}

/* -- new and free --------------------------------------------------------- */

static snib_err elect_read_options(const struct snib_elect_options *given,
                                   struct snib_elect_options *ret,
                                   struct snib_error *reterr)
{
    return snib__options_read(given, sizeof *ret, "elect options", ret, reterr);
}

static void elect_init_locks(struct snib_elect *e)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&e->mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&e->changed, &attr);
    pthread_condattr_destroy(&attr);
}

snib_err snib_elect_new(struct snib_client *client, const char *name,
                        const struct snib_elect_options *options,
                        struct snib_elect **ret, struct snib_error *reterr)
{
    struct snib_elect_options o;
    struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
    *ret = NULL;
    snib_err err = snib__client_check(client, reterr);
    if (!err) {
        err = elect_read_options(options, &o, reterr);
    }
    if (err) {
        return err;
    }
    struct snib_elect *e = snib__alloc(sizeof *e);
    if (!e || (o.id && !(e->id = snib__strdup(o.id)))) {
        snib__free(e);
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    elect_init_locks(e);
    e->client = client;
    e->on_change = o.on_change;
    e->data = o.data;
    lo.name_size = o.name_size;
    lo.lease_ms = o.lease_ms;
    lo.confirm = true; /* a term begins with a whole lease             */
    lo.no_local_hand_over =
        true; /* each term is a grant of its own at the store */
    lo.on_change = elect_on_lock_change;
    lo.data = e;
    err = snib_lock_new(client, name, &lo, &e->lock, reterr);
    if (err) {
        snib_elect_free(e);
        return err;
    }
    *ret = e;
    return snib__ok(reterr);
}

void snib_elect_free(struct snib_elect *e)
{
    if (!e) {
        return;
    }
    for (struct snib__elect_op *o = e->started; o; o = o->next) {
        o->elect = NULL; /* its event comes all the same */
    }
    snib__elect_unwatch(e);
    snib_lock_free(e->lock); /* waits for elect_on_lock_change */
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->mu);
    snib__free(e->id);
    snib__free(e);
}

/* -- waiting -------------------------------------------------------------- */

/* With mu held: wait until something changes here, or until ns. */
void snib__elect_wait_until(struct snib_elect *e, int64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / SNIB__NS_OF_S),
                         .tv_nsec = (long)(ns % SNIB__NS_OF_S)};
    pthread_cond_timedwait(&e->changed, &e->mu, &t);
}

/* -- campaign and resign --------------------------------------------------- */

void snib__elect_give_back(struct snib_elect *e, struct snib_grant grant)
{
    struct snib__step s;
    bool awaited;
    snib__step_begin(&s, e->client);
    (void)snib__hold_release(&s, e->lock, grant.ticket, 0, NULL, NULL, &awaited,
                             NULL);
    snib__step_act(&s);
    snib__step_end(&s);
}

bool snib__elect_leads(struct snib_elect *e, int64_t *ret_term)
{
    struct snib_grant grant = e->grant;
    if (!grant.ticket) {
        return false;
    }
    pthread_mutex_unlock(&e->mu);
    bool held = snib_grant_held(e->lock, grant);
    if (!held) {
        snib__elect_give_back(e, grant);
    }
    pthread_mutex_lock(&e->mu);
    if (e->grant.ticket != grant.ticket) {
        return false; /* resigned meanwhile */
    }
    if (held) {
        *ret_term = grant.token;
    } else {
        snib__elect_end_term(e);
    }
    return held;
}

snib_err snib__elect_stands(struct snib_elect *e, struct snib_error *reterr)
{
    if (e->campaigning) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "another campaign of this candidate is under way");
    }
    e->campaigning = true;
    return SNIB_ERR_OK;
}

static snib_err elect_stand(struct snib_elect *e, int64_t wait_ms,
                            struct snib_grant *ret, struct snib_error *reterr)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.owner = snib_owner_new(); /* so that any thread may resign */
    o.reason = e->id;
    return snib_try_for(e->lock, wait_ms, &o, ret, reterr);
}

snib_err snib_elect_try_for(struct snib_elect *e, int64_t wait_ms,
                            int64_t *ret_term, struct snib_error *reterr)
{
    struct snib_grant grant;
    snib_err err = snib__may_call(e->client, reterr);
    if (err) {
        return err;
    }
    pthread_mutex_lock(&e->mu);
    err = snib__elect_stands(e, reterr);
    if (err) {
        pthread_mutex_unlock(&e->mu);
        return err;
    }
    if (!snib__elect_leads(e, ret_term)) {
        pthread_mutex_unlock(&e->mu);
        err = elect_stand(e, wait_ms, &grant, reterr);
        pthread_mutex_lock(&e->mu);
        if (!err) {
            snib__elect_begin_term(e, grant);
            *ret_term = grant.token;
        }
    }
    e->campaigning = false;
    pthread_cond_broadcast(&e->changed);
    snib__elect_tell(e);
    pthread_mutex_unlock(&e->mu);
    return err ? err : snib__ok(reterr);
}

snib_err snib_elect_campaign(struct snib_elect *e, int64_t *ret_term,
                             struct snib_error *reterr)
{
    return snib_elect_try_for(e, SNIB__NO_LIMIT, ret_term, reterr);
}

snib_err snib_elect_try(struct snib_elect *e, int64_t *ret_term,
                        struct snib_error *reterr)
{
    return snib_elect_try_for(e, 0, ret_term, reterr);
}

/* Take the waiting acquisition away. */
static void elect_cancel(struct snib_lock *lock)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    snib__step_begin(&s, c);
    SNIB__LIST_EACH_SAFE (l, next, &lock->holds) {
        struct snib__hold *h = SNIB__CONTAINER(l, struct snib__hold, link);
        struct snib__acquisition *acq =
            snib__engine_acquisition(c->engine, h->ticket);
        if (acq && acq->state == SNIB__ACQ_WAITING && (h->call || h->op)) {
            if (h->call) {
                snib__call_cancel(&s, acq, SNIB_ERR_CANCELLED);
            } else {
                snib__op_give_up(&s, acq, SNIB_ERR_CANCELLED);
            }
            break; /* there is no other: one campaign at a time */
        }
    }
    snib__step_act(&s);
    snib__step_end(&s);
}

struct snib__elect_op *snib__elect_started(const struct snib_elect *e)
{
    struct snib__elect_op *o = e->started;
    while (o && !o->campaign) {
        o = o->next;
    }
    return o;
}

void snib__elect_quit(struct snib_elect *e, struct snib__elect_op *campaign)
{
    campaign->quit = true;
    pthread_mutex_unlock(&e->mu);
    elect_cancel(e->lock);
    pthread_mutex_lock(&e->mu);
}

/* With mu held. True: there was a campaign to end. One that was started ends
 * with its event; nobody waits for that here. */
static bool elect_end_campaign(struct snib_elect *e)
{
    bool any = e->campaigning;
    while (e->campaigning) {
        struct snib__elect_op *started = snib__elect_started(e);
        if (started) {
            snib__elect_quit(e, started);
            return true;
        }
        pthread_mutex_unlock(&e->mu);
        elect_cancel(e->lock);
        pthread_mutex_lock(&e->mu);
        if (e->campaigning) {
            snib__elect_wait_until(e, snib__elect_now() +
                                          CANCEL_AGAIN_MS * SNIB__NS_OF_MS);
        }
    }
    return any;
}

snib_err snib__elect_nothing(struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_NOT_HELD,
                      "this candidate neither leads nor campaigns");
}

snib_err snib_elect_resign(struct snib_elect *e, struct snib_error *reterr)
{
    snib_err err = snib__may_call(e->client, reterr);
    if (err) {
        return err;
    }
    pthread_mutex_lock(&e->mu);
    bool campaign = elect_end_campaign(e);
    struct snib_grant grant = e->grant;
    if (!grant.ticket) {
        pthread_mutex_unlock(&e->mu);
        return campaign ? snib__ok(reterr) : snib__elect_nothing(reterr);
    }
    /* This comes before the release: nobody may believe in the term any
     * more. */
    snib__elect_end_term(e);
    snib__elect_note(e, SNIB_ELECT_FOLLOWER, grant.token);
    pthread_mutex_unlock(&e->mu);
    err = snib_release(e->lock, grant, reterr);
    pthread_mutex_lock(&e->mu);
    e->changes++; /* for watchers that saw it held after elect_end_term */
    pthread_cond_broadcast(&e->changed);
    snib__elect_tell(e);
    pthread_mutex_unlock(&e->mu);
    return err;
}

/* -- looking at oneself ---------------------------------------------------- */

struct snib_grant snib__elect_grant(struct snib_elect *e)
{
    pthread_mutex_lock(&e->mu);
    struct snib_grant grant = e->grant;
    pthread_mutex_unlock(&e->mu);
    return grant;
}

static struct snib_elect_status elect_now(struct snib_elect *e)
{
    struct snib_status status;
    struct snib_elect_status now = {.state = SNIB_ELECT_FOLLOWER};
    if (snib__client_check(e->client, NULL)) {
        return now;
    }
    struct snib_grant grant = snib__elect_grant(e);
    snib_grant_status(e->lock, grant, &status, sizeof status);
    switch (status.state) {
    case SNIB_STATE_HELD:
        now.state = SNIB_ELECT_LEADER;
        break;
    case SNIB_STATE_AT_RISK:
        now.state = SNIB_ELECT_LEADER_AT_RISK;
        break;
    case SNIB_STATE_LOST:
        now.state = SNIB_ELECT_LEADER_LOST;
        break;
    case SNIB_STATE_RELEASED:
        return now;
    }
    now.cause = status.cause;
    now.term = grant.token;
    now.left_ms = status.left_ms;
    return now;
}

void snib_elect_status(struct snib_elect *e, struct snib_elect_status *ret,
                       size_t ret_size)
{
    struct snib_elect_status now = elect_now(e);
    snib__result_write(&now, sizeof now, ret, ret_size);
}

bool snib_elect_leading(struct snib_elect *e)
{
    if (snib__client_check(e->client, NULL)) {
        return false;
    }
    return snib_grant_held(e->lock, snib__elect_grant(e));
}

int snib_elect_fd(struct snib_elect *e)
{
    if (snib__client_check(e->client, NULL)) {
        errno = ENOENT;
        return -1;
    }
    return snib_grant_fd(e->lock, snib__elect_grant(e));
}
