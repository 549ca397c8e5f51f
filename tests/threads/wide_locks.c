/* wide_locks.c — handles, and acquires that block. */
#include <inttypes.h>
#include <string.h>

#include "api/testing.h"
#include "snib/semaphore.h"
#include "unseen.h"
#include "wide.h"

static const char long_name[] =
    "a name that is as long as a name may be, and it goes on for a while: "
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "0123456789012345678901234567890123456789012345678901234567890123456789"
    "01234567890123456789012345678901234567890123456789";

const char *wide_name(size_t *ret_size)
{
    static const char *const names[] = {
        "a",
        "a",
        "a",
        "a",
        "b",
        "b",
        "ab",
        "of a path\t/srv/build/agents/7/workspace/main/target, and of a date, "
        "2026-11-25T10:00:00Z"};
    static const size_t sizes[] = {512, 513, 500};
    *ret_size = 0;
    if (chance("odd name", 24)) {
        switch (pick("which name", 4)) {
        case 0:
            *ret_size = 3;
            return "a\0b";
        case 1:
            return "";
        case 2:
            *ret_size = ONE_OF("long", sizes);
            return long_name;
        default:
            return "\xff\x01";
        }
    }
    const char *name = ONE_OF("name", names);
    *ret_size = chance("counted", 4) ? strlen(name) : 0;
    return name;
}

const char *wide_plain(char kind)
{
    static const char *const names[] = {"a", "b", "s", "l", "m", "e", "r", "v"};
    if (!chance("another kind", 10)) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (*names[i] == kind) {
                return names[i];
            }
        }
    }
    return ONE_OF("any name", names);
}

int64_t wide_wait(void)
{
    static const int64_t waits[] = {0,  0,   0,    0,    1,   5,
                                    20, 150, 1200, 3500, 9000};
    if (chance("odd wait", 16)) {
        return chance("spent", 2) ? -2 : INT64_MAX;
    }
    return ONE_OF("wait", waits);
}

bool wide_is_short(int64_t wait_ms, int64_t of)
{
    return wait_ms == of && chance("short form", 2);
}

/* -- handles ------------------------------------------------------------------------- */

void wide_changed(void *data, struct snib_grant g, snib_state state,
                  snib_cause reason)
{
    struct wide_actor *a = data;
    int was;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
    tell("callback %" PRIu64 " %" PRId64 " %s %s, %d", g.ticket, g.token,
         snib_state_text(state), snib_cause_text(reason), was);
    pthread_setcancelstate(was, NULL);
    if (a && chance("callback stops", 30)) {
        int client = (int)pick("client", (uint64_t)wide.clients);
        tell("callback stops %d", client);
        wide.closed[client] = true;
        snib_client_stop(wide.client[client]);
    }
    if (chance("callback sleeps", 3)) {
        static const int64_t ms[] = {6, 6, 60, 900};
        sched_sleep(sched_now() + ONE_OF("so long", ms) * 1000000);
    }
    for (int i = 0; a && i < WIDE_SHARED; i++) {
        if (wide.shared[i] && chance("callback asks", 3)) {
            char text[SNIB_EXPLAIN_TEXT];
            tell_status(wide.shared[i], g);
            snib_grant_explain(wide.shared[i], g, text, sizeof text);
            tell("explains: %s", text);
            if (state == SNIB_STATE_LOST && chance("callback releases", 2)) {
                struct snib_error e;
                (void)told("release", snib_release(wide.shared[i], g, &e), &e);
            }
        }
    }
}

static void odd_options(struct snib_lock_options *o)
{
    static const int64_t leases[] = {49, 50, 86400000, 86400001, -1};
    static const int64_t delays[] = {-1, 86400000, 86400001};
    static const int priorities[] = {-101, -100, 100, 101};
    static const uint32_t counts[] = {0, 1, 7, 1000000000, 1000000001};
    switch (pick("odd option", 9)) {
    case 0:
        o->size += chance("more", 2) ? 1 : (size_t)-8;
        break;
    case 1:
        o->lease_ms = ONE_OF("odd lease", leases);
        break;
    case 2:
        o->lock_delay_ms = ONE_OF("odd delay", delays);
        break;
    case 3:
        o->priority = ONE_OF("odd priority", priorities);
        break;
    case 4:
        o->hold_max_ms = -1;
        break;
    case 5:
        o->kind = (snib_kind)(4 + pick("odd kind", 3));
        o->permits = ONE_OF("odd permits", counts);
        o->capacity = ONE_OF("odd capacity", counts) * chance("has one", 2);
        break;
    case 6:
        o->permits = ONE_OF("odd permits", counts);
        break;
    case 7:
        o->capacity = ONE_OF("odd capacity", counts);
        break;
    default:
        o->kind = SNIB_KIND_PERMITS;
        o->permits = ONE_OF("odd permits", counts);
        o->capacity = ONE_OF("odd capacity", counts);
        break;
    }
}

