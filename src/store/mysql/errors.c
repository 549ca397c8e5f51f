/* store/mysql/errors.c — what the server and the library say, in our terms and
 * words, by the numbers of their errors. No text repeats the password, should
 * one of theirs do so. */
#include <errmsg.h>
#include <string.h>

#include "base/error.h"
#include "store/mysql/mysql_i.h"

struct errors_known {
    int code;
    snib__sql_end end;
    snib_err err;
    const char *words; /* NULL: the server's */
};

#define CONFLICTS(code)                                                        \
    {                                                                          \
        code, SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE, NULL                   \
    }
/* These end with the page that lists the rights. */
#define NO_RIGHT    "the user lacks a right"
#define NO_DATABASE "this user may not use this database"
#define NO_LOGIN    "the server refuses this user or this password"
#define FULL                                                                   \
    "the server has no connection left; end some clients, or raise "           \
    "max_connections"
#define FULL_OF_USER                                                           \
    "the server has no connection left for this user; end some of its "        \
    "clients, or raise its limit (max_user_connections)"
#define HUNG_UP                                                                \
    "what answers there has hung up before it said who it is: is it a MySQL "  \
    "or "                                                                      \
    "MariaDB server, and this its port?"
#define STANDS_BY "the server is read-only (a replica); connect to the primary"
#define LONG_NAME                                                              \
    "this name is longer than the server takes for a named lock: 192 bytes "   \
    "(MySQL: 64 characters)"
#define NO_ROOM    "the disk of the server is full; make room there"
#define NO_MEMORY  "the server is out of memory"
#define NO_CLUSTER "this node is not ready: it is not part of its cluster"
#define OFFLINE    "the server is in offline mode"
#define SMALL                                                                  \
    "the server takes no packet of this size; set its max_allowed_packet to "  \
    "1M or more"

