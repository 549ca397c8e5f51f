/* api/policy.c: names from templates, the three strategies, what a loss is.
 *
 * labels: thread */
#include "unit.h"

#include <stdatomic.h>
#include <unistd.h>

#include "snib/test.h"

static struct snib_client *client;

static int open_all(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    o.url = "memory:policy";
    return snib_client_open(&o, &client, NULL);
}

static int close_all(void **state)
{
    (void)state;
    snib_client_free(client);
    return 0;
}

/* What the body saw. */
struct seen {
    char name[SNIB_NAME_MAX + 1]; /* of the lock held meanwhile             */
    struct snib_grant grant;
    int runs;
};

static int body(void *data, struct snib_grant grant)
{
    struct seen *seen = data;
    struct snib_view **v;
    size_t n;
    seen->runs++;
    seen->grant = grant;
    assert_int_equal(snib_list(client, NULL, &v, &n, NULL), SNIB_ERR_OK);
    for (size_t i = 0; i < n; i++) {
        if (v[i]->holder_count && v[i]->holders[0].self) {
            memcpy(seen->name, v[i]->name, v[i]->name_size + 1);
        }
    }
    snib_views_free(v, n);
    return 42;
}

static struct snib_policy policy_of(const char *name, const char *key)
{
    struct snib_policy p = SNIB_INIT(snib_policy);
    p.name = name;
    p.key = key;
    return p;
}

static void templates_make_these_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *key, *made;
    } rows[] = {
        {"pay", "order:{order_no}", "pay:order:4711"},
        {NULL, "order:{order_no}", "order:4711"},
        {"pay", "fixed", "pay:fixed"},
        {"", "k", ":k"},
        {NULL, "{a}{b}", "xy z"},
        {NULL, "{a}-{a}", "x-x"},
        {NULL, "{{{a}}}", "{x}"},
        {NULL, "{{a}}", "{a}"},
        {NULL, "}}{{", "}{"},
        {"n{a}", "k", "n{a}:k"}, /* the name is no template                 */
    };
    const char *const pairs[] = {"order_no", "4711", "a", "x",
                                 "b",        "y z",  NULL};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct snib_policy p = policy_of(rows[i].name, rows[i].key);
        struct seen seen = {0};
        struct snib_error e;
        int result = 0;
        assert_int_equal(
            snib_policy_run(client, &p, pairs, body, &seen, &result, &e),
            SNIB_ERR_OK);
        assert_string_equal(seen.name, rows[i].made);
        assert_int_equal(result, 42);
        assert_int_equal(e.code, SNIB_ERR_OK);
        assert_true(seen.grant.token > 0);
    }
}

static void broken_templates_are_usage_errors_before_anything_runs(void **state)
{
    (void)state;
    static const struct {
        const char *key, *says;
    } rows[] = {
        {"order:{", "'{' without"},
        {"order:{order_no", "'{' without"},
        {"{order_no{a}}", "'{' without"},
        {"order}", "'}' without"},
        {"{order_no}}", "'}' without"},
        {"order:{}", "names no field"},
        {"{missing}", "{missing} has no value"},
        {"{empty}", "{empty} has no value"},
        {"{null}", "{null} has no value"},
        {"{after_null}", "{after_null} has no value"},
        {"{order_n}", "{order_n} has no value"},
        {"{order_no }", "{order_no } has no value"},
        {"", "no key"},
        {NULL, "no key"},
    };
    const char *const pairs[] = {"order_no", "4711", "a",    "x",
                                 "empty",    "",     "null", NULL};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct snib_policy p = policy_of("pay", rows[i].key);
        struct seen seen = {0};
        struct snib_error e = {0};
        int result = 7;
        p.on_busy = SNIB_BUSY_RUN;
        assert_int_equal(
            snib_policy_run(client, &p, pairs, body, &seen, &result, &e),
            SNIB_ERR_USAGE);
        assert_int_equal(e.code, SNIB_ERR_USAGE);
        if (!strstr(e.text, rows[i].says)) {
            print_error("%s: \"%s\"\n", rows[i].key, e.text);
            fail();
        }
        assert_int_equal(seen.runs, 0);
        assert_int_equal(result, 7);
    }
}

static void no_pairs_are_fine_for_a_key_without_fields(void **state)
{
    (void)state;
    struct snib_policy p = policy_of(NULL, "plain");
    struct seen seen = {0};
    assert_int_equal(snib_policy_run(client, &p, NULL, body, &seen, NULL, NULL),
                     SNIB_ERR_OK);
    assert_int_equal(seen.runs, 1);
    p.key = "{x}";
    assert_int_equal(snib_policy_run(client, &p, NULL, body, &seen, NULL, NULL),
                     SNIB_ERR_USAGE);
}

static void a_name_too_long_is_a_usage_error(void **state)
{
    (void)state;
    char value[SNIB_NAME_MAX + 1];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    const char *const pairs[] = {"v", value, NULL};
    struct snib_policy p = policy_of(NULL, "{v}");
    struct seen seen = {0};
    assert_int_equal(
        snib_policy_run(client, &p, pairs, body, &seen, NULL, NULL),
        SNIB_ERR_OK);
    p.key = "x{v}";
    assert_int_equal(
        snib_policy_run(client, &p, pairs, body, &seen, NULL, NULL),
        SNIB_ERR_USAGE);
    assert_int_equal(seen.runs, 1);
}

