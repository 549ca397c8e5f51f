/* sim/etcd/calls.c — what is asked of a member, and what it does.
 *
 * All that goes through the log, and all that is read as of now, needs a leader and
 * a majority. What comes to a member that has none waits there. When it has one
 * again reads are answered; a proposal is executed, or is gone: who sent it may
 * have given up long before, and does not know which.
 *
 * A member answers by itself who leads, what is watched, and a range that is
 * `serializable`: by what it knew when it was cut off. */
#include <stdlib.h>
#include <string.h>

#include "proto/grpc/h2.h"
#include "sim/etcd/model.h"
#include "sim/same.h"

struct call {
    struct sim_world *w;
    struct sim_etcd_member *m;
    const struct sim_etcd_keys *keys; /* as this call sees them */
    const char *path;
    struct snib__pb p;
    struct snib__buf out;
    int status; /* not OK: refused, with this text */
    const char *text;
    bool changed;
};

static struct snib__etcd_text text_of(const struct snib__pb *p)
{
    return (struct snib__etcd_text){p->bytes, p->size};
}

static void refuse(struct call *c, int status, const char *text)
{
    c->status = status;
    c->text = text;
}

static void put_header(struct call *c)
{
    const struct sim_etcd *e = c->m->cluster;
    size_t begun = snib__pb_begin(&c->out, 1);
    snib__pb_put_int(&c->out, 1, (int64_t)e->cluster);
    snib__pb_put_int(&c->out, 2, c->m->node + 1);
    snib__pb_put_int(&c->out, 3, c->keys->revision);
    snib__pb_put_int(&c->out, 4, (int64_t)e->term);
    snib__pb_end(&c->out, begun);
}

static void put_pair(struct snib__buf *b, uint32_t field,
                     const struct sim_etcd_key *k)
{
    size_t pair = snib__pb_begin(b, field);
    snib__pb_put_bytes(b, 1, k->text, k->size);
    snib__pb_put_int(b, 3, k->mod);
    snib__pb_put_bytes(b, 5, k->value, k->value_size);
    snib__pb_put_int(b, 6, k->lease);
    snib__pb_end(b, pair);
}

/* -- ranges ------------------------------------------------------------------ */

struct range {
    struct snib__etcd_text from, to;
    int64_t limit, revision;
    bool serializable;
};

static struct range range_of(struct snib__pb p)
{
    struct range r = {.limit = 0};
    while (snib__pb_next(&p)) {
        r.from = p.field == 1 ? text_of(&p) : r.from;
        r.to = p.field == 2 ? text_of(&p) : r.to;
        r.limit = p.field == 3 ? p.number : r.limit;
        r.revision = p.field == 4 ? p.number : r.revision;
        r.serializable |= p.field == 7 && p.number;
    }
    return r;
}

/* Who reads that a lock is held, which is so, may be told it. */
static void note_held(struct sim_world *w, const struct sim_etcd_key *k)
{
    if (k->name >= 0 && sim_etcd_held(w, k->name)) {
        w->resource[k->name].held_at = w->t;
    }
}

static void do_range(struct call *c, struct snib__pb p)
{
    struct range r = range_of(p);
    int from = sim_etcd_from(c->keys, r.from);
    int to = sim_etcd_from(c->keys, r.to);
    int64_t shown = 0;
    if (r.revision &&
        r.revision != c->keys->revision) { /* no history is kept */
        refuse(c, SNIB__GRPC_OUT_OF_RANGE,
               "etcdserver: mvcc: required revision has been compacted");
        return;
    }
    put_header(c);
    for (int i = from; i < to && (!r.limit || shown < r.limit); i++, shown++) {
        put_pair(&c->out, 2, &c->keys->key[i]);
        note_held(c->w, &c->keys->key[i]);
    }
    snib__pb_put_int(&c->out, 3, shown < to - from);
    snib__pb_put_int(&c->out, 4, to > from ? to - from : 0);
}

/* -- transactions ------------------------------------------------------------ */

