/* api/value_update.c — values: read, compute, write, until nobody else was
 * faster. The loop holds nothing while it computes or pauses: it is a caller
 * like any other. Started: value_update_start.c. */
#include <time.h>

#include "api/value_i.h"
#include "base/error.h"

static snib_instant value_update_now_of(struct snib_client *c)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    snib__step_end(&s);
    return s.now;
}

/* So that those who lost do not meet again at once: there is nothing to wait
 * for. */
static void value_update_pause_for(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&t, NULL);
}

static snib_err
value_update_check_options(const struct snib_value_options *given,
                           struct snib_value_options *ret,
                           struct snib_error *reterr)
{
    snib_err err =
        snib__options_read(given, sizeof *ret, "value options", ret, reterr);
    if (err) {
        return err;
    }
    err = snib__backoff_read(&ret->backoff_ms, &ret->backoff_max_ms, reterr);
    if (err) {
        return err;
    }
    return snib__value_check_ttl("snib_value_update", ret->ttl_ms, reterr);
}

snib_err snib__update_check(struct snib__update *u, int64_t wait_ms,
                            const struct snib_value_options *options,
                            struct snib_error *reterr)
{
    const char *what = "snib_value_update";
    u->wait_ms = wait_ms > 0 ? wait_ms : 0;
    snib_err err =
        snib__value_check_target(what, u->c, u->name, &u->name_size, reterr);
    if (!err && !u->compute) {
        err = snib__fail(reterr, SNIB_ERR_USAGE, "%s: compute must not be NULL",
                         what);
    }
    if (!err) {
        err = value_update_check_options(options, &u->o, reterr);
    }
    if (!err) {
        u->limit =
            wait_ms == SNIB__NO_LIMIT
                ? SNIB__NEVER
                : snib__after(value_update_now_of(u->c), snib__ms(u->wait_ms));
    }
    return err;
}

/* At random between 0 and min(backoff * 2^n, max). */
bool snib__update_pause(struct snib__update *u, snib_instant now,
                        snib_duration *ret)
{
    struct snib__seed seed = {{(uintptr_t)u, u->rounds, 0, 1}};
    snib_duration left = snib__between(now, u->limit);
    int64_t top = u->o.backoff_ms;
    for (uint32_t i = 1; i < u->rounds && top < u->o.backoff_max_ms; i++) {
        top *= 2;
    }
    top = top < u->o.backoff_max_ms ? top : u->o.backoff_max_ms;
    if (!u->seeded) {
        (void)snib__self_seed(&seed, NULL);
        snib__rng_init(&u->rng, &seed);
        u->seeded = true;
    }
    if (left.ns <= 0) {
        return false;
    }
    int64_t ns = (int64_t)snib__rng_below(&u->rng, (uint64_t)top * 1000000 + 1);
    *ret = (snib_duration){ns < left.ns ? ns : left.ns};
    return true;
}

snib_err snib__update_late(const struct snib__update *u,
                           struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_TIMEOUT,
                      "others changed the value first, %u times in %lld ms",
                      u->rounds, (long long)u->wait_ms);
}

/* -- the call that blocks ------------------------------------------------------- */

/* False: no time is left. */
static bool value_update_back_off(struct snib__update *u)
{
    snib_duration d;
    bool more = snib__update_pause(u, value_update_now_of(u->c), &d);
    if (more) {
        value_update_pause_for(d.ns);
    }
    return more;
}

/* Write what was computed from v. */
static snib_err value_update_write_next(struct snib__update *u,
                                        const struct snib_value *v,
                                        const struct snib_value_next *next,
                                        struct snib_error *reterr)
{
    if (!next->remove) {
        return snib_value_put(u->c, u->name, u->name_size, v->version,
                              next->bytes, next->size, u->o.ttl_ms, &u->version,
                              reterr);
    }
    if (!v->version) {
        return snib__ok(reterr); /* nothing to remove */
    }
    return snib_value_delete(u->c, u->name, u->name_size, v->version,
                             &u->version, reterr);
}

static snib_err value_update_rounds(struct snib__update *u, int *ret_stopped,
                                    struct snib_error *reterr)
{
    for (;;) {
        struct snib_value *v;
        struct snib_value_next next = {0};
        snib_err err = snib_value_get(u->c, u->name, u->name_size, &v, reterr);
        if (err) {
            return err;
        }
        u->version = v->version;
        int stop = u->compute(u->data, v, &next);
        err = stop ? snib__ok(reterr)
                   : value_update_write_next(u, v, &next, reterr);
        snib_value_free(v);
        if (stop && ret_stopped) {
            *ret_stopped = stop;
        }
        u->rounds++;
        if (err != SNIB_ERR_BUSY || u->wait_ms == 0) {
            return err;
        }
        if (!value_update_back_off(u)) {
            return snib__update_late(u, reterr);
        }
    }
}

snib_err
snib_value_try_for(struct snib_client *c, const char *name, size_t name_size,
                   int64_t wait_ms, const struct snib_value_options *options,
                   int (*compute)(void *data, const struct snib_value *now,
                                  struct snib_value_next *next),
                   void *data, int *ret_stopped, int64_t *ret_version,
                   struct snib_error *reterr)
{
    struct snib__update u = {.c = c,
                             .name = name,
                             .name_size = name_size,
                             .compute = compute,
                             .data = data};
    if (ret_version) {
        *ret_version = 0;
    }
    if (ret_stopped) {
        *ret_stopped = 0;
    }
    snib_err err = snib__update_check(&u, wait_ms, options, reterr);
    if (err) {
        return err;
    }
    err = value_update_rounds(&u, ret_stopped, reterr);
    if (ret_version) {
        *ret_version = u.version;
    }
    return err;
}

snib_err
snib_value_update(struct snib_client *c, const char *name, size_t name_size,
                  const struct snib_value_options *options,
                  int (*compute)(void *data, const struct snib_value *now,
                                 struct snib_value_next *next),
                  void *data, int *ret_stopped, int64_t *ret_version,
                  struct snib_error *reterr)
{
    return snib_value_try_for(c, name, name_size, SNIB__NO_LIMIT, options,
                              compute, data, ret_stopped, ret_version, reterr);
}

snib_err snib_value_try(struct snib_client *c, const char *name,
                        size_t name_size,
                        const struct snib_value_options *options,
                        int (*compute)(void *data, const struct snib_value *now,
                                       struct snib_value_next *next),
                        void *data, int *ret_stopped, int64_t *ret_version,
                        struct snib_error *reterr)
{
    return snib_value_try_for(c, name, name_size, 0, options, compute, data,
                              ret_stopped, ret_version, reterr);
}
