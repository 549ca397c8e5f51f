/* net/tls_words.c — why a filter is broken, in one line that says what to do.
 *
 * Three things break one: the certificate is not what was expected (we refuse
 * the server), an alert came (the server refuses us), or the bytes are none of
 * TLS. Names in a certificate are somebody else's text: only what may stand in
 * a host name is shown. */
#include "net/tls.h"

#if SNIB_WITH_TLS

#include <stdio.h>
#include <string.h>

#include "net/tls_i.h"

enum { ALERTS = 1000 }; /* reasons of alerts that came begin there */

static void tls_words_add_name(char *to, size_t size, const uint8_t *name,
                               int n)
{
    size_t used = strlen(to);
    if (used + (size_t)n + 3 > size) {
        return;
    }
    used += (size_t)snprintf(to + used, size - used, "%s", used ? ", " : "");
    for (int i = 0; i < n; i++) {
        bool plain = (name[i] >= 'a' && name[i] <= 'z') ||
                     (name[i] >= 'A' && name[i] <= 'Z') ||
                     (name[i] >= '0' && name[i] <= '9') ||
                     (name[i] && strchr(".-_*", name[i]));
        to[used++] = plain ? (char)name[i] : '?';
    }
    to[used] = 0;
}

/* The host names that the server's certificate has, as many as fit. */
static void tls_words_names(const struct snib__tls *t, char *ret, size_t size)
{
    const STACK_OF(X509) *chain = SSL_get0_verified_chain(t->ssl);
    const X509 *cert = chain ? sk_X509_value(chain, 0) : NULL;
    GENERAL_NAMES *names =
        cert ? X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL) : NULL;
    *ret = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *one = sk_GENERAL_NAME_value(names, i);
        if (one->type == GEN_DNS) {
            tls_words_add_name(ret, size, ASN1_STRING_get0_data(one->d.dNSName),
                               ASN1_STRING_length(one->d.dNSName));
        }
    }
    GENERAL_NAMES_free(names);
}

static void tls_words_of_certificate(struct snib__tls *t, long result)
{
    char names[100];
    const char *advice;
    switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        tls_words_names(t, names, sizeof names);
        snprintf(t->why, sizeof t->why,
                 "TLS: the server's certificate is not for %.80s%s%s; give the "
                 "name that it has by tls_name=, or in the URL",
                 t->name, *names ? " but for " : "", names);
        return;
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID:
        advice = "renew it, or set this host's clock";
        break;
    default:
        advice = t->shared->own_ca
                     ? "give the CA that has signed it by tls_ca="
                     : "it is none of this system's CAs that has signed it: "
                       "give that one by tls_ca=";
        break;
    }
    snprintf(t->why, sizeof t->why,
             "TLS: the certificate of %.80s is refused: %.60s; %s", t->name,
             X509_verify_cert_error_string(result), advice);
}

static void tls_words_of_alert(struct snib__tls *t, int alert)
{
    const char *advice = "see the server's log", *said, *name;
    char words[120];
    t->err = SNIB_ERR_DENIED;
    switch (alert) {
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_ACCESS_DENIED:
        advice = "tls_cert= must be one that its CA has signed";
        break;
    case SSL_AD_HANDSHAKE_FAILURE: /* TLS 1.2 has no other word for it */
    case SSL_AD_CERTIFICATE_REQUIRED:
        advice = t->shared->has_cert
                     ? "see the server's log"
                     : "it may want a client's certificate: give tls_cert= and "
                       "tls_key=";
        break;
    case SSL_AD_PROTOCOL_VERSION:
        t->err = SNIB_ERR_CONFIG;
        advice = "it must speak TLS 1.2 or later";
        break;
    case SSL_AD_UNRECOGNIZED_NAME:
        t->err = SNIB_ERR_CONFIG;
        advice = "give the name that it has by tls_name=";
        break;
    default:
        break;
    }
    /* "tlsv13 alert certificate required"; SSL_alert_desc_string_long does not
     * know the alerts of TLS 1.3. */
    snib__tls_queue_words(words, sizeof words);
    name = strstr(words, " alert ");
    said = name ? name + 7 : words;
    snprintf(t->why, sizeof t->why,
             "TLS: %.80s refuses us: %.60s (alert %d); %s", t->name, said,
             alert, advice);
}

static bool tls_words_is_no_tls(int reason)
{
    return reason == SSL_R_WRONG_VERSION_NUMBER ||
           reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
           reason == SSL_R_UNEXPECTED_MESSAGE || reason == SSL_R_HTTP_REQUEST ||
           reason == SSL_R_UNKNOWN_PROTOCOL ||
           reason == SSL_R_RECORD_LENGTH_MISMATCH ||
           reason == SSL_R_BAD_RECORD_TYPE;
}

void snib__tls_put_words(struct snib__tls *t)
{
    unsigned long error = ERR_peek_error();
    int reason = ERR_GET_REASON(error);
    long result = SSL_get_verify_result(t->ssl);
    char words[120];
    if (t->wire.failed &&
        snib__buf_size(&t->wire) > t->wire.limit - SNIB__TLS_RECORD) {
        t->err = SNIB_ERR_STORE;
        snprintf(t->why, sizeof t->why,
                 "TLS: %.80s wants answers and does not take them", t->name);
    } else if (t->wire.failed) {
        t->err = SNIB_ERR_NOMEM;
        snprintf(t->why, sizeof t->why, "out of memory");
    } else if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > ALERTS &&
               reason < ALERTS + 256) {
        tls_words_of_alert(t, reason - ALERTS);
    } else if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED &&
               result != X509_V_OK) {
        t->err = SNIB_ERR_CONFIG;
        tls_words_of_certificate(t, result);
    } else if (reason == SSL_R_UNSUPPORTED_PROTOCOL) {
        t->err = SNIB_ERR_CONFIG;
        snprintf(t->why, sizeof t->why,
                 "TLS: %.80s must speak TLS 1.2 or later", t->name);
    } else if (!t->up && tls_words_is_no_tls(reason)) {
        t->err = SNIB_ERR_CONFIG;
        snprintf(t->why, sizeof t->why,
                 "TLS: what %.80s says is not TLS; it may be the port without "
                 "it: %s",
                 t->name, t->shared->instead);
    } else {
        t->err = SNIB_ERR_STORE;
        snib__tls_queue_words(words, sizeof words);
        snprintf(t->why, sizeof t->why, "TLS: %.80s: %s", t->name,
                 *words ? words : "the connection broke");
    }
}

/* The scheme without TLS has no 's', at its end or before a '+'. */
void snib__tls_put_instead(struct snib__tls_shared *shared, const char *scheme)
{
    int n = scheme ? (int)strcspn(scheme, "+") - 1 : 0;
    if (n > 0 && scheme[n] == 's') {
        snprintf(shared->instead, sizeof shared->instead,
                 "give the other, or write %.*s%.20s: for %.30s:", n, scheme,
                 scheme + n + 1, scheme);
    } else {
        snprintf(shared->instead, sizeof shared->instead,
                 "give the other, or a scheme without TLS");
    }
}

void snib__tls_queue_words(char *ret, size_t size)
{
    unsigned long error = ERR_peek_error();
    const char *why = error ? ERR_reason_error_string(error) : NULL;
    snprintf(ret, size, "%s", why ? why : "");
}

#endif