enum { COMPARES = SNIB__ETCD_COMPARE, SUCCESS = SNIB__ETCD_SUCCESS };
enum { RANGES = 1, PUTS = 2, DELETES = 3 }; /* RequestOp */

static bool compares(const struct call *c, struct snib__pb p)
{
    struct snib__etcd_text key = {0};
    int64_t mod = 0;
    while (snib__pb_next(&p)) {
        key = p.field == 3 ? text_of(&p) : key;
        mod = p.field == 6 ? p.number : mod;
    }
    const struct sim_etcd_key *k = sim_etcd_find(c->keys, key);
    return (k ? k->mod : 0) == mod;
}

/* What a put or a delete is about. */
static struct snib__etcd_put put_of(struct snib__pb p)
{
    struct snib__etcd_put ret = {.lease = 0};
    while (snib__pb_next(&p)) {
        ret.key = p.field == 1 ? text_of(&p) : ret.key;
        ret.value = p.field == 2 ? text_of(&p) : ret.value;
        ret.lease = p.field == 3 ? p.number : ret.lease;
        ret.same_lease |= p.field == 6 && p.number;
    }
    return ret;
}

/* No key may be changed twice in one branch. */
static bool is_twice(const struct call *c, uint32_t branch)
{
    struct snib__etcd_text seen[2 * SIM_ETCD_OPS];
    int n = 0;
    for (struct snib__pb p = c->p; snib__pb_next(&p);) {
        struct snib__pb op = snib__pb_inside(&p);
        if (p.field != branch || !snib__pb_next(&op) || op.field == RANGES) {
            continue;
        }
        struct snib__etcd_text key = put_of(snib__pb_inside(&op)).key;
        for (int i = 0; i < n; i++) {
            if (seen[i].size == key.size &&
                !memcmp(seen[i].bytes, key.bytes, key.size)) {
                return true;
            }
        }
        seen[n++] = key;
    }
    return false;
}

/* Can it be done at all? It is said before anything is. */
static bool check_ops(struct call *c, uint32_t branch)
{
    for (struct snib__pb p = c->p; snib__pb_next(&p);) {
        struct snib__pb op = snib__pb_inside(&p);
        if (p.field != branch || !snib__pb_next(&op) || op.field != PUTS) {
            continue;
        }
        struct snib__etcd_put put = put_of(snib__pb_inside(&op));
        if (put.lease && !sim_etcd_lease_find(c->m->cluster, put.lease)) {
            refuse(c, SNIB__GRPC_NOT_FOUND,
                   "etcdserver: requested lease not found");
            return false;
        }
        if (put.same_lease && !sim_etcd_find(c->keys, put.key)) {
            refuse(c, SNIB__GRPC_INVALID_ARGUMENT, "etcdserver: key not found");
            return false;
        }
    }
    return true;
}

static void do_change(struct call *c, uint32_t kind, struct snib__pb p)
{
    struct sim_etcd_keys *keys = &c->m->cluster->keys;
    struct snib__etcd_put put = put_of(p);
    struct sim_etcd_key *k = sim_etcd_find(keys, put.key);
    if (kind == PUTS) {
        sim_etcd_put(keys, put.key, put.value,
                     put.same_lease ? k->lease : put.lease);
        sim_etcd_tell_watches(c->w, sim_etcd_find(keys, put.key), false);
    } else if (k) {
        sim_etcd_tell_watches(c->w, k, true);
        sim_etcd_delete(keys, k);
    }
}

/* One operation of the branch, and its answer. */
static void do_op(struct call *c, struct snib__pb op)
{
    size_t answer = snib__pb_begin(&c->out, 3);
    if (snib__pb_next(&op)) {
        size_t inside = snib__pb_begin(&c->out, op.field);
        if (op.field == RANGES) {
            do_range(c, snib__pb_inside(&op));
        } else {
            do_change(c, op.field, snib__pb_inside(&op));
        }
        snib__pb_end(&c->out, inside);
    }
    snib__pb_end(&c->out, answer);
}

struct txn {
    int ops[4]; /* by field: compares, and the two branches */
    bool good, writes, serializable;
};

