/* tests/unit/test_tls.c — a TLS filter against a server in memory: what it lets
 * through, how it ends, and a lack of memory. labels: oom */
#include "unit.h"

#if !SNIB_WITH_TLS
int main(void)
{
    puts("skipped: built without TLS");
    return 77;
}
#else

#include "tls_peer.h"
#include "tls_world.h"

/* -- what goes through ------------------------------------------------------- */

static void bytes_go_both_ways_whatever_the_pieces(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    static const size_t pieces[] = {1, 7, 500, PIECE};
    for (size_t i = 0; i < COUNT_OF(versions) * COUNT_OF(pieces); i++) {
        begin(&good, versions[i % 2]);
        meet("redis.example:6379");
        assert_int_equal(shake(pieces[i / 2]), SNIB__TLS_UP);
        assert_int_equal(SSL_version(w.peer.ssl), versions[i % 2]);
        assert_int_equal(snib__tls_seal(w.tls, "PING", 4), 4);
        wire_up(w.tls, &w.peer);
        peer_reads("PING", 4);
        peer_writes(&w.peer, "+PONG", 5);
        opens("+PONG", 5);
        tear_down(state);
    }
}

static void the_name_of_the_url_is_told_to_the_server(void **state)
{
    (void)state;
    begin(&good, 0);
    meet("redis.example:6379");
    is_up();
    assert_string_equal(
        SSL_get_servername(w.peer.ssl, TLSEXT_NAMETYPE_host_name),
        "redis.example");
    part();
    meet("127.0.0.1:6379"); /* an address is no name */
    is_up();
    assert_null(SSL_get_servername(w.peer.ssl, TLSEXT_NAMETYPE_host_name));
}

static int choose_h2(SSL *ssl, const unsigned char **ret,
                     unsigned char *ret_size, const unsigned char *offered,
                     unsigned size, void *data)
{
    (void)ssl;
    (void)data;
    if (size != 3 || memcmp(offered, "\002h2", 3) != 0) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *ret = offered + 1;
    *ret_size = 2;
    return SSL_TLSEXT_ERR_OK;
}

static void a_protocol_is_offered_and_taken(void **state)
{
    const unsigned char *chosen;
    unsigned size;
    begin(&good, 0);
    snib__tls_shared_free(w.shared);
    share((struct snib__tls_files){
        .ca = ca_path, .name = "redis.example", .alpn = "h2"});
    SSL_CTX_set_alpn_select_cb(w.ctx, choose_h2, NULL);
    meet("redis.example:2379");
    is_up();
    SSL_get0_alpn_selected(w.peer.ssl, &chosen, &size);
    assert_int_equal(size, 2);
    tear_down(state);
    begin(&good, 0); /* none is offered where none was asked for */
    SSL_CTX_set_alpn_select_cb(w.ctx, choose_h2, NULL);
    meet("redis.example:6379");
    is_up();
    SSL_get0_alpn_selected(w.peer.ssl, &chosen, &size);
    assert_int_equal(size, 0);
}

/* A server that does not know the protocol goes on with the handshake, and would
 * hear what it does not understand. */
static void a_server_that_does_not_take_the_protocol_is_refused(void **state)
{
    (void)state;
    begin(&good, 0);
    snib__tls_shared_free(w.shared);
    share((struct snib__tls_files){
        .ca = ca_path, .name = "redis.example", .alpn = "h2"});
    meet("redis.example:2379");
    assert_int_equal(shake(PIECE), SNIB__TLS_BROKEN);
    is_broken(SNIB_ERR_STORE, "redis.example does not say that it speaks h2",
              "right port");
}

static void names_and_addresses_of_the_certificate_are_good(void **state)
{
    static const char *const at[] = {"redis.example:1",  "REDIS.example:1",
                                     "a.wild.example:1", "127.0.0.1:1",
                                     "[::1]:1",          "[::1%lo]:1"};
    for (size_t i = 0; i < COUNT_OF(at); i++) {
        begin(&good, 0);
        meet(at[i]);
        is_up();
        tear_down(state);
    }
    w.ctx = peer_ctx(&good, NULL, 0);
    share((struct snib__tls_files){.ca = ca_path, .name = "redis.example"});
    meet("10.0.0.1:6379");
    is_up();
}

