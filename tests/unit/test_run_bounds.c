/* tests/unit/test_run_bounds.c — what callers may pass, at its bounds: the last
 * that is taken and the first that is refused, and how that is told. */
#include "run_memory.h"

#include "snib/deadlock.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/multi.h"
#include "snib/ring.h"
#include "snib/semaphore.h"
#include "snib/sys.h"
#include "snib/value.h"

/* USAGE in words that have this in them; "": taken. */
static void told(size_t row, snib_err err, const char *words)
{
    snib_err expected = words[0] ? SNIB_ERR_USAGE : SNIB_ERR_OK;
    if (err != expected || (words[0] && !strstr(e.text, words))) {
        fail_msg("row %zu: %s \"%s\", expected %s \"%s\"", row,
                 snib_err_name(err), e.text, snib_err_name(expected), words);
    }
}

#define MOST SNIB_PERMITS_MAX

static void options_of_a_lock(void **state)
{
    (void)state;
    static const struct {
        snib_kind kind;
        uint32_t permits, capacity;
        int64_t lease_ms, delay_ms, hold_max_ms;
        int priority;
        const char *words;
    } t[] = {
        {SNIB_KIND_MUTEX, 0, 0, 0, 0, 0, 0, ""},
        {SNIB_KIND_MUTEX, 1, 0, 0, 0, 0, 0, "permits and capacity are for"},
        {SNIB_KIND_MUTEX, 0, 1, 0, 0, 0, 0, "permits and capacity are for"},
        {SNIB_KIND_READ, 0, 0, 0, 0, 0, 0, ""},
        {SNIB_KIND_READ, 0, 1, 0, 0, 0, 0, "permits and capacity are for"},
        {SNIB_KIND_WRITE, 0, 0, 0, 0, 0, 0, ""},
        {SNIB_KIND_WRITE, 1, 0, 0, 0, 0, 0, "permits and capacity are for"},
        {SNIB_KIND_PERMITS, 0, 0, 0, 0, 0, 0, ""},
        {SNIB_KIND_PERMITS, MOST, 0, 0, 0, 0, 0, ""},
        {SNIB_KIND_PERMITS, MOST, MOST, 0, 0, 0, 0, ""},
        {SNIB_KIND_PERMITS, MOST + 1u, 0, 0, 0, 0, 0, "at most 1000000000"},
        {SNIB_KIND_PERMITS, 1, MOST + 1u, 0, 0, 0, 0, "at most 1000000000"},
        {SNIB_KIND_PERMITS, 2, 2, 0, 0, 0, 0, ""},
        {SNIB_KIND_PERMITS, 3, 2, 0, 0, 0, 0,
         "3 permits of a semaphore that has 2"},
        {SNIB_KIND_BARRIER, 1, 0, 0, 0, 0, 0, ""},
        {SNIB_KIND_BARRIER, MOST, 0, 0, 0, 0, 0, ""},
        {SNIB_KIND_BARRIER, 0, 0, 0, 0, 0, 0, "a barrier of 0 parties"},
        {SNIB_KIND_BARRIER, MOST + 1u, 0, 0, 0, 0, 0, "of 1000000001 parties"},
        {SNIB_KIND_BARRIER, 2, 2, 0, 0, 0, 0, "and no capacity"},
        {(snib_kind)(SNIB_KIND_BARRIER + 1), 0, 0, 0, 0, 0, 0,
         "there is no kind"},
        {SNIB_KIND_MUTEX, 0, 0, 50, 0, 0, 0, ""},
        {SNIB_KIND_MUTEX, 0, 0, 49, 0, 0, 0, "lease_ms is 49; expected 50 to"},
        {SNIB_KIND_MUTEX, 0, 0, 86400000, 0, 0, 0, ""},
        {SNIB_KIND_MUTEX, 0, 0, 86400001, 0, 0, 0, "lease_ms is 86400001"},
        {SNIB_KIND_MUTEX, 0, 0, 0, 86400000, 0, 0, ""},
        {SNIB_KIND_MUTEX, 0, 0, 0, 86400001, 0, 0, "lock_delay_ms is 86400001"},
        {SNIB_KIND_MUTEX, 0, 0, 0, -1, 0, 0,
         "lock_delay_ms is -1; expected 0 to"},
        {SNIB_KIND_MUTEX, 0, 0, 0, 0, 1, 0, ""},
        {SNIB_KIND_MUTEX, 0, 0, 0, 0, -1, 0, "hold_max_ms is negative"},
        {SNIB_KIND_MUTEX, 0, 0, 0, 0, 0, 100, ""},
        {SNIB_KIND_MUTEX, 0, 0, 0, 0, 0, -100, ""},
        {SNIB_KIND_MUTEX, 0, 0, 0, 0, 0, 101,
         "priority is 101; expected -100 to"},
        {SNIB_KIND_MUTEX, 0, 0, 0, 0, 0, -101, "priority is -101"},
    };
    struct snib_client *c = open_client("", false);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_lock_options o = SNIB_INIT(snib_lock_options);
        struct snib_lock *l;
        o.kind = t[i].kind;
        o.permits = t[i].permits;
        o.capacity = t[i].capacity;
        o.lease_ms = t[i].lease_ms;
        o.lock_delay_ms = t[i].delay_ms;
        o.hold_max_ms = t[i].hold_max_ms;
        o.priority = t[i].priority;
        told(i, snib_lock_new(c, "x", &o, &l, &e), t[i].words);
        assert_int_equal(l != NULL, !t[i].words[0]);
        snib_lock_free(l);
    }
    snib_client_free(c);
}