static struct txn txn_of(const struct call *c)
{
    struct txn t = {.good = true, .serializable = true};
    for (struct snib__pb p = c->p; snib__pb_next(&p);) {
        struct snib__pb op = snib__pb_inside(&p);
        t.ops[p.field & 3]++;
        if (p.field == COMPARES) {
            t.good &= compares(c, snib__pb_inside(&p));
        } else if (snib__pb_next(&op)) {
            t.writes |= op.field != RANGES;
            t.serializable &= op.field == RANGES &&
                              range_of(snib__pb_inside(&op)).serializable;
        }
    }
    return t;
}

static void do_txn(struct call *c)
{
    struct txn t = txn_of(c);
    uint32_t branch = t.good ? SUCCESS : SNIB__ETCD_FAILURE;
    bool changes = false;
    for (int i = 1; i < 4; i++) {
        if (t.ops[i] > SIM_ETCD_OPS) {
            refuse(c, SNIB__GRPC_INVALID_ARGUMENT,
                   "etcdserver: too many operations in txn request");
            return;
        }
    }
    if (is_twice(c, SUCCESS)) {
        refuse(c, SNIB__GRPC_INVALID_ARGUMENT,
               "etcdserver: duplicate key given in txn request");
        return;
    }
    if (!check_ops(c, branch)) {
        return;
    }
    for (struct snib__pb p = c->p; snib__pb_next(&p);) {
        struct snib__pb op = snib__pb_inside(&p);
        changes |=
            p.field == branch && snib__pb_next(&op) && op.field != RANGES;
    }
    c->m->cluster->keys.revision += changes;
    put_header(c);
    snib__pb_put_int(&c->out, 2, t.good);
    for (struct snib__pb p = c->p; snib__pb_next(&p) && !c->status;) {
        if (p.field == branch) {
            do_op(c, snib__pb_inside(&p));
        }
    }
    c->changed = changes;
}

/* -- other calls ------------------------------------------------------------- */

static void do_grant(struct call *c)
{
    int64_t ttl = 0;
    for (struct snib__pb p = c->p; snib__pb_next(&p);) {
        ttl = p.field == 1 ? p.number : ttl;
    }
    int64_t id = sim_etcd_lease_grant(c->w, ttl);
    put_header(c);
    snib__pb_put_int(&c->out, 2, id);
    snib__pb_put_int(&c->out, 3, sim_etcd_lease_find(c->m->cluster, id)->ttl);
}

static void do_status(struct call *c)
{
    put_header(c);
    snib__pb_put_text(&c->out, 2, "3.4.23");
    snib__pb_put_int(&c->out, 3, 20480);
    snib__pb_put_int(&c->out, 4, sim_etcd_leader_at(c->w, c->m->node) + 1);
}

static void watch(struct sim_etcd_stream *s, struct call *c)
{
    struct sim_etcd_conn *conn = s->conn;
    while (snib__pb_next(&c->p)) {
        struct snib__pb p = snib__pb_inside(&c->p);
        while (c->p.field == 1 && snib__pb_next(&p)) {
            if (p.field == 1 && p.size < sizeof conn->watched) {
                memcpy(conn->watched, p.bytes, p.size);
                conn->watched[p.size] = 0;
            }
        }
    }
    conn->watch = s->id;
    put_header(c);
    snib__pb_put_int(&c->out, 3, 1); /* created */
}

/* -- who is told of a change -------------------------------------------------- */

/* WatchResponse: header 1, events 11; an event: type 1 (DELETE is 1), kv 2. */
static void tell(struct sim_etcd_conn *conn, const struct sim_etcd_key *k,
                 bool deleted)
{
    struct call c = {.w = conn->member->world,
                     .m = conn->member,
                     .keys = &conn->member->cluster->keys};
    struct sim_etcd_key gone = *k;
    gone.value_size = 0;
    gone.lease = 0;
    snib__buf_init(&c.out, SIM_ETCD_ANSWER);
    put_header(&c);
    size_t event = snib__pb_begin(&c.out, 11);
    if (deleted) {
        snib__pb_put_int(&c.out, 1, 1);
    }
    put_pair(&c.out, 2, deleted ? &gone : k);
    snib__pb_end(&c.out, event);
    sim_same_bytes(c.w, conn->id, snib__buf_bytes(&c.out),
                   snib__buf_size(&c.out));
    sim_etcd_answer(sim_etcd_stream(conn, conn->watch), &c.out);
    snib__buf_free(&c.out);
}

