/* store/postgres/errors.c — what the server and libpq say, in our terms and
 * words. No text repeats the password, should one of theirs do so. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/postgres_i.h"

/* It ends with the page that lists them. */
#define NO_RIGHT "the user lacks a right"
/* It ends with who that is. */
#define NO_USER "the server does not know this user"
#define FULL                                                                   \
    "the server has no connection left; end some clients, or raise "           \
    "max_connections"

struct errors_known {
    const char *state; /* an SQLSTATE, or the beginning of some */
    snib__sql_end end;
    snib_err err;
    const char *words; /* NULL: the server's */
};

/* The first one that fits counts. A conflict is tried again by us, and told to
 * nobody. */
static const struct errors_known errors_known[] = {
    {"22012", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE, NULL}, /* a guard */
    {"23505", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE, NULL}, /* it is there */
    {"40001", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE, NULL},
    {"40P01", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE, NULL}, /* deadlock */
    {"55P03", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE, NULL}, /* not locked */
    {"25P03", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE, NULL}, /* too slow */
    {"57014", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE, NULL}, /* cancelled */
    {"28P01", SNIB__SQL_REFUSED, SNIB_ERR_DENIED,
     "the server refuses this user or this password"},
    {"28", SNIB__SQL_REFUSED, SNIB_ERR_DENIED, NULL},
    {"3D000", SNIB__SQL_REFUSED, SNIB_ERR_CONFIG,
     "the database is not there; make it (createdb), or name another in the "
     "URL"},
    {"42501", SNIB__SQL_REFUSED, SNIB_ERR_DENIED, NO_RIGHT},
    {"42P01", SNIB__SQL_REFUSED, SNIB_ERR_CONFIG,
     "a table of snib is not there; \"snib doctor --schema\" prints what "
     "makes them"},
    {"3F000", SNIB__SQL_REFUSED, SNIB_ERR_CONFIG,
     "the schema is not there; \"snib doctor --schema\" prints what makes it"},
    {"42703", SNIB__SQL_REFUSED, SNIB_ERR_CONFIG,
     "a table of snib has other columns than this snib knows; use the newer "
     "snib everywhere, or another schema (?schema=)"},
    {"22001", SNIB__SQL_REFUSED, SNIB_ERR_USAGE, SNIB__RECIPE_TOO_LONG},
    {"22021", SNIB__SQL_REFUSED, SNIB_ERR_USAGE, SNIB__RECIPE_NO_TEXT},
    {"22P05", SNIB__SQL_REFUSED, SNIB_ERR_USAGE, SNIB__RECIPE_NO_TEXT},
    {"25006", SNIB__SQL_REFUSED, SNIB_ERR_STORE,
     "the server is read-only (a standby); connect to the primary"},
    {"53100", SNIB__SQL_REFUSED, SNIB_ERR_STORE,
     "the disk of the server is full; make room there"},
    {"53200", SNIB__SQL_REFUSED, SNIB_ERR_STORE, "the server is out of memory"},
    {"53300", SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, FULL},
    {"57P03", SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE,
     "the server is starting or stopping"},
    {"57P", SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, NULL},
    {"08", SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, NULL},
    {"", SNIB__SQL_REFUSED, SNIB_ERR_STORE, NULL},
};

static const struct errors_known *errors_find(const char *state)
{
    const struct errors_known *k = errors_known;
    while (strncmp(state, k->state, strlen(k->state)) != 0) {
        k++;
    }
    return k;
}

snib__sql_end snib__pg_judge(const char state[6])
{
    return errors_find(state)->end;
}

/* "connection to server at … failed: " is libpq's, and known already. */
void snib__pg_clean(const struct snib__postgres *p, const char *text, char *ret,
                    size_t size)
{
    const char *failed = text ? strstr(text, " failed: ") : NULL;
    text = failed && !strncmp(text, "connection to ", 14) ? failed + 9 : text;
    snib__sql_clean(&p->address, text, ret, size);
}

const char *snib__pg_page(const struct snib__postgres *p)
{
    return p->advisory.on       ? "docs/ADVISORY.md"
           : !p->recipe.on      ? "docs/POSTGRES.md"
           : p->recipe.int_lock ? "docs/INT_LOCK.md"
                                : "docs/SHEDLOCK.md";
}

snib_err snib__pg_fail(const struct snib__postgres *p, const char state[6],
                       const char *text, struct snib_error *e)
{
    const struct errors_known *k = errors_find(state);
    char words[200];
    snib__pg_clean(p, text, words, sizeof words);
    if (p->recipe.on &&
        (!strcmp(k->state, "42P01") || !strcmp(k->state, "42703"))) {
        return snib__fail(e, k->err, SNIB__RECIPE_CHANGED, p->address.where,
                          p->schema);
    }
    if (k->words && !strcmp(k->words, NO_RIGHT)) {
        return snib__fail(e, k->err,
                          "%s: " NO_RIGHT "; %s lists those that are needed",
                          p->address.where, snib__pg_page(p));
    }
    if (k->words) {
        return snib__fail(e, k->err, "%s: %s", p->address.where, k->words);
    }
    return snib__fail(e, k->err, "%s: %s", p->address.where, words);
}