static void options(struct snib_lock_options *o, const char *name, void *data)
{
    static const int64_t leases[] = {0, 0, 150, 200, 1000, 1000, 5000, 30000};
    static const int64_t holds[] = {0, 0, 0, 0, 0, 30, 400, 2500};
    static const int64_t delays[] = {0, 0, 0, 0, 50, 1500};
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_MUTEX,
                                      SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                      SNIB_KIND_READ,  SNIB_KIND_WRITE};
    o->kind = ONE_OF("kind", kinds);
    if (*name == 's') {
        o->kind = SNIB_KIND_PERMITS;
        o->permits = (uint32_t)pick("permits", 3);
        o->capacity = chance("no capacity", 5) ? 0 : 3;
    } else if (*name == 'm') {
        o->kind = SNIB_KIND_BARRIER;
        o->permits = 1 + (uint32_t)pick("parties", 3);
    }
    o->lease_ms = ONE_OF("lease", leases);
    o->hold_max_ms = ONE_OF("hold_max", holds);
    o->lock_delay_ms = ONE_OF("delay", delays);
    o->priority = chance("priority", 4) ? (int)pick("how high", 5) - 2 : 0;
    o->fixed_lease = chance("fixed", 4);
    o->aggressive = chance("aggressive", 8);
    o->confirm = chance("confirm", 6);
    o->no_reentry = chance("no reentry", 6);
    o->spin = chance("spin", 8);
    o->no_local_hand_over = chance("no local pass", 4);
    if (chance("callback", 2)) {
        o->on_change = wide_changed;
        o->data = data;
    }
    if (chance("odd options", 16)) {
        odd_options(o);
    }
}

struct snib_lock *wide_lock_new(int client, void *data)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *lock = (void *)&o;
    struct snib_error e;
    const char *name =
        chance("of locks", 4) ? wide_plain('s') : wide_name(&o.name_size);
    options(&o, name, data);
    name = chance("no name at all", 60) ? NULL : name;
    bool plain = chance("no options", 8);
    struct snib_error *to = reserve(&e);
    snib_err err =
        snib_lock_new(wide.client[client], name, plain ? NULL : &o, &lock, to);
    tell("lock %s of %d kind %d lease %" PRId64, name ? name : "-", client,
         (int)o.kind, o.lease_ms);
    (void)told("lock_new", err, to);
    if (!err != !!lock) {
        sched_fail("lock_new returned %s and a handle, or none",
                   snib_err_name(err));
    }
    return lock;
}

static void new_handle(struct wide_actor *a)
{
    int i = WIDE_SHARED + (int)pick("handle", WIDE_LOCKS - WIDE_SHARED);
    struct snib_lock *was = a->lock[i];
    a->lock[i] = NULL;
    for (int k = 0; k < WIDE_GRANTS; k++) {
        if (a->grant[k].lock == was) {
            a->grant[k].lock = NULL;
        }
    }
    for (int k = 0; k < WIDE_STARTS; k++) {
        if (a->started[k] == was) {
            a->started[k] = NULL;
        }
    }
    snib_multi_free(a->multi);
    a->multi = NULL;
    a->multi_held = false;
    snib_lock_free(was);
    a->client_of[i] = (int)pick("whose lock", (uint64_t)wide.clients);
    a->lock[i] = wide_lock_new(a->client_of[i], a);
}

/* -- acquire ---------------------------------------------------------------------------- */