/* A conflict is tried again by us, and told to nobody. */
static const struct errors_known errors_known[] = {
    CONFLICTS(1690), /* a guard */
    CONFLICTS(1062), /* it is there */
    CONFLICTS(1213), /* deadlock */
    CONFLICTS(1205), /* not locked in time */
    CONFLICTS(1020), /* changed since it was read */
    CONFLICTS(1412), /* the same, of a table */
    CONFLICTS(1317), /* KILL QUERY */
    CONFLICTS(1969), /* too slow: max_statement_time */
    CONFLICTS(3024), /* the same, MySQL's */
    {1045, SNIB__SQL_REFUSED, SNIB_ERR_DENIED, NO_LOGIN},
    {1698, SNIB__SQL_REFUSED, SNIB_ERR_DENIED, NO_LOGIN},
    {1251, SNIB__SQL_REFUSED, SNIB_ERR_DENIED, NULL},
    {1044, SNIB__SQL_REFUSED, SNIB_ERR_DENIED, NO_DATABASE},
    {1142, SNIB__SQL_REFUSED, SNIB_ERR_DENIED, NO_RIGHT},
    {1143, SNIB__SQL_REFUSED, SNIB_ERR_DENIED, NO_RIGHT},
    {1227, SNIB__SQL_REFUSED, SNIB_ERR_DENIED, NO_RIGHT},
    {1820, SNIB__SQL_REFUSED, SNIB_ERR_DENIED,
     "the password of this user has expired; set another one"},
    {1862, SNIB__SQL_REFUSED, SNIB_ERR_DENIED,
     "the password of this user has expired; set another one"},
    {3118, SNIB__SQL_REFUSED, SNIB_ERR_DENIED, "this user is locked out"},
    {4151, SNIB__SQL_REFUSED, SNIB_ERR_DENIED, "this user is locked out"},
    {3159, SNIB__SQL_REFUSED, SNIB_ERR_DENIED,
     "the server wants TLS here: write ?tls=verify"},
    {1130, SNIB__SQL_REFUSED, SNIB_ERR_DENIED,
     "the server lets nobody in from here"},
    {1129, SNIB__SQL_REFUSED, SNIB_ERR_DENIED,
     "the server has shut this host out after too many failures (FLUSH HOSTS)"},
    {1049, SNIB__SQL_REFUSED, SNIB_ERR_CONFIG,
     "the database is not there; make it (CREATE DATABASE), or name another in "
     "the URL"},
    {1146, SNIB__SQL_REFUSED, SNIB_ERR_CONFIG,
     "a table of snib is not there; \"snib doctor --schema\" prints what makes "
     "them"},
    {1054, SNIB__SQL_REFUSED, SNIB_ERR_CONFIG,
     "a table of snib has other columns than this snib knows; use the newer "
     "snib everywhere, or another prefix (?prefix=)"},
    {1406, SNIB__SQL_REFUSED, SNIB_ERR_USAGE, SNIB__RECIPE_TOO_LONG},
    {1300, SNIB__SQL_REFUSED, SNIB_ERR_USAGE, SNIB__RECIPE_NO_TEXT},
    {1366, SNIB__SQL_REFUSED, SNIB_ERR_USAGE, SNIB__RECIPE_NO_TEXT},
    {1059, SNIB__SQL_REFUSED, SNIB_ERR_USAGE, LONG_NAME},
    {3057, SNIB__SQL_REFUSED, SNIB_ERR_USAGE, LONG_NAME},
    {1665, SNIB__SQL_REFUSED, SNIB_ERR_CONFIG,
     "the server's binlog_format is STATEMENT; set it to MIXED or ROW"},
    {1286, SNIB__SQL_REFUSED, SNIB_ERR_CONFIG, "the server has no InnoDB"},
    {1290, SNIB__SQL_REFUSED, SNIB_ERR_STORE, STANDS_BY},
    {1792, SNIB__SQL_REFUSED, SNIB_ERR_STORE, STANDS_BY},
    {1836, SNIB__SQL_REFUSED, SNIB_ERR_STORE, STANDS_BY},
    {1153, SNIB__SQL_REFUSED, SNIB_ERR_CONFIG, SMALL},
    {1114, SNIB__SQL_REFUSED, SNIB_ERR_STORE, NO_ROOM},
    {1021, SNIB__SQL_REFUSED, SNIB_ERR_STORE, NO_ROOM},
    {1037, SNIB__SQL_REFUSED, SNIB_ERR_STORE, NO_MEMORY},
    {1038, SNIB__SQL_REFUSED, SNIB_ERR_STORE, NO_MEMORY},
    {1041, SNIB__SQL_REFUSED, SNIB_ERR_STORE, NO_MEMORY},
    /* What fails while it commits may be there. */
    {1180, SNIB__SQL_LOST, SNIB_ERR_STORE, NULL},
    {1026, SNIB__SQL_LOST, SNIB_ERR_STORE, NULL},
    {1040, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, FULL},
    {1203, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, FULL_OF_USER},
    {1226, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, FULL_OF_USER},
    {1047, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, NO_CLUSTER},
    {3032, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, OFFLINE},
    {1053, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, "the server is stopping"},
    /* KILL; MySQL's; idle for too long */
    {1927, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, NULL},
    {3169, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, NULL},
    {4031, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, NULL},
    /* It could not read what was sent, or write what it says. */
    {1158, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, NULL},
    {1159, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, NULL},
    {1160, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, NULL},
    {1161, SNIB__SQL_DOWN, SNIB_ERR_UNREACHABLE, NULL},
    {0, SNIB__SQL_REFUSED, SNIB_ERR_STORE, NULL},
};

static const struct errors_known *errors_find(int code)
{
    const struct errors_known *k = errors_known;
    while (k->code != code && k->code) {
        k++;
    }
    return k;
}

snib__sql_end snib__my_judge(int code)
{
    return errors_find(code)->end;
}

bool snib__my_is_demoted(int code)
{
    const char *words = errors_find(code)->words;
    return words && !strcmp(words, STANDS_BY);
}

const char *snib__my_page(const struct snib__mysql *p)
{
    return p->getlock.on        ? "docs/GET_LOCK.md"
           : !p->recipe.on      ? "docs/MYSQL.md"
           : p->recipe.int_lock ? "docs/INT_LOCK.md"
                                : "docs/SHEDLOCK.md";
}

/* Is there a page that lists what lacks? */
static bool errors_is_of_rights(const struct errors_known *k)
{
    return k->words &&
           (!strcmp(k->words, NO_RIGHT) || !strcmp(k->words, NO_DATABASE));
}

/* Without a right at a table, or in a database, nobody is told whether it is
 * there; and no right at a table can be given before. */
static bool errors_may_lack_tables(const struct snib__mysql *p, int code)
{
    return (code == 1044 || code == 1142) && !p->recipe.on && !p->getlock.on;
}