static void options_of_an_acquire(void **state)
{
    (void)state;
    static const struct {
        snib_kind kind;
        uint32_t permits;
        bool all;
        int64_t wait_ms;
        uint64_t owner;
        const char *words;
    } t[] = {
        {SNIB_KIND_MUTEX, 0, false, 0, 0, ""},
        {SNIB_KIND_MUTEX, 0, false, INT64_MAX, 0, ""},
        {SNIB_KIND_MUTEX, 0, false, -2, 0, ""},
        {SNIB_KIND_MUTEX, 0, false, INT64_MIN, 0, ""},
        {SNIB_KIND_MUTEX, 0, false, 0, 7,
         "owner 7 is not one of snib_owner_new()"},
        {SNIB_KIND_MUTEX, 1, false, 0, 0, "of a lock that is no semaphore"},
        {SNIB_KIND_MUTEX, 0, true, 0, 0, "of a lock that is no semaphore"},
        {SNIB_KIND_PERMITS, MOST, false, 0, 0, ""},
        {SNIB_KIND_PERMITS, MOST + 1u, false, 0, 0, "1000000001 permits"},
        {SNIB_KIND_PERMITS, 0, true, 0, 0, ""},
        {SNIB_KIND_PERMITS, 0, true, -1, 0, ""},
        {SNIB_KIND_PERMITS, 1, true, 0, 0, "expected permits 0 and a try"},
        {SNIB_KIND_PERMITS, 0, true, 1, 0, "expected permits 0 and a try"},
        {SNIB_KIND_PERMITS, 0, true, INT64_MAX, 0, "permits 0 and a try"},
    };
    struct snib_client *c = open_client("", false);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
        struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
        struct snib_grant g;
        struct snib_lock *l;
        lo.kind = t[i].kind;
        lo.capacity = t[i].kind == SNIB_KIND_PERMITS ? MOST : 0;
        o.permits = t[i].permits;
        o.all_permits = t[i].all;
        o.owner = t[i].owner;
        assert_int_equal(snib_lock_new(c, t[i].kind ? "s" : "x", &lo, &l, &e),
                         SNIB_ERR_OK);
        snib_err err = snib_try_for(l, t[i].wait_ms, &o, &g, &e);
        told(i, err, t[i].words);
        if (!err) {
            assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
        }
        snib_lock_free(l);
    }
    snib_client_free(c);
}

static void lease_of_a_renewal(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *words;
    } t[] = {{50, ""},
             {49, "lease_ms is 49; expected 50 to 86400000"},
             {86400000, ""},
             {86400001, "lease_ms is 86400001"},
             {-1, "lease_ms is -1"}};
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    for (size_t i = 1; i < COUNT_OF(t); i++) {
        told(i, snib_renew(l, g, t[i].ms, &e), t[i].words);
    }
    told(0, snib_renew(l, g, t[0].ms, &e), t[0].words); /* the shortest, last */
    (void)snib_release(l, g, NULL);
    snib_lock_free(l);
    snib_client_free(c);
}

