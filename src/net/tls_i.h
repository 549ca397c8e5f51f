/* net/tls_i.h — what a filter is made of; for tls.c, tls_shared.c and
 * tls_words.c. */
#ifndef SNIB__TLS_I_H
#define SNIB__TLS_I_H

#include "base/buf.h"
#include "net/tls.h"
#include "net/tls_openssl.h"

enum {
    SNIB__TLS_SESSIONS = 64,     /* servers whose session is kept */
    SNIB__TLS_RECORD = 18 * 1024 /* more than any record has */
};

struct snib__tls_shared {
    SSL_CTX *ctx;
    BIO_METHOD *bio;
    char *name;        /* tls_name=; NULL: the host */
    char alpn[16];     /* what is spoken inside; "": not said */
    char instead[100]; /* snib__tls_instead */
    bool unverified;
    bool own_ca, has_cert; /* for the words of an error */
    uint32_t next;         /* the session that gives way to a new server's */
    struct {
        char address[264];
        SSL_SESSION *session;
    } session[SNIB__TLS_SESSIONS];
};

struct snib__tls {
    struct snib__tls_shared *shared;
    SSL *ssl;
    const uint8_t *fed; /* borrowed: what is left of it */
    size_t fed_size;
    struct snib__buf wire;
    size_t shaken; /* bytes fed before it was up */
    bool up, closed;
    snib_err err; /* OK: it is not broken */
    char address[264], name[256];
    char why[300];
};

/* tls.c */
BIO_METHOD *snib__tls_bio_new(void);
/* tls_shared.c: the session of this filter's server. */
void snib__tls_session_offer(struct snib__tls *);
void snib__tls_session_drop(struct snib__tls *);
/* tls_words.c: it is broken; why, by OpenSSL's queue of errors. */
void snib__tls_put_words(struct snib__tls *);
/* What to write in place of this scheme; NULL: it is not known. */
void snib__tls_put_instead(struct snib__tls_shared *, const char *scheme);
/* The same of a file, for snib_error: "unable to get …". */
void snib__tls_queue_words(char *ret, size_t size);

#endif
