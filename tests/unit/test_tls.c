/* tests/unit/test_tls.c — a TLS filter against a server in memory: what it lets
 * through, what it refuses and in which words, and what a hostile server can
 * make of it. labels: oom */
#include "unit.h"

#if !SNIB_WITH_TLS
int main(void)
{
    puts("skipped: built without TLS");
    return 77;
}
#else

#include <sys/stat.h>
#include <unistd.h>

#include "tls_peer.h"

enum { DAY = 24 * 3600, PIECE = 100000 };

static char dir[] = "/tmp/snib-tls-XXXXXX";
static char ca_path[64], cert_path[64], key_path[64], locked_path[64],
    other_path[64];
static struct paper ca, other_ca, good, client, strange;
static struct snib_error e;

static struct {
    SSL_CTX *ctx;
    struct peer peer;
    struct snib__tls_shared *shared;
    struct snib__tls *tls;
} w;

/* -- the world --------------------------------------------------------------- */

static void path_of(char *to, const char *name)
{
    snprintf(to, 64, "%s/%s", dir, name);
}

static void make_papers(void)
{
    assert_non_null(mkdtemp(dir));
    path_of(ca_path, "ca.pem");
    path_of(cert_path, "client.pem");
    path_of(key_path, "client.key");
    path_of(locked_path, "locked.key");
    path_of(other_path, "other.key");
    ca = paper_new(NULL, "test CA", NULL, -DAY, DAY);
    other_ca = paper_new(NULL, "another CA", NULL, -DAY, DAY);
    good = paper_new(&ca, "redis",
                     "DNS:redis.example,DNS:*.wild.example,"
                     "IP:127.0.0.1,IP:::1",
                     -DAY, DAY);
    client = paper_new(&ca, "client", NULL, -DAY, DAY);
    strange = paper_new(&other_ca, "strange", NULL, -DAY, DAY);
    paper_write(&ca, ca_path, NULL, NULL);
    paper_write(&client, cert_path, key_path, NULL);
    paper_write(&client, NULL, locked_path, (char[]){"secret"});
    paper_write(&strange, NULL, other_path, NULL);
}

static void remove_papers(void)
{
    const char *const paths[] = {ca_path, cert_path, key_path, locked_path,
                                 other_path};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        unlink(paths[i]);
    }
    rmdir(dir);
    paper_free(&ca);
    paper_free(&other_ca);
    paper_free(&good);
    paper_free(&client);
    paper_free(&strange);
}

static void share(struct snib__tls_files files)
{
    if (snib__tls_shared_new(&files, &w.shared, &e)) {
        fail_msg("%s", e.text);
    }
}

static void meet(const char *address)
{
    w.peer = peer_of(w.ctx);
    w.tls = snib__tls_new(w.shared, address);
    assert_non_null(w.tls);
}

static void part(void)
{
    snib__tls_free(w.tls);
    peer_end(&w.peer);
    w.tls = NULL;
}

static int tear_down(void **state)
{
    (void)state;
    snib__mem_fail_at(0, false);
    part();
    snib__tls_shared_free(w.shared);
    SSL_CTX_free(w.ctx);
    memset(&w, 0, sizeof w);
    return 0;
}

/* What the peer has said is fed, in pieces. */
static snib__tls_progress hear(size_t piece)
{
    size_t size;
    uint8_t *bytes = peer_says(&w.peer, &size);
    snib__tls_progress got = SNIB__TLS_SHAKES;
    for (size_t at = 0; at < size && got == SNIB__TLS_SHAKES;) {
        size_t n = size - at < piece ? size - at : piece;
        uint8_t *exact = malloc(n); /* reading past it shows */
        assert_non_null(exact);
        memcpy(exact, bytes + at, n);
        snib__tls_feed(w.tls, exact, n);
        got = snib__tls_shake(w.tls);
        at += n;
        if (got == SNIB__TLS_UP) { /* it may have come with the last bytes */
            char ignored[16];
            assert_int_equal(snib__tls_open(w.tls, ignored, 16), 0);
            snib__tls_feed(w.tls, bytes + at, size - at);
            assert_int_equal(snib__tls_open(w.tls, ignored, 16), 0);
        }
        free(exact);
    }
    free(bytes);
    return got;
}