static void request_time_of_a_client(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *words;
    } t[] = {{10, ""},
             {9, "request_ms is 9; expected 10 to 600000"},
             {600000, ""},
             {600001, "request_ms is 600001"},
             {-1, "request_ms is -1"}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_client_options o = SNIB_INIT(snib_client_options);
        struct snib_client *c = NULL;
        o.url = "memory:bounds";
        o.request_ms = t[i].ms;
        told(i, snib_client_open(&o, &c, &e), t[i].words);
        snib_client_free(c);
    }
}

/* What looks at a name, and what is told of one that cannot be. */
static snib_err by_name(int which, struct snib_client *c, const char *name,
                        size_t size)
{
    struct snib_view *view = NULL;
    struct snib_value *value = NULL;
    struct snib_ring *ring = NULL;
    snib_err err = SNIB_ERR_INTERNAL;
    switch (which) {
    case 0:
        err = snib_client_inspect(c, name, size, &view, &e);
        snib_view_free(view);
        break;
    case 1:
        err = snib_client_force_release(c, name, size, NULL, NULL, &e);
        break;
    case 2:
        err = snib_value_get(c, name, size, &value, &e);
        snib_value_free(value);
        break;
    case 3:
        err = snib_value_put(c, name, size, 0, "v", 1, 0, NULL, &e);
        break;
    case 4:
        err = snib_ring_read(c, name, size, &ring, &e);
        snib_ring_free(ring);
        break;
    }
    return err;
}

static void names_have_1_to_512_bytes(void **state)
{
    (void)state;
    static const char zeros[SNIB_NAME_MAX + 2];
    char longest[SNIB_NAME_MAX + 2];
    struct snib_client *c = open_client("", false);
    memset(longest, 'n', sizeof longest);
    for (int which = 0; which < 5; which++) {
        size_t row = (size_t)which;
        bool value = which == 2 || which == 3;
        const char *words = value ? "expected 1 to 512" : "has 1 to 512 bytes";
        const char *none = value ? "name must not be NULL" : words;
        told(row, by_name(which, c, longest, SNIB_NAME_MAX), "");
        told(row, by_name(which, c, longest, SNIB_NAME_MAX + 1), words);
        told(row, by_name(which, c, zeros, 1), "");
        told(row, by_name(which, c, "", 0), words);
        told(row, by_name(which, c, NULL, 0), none);
        told(row, by_name(which, c, NULL, 5), none);
        longest[SNIB_NAME_MAX] = 0; /* by its NUL                           */
        if (which != 3) {           /* there by now                         */
            told(row, by_name(which, c, longest, 0), "");
        }
        longest[SNIB_NAME_MAX] = 'n';
        longest[SNIB_NAME_MAX + 1] = 0;
        told(row, by_name(which, c, longest, 0), words);
    }
    snib_client_free(c);
}

static int one_more(void *data, const struct snib_value *now,
                    struct snib_value_next *next)
{
    (void)now;
    ++*(int *)data;
    *next = (struct snib_value_next){.bytes = "v", .size = 1};
    return 0;
}

static void options_of_an_update(void **state)
{
    (void)state;
    static const struct {
        int64_t wait_ms, ttl_ms, backoff_ms, backoff_max_ms;
        const char *words;
    } t[] = {
        {0, 0, 0, 0, ""},
        {INT64_MAX, 0, 0, 0, ""},
        {-2, 0, 0, 0, ""},
        {0, 1, 0, 0, ""},
        {0, -1, 0, 0, "snib_value_update: ttl_ms is -1; expected 1 to"},
        {0, SNIB_VALUE_TTL_MAX_MS, 0, 0, ""},
        {0, SNIB_VALUE_TTL_MAX_MS + 1, 0, 0, "snib_value_update: ttl_ms is"},
        {0, 0, -1, 0, "backoff_ms is -1"},
        {0, 0, 1, 60000, ""},
        {0, 0, 0, 60001, "backoff_max_ms 60001"},
        {0, 0, 0, -1, "backoff_max_ms -1"},
    };
    struct snib_client *c = open_client("", false);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_value_options o = SNIB_INIT(snib_value_options);
        int calls = 0;
        o.ttl_ms = t[i].ttl_ms;
        o.backoff_ms = t[i].backoff_ms;
        o.backoff_max_ms = t[i].backoff_max_ms;
        told(i,
             snib_value_try_for(c, "v", 1, t[i].wait_ms, &o, one_more, &calls,
                                NULL, NULL, &e),
             t[i].words);
        assert_int_equal(calls, !t[i].words[0]); /* refused: before that */
    }
    snib_client_free(c);
}

