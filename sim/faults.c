/* sim/faults.c — what each fault does, and how all of them end. */
#include <string.h>

#include "sim/world.h"

static void down(struct sim_world *w, int node, bool keep, int64_t ms)
{
    sim_net_break_all(w, node);
    sim_serve_restart(&w->node[node], keep);
    int64_t *until = &w->node[node].down_until, end = w->t + ms * SIM_MS;
    *until = sim_quorum(w) && *until > end ? *until : end;
}

/* The server that a fault is about. */
static int node_of(const struct sim_world *w, const struct sim_fault *f)
{
    return sim_etcd(w) ? f->b % sim_members(w) : f->b / SIM_CONNS % w->nodes;
}

/* All members begin anew with a backup. */
static void restore_cluster(struct sim_world *w, const struct sim_fault *f)
{
    for (int k = 0; k < sim_members(w); k++) {
        down(w, k, false, 20);
    }
    sim_etcd_restore(w, f->a % 2);
}

/* All that was acknowledged since the snapshot is lost; connections break. */
void sim_promote(struct sim_world *w, int index)
{
    const struct sim_fault *f = &w->opt.fault[index];
    int node = node_of(w, f);
    struct sim_server *s = &w->node[node];
    if (sim_failover(w)) {
        sim_failover_promote(w, f);
    } else if (sim_serve_has_backup(s)) {
        sim_note(w, "  the replica takes over");
        w->p1_off = true;
        w->died = true; /* grants that had ended are there again */
        if (sim_etcd(w)) {
            restore_cluster(w, f);
        } else {
            down(w, node, false, 20);
            sim_serve_restore(s);
        }
        w->told.lost_at = w->t;
        w->named ^= sim_list(w);
        w->faults++; /* one more: connections are cut now */
        sim_book_again(w);
        sim_directs_fault(w, &(struct sim_fault){.kind = SIM_PROMOTE});
    }
}

/* The client that holds something just now (preferably one that also waits
 * inside), or any client. */
static int holder(const struct sim_world *w)
{
    int n = w->opt.clients * w->opt.owners;
    for (int i = 0; sim_circles(w) && i < n; i++) {
        int c = i / w->opt.owners;
        if (w->client[c].owner[i % w->opt.owners].state == SIM_OWNER_NESTING) {
            return c;
        }
    }
    for (int i = 0; i < n; i++) {
        int c = i / w->opt.owners;
        if (w->client[c].owner[i % w->opt.owners].state == SIM_OWNER_HOLDING) {
            return c;
        }
    }
    return 0;
}

/* Cut a client off from a server; in a quorum from all, one, or all but one. */
static void isolate(struct sim_world *w, const struct sim_fault *f, int client,
                    int node, int64_t until)
{
    int how = sim_etcd(w) ? (int)(f->ms % 3) : f->b % SIM_CONNS;
    for (int k = 0; k < sim_members(w); k++) {
        if (sim_members(w) == 1 || how == 0 || (how == 1) == (k == node)) {
            w->client[client].isolated_until[k] = until;
        }
    }
}

void sim_crash(struct sim_world *w, int client)
{
    w->died = true;
    sim_client_stop(w, client);
    sim_net_drop_client(w, client);
    w->client[client].life++;
    if (w->client[client].execed) {
        w->client[client].paused_until = 0;
    }
    sim_witness_crashed(w, client);
    sim_client_start(w, client);
}

/* Nothing of ours is in the process any more, but its owners go on. */
static void exec(struct sim_world *w, int client, int64_t until)
{
    struct sim_client *c = &w->client[client];
    c->execed = true;
    c->paused_until = INT64_MAX;
    sim_net_drop_client(w, client);
    sim_push(w, (struct sim_event){.at = until,
                                   .kind = SIM_EV_ENDS,
                                   .client = client,
                                   .life = c->life});
}

/* What is wrong with a client, or with its connections. */
static void at_client(struct sim_world *w, const struct sim_fault *f,
                      int client, int64_t until)
{
    struct sim_client *c = &w->client[client];
    struct sim_wire *l = &c->wire[f->b % w->wires];
    if (c->execed && f->kind != SIM_CRASH) {
        return;
    }
    switch (f->kind) {
    case SIM_CUT:
        sim_net_break(w, client, f->b % w->wires);
        break;
    case SIM_LOSE_REPLY:
        l->lose_reply = true;
        break;
    case SIM_HALF_OPEN:
        l->half_open = true;
        break;
    case SIM_LATE:
        l->late = f->ms * SIM_MS;
        break;
    case SIM_PAUSE:
        c->paused_until = until > c->paused_until ? until : c->paused_until;
        break;
    case SIM_CRASH:
        sim_crash(w, client);
        break;
    case SIM_EXEC:
        exec(w, client, until);
        break;
    case SIM_MAIN_ENDS:
        c->main_ended = true;
        break;
    case SIM_JUMP:
        snib__engine_jumped(c->engine, sim_now(w, client));
        theorem_jump_puts_at_risk(w, client);
        sim_client_after(w, client);
        break;
    default:
        break;
    }
}

