/* api/value.c — versioned values: get, put, delete, update.
 *
 * A put is a direct request with an id of its own. When its reply is lost (it
 * ends UNKNOWN) it is sent again under the same id, marked as a repeat, until
 * the store tells what became of it or the time for one answer (request_ms) is
 * over. The rules that make that safe are in core/version.h. Only then is the
 * caller told UNKNOWN. No repeat is sent later than REPEAT_MS, because stores
 * remember for a minute.
 *
 * The update's loop holds nothing while it computes or pauses: it is a caller
 * like any other. */
#include "snib/value.h"

#include <string.h>
#include <time.h>

#include "api/api.h"
#include "api/client.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/version.h"

enum {
    REPEAT_MS = 30000,
    REPEATS = 1000, /* a virtual clock may stand still                      */
    PAUSE_MS = 5,   /* between two repeats, at most                         */
    BACKOFF_MS = 1,
    BACKOFF_MAX_MS = 64
};

static snib_instant value_now_of(struct snib_client *c)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    snib__step_end(&s);
    return s.now;
}

static void value_pause_for(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&t, NULL);
}

/* -- arguments ------------------------------------------------------------- */

static snib_err value_check_target(const char *what, struct snib_client *c,
                                   const char *name, size_t *size,
                                   struct snib_error *reterr)
{
    if (!c || !name) {
        return snib__fail(reterr, SNIB_ERR_USAGE, "%s: %s must not be NULL",
                          what, c ? "name" : "client");
    }
    if (!*size) {
        *size = strlen(name);
    }
    if (!*size || *size > SNIB_NAME_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s: the name has %zu bytes, expected 1 to %d", what,
                          *size, SNIB_NAME_MAX);
    }
    snib_err err = snib__client_check(c, reterr);
    if (!err && c->pull) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s blocks, which a pull client must not; open a "
                          "second client without .pull for values",
                          what);
    }
    return err;
}

static snib_err value_check_expected(const char *what, int64_t expected,
                                     int64_t least, struct snib_error *reterr)
{
    if (expected < least || expected >= SNIB__VERSION_END) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s: the expected version is %lld; pass the version "
                          "that snib_value_get gave%s",
                          what, (long long)expected,
                          least ? " (there is nothing to delete without one)"
                                : ", or 0 when there must be none");
    }
    return SNIB_ERR_OK;
}

static snib_err value_check_ttl(const char *what, int64_t ttl_ms,
                                struct snib_error *reterr)
{
    if (ttl_ms < 0 || ttl_ms > SNIB_VALUE_TTL_MAX_MS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s: ttl_ms is %lld; expected 1 to %lld, or 0 for "
                          "that maximum",
                          what, (long long)ttl_ms,
                          (long long)SNIB_VALUE_TTL_MAX_MS);
    }
    return SNIB_ERR_OK;
}

static snib_err value_check_bytes(const char *what, const void *bytes,
                                  size_t size, struct snib_error *reterr)
{
    if (size > SNIB_VALUE_MAX) {
        return snib__fail(reterr, SNIB_ERR_LIMIT,
                          "%s: %zu bytes, at most %zu fit; keep the rest "
                          "elsewhere and its key in the value",
                          what, size, SNIB_VALUE_MAX);
    }
    if (size && !bytes) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s: bytes is NULL and size is %zu", what, size);
    }
    return SNIB_ERR_OK;
}

/* -- asking ---------------------------------------------------------------- */

static void value_query_init(struct snib__direct *q, snib__verb verb,
                             const char *name, size_t size)
{
    *q = (struct snib__direct){
        .verb = verb, .name = name, .name_size = size, .limit = SNIB__NEVER};
    snib__buf_init(&q->result, SNIB_VALUE_MAX + 1);
}

/* True when the store did not answer. False when something else failed. */
static bool value_lost_reply(const struct snib__direct *q, snib_err err)
{
    return q->answer == SNIB__UNKNOWN &&
           (err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE);
}

/* Sending again failed for another reason (the client was closed meanwhile, no
 * memory). The copy that was lost may still be applied: the result is
 * UNKNOWN. */