static void arguments_of_a_put(void **state)
{
    (void)state;
    static char bytes[SNIB_VALUE_MAX + 1];
    struct snib_client *c = open_client("", false);
    int64_t v = 0;
    told(0, snib_value_put(c, "v", 0, -1, "", 0, 0, &v, &e), "version is -1");
    told(1, snib_value_put(c, "v", 0, 0, NULL, 1, 0, &v, &e), "bytes is NULL");
    told(2, snib_value_put(c, "v", 0, 0, "", 0, -1, &v, &e),
         "snib_value_put: ttl_ms is -1");
    told(3,
         snib_value_put(c, "v", 0, 0, "", 0, SNIB_VALUE_TTL_MAX_MS + 1, &v, &e),
         "snib_value_put: ttl_ms is");
    told(4, snib_value_delete(c, "v", 0, 0, &v, &e), "nothing to delete");
    assert_int_equal(
        snib_value_put(c, "v", 0, 0, bytes, SNIB_VALUE_MAX + 1, 0, &v, &e),
        SNIB_ERR_LIMIT);
    assert_non_null(strstr(e.text, "65537 bytes"));
    told(5, snib_value_put(c, "v", 0, 0, NULL, 0, 1000, &v, &e), "");
    told(6,
         snib_value_put(c, "v", 0, v, bytes, SNIB_VALUE_MAX,
                        SNIB_VALUE_TTL_MAX_MS, &v, &e),
         "");
    snib_client_free(c);
}

static void sizes_of_semaphores_latches_and_barriers(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    int64_t generation;
    told(0, snib_semaphore_set(c, "s", 0, 0, false, NULL, &e), "");
    told(1, snib_semaphore_set(c, "s", 0, MOST, false, NULL, &e), "");
    told(2, snib_semaphore_set(c, "s", 0, MOST + 1u, false, NULL, &e),
         "is 1000000001; expected 0 to 1000000000");
    told(3, snib_latch_set(c, "l", 0, 0, NULL, &e), "is 0; expected 1 to");
    told(4, snib_latch_set(c, "l", 0, MOST + 1u, NULL, &e), "is 1000000001");
    told(5, snib_latch_set(c, "l", 0, MOST, NULL, &e), "");
    told(6, snib_barrier_try_for(c, "b", 0, 0, 1, &generation, &e),
         "a barrier of 0 parties");
    told(7, snib_barrier_try(c, "b", 0, 1, &generation, &e), "");
    snib_client_free(c);
}

