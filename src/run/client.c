/* run/client.c — opening and ending a client.
 *
 *   open ----> closed ----> stopped ----> (freed)
 *        close: acquires that wait end with CLOSED, new ones are refused;
 *               what is held stays held and renewed, releases work
 *        stop:  what is held is released; threads end; connections are shut
 *               down. Their descriptors stay: a call of another thread that is
 *               answered may be about to read one, or to notify its waker
 *        free:  everything else, handles that were not freed included
 *
 * In a forked child only free does anything. It must not disturb the parent: no
 * byte is sent, no file of a store is unlinked or unlocked. The client's
 * descriptors are closed. Memory is given back on two conditions: no other
 * thread of the parent was inside at the fork (else the engine may be half way
 * through a step), and the store keeps all it has in memory of its own.
 * Otherwise it stays until the child's exec or exit. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/url.h"
#include "run/inside.h"
#include "run/testing.h"
#include "store/memory/memory.h"

enum { REQUEST_MS = 2000, REQUEST_MIN_MS = 10, REQUEST_MAX_MS = 600000 };

/* Keep the engine's log lines until the mutex is free. */
static void client_keep_log(void *data, int level, const char *text)
{
    struct snib_client *c = data;
    size_t n = strlen(text);
    struct snib__log_line *line = snib__alloc(sizeof *line + n + 1);
    if (line) { /* without memory the line is dropped */
        line->level = level;
        memcpy(line->text, text, n + 1);
        snib__list_push(&c->logs, &line->link);
    }
}

static void client_init(struct snib_client *c)
{
    pthread_mutex_init(&c->mu, NULL);
    pthread_cond_init(&c->told, NULL);
    pthread_cond_init(&c->work, NULL);
    c->pid = snib__fork_here();
    c->epoll = c->timer = c->steps = c->event_fd = -1;
    c->armed = SNIB__NEVER;
    snib__roles_init(&c->roles, SNIB__SOCKETS);
    snib__sockets_init(c);
    snib__list_init(&c->locks);
    snib__list_init(&c->pending);
    snib__list_init(&c->releasing);
    snib__list_init(&c->events);
    snib__list_init(&c->notices);
    snib__list_init(&c->logs);
    snib__list_init(&c->executed);
    snib__list_init(&c->jobs);
    for (size_t i = 0; i < sizeof c->retired / sizeof c->retired[0]; i++) {
        c->retired[i] = -1;
    }
}

static snib_err client_read_options(const struct snib_client_options *o,
                                    struct snib_client *c,
                                    struct snib_error *reterr)
{
    if (o && o->size != sizeof *o) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "client options of size %zu, expected %zu: start "
                          "from SNIB_INIT(snib_client_options)",
                          o->size, sizeof *o);
    }
    int64_t ms = o && o->request_ms ? o->request_ms : REQUEST_MS;
    if (ms < REQUEST_MIN_MS || ms > REQUEST_MAX_MS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "request_ms is %lld; expected %d to %d",
                          (long long)ms, REQUEST_MIN_MS, REQUEST_MAX_MS);
    }
    if (o && o->identity &&
        !snib__identity_read(o->identity, strlen(o->identity), c->id)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "identity is not 32 hexadecimal digits");
    }
    c->request = snib__ms(ms);
    c->pull = o && o->pull;
    c->log = o ? o->log : NULL;
    c->log_data = o ? o->data : NULL;
    return SNIB_ERR_OK;
}

/* Argument, else $SNIB_URL, else the embedded file, which sqlite: alone means,
 * too: its path is told of either. Whoever runs a set-uid program does not
 * choose where its user's files are made. */
