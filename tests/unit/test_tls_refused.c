/* tests/unit/test_tls_refused.c — a TLS filter against a server in memory: what it
 * refuses and in which words, and what a hostile server can make of it. */
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

/* -- certificates ------------------------------------------------------------ */

static void refused(const struct paper *server, const char *address,
                    const char *words, const char *more)
{
    size_t alert;
    begin(server, 0);
    meet(address);
    assert_int_equal(shake(PIECE), SNIB__TLS_BROKEN);
    (void)snib__tls_wire(w.tls, &alert);
    is_broken(SNIB_ERR_CONFIG, words, more);
    tear_down(NULL);
}

static void a_server_that_is_not_the_one_meant_is_refused(void **state)
{
    (void)state;
    struct paper expired = paper_new(&ca, "old", "DNS:h", -2 * DAY, -DAY);
    struct paper early = paper_new(&ca, "new", "DNS:h", DAY, 2 * DAY);
    struct paper foreign = paper_new(&other_ca, "x", "DNS:h", -DAY, DAY);
    struct paper own = paper_new(NULL, "h", "DNS:h", -DAY, DAY);
    struct paper names =
        paper_new(&ca, "x", "DNS:one.example,DNS:two.example", -DAY, DAY);
    struct paper plain = paper_new(&ca, "h", NULL, -DAY, DAY);
    refused(&expired, "h:1", "certificate of h is refused", "expired; renew");
    refused(&early, "h:1", "not yet valid", "this host's clock");
    refused(&foreign, "h:1", "local issuer certificate", "by tls_ca=");
    refused(&own, "h:1", "self-signed", "by tls_ca=");
    refused(&names, "h:1", "is not for h but for one.example, two.example",
            "tls_name=");
    refused(&names, "10.1.2.3:1", "is not for 10.1.2.3", "tls_name=");
    refused(&names, "[::1]:1", "is not for ::1", "tls_name=");
    refused(&plain, "i:1", "is not for i;", "tls_name=");
    refused(&good, "a.b.wild.example:1", "is not for a.b.wild.example", "for");
    paper_free(&expired);
    paper_free(&early);
    paper_free(&foreign);
    paper_free(&own);
    paper_free(&names);
    paper_free(&plain);
}

/* Without tls_ca= it is the system's CAs, which do not know ours. */
static void the_systems_cas_do_not_vouch_for_ours(void **state)
{
    (void)state;
    w.ctx = peer_ctx(&good, NULL, 0);
    share((struct snib__tls_files){.ca = NULL});
    meet("redis.example:1");
    assert_int_equal(shake(PIECE), SNIB__TLS_BROKEN);
    is_broken(SNIB_ERR_CONFIG, "none of this system's CAs", "tls_ca=");
}

static void unverified_takes_anybody(void **state)
{
    (void)state;
    struct paper own = paper_new(NULL, "x", NULL, -2 * DAY, -DAY);
    w.ctx = peer_ctx(&own, NULL, 0);
    share((struct snib__tls_files){.unverified = true});
    meet("h:1");
    is_up();
    paper_free(&own);
}

/* The names in a certificate are somebody else's text. */
static void names_of_a_certificate_are_shown_clean(void **state)
{
    (void)state;
    snib_err err;
    struct paper dirty =
        paper_new(&ca, "x", "DNS:a\x1b[31mb,DNS:c\nd", -DAY, DAY);
    begin(&dirty, 0);
    meet("h:1");
    assert_int_equal(shake(PIECE), SNIB__TLS_BROKEN);
    for (const char *p = snib__tls_why(w.tls, &err); *p; p++) {
        assert_in_range(*p, 0x20, 0x7e);
    }
    paper_free(&dirty);
}

/* -- the server refuses ------------------------------------------------------ */

static void wants_a_certificate(int version, struct snib__tls_files files)
{
    w.ctx = peer_ctx(&good, &ca, version);
    files.ca = ca_path;
    share(files);
    meet("redis.example:1");
}

