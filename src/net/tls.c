/* net/tls.c — a filter: OpenSSL between two places in memory; see tls.h.
 *
 * OpenSSL reads and writes through a BIO of ours. What it reads are the bytes
 * that were fed last; it takes all of them, and keeps the beginning of a record
 * itself. What it writes goes to `wire`, a buffer with a limit, so a server that
 * makes us answer without end (key updates) and does not read breaks its
 * connection and nothing else.
 *
 * The errors of OpenSSL are a queue of the thread's, which must be empty before
 * each call for SSL_get_error to be right, and which is left empty, so that the
 * program does not find ours in it.
 *
 * What a server says in an alert, and what was wrong with its certificate, is
 * put into words by tls_words.c. */
#include "net/tls.h"

#if SNIB_WITH_TLS

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net/connect.h"
#include "net/tls_i.h"

enum {
    WIRE_MAX = 256 << 10,  /* bytes that the peer does not take */
    SHAKE_MAX = 256 << 10, /* bytes of a handshake */
    SEAL_AT_ONCE = 16 << 10
};

/* -- the BIO --------------------------------------------------------------- */

static int tls_bio_write(BIO *b, const char *bytes, int size)
{
    struct snib__tls *t = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    if (size <= 0) {
        return 0;
    }
    snib__buf_add(&t->wire, bytes, (size_t)size);
    return t->wire.failed ? -1 : size;
}

static int tls_bio_read(BIO *b, char *to, int size)
{
    struct snib__tls *t = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    if (size <= 0 || !t->fed_size) {
        BIO_set_retry_read(b);
        return -1;
    }
    size_t n = t->fed_size < (size_t)size ? t->fed_size : (size_t)size;
    memcpy(to, t->fed, n);
    t->fed += n;
    t->fed_size -= n;
    return (int)n;
}

static long tls_bio_ctrl(BIO *b, int what, long n, void *p)
{
    (void)b;
    (void)n;
    (void)p;
    return what == BIO_CTRL_FLUSH;
}

BIO_METHOD *snib__tls_bio_new(void)
{
    BIO_METHOD *m =
        BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "snib bytes");
    if (m && (!BIO_meth_set_write(m, tls_bio_write) ||
              !BIO_meth_set_read(m, tls_bio_read) ||
              !BIO_meth_set_ctrl(m, tls_bio_ctrl))) {
        BIO_meth_free(m);
        m = NULL;
    }
    return m;
}

/* -- one filter ------------------------------------------------------------ */

/* The name that the certificate must have; it is sent as SNI, unless it is an
 * address. */
static bool tls_expect(struct snib__tls *t, const char *name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
    char bare[sizeof t->name];
    snprintf(bare, sizeof bare, "%s", name);
    bare[strcspn(bare, "%")] = 0; /* fe80::1%eth0 */
    ASN1_OCTET_STRING *ip = a2i_IPADDRESS(bare);
    bool is_ip = ip != NULL;
    ASN1_OCTET_STRING_free(ip);
    snprintf(t->name, sizeof t->name, "%s", name);
    if (is_ip) {
        return t->shared->unverified ||
               X509_VERIFY_PARAM_set1_ip_asc(param, bare);
    }
    X509_VERIFY_PARAM_set_hostflags(param,
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return (t->shared->unverified ||
            X509_VERIFY_PARAM_set1_host(param, name, 0)) &&
           SSL_set_tlsext_host_name(t->ssl, name);
}

struct snib__tls *snib__tls_new(struct snib__tls_shared *shared,
                                const char *address)
{
    char host[256] = "", port[8];
    struct snib__tls *t = snib__alloc(sizeof *t);
    if (!t) {
        return NULL;
    }
    ERR_clear_error();
    t->shared = shared;
    snib__buf_init(&t->wire, WIRE_MAX);
    snprintf(t->address, sizeof t->address, "%s", address);
    (void)snib__net_split(address, host, sizeof host, port, sizeof port);
    BIO *bio = BIO_new(shared->bio);
    t->ssl = SSL_new(shared->ctx);
    if (!t->ssl || !bio || !tls_expect(t, shared->name ? shared->name : host)) {
        BIO_free(bio);
        snib__tls_free(t);
        ERR_clear_error();
        return NULL;
    }
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio);
    SSL_set_app_data(t->ssl, t);
    SSL_set_connect_state(t->ssl);
    snib__tls_session_offer(t);
    ERR_clear_error();
    return t;
}

