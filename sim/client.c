/* sim/client.c — one process: the production engine over the production store of
 * Redis or etcd, or over a table, driven by the world instead of threads and
 * sockets. */
#include <stdlib.h>
#include <string.h>

#include "sim/same.h"
#include "sim/table.h"
#include "store/quorum/quorum.h"
#include "store/redis/redis.h"

static void told_log(void *data, int level, const char *wire)
{
    struct sim_world *w = data;
    (void)level;
    sim_note(w, "  log: %s", wire);
}

/* By how much the client's wall clock is wrong, in ns. */
static int64_t skew(const struct sim_world *w, int client)
{
    struct snib__rng r;
    int64_t most = (int64_t)w->opt.skew_ms * SIM_MS;
    snib__rng_init(
        &r, &(struct snib__seed){{w->opt.seed, 16, 1 + (uint64_t)client, 0}});
    return most ? (int64_t)snib__rng_below(&r, 2 * (uint64_t)most) - most : 0;
}

/* The text of its URL. */
static void url_of(const struct sim_world *w, int client, char *ret,
                   size_t size)
{
    int n = snprintf(ret, size, sim_etcd(w) ? "etcd://" : "redlock://");
    if (!sim_quorum(w) && !sim_etcd(w)) {
        n = snprintf(ret, size, "redis://%s%s",
                     sim_list(w) ? SIM_LIST_HOSTS : "sim:6379",
                     w->opt.spin ? "?wait=spin" : "");
        if (sim_recovery(w) && !(w->opt.unaware && client == 0)) {
            snprintf(ret + n, size - (size_t)n, "%crecovery=%lldms%s",
                     w->opt.spin ? '&' : '?', (long long)w->opt.recovery_ms,
                     w->opt.replicas ? "&replicas=1" : "");
        }
        return;
    }
    for (int k = 0; k < sim_members(w); k++) {
        n += snprintf(ret + n, size - (size_t)n, "%ssim%d:6379", k ? "," : "",
                      k);
    }
    if (w->opt.node_ms) {
        snprintf(ret + n, size - (size_t)n, "?node_ms=%d", w->opt.node_ms);
    }
}

bool sim_client_open(struct sim_world *w, int client)
{
    struct sim_client *c = &w->client[client];
    struct snib__url *url;
    struct snib_error err;
    struct snib__about self = {.host = "sim", .user = "u", .pid = client + 1};
    char text[160];
    url_of(w, client, text, sizeof text);
    if (snib__url_parse(text, &url, &err)) {
        sim_fail(w, "harness", "url: %s", err.text);
        return false;
    }
    int64_t wall_ns = w->wall_base_us * 1000 - c->offset + skew(w, client);
    struct snib__engine_config cfg = {
        .ops = sim_quorum(w) ? &snib__quorum_store_ops : &snib__redis_store_ops,
        .url = url,
        .seed = {{w->opt.seed, 100 + (uint64_t)client, c->life, 7}},
        .request = snib__ms(w->opt.request_ms),
        .self = &self,
        .wall_offset_ns = sim_circles(w) || sim_etcd(w) ? wall_ns : 0,
        .deadlocks = sim_circles(w) || w->opt.searched,
        .watch = sim_list(w),
        .client = c->identity,
        .registry = c->registry,
        .log = w->trace ? told_log : NULL,
        .log_data = w};
    if (sim_table(w)) {
        cfg.ops = NULL;
        cfg.blocking =
            sim_sql(w) ? sim_sql_opens(w, client) : sim_driver_opens(w, client);
    } else if (sim_etcd(w)) {
        cfg.ops = sim_etcd_opens(w);
    }
    snib_err e = snib__engine_open(&cfg, &c->engine, &err);
    snib__url_free(url);
    for (int i = 0; !e && i < w->opt.names; i++) {
        e = snib__engine_local_lock(c->engine, sim_names[i], 0, &c->local[i],
                                    &err);
    }
    if (e) {
        sim_fail(w, "harness", "open: %s", err.text);
    }
    return !e;
}