static snib__tls_progress shake(size_t piece)
{
    snib__tls_progress got = snib__tls_shake(w.tls);
    for (int i = 0; i < 20 && got == SNIB__TLS_SHAKES; i++) {
        wire_up(w.tls, &w.peer);
        peer_shakes(&w.peer);
        got = hear(piece);
    }
    wire_up(w.tls, &w.peer);
    peer_shakes(&w.peer);
    return got;
}

static void is_up(void)
{
    snib_err err;
    if (shake(PIECE) != SNIB__TLS_UP) {
        fail_msg("%s", snib__tls_why(w.tls, &err));
    }
    assert_string_equal(snib__tls_why(w.tls, &err), "");
    assert_int_equal(err, SNIB_ERR_OK);
}

static void is_broken(snib_err want, const char *words, const char *more)
{
    snib_err err;
    const char *why = snib__tls_why(w.tls, &err);
    if (!strstr(why, words) || !strstr(why, more)) {
        fail_msg("%s: neither \"%s\" nor \"%s\"", why, words, more);
    }
    assert_int_equal(err, want);
    assert_int_equal(snib__tls_shake(w.tls), SNIB__TLS_BROKEN);
    assert_int_equal(snib__tls_open(w.tls, &err, 1), -1);
    assert_int_equal(snib__tls_seal(w.tls, "x", 1), 0);
}

/* The peer's bytes are opened and compared. */
static void opens(const char *want, size_t size)
{
    char *got = malloc(size + 1);
    size_t at = 0, n;
    assert_non_null(got);
    uint8_t *bytes = peer_says(&w.peer, &n);
    snib__tls_feed(w.tls, bytes, n);
    long more;
    while ((more = snib__tls_open(w.tls, got + at, size + 1 - at)) > 0) {
        at += (size_t)more;
    }
    assert_int_equal(more, 0);
    assert_int_equal(at, size);
    assert_memory_equal(got, want, size);
    free(bytes);
    free(got);
}

static void peer_reads(const char *want, size_t size)
{
    char *got = malloc(size + 1);
    size_t at = 0, n;
    assert_non_null(got);
    while (SSL_read_ex(w.peer.ssl, got + at, size + 1 - at, &n)) {
        at += n;
    }
    assert_int_equal(at, size);
    assert_memory_equal(got, want, size);
    free(got);
    ERR_clear_error();
}

static void begin(const struct paper *server, int version)
{
    w.ctx = peer_ctx(server, NULL, version);
    share((struct snib__tls_files){.ca = ca_path});
}

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
    static const char *const words[] = {
        "-ERR unknown command\r\n", "-NOAUTH Authentication required.\r\n",
        "+PONG\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "-DENIED Redis is"};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        hears(words[i], strlen(words[i]));
        is_broken(SNIB_ERR_CONFIG, "what h says is not TLS",
                  "redis: for rediss:");
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
    unfit((struct snib__tls_files){.ca = "/dev/null"},
          "tls_ca=/dev/null: no certificates in PEM");
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

/* The program's own errors of OpenSSL are not mixed with ours. */
static void no_error_of_ours_is_left_in_the_threads_queue(void **state)
{
    (void)state;
    refused(&good, "h:1", "is not for h", "tls_name=");
    assert_int_equal(ERR_peek_error(), 0);
    unfit((struct snib__tls_files){.ca = "/dev/null"}, "no certificates");
    assert_int_equal(ERR_peek_error(), 0);
}

#define CASE(f) cmocka_unit_test_teardown(f, tear_down)

int main(void)
{
    const struct CMUnitTest tls[] = {
        CASE(bytes_go_both_ways_whatever_the_pieces),
        CASE(the_name_of_the_url_is_told_to_the_server),
        CASE(names_and_addresses_of_the_certificate_are_good),
        CASE(large_messages_go_in_many_records),
        CASE(half_a_record_is_none),
        CASE(keys_may_change_at_any_time),
        CASE(the_next_connection_resumes_the_session),
        CASE(a_forgotten_session_costs_a_handshake_only),
        CASE(many_servers_have_each_their_session),
        CASE(a_peer_that_closes_is_no_error),
        CASE(who_closes_says_so),
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
        CASE(without_memory_there_is_none_and_nothing_is_left),
        CASE(no_error_of_ours_is_left_in_the_threads_queue),
    };
    make_papers();
    int failed = RUN(tls);
    remove_papers();
    return failed;
}

#endif
