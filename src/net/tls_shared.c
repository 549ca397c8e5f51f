/* net/tls_shared.c — what the filters of one client share; see tls.h.
 *
 * The files are read once, when the client is opened, with the rights that the
 * program has then; nothing is read in a handshake but the system's directory of
 * certificates, where there is one. */
#include "net/tls.h"

#if SNIB_WITH_TLS

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/mem.h"
#include "net/tls_i.h"

/* -- sessions -------------------------------------------------------------- */

static SSL_SESSION **tls_shared_session_of(struct snib__tls_shared *shared,
                                           const char *address)
{
    for (uint32_t i = 0; i < SNIB__TLS_SESSIONS; i++) {
        if (shared->session[i].session &&
            !strcmp(shared->session[i].address, address)) {
            return &shared->session[i].session;
        }
    }
    return NULL;
}

void snib__tls_session_offer(struct snib__tls *t)
{
    SSL_SESSION **kept = tls_shared_session_of(t->shared, t->address);
    if (kept && SSL_SESSION_is_resumable(*kept)) {
        (void)SSL_set_session(t->ssl, *kept); /* else a whole handshake */
    }
}

void snib__tls_session_drop(struct snib__tls *t)
{
    SSL_SESSION **kept = tls_shared_session_of(t->shared, t->address);
    if (kept) {
        SSL_SESSION_free(*kept);
        *kept = NULL;
    }
}

/* A ticket came, which may be at any time: it takes the place of the last one
 * of this server. Returns 1: the session is ours now. */
static int tls_shared_take_session(SSL *ssl, SSL_SESSION *session)
{
    struct snib__tls *t = SSL_get_app_data(ssl);
    struct snib__tls_shared *shared = t->shared;
    SSL_SESSION **kept = tls_shared_session_of(shared, t->address);
    if (!kept) {
        uint32_t i = shared->next++ % SNIB__TLS_SESSIONS;
        snprintf(shared->session[i].address, sizeof t->address, "%s",
                 t->address);
        kept = &shared->session[i].session;
    }
    SSL_SESSION_free(*kept);
    *kept = session;
    return 1;
}

/* -- files ----------------------------------------------------------------- */

static snib_err tls_shared_unfit(const char *key, const char *file,
                                 const char *what, struct snib_error *reterr)
{
    char words[160];
    snib__tls_queue_words(words, sizeof words);
    return snib__fail(reterr, SNIB_ERR_CONFIG, "%s=%.100s: %s%s%s", key, file,
                      what, *words ? ": " : "", words);
}

/* Anything else than a file, a FIFO say, could be waited for without an end. */
static snib_err tls_shared_find(const char *key, const char *file,
                                struct stat *ret, struct snib_error *reterr)
{
    const char *why = NULL;
    if (stat(file, ret)) {
        why = strerror(errno);
    } else if (!S_ISREG(ret->st_mode) && !S_ISDIR(ret->st_mode)) {
        why = "not a regular file";
    }
    return why ? snib__fail(reterr, SNIB_ERR_CONFIG, "%s=%.100s: %s", key, file,
                            why)
               : SNIB_ERR_OK;
}