static int busy(void *data, const struct snib_error *why)
{
    struct seen *seen = data;
    assert_int_equal(why->code, SNIB_ERR_BUSY);
    assert_true(why->text[0]);
    seen->runs += 100;
    return 13;
}

static void wrong_policies_are_usage_errors(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct snib_policy p = policy_of(NULL, "k");
    p.size = 0;
    assert_int_equal(snib_policy_run(client, &p, NULL, body, &seen, NULL, NULL),
                     SNIB_ERR_USAGE);
    p = policy_of(NULL, "k");
    p.on_busy = SNIB_BUSY_CALL;
    assert_int_equal(snib_policy_run(client, &p, NULL, body, &seen, NULL, NULL),
                     SNIB_ERR_USAGE);
    p.on_busy = (snib_on_busy)9;
    assert_int_equal(snib_policy_run(client, &p, NULL, body, &seen, NULL, NULL),
                     SNIB_ERR_USAGE);
    p.on_busy = SNIB_BUSY_FAIL;
    assert_int_equal(snib_policy_run(client, &p, NULL, NULL, &seen, NULL, NULL),
                     SNIB_ERR_USAGE);
    assert_int_equal(snib_policy_run(NULL, &p, NULL, body, &seen, NULL, NULL),
                     SNIB_ERR_USAGE);
    assert_int_equal(
        snib_policy_run(client, NULL, NULL, body, &seen, NULL, NULL),
        SNIB_ERR_USAGE);
    p.lock.lease_ms = 1; /* below SNIB_LEASE_MIN_MS                         */
    assert_int_equal(snib_policy_run(client, &p, NULL, body, &seen, NULL, NULL),
                     SNIB_ERR_USAGE);
    assert_int_equal(seen.runs, 0);
}

static void busy_and_fail_returns_the_error(void **state)
{
    (void)state;
    struct snib_policy p = policy_of(NULL, "k");
    struct seen seen = {0};
    struct snib_error e;
    int result = 7;
    assert_int_equal(snib_test_steal(client, "k", 60000), SNIB_ERR_OK);
    assert_int_equal(
        snib_policy_try(client, &p, NULL, body, &seen, &result, &e),
        SNIB_ERR_BUSY);
    assert_int_equal(e.code, SNIB_ERR_BUSY);
    assert_int_equal(
        snib_policy_try_for(client, 30, &p, NULL, body, &seen, &result, &e),
        SNIB_ERR_TIMEOUT);
    assert_int_equal(seen.runs, 0);
    assert_int_equal(result, 7);
}

static void busy_and_run_runs_without_a_grant(void **state)
{
    (void)state;
    struct snib_policy p = policy_of(NULL, "k");
    struct seen seen = {0};
    struct snib_error e;
    int result = 7;
    p.on_busy = SNIB_BUSY_RUN;
    assert_int_equal(snib_test_steal(client, "k", 60000), SNIB_ERR_OK);
    assert_int_equal(
        snib_policy_try(client, &p, NULL, body, &seen, &result, &e),
        SNIB_ERR_OK);
    assert_int_equal(seen.runs, 1);
    assert_int_equal(seen.grant.ticket, 0);
    assert_int_equal(seen.grant.token, 0);
    assert_int_equal(result, 42);
}

static void busy_and_call_calls_busy_in_the_bodys_place(void **state)
{
    (void)state;
    struct snib_policy p = policy_of(NULL, "k");
    struct seen seen = {0};
    struct snib_error e;
    int result = 7;
    p.on_busy = SNIB_BUSY_CALL;
    p.busy = busy;
    assert_int_equal(snib_test_steal(client, "k", 60000), SNIB_ERR_OK);
    assert_int_equal(
        snib_policy_try(client, &p, NULL, body, &seen, &result, &e),
        SNIB_ERR_OK);
    assert_int_equal(seen.runs, 100);
    assert_int_equal(result, 13);
}

static void an_outage_is_not_busy(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *far;
    struct snib_policy p = policy_of(NULL, "k");
    struct seen seen = {0};
    o.url = "redis://127.0.0.1:1";
    o.request_ms = 200;
    if (snib_client_open(&o, &far, NULL)) {
        skip();
    }
    p.on_busy = SNIB_BUSY_RUN;
    snib_err err = snib_policy_try(far, &p, NULL, body, &seen, NULL, NULL);
    assert_int_equal(err, SNIB_ERR_UNREACHABLE);
    assert_int_equal(seen.runs, 0);
    snib_client_free(far);
}

/* A thief, and the renewal that finds it out, while the body runs. */
struct theft {
    struct snib_client *client;
    atomic_bool told;
};

static void told(void *data, struct snib_grant grant, snib_state state,
                 snib_cause reason)
{
    struct theft *theft = data;
    assert_true(grant.token > 0);
    if (state == SNIB_LOST) {
        assert_int_equal(reason, SNIB_CAUSE_STOLEN);
        atomic_store(&theft->told, true);
    }
}