/* -- of a connection that was not made ------------------------------------- */

/* What an SQLSTATE does not tell apart, or libpq says itself. A server may speak
 * another language than English; then the number in its text decides. */
static const struct {
    const char *has;
    snib_err err;
    const char *words;
} errors_connect[] = {
    {"no encryption", SNIB_ERR_DENIED,
     "the server wants TLS here: write ?tls=verify"},
    {"password authentication failed", SNIB_ERR_DENIED,
     "the server refuses this user or this password"},
    {"no password supplied", SNIB_ERR_DENIED,
     "the server wants a password: write it into the URL, or into ~/.pgpass"},
    {"Peer authentication failed", SNIB_ERR_DENIED,
     "on a socket this server wants the user of the system to be that of the "
     "database"},
    {"too many connections for role", SNIB_ERR_UNREACHABLE,
     "the server has no connection left for this user; end some of its "
     "clients, or raise its CONNECTION LIMIT"},
    {"too many connections for database", SNIB_ERR_UNREACHABLE,
     "the server has no connection left for this database; end some clients, "
     "or raise its CONNECTION LIMIT"},
    {"role \"", SNIB_ERR_DENIED, NO_USER},
    {"no pg_hba.conf entry", SNIB_ERR_DENIED,
     "the server's pg_hba.conf lets nobody in from here"},
    {"database \"", SNIB_ERR_CONFIG,
     "the database is not there; make it (createdb), or name another in the "
     "URL"},
    {"server does not support SSL", SNIB_ERR_CONFIG,
     "the server offers no TLS, so nothing proves who answers; set it up "
     "there, or write ?tls=no if nobody else is on the way"},
    {"certificate verify failed", SNIB_ERR_CONFIG,
     "nobody whom this machine trusts has signed the server's certificate, or "
     "it has expired; name the file of its CA: ?ca=FILE"},
    {"does not match host name", SNIB_ERR_CONFIG,
     "the server's certificate is for another name"},
    {"root certificate file", SNIB_ERR_CONFIG,
     "no file of trusted CAs; name "
     "one: ?ca=FILE"},
    {"too many clients", SNIB_ERR_UNREACHABLE, FULL},
    {"remaining connection slots", SNIB_ERR_UNREACHABLE, FULL},
    {"expected authentication request", SNIB_ERR_CONFIG,
     "what answers there is no PostgreSQL server; look at the port"},
    {"received invalid response", SNIB_ERR_CONFIG,
     "what answers there is no PostgreSQL server; look at the port"},
    {"unsupported frontend protocol", SNIB_ERR_CONFIG,
     "the server is too old for this libpq"},
};

/* By the server's text, where it may be shown: a user without a password in the
 * URL may be a mistyped password, which no text of ours has (core/url_show.c). */
static snib_err errors_no_user(const struct snib__postgres *p,
                               const char *words, struct snib_error *e)
{
    const char *name = strstr(words, "role \"");
    int n = name ? (int)strcspn(name + 6, "\"") : 0;
    if (p->address.user && !p->address.password) {
        return snib__fail(e, SNIB_ERR_DENIED,
                          "%s: " NO_USER ", whom the URL "
                          "names",
                          p->address.where);
    }
    return snib__fail(e, SNIB_ERR_DENIED, "%s: " NO_USER ", %.*s%s",
                      p->address.where, n < 64 ? n : 64, name ? name + 6 : "",
                      p->address.user ? "" : " (the URL names none)");
}

/* The number in "FATAL:  28P01: …"; "": there is none. */
static void errors_state_in(const char *text, char ret[6])
{
    const char *at = text ? strstr(text, ":  ") : NULL;
    bool is = at &&
              strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 &&
              at[8] == ':';
    memset(ret, 0, 6);
    if (is) {
        memcpy(ret, at + 3, 5);
    }
}

snib_err snib__pg_fail_connect(const struct snib__postgres *p, const char *text,
                               struct snib_error *e)
{
    char words[200], state[6];
    snib__pg_clean(p, text, words, sizeof words);
    errors_state_in(text, state);
    for (size_t i = 0; i < sizeof errors_connect / sizeof errors_connect[0];
         i++) {
        if (text && strstr(text, errors_connect[i].has)) {
            if (!strcmp(errors_connect[i].words, NO_USER)) {
                return errors_no_user(p, words, e);
            }
            return snib__fail(e, errors_connect[i].err, "%s: %s",
                              p->address.where, errors_connect[i].words);
        }
    }
    if (state[0]) {
        return snib__pg_fail(p, state, words, e);
    }
    return snib__fail(e, SNIB_ERR_UNREACHABLE, "%s: %s", p->address.where,
                      *words ? words : "no connection");
}