/* With TLS 1.3 the client learns it after its handshake is over. */
static void who_has_no_certificate_hears_that_one_is_wanted(void **state)
{
    char got[8];
    size_t size;
    wants_a_certificate(TLS1_2_VERSION, (struct snib__tls_files){.ca = NULL});
    assert_int_equal(shake(PIECE), SNIB__TLS_BROKEN);
    is_broken(SNIB_ERR_DENIED, "redis.example refuses us: handshake failure",
              "tls_cert= and tls_key=");
    tear_down(state);
    wants_a_certificate(TLS1_3_VERSION, (struct snib__tls_files){.ca = NULL});
    assert_int_equal(shake(PIECE), SNIB__TLS_UP);
    uint8_t *bytes = peer_says(&w.peer, &size);
    snib__tls_feed(w.tls, bytes, size);
    assert_int_equal(snib__tls_open(w.tls, got, sizeof got), -1);
    is_broken(SNIB_ERR_DENIED, "certificate required (alert 116)",
              "tls_cert= and tls_key=");
    free(bytes);
}

static void who_has_one_is_let_in(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    for (size_t i = 0; i < COUNT_OF(versions); i++) {
        wants_a_certificate(
            versions[i],
            (struct snib__tls_files){.cert = cert_path, .key = key_path});
        is_up();
        peer_writes(&w.peer, "+OK", 3);
        opens("+OK", 3);
        tear_down(state);
    }
}

static void a_version_that_is_too_old_is_told(void **state)
{
    (void)state;
    begin(&good, TLS1_1_VERSION);
    meet("redis.example:1");
    assert_int_equal(shake(PIECE), SNIB__TLS_BROKEN);
    is_broken(SNIB_ERR_CONFIG, "TLS 1.2 or later", "TLS");
}

/* -- nonsense ---------------------------------------------------------------- */

static void hears(const char *bytes, size_t size)
{
    begin(&good, 0);
    meet("h:1");
    assert_int_equal(snib__tls_shake(w.tls), SNIB__TLS_SHAKES);
    snib__tls_feed(w.tls, bytes, size);
    assert_int_equal(snib__tls_shake(w.tls), SNIB__TLS_BROKEN);
}

static void a_server_without_tls_is_told_from_one_with(void **state)
{
    static const char *const schemes[][2] = {
        {"rediss", "write redis: for rediss:"},
        {"rediss+sentinel", "write redis+sentinel: for rediss+sentinel:"},
        {"redlocks", "write redlock: for redlocks:"},
        {"etcds", "write etcd: for etcds:"},
        {"amqps", "write amqp: for amqps:"},
        {NULL, "a scheme without TLS"}};
    static const char *const words[] = {
        "-ERR unknown command\r\n", "-NOAUTH Authentication required.\r\n",
        "+PONG\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "-DENIED Redis is"};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        hears(words[i], strlen(words[i]));
        is_broken(SNIB_ERR_CONFIG, "what h says is not TLS",
                  "a scheme without TLS");
        tear_down(state);
    }
    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        w.ctx = peer_ctx(&good, NULL, 0);
        share((struct snib__tls_files){.ca = ca_path, .scheme = schemes[i][0]});
        meet("h:1");
        assert_int_equal(snib__tls_shake(w.tls), SNIB__TLS_SHAKES);
        assert_non_null(strstr(snib__tls_instead(w.tls), schemes[i][1]));
        snib__tls_feed(w.tls, "AMQP\0\0\11\1", 8);
        assert_int_equal(snib__tls_shake(w.tls), SNIB__TLS_BROKEN);
        is_broken(SNIB_ERR_CONFIG, "what h says is not TLS", schemes[i][1]);
        tear_down(state);
    }
}