/* Records are 16 KB at most; a seal takes so much, and a read may be shorter. */
static void large_messages_go_in_many_records(void **state)
{
    (void)state;
    enum { MUCH = 1 << 20 };
    char *much = malloc(MUCH);
    assert_non_null(much);
    for (size_t i = 0; i < MUCH; i++) {
        much[i] = (char)(i * 2654435761u >> 13);
    }
    begin(&good, 0);
    meet("redis.example:1");
    is_up();
    for (size_t at = 0, n; at < MUCH; at += n) {
        n = snib__tls_seal(w.tls, much + at, MUCH - at);
        assert_in_range(n, 1, 16 << 10);
        wire_up(w.tls, &w.peer);
    }
    peer_reads(much, MUCH);
    peer_writes(&w.peer, much, MUCH);
    opens(much, MUCH);
    free(much);
}

/* A record that has begun stays inside, and nothing of it is told before it is
 * whole. */
static void half_a_record_is_none(void **state)
{
    (void)state;
    char got[16];
    size_t size;
    begin(&good, 0);
    meet("redis.example:1");
    is_up();
    opens("", 0); /* tickets */
    peer_writes(&w.peer, "+OK", 3);
    uint8_t *bytes = peer_says(&w.peer, &size);
    for (size_t i = 0; i + 1 < size; i++) {
        snib__tls_feed(w.tls, bytes + i, 1);
        assert_int_equal(snib__tls_open(w.tls, got, sizeof got), 0);
    }
    snib__tls_feed(w.tls, bytes + size - 1, 1);
    assert_int_equal(snib__tls_open(w.tls, got, 2), 2);
    assert_int_equal(snib__tls_open(w.tls, got, sizeof got), 1);
    assert_int_equal(snib__tls_open(w.tls, got, sizeof got), 0);
    free(bytes);
}

static void keys_may_change_at_any_time(void **state)
{
    (void)state;
    begin(&good, TLS1_3_VERSION);
    meet("redis.example:1");
    is_up();
    for (int i = 0; i < 5; i++) {
        assert_true(SSL_key_update(w.peer.ssl, SSL_KEY_UPDATE_REQUESTED));
        peer_writes(&w.peer, "a", 1);
        opens("a", 1);
        /* Our answer to it goes with the next bytes. */
        assert_int_equal(snib__tls_seal(w.tls, "b", 1), 1);
        assert_true(wire_up(w.tls, &w.peer));
        peer_reads("b", 1);
    }
}

static void the_next_connection_resumes_the_session(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        begin(&good, versions[i]);
        meet("redis.example:1");
        is_up();
        opens("", 0);
        assert_false(snib__tls_resumed(w.tls));
        part();
        meet("redis.example:1");
        is_up();
        opens("", 0);
        assert_true(snib__tls_resumed(w.tls));
        assert_true(SSL_session_reused(w.peer.ssl));
        part();
        meet("127.0.0.1:1"); /* another server */
        is_up();
        assert_false(snib__tls_resumed(w.tls));
        tear_down(state);
    }
}

/* A server that has forgotten the session makes a whole handshake of it. */
static void a_forgotten_session_costs_a_handshake_only(void **state)
{
    (void)state;
    begin(&good, 0);
    meet("redis.example:1");
    is_up();
    opens("", 0);
    part();
    SSL_CTX_free(w.ctx);
    w.ctx = peer_ctx(&good, NULL, 0);
    meet("redis.example:1");
    is_up();
    assert_false(snib__tls_resumed(w.tls));
}

