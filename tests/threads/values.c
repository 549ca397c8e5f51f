/* values.c — the value v, a number. Each change adds one.
 *
 *   put     OK: nobody else has changed the version that it started from, and
 *           its own is higher than all that were told before it began. BUSY:
 *           somebody has changed it, or may have
 *   get     no version older than one that was told before
 *
 * In the end the number is that of the changes that were answered OK, each done
 * once, and of some of those of which that is unknown. */
#include "snib/value.h"

#include <string.h>

#include "core/version.h"
#include "kinds.h"

static int64_t number_of(const struct snib_value *v)
{
    int64_t n = 0;
    if (v->size == sizeof n) {
        memcpy(&n, v->bytes, sizeof n);
    } else if (v->size) {
        sched_fail("the value has %zu bytes", v->size);
    }
    return n;
}

static void see(struct world *w, struct actor *a, const struct snib_value *v)
{
    a->version = v->version;
    a->number = number_of(v);
    for (uint32_t i = 0; i < w->value.writes; i++) {
        if (w->value.write[i].version == a->version &&
            w->value.write[i].number != a->number) {
            sched_fail("thread %d: version %d is %d, and was written as %d",
                       judge_index(w, a), (int)(a->version % 1000000),
                       (int)a->number, (int)w->value.write[i].number);
        }
    }
}

/* -- what was answered ------------------------------------------------------------- */

/* A store remembers so many changes. */
static bool may_be_unknown(const struct world *w, const struct actor *a,
                           snib_err err)
{
    bool forgotten = w->value.lost && w->value.tries > SNIB__CHANGES;
    return err == SNIB_ERR_UNKNOWN &&
           (w->shut[a->client].closing || forgotten ||
            judge_was_late(err, a->warps));
}

static void check_error(struct world *w, struct actor *a, snib_err err)
{
    const char *why = "that may not be";
    if (err == SNIB_ERR_CLOSED) {
        why = w->shut[a->client].closing ? NULL : "nobody has closed it";
    } else if (may_be_unknown(w, a, err)) {
        w->value.unknown += a->now != VERB_GET;
        why = NULL;
    } else if (judge_was_late(err, a->warps)) {
        why = NULL;
    }
    if (why) {
        judge_wrong(w, a, verb_text[a->now], err, why);
    }
}

static void wrote(struct world *w, struct actor *a, int64_t version,
                  int64_t known)
{
    uint32_t n = w->value.writes;
    if (version <= a->version || version <= known) {
        sched_fail("thread %d: its version does not rise", judge_index(w, a));
    }
    for (uint32_t i = 0; i < n; i++) {
        if (w->value.write[i].expected == a->version) {
            sched_fail("thread %d changed what another had changed before it",
                       judge_index(w, a));
        }
    }
    if (n < WRITES) {
        w->value.write[n].expected = a->version;
        w->value.write[n].version = version;
        w->value.write[n].number = a->number + 1;
        w->value.writes++;
    }
    w->value.done++;
    a->version = version;
    a->number++;
    if (version > w->value.latest) {
        w->value.latest = version;
    }
}

/* -- calls ------------------------------------------------------------------------------ */

static void get(struct world *w, struct actor *a)
{
    struct snib_value *v;
    int64_t known = w->value.latest;
    judge_limits(w, a, INT64_MAX);
    snib_err err = snib_value_get(w->client[a->client], "v", 0, &v, NULL);
    sched_say("= %s %d", snib_err_name(err),
              (int)(err ? 0 : v->version % 1000000));
    if (err) {
        check_error(w, a, err);
        return;
    }
    see(w, a, v);
    snib_value_free(v);
    if (a->version < known) {
        sched_fail("thread %d: an older version than was told before",
                   judge_index(w, a));
    }
}

static void put(struct world *w, struct actor *a)
{
    int64_t next = a->number + 1, version = 0, known = w->value.latest;
    bool fresh = a->version == known && !w->value.unknown;
    judge_limits(w, a, INT64_MAX);
    struct traffic was = kinds_begin(&w->value.traffic);
    w->value.tries++;
    snib_err err = snib_value_put(w->client[a->client], "v", 0, a->version,
                                  &next, sizeof next, 0, &version, NULL);
    bool alone = kinds_over(&w->value.traffic, was);
    sched_say("= %s %d", snib_err_name(err), (int)(version % 1000000));
    if (!err) {
        wrote(w, a, version, known);
    } else if (err != SNIB_ERR_BUSY) {
        check_error(w, a, err);
    } else if (alone && fresh) {
        judge_wrong(w, a, "put", err, "nobody else has changed it");
    }
}

struct computation {
    struct world *w;
    struct actor *a;
    int64_t next;
};

static int compute(void *data, const struct snib_value *now,
                   struct snib_value_next *next)
{
    struct computation *c = data;
    see(c->w, c->a, now);
    c->w->value.tries++;
    c->next = c->a->number + 1;
    next->bytes = &c->next;
    next->size = sizeof c->next;
    return 0;
}

static void update(struct world *w, struct actor *a)
{
    struct computation c = {.w = w, .a = a};
    int64_t version = 0, known = w->value.latest;
    judge_limits(w, a, INT64_MAX);
    struct traffic was = kinds_begin(&w->value.traffic);
    snib_err err = snib_value_update(w->client[a->client], "v", 0, NULL,
                                     compute, &c, NULL, &version, NULL);
    kinds_over(&w->value.traffic, was);
    sched_say("= %s %d", snib_err_name(err), (int)(version % 1000000));
    if (err) {
        check_error(w, a, err);
    } else {
        wrote(w, a, version, known);
    }
}

void values_act(struct world *w, struct actor *a, verb v)
{
    if (v == VERB_GET) {
        get(w, a);
    } else if (v == VERB_PUT) {
        put(w, a);
    } else {
        update(w, a);
    }
}

/* One that came second, or whose reply was lost, pauses. */
const char *values_idle(const struct world *w, const struct actor *a)
{
    (void)w;
    return sched_sleeps(a->thread) ? NULL : "that waits for nobody";
}

void values_end(const struct world *w)
{
    struct snib_value *v;
    if (!w->value.used) {
        return;
    }
    if (snib_value_get(w->stranger, "v", 0, &v, NULL)) {
        sched_fail("the value cannot be read in the end");
    }
    int64_t number = number_of(v), done = w->value.done;
    snib_value_free(v);
    if (number < done || number > done + w->value.unknown) {
        sched_fail("%d changes were answered OK, %u are unknown, and %d were "
                   "made",
                   (int)done, w->value.unknown, (int)number);
    }
}
