/* tests/unit/told_results.h — what a call leaves where it puts its results.
 *
 * Before each call of unit.told_* all places into which its function writes are
 * filled with 0xA5. After an error they are what snib.h says ("Results"): NULL,
 * zero, "", or as they were; after OK each has been written. What is written
 * there is looked at by unit.told_results. */
#ifndef SNIB_TESTS_TOLD_RESULTS_H
#define SNIB_TESTS_TOLD_RESULTS_H

/* After an error. */
enum leaves {
    ZERO, /* what would have to be freed, its count; grants and tickets    */
    KEPT, /* as it was                                                     */
    NONE, /* a text: ""                                                    */
    WHAT  /* it says something, by its own rule                            */
};

enum { POISON = 0xa5 };

struct result {
    const char *function;
    size_t at, size; /* in a world                                        */
    enum leaves leaves;
    snib_err but; /* after this one it may be written, too              */
};

#define RESULT_(f, member, ...)                                                \
    {                                                                          \
#f, offsetof(struct world, member),                                    \
            sizeof(((struct world *)NULL)->member), __VA_ARGS__                \
    }

static const struct result results[] = {
    RESULT_(snib_client_open, first, ZERO, SNIB_ERR_OK),
    RESULT_(snib_lock_new, made, ZERO, SNIB_ERR_OK),
    RESULT_(snib_acquire, got, ZERO, SNIB_ERR_OK),
    RESULT_(snib_try, got, ZERO, SNIB_ERR_OK),
    RESULT_(snib_try_for, got, ZERO, SNIB_ERR_OK),
    RESULT_(snib_acquire_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_try_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_try_for_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_grant_request, text, NONE, SNIB_ERR_OK),
    RESULT_(snib_grant_export, text, NONE, SNIB_ERR_OK),
    RESULT_(snib_grant_identity, identity, NONE, SNIB_ERR_OK),
    RESULT_(snib_store_schema, text, NONE, SNIB_ERR_OK),
    RESULT_(snib_grant_adopt, got, ZERO, SNIB_ERR_OK),
    RESULT_(snib_policy_run, result, KEPT, SNIB_ERR_LOST),
    RESULT_(snib_policy_try, result, KEPT, SNIB_ERR_LOST),
    RESULT_(snib_policy_try_for, result, KEPT, SNIB_ERR_LOST),
    RESULT_(snib_multi_new, made_multi, ZERO, SNIB_ERR_OK),
    RESULT_(snib_multi_acquire, grants, ZERO, SNIB_ERR_OK),
    RESULT_(snib_multi_try, grants, ZERO, SNIB_ERR_OK),
    RESULT_(snib_multi_try_for, grants, ZERO, SNIB_ERR_OK),
    RESULT_(snib_semaphore_drain, got, ZERO, SNIB_ERR_OK),
    RESULT_(snib_semaphore_drain, number, KEPT, SNIB_ERR_OK),
    RESULT_(snib_semaphore_slot, number, KEPT, SNIB_ERR_OK),
    RESULT_(snib_semaphore_get, size, KEPT, SNIB_ERR_OK),
    RESULT_(snib_semaphore_set, flag, KEPT, SNIB_ERR_OK),
    RESULT_(snib_elect_new, made_elect, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_campaign, term, KEPT, SNIB_ERR_OK),
    RESULT_(snib_elect_try, term, KEPT, SNIB_ERR_OK),
    RESULT_(snib_elect_try_for, term, KEPT, SNIB_ERR_OK),
    RESULT_(snib_elect_leader, leader, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_watch, leader, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_watch_for, leader, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_new, ring, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_of_view, ring, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_read, ring, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_join, joined, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_try, joined, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_try_for, joined, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_inspect, view, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_list, views, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_list, count, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_force_release, number, KEPT, SNIB_ERR_OK),
    RESULT_(snib_client_recovery, recovery, KEPT, SNIB_ERR_OK),
    RESULT_(snib_client_server, server, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_deadlocks, cycles, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_deadlocks, count, ZERO, SNIB_ERR_OK),
    RESULT_(snib_latch_set, flag, KEPT, SNIB_ERR_OK),
    RESULT_(snib_latch_count_down, number, KEPT, SNIB_ERR_OK),
    RESULT_(snib_latch_left, number, KEPT, SNIB_ERR_OK),
    RESULT_(snib_latch_await_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_latch_try_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_latch_try_for_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_barrier_wait, generation, KEPT, SNIB_ERR_OK),
    RESULT_(snib_barrier_try, generation, KEPT, SNIB_ERR_OK),
    RESULT_(snib_barrier_try_for, generation, KEPT, SNIB_ERR_OK),
    RESULT_(snib_barrier_wait_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_barrier_try_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_barrier_try_for_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_get, value, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_put, changed, ZERO, SNIB_ERR_BUSY),
    RESULT_(snib_value_delete, changed, ZERO, SNIB_ERR_BUSY),
    RESULT_(snib_value_update, changed, WHAT, SNIB_ERR_OK),
    RESULT_(snib_value_update, stopped, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_try, changed, WHAT, SNIB_ERR_OK),
    RESULT_(snib_value_try, stopped, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_try_for, changed, WHAT, SNIB_ERR_OK),
    RESULT_(snib_value_try_for, stopped, ZERO, SNIB_ERR_OK),
    RESULT_(snib_renew_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_inspect_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_inspect_start, view, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_list_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_list_start, views, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_list_start, count, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_force_release_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_doctor_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_recovery_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_deadlocks_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_deadlocks_start, cycles, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_deadlocks_start, count, ZERO, SNIB_ERR_OK),
    RESULT_(snib_semaphore_get_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_semaphore_set_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_semaphore_add_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_semaphore_drain_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_semaphore_drain_start, got, ZERO, SNIB_ERR_OK),
    RESULT_(snib_latch_set_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_latch_count_down_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_latch_left_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_latch_open_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_get_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_get_start, value, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_put_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_put_start, changed, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_delete_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_delete_start, changed, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_leader_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_leader_start, leader, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_campaign_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_try_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_try_for_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_resign_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_read_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_read_start, ring, ZERO, SNIB_ERR_OK),
    RESULT_(snib_multi_acquire_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_multi_acquire_start, grants, ZERO, SNIB_ERR_OK),
    RESULT_(snib_multi_try_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_multi_try_start, grants, ZERO, SNIB_ERR_OK),
    RESULT_(snib_multi_try_for_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_multi_try_for_start, grants, ZERO, SNIB_ERR_OK),
    RESULT_(snib_multi_release_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_update_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_update_start, changed, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_update_start, stopped, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_try_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_try_start, changed, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_try_start, stopped, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_try_for_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_try_for_start, changed, ZERO, SNIB_ERR_OK),
    RESULT_(snib_value_try_for_start, stopped, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_watch_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_watch_start, leader, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_watch_for_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_elect_watch_for_start, leader, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_join_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_join_start, joined, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_try_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_try_start, joined, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_try_for_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_try_for_start, joined, ZERO, SNIB_ERR_OK),
    RESULT_(snib_ring_leave_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_client_stop_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_grant_adopt_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_grant_adopt_start, got, ZERO, SNIB_ERR_OK),
    RESULT_(snib_policy_run_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_policy_try_start, ticket, ZERO, SNIB_ERR_OK),
    RESULT_(snib_policy_try_for_start, ticket, ZERO, SNIB_ERR_OK),
};

