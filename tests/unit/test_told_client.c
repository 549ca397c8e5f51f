/* tests/unit/test_told_client.c — a client that was stopped, came through a
 * fork, has no memory, no descriptors: each function says so. labels: thread oom */
#include "snib/inspect.h"
#include "snib/sys.h"
#include "told.h"

#define TOLD "unit.told_client"

static void stop(struct world *w, const struct call *call)
{
    (void)call;
    snib_client_stop(w->c);
}

static void a_client_that_was_stopped_says_so(void **state)
{
    (void)state;
    each_row(calls, .set = stop);
}

/* In the child nothing is freed: its end does that. */
static void show_forked(struct world *w, const struct call *call, snib_err want)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        alarm(20); /* a mutex of the parent's */
        snib_err got = run_call(call, w);
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
}

static void in_a_forked_child_each_call_says_so(void **state)
{
    (void)state;
    each_row(calls, .show = show_forked);
}

/* Memory ends at the n-th allocation of the call, for each n until it needs no
 * more: at least once it is said, and nothing else is. */
static void show_out_of_memory(struct world *w, const struct call *call,
                               snib_err want)
{
    bool said = false;
    for (int n = 1;; n++) {
        memset(&e, 0xa5, sizeof e);
        snib__mem_fail_at(n, true);
        snib_err got = run_call(call, w);
        snib__mem_fail_at(0, false);
        /* Who waits for several locks may also be unable to give one back. */
        bool unsure = got == SNIB_ERR_UNKNOWN &&
                      strcmp(call->function, "snib_multi_acquire") == 0;
        if (got && !unsure) {
            must_say(call, got, want);
            said = true;
        }
        if (!got || n == 200) {
            break;
        }
        world_end(w);
        world_begin(w, call->needs | HASTY);
    }
    must_hold(call, said, "it says that memory ended");
}

static void without_memory_each_call_says_so(void **state)
{
    (void)state;
    each_row(calls, .more = HASTY, .show = show_out_of_memory);
}

static void show_out_of_descriptors(struct world *w, const struct call *call,
                                    snib_err want)
{
    struct rlimit was = take_descriptors();
    snib_err got = run_call(call, w);
    give_descriptors(was);
    must_say(call, got, want);
    must_hold(call,
              strstr(e.text, "ulimit -n") ||
                  strstr(e.text, "Too many open files"),
              "it says of what");
}

static void without_descriptors_each_call_says_so(void **state)
{
    (void)state;
    each_row(calls, .show = show_out_of_descriptors);
}

/* -- functions without a client -------------------------------------------------- */

static snib_err open_plain(struct world *w)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    o.url = "memory:told_open";
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
    return snib_grant_identity(w->text, w->identity, sizeof w->identity, &e);
}

static const struct call plain[] = {
    {"snib_client_open", 0, open_plain},
    {"snib_ring_new", 0, ring_of_two},
    {"snib_ring_of_view", 0, ring_of_a_view},
    {"snib_grant_identity", LEFT | FIXED, identity_of},
};

static void what_needs_no_client_is_told_as_done(void **state)
{
    (void)state;
    each_row(plain, 0);
}

static void what_needs_no_client_says_that_memory_ended(void **state)
{
    (void)state;
    each_row(plain, .more = HASTY, .show = show_out_of_memory);
}

static void what_needs_no_client_says_that_descriptors_ended(void **state)
{
    (void)state;
    each_row(plain, .show = show_out_of_descriptors);
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