/* What is wrong with a server, or with what it keeps. */
static void at_server(struct sim_world *w, const struct sim_fault *f, int node,
                      int64_t until)
{
    struct sim_server *s = &w->node[node];
    int index = (int)(f - w->opt.fault);
    switch (f->kind) {
    case SIM_FREEZE:
        s->paused_until = until > s->paused_until ? until : s->paused_until;
        break;
    case SIM_RESTART:
        down(w, node, true, f->ms);
        break;
    case SIM_WIPE:
        w->p1_off = true;
        down(w, node, false, f->ms);
        break;
    case SIM_SCRIPT_FLUSH:
        if (s->redis) {
            sim_redis_script_flush(s->redis);
        }
        break;
    case SIM_FLUSHALL:
        w->p1_off = true;
        sim_serve_flush(s);
        break;
    case SIM_STEP_BACK:
        if (sim_planned(w, SIM_SLEEP)) {
            sim_foreign_expire(w); /* it had hours for that */
        }
        s->step_us -= f->ms * 1000;
        w->p2_off = true;
        w->told.stepped_back_at = w->t;
        break;
    case SIM_STEP_FORWARD:
        s->step_us += f->ms * 1000;
        w->p1_off = true;
        w->told.stepped_at = w->t;
        sim_book_lapse(w);
        break;
    case SIM_ERROR:
        sim_serve_set_fault(s, (enum sim_redis_fault)f->a);
        break;
    case SIM_SLOW:
        s->slow_until = until;
        break;
    case SIM_REFUSE:
        s->refuse_until = until;
        break;
    case SIM_DENY:
        sim_serve_deny(s, sim_denied[f->a % SIM_DENIED], f->b == 1);
        break;
    case SIM_FOREIGN:
        sim_foreign(w, f);
        break;
    case SIM_EVICT:
        w->p1_off = true;
        if (sim_recovery(w)) {
            sim_redis_evict(s->redis, 0, "snib:epoch", strlen("snib:epoch"));
        } else {
            sim_serve_evict(s, f->a % w->opt.names);
        }
        break;
    case SIM_PROMOTE:
        sim_serve_backup(s);
        sim_failover_cut_off(w);
        if (sim_failover(w) && f->b == 1) {
            s->paused_until = until > s->paused_until ? until : s->paused_until;
        }
        sim_push(w, (struct sim_event){.at = until,
                                       .kind = SIM_EV_PROMOTE,
                                       .node = node,
                                       .a = index});
        break;
    default:
        break;
    }
}

/* Is something lost that was acknowledged, or may what is over come again? */
static bool forgets(int kind)
{
    return kind == SIM_WIPE || kind == SIM_FLUSHALL || kind == SIM_EVICT ||
           kind == SIM_STEP_BACK;
}

void sim_fault_apply(struct sim_world *w, int index)
{
    const struct sim_fault *f = &w->opt.fault[index];
    int c = f->a == SIM_HOLDER ? holder(w) : f->a % w->opt.clients;
    int node = node_of(w, f);
    int64_t until = w->t + f->ms * SIM_MS;
    w->trouble_until = until > w->trouble_until ? until : w->trouble_until;
    w->faults++;
    sim_note(w, "FAULT %s %d %d %lld ms", sim_fault_name(f->kind), f->a, f->b,
             (long long)f->ms);
    if (sim_quorum(w)) {
        sim_quorum_before(w, node);
    }
    at_client(w, f, c, until);
    sim_witness_looks(w, c);
    at_server(w, f, node, until);
    if (sim_etcd(w)) {
        sim_etcd_fault(w, f, node, until);
        sim_net_flush(w);
    }
    if (f->kind == SIM_WIPE || f->kind == SIM_FLUSHALL) {
        w->forgot_at = w->t;
    }
    if (f->kind == SIM_SLEEP) {
        w->asleep_until = until;
    }
    if (f->kind == SIM_ISOLATE) {
        isolate(w, f, c, node, until);
    }
    if (f->kind != SIM_PROMOTE) { /* a promotion comes later */
        sim_directs_fault(w, f);
        w->told.lost_at = forgets(f->kind) ? w->t : w->told.lost_at;
    }
    if (sim_quorum(w)) {
        w->p1_off = w->p2_off = false;
        sim_quorum_after(w, node, f);
    } else if (w->p1_off) {
        sim_book_again(w);
    }
}

/* End all trouble: broken connections are told to both ends, states of refusal
 * end, everybody runs. Clock rates stay. */
void sim_heal(struct sim_world *w)
{
    sim_note(w, "-- healed");
    /* By then no late copy closes a latch any more. */
    sim_push(w, (struct sim_event){.at = w->t + 15000 * SIM_MS,
                                   .kind = SIM_EV_PARAMS,
                                   .life = w->client[0].life});
    w->healed = true;
    w->healed_at = w->t;
    for (int k = 0; k < sim_members(w); k++) {
        struct sim_server *s = &w->node[k];
        s->paused_until = s->down_until = 0;
        s->refuse_until = s->slow_until = 0;
        sim_serve_heal(s);
    }
    sim_failover_demote(w);
    if (sim_etcd(w)) {
        sim_etcd_heal(w);
    }
    sim_foreign_heal(w);
    sim_force_deafen(w);
    for (int c = 0; c < sim_peers(w); c++) {
        w->client[c].paused_until = 0;
        memset(w->client[c].isolated_until, 0,
               sizeof w->client[c].isolated_until);
        for (int i = 0; i < w->wires; i++) {
            w->client[c].wire[i].lose_reply = false;
            if (w->client[c].wire[i].half_open || w->client[c].wire[i].late) {
                sim_net_break(w, c, i);
            }
        }
    }
}
