/* tests/unit/test_hear.c — what supervisor and background thread say to each other is heard, also
 * when the speaker ends with something of ours unread. wraps: recv */
#include "unit.h"

#include "cli/supervisor/plan.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* The first answer is this one, if there is one; all others are the kernel's. */
static struct {
    bool first;
    int size, error;
    int calls;
} answer;

ssize_t __real_recv(int fd, void *to, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t size, int flags)
{
    assert_int_equal(flags, MSG_DONTWAIT); /* it never waits */
    answer.calls++;
    if (!answer.first) {
        return __real_recv(fd, to, size, flags);
    }
    answer.first = false;
    errno = answer.error;
    return answer.size;
}

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

/* The first and the last of each. */
static void what_both_write_is_heard_as_it_was_said(void **state)
{
    struct plan_message said[] = {
        {.kind = PLAN_GRANT, .why = SUPERVISOR_CAUSE_EXITED},
        {.kind = PLAN_DETACH,
         .code = 255,
         .why = SUPERVISOR_CAUSE_INTERNAL,
         .grant = 7,
         .lingers = true}};
    struct plan_message m;
    int s[2];
    (void)state;
    memset(said[1].text, 'x', sizeof said[1].text - 1);
    pair(s);
    for (size_t i = 0; i < COUNT_OF(said); i++) {
        assert_int_equal(send(s[1], &said[i], sizeof said[i], 0),
                         sizeof said[i]);
        memset(&m, 0x5a, sizeof m);
        assert_int_equal(plan_hear(s[0], &m), PLAN_HEARD);
        assert_int_equal(m.kind, said[i].kind);
        assert_int_equal(m.code, said[i].code);
        assert_int_equal(m.why, said[i].why);
        assert_int_equal(m.grant, said[i].grant);
        assert_int_equal(m.lingers, said[i].lingers);
        assert_string_equal(m.text, said[i].text);
    }
    close(s[0]);
    close(s[1]);
}

/* Without memory nothing was read: the other is not taken for dead. A number
 * that an earlier call has left says nothing. */
static void only_an_end_is_an_end(void **state)
{
    static const struct {
        int size, error;
        enum plan_heard heard;
        int calls;
    } t[] = {
        {-1, EAGAIN, PLAN_SILENT, 1},  {-1, ENOMEM, PLAN_SILENT, 1},
        {-1, ENOBUFS, PLAN_SILENT, 1}, {-1, EBADF, PLAN_ENDED, 1},
        {-1, ENOTCONN, PLAN_ENDED, 1}, {0, EAGAIN, PLAN_ENDED, 1},
        {0, EINTR, PLAN_ENDED, 1},     {1, ENOMEM, PLAN_ENDED, 1},
        {-1, EINTR, PLAN_HEARD, 2},    {-1, ECONNRESET, PLAN_HEARD, 2},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct plan_message m;
        int s[2];
        pair(s);
        say_one(s[1], PLAN_LOST);
        answer.first = true;
        answer.size = t[i].size;
        answer.error = t[i].error;
        answer.calls = 0;
        assert_int_equal(plan_hear(s[0], &m), t[i].heard);
        assert_int_equal(answer.calls, t[i].calls);
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
        cmocka_unit_test(what_both_write_is_heard_as_it_was_said),
        cmocka_unit_test(only_an_end_is_an_end),
    };
    return RUN(tests);
}