/* A record of handshake of the greatest length, again and again: it ends. */
static void a_handshake_without_an_end_is_cut(void **state)
{
    (void)state;
    static const uint8_t head[] = {22, 3, 3, 0x40, 0};
    static uint8_t record[5 + 0x4000];
    snib__tls_progress got = SNIB__TLS_SHAKES;
    begin(&good, 0);
    meet("h:1");
    size_t fed = 0;
    memcpy(record, head, sizeof head);
    record[5] = 2; /* ServerHello of 16 MB less one */
    record[6] = record[7] = record[8] = 0xff;
    for (int i = 0; i < 100 && got != SNIB__TLS_BROKEN; i++) {
        snib__tls_feed(w.tls, record, sizeof record);
        got = snib__tls_shake(w.tls);
        fed += sizeof record;
    }
    assert_int_equal(got, SNIB__TLS_BROKEN);
    assert_true(fed <= 300 << 10);
}

/* One that never says anything whole, a byte at a time. */
static void a_drip_is_cut_too(void **state)
{
    (void)state;
    snib_err err;
    snib__tls_progress got = SNIB__TLS_SHAKES;
    static const uint8_t empty[] = {22, 3, 3, 0, 0};
    begin(&good, 0);
    meet("h:1");
    for (int i = 0; i < 300 << 10 && got == SNIB__TLS_SHAKES; i++) {
        snib__tls_feed(w.tls, &empty[i % 5], 1);
        got = snib__tls_shake(w.tls);
    }
    assert_int_equal(got, SNIB__TLS_BROKEN);
    assert_string_not_equal(snib__tls_why(w.tls, &err), "");
}

/* It asks for new keys without end, which we answer whenever we write, and
 * reads nothing. */
static void answers_that_nobody_reads_are_not_kept_for_ever(void **state)
{
    (void)state;
    char got[8];
    size_t size, wire = 0;
    long n = 0;
    begin(&good, TLS1_3_VERSION);
    meet("redis.example:1");
    is_up();
    for (int i = 0; i < 40000 && n >= 0; i++) {
        (void)SSL_key_update(w.peer.ssl, SSL_KEY_UPDATE_REQUESTED);
        (void)SSL_do_handshake(w.peer.ssl);
        uint8_t *bytes = peer_says(&w.peer, &size);
        snib__tls_feed(w.tls, bytes, size);
        n = snib__tls_open(w.tls, got, sizeof got);
        free(bytes);
        (void)snib__tls_seal(w.tls, "x", 1);
        (void)snib__tls_wire(w.tls, &wire);
        assert_true(wire <= 256 << 10);
    }
    assert_int_equal(n, -1);
    is_broken(SNIB_ERR_STORE, "wants answers and does not take them", "TLS");
}

/* TLS 1.2: the server begins another handshake. We go on without. */
static void renegotiation_is_refused(void **state)
{
    (void)state;
    begin(&good, TLS1_2_VERSION);
    meet("redis.example:1");
    is_up();
    (void)SSL_renegotiate(w.peer.ssl);
    (void)SSL_do_handshake(w.peer.ssl);
    size_t size;
    char got[8];
    uint8_t *bytes = peer_says(&w.peer, &size);
    assert_true(size > 0);
    snib__tls_feed(w.tls, bytes, size);
    long n = snib__tls_open(w.tls, got, sizeof got);
    assert_true(n <= 0);
    free(bytes);
    assert_true(wire_up(w.tls, &w.peer));
    (void)SSL_read(w.peer.ssl, got, 1);
    unsigned long error = ERR_peek_last_error();
    assert_int_equal(ERR_GET_REASON(error), SSL_R_NO_RENEGOTIATION);
    ERR_clear_error();
}

/* Bytes that were changed on the way end the connection. */
static void a_changed_record_breaks_it(void **state)
{
    (void)state;
    char got[8];
    size_t size;
    begin(&good, 0);
    meet("redis.example:1");
    is_up();
    opens("", 0);
    peer_writes(&w.peer, "+OK", 3);
    uint8_t *bytes = peer_says(&w.peer, &size);
    bytes[size - 1] ^= 1;
    snib__tls_feed(w.tls, bytes, size);
    assert_int_equal(snib__tls_open(w.tls, got, sizeof got), -1);
    is_broken(SNIB_ERR_STORE, "bad record mac", "TLS: redis.example");
    free(bytes);
}

