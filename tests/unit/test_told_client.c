/* tests/unit/test_told_client.c — a client that was stopped, came through a
 * fork, has no memory, no descriptors: each function says so. labels: thread oom */
#include "told.h"

static void show_stopped(const struct call *call, snib_err want)
{
    struct world w;
    world_begin(&w, call->needs);
    snib_client_stop(w.c);
    memset(&e, 0xa5, sizeof e);
    must_say(call, call->run(&w), want);
    world_end(&w);
}

static void a_client_that_was_stopped_says_so(void **state)
{
    (void)state;
    each_row("unit.told_client", calls, show_stopped);
}

/* In the child nothing is freed: its end does that. */
static void show_forked(const struct call *call, snib_err want)
{
    struct world w;
    int status;
    world_begin(&w, call->needs);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        alarm(20); /* a mutex of the parent's */
        snib_err got = call->run(&w);
        _exit(is_so(call, got, want) ? 0 : 1 + (int)got);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status) {
        fail_msg("%s in a child: %s, expected %s", call->function,
                 WIFEXITED(status)
                     ? snib_err_name((snib_err)(WEXITSTATUS(status) - 1))
                     : "killed",
                 snib_err_name(want));
    }
    world_end(&w);
}

static void in_a_forked_child_each_call_says_so(void **state)
{
    (void)state;
    each_row("unit.told_client", calls, show_forked);
}

/* Memory ends at the n-th allocation of the call, for each n until it needs no
 * more: at least once it is said, and nothing else is. */
static void show_out_of_memory(const struct call *call, snib_err want)
{
    bool said = false;
    patience_ms = SOON_MS;
    for (int n = 1;; n++) {
        struct world w;
        world_begin(&w, call->needs);
        snib__mem_fail_at(n, true);
        snib_err got = call->run(&w);
        snib__mem_fail_at(0, false);
        if (got) {
            must_say(call, got, want);
            said = true;
        }
        world_end(&w);
        if (!got || n == 200) {
            break;
        }
    }
    patience_ms = LATE_MS;
    if (!said) {
        fail_msg("%s never says %s", call->function, snib_err_name(want));
    }
}

static void without_memory_each_call_says_so(void **state)
{
    (void)state;
    each_row("unit.told_client", calls, show_out_of_memory);
}

static void show_out_of_descriptors(const struct call *call, snib_err want)
{
    struct world w;
    struct rlimit was, none;
    world_begin(&w, call->needs);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    snib_err got = call->run(&w);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    must_say(call, got, want);
    assert_non_null(strstr(e.text, "Too many open files"));
    world_end(&w);
}

static void without_descriptors_each_call_says_so(void **state)
{
    (void)state;
    each_row("unit.told_client", calls, show_out_of_descriptors);
}

/* -- functions without a client -------------------------------------------------- */

static snib_err open_plain(struct world *w)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    o.url = "memory:told_open";
    w->ticket = 0;
    return snib_client_open(&o, &w->first, &e);
}

static snib_err ring_of_two(struct world *w)
{
    static const struct snib_ring_member two[] = {{.id = "a"}, {.id = "b"}};
    return snib_ring_new(two, 2, &w->ring, &e);
}

static snib_err ring_of_a_view(struct world *w)
{
    static const struct snib_view nobody = {.name = "x", .name_size = 1};
    return snib_ring_of_view(&nobody, &w->ring, &e);
}

static snib_err identity_of(struct world *w)
{
    char identity[SNIB_IDENTITY_TEXT];
    return snib_grant_identity(w->text, identity, sizeof identity, &e);
}

static const struct call plain[] = {
    {"snib_client_open", 0, open_plain},
    {"snib_ring_new", 0, ring_of_two},
    {"snib_ring_of_view", 0, ring_of_a_view},
    {"snib_grant_identity", LEFT | FIXED, identity_of},
};

static void show_plain(const struct call *call, snib_err want)
{
    struct world w;
    world_begin(&w, call->needs);
    must_say(call, call->run(&w), want);
    world_end(&w);
}

static void what_needs_no_client_is_told_as_done(void **state)
{
    (void)state;
    each_row("unit.told_client", plain, show_plain);
}

static void what_needs_no_client_says_that_memory_ended(void **state)
{
    (void)state;
    each_row("unit.told_client", plain, show_out_of_memory);
}

static void what_needs_no_client_says_that_descriptors_ended(void **state)
{
    (void)state;
    each_row("unit.told_client", plain, show_out_of_descriptors);
}

int main(void)
{
    const struct CMUnitTest told_client[] = {
        cmocka_unit_test(a_client_that_was_stopped_says_so),
        cmocka_unit_test(in_a_forked_child_each_call_says_so),
        cmocka_unit_test(without_memory_each_call_says_so),
        cmocka_unit_test(without_descriptors_each_call_says_so),
        cmocka_unit_test(what_needs_no_client_is_told_as_done),
        cmocka_unit_test(what_needs_no_client_says_that_memory_ended),
        cmocka_unit_test(what_needs_no_client_says_that_descriptors_ended),
    };
    return RUN(told_client);
}
