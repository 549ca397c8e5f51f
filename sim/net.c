/* sim/net.c — connections: ordered byte streams that may fail.
 *
 * Each direction of a connection keeps its order; between connections there is
 * no order. A segment takes the base latency plus a tail, and may be split. A
 * connection breaks in one of these ways. Cut: both ends learn it soon, and
 * what was under way in either direction is lost. Lost reply: the request is
 * executed, the answer is not delivered, then the connection is cut. Half open:
 * nothing passes, and nobody learns it. */
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

static int64_t latency(struct sim_world *w, int node)
{
    int64_t base = w->opt.latency_us * 1000;
    int64_t ns = base + (int64_t)snib__rng_below(&w->net, (uint64_t)base + 1);
    if (snib__rng_below(&w->net, 64) == 0) {
        ns *= 8; /* now and then much slower */
    }
    return w->node[node].slow_until > w->t ? ns * 50 : ns;
}

/* The server to which a connection of a client leads. */
static int node_of(const struct sim_world *w, int client, int conn)
{
    return sim_etcd(w)                      ? conn
           : sim_list(w) || sim_failover(w) ? w->client[client].wire[conn].node
                                            : conn / SIM_CONNS;
}

static struct sim_wire *wire_of(struct sim_world *w, int client, uint32_t id,
                                int *ret_conn)
{
    for (int i = 0; i < w->wires; i++) {
        struct sim_wire *l = &w->client[client].wire[i];
        if (l->state != SIM_WIRE_NONE && l->id == id) {
            *ret_conn = i;
            return l;
        }
    }
    return NULL;
}

static void send_segment(struct sim_world *w, int client, int conn, int kind,
                         const uint8_t *p, size_t n)
{
    struct sim_wire *l = &w->client[client].wire[conn];
    int64_t *last = kind == SIM_EV_UP ? &l->last_up : &l->last_down;
    int node = node_of(w, client, conn);
    int64_t at = w->t + latency(w, node) + (kind == SIM_EV_UP ? l->late : 0);
    at = at > *last ? at : *last + 1;
    *last = at;
    uint8_t *copy = malloc(n);
    if (!copy) {
        abort();
    }
    memcpy(copy, p, n);
    sim_push(w, (struct sim_event){.at = at,
                                   .kind = kind,
                                   .client = client,
                                   .a = l->server_conn,
                                   .node = node,
                                   .wire = l->id,
                                   .life = w->client[client].life,
                                   .bytes = copy,
                                   .size = n});
}

static void send_bytes(struct sim_world *w, int client, int conn, int kind,
                       const uint8_t *p, size_t n)
{
    struct sim_wire *l = &w->client[client].wire[conn];
    if (w->client[client].isolated_until[node_of(w, client, conn)] > w->t ||
        (l->late && kind == SIM_EV_DOWN)) {
        /* Streams have no holes. */
        l->half_open |= kind == SIM_EV_UP || !l->late;
        return;
    }
    if (l->half_open || !n) {
        return;
    }
    if (n > 1 && (int)snib__rng_below(&w->net, 100) < w->opt.split_pct) {
        size_t k = 1 + (size_t)snib__rng_below(&w->net, n - 1);
        send_segment(w, client, conn, kind, p, k);
        p += k;
        n -= k;
    }
    send_segment(w, client, conn, kind, p, n);
}

/* The connection is gone at once. Both ends learn it a moment later, the server
 * after it has got what is still on its way. */
void sim_net_break(struct sim_world *w, int client, int conn)
{
    struct sim_wire *l = &w->client[client].wire[conn];
    if (l->state == SIM_WIRE_NONE) {
        return;
    }
    int node = node_of(w, client, conn);
    if (l->server_conn) {
        int64_t at = w->t + latency(w, node);
        sim_push(w,
                 (struct sim_event){.at = at > l->last_up ? at : l->last_up + 1,
                                    .kind = SIM_EV_GONE,
                                    .node = node,
                                    .a = l->server_conn});
    }
    sim_push(w, (struct sim_event){.at = w->t + latency(w, node),
                                   .kind = SIM_EV_CLOSED,
                                   .client = client,
                                   .wire = l->id,
                                   .life = w->client[client].life});
    l->half_open = true; /* nothing more passes */
    l->server_conn = 0;
}

void sim_net_break_all(struct sim_world *w, int node)
{
    for (int c = 0; c < sim_peers(w); c++) {
        for (int i = 0; i < w->wires; i++) {
            if (node_of(w, c, i) == node) {
                sim_net_break(w, c, i);
            }
        }
    }
}

