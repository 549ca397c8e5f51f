/* sim/foreign.c — somebody else writes under the keys of the locks, as by hand:
 * what no script of ours leaves there. Its owner, a person, is told what to do,
 * and does it when all is healed: forces the locks, and removes the mark. */
#include <string.h>

#include "sim/world.h"

static void say(struct sim_world *w, int argc, const char *const argv[])
{
    struct sim_redis *redis = w->node[0].redis;
    char text[700];
    int n = snprintf(text, sizeof text, "*%d\r\n", argc);
    for (int i = 0; i < argc; i++) {
        n += snprintf(text + n, sizeof text - (size_t)n, "$%zu\r\n%s\r\n",
                      strlen(argv[i]), argv[i]);
    }
    int conn = sim_redis_connect(redis);
    sim_redis_input(redis, conn, text, (size_t)n, sim_wall_us(w, 0));
    sim_redis_disconnect(redis, conn);
}

static void remove_mark(struct sim_world *w)
{
    say(w, 2, (const char *[]){"DEL", "snib:m"});
}

/* The mark gave that id last. */
static void mark_at(struct sim_world *w, const char *id)
{
    remove_mark(w);
    say(w, 5, (const char *[]){"XADD", "snib:m", id, "a", ""});
    say(w, 3, (const char *[]){"PEXPIRE", "snib:m", "172800000"});
}

/* A thin record is there for ever, or is none any more. */
static void at_holders(struct sim_world *w, int name, bool damaged)
{
    struct sim_redis_arg v;
    const char *key = sim_keys[name];
    char text[400];
    if (!sim_redis_string(w->node[0].redis, 0, key, strlen(key),
                          sim_wall_us(w, 0), &v)) {
        return;
    }
    snprintf(text, sizeof text, "%.*s", damaged ? 40 : (int)v.len, v.ptr);
    say(w, damaged ? 5 : 3,
        (const char *[]){"SET", key, text, "PX", "86400000"});
    w->p1_off = true;
    w->told.lost_at = w->t;
    w->resource[name].damaged_at = w->t;
}

static void token_far(struct sim_world *w, int name)
{
    char key[64], token[32];
    int64_t ms = sim_wall_us(w, 0) / 1000 + SIM_FAR_MS;
    snprintf(key, sizeof key, "%s:t", sim_keys[name]);
    snprintf(token, sizeof token, "%lld", (long long)ms * 1024);
    say(w, 5, (const char *[]){"SET", key, token, "PX", "86400000"});
}

static void force_soon(struct sim_world *w, int name, int64_t ms)
{
    int client = sim_upto(&w->work, w->opt.clients);
    sim_push(w, (struct sim_event){.at = w->t + ms * SIM_MS,
                                   .kind = SIM_EV_FORCE,
                                   .client = client,
                                   .a = name,
                                   .life = w->client[client].life});
}

void sim_foreign(struct sim_world *w, const struct sim_fault *f)
{
    char id[64];
    int name = f->b % w->opt.names;
    long long ms = sim_wall_us(w, 0) / 1000;
    switch ((enum sim_foreign)f->a) {
    case SIM_MARK_TYPE:
        say(w, 5, (const char *[]){"SET", "snib:m", "x", "PX", "86400000"});
        force_soon(w, name, 500);
        break;
    case SIM_MARK_LAST:
        mark_at(w, "18446744073709551615-18446744073709551615");
        force_soon(w, name, 500);
        break;
    case SIM_MARK_WORN: /* as where the clock was set back, and many asked */
        snprintf(id, sizeof id, "%lld-1015", ms + 8000);
        mark_at(w, id);
        break;
    case SIM_THIN_DAMAGED:
    case SIM_THIN_FOREVER:
        at_holders(w, name, f->a == SIM_THIN_DAMAGED);
        force_soon(w, name, 500);
        break;
    case SIM_TOKEN_FAR:
        token_far(w, name);
        break;
    case SIM_FOREIGNS:
        break;
    }
}

void sim_foreign_forced(struct sim_world *w, int client, int name, snib_err err)
{
    struct sim_resource *r = &w->resource[name];
    if (err && sim_planned(w, SIM_FOREIGN)) {
        sim_fail(w, "a force mends", "name %d: %s", name, snib_err_name(err));
    }
    if (r->damaged_at && !r->mended_at &&
        w->client[client].force_at > r->damaged_at) {
        r->mended_at = w->t;
    }
}

bool sim_foreign_told(const struct sim_world *w, int name, int64_t asked_at)
{
    const struct sim_resource *r = &w->resource[name];
    return sim_planned(w, SIM_FOREIGN) &&
           !(r->mended_at && asked_at > r->mended_at);
}

void sim_foreign_expire(struct sim_world *w)
{
    say(w, 2, (const char *[]){"EXISTS", "snib:m"});
    for (int n = 0; n < w->opt.names; n++) {
        char token[64];
        snprintf(token, sizeof token, "%s:t", sim_keys[n]);
        say(w, 3, (const char *[]){"EXISTS", sim_keys[n], token});
    }
}

void sim_foreign_heal(struct sim_world *w)
{
    for (int i = 0; i < w->opt.fault_count; i++) {
        const struct sim_fault *f = &w->opt.fault[i];
        if (f->kind != SIM_FOREIGN) {
            continue;
        }
        if (f->a == SIM_MARK_TYPE || f->a == SIM_MARK_LAST) {
            remove_mark(w);
        } else if (f->a == SIM_THIN_DAMAGED || f->a == SIM_THIN_FOREVER) {
            force_soon(w, f->b % w->opt.names, 1000);
        }
    }
}
