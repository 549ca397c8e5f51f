/* store/sql/address.c — where a database is, by its URL, and what is said of it. */
#include "store/sql/address.h"

#include <stdio.h>
#include <strings.h>

#include "base/error.h"
#include "base/mem.h"

static bool address_is_here(const char *host)
{
    bool number = !host[strspn(host, "0123456789.")]; /* no name of a host */
    return host[0] == '/' || !strcasecmp(host, "localhost") ||
           (number && !strncmp(host, "127.", 4)) || !strcmp(host, "::1");
}

bool snib__sql_is_plain(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return n > 0 && n < 48 && !s[n] && !(s[0] >= '0' && s[0] <= '9');
}

bool snib__sql_is_yes(const char *value, const char *yes, const char *no,
                      bool otherwise, bool *ret)
{
    *ret = value ? !strcmp(value, yes) : otherwise;
    return !value || !strcmp(value, yes) || !strcmp(value, no);
}

static snib_err address_check_keys(const struct snib__sql_scheme *scheme,
                                   const struct snib__url *url,
                                   struct snib_error *e)
{
    for (uint32_t i = 0; i < url->queries; i++) {
        bool is = false;
        for (const char *const *key = scheme->keys; *key; key++) {
            is = is || !strcmp(url->query[i].key, *key);
        }
        if (!is) {
            return snib__fail(e, SNIB_ERR_USAGE,
                              "%s: does not know ?%s=", scheme->what,
                              url->query[i].key);
        }
    }
    return SNIB_ERR_OK;
}

/* "/db" -> "db"; NULL: none is said. */
static const char *address_database(const struct snib__url *url)
{
    const char *path = url->path ? url->path : "";
    path += *path == '/';
    return *path ? path : NULL;
}

/* A socket's port stands behind '?', since its folder does. 0: no port. */
static unsigned address_port(const struct snib__url *url, unsigned otherwise)
{
    const char *text = snib__url_query(url, "port");
    unsigned port = url->port ? url->port : otherwise;
    if (!text) {
        return port;
    }
    port = 0;
    for (; *text >= '0' && *text <= '9' && port < 65536; text++) {
        port = port * 10 + (unsigned)(*text - '0');
    }
    return *text || port > 65535 || url->host ? 0 : port;
}

static bool address_copy(char **ret, const char *text)
{
    *ret = snib__strdup(text);
    return *ret || !text;
}

static bool address_copy_all(struct snib__sql_address *a,
                             const struct snib__url *url, const char *host,
                             const char *port)
{
    return address_copy(&a->host, host) && address_copy(&a->port, port) &&
           address_copy(&a->database, address_database(url)) &&
           address_copy(&a->user, url->user) &&
           address_copy(&a->password, url->password) &&
           address_copy(&a->ca, snib__url_query(url, "ca"));
}

snib_err snib__sql_address_read(struct snib__sql_address *a,
                                const struct snib__sql_scheme *scheme,
                                const struct snib__url *url,
                                struct snib_error *e)
{
    const char *socket = snib__url_query(url, "socket");
    const char *host = url->host ? url->host : socket;
    const char *database = address_database(url);
    unsigned number = address_port(url, scheme->port);
    char port[8];
    snprintf(port, sizeof port, "%u", number);
    if (url->nodes || !host || !number ||
        (scheme->needs_database && !database) ||
        (socket && (url->host || socket[0] != '/'))) {
        return snib__url_wrong(url, scheme->form, e);
    }
    if (database && strchr(database, '/')) {
        return snib__url_wrong(url, "a database has no '/' in its name", e);
    }
    if (!address_copy_all(a, url, host, port)) {
        return snib__fail_plain(e, SNIB_ERR_NOMEM);
    }
    snprintf(a->where, sizeof a->where,
             strchr(a->host, ':') ? "[%.200s]:%s" : "%.200s:%s", a->host, port);
    a->socket = socket != NULL;
    a->here = address_is_here(a->host);
    snib_err err = address_check_keys(scheme, url, e);
    if (!err && !snib__sql_is_yes(snib__url_query(url, "tls"), "verify", "no",
                                  !a->here, &a->verify)) {
        err = snib__url_wrong(url, "?tls= is verify or no", e);
    }
    if (!err && a->ca && !a->verify) {
        err = snib__url_wrong(url,
                              "?ca= is for TLS, and there is none: write "
                              "?tls=verify, too (without it this host's own "
                              "server is asked for none), or leave ?ca= out",
                              e);
    }
    return err;
}

void snib__sql_address_free(struct snib__sql_address *a)
{
    snib__free(a->host);
    snib__free(a->port);
    snib__free(a->database);
    snib__free(a->user);
    snib__wipe(&a->password);
    snib__free(a->ca);
}

void snib__sql_address_warn(const struct snib__sql_address *a,
                            struct snib__out *out)
{
    char words[400];
    if (!a->verify && !a->here && out->log) {
        snprintf(words, sizeof words,
                 "%s is used without TLS (?tls=no): whoever is on the way can "
                 "read the password and grant locks",
                 a->where);
        out->log(out->log_data, SNIB_LOG_WARN, words);
    }
}

/* Put stars over a secret, wherever it stands. */
static void address_hide(char *text, const char *secret)
{
    size_t n = secret ? strlen(secret) : 0;
    for (char *at = text; n && (at = strstr(at, secret));) {
        memset(at, '*', n);
        at += n;
    }
}

void snib__sql_clean(const struct snib__sql_address *a, const char *text,
                     char *ret, size_t size)
{
    size_t n = 0;
    for (; text && *text && *text != '\n' && n + 1 < size; text++) {
        ret[n++] = (unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text;
    }
    ret[n] = 0;
    address_hide(ret, a->password);
}
