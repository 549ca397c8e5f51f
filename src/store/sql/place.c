/* store/sql/place.c — where a database is, by its URL, and what is said of that
 * place. */
#include "store/sql/place.h"

#include <stdio.h>
#include <strings.h>

#include "base/error.h"
#include "base/mem.h"

snib_err snib__sql_wrong(struct snib_error *e, const struct snib__url *url,
                         const char *words)
{
    return snib__fail(e, SNIB_ERR_USAGE, "%.120s: %s", url->safe, words);
}

static bool place_is_here(const char *host)
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

static snib_err place_check_keys(const struct snib__sql_scheme *scheme,
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
static const char *place_database(const struct snib__url *url)
{
    const char *path = url->path ? url->path : "";
    path += *path == '/';
    return *path ? path : NULL;
}

/* A socket's port stands behind '?', since its folder does. 0: no port. */
static unsigned place_port(const struct snib__url *url, unsigned otherwise)
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

static bool place_copy(char **ret, const char *text)
{
    *ret = snib__strdup(text);
    return *ret || !text;
}

static bool place_copy_all(struct snib__sql_place *p,
                           const struct snib__url *url, const char *host,
                           const char *port)
{
    return place_copy(&p->host, host) && place_copy(&p->port, port) &&
           place_copy(&p->database, place_database(url)) &&
           place_copy(&p->user, url->user) &&
           place_copy(&p->password, url->password) &&
           place_copy(&p->ca, snib__url_query(url, "ca"));
}

snib_err snib__sql_place_read(struct snib__sql_place *p,
                              const struct snib__sql_scheme *scheme,
                              const struct snib__url *url, struct snib_error *e)
{
    const char *socket = snib__url_query(url, "socket");
    const char *host = url->host ? url->host : socket;
    const char *database = place_database(url);
    unsigned number = place_port(url, scheme->port);
    char port[8];
    snprintf(port, sizeof port, "%u", number);
    if (url->nodes || !host || !number ||
        (scheme->needs_database && !database) ||
        (socket && (url->host || socket[0] != '/'))) {
        return snib__sql_wrong(e, url, scheme->form);
    }
    if (database && strchr(database, '/')) {
        return snib__sql_wrong(e, url, "a database has no '/' in its name");
    }
    if (!place_copy_all(p, url, host, port)) {
        return snib__fail_plain(e, SNIB_ERR_NOMEM);
    }
    snprintf(p->where, sizeof p->where,
             strchr(p->host, ':') ? "[%.200s]:%s" : "%.200s:%s", p->host, port);
    p->socket = socket != NULL;
    p->here = place_is_here(p->host);
    snib_err err = place_check_keys(scheme, url, e);
    if (!err && !snib__sql_is_yes(snib__url_query(url, "tls"), "verify", "no",
                                  !p->here, &p->verify)) {
        err = snib__sql_wrong(e, url, "?tls= is verify or no");
    }
    return err;
}

void snib__sql_place_free(struct snib__sql_place *p)
{
    snib__free(p->host);
    snib__free(p->port);
    snib__free(p->database);
    snib__free(p->user);
    if (p->password) {
        explicit_bzero(p->password, strlen(p->password));
        snib__free(p->password);
    }
    snib__free(p->ca);
}

void snib__sql_place_warn(const struct snib__sql_place *p,
                          struct snib__out *out)
{
    char words[400];
    if (!p->verify && !p->here && out->log) {
        snprintf(words, sizeof words,
                 "%s is used without TLS (?tls=no): whoever is on the way can "
                 "read the password and grant locks",
                 p->where);
        out->log(out->log_data, SNIB_LOG_WARN, words);
    }
}

/* Put stars over a secret, wherever it stands. */
static void place_hide(char *text, const char *secret)
{
    size_t n = secret ? strlen(secret) : 0;
    for (char *at = text; n && (at = strstr(at, secret));) {
        memset(at, '*', n);
        at += n;
    }
}

void snib__sql_clean(const struct snib__sql_place *p, const char *text,
                     char *ret, size_t size)
{
    size_t n = 0;
    for (; text && *text && *text != '\n' && n + 1 < size; text++) {
        ret[n++] = (unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text;
    }
    ret[n] = 0;
    place_hide(ret, p->password);
}