void sim_net_drop_client(struct sim_world *w, int client)
{
    for (int i = 0; i < w->wires; i++) {
        struct sim_wire *l = &w->client[client].wire[i];
        if (l->state != SIM_WIRE_NONE && l->server_conn) {
            int node = node_of(w, client, i);
            sim_push(w, (struct sim_event){.at = w->t + latency(w, node),
                                           .kind = SIM_EV_GONE,
                                           .node = node,
                                           .a = l->server_conn});
        }
        *l = (struct sim_wire){0};
    }
}

static bool server_reachable(const struct sim_world *w, int client, int node)
{
    const struct sim_server *s = &w->node[node];
    return s->down_until <= w->t && s->refuse_until <= w->t &&
           w->client[client].isolated_until[node] <= w->t;
}

/* Take what the engine's last step wants from the network, of the connections
 * that it has touched. */
void sim_net_drive(struct sim_world *w, int client)
{
    struct sim_client *c = &w->client[client];
    struct snib__out *out = snib__engine_out(c->engine);
    sim_keen(w, client);
    for (int i = 0; i < w->wires; i++) {
        struct sim_wire *l = &c->wire[i];
        struct snib__conn *conn = out->conn[i];
        if (!snib__linked(&conn->touched)) {
            continue;
        }
        snib__unlink(&conn->touched);
        if (conn->shut) {
            conn->shut = false;
            snib__buf_clear(&conn->out);
            sim_net_break(w, client, i);
        }
        if (conn->open && l->state == SIM_WIRE_NONE) {
            conn->open = false;
            *l = (struct sim_wire){.state = SIM_WIRE_CONNECTING,
                                   .id = ++w->next_wire,
                                   .node = sim_list_node(w, conn->address)};
            int node = node_of(w, client, i);
            sim_push(w, (struct sim_event){.at = w->t + latency(w, node),
                                           .kind = SIM_EV_OPENED,
                                           .client = client,
                                           .wire = l->id,
                                           .life = c->life});
        }
        size_t n = snib__buf_size(&conn->out);
        if (n && l->state == SIM_WIRE_OPEN) {
            send_bytes(w, client, i, SIM_EV_UP, snib__buf_bytes(&conn->out), n);
            snib__buf_consume(&conn->out, n);
        }
    }
}

/* The client's end of a server's connection; false: it has gone. */
static bool end_of(const struct sim_world *w, int node, int server_conn,
                   int *ret_client, int *ret_conn)
{
    for (int c = 0; c < sim_peers(w); c++) {
        for (int i = 0; i < w->wires; i++) {
            const struct sim_wire *l = &w->client[c].wire[i];
            if (l->state != SIM_WIRE_NONE && l->server_conn == server_conn &&
                node_of(w, c, i) == node) {
                *ret_client = c;
                *ret_conn = i;
                return true;
            }
        }
    }
    return false;
}

static void hang_up(struct sim_world *w, int client, int conn)
{
    struct sim_wire *l = &w->client[client].wire[conn];
    int64_t at = l->last_down > w->t ? l->last_down : w->t;
    l->server_conn = 0;
    sim_push(w, (struct sim_event){.at = at + 1,
                                   .kind = SIM_EV_CLOSED,
                                   .client = client,
                                   .wire = l->id,
                                   .life = w->client[client].life});
}

/* Where the server waits for replicas what comes after that is late. */
static void send_replies(struct sim_world *w, int client, int conn,
                         const uint8_t *p, size_t size)
{
    struct sim_wire *l = &w->client[client].wire[conn];
    size_t before = 0;
    int64_t late = sim_serve_late(&w->node[node_of(w, client, conn)],
                                  l->server_conn, &before);
    if (late) {
        send_bytes(w, client, conn, SIM_EV_DOWN, p, before);
        l->last_down = w->t + late > l->last_down ? w->t + late : l->last_down;
    }
    send_bytes(w, client, conn, SIM_EV_DOWN, p + before, size - before);
}