static snib_err client_choose_url(const char *given, char **ret,
                                  struct snib_error *reterr)
{
    const char *env = secure_getenv("SNIB_URL");
    const char *url = given ? given : env && *env ? env : NULL;
    bool alone = url && !strcasecmp(url, "sqlite:");
    if (!url || (alone && snib__store_find("sqlite"))) {
        return snib__default_url(ret, reterr);
    }
    *ret = snib__strdup(url);
    return *ret ? SNIB_ERR_OK : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

static snib_err client_open_engine(struct snib_client *c,
                                   const struct snib__url *url,
                                   const struct snib_client_options *o,
                                   struct snib_error *reterr)
{
    const struct snib__registered *store = snib__store_find(url->scheme);
    struct snib__about about;
    if (!store &&
        (!strcmp(url->scheme, "rediss") || !strcmp(url->scheme, "redlocks"))) {
        return snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                          "there is no store %s: in this build, which speaks "
                          "to Redis without TLS only",
                          url->scheme);
    }
    if (!store) {
        char offered[200];
        snib__stores_offered(offered, sizeof offered);
        return snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                          "there is no store %s: in this build; expected %s",
                          url->scheme, offered);
    }
    struct snib__engine_config config = {
        .ops = store->ops,
        .blocking = store->blocking,
        .url = url,
        .client = o && o->identity ? c->id : NULL,
        .request = c->request,
        .self = &about,
        .wall_offset_ns = snib__wall_offset(),
        .deadlocks = !(o && o->no_deadlock_check),
        .log = c->log ? client_keep_log : NULL,
        .log_data = c};
    snib__self_about(&about, o ? o->program : NULL, o ? o->reason : NULL);
    about.leashed = o && o->leashed;
    snib_err err = snib__self_seed(&config.seed, reterr);
    if (err) {
        return err;
    }
    err = snib__engine_open(&config, &c->engine, reterr);
    if (err) {
        return err;
    }
    c->out = snib__engine_out(c->engine);
    snib__engine_client_id(c->engine, c->id);
    snib__engine_first_ticket(c->engine, (uint32_t)c->id[1]);
    snprintf(c->id_text, sizeof c->id_text, "%016" PRIx64 "%016" PRIx64,
             c->id[0], c->id[1]);
    c->blocking = store->blocking;
    if (c->blocking) {
        (void)snib__blocking_ops_of(snib__engine_store(c->engine),
                                    &c->instance);
        c->quick = c->blocking->caps & SNIB__IN_PROCESS;
    }
    if (c->blocking == &snib__memory_ops) {
        snib_instant now;
        c->virtual_clock = snib__memory_clock(c->instance, &now);
    }
    return SNIB_ERR_OK;
}

/* Free what was opened. No thread runs and nobody is inside. */
static void client_free_parts(struct snib_client *c, bool engine_too)
{
    struct snib__link *l;
    struct snib__step s = {.c = c};
    while ((l = snib__list_pop(&c->locks))) {
        struct snib_lock *lock = SNIB__CONTAINER(l, struct snib_lock, link);
        struct snib__link *h;
        while ((h = snib__list_pop(&lock->holds))) {
            struct snib__hold *hold =
                SNIB__CONTAINER(h, struct snib__hold, link);
            hold->next = NULL; /* each is on the list of its own handle */
            snib__holds_free(&s, hold);
        }
        snib__free(lock);
    }
    struct snib__list *ops[] = {&c->pending, &c->releasing, &c->events};
    for (int i = 0; i < 3; i++) {
        while ((l = snib__list_pop(ops[i]))) {
            struct snib__op *op = SNIB__CONTAINER(l, struct snib__op, link);
            if (op->hold && i == 1) {
                snib__holds_free(&s, op->hold);
            }
            snib__free(op);
        }
    }
    while ((l = snib__list_pop(&c->logs))) {
        snib__free(SNIB__CONTAINER(l, struct snib__log_line, link));
    }
    snib__sockets_free(c);
    snib__loop_close(c);
    snib__retired_close(c);
    if (c->event_fd >= 0) {
        close(c->event_fd);
    }
    if (engine_too) {
        snib__engine_free(c->engine);
    }
    snib__free(c->url);
    snib__free(c->identity);
}