static void members_of_a_ring(void **state)
{
    (void)state;
    static char id[SNIB_RING_ID_MAX + 1], place[66];
    static struct snib_ring_member many[SNIB_RING_MEMBERS_MAX + 1];
    static char name_of[SNIB_RING_MEMBERS_MAX + 1][8];
    struct snib_ring_member one = {.id = id, .id_size = SNIB_RING_ID_MAX};
    struct snib_client *c = open_client("", false);
    struct snib_ring_membership *p;
    struct snib_ring *r;
    memset(id, 'i', sizeof id);
    told(0, snib_ring_new(&one, 1, &r, &e), "");
    snib_ring_free(r);
    one.id_size++;
    told(1, snib_ring_new(&one, 1, &r, &e), "an id of 513 bytes");
    one = (struct snib_ring_member){.id = "a", .weight = SNIB_RING_WEIGHT_MAX};
    told(2, snib_ring_new(&one, 1, &r, &e), "");
    snib_ring_free(r);
    one.weight++;
    told(3, snib_ring_new(&one, 1, &r, &e), "has weight 101; expected 1 to");
    told(4, snib_ring_new(NULL, 1, &r, &e), "the array is NULL");
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        snprintf(name_of[i], sizeof name_of[i], "%zu", i);
        many[i].id = name_of[i];
    }
    told(5, snib_ring_new(many, SNIB_RING_MEMBERS_MAX, &r, &e), "");
    snib_ring_free(r);
    assert_int_equal(snib_ring_new(many, SNIB_RING_MEMBERS_MAX + 1, &r, &e),
                     SNIB_ERR_LIMIT);
    assert_null(r);
    memset(place, 'p', SNIB_RING_MEMBER_ID_MAX);
    told(6, snib_ring_join(c, "r", 0, place, NULL, &p, &e), "");
    assert_int_equal(snib_ring_leave(p, &e), SNIB_ERR_OK);
    place[SNIB_RING_MEMBER_ID_MAX] = 'p';
    told(7, snib_ring_join(c, "r", 0, place, NULL, &p, &e), "id of 65 bytes");
    told(8, snib_ring_join(c, "r", 0, "", NULL, &p, &e), "id of 0 bytes");
    told(9, snib_ring_join(c, "r", 0, NULL, NULL, &p, &e), "id of 0 bytes");
    told(10, snib_ring_join(c, "r", 0, "a b", NULL, &p, &e), "byte 2 of the");
    snib_client_free(c);
}

static void locks_of_a_multi(void **state)
{
    (void)state;
    static struct snib_lock *lock[SNIB_MULTI_MAX + 1];
    struct snib_client *c = open_client("", false);
    struct snib_multi *m;
    for (size_t i = 0; i < COUNT_OF(lock); i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu", i);
        lock[i] = lock_of(c, name);
    }
    told(0, snib_multi_new(lock, 1, NULL, &m, &e), "");
    snib_multi_free(m);
    told(1, snib_multi_new(lock, SNIB_MULTI_MAX, NULL, &m, &e), "");
    snib_multi_free(m);
    told(2, snib_multi_new(lock, SNIB_MULTI_MAX + 1, NULL, &m, &e),
         "a multi of 1025 locks; expected 1 to 1024");
    told(3, snib_multi_new(lock, 0, NULL, &m, &e), "a multi of 0 locks");
    told(4, snib_multi_new(NULL, 2, NULL, &m, &e), "a multi of 0 locks");
    for (size_t i = 0; i < COUNT_OF(lock); i++) {
        snib_lock_free(lock[i]);
    }
    snib_client_free(c);
}

static void options_of_a_drain(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock_options of = SNIB_INIT(snib_lock_options);
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_lock *l;
    struct snib_grant g;
    uint32_t count = 0;
    of.kind = SNIB_KIND_PERMITS;
    of.capacity = 3;
    told(0, snib_lock_new(c, "x", &of, &l, &e), "");
    o.size--;
    told(0, snib_semaphore_drain(l, &o, &g, &count, &e),
         "acquire options of size");
    o.size++;
    o.owner = 7;
    told(2, snib_semaphore_drain(l, &o, &g, &count, &e), "owner 7 is not one");
    o.owner = snib_owner_new();
    told(3, snib_semaphore_drain(l, &o, &g, &count, &e), "");
    assert_int_equal(count, 3);
    struct snib_semaphore is;
    memset(&is, 0xa5, sizeof is);
    told(3, snib_semaphore_get(c, "x", 0, &is, sizeof is, &e), "");
    assert_int_equal(is.size, 3);
    assert_int_equal(is.used, 3);
    assert_int_equal(is.available, 0);
    assert_int_equal(is.waiting, 0);
    told(4, snib_release(l, g, &e), "");
    told(5, snib_semaphore_drain(l, NULL, &g, &count, &e), "");
    assert_int_equal(count, 3);
    snib_client_free(c);
}

static void tell_nobody(void *data, const struct snib_finding *finding)
{
    (void)data;
    (void)finding;
}