static int be_robbed(void *data, struct snib_grant grant)
{
    struct theft *theft = data;
    assert_true(grant.token > 0);
    assert_int_equal(snib_test_steal(theft->client, "pay:k", 3600000),
                     SNIB_ERR_OK);
    assert_int_equal(snib_test_advance(theft->client, 12000), SNIB_ERR_OK);
    for (int i = 0; i < 5000 && !atomic_load(&theft->told); i++) {
        usleep(1000);
    }
    return 42;
}

static void lost_while_the_body_ran_is_lost_with_its_result(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_policy p = policy_of("pay", "k");
    struct theft theft = {0};
    struct snib_error e;
    int result = 7;
    o.url = "memory:policy-theft?clock=virtual";
    p.lock.on_change = told;
    p.lock.data = &theft;
    assert_int_equal(snib_client_open(&o, &theft.client, NULL), SNIB_ERR_OK);
    assert_int_equal(
        snib_policy_try(theft.client, &p, NULL, be_robbed, &theft, &result, &e),
        SNIB_ERR_LOST);
    assert_int_equal(e.code, SNIB_ERR_LOST);
    assert_non_null(strstr(e.text, "body ran: stolen: the store does"));
    assert_int_equal(result, 42);
    assert_true(atomic_load(&theft.told));
    /* The owner has unwound: what it hears next is only that it is held. */
    assert_int_equal(
        snib_policy_try(theft.client, &p, NULL, be_robbed, &theft, &result, &e),
        SNIB_ERR_BUSY);
    snib_client_free(theft.client);
}

/* The body outlives a fixed lease: nobody stole it, and still it is LOST. */
static int outlive(void *data, struct snib_grant grant)
{
    (void)grant;
    assert_int_equal(snib_test_advance(data, 1500), SNIB_ERR_OK);
    return 5;
}

static void a_lease_that_ran_out_is_lost_though_nobody_came(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_policy p = policy_of(NULL, "k");
    struct snib_client *c;
    int result = 0;
    struct snib_error e;
    o.url = "memory:policy-virtual?clock=virtual";
    p.lock.lease_ms = 1000;
    p.lock.fixed_lease = true;
    assert_int_equal(snib_client_open(&o, &c, NULL), SNIB_ERR_OK);
    assert_int_equal(snib_policy_try(c, &p, NULL, outlive, c, &result, &e),
                     SNIB_ERR_LOST);
    assert_int_equal(result, 5);
    assert_non_null(strstr(e.text, "body ran: expired: the lease was fixed"));
    snib_client_free(c);
}

static int nest(void *data, struct snib_grant grant)
{
    struct seen *seen = data;
    struct snib_policy p = policy_of(NULL, "k");
    int64_t outer = grant.token;
    assert_int_equal(snib_policy_try(client, &p, NULL, body, seen, NULL, NULL),
                     SNIB_ERR_OK);
    assert_true(seen->grant.token == outer);
    return 0;
}

static void a_policy_inside_itself_is_re_entry(void **state)
{
    (void)state;
    struct snib_policy p = policy_of(NULL, "k");
    struct seen seen = {0};
    assert_int_equal(snib_policy_try(client, &p, NULL, nest, &seen, NULL, NULL),
                     SNIB_ERR_OK);
    assert_int_equal(seen.runs, 1);
}

static int count_run(void *data, struct snib_grant grant)
{
    int *runs = data;
    ++*runs;
    assert_true(grant.token > 0);
    return 0;
}

static void no_memory_runs_nothing_and_leaks_nothing(void **state)
{
    (void)state;
    const char *const pairs[] = {"a", "x", NULL};
    struct snib_policy p = policy_of("pay", "order:{a}");
    int ran = 0;
    for (int64_t at = 1; at < 200 && !ran; at++) {
        snib__mem_fail_at(at, false);
        snib_err err =
            snib_policy_try(client, &p, pairs, count_run, &ran, NULL, NULL);
        snib__mem_fail_at(0, false);
        assert_int_equal(err, ran ? SNIB_ERR_OK : SNIB_ERR_NOMEM);
    }
    assert_int_equal(ran, 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(templates_make_these_names),
        CASE(broken_templates_are_usage_errors_before_anything_runs),
        CASE(no_pairs_are_fine_for_a_key_without_fields),
        CASE(a_name_too_long_is_a_usage_error),
        CASE(wrong_policies_are_usage_errors),
        CASE(busy_and_fail_returns_the_error),
        CASE(busy_and_run_runs_without_a_grant),
        CASE(busy_and_call_calls_busy_in_the_bodys_place),
        CASE(an_outage_is_not_busy),
        CASE(lost_while_the_body_ran_is_lost_with_its_result),
        CASE(a_lease_that_ran_out_is_lost_though_nobody_came),
        CASE(a_policy_inside_itself_is_re_entry),
        CASE(no_memory_runs_nothing_and_leaks_nothing),
    };
    return RUN(cases);
}