snib_err snib_client_open(const struct snib_client_options *options,
                          struct snib_client **ret, struct snib_error *reterr)
{
    char *text = NULL;
    struct snib__url *url = NULL;
    *ret = NULL;
    struct snib_client *c = snib__alloc(sizeof *c);
    if (!c) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    client_init(c);
    snib_err err = client_read_options(options, c, reterr);
    if (!err) {
        err = client_choose_url(options ? options->url : NULL, &text, reterr);
    }
    if (!err) {
        err = snib__url_parse(text, &url, reterr);
    }
    if (!err && !(c->url = snib__strdup(url->safe))) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (!err) {
        err = client_open_engine(c, url, options, reterr);
    }
    if (!err && !(c->identity = snib__store_identity(url))) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (!err) {
        snib__socket_notifier(c);
    }
    if (!err && c->pull) {
        err = snib__loop_open(c, reterr);
    }
    if (text) {
        memset(text, 0, strlen(text)); /* a password may stand in it */
        __asm__ volatile("" : : "r"(text) : "memory");
    }
    snib__free(text);
    snib__url_free(url);
    if (err) {
        client_free_parts(c, true);
        snib__free(c);
        return err;
    }
    *ret = c;
    return snib__ok(reterr);
}

/* -- ending ---------------------------------------------------------------- */

/* The direct request may have changed something: it may have been sent, and
 * nobody will hear of its outcome. */
static void client_end_direct(struct snib__step *s, struct snib__call *call)
{
    const struct snib__direct *q = call->direct;
    snib_err err = SNIB_ERR_CLOSED;
    if (snib__verb_changes(q->verb, q->op)) {
        err = snib__fail(&call->error, SNIB_ERR_UNKNOWN,
                         "the client was closed before the store had answered");
    }
    snib__engine_direct_leave(s->c->engine, call->direct);
    snib__call_settle(s, call, err);
}

static void client_end_waiting_calls(struct snib__step *s)
{
    struct snib_client *c = s->c;
    SNIB__LIST_EACH_SAFE (l, next, &c->roles.waiting) {
        struct snib__call *call = SNIB__CONTAINER(l, struct snib__call, w.link);
        if (call->kind == SNIB__CALL_ACQUIRE) {
            struct snib__acquisition *acq =
                snib__engine_acquisition(c->engine, call->ticket);
            if (acq && acq->user && acq->state == SNIB__ACQ_WAITING) {
                snib__call_quit(s, acq, SNIB_ERR_CLOSED);
            } else if (acq && acq->user && c->stopped &&
                       acq->state == SNIB__ACQ_LEAVING) {
                snib__call_cut(s, acq);
            } /* else its news are on the way */
        } else if (call->kind == SNIB__CALL_DIRECT) {
            client_end_direct(s, call);
        } else if (call->kind == SNIB__CALL_ROOM) {
            snib__call_settle(s, call, SNIB_ERR_CLOSED);
        }
    }
}

void snib_client_close(struct snib_client *c)
{
    struct snib__step s;
    if (!c || snib__client_check(c, NULL)) {
        return;
    }
    snib__step_begin(&s, c);
    if (!c->closed) {
        c->closed = true;
        snib__step_act(&s);
        client_end_waiting_calls(&s);
        snib__ops_close(&s);
        snib__step_act(&s);
    }
    snib__step_end(&s);
}

void snib_client_stop(struct snib_client *c)
{
    struct snib__step s;
    if (!c || snib__client_check(c, NULL)) {
        return;
    }
    snib_client_close(c);
    snib__step_begin(&s, c);
    if (!c->pull && c->telling && pthread_equal(c->teller, pthread_self())) {
        snib__step_end(
            &s); /* from on_change: the background thread cannot join itself */
        return;
    }
    if (c->stopping) { /* its threads are joined once */
        while (!c->ended) {
            pthread_cond_wait(&c->told, &c->mu);
        }
        snib__step_end(&s);
        return;
    }
    c->stopping = true;
    snib__engine_close(c->engine, s.now);
    snib__wait_idle(&s);
    snib__wait_told(&s);
    c->stopped = true;
    client_end_waiting_calls(&s);
    snib__ops_close(&s);
    snib__step_act(&s);
    snib__step_end(&s);
    snib__resolve_cut(c);
    snib__background_join(c);
    snib__worker_join(c);
    snib__step_begin(&s, c);
    c->background_on = c->worker_on =
        false; /* late callers may still read these */
    snib__sockets_end(c);
    snib__loop_end(c);
    c->ended = true;
    pthread_cond_broadcast(&c->told);
    snib__step_end(&s);
}