/* Each by itself: the others are there. */
static void arguments_that_are_missing(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock_options of = SNIB_INIT(snib_lock_options);
    const struct snib_view view = {.name = "x", .name_size = 1};
    struct snib_lock *l;
    struct snib_grant g, none = {0};
    struct snib_cycle **cycles;
    struct snib_ring_membership *joined;
    struct snib_ring *ring;
    struct snib_semaphore size;
    struct snib_recovery recovery;
    struct snib_value *value;
    size_t n;
    uint32_t count;
    of.kind = SNIB_KIND_PERMITS;
    told(0, snib_lock_new(c, "x", &of, &l, &e), "");
    told(1, snib_client_deadlocks(NULL, &cycles, &n, &e),
         "client, ret and ret_count must not be NULL");
    told(2, snib_client_deadlocks(c, NULL, &n, &e), "ret and ret_count");
    told(3, snib_client_deadlocks(c, &cycles, NULL, &e), "ret and ret_count");
    assert_null(cycles);
    told(4, snib_client_doctor(NULL, tell_nobody, NULL, &e),
         "client and tell must not be NULL");
    told(5, snib_client_doctor(c, NULL, NULL, &e), "client and tell must");
    told(6, snib_client_force_release(NULL, "x", 0, NULL, &count, &e),
         "snib_client_force_release: client must not be NULL");
    told(7, snib_client_recovery(NULL, 0, &recovery, sizeof recovery, &e),
         "snib_client_recovery: client and ret must not be NULL");
    told(8, snib_client_recovery(c, 0, NULL, sizeof recovery, &e),
         "snib_client_recovery: client and ret must not be NULL");
    told(9, snib_latch_left(c, "x", 0, NULL, &e), "ret_left must not be NULL");
    told(10, snib_latch_left(NULL, "x", 0, &count, &e),
         "client and name must not be NULL");
    told(11, snib_latch_left(c, NULL, 0, &count, &e),
         "client and name must not be NULL");
    told(12, snib_latch_await(NULL, "x", 0, &e), "client must not be NULL");
    told(13, snib_ring_join(NULL, "r", 0, "a", NULL, &joined, &e),
         "snib_ring_join: client, name and ret must not be NULL");
    told(14, snib_ring_join(c, NULL, 0, "a", NULL, &joined, &e),
         "snib_ring_join: client, name and ret must not be NULL");
    assert_null(joined);
    told(15, snib_ring_join(c, "r", 0, "a", NULL, NULL, &e),
         "snib_ring_join: client, name and ret must not be NULL");
    told(16, snib_ring_read(NULL, "r", 0, &ring, &e),
         "snib_ring_read: client and ret must not be NULL");
    told(17, snib_ring_read(c, "r", 0, NULL, &e),
         "snib_ring_read: client and ret must not be NULL");
    told(18, snib_ring_of_view(NULL, &ring, &e),
         "snib_ring_of_view: view must not be NULL");
    told(19, snib_ring_of_view(&view, NULL, &e),
         "snib_ring_of_view: ret must not be NULL");
    told(20, snib_semaphore_get(c, "x", 0, NULL, 0, &e),
         "ret must not be NULL");
    told(21, snib_semaphore_get(NULL, "x", 0, &size, sizeof size, &e),
         "client and name must not be NULL");
    told(22, snib_semaphore_drain(NULL, NULL, &g, &count, &e),
         "lock and ret must not be NULL");
    told(23, snib_semaphore_drain(l, NULL, NULL, &count, &e),
         "lock and ret must not be NULL");
    told(24, snib_semaphore_slot(NULL, none, &count, &e),
         "lock and ret must not be NULL");
    told(25, snib_semaphore_slot(l, none, NULL, &e),
         "lock and ret must not be NULL");
    told(26, snib_value_get(NULL, "v", 0, &value, &e),
         ": client must not be NULL");
    told(27, snib_value_get(c, NULL, 0, &value, &e), ": name must not be NULL");
    told(28, snib_value_get(c, "v", 0, NULL, &e),
         "snib_value_get: ret must not be NULL");
    snib_lock_free(l);
    snib_client_free(c);
}

