/* tests/unit/test_hear.c — what supervisor and background thread say to each other is heard, also
 * when the speaker ends with something of ours unread. */
#include "unit.h"

#include "cli/supervisor/plan.h"

#include <sys/socket.h>
#include <unistd.h>

static void pair(int ret[2])
{
    assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ret), 0);
}

static void say_one(int socket, enum plan_message_kind kind)
{
    struct plan_message m = {.kind = kind};
    assert_int_equal(send(socket, &m, sizeof m, MSG_NOSIGNAL), sizeof m);
}

static void nothing_is_said_yet(void **state)
{
    struct plan_message m;
    int s[2];
    (void)state;
    pair(s);
    assert_int_equal(plan_hear(s[0], &m), PLAN_SILENT);
    say_one(s[1], PLAN_GRANT);
    assert_int_equal(plan_hear(s[0], &m), PLAN_HEARD);
    assert_int_equal(m.kind, PLAN_GRANT);
    assert_int_equal(plan_hear(s[0], &m), PLAN_SILENT);
    close(s[1]);
    assert_int_equal(plan_hear(s[0], &m), PLAN_ENDED);
    close(s[0]);
}

/* Linux says ECONNRESET first then. */
static void an_end_with_unread_words_hides_none(void **state)
{
    struct plan_message m;
    int s[2];
    (void)state;
    pair(s);
    say_one(s[0], PLAN_RISK);
    say_one(s[1], PLAN_DETACH);
    close(s[1]);
    assert_int_equal(plan_hear(s[0], &m), PLAN_HEARD);
    assert_int_equal(m.kind, PLAN_DETACH);
    assert_int_equal(plan_hear(s[0], &m), PLAN_ENDED);
    close(s[0]);
}

static void a_piece_is_no_message(void **state)
{
    struct plan_message m;
    int s[2];
    (void)state;
    pair(s);
    assert_int_equal(send(s[1], "x", 1, 0), 1);
    assert_int_equal(plan_hear(s[0], &m), PLAN_ENDED);
    close(s[0]);
    close(s[1]);
}

/* What is read of it ends up as an index, a status, a text to be shown. */
static void a_message_that_none_of_ours_writes_is_none(void **state)
{
    static const struct plan_message odd[] = {
        {.kind = -1},
        {.kind = PLAN_DETACH + 1},
        {.kind = PLAN_RISK, .why = -1},
        {.kind = PLAN_RISK, .why = SUPERVISOR_CAUSE_INTERNAL + 1},
        {.kind = PLAN_FAILED, .code = -1},
        {.kind = PLAN_FAILED, .code = 256}};
    struct plan_message m;
    int s[2];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(odd) + 2; i++) {
        m = (struct plan_message){.kind = PLAN_LOST};
        if (i < COUNT_OF(odd)) {
            m = odd[i];
        } else if (i == COUNT_OF(odd)) { /* a text without an end */
            memset(m.text, 'x', sizeof m.text);
        } else {
            memset((char *)&m + offsetof(struct plan_message, lingers), 2, 1);
        }
        pair(s);
        assert_int_equal(send(s[1], &m, sizeof m, 0), sizeof m);
        assert_int_equal(plan_hear(s[0], &m), PLAN_ENDED);
        close(s[0]);
        close(s[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_said_yet),
        cmocka_unit_test(an_end_with_unread_words_hides_none),
        cmocka_unit_test(a_piece_is_no_message),
        cmocka_unit_test(a_message_that_none_of_ours_writes_is_none),
    };
    return RUN(tests);
}