/* A member that is cut off from the others hears of it when it is back; then its
 * watches, too: but what they missed is not kept here. Polls find it out. */
void sim_etcd_tell_watches(struct sim_world *w, const struct sim_etcd_key *k,
                           bool deleted)
{
    struct sim_etcd *e = w->etcd;
    for (int i = 0; i < e->members; i++) {
        struct sim_etcd_conn *c = e->member[i].conns;
        for (; sim_etcd_serves_at(w, i) && c; c = c->next) {
            if (c->watch && !strcmp(c->watched, k->text)) {
                tell(c, k, deleted);
            }
        }
    }
}

/* -- which member does it ------------------------------------------------------ */

static bool is(const struct call *c, const char *path)
{
    return !strcmp(c->path, path);
}

/* Can a member answer it alone, by what it knows? */
static bool is_local(const struct call *c)
{
    if (is(c, SNIB__ETCD_TXN)) {
        struct txn t = txn_of(c);
        return !t.writes && t.serializable && !t.ops[COMPARES];
    }
    return is(c, SNIB__ETCD_STATUS) || is(c, SNIB__ETCD_WATCH) ||
           (is(c, SNIB__ETCD_RANGE) && range_of(c->p).serializable);
}

static bool is_proposal(const struct call *c)
{
    return is(c, SNIB__ETCD_LEASE_GRANT) ||
           (is(c, SNIB__ETCD_TXN) && txn_of(c).writes);
}

/* The server is unfit. */
static bool is_unfit(struct call *c)
{
    unsigned faults = c->m->cluster->faults;
    if (is(c, SNIB__ETCD_STATUS)) {
        return false;
    }
    if (faults & (SIM_REDIS_NOPERM_KEY | SIM_REDIS_NOPERM_CHANNEL)) {
        refuse(c, SNIB__GRPC_PERMISSION_DENIED,
               "etcdserver: permission denied");
    } else if (faults & SIM_REDIS_NOAUTH) {
        refuse(c, SNIB__GRPC_INVALID_ARGUMENT,
               "etcdserver: user name is empty");
    } else if ((faults & SIM_REDIS_OOM) && is_proposal(c)) {
        refuse(c, SNIB__GRPC_RESOURCE_EXHAUSTED,
               "etcdserver: mvcc: database space exceeded");
    } else if (faults & SIM_REDIS_BUSY) {
        refuse(c, SNIB__GRPC_RESOURCE_EXHAUSTED,
               "etcdserver: too many requests");
    } else if (faults & SIM_REDIS_LOADING) {
        refuse(c, SNIB__GRPC_UNAVAILABLE, "etcdserver: leader changed");
    }
    return c->status;
}

/* A change of the leader, and a database that has just become full, are told also
 * of what was done. */
static bool is_done_all_the_same(const struct call *c)
{
    bool may = c->status == SNIB__GRPC_UNAVAILABLE ||
               strstr(c->text, "space exceeded");
    return may && is_proposal(c) && is(c, SNIB__ETCD_TXN) &&
           sim_etcd_dice(c->m->cluster, 50);
}

static void do_it(struct call *c)
{
    if (is(c, SNIB__ETCD_TXN)) {
        do_txn(c);
    } else if (is(c, SNIB__ETCD_RANGE)) {
        do_range(c, c->p);
    } else if (is(c, SNIB__ETCD_LEASE_GRANT)) {
        do_grant(c);
    } else if (is(c, SNIB__ETCD_STATUS)) {
        do_status(c);
    } else {
        refuse(c, SNIB__GRPC_UNIMPLEMENTED, "unknown service");
    }
}

static void execute(struct call *c)
{
    if (!is_unfit(c)) {
        do_it(c);
    } else if (is_done_all_the_same(c)) {
        struct call says = *c;
        c->status = SNIB__GRPC_OK;
        do_it(c);
        refuse(c, says.status, says.text);
    }
}

