/* sim/sql/client.c — the store of a client in a database: two workers, each a
 * thread that is inside the library or not, and a connection on which the client is
 * told of grants.
 *
 * A worker is a stack of its own. It runs until it would wait: for its connection,
 * for a part of an answer, for a pause to end. Then the world goes on, and enters
 * it again when that has come, or its time is over. When a client dies its workers
 * are left where they are. */
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "base/error.h"
#include "core/blocking.h"
#include "sim/sql/sql.h"

enum { STACK = 512 << 10, EARS = SIM_CONNS - 1, NOTICES = 64 };

struct contexts {
    ucontext_t worker, world;
};

static _Thread_local struct sim_sql_worker *running;
static _Thread_local struct {
    struct sim_world *w;
    int client;
} opening;

snib_instant sim_sql_now(void)
{
    return sim_now(running->client->w, running->client->client);
}

/* -- a worker -------------------------------------------------------------------- */

void sim_sql_sleep(struct sim_sql_worker *k, enum sim_sql_wait wait,
                   snib_instant due)
{
    struct contexts *c = k->context;
    k->wait = wait;
    k->due = due;
    swapcontext(&c->worker, &c->world);
}

/* What the worker's thread does with its list. */
static void body(void)
{
    struct sim_sql_worker *k = running;
    struct contexts *c = k->context;
    sim_sql_know_notifier(k);
    snib__sql_execute(&k->tables.sql, &k->list);
    k->over = true;
    swapcontext(&c->worker, &c->world); /* it is not entered again */
}

static void enter(struct sim_sql_worker *k)
{
    struct contexts *c = k->context;
    running = k;
    swapcontext(&c->world, &c->worker);
    running = NULL;
}

static void begin(struct sim_sql_worker *k)
{
    struct contexts *c = k->context;
    k->over = false;
    k->fetches = 0;
    getcontext(&c->worker);
    c->worker.uc_stack.ss_sp = k->stack;
    c->worker.uc_stack.ss_size = STACK;
    c->worker.uc_link = NULL;
    makecontext(&c->worker, body, 0);
    enter(k);
}

static bool may_go_on(const struct sim_sql_worker *k)
{
    const struct sim_sql_client *d = k->client;
    if (snib__reached(sim_now(d->w, d->client), k->due)) {
        return true;
    }
    switch (k->wait) {
    case SIM_SQL_FOR_CONN:
        return d->conn[k->at] == SIM_UP || d->conn[k->at] == SIM_DOWN;
    case SIM_SQL_FOR_PART:
        return k->cut || snib__buf_size(&k->parts);
    case SIM_SQL_FOR_EARS:
        return d->notifier[0] || d->conn[EARS] == SIM_DOWN;
    case SIM_SQL_FOR_TIME:
        break;
    }
    return false;
}

static void pause_for(struct snib__sql *q, snib_duration d)
{
    struct sim_sql_worker *k = (struct sim_sql_worker *)(void *)q;
    snib_instant until = snib__after(sim_sql_now(), d);
    while (!snib__reached(sim_sql_now(), until)) {
        sim_sql_sleep(k, SIM_SQL_FOR_TIME, until);
    }
}

/* -- what no world asks for -------------------------------------------------------- */

static snib__sql_end no_doctor(struct snib__sql *q, struct snib__request *r)
{
    (void)r;
    snib__fail(&q->fault, SNIB_ERR_UNSUPPORTED, "this database has no doctor");
    return SNIB__SQL_REFUSED;
}

static void no_cleaner(struct snib__sql *q)
{
    (void)q;
}

static const struct snib__sql_driver driver = {
    .now = sim_sql_now,
    .pause = pause_for,
    .reach = snib__sql_reach,
    .listen = sim_sql_listen,
    .fetch = snib__sql_fetch,
    .write = snib__sql_write,
    .leave = snib__sql_leave,
    .quick = snib__sql_quick,
    .value_read = snib__sql_value_read,
    .value_write = snib__sql_value_write,
    .look = snib__sql_look,
    .doctor = no_doctor,
    .clean = no_cleaner,
};

/* -- life ------------------------------------------------------------------------- */

static void *room(size_t size)
{
    void *p = calloc(1, size);
    if (!p) {
        abort();
    }
    return p;
}

