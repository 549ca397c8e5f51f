/* tests/unit/tls_world.h — a filter of net/tls.h, the server that it talks to
 * (tls_peer.h), and the certificates of both, in files where they must be. */
#ifndef SNIB_TESTS_TLS_WORLD_H
#define SNIB_TESTS_TLS_WORLD_H

#include "unit.h"

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

#define CASE(f) cmocka_unit_test_teardown(f, tear_down)

#endif
