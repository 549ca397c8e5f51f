/* sim/options.c — the options and faults of a world as text, and what they mean
 * for a theorem. */
#include <string.h>

#include "sim/world.h"

bool sim_planned(const struct sim_world *w, int kind)
{
    for (int i = 0; i < w->opt.fault_count; i++) {
        if (w->opt.fault[i].kind == kind) {
            return true;
        }
    }
    return false;
}

int64_t sim_lease_least(const struct sim_options *o)
{
    int64_t least =
        o->lease2_ms && o->lease2_ms < o->lease_ms ? o->lease2_ms : o->lease_ms;
    return o->renew_pct ? least / 2 : least;
}

int64_t sim_lease_most(const struct sim_options *o)
{
    return o->lease2_ms > o->lease_ms ? o->lease2_ms : o->lease_ms;
}

/* -- text ------------------------------------------------------------------ */

static const char *const fault_names[SIM_FAULT_KINDS] = {
    "cut",       "lose-reply",   "half-open", "pause",        "crash",
    "freeze",    "restart",      "wipe",      "script-flush", "flushall",
    "step-back", "step-forward", "error",     "slow",         "evict",
    "jump",      "refuse",       "late",      "isolate",      "promote",
    "deny",      "sleep",        "foreign",   "exec",         "main-ends",
    "apart",     "leader",       "unwatch",   "goaway"};

const char *const sim_denied[SIM_DENIED] = {"hset", "xadd", "multi", "exec"};

const char *sim_fault_name(int kind)
{
    return kind >= 0 && kind < SIM_FAULT_KINDS ? fault_names[kind] : "?";
}

/* clang-format off */
#define NUMBERS(X)                                                       \
    X(clients) X(owners) X(names) X(ops) X(lease_ms) X(latency_us)        \
    X(hold_us) X(think_us) X(request_ms) X(try_pct) X(timed_pct)         \
    X(fixed_pct) X(reenter_pct) X(confirm_pct) X(nopass_pct)             \
    X(overrun_pct) X(rate_ppm) X(split_pct) X(limit_ms)                  \
    X(flavour) X(read_pct) X(nest_pct) X(size) X(params_pct)              \
    X(delay_ms) X(prio_pct) X(many_pct) X(all_pct) X(mixed)              \
    X(searched)                                                          \
    X(nodes) X(node_ms) X(apart_ms) X(far_node)                          \
    X(circle_pct) X(skew_ms) X(force_pct) X(spin) X(spin_pct)            \
    X(value_pct) X(keep_ms) X(churn_pct) X(again_ms) X(look_pct)         \
    X(leave_pct) X(lease2_ms) X(renew_pct) X(list) X(table) X(workers) \
    X(whole) X(witness) X(failover) X(recovery_ms) X(unaware) X(replicas) \
    X(keeper_pct) X(keeper_ms) X(etcd) X(sql)
/* clang-format on */

void sim_options_print(const struct sim_options *o, FILE *f)
{
    fprintf(f, "seed %llu\n", (unsigned long long)o->seed);
#define PRINT(n) fprintf(f, #n " %lld\n", (long long)o->n);
    NUMBERS(PRINT)
#undef PRINT
    for (int i = 0; i < o->fault_count; i++) {
        const struct sim_fault *x = &o->fault[i];
        fprintf(f, "fault %lld %s %d %d %lld\n", (long long)x->at_ms,
                sim_fault_name(x->kind), x->a, x->b, (long long)x->ms);
    }
}

static bool read_fault(struct sim_options *o, const char *line)
{
    char kind[24];
    long long at, ms;
    struct sim_fault f = {0};
    if (o->fault_count >= SIM_FAULTS ||
        sscanf(line, "fault %lld %23s %d %d %lld", &at, kind, &f.a, &f.b,
               &ms) != 5) {
        return false;
    }
    f.at_ms = at;
    f.ms = ms;
    for (f.kind = 0; f.kind < SIM_FAULT_KINDS; f.kind++) {
        if (strcmp(kind, fault_names[f.kind]) == 0) {
            o->fault[o->fault_count++] = f;
            return true;
        }
    }
    return false;
}

