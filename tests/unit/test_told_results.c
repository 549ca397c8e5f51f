/* tests/unit/test_told_results.c — what a call says of a lock is what somebody
 * else finds in the store, to the last number. labels: thread */
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/sys.h"
#include "told_started.h"

#include <ctype.h>

/* What the store says to another client. */
static struct snib_view *seen(struct world *w, const char *name)
{
    struct snib_view *v;
    must(snib_client_inspect(w->other, name, 0, &v, &e));
    return v;
}

static const struct snib_party *holder_of(const struct snib_view *v,
                                          const char *request)
{
    for (size_t i = 0; i < v->holder_count; i++) {
        if (strcmp(v->holders[i]->request, request) == 0) {
            return v->holders[i];
        }
    }
    fail_msg("%s is no holder", request);
    return NULL;
}

/* The holder that this grant of l is, as others see it. */
static const struct snib_party *same(struct world *w, struct snib_lock *l,
                                     struct snib_grant g,
                                     const struct snib_view *v)
{
    char request[SNIB_REQUEST_TEXT];
    must(snib_grant_request(l, g, request, sizeof request, &e));
    const struct snib_party *p = holder_of(v, request);
    assert_true(g.ticket != 0);
    assert_int_equal(g.token, p->token);
    assert_string_equal(p->client_id, snib_client_id(w->c));
    assert_false(p->self);
    return p;
}

/* -- results, one by one ------------------------------------------------------- */

static void is_granted(struct world *w, const struct snib_view *v)
{
    assert_int_equal(v->holder_count, 1);
    (void)same(w, w->lock, w->got, v);
}

static void is_adopted(struct world *w, const struct snib_view *v)
{
    is_granted(w, v);
    assert_non_null(strstr(w->text, v->holders[0]->request));
}

static void is_request(struct world *w, const struct snib_view *v)
{
    assert_string_equal(w->text, v->holders[0]->request);
}

static void is_export(struct world *w, const struct snib_view *v)
{
    char text[SNIB_GRANT_TEXT];
    const struct snib_party *p = v->holders[0];
    snprintf(text, sizeof text, "snib1:%s:%s:%lld", p->client_id, p->request,
             (long long)p->token);
    assert_string_equal(w->text, text);
}

static void is_started(struct world *w, const struct snib_view *v)
{
    struct snib_event ev = next_event(w, SNIB_EVENT_GRANTED);
    struct snib_view *then = seen(w, "x"); /* v may be of before */
    (void)v;
    assert_int_equal(ev.grant.ticket, w->ticket);
    assert_int_equal(then->holder_count, 1);
    (void)same(w, w->lock, ev.grant, then);
    snib_view_free(then);
}

static void is_passed(struct world *w, const struct snib_view *v)
{
    (void)v;
    struct snib_event ev = next_event(w, SNIB_EVENT_PASSED);
    assert_true(w->ticket != 0);
    assert_int_equal(ev.grant.ticket, w->ticket);
}

static void is_run(struct world *w, const struct snib_view *v)
{
    assert_int_equal(w->result, 7);
    assert_int_equal(v->holder_count, 0);
}

static void are_granted(struct world *w, const struct snib_view *v)
{
    struct snib_view *second = seen(w, "y");
    (void)same(w, w->lock, w->grants[0], v);
    (void)same(w, w->second, w->grants[1], second);
    snib_view_free(second);
}

static void is_drained(struct world *w, const struct snib_view *v)
{
    const struct snib_party *p = same(w, w->lock, w->got, v);
    assert_int_equal(w->number, 3);
    assert_int_equal(p->permits, 3);
}

static void is_slot(struct world *w, const struct snib_view *v)
{
    assert_int_equal(w->number, 1);
    assert_int_equal(same(w, w->lock, w->g, v)->slot, 1);
}

static void take_again(struct world *w)
{
    take(w, &w->g); /* permits are never entered again: the next slot */
}