static void worker_init(struct sim_sql_client *d, int at,
                        const struct snib__store_config *config)
{
    struct sim_sql_worker *k = &d->worker[at];
    k->client = d;
    k->at = at;
    k->stack = room(STACK);
    k->context = room(sizeof(struct contexts));
    snib__list_init(&k->list);
    snib__buf_init(&k->parts, SIM_SQL_BUF);
    snib__sql_script_init(&k->greeting);
    snib__sql_session_init(&k->tables, &driver, "sim", &sim_sql_link, &k->is,
                           d->id, config, (uint64_t)at);
}

static snib_err client_open(const struct snib__store_config *config, void **ret,
                            struct snib_error *reterr)
{
    struct sim_sql_client *d = room(sizeof *d);
    (void)reterr;
    d->w = opening.w;
    d->client = opening.client;
    d->out = config->out;
    memcpy(d->id, config->client, sizeof d->id);
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        worker_init(d, i, config);
    }
    for (int i = 0; i < SIM_CONNS; i++) {
        d->conn[i] = SIM_DOWN;
        snib__buf_init(&d->in[i], SIM_SQL_BUF);
        if (snib__conn_add(d->out, SNIB__PLAIN, "sql")) {
            abort();
        }
    }
    d->w->client[d->client].sql = d;
    *ret = d;
    return SNIB_ERR_OK;
}

static void client_free(void *instance)
{
    struct sim_sql_client *d = instance;
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct sim_sql_worker *k = &d->worker[i];
        snib__sql_session_free(&k->tables);
        snib__sql_script_free(&k->greeting);
        snib__buf_free(&k->parts);
        free(k->stack);
        free(k->context);
    }
    for (int i = 0; i < SIM_CONNS; i++) {
        snib__buf_free(&d->in[i]);
    }
    d->w->client[d->client].sql = NULL;
    free(d);
}

/* -- connections --------------------------------------------------------------------- */

bool sim_sql_conn_up(struct sim_sql_client *d, int conn)
{
    if (d->conn[conn] == SIM_DOWN) {
        d->conn[conn] = SIM_OPENING;
        d->out->conn[conn]->open = true;
        snib__conn_touch(d->out, d->out->conn[conn]);
    }
    return d->conn[conn] == SIM_UP;
}

void sim_sql_conn_shut(struct sim_sql_client *d, int conn)
{
    if (d->conn[conn] == SIM_UP) {
        d->conn[conn] = SIM_CLOSING;
        d->out->conn[conn]->shut = true;
        snib__conn_touch(d->out, d->out->conn[conn]);
    }
}

static void forget(struct sim_sql_client *d, int conn)
{
    snib__buf_clear(&d->in[conn]);
    snib__buf_clear(&d->out->conn[conn]->out);
}

static void conn_opened(struct sim_sql_client *d, int conn)
{
    struct snib__buf b;
    char lot[20];
    d->conn[conn] = SIM_UP;
    forget(d, conn);
    if (conn == EARS) {
        snprintf(lot, sizeof lot, "%lld", (long long)++d->calls);
        snib__buf_init(&b, SIM_SQL_BUF);
        sim_put_bytes(&b, lot, strlen(lot));
        sim_send(&d->out->conn[conn]->out, SIM_MSG_LISTEN, 0, &b);
        snib__conn_touch(d->out, d->out->conn[conn]);
        snib__buf_free(&b);
    }
}

static void conn_closed(struct sim_sql_client *d, int conn)
{
    d->conn[conn] = SIM_DOWN;
    forget(d, conn);
    if (conn == EARS) {
        d->missed |= d->notifier[0] != 0;
        memset(d->notifier, 0, sizeof d->notifier);
    } else {
        d->worker[conn].cut = true;
    }
}

static uint64_t id_half(const uint8_t *hex)
{
    char half[17] = "";
    memcpy(half, hex, 16);
    return strtoull(half, NULL, 16);
}

static void ears_hear(struct sim_sql_client *d, enum sim_message what,
                      const struct sim_reader *r)
{
    if (what == SIM_MSG_LISTENS) {
        memset(d->notifier, 0, sizeof d->notifier);
        memcpy(d->notifier, r->at, (size_t)(r->end - r->at));
    } else if (d->notices == NOTICES) {
        d->missed = true;
    } else {
        d->notice[d->notices][0] = id_half(r->at);
        d->notice[d->notices++][1] = id_half(r->at + 16);
    }
}