static bool read_number(struct sim_options *o, const char *key, long long v)
{
    if (strcmp(key, "seed") == 0) {
        o->seed = (uint64_t)v;
        return true;
    }
#define READ(n)                                                                \
    if (strcmp(key, #n) == 0) {                                                \
        o->n = (__typeof__(o->n))v;                                            \
        return true;                                                           \
    }
    NUMBERS(READ)
#undef READ
    return false;
}

_Static_assert(SIM_CLIENTS == 8 && SIM_WITNESSES == 4 && SIM_OWNERS == 6 &&
                   SIM_NAMES == 4 && SIM_NODES == 5 && SIM_SPINS == 3,
               "the texts below say so");

/* What is wrong with these numbers, or NULL. */
static const char *wrong(const struct sim_options *o)
{
    bool spins = o->spin || o->spin_pct, leases = o->lease2_ms || o->renew_pct;
    if (o->limit_ms < 1) {
        return "limit_ms must be 1 or more";
    }
    if (o->clients < 1 || o->clients > SIM_CLIENTS || o->owners < 1 ||
        o->owners > SIM_OWNERS || o->names < 1 || o->names > SIM_NAMES) {
        return "clients 1..8, owners 1..6, names 1..4";
    }
    if (o->flavour < 0 || o->flavour >= SIM_FLAVOURS ||
        (o->flavour >= SIM_PERMITS && o->size < 1)) {
        return "flavour 0 mutex, 1 read/write, 2 permits, 3 barrier, 4 latch; "
               "the last three with a size of at least 1";
    }
    if (o->nodes < 0 || o->nodes > SIM_NODES ||
        (o->nodes > 1 && (o->flavour || o->delay_ms || o->prio_pct ||
                          o->many_pct || o->circle_pct || o->force_pct ||
                          spins || o->value_pct || o->look_pct))) {
        return "nodes 0..5; a quorum has plain mutexes only, and nobody looks";
    }
    if (o->many_pct && (o->names < 2 || o->flavour == SIM_BARRIER)) {
        return "many_pct: of 2 names or more, no barriers";
    }
    if (o->circle_pct && (o->flavour > SIM_PERMITS || o->nest_pct ||
                          o->params_pct || o->many_pct || o->skew_ms < 0)) {
        return "circle_pct: flavour 0 to 2, without nest_pct, params_pct, "
               "many_pct";
    }
    if (o->lease2_ms < 0 ||
        (leases && (o->nodes > 1 || o->many_pct || o->circle_pct))) {
        return "lease2_ms, renew_pct: without nodes, many_pct, circle_pct";
    }
    if (o->list < 0 || o->list > 1 || (o->list && (o->nodes || o->table))) {
        return "list 0..1, without nodes, table";
    }
    if (o->failover < 0 || o->failover > 1 ||
        (o->failover && (o->nodes || o->table || o->list))) {
        return "failover 0..1, without nodes, table, list";
    }
    if (o->recovery_ms < 0 || (o->recovery_ms && (o->nodes || o->table)) ||
        o->unaware < 0 || o->unaware > 1) {
        return "recovery_ms 0 or more, without nodes, table; unaware 0..1";
    }
    if (o->replicas < 0 || o->replicas > SIM_THIRD_LAGS ||
        (o->replicas && (!o->recovery_ms || !o->failover || o->unaware))) {
        return "replicas 0..3, with failover, recovery_ms, without unaware";
    }
    if (o->table &&
        (o->workers < 1 || o->workers > 2 || o->nodes > 1 || spins ||
         o->circle_pct || o->value_pct || o->look_pct || o->searched)) {
        return "table: workers 1..2, without nodes, spin, circle_pct, "
               "value_pct, look_pct, searched";
    }
    if (o->etcd && ((o->etcd != 1 && o->etcd != 3) || o->nodes > 1 ||
                    o->table || o->list || o->failover || o->recovery_ms ||
                    o->witness || o->keeper_pct || spins || o->circle_pct ||
                    o->value_pct || o->look_pct || o->searched)) {
        return "etcd: 1 or 3 members, without nodes, table, list, failover, "
               "recovery_ms, witness, keeper_pct, spin, circle_pct, "
               "value_pct, look_pct, searched";
    }
    if (o->sql < 0 || o->sql > 1 ||
        (o->sql && (!o->table || o->workers != 2))) {
        return "sql 0..1, with table, workers 2";
    }
    if (o->whole < 0 || o->whole > 1 ||
        (o->whole && (o->nodes > 1 || o->table || o->etcd))) {
        return "whole 0..1, without nodes, table, etcd";
    }
    if (o->witness < 0 || o->witness > 1 ||
        (o->witness &&
         (o->clients > SIM_WITNESSES || o->table || o->list || o->fixed_pct))) {
        return "witness 0..1, with 4 clients or fewer, without table, list, "
               "fixed_pct";
    }
    if (o->keeper_pct < 0 || o->keeper_ms < 0 || o->keeper_ms > 1000 ||
        (o->keeper_pct && (o->nodes > 1 || o->table || spins || o->delay_ms))) {
        return "keeper_ms 0..1000; keeper_pct: without nodes, table, spin, "
               "delay_ms";
    }
    if (o->look_pct < 0 || o->look_pct > 90 || o->keep_ms < 0 ||
        o->again_ms < 0) {
        return "look_pct 0..90, keep_ms, again_ms 0 or more";
    }
    if (o->spin < 0 || o->spin >= SIM_SPINS ||
        (spins && o->flavour == SIM_BARRIER)) {
        return "spin 0..2; those who spin never meet";
    }
    return NULL;
}

bool sim_options_read(struct sim_options *o, FILE *f, char *why, size_t size)
{
    char line[256], key[32];
    long long v;
    int n = 0;
    *o = (struct sim_options){.clients = 2,
                              .owners = 1,
                              .names = 1,
                              .ops = 3,
                              .lease_ms = 1000,
                              .latency_us = 100,
                              .hold_us = 500,
                              .request_ms = 500,
                              .limit_ms = 3000};
    while (fgets(line, sizeof line, f)) {
        n++;
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        bool ok = strncmp(line, "fault ", 6) == 0
                      ? read_fault(o, line)
                      : sscanf(line, "%31s %lld", key, &v) == 2 &&
                            read_number(o, key, v);
        if (!ok) {
            snprintf(why, size, "line %d is not understood: %.80s", n, line);
            return false;
        }
    }
    const char *text = wrong(o);
    snprintf(why, size, "%s", text ? text : "");
    return !text;
}