static void is_semaphore(struct world *w, const struct snib_view *v)
{
    assert_int_equal(w->size.size, 3);
    assert_int_equal(w->size.used, v->holders[0]->permits);
    assert_int_equal(w->size.available, 2);
    assert_int_equal(w->size.waiting, v->waiter_count);
    assert_int_equal(w->size.waiting, 1);
}

/* Another wants three, and waits. */
static void want_all(struct world *w)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.permits = 3;
    must(snib_try_for_start(w->others, 20000, &o, NULL, &w->ticket, &e));
    for (int64_t end = now_ms() + 20000;; nap(1)) {
        struct snib_view *v = seen(w, "x");
        size_t waits = v->waiter_count;
        snib_view_free(v);
        assert_true(now_ms() < end);
        if (waits) {
            return;
        }
    }
}

static int64_t size_seen(struct world *w)
{
    struct snib_semaphore s;
    must(snib_semaphore_get(w->other, "x", 0, &s, sizeof s, &e));
    return s.size;
}

static void is_set(struct world *w, const struct snib_view *v)
{
    (void)v;
    bool set = true;
    assert_true(w->flag);
    assert_int_equal(size_seen(w), 2);
    must(snib_semaphore_set(w->c, "x", 0, 5, true, &set, &e));
    assert_false(set);
    assert_int_equal(size_seen(w), 2);
}

static void is_more(struct world *w, const struct snib_view *v)
{
    (void)v;
    assert_int_equal(size_seen(w), 5);
}

static uint32_t steps_seen(struct world *w)
{
    uint32_t left;
    must(snib_latch_left(w->other, "x", 0, &left, &e));
    return left;
}

static void is_closed(struct world *w, const struct snib_view *v)
{
    (void)v;
    bool set = true;
    assert_true(w->flag);
    assert_int_equal(steps_seen(w), 2);
    must(snib_latch_set(w->c, "x", 0, 7, &set, &e));
    assert_false(set);
    assert_int_equal(steps_seen(w), 2);
}

static void close_it(struct world *w)
{
    must(snib_latch_set(w->other, "x", 0, 9, NULL, &e));
}

static void is_left(struct world *w, const struct snib_view *v)
{
    (void)v;
    assert_int_equal(w->number, steps_seen(w));
    assert_true(w->number == 8 || w->number == 9);
}

static void is_generation(struct world *w, const struct snib_view *v)
{
    int64_t next;
    assert_in_range(w->generation, 1, v->token);
    must(snib_barrier_try_for(w->other, "x", 0, 1, 20, &next, &e));
    assert_true(next > w->generation);
}

static void is_term(struct world *w, const struct snib_view *v)
{
    struct snib_elect_status s;
    memset(&s, POISON, sizeof s);
    snib_elect_status(w->elect, &s, sizeof s);
    assert_int_equal(v->holder_count, 1);
    assert_int_equal(w->term, v->holders[0]->token);
    assert_int_equal(s.state, SNIB_ELECT_LEADER);
    assert_int_equal(s.cause, SNIB_CAUSE_NONE);
    assert_int_equal(s.term, w->term);
    assert_in_range(s.left_ms, 1, v->holders[0]->left_ms + 1);
}

static void is_leader(struct world *w, const struct snib_view *v)
{
    const struct snib_leader *l = w->leader;
    const struct snib_party *p = v->holders[0];
    assert_int_equal(l->term, p->token);
    assert_string_equal(l->id, p->reason);
    assert_string_equal(l->client_id, p->client_id);
    assert_string_equal(l->host, p->host);
    assert_string_equal(l->user, p->user);
    assert_string_equal(l->program, p->program);
    assert_int_equal(l->pid, p->pid);
    assert_int_equal(l->pid, getpid());
    assert_in_range(l->since_ms, p->since_ms - 1000, p->since_ms + 1000);
    assert_in_range(l->left_ms, p->left_ms, p->left_ms + 20000);
    assert_int_equal(l->candidates, v->waiter_count);
    assert_true(l->self);
}

static void lead(struct world *w)
{
    must(snib_elect_try(w->elect, &w->term, &e));
}