void snib__tls_free(struct snib__tls *t)
{
    if (t && t->ssl && !t->err) {
        /* Else OpenSSL takes the session as one that must not be resumed: it
         * has not seen the end of the connection. */
        SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    }
    if (t) {
        SSL_free(t->ssl);
        snib__buf_free(&t->wire);
        snib__free(t);
    }
}

void snib__tls_feed(struct snib__tls *t, const void *bytes, size_t size)
{
    t->fed = bytes;
    t->fed_size = size;
    t->shaken += t->up ? 0 : size;
}

/* What was offered to be spoken inside must have been taken: who says nothing to
 * it speaks something else there. */
static bool tls_speaks(struct snib__tls *t)
{
    const char *wanted = t->shared->alpn;
    const unsigned char *taken = NULL;
    unsigned size = 0;
    if (!*wanted) {
        return true;
    }
    SSL_get0_alpn_selected(t->ssl, &taken, &size);
    if (size == strlen(wanted) && !memcmp(taken, wanted, size)) {
        return true;
    }
    t->err = SNIB_ERR_STORE;
    snprintf(t->why, sizeof t->why,
             "TLS: %.100s does not say that it speaks %s inside (ALPN); is it "
             "the right port?",
             t->name, wanted);
    return false;
}

snib__tls_progress snib__tls_shake(struct snib__tls *t)
{
    if (t->err) {
        return SNIB__TLS_BROKEN;
    }
    ERR_clear_error();
    int n = SSL_do_handshake(t->ssl);
    if (n == 1) {
        t->up = true;
        bool speaks = tls_speaks(t);
        ERR_clear_error();
        return speaks ? SNIB__TLS_UP : SNIB__TLS_BROKEN;
    }
    if (SSL_get_error(t->ssl, n) != SSL_ERROR_WANT_READ) {
        snib__tls_session_drop(t);
        snib__tls_put_words(t);
    } else if (t->shaken > SHAKE_MAX) {
        t->err = SNIB_ERR_STORE;
        snprintf(t->why, sizeof t->why,
                 "TLS: what %.100s sends is no handshake: it does not end",
                 t->name);
    }
    ERR_clear_error();
    return t->err ? SNIB__TLS_BROKEN : SNIB__TLS_SHAKES;
}

long snib__tls_open(struct snib__tls *t, void *to, size_t size)
{
    size_t n = 0;
    if (t->err || t->closed) {
        return -1;
    }
    ERR_clear_error();
    int good = SSL_read_ex(t->ssl, to, size, &n);
    int why = good ? SSL_ERROR_NONE : SSL_get_error(t->ssl, good);
    t->closed = why == SSL_ERROR_ZERO_RETURN;
    if (!good && !t->closed && why != SSL_ERROR_WANT_READ) {
        snib__tls_put_words(t);
    }
    ERR_clear_error();
    return good ? (long)n : t->err || t->closed ? -1 : 0;
}

size_t snib__tls_seal(struct snib__tls *t, const void *bytes, size_t size)
{
    size_t n = 0;
    if (t->err || !size) {
        return 0;
    }
    ERR_clear_error();
    int good = SSL_write_ex(t->ssl, bytes,
                            size < SEAL_AT_ONCE ? size : SEAL_AT_ONCE, &n);
    if (!good && SSL_get_error(t->ssl, good) != SSL_ERROR_WANT_READ) {
        snib__tls_put_words(t);
    }
    ERR_clear_error();
    return good ? n : 0;
}

void snib__tls_bye(struct snib__tls *t)
{
    if (t->up && !t->err) {
        ERR_clear_error();
        (void)SSL_shutdown(t->ssl);
        ERR_clear_error();
    }
}

const void *snib__tls_wire(const struct snib__tls *t, size_t *ret_size)
{
    *ret_size = snib__buf_size(&t->wire);
    return snib__buf_bytes(&t->wire);
}

void snib__tls_sent(struct snib__tls *t, size_t size)
{
    snib__buf_consume(&t->wire, size);
}

const char *snib__tls_instead(const struct snib__tls *t)
{
    return t->shared->instead;
}

const char *snib__tls_why(const struct snib__tls *t, snib_err *ret_err)
{
    *ret_err = t->err;
    return t->why;
}

bool snib__tls_resumed(const struct snib__tls *t)
{
    return SSL_session_reused(t->ssl);
}

#endif
