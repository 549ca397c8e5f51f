/* tests/unit/test_oom.c — every allocation fails once (oom.h): a client takes a
 * lock twice, renews, starts an acquire, releases, writes a versioned value.
 * labels: oom */
#include "oom.h"

#include <unistd.h>

#include "api/testing.h"
#include "snib/event.h"
#include "snib/latch.h"
#include "snib/value.h"

static bool use_lock(struct snib_lock *l)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_grant g, h;
    struct snib_error e;
    o.reason = "out of memory";
    snib_err err = snib_try_for(l, 2000, &o, &g, &e);
    expect(clean(err), "acquire");
    expect(err == e.code, "the error's code");
    if (err) {
        return false;
    }
    bool all = done(snib_try_for(l, 2000, &o, &h, &e), "acquire again") &&
               done_or_lost(snib_release(l, h, &e), "inner release");
    all = done_or_lost(snib_renew(l, g, 40000, &e), "renew") && all;
    all = snib_grant_fd(l, g) >= 0 && all;
    return done_or_lost(snib_release(l, g, &e), "release") && all;
}

/* True: nothing was in the way. */
static bool use_events(struct snib_client *c, struct snib_lock *l)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_error e;
    struct snib_event ev;
    uint64_t ticket;
    o.above = "0123456789abcdef";
    if (!done(snib_try_for_start(l, 2000, &o, c, &ticket, &e),
              "acquire_start")) {
        return false;
    }
    for (int i = 0; i < 5000 && !snib_client_next(c, &ev, sizeof ev); i++) {
        usleep(1000);
        ev.kind = SNIB_EVENT_STATE;
    }
    expect(ev.kind == SNIB_EVENT_GRANTED || ev.kind == SNIB_EVENT_REFUSED,
           "no event");
    if (ev.kind != SNIB_EVENT_GRANTED) {
        expect(clean(ev.error.code), "refused event");
        return false;
    }
    /* If it is not done, freeing the handle releases it. */
    return done(snib_release_start(l, ev.grant, c, &e), "release_start");
}

/* A wait that is started and passes an open latch, and one that cannot. */
static bool use_latch(struct snib_client *c)
{
    struct snib_event ev;
    struct snib_error e;
    bool all = true;
    for (int refused = 0; refused < 2; refused++) {
        snib_err err = refused ? snib_barrier_try_for_start(c, "oom-barrier", 0,
                                                            2, 5, c, NULL, &e)
                               : snib_latch_try_for_start(c, "oom-latch", 0,
                                                          2000, c, NULL, &e);
        if (!done(err, "await_start")) {
            all = false;
            continue;
        }
        bool told = false; /* what was released before comes first */
        for (int i = 0; i < 5000 && !told; i++) {
            told =
                snib_client_next(c, &ev, sizeof ev) &&
                (ev.kind == SNIB_EVENT_PASSED || ev.kind == SNIB_EVENT_REFUSED);
            usleep(told ? 0 : 1000);
        }
        expect(told, "no event of await_start");
        if (!told) {
            return false;
        }
        expect(clean(ev.error.code) || ev.error.code == SNIB_ERR_TIMEOUT,
               "refused await_start");
        all = all && (refused || ev.kind == SNIB_EVENT_PASSED);
    }
    return all;
}

/* What was refused was not applied; what was told as written is there. */
static bool use_value(struct snib_client *c)
{
    struct snib_value *v;
    struct snib_error e;
    int64_t version, told = 0;
    snib_err err = snib_value_get(c, "oom", 0, &v, &e);
    expect(clean(err) && (err != SNIB_ERR_OK) == (v == NULL), "value_get");
    if (err) {
        return false;
    }
    version = v->version;
    snib_value_free(v);
    snib_err put =
        snib_value_put(c, "oom", 0, version, "bytes", 5, 60000, &told, &e);
    expect(clean(put) && put == e.code, "value_put");
    err = snib_value_get(c, "oom", 0, &v, &e);
    if (done(err, "value_get again")) {
        expect(put == SNIB_ERR_UNKNOWN || v->version == (put ? version : told),
               "what was put");
        err = v->version ? snib_value_delete(c, "oom", 0, v->version, NULL, &e)
                         : SNIB_ERR_OK;
        expect(clean(err), "value_delete");
        snib_value_free(v);
    }
    return !put && !err;
}

static bool one_run(void)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_lock *l;
    struct snib_error e;
    o.url = url;
    o.request_ms = 1000;
    snib_err err = snib_client_open(&o, &c, &e);
    expect(clean(err), "open");
    expect(err == e.code && (err != SNIB_ERR_OK) == (c == NULL), "open's ret");
    if (err) {
        return false;
    }
    bool all = done(snib_lock_new(c, "oom", NULL, &l, &e), "lock_new");
    if (all) {
        all = use_lock(l) && all;
        all = use_events(c, l) && all;
        all = use_latch(c) && all;
        snib_lock_free(l);
    }
    all = use_value(c) && all;
    snib_client_free(c);
    return all;
}

int main(void)
{
    const struct CMUnitTest cases[] = {BOTH_STORES_BEAR(one_run)};
    return RUN(cases);
}