static void is_party(const struct snib_party *a, const struct snib_party *b)
{
    assert_string_equal(a->client_id, b->client_id);
    assert_string_equal(a->host, b->host);
    assert_string_equal(a->user, b->user);
    assert_string_equal(a->program, b->program);
    assert_string_equal(a->reason, b->reason);
    assert_string_equal(a->request, b->request);
    assert_string_equal(a->holding, b->holding);
    assert_int_equal(a->pid, b->pid);
    assert_int_equal(a->start, b->start);
    assert_int_equal(a->token, b->token);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->permits, b->permits);
    assert_int_equal(a->holds, b->holds);
    assert_int_equal(a->owner, b->owner);
    assert_int_equal(a->slot, b->slot);
    assert_in_range(a->left_ms, b->left_ms, b->left_ms + 20000);
}

static void is_view_of(const struct snib_view *a, const struct snib_view *v)
{
    assert_int_equal(a->name_size, v->name_size);
    assert_memory_equal(a->name, v->name, v->name_size + 1);
    assert_int_equal(a->token, v->token);
    assert_int_equal(a->holder_count, v->holder_count);
    assert_int_equal(a->waiter_count, v->waiter_count);
    assert_int_equal(a->closed_count, 0);
    assert_int_equal(a->closed_ms, 0);
    assert_int_equal(a->holders_more, 0);
    assert_int_equal(v->holder_count, 1);
    is_party(a->holders[0], v->holders[0]);
    assert_true(a->holders[0]->self);
}

static void is_view(struct world *w, const struct snib_view *v)
{
    is_view_of(w->view, v);
}

static void are_views(struct world *w, const struct snib_view *v)
{
    assert_int_equal(w->count, 1);
    is_view_of(w->views[0], v);
}

static void is_forced(struct world *w, const struct snib_view *v)
{
    assert_int_equal(w->number, 1);
    assert_int_equal(v->holder_count, 0);
}

static void is_ring(struct world *w, const struct snib_view *v)
{
    struct snib_view *place = seen(w, "ring");
    size_t size;
    (void)v;
    assert_int_equal(snib_ring_count(w->ring), place->holder_count);
    assert_string_equal(snib_ring_id(w->ring, 0, &size),
                        place->holders[0]->reason);
    assert_int_equal(size, 1);
    snib_view_free(place);
}

static void is_joined(struct world *w, const struct snib_view *v)
{
    struct snib_view *place = seen(w, "ring");
    (void)v;
    assert_non_null(w->joined);
    assert_int_equal(place->holder_count, 1);
    assert_string_equal(place->holders[0]->reason, "b");
    snib_view_free(place);
}

static struct snib_value *value_seen(struct world *w)
{
    struct snib_value *v;
    must(snib_value_get(w->other, "v", 0, &v, &e));
    return v;
}

static void is_value(struct world *w, const struct snib_view *view)
{
    struct snib_value *v = value_seen(w);
    (void)view;
    assert_int_equal(w->value->version, v->version);
    assert_int_equal(w->value->size, v->size);
    assert_memory_equal(w->value->bytes, v->bytes, v->size + 1);
    assert_int_equal(w->value->version, w->version);
    assert_string_equal(w->value->bytes, "1");
    snib_value_free(v);
}

static void is_changed(struct world *w, const struct snib_view *view)
{
    struct snib_value *v = value_seen(w);
    (void)view;
    assert_int_equal(w->changed, v->version);
    assert_true(w->changed > w->version);
    assert_string_equal(v->bytes, "2");
    assert_int_equal(w->stopped, 0);
    snib_value_free(v);
}

static void is_absent(struct world *w, const struct snib_view *view)
{
    struct snib_value *v = value_seen(w);
    (void)view;
    assert_int_equal(w->changed, 0);
    assert_int_equal(v->version, 0);
    snib_value_free(v);
}

static void is_made(struct world *w, const struct snib_view *v)
{
    assert_int_equal(v->holder_count, 0);
    assert_true(w->made || w->made_multi || w->made_elect);
}

