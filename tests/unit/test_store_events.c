/* tests/unit/test_store_events.c — a client is told that another server
 * answers: memory:, whose space forgets everything. labels: thread oom */
#include "run_memory.h"

#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/value.h"

static const char *query = "";

static struct snib_client *client_with(bool pull, bool store_events)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    char url[64];
    snprintf(url, sizeof url, "memory:case%d%s", space, query);
    o.url = url;
    o.pull = pull;
    o.store_events = store_events;
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_OK);
    return c;
}

static void restart(struct snib_client *c)
{
    assert_int_equal(snib_test_restart(c), SNIB_ERR_OK);
}

static bool is_readable(struct snib_client *c, int ms)
{
    struct pollfd fd = {.fd = snib_client_fd(c), .events = POLLIN};
    assert_true(fd.fd >= 0);
    return poll(&fd, 1, ms) == 1;
}

/* The next event, within seconds. */
static struct snib_event next_of(struct snib_client *c, bool pull)
{
    struct snib_event ev;
    int64_t end = now_ms() + 10000;
    do {
        assert_true(is_readable(c, (int)(end - now_ms())));
        if (pull) {
            assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
        }
    } while (!snib_client_next(c, &ev, sizeof ev));
    return ev;
}

static void is_store_changed(const struct snib_event *ev)
{
    assert_int_equal(ev->kind, SNIB_EVENT_STORE_CHANGED);
    assert_int_equal(ev->grant.ticket, 0);
    assert_int_equal(ev->grant.token, 0);
    assert_null(ev->user);
    assert_int_equal(ev->state, SNIB_STATE_RELEASED);
    assert_int_equal(ev->cause, SNIB_CAUSE_NONE);
    assert_int_equal(ev->error.code, SNIB_ERR_OK);
    assert_string_equal(ev->error.text, "");
}

static struct snib_grant holds(struct snib_client *c, struct snib_lock *l,
                               bool pull)
{
    assert_int_equal(snib_acquire_start(l, NULL, l, NULL, &e), SNIB_ERR_OK);
    struct snib_event ev = next_of(c, pull);
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    return ev.grant;
}

static void is_forgotten(const struct snib_event *ev, struct snib_grant g)
{
    assert_int_equal(ev->kind, SNIB_EVENT_STATE);
    assert_int_equal(ev->grant.ticket, g.ticket);
    assert_int_equal(ev->state, SNIB_STATE_LOST);
    assert_int_equal(ev->cause, SNIB_CAUSE_FORGOTTEN);
}

/* A holder hears both, once, and its next token is higher. */
static void told_of_a_restart(bool pull)
{
    struct snib_client *c = client_with(pull, true);
    struct snib_lock *l = lock_of(c, "a");
    struct snib_event ev;
    struct snib_grant g = holds(c, l, pull);
    for (int i = 0; i < 3; i++) {
        assert_false(is_readable(c, 0));
        restart(c);
        ev = next_of(c, pull);
        is_store_changed(&ev);
        ev = next_of(c, pull);
        is_forgotten(&ev, g);
        assert_int_equal(snib_release_start(l, g, NULL, &e), SNIB_ERR_OK);
        ev = next_of(c, pull);
        assert_int_equal(ev.kind, SNIB_EVENT_RELEASED);
        struct snib_grant next = holds(c, l, pull);
        assert_true(next.token > g.token);
        g = next;
    }
    snib_lock_free(l);
    snib_client_free(c);
}

static void an_event_loop_is_told_of_a_restart(void **state)
{
    (void)state;
    told_of_a_restart(true);
}

static void a_threaded_client_is_told_of_a_restart(void **state)
{
    (void)state;
    told_of_a_restart(false);
}

static void the_server_has_another_run_id_then(void **state)
{
    (void)state;
    struct snib_client *c = client_with(true, true);
    struct snib_server *was, *is;
    assert_int_equal(snib_client_server(c, &was, &e), SNIB_ERR_OK);
    restart(c);
    assert_int_equal(snib_client_server(c, &is, &e), SNIB_ERR_OK);
    assert_string_not_equal(was->run_id, "");
    assert_string_not_equal(was->run_id, is->run_id);
    snib_server_free(was);
    snib_server_free(is);
    snib_client_free(c);
}

/* Nobody fetches: the events do not pile up. */
static void only_one_waits_to_be_fetched(void **state)
{
    (void)state;
    struct snib_client *c = client_with(true, true);
    struct snib_event ev;
    assert_false(is_readable(c, 0));
    for (int i = 0; i < 1000; i++) {
        restart(c);
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    }
    ev = next_of(c, true);
    is_store_changed(&ev);
    assert_false(snib_client_next(c, &ev, sizeof ev));
    assert_false(is_readable(c, 0));
    restart(c); /* and the next one comes again */
    ev = next_of(c, true);
    is_store_changed(&ev);
    restart(c); /* one that nobody fetches goes with its client */
    assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    snib_client_free(c);
}