static snib_err value_after_a_loss(const struct snib__direct *q, snib_err err,
                                   struct snib_error *reterr)
{
    return q->answer == SNIB__PENDING && snib__verb_changes(q->verb, q->op) &&
                   err != SNIB_ERR_UNKNOWN
               ? snib__fail(reterr, SNIB_ERR_UNKNOWN,
                            "the reply was lost, and asking again failed: %s",
                            snib_err_text(err))
               : err;
}

/* Send, and repeat what was lost. The caller frees q's result. */
static snib_err value_spec(struct snib_client *c, struct snib__direct *q,
                           struct snib_error *reterr)
{
    snib_duration most = snib__ms(REPEAT_MS);
    snib_instant last = snib__after(
        value_now_of(c), c->request.ns < most.ns ? c->request : most);
    for (int i = 0;; i++) {
        snib_err err = snib__run_direct(c, q, reterr);
        if (i && err) {
            err = value_after_a_loss(q, err, reterr);
        }
        if (!value_lost_reply(q, err) || snib__reached(value_now_of(c), last) ||
            i == REPEATS) {
            return err;
        }
        value_pause_for((int64_t)(q->id[1] % (PAUSE_MS * 1000000)));
        snib__buf_free(&q->result);
        q->answer = SNIB__PENDING;
        q->resent = true;
        q->limit = last;
    }
}

static snib_err value_read_value(struct snib_client *c, const char *name,
                                 size_t size, struct snib_value **ret,
                                 struct snib_error *reterr)
{
    struct snib__direct q;
    struct snib_value *v = NULL;
    value_query_init(&q, SNIB__VALUE_GET, name, size);
    snib_err err = value_spec(c, &q, reterr);
    if (!err) {
        size_t n = snib__buf_size(&q.result);
        v = snib__alloc(sizeof *v + n + 1);
        if (v) {
            memcpy(v + 1, snib__buf_bytes(&q.result), n);
            *v = (struct snib_value){q.version, n, v + 1};
        } else {
            err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
        }
    }
    snib__buf_free(&q.result);
    *ret = v;
    return err;
}

/* Put or delete. */
static snib_err value_write_value(struct snib_client *c, struct snib__direct *q,
                                  int64_t *ret_version,
                                  struct snib_error *reterr)
{
    snib_err err = value_spec(c, q, reterr);
    snib__buf_free(&q->result);
    if (ret_version && (!err || err == SNIB_ERR_BUSY)) {
        *ret_version = q->version;
    }
    return err;
}

snib_err snib_value_get(struct snib_client *c, const char *name,
                        size_t name_size, struct snib_value **ret,
                        struct snib_error *reterr)
{
    if (!ret) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_value_get: ret must not be NULL");
    }
    *ret = NULL;
    snib_err err =
        value_check_target("snib_value_get", c, name, &name_size, reterr);
    return err ? err : value_read_value(c, name, name_size, ret, reterr);
}

void snib_value_free(struct snib_value *v)
{
    snib__free(v);
}

snib_err snib_value_put(struct snib_client *c, const char *name,
                        size_t name_size, int64_t expected, const void *bytes,
                        size_t size, int64_t ttl_ms, int64_t *ret_version,
                        struct snib_error *reterr)
{
    const char *what = "snib_value_put";
    struct snib__direct q;
    if (ret_version) {
        *ret_version = 0;
    }
    snib_err err = value_check_target(what, c, name, &name_size, reterr);
    if (!err) {
        err = value_check_expected(what, expected, 0, reterr);
    }
    if (!err) {
        err = value_check_bytes(what, bytes, size, reterr);
    }
    if (!err) {
        err = value_check_ttl(what, ttl_ms, reterr);
    }
    if (err) {
        return err;
    }
    value_query_init(&q, SNIB__VALUE_PUT, name, name_size);
    q.expected = expected;
    q.bytes = bytes;
    q.bytes_size = size;
    q.keep = snib__ms(ttl_ms ? ttl_ms : SNIB_VALUE_TTL_MAX_MS);
    return value_write_value(c, &q, ret_version, reterr);
}

snib_err snib_value_delete(struct snib_client *c, const char *name,
                           size_t name_size, int64_t expected,
                           int64_t *ret_version, struct snib_error *reterr)
{
    const char *what = "snib_value_delete";
    struct snib__direct q;
    if (ret_version) {
        *ret_version = 0;
    }
    snib_err err = value_check_target(what, c, name, &name_size, reterr);
    if (!err) {
        err = value_check_expected(what, expected, 1, reterr);
    }
    if (err) {
        return err;
    }
    value_query_init(&q, SNIB__VALUE_DELETE, name, name_size);
    q.expected = expected;
    return value_write_value(c, &q, ret_version, reterr);
}