/* What a server has written on one connection goes on its way. */
static void conn_out(struct sim_world *w, int node, int id)
{
    struct sim_server *s = &w->node[node];
    const void *p;
    size_t size;
    int c, i;
    sim_serve_output(s, id, &p, &size);
    if (end_of(w, node, id, &c, &i)) {
        if (w->client[c].wire[i].lose_reply && size) {
            sim_note(w, "  reply to client %d on connection %d is lost", c, i);
            sim_net_break(w, c, i);
        } else {
            send_replies(w, c, i, p, size);
        }
    }
    sim_serve_consume(s, id, size);
    if (sim_serve_is_closing(s, id)) {
        if (end_of(w, node, id, &c, &i)) {
            hang_up(w, c, i);
        }
        sim_serve_disconnect(s, id);
    }
}

static void server_out(struct sim_world *w, int node)
{
    enum { MOST = SIM_CLIENTS * SIM_WIRES * 2 };
    int ids[MOST];
    size_t n = sim_serve_pending(&w->node[node], ids, MOST);
    for (size_t k = 0; k < n && k < MOST; k++) {
        conn_out(w, node, ids[k]);
    }
}

void sim_net_flush(struct sim_world *w)
{
    for (int k = 0; k < sim_members(w); k++) {
        if (w->node[k].paused_until <= w->t) {
            server_out(w, k);
        }
    }
}

/* True: the client hears *ret. */
static bool opened(struct sim_world *w, const struct sim_event *ev,
                   struct snib__input *ret)
{
    static const char why[] = "connection refused";
    int conn;
    struct sim_wire *l = wire_of(w, ev->client, ev->wire, &conn);
    if (!l || l->state != SIM_WIRE_CONNECTING) {
        return false;
    }
    int node = node_of(w, ev->client, conn);
    if (!server_reachable(w, ev->client, node)) {
        l->state = SIM_WIRE_NONE;
        *ret = (struct snib__input){.kind = SNIB__IN_REFUSED,
                                    .conn = (uint32_t)conn,
                                    .bytes = why,
                                    .size = sizeof why - 1};
        return true;
    }
    l->state = SIM_WIRE_OPEN;
    l->server_conn = sim_serve_connect(&w->node[node]);
    server_out(w, node); /* with max clients the server speaks first */
    *ret =
        (struct snib__input){.kind = SNIB__IN_OPENED, .conn = (uint32_t)conn};
    return true;
}

static bool arrived(struct sim_world *w, const struct sim_event *ev,
                    struct snib__input *ret)
{
    int conn;
    struct sim_wire *l = wire_of(w, ev->client, ev->wire, &conn);
    if (l &&
        w->client[ev->client].isolated_until[node_of(w, ev->client, conn)] >
            w->t) {
        l->half_open = true;
    }
    if (!l || l->state != SIM_WIRE_OPEN || l->half_open || l->late) {
        return false;
    }
    *ret = (struct snib__input){.kind = SNIB__IN_BYTES,
                                .conn = (uint32_t)conn,
                                .bytes = ev->bytes,
                                .size = ev->size};
    return true;
}

static bool closed(struct sim_world *w, const struct sim_event *ev,
                   struct snib__input *ret)
{
    int conn;
    struct sim_wire *l = wire_of(w, ev->client, ev->wire, &conn);
    if (!l) {
        return false;
    }
    bool connecting = l->state == SIM_WIRE_CONNECTING;
    *l = (struct sim_wire){0};
    *ret = (struct snib__input){.kind = connecting ? SNIB__IN_REFUSED
                                                   : SNIB__IN_CLOSED,
                                .conn = (uint32_t)conn,
                                .bytes = "cut",
                                .size = connecting ? 3 : 0};
    return true;
}

bool sim_net_event(struct sim_world *w, const struct sim_event *ev,
                   struct snib__input *ret)
{
    struct sim_server *s = &w->node[ev->node];
    bool mine = ev->life == w->client[ev->client].life;
    switch (ev->kind) {
    case SIM_EV_OPENED:
        return mine && opened(w, ev, ret);
    case SIM_EV_DOWN:
        return mine && arrived(w, ev, ret);
    case SIM_EV_CLOSED:
        return mine && closed(w, ev, ret);
    case SIM_EV_UP:
        if (sim_serve_is_open(s, ev->a) && s->down_until <= w->t) {
            sim_serve_input(s, ev->a, ev->bytes, ev->size,
                            sim_wall_us(w, ev->node));
            server_out(w, ev->node);
            if (sim_etcd(w)) { /* others may be watching elsewhere */
                sim_net_flush(w);
            }
        }
        return false;
    case SIM_EV_GONE:
        sim_serve_disconnect(s, ev->a);
        return false;
    default:
        return false;
    }
}