static void is_nothing(struct world *w, const struct snib_view *v)
{
    (void)v;
    assert_null(w->cycles);
    assert_int_equal(w->count, 0);
}

static void is_recovery(struct world *w, const struct snib_view *v)
{
    (void)v;
    assert_int_equal(w->recovery.left_ms, 9);
    assert_int_equal(w->recovery.end, 7);
    assert_true(w->recovery.ended);
    assert_int_equal(w->recovery.replicas_missing, 3);
}

/* The client is the one that was granted the lock there. */
static void is_server(struct world *w, const struct snib_view *v)
{
    assert_int_equal(v->holder_count, 1);
    assert_string_equal(w->server->address, snib_client_url(w->c));
    assert_string_equal(w->server->product, "memory");
    assert_true(w->server->reachable);
}

static const struct look {
    const char *function;
    unsigned more;
    void (*before)(struct world *);
    void (*check)(struct world *, const struct snib_view *);
} looks[] = {
    {"snib_lock_new", 0, NULL, is_made},
    {"snib_acquire", 0, NULL, is_granted},
    {"snib_try", 0, NULL, is_granted},
    {"snib_try_for", 0, NULL, is_granted},
    {"snib_acquire_start", 0, NULL, is_started},
    {"snib_try_start", 0, NULL, is_started},
    {"snib_try_for_start", 0, NULL, is_started},
    {"snib_grant_request", 0, NULL, is_request},
    {"snib_grant_export", 0, NULL, is_export},
    {"snib_grant_adopt", 0, NULL, is_adopted},
    {"snib_policy_run", 0, NULL, is_run},
    {"snib_policy_try", 0, NULL, is_run},
    {"snib_policy_try_for", 0, NULL, is_run},
    {"snib_multi_new", 0, NULL, is_made},
    {"snib_multi_acquire", 0, NULL, are_granted},
    {"snib_multi_try", 0, NULL, are_granted},
    {"snib_multi_try_for", 0, NULL, are_granted},
    {"snib_semaphore_drain", 0, NULL, is_drained},
    {"snib_semaphore_slot", 0, take_again, is_slot},
    {"snib_semaphore_get", PERMITS | HELD, want_all, is_semaphore},
    {"snib_semaphore_set", 0, NULL, is_set},
    {"snib_semaphore_add", 0, NULL, is_more},
    {"snib_elect_new", 0, NULL, is_made},
    {"snib_elect_campaign", 0, NULL, is_term},
    {"snib_elect_try", 0, NULL, is_term},
    {"snib_elect_try_for", 0, NULL, is_term},
    {"snib_elect_leader", LEADS, NULL, is_leader},
    {"snib_elect_watch", 0, NULL, is_leader},
    {"snib_elect_watch_for", 0, NULL, is_leader},
    {"snib_ring_read", PLACE, NULL, is_ring},
    {"snib_ring_join", 0, NULL, is_joined},
    {"snib_ring_try", 0, NULL, is_joined},
    {"snib_ring_try_for", 0, NULL, is_joined},
    {"snib_client_inspect", HELD, NULL, is_view},
    {"snib_client_list", HELD, NULL, are_views},
    {"snib_client_force_release", HELD, NULL, is_forced},
    {"snib_client_deadlocks", HELD, NULL, is_nothing},
    {"snib_client_recovery", 0, NULL, is_recovery},
    {"snib_client_server", HELD, NULL, is_server},
    {"snib_latch_set", 0, NULL, is_closed},
    {"snib_latch_count_down", 0, close_it, is_left},
    {"snib_latch_left", 0, close_it, is_left},
    {"snib_latch_await_start", 0, NULL, is_passed},
    {"snib_latch_try_start", 0, NULL, is_passed},
    {"snib_latch_try_for_start", 0, NULL, is_passed},
    {"snib_barrier_wait", 0, NULL, is_generation},
    {"snib_barrier_try", 0, NULL, is_generation},
    {"snib_barrier_try_for", 0, NULL, is_generation},
    {"snib_barrier_wait_start", 0, NULL, is_passed},
    {"snib_barrier_try_start", 0, NULL, is_passed},
    {"snib_barrier_try_for_start", 0, NULL, is_passed},
    {"snib_value_get", VALUE, NULL, is_value},
    {"snib_value_put", 0, NULL, is_changed},
    {"snib_value_delete", 0, NULL, is_absent},
    {"snib_value_update", VALUE, NULL, is_changed},
    {"snib_value_try", VALUE, NULL, is_changed},
    {"snib_value_try_for", VALUE, NULL, is_changed},
};