/* -- update ---------------------------------------------------------------- */

static snib_err value_check_options(const struct snib_value_options *given,
                                    struct snib_value_options *ret,
                                    struct snib_error *reterr)
{
    *ret = (struct snib_value_options){0};
    if (given && given->size != sizeof *given) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "value options of size %zu, expected %zu: start "
                          "from SNIB_INIT(snib_value_options)",
                          given->size, sizeof *given);
    }
    if (given) {
        *ret = *given;
    }
    ret->backoff_ms = ret->backoff_ms ? ret->backoff_ms : BACKOFF_MS;
    ret->backoff_max_ms =
        ret->backoff_max_ms ? ret->backoff_max_ms : BACKOFF_MAX_MS;
    if (ret->backoff_ms < 0 || ret->backoff_max_ms < 0 ||
        ret->backoff_max_ms > 60000) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "backoff_ms is %lld, backoff_max_ms %lld; expected "
                          "0 to 60000",
                          (long long)ret->backoff_ms,
                          (long long)ret->backoff_max_ms);
    }
    return value_check_ttl("snib_value_update", ret->ttl_ms, reterr);
}

struct update {
    struct snib_client *c;
    const char *name;
    size_t name_size;
    struct snib_value_options o;
    int64_t wait_ms;
    snib_instant limit;
    struct snib__rng rng;
    bool seeded;
    uint32_t rounds;
    int64_t version; /* as last seen or written                             */
};

/* Pause at random between 0 and min(backoff * 2^n, max). False: no time is
 * left. */
static bool value_back_off(struct update *u)
{
    struct snib__seed seed = {{(uintptr_t)u, u->rounds, 0, 1}};
    snib_duration detached = snib__between(value_now_of(u->c), u->limit);
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
    if (detached.ns <= 0) {
        return false;
    }
    int64_t ns = (int64_t)snib__rng_below(&u->rng, (uint64_t)top * 1000000 + 1);
    value_pause_for(ns < detached.ns ? ns : detached.ns);
    return true;
}

/* Write what was computed from v. */
static snib_err value_write_next(struct update *u, const struct snib_value *v,
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

static snib_err value_rounds(struct update *u,
                             int (*compute)(void *, const struct snib_value *,
                                            struct snib_value_next *),
                             void *data, int *ret_stopped,
                             struct snib_error *reterr)
{
    for (;;) {
        struct snib_value *v;
        struct snib_value_next next = {0};
        snib_err err =
            value_read_value(u->c, u->name, u->name_size, &v, reterr);
        if (err) {
            return err;
        }
        u->version = v->version;
        int stop = compute(data, v, &next);
        err = stop ? snib__ok(reterr) : value_write_next(u, v, &next, reterr);
        snib_value_free(v);
        if (stop && ret_stopped) {
            *ret_stopped = stop;
        }
        u->rounds++;
        if (err != SNIB_ERR_BUSY || u->wait_ms == 0) {
            return err;
        }
        if (!value_back_off(u)) {
            return snib__fail(reterr, SNIB_ERR_TIMEOUT,
                              "others changed the value first, %u times in "
                              "%lld ms",
                              u->rounds, (long long)u->wait_ms);
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
    const char *what = "snib_value_update";
    struct update u = {.c = c,
                       .name = name,
                       .name_size = name_size,
                       .wait_ms = wait_ms > 0 ? wait_ms : 0};
    if (ret_version) {
        *ret_version = 0;
    }
    if (ret_stopped) {
        *ret_stopped = 0;
    }
    snib_err err = value_check_target(what, c, name, &u.name_size, reterr);
    if (!err && !compute) {
        err = snib__fail(reterr, SNIB_ERR_USAGE, "%s: compute must not be NULL",
                         what);
    }
    if (!err) {
        err = value_check_options(options, &u.o, reterr);
    }
    if (err) {
        return err;
    }
    u.limit = wait_ms == SNIB__NO_LIMIT
                  ? SNIB__NEVER
                  : snib__after(value_now_of(c), snib__ms(u.wait_ms));
    err = value_rounds(&u, compute, data, ret_stopped, reterr);
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