snib_err snib__my_fail(const struct snib__mysql *p, int code, const char *text,
                       struct snib_error *e)
{
    const struct errors_known *k = errors_find(code);
    char words[200];
    snib__sql_clean(&p->address, text, words, sizeof words);
    if (p->recipe.on && (code == 1146 || code == 1054)) {
        return snib__fail(e, k->err, SNIB__RECIPE_CHANGED, p->address.where,
                          p->prefix);
    }
    if (errors_may_lack_tables(p, code)) {
        return snib__fail(e, k->err,
                          "%s: %s; if the tables are not there, an "
                          "administrator makes them by what \"snib doctor "
                          "--schema\" prints; docs/MYSQL.md lists the rights",
                          p->address.where, k->words);
    }
    if (errors_is_of_rights(k)) {
        return snib__fail(e, k->err,
                          "%s: %s; %s lists the rights that are needed",
                          p->address.where, k->words, snib__my_page(p));
    }
    return snib__fail(e, k->err, "%s: %s", p->address.where,
                      k->words ? k->words : words);
}

/* -- of a connection that was not made ------------------------------------- */

/* What a number does not tell apart. */
static const struct {
    int code;        /* 0: any */
    const char *has; /* NULL: nothing special */
    snib_err err;
    const char *words;
} errors_connect[] = {
    {CR_SSL_CONNECTION_ERROR, "not support", SNIB_ERR_CONFIG,
     "the server offers no TLS, so nothing proves who answers; set it up "
     "there, or write ?tls=no if nobody else is on the way"},
    {CR_SSL_CONNECTION_ERROR, "expired", SNIB_ERR_CONFIG,
     "the server's certificate has expired"},
    {CR_SSL_CONNECTION_ERROR, "certificate verify failed", SNIB_ERR_CONFIG,
     "nobody whom this machine trusts has signed the server's certificate, or "
     "it has expired; name the file of its CA: ?ca=FILE"},
    {CR_SSL_CONNECTION_ERROR, "self", SNIB_ERR_CONFIG,
     "nobody whom this machine trusts has signed the server's certificate; "
     "name the file of its CA: ?ca=FILE"},
    {CR_SSL_CONNECTION_ERROR, "unable to get", SNIB_ERR_CONFIG,
     "nobody whom this machine trusts has signed the server's certificate; "
     "name the file of its CA: ?ca=FILE"},
    {CR_SSL_CONNECTION_ERROR, "Validation of SSL server certificate failed",
     SNIB_ERR_CONFIG, "the server's certificate is for another name"},
    {CR_SSL_CONNECTION_ERROR, "No such file", SNIB_ERR_CONFIG,
     "no file of trusted CAs; name one: ?ca=FILE"},
    {CR_SSL_CONNECTION_ERROR, NULL, SNIB_ERR_CONFIG,
     "TLS with the server fails"},
    /* A server that stops does so, too. */
    {CR_SERVER_LOST, "initial communication", SNIB_ERR_UNREACHABLE, HUNG_UP},
    {CR_SERVER_LOST_EXTENDED, "initial communication", SNIB_ERR_UNREACHABLE,
     HUNG_UP},
    {CR_VERSION_ERROR, NULL, SNIB_ERR_CONFIG,
     "what answers there is no MySQL or MariaDB server; look at the port"},
    {CR_MALFORMED_PACKET, NULL, SNIB_ERR_CONFIG,
     "what answers there is no MySQL or MariaDB server; look at the port"},
    {CR_AUTH_PLUGIN_CANNOT_LOAD, NULL, SNIB_ERR_DENIED,
     "the server wants a kind of login that libmariadb does not know here"},
    {CR_PLUGIN_NOT_ALLOWED, NULL, SNIB_ERR_DENIED,
     "the server wants the password itself; it gets it through TLS only "
     "(?tls=verify)"},
};

snib_err snib__my_fail_connect(const struct snib__mysql *p, int code,
                               const char *text, struct snib_error *e)
{
    char words[200];
    for (size_t i = 0; i < sizeof errors_connect / sizeof errors_connect[0];
         i++) {
        if (errors_connect[i].code == code &&
            (!errors_connect[i].has || strstr(text, errors_connect[i].has))) {
            return snib__fail(e, errors_connect[i].err, "%s: %s",
                              p->address.where, errors_connect[i].words);
        }
    }
    if (code && code < CR_MIN_ERROR) {
        return snib__my_fail(p, code, text, e);
    }
    snib__sql_clean(&p->address, text, words, sizeof words);
    return snib__fail(e, SNIB_ERR_UNREACHABLE, "%s: %s", p->address.where,
                      *words ? words : "no connection");
}