static void start_owner(struct sim_world *w, int client, int i)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[i];
    int left = c->life ? l->ops_left : w->opt.ops;
    *l =
        (struct sim_owner){.ops_left = left,
                           .owner = (uint64_t)i + 1,
                           .state = left > 0 ? SIM_OWNER_IDLE : SIM_OWNER_DONE};
    if (i >= w->callers) { /* the acquisition of one name of a batch */
        l->owner = (uint64_t)(i - w->callers) / SIM_NAMES + 1;
        l->state = SIM_OWNER_DONE;
        return;
    }
    uint64_t ns = (uint64_t)w->opt.think_us * 1000;
    sim_owner_wake_at(w, client, i,
                      w->t + (int64_t)snib__rng_below(&w->work, ns + 1));
}

void sim_client_start(struct sim_world *w, int client)
{
    struct sim_client *c = &w->client[client];
    uint64_t id[2];
    sim_witness_start(w, client);
    if (!sim_client_open(w, client)) {
        return;
    }
    sim_witness_knows(w, client);
    snib__engine_client_id(c->engine, id);
    sim_id_text(id, c->hex);
    c->timer_at = INT64_MAX;
    c->params_busy = c->force_busy = c->listened = false;
    c->listens_since = c->unresponsive_since = 0;
    sim_force_begin(w, client);
    memset(&c->look, 0, sizeof c->look);
    for (int i = 0; i < w->opt.owners; i++) {
        start_owner(w, client, i);
    }
    sim_client_after(w, client);
}

void sim_client_stop(struct sim_world *w, int client)
{
    struct sim_client *c = &w->client[client];
    if (c->engine) {
        sim_same_closed(w, client);
    }
    snib__engine_free(c->engine);
    snib__buf_free(&c->params.result);
    sim_directs_stop(w, client);
    snib__buf_free(&c->force.result);
    c->engine = NULL;
}

static void hear_directs(struct sim_world *w, int client)
{
    struct snib__direct *q;
    while ((q = snib__engine_told_direct(w->client[client].engine))) {
        sim_same_direct(w, client, q);
        if (q->verb == SNIB__FORCE) {
            sim_force_told(w, client, q);
        } else if (q->verb == SNIB__PARAMS) {
            sim_params_told(w, client, q);
        } else {
            sim_direct_told(w, q);
        }
    }
}

static void hear_news(struct sim_world *w, int client)
{
    uint8_t news;
    struct snib__acquisition *s;
    while ((s = snib__engine_told(w->client[client].engine, &news))) {
        sim_same_told(w, client, s, news);
        theorem_words_fit(w, client, s);
        sim_owner_told(w, client, s, news);
    }
    hear_directs(w, client);
}

/* Does what the library does after every call into the engine. */
void sim_client_after(struct sim_world *w, int client)
{
    struct sim_client *c = &w->client[client];
    theorem_another_server_is_a_risk(w, client);
    do {
        hear_news(w, client);
    } while (c->driver ? sim_driver_turn(w, client)
                       : c->sql && sim_sql_turn(w, client));
    sim_same_after(w, client);
    sim_net_drive(w, client);
    if (sim_is_witness(client) && w->opt.witness) {
        sim_witness_after(w, client);
    }
    snib_instant due = snib__engine_due(c->engine);
    if (c->driver) {
        due = snib__sooner(due, sim_driver_due(w, client));
    } else if (c->sql) {
        due = snib__sooner(due, sim_sql_due(w, client));
    }
    if (due.ns == INT64_MAX) {
        return;
    }
    int64_t at = sim_true(c, due.ns);
    at = at > w->t ? at : w->t;
    if (at < c->timer_at) {
        c->timer_at = at;
        sim_push(w, (struct sim_event){.at = at,
                                       .kind = SIM_EV_TIMER,
                                       .client = client,
                                       .life = c->life});
    }
}

void sim_client_input(struct sim_world *w, int client,
                      const struct snib__input *in)
{
    struct snib__engine *engine = w->client[client].engine;
    /* As in the library: time has passed, so what is due comes first. */
    snib__engine_tick(engine, sim_now(w, client));
    theorem_keeper_hears(w, client, in);
    if (w->client[client].driver) {
        sim_driver_input(w, client, in);
    } else if (w->client[client].sql) {
        sim_sql_input(w, client, in);
    } else {
        snib__engine_input(engine, sim_now(w, client), in);
    }
    sim_client_after(w, client);
}