static void answer(struct sim_etcd_stream *s, const struct call *c)
{
    sim_same_bytes(c->w, s->conn->id, snib__buf_bytes(&c->out),
                   snib__buf_size(&c->out));
    if (c->status) {
        sim_etcd_refuse(s, c->status, c->text);
    } else {
        sim_etcd_answer(s, &c->out);
    }
}

static void call_begin(struct call *c, struct sim_etcd_member *m,
                       const char *path, const void *message, size_t size)
{
    *c = (struct call){.w = m->world,
                       .m = m,
                       .keys = m->alone ? &m->old : &m->cluster->keys,
                       .path = path};
    snib__pb_open(&c->p, message, size);
    snib__buf_init(&c->out, SIM_ETCD_ANSWER);
}

/* It is done, whether anybody hears of it or not. s: NULL: nobody does. */
static void perform(struct call *c, struct sim_etcd_stream *s, int conn,
                    int32_t stream)
{
    struct sim_etcd *e = c->m->cluster;
    struct sim_etcd_note *note = sim_etcd_note_of(e, c->m->node, conn, stream);
    execute(c);
    if (s) {
        answer(s, c);
    }
    if (note) {
        sim_etcd_say(c->w, note, c->changed);
    } else if (c->changed) {
        sim_etcd_say_other(c->w);
    }
}

static void wait_there(struct call *c, const struct sim_etcd_stream *s,
                       const void *message, size_t size)
{
    struct sim_etcd_wait *wait = calloc(1, sizeof *wait + size), **at;
    if (!wait) {
        abort();
    }
    wait->conn = s->conn->id;
    wait->stream = s->id;
    memcpy(wait->path, c->path, sizeof wait->path);
    wait->size = size;
    memcpy(wait->message, message, size);
    for (at = &c->m->waits; *at; at = &(*at)->next) {
    }
    *at = wait;
}

void sim_etcd_called(struct sim_etcd_stream *s, const void *message,
                     size_t size)
{
    struct sim_etcd_member *m = s->conn->member;
    struct call c;
    call_begin(&c, m, s->path, message, size);
    sim_same_bytes(c.w, s->conn->id, message, size);
    if (is(&c, SNIB__ETCD_WATCH)) {
        watch(s, &c);
        answer(s, &c);
    } else if (sim_etcd_serves_at(c.w, m->node) || is_local(&c)) {
        perform(&c, s, s->conn->id, s->id);
    } else {
        wait_there(&c, s, message, size);
    }
    snib__buf_free(&c.out);
}

/* -- those that wait ----------------------------------------------------------- */

static void wait_done(struct sim_etcd_member *m, struct sim_etcd_wait *wait)
{
    struct sim_etcd_conn *conn = sim_etcd_conn(m, wait->conn);
    struct sim_etcd_stream *s =
        conn ? sim_etcd_stream(conn, wait->stream) : NULL;
    struct call c;
    call_begin(&c, m, wait->path, wait->message, wait->size);
    if (is_proposal(&c) && sim_etcd_dice(m->cluster, 50)) {
        sim_note(m->world, "    etcd: what waited at member %d is gone",
                 m->node);
        if (s) {
            sim_etcd_refuse(s, SNIB__GRPC_UNAVAILABLE,
                            "etcdserver: request timed out");
        }
    } else if (s || is_proposal(&c)) {
        perform(&c, s, wait->conn, wait->stream);
    }
    snib__buf_free(&c.out);
}

void sim_etcd_waits_done(struct sim_etcd_member *m)
{
    struct sim_etcd_wait *wait = m->waits;
    m->waits = NULL;
    while (wait) {
        struct sim_etcd_wait *next = wait->next;
        wait_done(m, wait);
        free(wait);
        wait = next;
    }
}

void sim_etcd_waits_free(struct sim_etcd_member *m)
{
    while (m->waits) {
        struct sim_etcd_wait *next = m->waits->next;
        free(m->waits);
        m->waits = next;
    }
}