static void show_look(const struct look *l, const struct call *call)
{
    struct world w;
    world_begin(&w, call->needs | l->more | OTHER);
    if (l->before) {
        l->before(&w);
    }
    must_say(call, run_call(call, &w), SNIB_ERR_OK);
    struct snib_view *v = seen(&w, "x");
    l->check(&w, v);
    snib_view_free(v);
    world_end(&w);
}

static void what_a_call_says_is_what_a_stranger_sees(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(looks); i++) {
        show_look(&looks[i],
                  call_named(calls, COUNT_OF(calls), looks[i].function));
    }
}

static void what_an_event_leaves_is_what_a_stranger_sees(void **state)
{
    int shown = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(looks); i++) {
        const struct call *call =
            call_named(answers, COUNT_OF(answers), looks[i].function);
        if (call) {
            show_look(&looks[i], call);
            shown++;
        }
    }
    assert_int_equal(shown, 35);
}

/* -- none is left out -------------------------------------------------------------------- */

static bool has_result(const char *function)
{
    for (size_t i = 0; i < COUNT_OF(results); i++) {
        if (strcmp(results[i].function, function) == 0) {
            return true;
        }
    }
    return false;
}

enum { FUNCTIONS = 103 }; /* that have results, in all headers           */

/* Of a header each function that answers with a snib_err and has a parameter
 * "ret", "ret_…" is among the results above. How many it has. */
static int check_header(const char *name)
{
    static char text[100000];
    char path[300];
    int count = 0;
    snprintf(path, sizeof path, SNIB_TESTS "/../include/%s", name);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    (void)fclose(f);
    for (char *p = text; (p = strchr(p, '(')); p++) {
        char *end = strstr(p, ");"), *begin = p;
        while (begin > text &&
               (isalnum((unsigned char)begin[-1]) || begin[-1] == '_')) {
            begin--;
        }
        if (strncmp(begin, "snib_", 5) != 0 || !end || end - p > 700) {
            continue;
        }
        char function[60], list[701];
        snprintf(function, sizeof function, "%.*s", (int)(p - begin), begin);
        snprintf(list, sizeof list, "%.*s", (int)(end - p), p);
        bool gives = strstr(list, "*ret,") || strstr(list, "*ret_") ||
                     strstr(list, " ret_grants[]");
        if (strchr(list, ';') || !strstr(list, "*reterr") || !gives) {
            continue;
        }
        count++;
        if (!has_result(function)) {
            fail_msg("%s: %s is not among the results", name, function);
        }
    }
    return count;
}

static void no_function_is_left_out(void **state)
{
    (void)state;
    assert_int_equal(
        check_header("snib.h") + check_header("snib/value.h") +
            check_header("snib/latch.h") + check_header("snib/semaphore.h") +
            check_header("snib/elect.h") + check_header("snib/ring.h") +
            check_header("snib/multi.h") + check_header("snib/deadlock.h") +
            check_header("snib/event.h") + check_header("snib/inspect.h") +
            check_header("snib/policy.h") + check_header("snib/sys.h"),
        FUNCTIONS);
}

int main(void)
{
    const struct CMUnitTest told_results[] = {
        cmocka_unit_test(what_a_call_says_is_what_a_stranger_sees),
        cmocka_unit_test(what_an_event_leaves_is_what_a_stranger_sees),
        cmocka_unit_test(no_function_is_left_out),
    };
    return RUN(told_results);
}