/* Nothing is written where no room is given; else "" after an error. */
static void room_for_texts(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock_options of = SNIB_INIT(snib_lock_options);
    char grant[SNIB_GRANT_TEXT], identity[SNIB_IDENTITY_TEXT];
    char request[SNIB_REQUEST_TEXT], other[SNIB_GRANT_TEXT];
    struct snib_lock *l;
    struct snib_grant g;
    of.fixed_lease = true;
    told(0, snib_lock_new(c, "x", &of, &l, &e), "");
    told(1, acquire(l, 0, &g), "");
    told(2, snib_grant_export(l, g, grant, sizeof grant, &e), "");
    told(3, snib_grant_identity(grant, identity, sizeof identity, &e), "");
    assert_string_equal(identity, snib_client_id(c));
    told(4, snib_grant_request(l, g, request, sizeof request, &e), "");
    assert_int_equal(strspn(request, "0123456789abcdef"), 32);
    assert_non_null(strstr(grant, request));
    told(5, snib_grant_export(l, g, other, SNIB_GRANT_TEXT - 1, &e),
         "room for 95 bytes; the text of a grant needs 96");
    assert_string_equal(other, "");
    told(6, snib_grant_identity(grant, identity, SNIB_IDENTITY_TEXT - 1, &e),
         "room for 32 bytes; an identity needs 33");
    assert_string_equal(identity, "");
    told(7, snib_grant_request(l, g, request, SNIB_REQUEST_TEXT - 1, &e),
         "room for 32 bytes; the id of a request needs 33");
    assert_string_equal(request, "");
    other[0] = identity[0] = request[0] = 'x';
    told(8, snib_grant_export(l, g, other, 0, &e), "room for 0 bytes");
    told(9, snib_grant_identity(grant, identity, 0, &e), "room for 0 bytes");
    told(10, snib_grant_request(l, g, request, 0, &e), "room for 0 bytes");
    assert_int_equal(other[0], 'x');
    assert_int_equal(identity[0], 'x');
    assert_int_equal(request[0], 'x');
    snib_lock_free(l);
    snib_client_free(c);
}

static void lease_of_a_theft(void **state)
{
    static const struct {
        int64_t ms;
        snib_err err;
    } t[] = {{-1, SNIB_ERR_USAGE},
             {0, SNIB_ERR_USAGE},
             {1, SNIB_ERR_OK},
             {SNIB_LEASE_MAX_MS, SNIB_ERR_OK},
             {SNIB_LEASE_MAX_MS + 1, SNIB_ERR_USAGE}};
    (void)state;
    struct snib_client *c = open_client("", false);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        assert_int_equal(snib_test_steal(c, "x", t[i].ms), t[i].err);
        assert_int_equal(snib_test_steal(c, NULL, t[i].ms), SNIB_ERR_USAGE);
    }
    snib_client_free(c);
}

/* What an earlier answer can have said. */
static void ends_of_a_recovery(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    const int64_t most = (INT64_C(1) << 53) - 1;
    struct snib_recovery is;
    for (int sign = -1; sign <= 1; sign += 2) {
        told(0, snib_client_recovery(c, sign * (most + 1), &is, sizeof is, &e),
             "end is 0 or that of an earlier answer");
        assert_int_equal(
            snib_client_recovery(c, sign * most, &is, sizeof is, &e),
            SNIB_ERR_UNSUPPORTED);
    }
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest run_bounds[] = {
        cmocka_unit_test_setup(options_of_a_lock, new_space),
        cmocka_unit_test_setup(options_of_an_acquire, new_space),
        cmocka_unit_test_setup(lease_of_a_renewal, new_space),
        cmocka_unit_test_setup(request_time_of_a_client, new_space),
        cmocka_unit_test_setup(names_have_1_to_512_bytes, new_space),
        cmocka_unit_test_setup(options_of_an_update, new_space),
        cmocka_unit_test_setup(arguments_of_a_put, new_space),
        cmocka_unit_test_setup(sizes_of_semaphores_latches_and_barriers,
                               new_space),
        cmocka_unit_test_setup(members_of_a_ring, new_space),
        cmocka_unit_test_setup(locks_of_a_multi, new_space),
        cmocka_unit_test_setup(options_of_a_drain, new_space),
        cmocka_unit_test_setup(arguments_that_are_missing, new_space),
        cmocka_unit_test_setup(ends_of_a_recovery, new_space),
        cmocka_unit_test_setup(room_for_texts, new_space),
        cmocka_unit_test_setup(lease_of_a_theft, new_space),
    };
    return RUN(run_bounds);
}
