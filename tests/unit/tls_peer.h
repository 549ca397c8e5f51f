/* tests/unit/tls_peer.h — certificates made on the spot, and a server for a
 * filter of net/tls.h: OpenSSL between two memory BIOs, no socket. */
#ifndef SNIB_TESTS_TLS_PEER_H
#define SNIB_TESTS_TLS_PEER_H

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/tls.h"

#define PEER_MUST(condition)                                                   \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
            abort();                                                           \
        }                                                                      \
    } while (0)

/* A certificate with its key. */
struct paper {
    X509 *cert;
    EVP_PKEY *key;
};

static void paper_extend(X509 *cert, X509 *by, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, by, cert, NULL, NULL, 0);
    X509_EXTENSION *one = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    PEER_MUST(one && X509_add_ext(cert, one, -1));
    X509_EXTENSION_free(one);
}

/* by NULL: a CA that has signed itself. names: "DNS:h,IP:::1"; NULL: none. From
 * and to in seconds from now. */
static struct paper paper_new(const struct paper *by, const char *cn,
                              const char *names, long from, long to)
{
    static long serial;
    struct paper p = {X509_new(), EVP_EC_gen("P-256")};
    PEER_MUST(p.cert && p.key);
    X509_NAME *name = X509_get_subject_name(p.cert);
    PEER_MUST(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                         (const uint8_t *)cn, -1, -1, 0));
    PEER_MUST(X509_set_version(p.cert, 2) &&
              ASN1_INTEGER_set(X509_get_serialNumber(p.cert), ++serial) &&
              X509_gmtime_adj(X509_getm_notBefore(p.cert), from) &&
              X509_gmtime_adj(X509_getm_notAfter(p.cert), to) &&
              X509_set_pubkey(p.cert, p.key) &&
              X509_set_issuer_name(p.cert, by ? X509_get_subject_name(by->cert)
                                              : name));
    paper_extend(p.cert, by ? by->cert : p.cert, NID_basic_constraints,
                 by ? "CA:FALSE" : "critical,CA:TRUE");
    if (names) {
        paper_extend(p.cert, by ? by->cert : p.cert, NID_subject_alt_name,
                     names);
    }
    PEER_MUST(X509_sign(p.cert, by ? by->key : p.key, EVP_sha256()));
    return p;
}

static void paper_free(struct paper *p)
{
    X509_free(p->cert);
    EVP_PKEY_free(p->key);
    *p = (struct paper){NULL, NULL};
}

/* passphrase NULL: none. */
static void paper_write(const struct paper *p, const char *cert_path,
                        const char *key_path, char *passphrase)
{
    if (cert_path) {
        FILE *f = fopen(cert_path, "w");
        PEER_MUST(f && PEM_write_X509(f, p->cert));
        fclose(f);
    }
    if (key_path) {
        FILE *f = fopen(key_path, "w");
        PEER_MUST(f && PEM_write_PrivateKey(
                           f, p->key, passphrase ? EVP_aes_128_cbc() : NULL,
                           NULL, 0, NULL, passphrase));
        fclose(f);
    }
}

struct peer {
    SSL_CTX *ctx;
    SSL *ssl;
};

/* clients NULL: it asks for no client's certificate. */
static SSL_CTX *peer_ctx(const struct paper *p, const struct paper *clients,
                         int version)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    PEER_MUST(ctx && SSL_CTX_use_certificate(ctx, p->cert) &&
              SSL_CTX_use_PrivateKey(ctx, p->key));
    if (version) {
        SSL_CTX_set_security_level(ctx, 0);
        PEER_MUST(SSL_CTX_set_min_proto_version(ctx, version) &&
                  SSL_CTX_set_max_proto_version(ctx, version));
    }
    if (clients) {
        PEER_MUST(
            X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), clients->cert));
        SSL_CTX_set_verify(
            ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    SSL_CTX_set_session_id_context(ctx, (const uint8_t *)"t", 1);
    return ctx;
}

static struct peer peer_of(SSL_CTX *ctx)
{
    struct peer p = {ctx, SSL_new(ctx)};
    SSL_set_bio(p.ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(p.ssl);
    return p;
}

static void peer_end(struct peer *p)
{
    SSL_free(p->ssl);
    p->ssl = NULL;
}

static void peer_hears(struct peer *p, const void *bytes, size_t size)
{
    PEER_MUST(!size ||
              BIO_write(SSL_get_rbio(p->ssl), bytes, (int)size) == (int)size);
}

/* What it has for the wire; the caller frees it. */
static uint8_t *peer_says(struct peer *p, size_t *ret_size)
{
    size_t n = BIO_pending(SSL_get_wbio(p->ssl));
    uint8_t *bytes = malloc(n + 1);
    PEER_MUST(bytes);
    *ret_size = n;
    PEER_MUST(!n || BIO_read(SSL_get_wbio(p->ssl), bytes, (int)n) == (int)n);
    return bytes;
}

/* Let it go on with its handshake. */
static void peer_shakes(struct peer *p)
{
    ERR_clear_error();
    (void)SSL_do_handshake(p->ssl);
    ERR_clear_error();
}

static void peer_writes(struct peer *p, const void *bytes, size_t size)
{
    size_t n = 0;
    PEER_MUST(SSL_write_ex(p->ssl, bytes, size, &n) && n == size);
}

/* What the filter has for the wire goes to the peer. */
static bool wire_up(struct snib__tls *t, struct peer *p)
{
    size_t n;
    const void *bytes = snib__tls_wire(t, &n);
    peer_hears(p, bytes, n);
    snib__tls_sent(t, n);
    return n != 0;
}

#endif