/* False: NULL is to be passed. */
bool wide_options(struct snib_acquire_options *o, int64_t *ret_wait)
{
    static const char *const reasons[] = {NULL, NULL, "deploy", "x\ny", ""};
    static const char *const aboves[] = {
        "0123456789abcdef",
        "0123456789abcdef,fedcba9876543210",
        "0123456789abcdef0123456789abcdef",
        "0123456789abcde",
        "zz",
        ",",
        "",
        "0000000000000001,0000000000000002,0000000000000003,0000000000000004,"
        "0000000000000005,0000000000000006,0000000000000007,0000000000000008",
        "0000000000000001,0000000000000002,0000000000000003,0000000000000004,"
        "0000000000000005,0000000000000006,0000000000000007,0000000000000008,"
        "0000000000000009"};
    *o = (struct snib_acquire_options)SNIB_INIT(snib_acquire_options);
    *ret_wait = wide_wait();
    o->owner = chance("owner", 5) ? snib_owner_new() : 0;
    o->reason = ONE_OF("why", reasons);
    o->above = chance("above", 10) ? ONE_OF("what above", aboves) : NULL;
    o->permits = chance("so many", 6) ? (uint32_t)pick("how many", 5) : 0;
    o->all_permits = chance("all permits", 16);
    if (chance("very many", 60)) {
        o->permits = SNIB_PERMITS_MAX + (uint32_t)pick("more", 2);
    }
    if (chance("odd", 30)) {
        o->owner = 5;
    }
    if (chance("odd size", 40)) {
        o->size--;
    }
    tell("wait %" PRId64 " permits %u", *ret_wait == INT64_MAX ? -1 : *ret_wait,
         o->permits);
    bool given = !chance("no acquire options", 40);
    *ret_wait = given ? *ret_wait : INT64_MAX;
    return given;
}

void wide_remember(struct wide_actor *a, struct snib_lock *lock,
                   struct snib_grant g)
{
    int i = 0;
    while (i < WIDE_GRANTS && a->grant[i].lock) {
        i++;
    }
    i = i < WIDE_GRANTS ? i : (int)pick("forgets", WIDE_GRANTS);
    a->grant[i] = (struct wide_grant){lock, g};
}

static bool a_pull(const struct wide_actor *a, const struct snib_lock *lock)
{
    for (int i = 0; i < WIDE_LOCKS; i++) {
        if (a->lock[i] == lock) {
            return wide.pull[a->client_of[i]];
        }
    }
    return true;
}

static snib_err acquire(struct snib_lock *lock, int64_t wait_ms,
                        const struct snib_acquire_options *o,
                        struct snib_grant *ret, struct snib_error *reterr)
{
    return wide_is_short(wait_ms, INT64_MAX)
               ? snib_acquire(lock, o, ret, reterr)
           : wide_is_short(wait_ms, 0)
               ? snib_try(lock, o, ret, reterr)
               : snib_try_for(lock, wait_ms, o, ret, reterr);
}

void wide_locks(struct wide_actor *a)
{
    struct snib_acquire_options o;
    struct snib_grant g = {7, 7};
    struct snib_error e;
    struct snib_lock *lock = a->lock[pick("lock", WIDE_LOCKS)];
    if (!lock || chance("new handle", 10)) {
        new_handle(a);
        return;
    }
    int64_t wait_ms;
    bool given = wide_options(&o, &wait_ms);
    struct snib_error *to = reserve(&e);
    if (chance("within", 12) && !a_pull(a, lock)) {
        snib_err err =
            snib__acquire_within(lock, (int64_t)pick("ns", 3000000), &g, to);
        (void)told("within", err, to);
        tell_grant("within", err, g);
        if (!err) {
            err =
                snib__release_within(lock, g, (int64_t)pick("ns", 3000000), to);
            (void)told("within", err, to);
        }
        return;
    }
    if (chance("drain", 12)) {
        uint32_t permits = 99;
        snib_err err = snib_semaphore_drain(
            chance("of nothing", 20) ? NULL : lock, given ? &o : NULL, &g,
            chance("untold", 4) ? NULL : &permits, to);
        (void)told("drain", err, to);
        tell("%u permits", permits);
        tell_grant("drain", err, g);
        if (!err) {
            wide_remember(a, lock, g);
        }
        return;
    }
    snib_err err = acquire(lock, wait_ms, given ? &o : NULL, &g, to);
    (void)told("acquire", err, to);
    tell_grant("acquire", err, g);
    if (!err) {
        wide_remember(a, lock, g);
        tell_status(lock, g);
    }
}
