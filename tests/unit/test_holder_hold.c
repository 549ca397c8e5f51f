/* cli/holder/holder_hold.c: a run under two locks that are held up the tree, of which
 * one is lost after the other. */
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"

/* Who holds both up the tree: "b" was revoked, "a" is lost for another reason
 * once `away` is set. */
struct above {
    int listener;
    char address[CONTROL_ADDRESS_MAX];
    atomic_bool away, over;
};

static void answer(struct above *above, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    struct control_request request;
    struct control_reply reply = {.magic = CONTROL_MAGIC,
                                  .deadline_ns =
                                      proc_now() + 60 * INT64_C(1000000000)};
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_true(control_receive(fd, &request));
    if (request.name[0] == 'b') {
        reply.code = CLI_LOST;
        reply.cause = SNIB_CAUSE_REVOKED;
        snprintf(reply.text, sizeof reply.text, "revoked by anna on ci-7: b");
    } else if (atomic_load(&above->away)) {
        reply.code = CLI_LOST;
        reply.cause = SNIB_CAUSE_UNREACHABLE;
        snprintf(reply.text, sizeof reply.text, "no answer");
    }
    control_send(fd, &reply);
}

static void *hold_above(void *arg)
{
    struct above *above = arg;
    while (!atomic_load(&above->over)) {
        struct pollfd p = {.fd = above->listener, .events = POLLIN};
        int fd = poll(&p, 1, 10) == 1 ? control_accept(above->listener) : -1;
        if (fd >= 0) {
            answer(above, fd);
            close(fd);
        }
    }
    return NULL;
}

static const char *names[] = {"a", "b"};
static struct plan plan = {.names = names, .name_count = COUNT_OF(names)};
static struct plan_page page;
static struct holder k;
static struct above above;
static pthread_t thread;

static int begin(void **state)
{
    (void)state;
    above = (struct above){.listener = -1};
    above.listener = control_listen(above.address);
    k = (struct holder){.plan = &plan,
                        .page = &page,
                        .socket = -1,
                        .holder_pidfd = -1,
                        .rules = {.ttl = 60 * SUPERVISOR_S},
                        .phase = PHASE_HOLDING};
    assert_true(above.listener >= 0);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        k.slots[i].state = SLOT_OUTER;
        snprintf(k.slots[i].outer, sizeof k.slots[i].outer, "%s",
                 above.address);
    }
    return pthread_create(&thread, NULL, hold_above, &above);
}

static int end(void **state)
{
    (void)state;
    atomic_store(&above.over, true);
    pthread_join(thread, NULL);
    return close(above.listener);
}

static void each_lock_up_the_tree_is_lost_for_its_own_reason(void **state)
{
    (void)state;
    struct holder_giving giving;
    holder_check(&k);
    assert_true(k.lost);
    assert_int_equal(k.slots[0].state, SLOT_OUTER);
    assert_int_equal(k.slots[1].state, SLOT_LOST);
    atomic_store(&above.away, true);
    holder_give_back(&k, &giving);
    assert_true(giving.lost);
    assert_int_equal(giving.why,
                     SUPERVISOR_CAUSE_UNREACHABLE); /* it was REVOKED */
    assert_string_equal(giving.text, "");
}

static void who_revoked_the_first_is_told_with_it(void **state)
{
    (void)state;
    struct holder_giving giving;
    holder_check(&k);
    holder_give_back(&k, &giving);
    assert_true(giving.lost);
    assert_int_equal(giving.why, SUPERVISOR_CAUSE_REVOKED);
    assert_string_equal(giving.text, "revoked by anna on ci-7: b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            each_lock_up_the_tree_is_lost_for_its_own_reason, begin, end),
        cmocka_unit_test_setup_teardown(who_revoked_the_first_is_told_with_it,
                                        begin, end),
    };
    return RUN(tests);
}