static void who_did_not_ask_is_told_of_its_locks_only(void **state)
{
    (void)state;
    struct snib_client *c = client_with(true, false);
    struct snib_lock *l = lock_of(c, "a");
    struct snib_grant g = holds(c, l, true);
    restart(c);
    struct snib_event ev = next_of(c, true);
    is_forgotten(&ev, g);
    assert_false(snib_client_next(c, &ev, sizeof ev));
    assert_false(is_readable(c, 0));
    snib_lock_free(l);
    snib_client_free(c);
}

/* The space forgets the holder, and who waits asks anew, though no time goes by
 * in which it would poll. */
static void other_clients_are_told_and_a_wait_goes_on(void **state)
{
    (void)state;
    query = "?clock=virtual";
    struct snib_client *c = client_with(true, true), *waits;
    waits = client_with(true, true);
    struct snib_lock *l = lock_of(c, "a"), *k = lock_of(waits, "a");
    struct snib_grant g = holds(c, l, true);
    struct snib_event ev;
    assert_int_equal(snib_acquire_start(k, NULL, NULL, NULL, &e), SNIB_ERR_OK);
    assert_int_equal(snib_client_process(waits), SNIB_ERR_OK);
    assert_false(snib_client_next(waits, &ev, sizeof ev));
    restart(c);
    ev = next_of(waits, true);
    is_store_changed(&ev);
    ev = next_of(waits, true);
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    assert_true(ev.grant.token > g.token);
    ev = next_of(c, true);
    is_store_changed(&ev);
    ev = next_of(c, true); /* the other one was quicker */
    assert_int_equal(ev.kind, SNIB_EVENT_STATE);
    assert_int_equal(ev.state, SNIB_STATE_LOST);
    assert_int_equal(ev.cause, SNIB_CAUSE_STOLEN);
    snib_lock_free(l);
    snib_lock_free(k);
    snib_client_free(c);
    snib_client_free(waits);
    query = "";
}

static void a_blocking_wait_goes_on(void **state)
{
    (void)state;
    struct snib_client *c = client_with(false, false), *waits;
    waits = client_with(false, false);
    struct snib_lock *l = lock_of(c, "a");
    struct snib_grant g;
    struct job j = {.lock = lock_of(waits, "a"), .wait_ms = 20000};
    struct snib_view *v;
    pthread_t thread;
    size_t waiting;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(pthread_create(&thread, NULL, acquires, &j), 0);
    do {
        assert_int_equal(snib_client_inspect(c, "a", 0, &v, &e), SNIB_ERR_OK);
        waiting = v->waiter_count;
        snib_view_free(v);
    } while (!waiting);
    restart(c);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(j.err, SNIB_ERR_OK);
    assert_true(j.took_ms < 10000);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_LOST);
    snib_lock_free(l);
    snib_lock_free(j.lock);
    snib_client_free(c);
    snib_client_free(waits);
}

static void values_and_queues_are_forgotten(void **state)
{
    (void)state;
    struct snib_client *c = client_with(false, false);
    struct snib_lock *l = lock_of(c, "a");
    struct snib_value *value;
    struct snib_view **views;
    struct snib_grant g;
    size_t count;
    int64_t before, after;
    assert_int_equal(snib_value_put(c, "v", 0, 0, "x", 1, 0, &before, &e),
                     SNIB_ERR_OK);
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    restart(c);
    assert_int_equal(snib_client_list(c, NULL, &views, &count, &e),
                     SNIB_ERR_OK);
    assert_int_equal(count, 0);
    snib_views_free(views, count);
    assert_int_equal(snib_value_get(c, "v", 0, &value, &e), SNIB_ERR_OK);
    assert_int_equal(value->version, 0);
    snib_value_free(value);
    assert_int_equal(snib_value_put(c, "v", 0, 0, "x", 1, 0, &after, &e),
                     SNIB_ERR_OK);
    assert_true(after > before);
    snib_lock_free(l);
    snib_client_free(c);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup(f, new_space)
    const struct CMUnitTest cases[] = {
        CASE(an_event_loop_is_told_of_a_restart),
        CASE(a_threaded_client_is_told_of_a_restart),
        CASE(the_server_has_another_run_id_then),
        CASE(only_one_waits_to_be_fetched),
        CASE(who_did_not_ask_is_told_of_its_locks_only),
        CASE(other_clients_are_told_and_a_wait_goes_on),
        CASE(a_blocking_wait_goes_on),
        CASE(values_and_queues_are_forgotten),
    };
    return RUN(cases);
}