/* -- files ------------------------------------------------------------------- */

static void unfit(struct snib__tls_files files, const char *words)
{
    struct snib__tls_shared *none = (void *)1;
    assert_int_equal(snib__tls_shared_new(&files, &none, &e), SNIB_ERR_CONFIG);
    assert_null(none);
    if (!strstr(e.text, words)) {
        fail_msg("%s: no \"%s\"", e.text, words);
    }
}

static void unfit_files_are_told_by_name(void **state)
{
    (void)state;
    unfit((struct snib__tls_files){.ca = "/no/such"},
          "tls_ca=/no/such: No such file or directory");
    unfit((struct snib__tls_files){.ca = "/etc/passwd"},
          "tls_ca=/etc/passwd: no certificates in PEM");
    unfit((struct snib__tls_files){.ca = "/dev/null"},
          "tls_ca=/dev/null: not a regular file"); /* nor a FIFO */
    unfit((struct snib__tls_files){.ca = ca_path, .cert = "/dev/null"},
          "tls_cert=/dev/null: not a regular file");
    unfit((struct snib__tls_files){.ca = ca_path, .cert = "/no/cert"},
          "tls_cert=/no/cert: No such file");
    unfit((struct snib__tls_files){.ca = ca_path, .cert = key_path},
          "no certificate in PEM");
    unfit((struct snib__tls_files){.ca = ca_path,
                                   .cert = cert_path,
                                   .key = "/no/key"},
          "tls_key=/no/key: No such file");
    unfit((struct snib__tls_files){.ca = ca_path, .cert = cert_path},
          "no key in PEM that belongs to tls_cert");
    unfit((struct snib__tls_files){.ca = ca_path,
                                   .cert = cert_path,
                                   .key = other_path},
          "no key in PEM that belongs to tls_cert: key values mismatch");
    unfit((struct snib__tls_files){.ca = ca_path,
                                   .cert = cert_path,
                                   .key = locked_path},
          "it has a passphrase");
}

static void a_folder_of_cas_is_taken(void **state)
{
    (void)state;
    struct snib__tls_files files = {.ca = dir};
    assert_int_equal(snib__tls_shared_new(&files, &w.shared, &e), SNIB_ERR_OK);
}

/* The program's own errors of OpenSSL are not mixed with ours. */
static void no_error_of_ours_is_left_in_the_threads_queue(void **state)
{
    (void)state;
    refused(&good, "h:1", "is not for h", "tls_name=");
    assert_int_equal(ERR_peek_error(), 0);
    unfit((struct snib__tls_files){.ca = "/etc/passwd"}, "no certificates");
    assert_int_equal(ERR_peek_error(), 0);
}

int main(void)
{
    const struct CMUnitTest tls[] = {
        CASE(a_server_that_is_not_the_one_meant_is_refused),
        CASE(the_systems_cas_do_not_vouch_for_ours),
        CASE(unverified_takes_anybody),
        CASE(names_of_a_certificate_are_shown_clean),
        CASE(who_has_no_certificate_hears_that_one_is_wanted),
        CASE(who_has_one_is_let_in),
        CASE(a_version_that_is_too_old_is_told),
        CASE(a_server_without_tls_is_told_from_one_with),
        CASE(a_handshake_without_an_end_is_cut),
        CASE(a_drip_is_cut_too),
        CASE(answers_that_nobody_reads_are_not_kept_for_ever),
        CASE(renegotiation_is_refused),
        CASE(a_changed_record_breaks_it),
        CASE(unfit_files_are_told_by_name),
        CASE(a_folder_of_cas_is_taken),
        CASE(no_error_of_ours_is_left_in_the_threads_queue),
    };
    make_papers();
    int failed = RUN(tls);
    remove_papers();
    return failed;
}

#endif
