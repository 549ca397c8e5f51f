/* sim/driver.c — the blocking store of a client at a table: what such a store's
 * folder does in the library, with its calls as messages.
 *
 * One worker executes all that the engine wants, or there are two, one for each
 * session: then the production code shares the requests out (core/sharing.c),
 * as for a library across a network. What no worker has come to by its limit is
 * answered at its limit.
 *
 * The third connection is the notifier, on which the table tells of grants. It
 * is asked for at once, and again whenever it is gone. When it is there again,
 * all that waits and all that is held is asked for, since notices may have been
 * lost. When it dies unseen, polls find out. */
#include <stdlib.h>
#include <string.h>

#include "core/blocking.h"
#include "sim/driver.h"

enum { AGAIN_MS = 100 };

/* -- life ------------------------------------------------------------------ */

static _Thread_local struct {
    struct sim_world *w;
    int client;
} opening;

static const struct snib__blocking_ops driver_ops, driver_ops_of_two;

const struct snib__blocking_ops *sim_driver_opens(struct sim_world *w,
                                                  int client)
{
    opening.w = w;
    opening.client = client;
    return w->opt.workers == SIM_WORKERS ? &driver_ops_of_two : &driver_ops;
}

static snib_err driver_open(const struct snib__store_config *config, void **ret,
                            struct snib_error *reterr)
{
    struct sim_driver *d = calloc(1, sizeof *d);
    (void)reterr;
    if (!d) {
        abort();
    }
    d->w = opening.w;
    d->client = opening.client;
    d->out = config->out;
    d->request = config->request;
    d->workers = d->w->opt.workers;
    memcpy(d->id, config->client, sizeof d->id);
    snib__rng_init(&d->rng, &config->seed);
    for (int i = 0; i < SIM_WORKERS; i++) {
        sim_worker_init(d, &d->worker[i]);
    }
    for (int i = 0; i < SIM_CONNS; i++) {
        snib__buf_init(&d->in[i], SIM_BUF_MAX);
        if (snib__conn_add(d->out, SNIB__PLAIN, "table")) {
            abort();
        }
    }
    d->w->client[d->client].driver = d;
    *ret = d;
    return SNIB_ERR_OK;
}

static void driver_free(void *instance)
{
    struct sim_driver *d = instance;
    for (int i = 0; i < SIM_WORKERS; i++) {
        snib__snapshot_free(&d->worker[i].s);
    }
    for (int i = 0; i < SIM_CONNS; i++) {
        snib__buf_free(&d->in[i]);
    }
    d->w->client[d->client].driver = NULL;
    free(d);
}

/* -- the notifier --------------------------------------------------------- */

static void notifier_asks(struct sim_driver *d)
{
    struct snib__buf b;
    char notifier[SIM_ID + 1];
    sim_id_text(d->id, notifier);
    snib__buf_init(&b, SIM_BUF_MAX);
    sim_put_bytes(&b, notifier, SIM_ID);
    sim_conn_speak(d, SIM_NOTIFIER, SIM_MSG_LISTEN, ++d->calls, &b);
}

static uint64_t id_half(const uint8_t *hex)
{
    char half[17] = "";
    memcpy(half, hex, 16);
    return strtoull(half, NULL, 16);
}

static void notifier_hears(struct sim_driver *d, enum sim_message what,
                           const struct sim_reader *r)
{
    if (what == SIM_MSG_LISTENS) {
        d->missed = true;
    } else if (what == SIM_MSG_UNFIT) {
        sim_conn_shut(d, SIM_NOTIFIER);
    } else if (d->notices == SIM_NOTICES) {
        d->missed = true;
    } else {
        d->notice[d->notices][0] = id_half(r->at);
        d->notice[d->notices++][1] = id_half(r->at + 16);
    }
}

static int driver_notifier_fd(void *instance)
{
    (void)instance;
    return -1;
}

static uint32_t driver_notified(void *instance, uint64_t (*ids)[2],
                                uint32_t max)
{
    struct sim_driver *d = instance;
    uint32_t n = d->notices < max ? d->notices : max;
    if (d->missed) {
        d->missed = false;
        d->notices = 0;
        d->out->missed = true; /* grants may have been ended, too */
        return SNIB__NOTIFIED_ALL;
    }
    memcpy(ids, d->notice, n * sizeof *ids);
    memmove(d->notice, d->notice + n, (d->notices - n) * sizeof *d->notice);
    d->notices -= n;
    return n;
}

/* -- what happens on connections ------------------------------------------- */

static void forget(struct sim_driver *d, int conn)
{
    snib__buf_clear(&d->in[conn]);
    snib__buf_clear(&d->out->conn[conn]->out);
}

static void conn_opened(struct sim_driver *d, int conn)
{
    d->conn[conn] = SIM_UP;
    forget(d, conn);
    if (conn == SIM_NOTIFIER) {
        notifier_asks(d);
    } else {
        sim_worker_up(d, &d->worker[conn]);
    }
}

static void conn_closed(struct sim_driver *d, int conn)
{
    d->conn[conn] = SIM_DOWN;
    forget(d, conn);
    if (conn == SIM_NOTIFIER) {
        d->notifier_at = snib__after(sim_driver_now(d), snib__ms(AGAIN_MS));
    } else {
        sim_worker_cut(d, &d->worker[conn]);
    }
}