static bool all_are(const void *p, size_t size, uint8_t byte)
{
    const uint8_t *bytes = p;
    while (size && bytes[size - 1] == byte) {
        size--;
    }
    return size == 0;
}

static bool is_as_said(const struct result *r, const uint8_t *p, snib_err err)
{
    bool kept = all_are(p, r->size, POISON);
    if (!err || r->leaves == WHAT) {
        return !kept;
    }
    if (err == r->but) {
        return r->leaves != ZERO || !kept;
    }
    switch (r->leaves) {
    case ZERO:
        return all_are(p, r->size, 0);
    case KEPT:
        return kept;
    case NONE:
        return !*p;
    case WHAT:
        break;
    }
    return false;
}

/* The function among whose results something is not as snib.h says, or NULL. */
static const char *_Atomic wrong_result;

/* Makes the call among poisoned results. */
static snib_err run_call(const struct call *call, struct world *w)
{
    for (size_t i = 0; i < COUNT_OF(results); i++) {
        if (strcmp(results[i].function, call->function) == 0) {
            memset((uint8_t *)w + results[i].at, POISON, results[i].size);
        }
    }
    snib_err err = call->run(w);
    for (size_t i = 0; i < COUNT_OF(results); i++) {
        const struct result *r = &results[i];
        uint8_t *p = (uint8_t *)w + r->at;
        if (strcmp(r->function, call->function) != 0) {
            continue;
        }
        if (!is_as_said(r, p, err)) {
            atomic_store(&wrong_result, r->function);
        }
        if (all_are(p, r->size, POISON)) { /* for the end of the world */
            memset(p, 0, r->size);
        }
    }
    return err;
}

#endif