/* A part for a script that nobody waits for any more is nobody's. */
static void worker_hears(struct sim_sql_worker *k, int64_t call,
                         const uint8_t *whole, size_t size,
                         struct sim_reader *r)
{
    if (call == k->call) {
        snib__buf_add(&k->parts, whole, size);
    } else if (!call) {
        size_t n;
        const char *state = sim_get_bytes(r, &n);
        snprintf(k->farewell, sizeof k->farewell, "%.*s", (int)n, state);
    }
}

static void conn_bytes(struct sim_sql_client *d, const struct snib__input *in)
{
    struct snib__buf *b = &d->in[in->conn];
    enum sim_message what;
    int64_t call;
    struct sim_reader r;
    size_t n;
    snib__buf_add(b, in->bytes, in->size);
    while (sim_receive(b, &what, &call, &r, &n)) {
        if (in->conn == EARS) {
            ears_hear(d, what, &r);
        } else {
            worker_hears(&d->worker[in->conn], call, snib__buf_bytes(b), n, &r);
        }
        snib__buf_consume(b, n);
    }
}

void sim_sql_input(struct sim_world *w, int client,
                   const struct snib__input *in)
{
    static const struct snib__input notified = {.kind = SNIB__IN_NOTIFIED};
    struct sim_sql_client *d = w->client[client].sql;
    switch (in->kind) {
    case SNIB__IN_OPENED:
        conn_opened(d, (int)in->conn);
        break;
    case SNIB__IN_BYTES:
        conn_bytes(d, in);
        break;
    case SNIB__IN_CLOSED:
    case SNIB__IN_REFUSED:
        conn_closed(d, (int)in->conn);
        break;
    case SNIB__IN_NOTIFIED:
    case SNIB__IN_TICK:
    case SNIB__IN_LOGIN: /* no world has logins */
        break;
    }
    if (d->missed || d->notices) {
        snib__engine_input(w->client[client].engine, sim_now(w, client),
                           &notified);
    }
}

/* -- what the engine wants ------------------------------------------------------------ */

static int no_descriptor(void *instance)
{
    (void)instance;
    return -1;
}

static uint32_t notified(void *instance, uint64_t (*ids)[2], uint32_t max)
{
    struct sim_sql_client *d = instance;
    uint32_t n = d->notices < max ? d->notices : max;
    if (d->missed) {
        d->missed = false;
        d->notices = 0;
        return SNIB__NOTIFIED_ALL;
    }
    memcpy(ids, d->notice, n * sizeof *ids);
    memmove(d->notice, d->notice + n, (d->notices - n) * sizeof *d->notice);
    d->notices -= n;
    return n;
}

static void exec_in(void *instance, snib__session session, snib_instant now,
                    struct snib__list *chain)
{
    (void)instance;
    (void)session;
    (void)now;
    (void)chain;
    abort(); /* sim_sql_turn() does that */
}

static const struct snib__blocking_ops ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "sql",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH | SNIB__SAYS_SENT,
    .open = client_open,
    .exec_in = exec_in,
    .notifier_fd = no_descriptor,
    .notified = notified,
    .free = client_free,
};

const struct snib__blocking_ops *sim_sql_opens(struct sim_world *w, int client)
{
    opening.w = w;
    opening.client = client;
    return &ops;
}

/* True: it has come back. */
static bool worker_turn(struct sim_sql_client *d, struct sim_sql_worker *k)
{
    struct snib__engine *engine = d->w->client[d->client].engine;
    struct snib__store *store = snib__engine_store(engine);
    snib_instant now = sim_now(d->w, d->client);
    snib__session session = (snib__session)k->at;
    if (!k->inside && snib__blocking_waits(store, session)) {
        k->inside = true;
        snib__blocking_take(store, now, session, &k->list);
        begin(k);
    } else if (k->inside && may_go_on(k)) {
        enter(k);
    }
    if (!k->inside || !k->over) {
        return false;
    }
    k->inside = k->over = false;
    sim_sql_say_looked(k);
    snib__engine_executed(engine, now, &k->list);
    snib__blocking_returned(store, session);
    return true;
}

bool sim_sql_turn(struct sim_world *w, int client)
{
    struct sim_sql_client *d = w->client[client].sql;
    bool told = false;
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        told |= worker_turn(d, &d->worker[i]);
    }
    return told;
}

snib_instant sim_sql_due(const struct sim_world *w, int client)
{
    const struct sim_sql_client *d = w->client[client].sql;
    snib_instant at = SNIB__NEVER;
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        if (d->worker[i].inside) {
            at = snib__sooner(at, d->worker[i].due);
        }
    }
    return at;
}