static snib_err tls_shared_read_ca(struct snib__tls_shared *shared,
                                   const char *ca, struct snib_error *reterr)
{
    struct stat st;
    if (!ca) {
        return SSL_CTX_set_default_verify_paths(shared->ctx)
                   ? SNIB_ERR_OK
                   : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib_err err = tls_shared_find("tls_ca", ca, &st, reterr);
    if (err) {
        return err;
    }
    int good = S_ISDIR(st.st_mode) ? SSL_CTX_load_verify_dir(shared->ctx, ca)
                                   : SSL_CTX_load_verify_file(shared->ctx, ca);
    shared->own_ca = true;
    return good ? SNIB_ERR_OK
                : tls_shared_unfit("tls_ca", ca, "no certificates in PEM",
                                   reterr);
}

/* A key with a passphrase: the default would ask for it on the terminal. */
static int tls_shared_no_passphrase(char *to, int size, int writes, void *data)
{
    (void)to;
    (void)size;
    (void)writes;
    *(bool *)data = true;
    return -1;
}

static snib_err tls_shared_read_cert(struct snib__tls_shared *shared,
                                     const struct snib__tls_files *f,
                                     struct snib_error *reterr)
{
    bool locked = false;
    struct stat st;
    const char *key = f->key ? f->key : f->cert;
    if (!f->cert) {
        return SNIB_ERR_OK;
    }
    snib_err err = tls_shared_find("tls_cert", f->cert, &st, reterr);
    if (!err) {
        err = tls_shared_find("tls_key", key, &st, reterr);
    }
    if (err) {
        return err;
    }
    SSL_CTX_set_default_passwd_cb(shared->ctx, tls_shared_no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(shared->ctx, &locked);
    if (!SSL_CTX_use_certificate_chain_file(shared->ctx, f->cert)) {
        return tls_shared_unfit("tls_cert", f->cert, "no certificate in PEM",
                                reterr);
    }
    int good = SSL_CTX_use_PrivateKey_file(shared->ctx, key, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(shared->ctx, NULL);
    SSL_CTX_set_default_passwd_cb(shared->ctx, NULL);
    if (locked) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "tls_key=%.100s: it has a passphrase, which nobody "
                          "could be asked for; give a key without one",
                          key);
    }
    if (!good || !SSL_CTX_check_private_key(shared->ctx)) {
        return tls_shared_unfit(
            "tls_key", key, "no key in PEM that belongs to tls_cert", reterr);
    }
    shared->has_cert = true;
    return SNIB_ERR_OK;
}

/* A server that speaks several protocols at one port asks which it will be; one
 * that knows none of this name breaks off, or does not answer that (tls.c). */
static bool tls_shared_offer(struct snib__tls_shared *shared, const char *alpn)
{
    uint8_t list[1 + sizeof shared->alpn];
    size_t n = alpn ? strlen(alpn) : 0;
    if (!n || n >= sizeof shared->alpn) {
        return !n;
    }
    list[0] = (uint8_t)n;
    memcpy(list + 1, alpn, n);
    memcpy(shared->alpn, alpn, n + 1);
    return SSL_CTX_set_alpn_protos(shared->ctx, list, (unsigned)n + 1) == 0;
}

/* -- new and free ---------------------------------------------------------- */

static snib_err tls_shared_set_up(struct snib__tls_shared *shared,
                                  const struct snib__tls_files *f,
                                  struct snib_error *reterr)
{
    /* OpenSSL's own clean-up at exit would free what the client's thread may
     * still be using. */
    if (!OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) ||
        !(shared->ctx = SSL_CTX_new(TLS_client_method())) ||
        !(shared->bio = snib__tls_bio_new()) ||
        !SSL_CTX_set_min_proto_version(shared->ctx, TLS1_2_VERSION) ||
        (f->name && !(shared->name = snib__strdup(f->name)))) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    shared->unverified = f->unverified;
    snib__tls_put_instead(shared, f->scheme);
    SSL_CTX_set_verify(shared->ctx,
                       f->unverified ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_options(shared->ctx,
                              SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_mode(shared->ctx,
                           SSL_MODE_ENABLE_PARTIAL_WRITE |
                               SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                               SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(
        shared->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(shared->ctx, tls_shared_take_session);
    if (!tls_shared_offer(shared, f->alpn)) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib_err err =
        f->unverified ? SNIB_ERR_OK : tls_shared_read_ca(shared, f->ca, reterr);
    return err ? err : tls_shared_read_cert(shared, f, reterr);
}

snib_err snib__tls_shared_new(const struct snib__tls_files *files,
                              struct snib__tls_shared **ret,
                              struct snib_error *reterr)
{
    struct snib__tls_shared *shared = snib__alloc(sizeof *shared);
    *ret = NULL;
    if (!shared) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    const char *lacks = snib__openssl_load();
    if (lacks) {
        snib__free(shared);
        return snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                          "no TLS: %s of OpenSSL 3 is not there; install it "
                          "(Debian: libssl3)",
                          lacks);
    }
    ERR_clear_error();
    snib_err err = tls_shared_set_up(shared, files, reterr);
    ERR_clear_error();
    if (err) {
        snib__tls_shared_free(shared);
        return err;
    }
    *ret = shared;
    return SNIB_ERR_OK;
}

void snib__tls_shared_free(struct snib__tls_shared *shared)
{
    if (!shared) {
        return;
    }
    for (uint32_t i = 0; i < SNIB__TLS_SESSIONS; i++) {
        SSL_SESSION_free(shared->session[i].session);
    }
    SSL_CTX_free(shared->ctx);
    BIO_meth_free(shared->bio);
    snib__free(shared->name);
    snib__free(shared);
}

#endif
