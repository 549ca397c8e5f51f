/* tests/unit/test_zookeeper_dialect.c — the store zookeeper with Curator's own
 * clients (?dialect=), at a model of its server: names, leases, what is refused. */
#include "zookeeper_world.h"

#include <stdlib.h>

#define THEIRS "_c_0f0e0d0c-0b0a-4908-8706-050403020100-"

static int begin_rw(void **state)
{
    (void)state;
    return begin_at("zookeeper://h/l?dialect=curator-rw");
}

static int begin_mutex(void **state)
{
    (void)state;
    return begin_at("zookeeper://h/l?dialect=curator-mutex");
}

/* A node of theirs: what it is, without its number. */
static void put_theirs(const char *kind)
{
    struct model_node *made;
    char path[200];
    int64_t ours = model.session;
    model.session = 77;
    model.zxid++;
    (void)model_create("/l", "", 0, 0, &made);
    (void)model_create("/l/n", "", 0, 0, &made);
    snprintf(path, sizeof path, "/l/n/%s", kind);
    assert_false(model_create(path, "10.0.0.7", 8, 3, &made));
    model.session = ours;
}

/* The part of a name of ours behind this text. */
static const char *behind(const char *part)
{
    for (int i = 0; i < MODEL_NODES; i++) {
        const char *at = strstr(model.node[i].path, part);
        if (model.node[i].there && at) {
            return at + strlen(part);
        }
    }
    fail_msg("there is no %s", part);
    return "";
}

/* -- leases ---------------------------------------------------------------------- */

static void no_lease_is_longer_than_a_third_of_the_session(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.lease = snib__ms(600000);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    const struct snib__zoo *z = (const struct snib__zoo *)(const void *)store;
    int64_t third = z->session.zk.timeout_ms / 3;
    assert_true(third > 0);
    assert_int_equal(snib__to_ms(r.said.left), third);
    assert_true(r.said.valid_from.ns == now.ns);
    /* for so long the others wait when its node is gone */
    assert_int_equal(strtol(behind("-W-"), NULL, 10), third);
    struct snib__request renew = request(SNIB__RENEW, 5);
    renew.token = r.token;
    renew.lease = snib__ms(600000);
    ask(&renew);
    assert_int_equal(answer(&renew), SNIB__DONE);
    assert_int_equal(snib__to_ms(renew.said.left), third);
    assert_int_equal(strtol(behind("-W-"), NULL, 10), third);
    give_back(&r);
}

static void a_shorter_lease_is_given_as_it_is(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.lease = snib__ms(300);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(snib__to_ms(r.said.left), 300);
    give_back(&r);
}

static void without_a_dialect_a_lease_may_outlast_the_session(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.lease = snib__ms(600000);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(snib__to_ms(r.said.left), 600000);
    give_back(&r);
}

/* -- readers and writers ----------------------------------------------------------- */

/* Curator's writers wait for nodes, and look at no record. */
static void a_writer_that_reads_stands_where_the_writer_does(void **state)
{
    (void)state;
    struct snib__request writes = request(SNIB__ACQUIRE, 5);
    writes.acquire.kind = SNIB_KIND_WRITE;
    ask(&writes);
    assert_int_equal(answer(&writes), SNIB__DONE);
    put_theirs(THEIRS "__WRIT__"); /* it waits */
    struct snib__request reads = reader(6, 5);
    ask(&reads);
    assert_int_equal(answer(&reads), SNIB__DONE);
    assert_string_equal(behind("-0006-0000-000000000006-__READ__"),
                        behind("-0005-0000-000000000005-__WRIT__"));
    assert_int_equal(reads.token, writes.token);
    give_back(&writes);
    struct snib__request renew = request(SNIB__RENEW, 6);
    renew.token = reads.token;
    ask(&renew);
    assert_int_equal(answer(&renew), SNIB__DONE);
    give_back(&reads);
}

/* It has gone since the look, and Curator's writer, who waited, has it by now. */
static void behind_a_writer_that_has_gone_it_does_not_read(void **state)
{
    (void)state;
    struct snib__request writes = request(SNIB__ACQUIRE, 5);
    writes.acquire.kind = SNIB_KIND_WRITE;
    ask(&writes);
    assert_int_equal(answer(&writes), SNIB__DONE);
    put_theirs(THEIRS "__WRIT__");
    struct snib__request reads = reader(6, 5);
    model.goes = "0005-0000";
    ask(&reads);
    assert_int_equal(answer(&reads), SNIB__QUEUED);
    assert_int_equal(count("-R-"), 0);
    cancelled(&reads);
}

