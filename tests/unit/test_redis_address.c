/* The address in what is said of a server: 100 bytes of it, wherever it
 * stands, so that behind a long one there is still room for the reason. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else
#include "redis_session.h"

/* Hosts of 93, 94 and 200 bytes: with ":6379" 98, 99 and 205; and one of 95,
 * which is 100, and of 96, of which one is left out. */
static const size_t hosts[] = {93, 94, 95, 96, 200};

static const char *open_long(size_t size)
{
    static char shown[101];
    char url[300] = "redis://", address[300];
    size_t n = strlen(url);
    for (size_t i = 0; i < size; i++) {
        url[n + i] = i % 50 == 49 ? '.' : (char)('a' + i % 26);
    }
    url[n + size] = 0;
    snprintf(address, sizeof address, "%s:6379", url + n);
    snprintf(shown, sizeof shown, "%.100s", address);
    open_store(url);
    return shown;
}

static void says(const char *before, const char *shown, const char *behind)
{
    char text[400];
    snprintf(text, sizeof text, "%s%s%s", before, shown, behind);
    assert_string_equal(error.text, text);
}

static struct snib__request once(void)
{
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.once = true;
    return rq;
}

static void a_long_address_that_refuses_is_cut(void **state)
{
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        tear_down(state);
        const char *shown = open_long(hosts[i]);
        struct snib__store_state is = {.nodes = 1};
        struct snib__request rq = once();
        start(&rq);
        opens_taken(&out);
        input(CALLERS, SNIB__IN_REFUSED, "Connection refused", 18);
        answered(&rq, SNIB__NOT_APPLIED);
        assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
        says("no connection to ", shown, ": Connection refused");
        ops->state(store, now, &is);
        assert_false(is.reachable);
        assert_string_equal(is.text, "connection refused");
    }
}

static void a_long_address_that_does_not_answer_is_cut(void **state)
{
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        tear_down(state);
        const char *shown = open_long(hosts[i]);
        struct snib__request rq = once();
        rq.limit = snib__after(now, snib__ms(500));
        start(&rq);
        pass(499);
        silence();
        pass(1); /* its own limit, before that of the line                 */
        answered(&rq, SNIB__NOT_APPLIED);
        says("no connection to ", shown, " within the time allowed");
        rq = request(SNIB__ACQUIRE);
        start(&rq);
        rq.once = true;
        pass(PATIENCE); /* that of the line                                */
        closed(CALLERS);
        answered(&rq, SNIB__NOT_APPLIED);
        says("no connection to ", shown, " within the time allowed");
    }
}

static void a_long_address_of_a_replica_is_cut(void **state)
{
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        tear_down(state);
        const char *shown = open_long(hosts[i]);
        struct snib__request rq = once();
        start(&rq);
        opened(CALLERS);
        hears_hello(CALLERS);
        hears_layout_and_time(CALLERS);
        say(CALLERS, "*4\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n"
                     "$7\r\nreplica\r\n" LAYOUT_REPLY TIME_REPLY);
        assert_true(heard(CALLERS));
        assert_string_equal(word[0], "ROLE");
        say(CALLERS, "*5\r\n$5\r\nslave\r\n$4\r\n::12\r\n:6380\r\n"
                     "$9\r\nconnected\r\n:14\r\n");
        answered(&rq, SNIB__NOT_APPLIED);
        says("", shown,
             " is a replica of [::12]:6380; locks live on the primary: give "
             "its URL, or promote this one");
    }
}

int main(void)
{
    const struct CMUnitTest redis_address[] = {
        CASE(a_long_address_that_refuses_is_cut),
        CASE(a_long_address_that_does_not_answer_is_cut),
        CASE(a_long_address_of_a_replica_is_cut),
    };
    return RUN(redis_address);
}

#endif