/* Sessions of more servers than are kept: the oldest give way. */
static void many_servers_have_each_their_session(void **state)
{
    (void)state;
    char address[40];
    w.ctx = peer_ctx(&good, NULL, 0);
    share((struct snib__tls_files){.ca = ca_path, .name = "redis.example"});
    for (int i = 0; i < 70; i++) {
        snprintf(address, sizeof address, "h%d:1", i);
        meet(address);
        is_up();
        opens("", 0);
        part();
    }
    meet("h69:1");
    is_up();
    assert_true(snib__tls_resumed(w.tls));
    part();
    meet("h0:1");
    is_up();
    assert_false(snib__tls_resumed(w.tls));
}

/* -- the end ----------------------------------------------------------------- */

static void a_peer_that_closes_is_no_error(void **state)
{
    (void)state;
    char got[8];
    snib_err err;
    size_t size;
    begin(&good, 0);
    meet("redis.example:1");
    is_up();
    peer_writes(&w.peer, "last", 4);
    (void)SSL_shutdown(w.peer.ssl);
    uint8_t *bytes = peer_says(&w.peer, &size);
    snib__tls_feed(w.tls, bytes, size);
    assert_int_equal(snib__tls_open(w.tls, got, sizeof got), 4);
    assert_int_equal(snib__tls_open(w.tls, got, sizeof got), -1);
    assert_int_equal(snib__tls_open(w.tls, got, sizeof got), -1);
    assert_string_equal(snib__tls_why(w.tls, &err), "");
    assert_int_equal(err, SNIB_ERR_OK);
    assert_int_equal(snib__tls_seal(w.tls, "x", 1), 1); /* it may read on */
    free(bytes);
}

static void who_closes_says_so(void **state)
{
    (void)state;
    char got;
    begin(&good, 0);
    meet("redis.example:1");
    snib__tls_bye(w.tls); /* before the handshake: no word */
    is_up();
    snib__tls_bye(w.tls);
    assert_true(wire_up(w.tls, &w.peer));
    int n = SSL_read(w.peer.ssl, &got, 1);
    assert_int_equal(SSL_get_error(w.peer.ssl, n), SSL_ERROR_ZERO_RETURN);
}

/* -- memory ------------------------------------------------------------------ */

static void without_memory_there_is_none_and_nothing_is_left(void **state)
{
    struct snib__tls_files files = {.ca = ca_path, .name = "redis.example"};
    for (int at = 1; at <= 2; at++) {
        struct snib__tls_shared *none;
        snib__mem_fail_at(at, false);
        assert_int_equal(snib__tls_shared_new(&files, &none, &e),
                         SNIB_ERR_NOMEM);
        assert_null(none);
        snib__mem_fail_at(0, false);
    }
    begin(&good, 0);
    snib__mem_fail_at(1, false);
    assert_null(snib__tls_new(w.shared, "h:1"));
    snib__mem_fail_at(0, false);
    for (int at = 1;; at++) {
        snib_err err;
        meet("redis.example:1");
        snib__mem_fail_at(at, false);
        snib__tls_progress got = shake(PIECE);
        snib__mem_fail_at(0, false);
        if (got == SNIB__TLS_UP) {
            assert_true(at > 1);
            break;
        }
        assert_string_equal(snib__tls_why(w.tls, &err), "out of memory");
        assert_int_equal(err, SNIB_ERR_NOMEM);
        part();
    }
    tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tls[] = {
        CASE(bytes_go_both_ways_whatever_the_pieces),
        CASE(the_name_of_the_url_is_told_to_the_server),
        CASE(a_protocol_is_offered_and_taken),
        CASE(a_server_that_does_not_take_the_protocol_is_refused),
        CASE(names_and_addresses_of_the_certificate_are_good),
        CASE(large_messages_go_in_many_records),
        CASE(half_a_record_is_none),
        CASE(keys_may_change_at_any_time),
        CASE(the_next_connection_resumes_the_session),
        CASE(a_forgotten_session_costs_a_handshake_only),
        CASE(many_servers_have_each_their_session),
        CASE(a_peer_that_closes_is_no_error),
        CASE(who_closes_says_so),
        CASE(without_memory_there_is_none_and_nothing_is_left),
    };
    make_papers();
    int failed = RUN(tls);
    remove_papers();
    return failed;
}

#endif