static void their_readers_and_ours_read_together(void **state)
{
    (void)state;
    put_theirs(THEIRS "__READ__");
    struct snib__request reads = reader(6, 0);
    ask(&reads);
    assert_int_equal(answer(&reads), SNIB__DONE);
    static struct snib__request writes;
    writes = request(SNIB__ACQUIRE, 7);
    ask(&writes);
    assert_int_equal(answer(&writes), SNIB__QUEUED);
    give_back(&reads);
    event(model.watch);
    assert_int_equal(answer(&writes), SNIB__QUEUED);
    others_go();
    event(model.watch);
    comes_in(&writes);
    give_back(&writes);
}

static void a_path_of_mutexes_has_no_readers_and_writers(void **state)
{
    (void)state;
    put_theirs(THEIRS "lock-");
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
    assert_non_null(strstr(said.text, "lock-"));
}

/* -- mutexes ---------------------------------------------------------------------- */

static void a_mutex_has_curators_name(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_string_equal(behind("/l/n/_c_00000000-0000-0005-0000-000000000005-"),
                        "lock-0000000000");
    assert_int_equal(count("=held-"), 1);
    give_back(&r);
    assert_int_equal(count("/l/n/"), 0);
}

static void their_mutex_keeps_ours_waiting(void **state)
{
    (void)state;
    static struct snib__request r;
    put_theirs(THEIRS "lock-");
    r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_non_null(strstr(model.watch, THEIRS "lock-"));
    others_go();
    event(model.watch);
    assert_int_equal(answer(&r), SNIB__DONE);
    give_back(&r);
}

static void refused(const char *node)
{
    put_theirs(node);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
    assert_int_equal(count("-0005-"), 0);
}

static void a_path_of_readers_and_writers_has_no_mutexes(void **state)
{
    (void)state;
    refused(THEIRS "__WRIT__");
}

static void kazoos_nodes_are_told_apart(void **state)
{
    (void)state;
    refused("f4c5b1c6a2e94d3bb0c3e8c0f5a6d7e8__lock__");
}

static void there_are_mutexes_only(void **state)
{
    static const snib_kind kinds[] = {SNIB_KIND_READ, SNIB_KIND_WRITE};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct snib__request r = request(SNIB__ACQUIRE, (uint64_t)i + 5);
        r.acquire.kind = kinds[i];
        ask(&r);
        assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
    }
}

/* -- the URL ----------------------------------------------------------------------- */

static void another_dialect_is_refused_in_words(void **state)
{
    static const char *const bad[] = {
        "zookeeper://h/l?dialect=", "zookeeper://h/l?dialect=curator",
        "zookeeper://h/l?dialect=kazoo"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct snib__url *url;
        struct snib__store *none;
        assert_false(snib__url_parse(bad[i], &url, &e));
        struct snib__store_config c = {.url = url, .out = &out};
        c.seed.v[0] = 1;
        assert_int_equal(ops->open(&c, &none, &e), SNIB_ERR_USAGE);
        assert_non_null(strstr(e.text, "curator-mutex"));
        snib__url_free(url);
    }
}

int main(void)
{
#define OF(begins, f) cmocka_unit_test_setup_teardown(f, begins, end)
    const struct CMUnitTest cases[] = {
        OF(begin_rw, no_lease_is_longer_than_a_third_of_the_session),
        OF(begin_mutex, no_lease_is_longer_than_a_third_of_the_session),
        OF(begin_rw, a_shorter_lease_is_given_as_it_is),
        OF(begin, without_a_dialect_a_lease_may_outlast_the_session),
        OF(begin_rw, a_writer_that_reads_stands_where_the_writer_does),
        OF(begin_rw, behind_a_writer_that_has_gone_it_does_not_read),
        OF(begin_rw, their_readers_and_ours_read_together),
        OF(begin_rw, a_path_of_mutexes_has_no_readers_and_writers),
        OF(begin, a_path_of_mutexes_has_no_readers_and_writers),
        OF(begin_mutex, a_mutex_has_curators_name),
        OF(begin_mutex, their_mutex_keeps_ours_waiting),
        OF(begin_mutex, a_path_of_readers_and_writers_has_no_mutexes),
        OF(begin_mutex, kazoos_nodes_are_told_apart),
        OF(begin_rw, kazoos_nodes_are_told_apart),
        OF(begin_mutex, there_are_mutexes_only),
        OF(begin, another_dialect_is_refused_in_words),
    };
    return RUN(cases);
}