static void conn_bytes(struct sim_driver *d, const struct snib__input *in)
{
    struct snib__buf *b = &d->in[in->conn];
    enum sim_message what;
    int64_t call;
    struct sim_reader r;
    size_t n;
    snib__buf_add(b, in->bytes, in->size);
    while (sim_receive(b, &what, &call, &r, &n)) {
        if (in->conn == SIM_NOTIFIER) {
            notifier_hears(d, what, &r);
        } else {
            sim_worker_hears(d, &d->worker[in->conn], what, call, &r);
        }
        snib__buf_consume(b, n);
    }
}

void sim_driver_input(struct sim_world *w, int client,
                      const struct snib__input *in)
{
    static const struct snib__input notified = {.kind = SNIB__IN_NOTIFIED};
    struct sim_driver *d = w->client[client].driver;
    switch (in->kind) {
    case SNIB__IN_OPENED:
        conn_opened(d, in->conn);
        break;
    case SNIB__IN_BYTES:
        conn_bytes(d, in);
        break;
    case SNIB__IN_CLOSED:
    case SNIB__IN_REFUSED:
        conn_closed(d, in->conn);
        break;
    case SNIB__IN_NOTIFIED:
    case SNIB__IN_TICK:
    case SNIB__IN_LOGIN: /* no world has logins */
        break;
    }
    if (d->missed || d->notices) {
        snib__engine_input(w->client[client].engine, sim_driver_now(d),
                           &notified);
    }
}

/* -- workers --------------------------------------------------------------- */

static struct snib__store *store_of(const struct sim_driver *d)
{
    return snib__engine_store(d->w->client[d->client].engine);
}

/* A worker that has a list takes nothing more until all of that is back. */
static void take_lists(struct sim_driver *d)
{
    if (d->workers == 1 && !sim_worker_is_busy(&d->worker[0])) {
        snib__list_append(&d->worker[0].list, &d->out->exec);
    }
    for (int i = 0; d->workers == SIM_WORKERS && i < SIM_WORKERS; i++) {
        struct sim_worker *k = &d->worker[i];
        if (k->inside && !sim_worker_is_busy(k)) {
            k->inside = false;
            snib__blocking_returned(store_of(d), (snib__session)i);
        }
        if (!k->inside && snib__blocking_waits(store_of(d), (snib__session)i)) {
            k->inside = true;
            snib__blocking_take(store_of(d), sim_driver_now(d),
                                (snib__session)i, &k->list);
        }
    }
}

/* True: the engine was told of these. */
static bool give_back(struct sim_driver *d, struct snib__list *done)
{
    if (snib__list_empty(done)) {
        return false;
    }
    snib__engine_executed(d->w->client[d->client].engine, sim_driver_now(d),
                          done);
    return true;
}

/* Somebody waits for these, and no worker has come to them by their limit. */
static void take_late(struct sim_driver *d, struct snib__list *list,
                      struct snib__list *late)
{
    SNIB__LIST_EACH_SAFE (l, next, list) {
        struct snib__request *r = sim_request(l);
        if (!r->background &&
            snib__reached(sim_driver_now(d), r->exec.patience)) {
            sim_request_in_vain(r, true);
            snib__unlink(l);
            snib__list_push(late, l);
        }
    }
}

static bool give_back_late(struct sim_driver *d)
{
    struct snib__list late;
    snib__list_init(&late);
    take_late(d, &d->out->exec, &late);
    for (int i = 0; i < d->workers; i++) {
        take_late(d, &d->worker[i].list, &late);
    }
    return give_back(d, &late);
}

/* The earliest limit of those. */
static snib_instant earliest(const struct snib__list *list)
{
    snib_instant at = SNIB__NEVER;
    SNIB__LIST_EACH (l, (struct snib__list *)list) {
        const struct snib__request *r = sim_request(l);
        at = r->background ? at : snib__sooner(at, r->exec.patience);
    }
    return at;
}

bool sim_driver_turn(struct sim_world *w, int client)
{
    struct sim_driver *d = w->client[client].driver;
    bool told = false;
    if (d->conn[SIM_NOTIFIER] == SIM_DOWN &&
        snib__reached(sim_driver_now(d), d->notifier_at)) {
        (void)sim_conn_up(d, SIM_NOTIFIER);
    }
    take_lists(d);
    for (int i = 0; i < d->workers; i++) {
        sim_worker_turn(d, &d->worker[i]);
        told |= give_back(d, &d->worker[i].done);
    }
    return give_back_late(d) || told;
}

snib_instant sim_driver_due(const struct sim_world *w, int client)
{
    const struct sim_driver *d = w->client[client].driver;
    snib_instant at =
        d->conn[SIM_NOTIFIER] == SIM_DOWN ? d->notifier_at : SNIB__NEVER;
    at = snib__sooner(at, earliest(&d->out->exec));
    for (int i = 0; i < d->workers; i++) {
        at = snib__sooner(at, d->worker[i].due);
        at = snib__sooner(at, earliest(&d->worker[i].list));
    }
    return at;
}

static void driver_exec(void *instance, snib_instant now,
                        struct snib__list *chain)
{
    (void)instance;
    (void)now;
    (void)chain;
    abort(); /* sim_driver_turn() does that */
}

static void driver_exec_in(void *instance, snib__session session,
                           snib_instant now, struct snib__list *chain)
{
    (void)session;
    driver_exec(instance, now, chain);
}

static const struct snib__blocking_ops driver_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "table",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH,
    .open = driver_open,
    .exec = driver_exec,
    .notifier_fd = driver_notifier_fd,
    .notified = driver_notified,
    .free = driver_free,
};

static const struct snib__blocking_ops driver_ops_of_two = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "table",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH,
    .open = driver_open,
    .exec_in = driver_exec_in,
    .notifier_fd = driver_notifier_fd,
    .notified = driver_notified,
    .free = driver_free,
};