static void client_free_in_child(struct snib_client *c)
{
    bool quiet = pthread_mutex_trylock(&c->mu) == 0 && !c->executing &&
                 !c->batches; /* whose operations are on a thread's stack */
    c->in_child = true;
    if (quiet && !c->blocking) {
        client_free_parts(c, true);
        snib__free(c);
        return;
    }
    for (uint32_t i = 0; i < SNIB__CONNS; i++) {
        if (c->sock[i].fd >= 0) {
            close(c->sock[i].fd);
        }
        if (c->sock[i].waker >= 0) {
            close(c->sock[i].waker);
        }
    }
    snib__loop_close(c);
    snib__retired_close(c);
    if (c->event_fd >= 0) {
        close(c->event_fd);
    }
}

void snib_client_free(struct snib_client *c)
{
    if (!c) {
        return;
    }
    if (snib__client_check(c, NULL)) {
        client_free_in_child(c);
        return;
    }
    snib_client_stop(c);
    client_free_parts(c, true);
    pthread_cond_destroy(&c->told);
    pthread_cond_destroy(&c->work);
    pthread_mutex_destroy(&c->mu);
    snib__free(c);
}

/* -- asking about it ------------------------------------------------------- */

const char *snib_client_url(const struct snib_client *c)
{
    return c->url;
}

void snib_client_store_status(struct snib_client *c,
                              struct snib_store_status *ret)
{
    struct snib__step s;
    struct snib__store_state is;
    *ret = (struct snib_store_status){.error = SNIB_ERR_FORKED};
    if (snib__client_check(c, NULL)) {
        snprintf(ret->text, sizeof ret->text, "%s",
                 snib_err_text(SNIB_ERR_FORKED));
        return;
    }
    snib__step_begin(&s, c);
    snib__engine_store_state(c->engine, s.now, &is);
    ret->reachable = is.reachable;
    ret->error = is.err;
    ret->for_ms = is.since.ns && is.since.ns < s.now.ns
                      ? snib__to_ms((snib_duration){s.now.ns - is.since.ns})
                      : 0;
    ret->nodes = is.nodes;
    ret->nodes_reachable = is.nodes_reachable;
    memcpy(ret->text, is.text, sizeof ret->text);
    snib__step_end(&s);
}

const char *snib_client_id(const struct snib_client *c)
{
    return c->id_text;
}

void snib__client_id(struct snib_client *c, uint64_t ret[2])
{
    ret[0] = c->id[0];
    ret[1] = c->id[1];
}

void *snib__client_memory(struct snib_client *c)
{
    return !snib__client_check(c, NULL) && c->blocking == &snib__memory_ops
               ? c->instance
               : NULL;
}

static void client_wake_to_check(struct snib__step *s)
{
    SNIB__LIST_EACH (l, &s->c->roles.waiting) {
        snib__call_wake(s, SNIB__CONTAINER(l, struct snib__call, w.link));
    }
}

void snib__client_kick(struct snib_client *c)
{
    struct snib__step s;
    if (snib__client_check(c, NULL)) {
        return;
    }
    snib__step_begin(&s, c);
    if (!c->stopped) {
        snib__engine_tick(c->engine, s.now);
        snib__ops_due(&s);
        snib__step_act(&s);
        while (c->quick && snib__step_exec(&s)) {
        }
        client_wake_to_check(&s);
        s.kick = true;
    }
    snib__step_end(&s);
}

void snib__client_counts(struct snib_client *c, struct snib__counts *counts,
                         uint32_t ret_awaited[SNIB__CONNS],
                         int ret_reader[SNIB__CONNS])
{
    struct snib__step s;
    snib__step_begin(&s, c);
    if (counts) {
        snib__engine_counts(c->engine, counts);
    }
    for (uint32_t i = 0; i < SNIB__CONNS; i++) {
        if (ret_awaited) {
            ret_awaited[i] = c->out->conn[i].awaited;
        }
        if (ret_reader) {
            ret_reader[i] = c->roles.sock[i].reader;
        }
    }
    snib__step_end(&s);
}
