/* store/mysql/connect.c — connecting, and a look at who answers.
 *
 *   DOWN --libmariadb connects--> settings --> who --> layout --> ready
 *     ^                                         |        `--no tables--> they are
 *     +------------- any failure ---------------+                        made
 *           the next attempt not before a pause has passed
 *
 * Refused are: a server that is too old; one that takes no writes, as a replica
 * does; a pooler or proxy, behind which one session of ours is many of the
 * server's, so that settings and named locks are another session's; tables of
 * another layout.
 *
 * TLS. libmariadb verifies only when it is told to, and connects without TLS
 * where the server offers none, unless that is forbidden: both is said. */
#include <errmsg.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "store/host.h"
#include "store/mysql/mysql_i.h"

enum { CONNECT_PASSWORD_MAX = 4096 };

/* -- the login ------------------------------------------------------------- */

/* Up to the end of the first line. False: errno says why. */
static bool connect_read_file(const char *path, char *to, size_t size)
{
    size_t used = 0;
    ssize_t n = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    while (fd >= 0 && n > 0 && used < size - 1) {
        n = read(fd, to + used, size - 1 - used);
        used += n > 0 ? (size_t)n : 0;
    }
    int why = errno;
    if (fd >= 0) {
        close(fd);
    }
    to[used] = 0;
    to[strcspn(to, "\r\n")] = 0;
    errno = why;
    return fd >= 0 && n >= 0;
}

/* Did the name of the host lead nowhere? */
static bool connect_names_nobody(const struct snib__my_conn *k)
{
    const struct snib__mysql *p = k->store;
    return p->lib.mysql_errno(k->c) == CR_UNKNOWN_HOST && !p->address.socket &&
           snib__sql_no_such_host(p->address.host);
}

/* A server that was reached before is likely to come back: its name may vanish
 * while it restarts. */
static bool connect_was_reached(struct snib__mysql *p)
{
    pthread_mutex_lock(&p->listener.mu);
    bool reached = p->server.version[0] != 0;
    pthread_mutex_unlock(&p->listener.mu);
    return reached;
}

/* Descriptors that lack are no refusal. */
static void connect_no_password(const struct snib__mysql *p, int e,
                                struct snib_error *fault)
{
    if (snib__host_lacks(e, "the password_file", fault) != SNIB_ERR_LIMIT) {
        snib__fail(fault, SNIB_ERR_CONFIG, "password_file=%.120s: %s",
                   p->password_file, strerror(e));
    }
}

static bool connect_login(struct snib__my_conn *k, snib_instant until,
                          struct snib_error *fault)
{
    const struct snib__mysql *p = k->store;
    char password[CONNECT_PASSWORD_MAX];
    bool read = true, in = false;
    if (p->password_file) {
        read = connect_read_file(p->password_file, password, sizeof password);
        in = read && snib__my_login(k, password, until);
        explicit_bzero(password, sizeof password);
    } else {
        in = snib__my_login(k, p->address.password, until);
    }
    if (!read) {
        connect_no_password(p, errno, fault);
    } else if (!in && k->late) {
        snib__fail(fault, SNIB_ERR_UNREACHABLE, "%s: no answer from the server",
                   p->address.where);
    } else if (!in) {
        snib__my_fail_connect(p, (int)p->lib.mysql_errno(k->c),
                              p->lib.mysql_error(k->c), fault);
    }
    return in;
}

snib__sql_end snib__my_connect(struct snib__my_conn *k, snib_instant until,
                               struct snib_error *fault)
{
    if (!snib__my_begin(k)) {
        snib__fail_plain(fault, SNIB_ERR_NOMEM);
        return SNIB__SQL_REFUSED;
    }
    if (connect_login(k, until, fault)) {
        return SNIB__SQL_OK;
    }
    const struct snib__mysql *p = k->store;
    bool lacks = fault->code == SNIB_ERR_UNREACHABLE && !k->late &&
                 snib__sql_lacks_descriptor(p->address.where,
                                            p->lib.mysql_error(k->c), fault);
    bool nobody = !lacks && connect_names_nobody(k);
    if (nobody) {
        snib__fail(fault, fault->code, "%s: there is no such host",
                   p->address.where);
    }
    snib__my_quit(k);
    bool passes = fault->code == SNIB_ERR_UNREACHABLE ||
                  fault->code == SNIB_ERR_STORE ||
                  fault->code == SNIB_ERR_LIMIT;
    return passes && (!nobody || connect_was_reached(k->store))
               ? SNIB__SQL_DOWN
               : SNIB__SQL_REFUSED;
}

/* -- who answers ----------------------------------------------------------- */

bool snib__my_is_mariadb(const struct snib__my_conn *k)
{
    const char *info = k->store->lib.mysql_get_server_info(k->c);
    return info && strstr(info, "MariaDB");
}

void snib__my_add_settings(const struct snib__my_conn *k,
                           struct snib__sql_script *t)
{
    snib__sql_add(t, SNIB__MY_SETTINGS, NULL, NULL);
    if (snib__my_is_mariadb(k)) {
        snib__sql_add(t, SNIB__MY_SETTINGS_MARIADB, NULL, NULL);
    }
}

struct connect_seen {
    int64_t number, read_only, us;
};

static void connect_see(void *data, struct snib__sql_rows *rows)
{
    struct connect_seen *seen = data;
    char read_only[8];
    snib__sql_get_text(rows, 0, 1, read_only, sizeof read_only);
    seen->number = snib__sql_get_int(rows, 0, 0);
    seen->read_only =
        strcmp(read_only, "0") != 0 && strcmp(read_only, "OFF") != 0;
    seen->us = snib__sql_get_int(rows, 0, 2);
}

static void connect_see_number(void *data, struct snib__sql_rows *rows)
{
    *(int64_t *)data = snib__sql_get_int(rows, 0, 0);
}

static void connect_remember(struct snib__my_conn *k)
{
    struct snib__mysql *p = k->store;
    const char *version = p->lib.mysql_get_server_info(k->c);
    pthread_mutex_lock(&p->listener.mu);
    snprintf(p->server.version, sizeof p->server.version, "%s", version);
    p->server.connected =
        p->server.sessions++ ? p->server.connected : snib__sql_now();
    pthread_mutex_unlock(&p->listener.mu);
    k->counted = true;
}

static snib__sql_end connect_refuse(struct snib_error *fault, snib_err err,
                                    const struct snib__mysql *p,
                                    const char *words)
{
    snib__fail(fault, err, "%s: %s", p->address.where, words);
    return SNIB__SQL_REFUSED;
}

static snib__sql_end connect_judge(const struct snib__my_conn *k,
                                   const struct connect_seen *seen,
                                   struct snib_error *fault)
{
    const struct snib__mysql *p = k->store;
    if (seen->read_only) {
        (void)connect_refuse(fault, SNIB_ERR_STORE, p,
                             "the server is read-only (a replica); connect to "
                             "the primary");
        return SNIB__SQL_DOWN; /* it may become one */
    }
    /* At login the server tells 32 bits of it. */
    if ((uint32_t)seen->number != (uint32_t)p->lib.mysql_thread_id(k->c)) {
        return connect_refuse(
            fault, SNIB_ERR_CONFIG, p,
            "a pooler or proxy (ProxySQL, MaxScale?) stands before the server, "
            "where a session is not one; connect to the server itself");
    }
    return SNIB__SQL_OK;
}

static snib__sql_end connect_look(struct snib__my_conn *k,
                                  struct snib__sql_script *t,
                                  snib_instant until, struct snib_error *fault)
{
    struct snib__mysql *p = k->store;
    struct connect_seen seen = {0};
    unsigned long version = p->lib.mysql_get_server_version(k->c);
    bool mariadb = snib__my_is_mariadb(k);
    if (version < (mariadb ? SNIB__MY_OLDEST_MARIADB : SNIB__MY_OLDEST_MYSQL)) {
        return connect_refuse(fault, SNIB_ERR_CONFIG, p,
                              "the server is older than MariaDB 10.3 or MySQL "
                              "5.7");
    }
    snib__sql_script_clear(t);
    snib__my_add_settings(k, t);
    snib__sql_add(t, SNIB__MY_WHO, connect_see, &seen);
    snib__sql_sync(t);
    snib__sql_end end = snib__my_run(k, t, 1, until, fault);
    end = end ? end : connect_judge(k, &seen, fault);
    if (end) {
        return end;
    }
    k->ends_idle = mariadb;
    snib__sql_heard_clock(&k->is, snib__sql_now(), seen.us);
    connect_remember(k);
    return SNIB__SQL_OK;
}

snib__sql_end snib__my_connect_lock(struct snib__my_conn *k,
                                    struct snib__sql_script *t,
                                    snib_instant until,
                                    struct snib_error *fault)
{
    struct connect_seen seen = {0};
    snib__sql_end end = snib__my_connect(k, until, fault);
    if (end) {
        return end;
    }
    int more = snib__my_is_mariadb(k) ? SNIB__MY_GETLOCK_SETTINGS_MARIADB
                                      : SNIB__MY_GETLOCK_SETTINGS;
    snib__sql_script_clear(t);
    snib__my_add_settings(k, t);
    snib__sql_add(t, more, NULL, NULL);
    snib__sql_add(t, SNIB__MY_WHO, connect_see, &seen);
    snib__sql_sync(t);
    end = snib__my_run(k, t, 1, until, fault);
    return end ? end : connect_judge(k, &seen, fault);
}

/* -- the tables ------------------------------------------------------------ */

/* *ret: the layout's number; 0: there are no tables. */
static snib__sql_end connect_read_layout(struct snib__my_conn *k,
                                         struct snib__sql_script *t,
                                         snib_instant until, int64_t *ret,
                                         struct snib_error *fault)
{
    *ret = 0;
    snib__sql_script_clear(t);
    snib__sql_add(t, SNIB__MY_LAYOUT, connect_see_number, ret);
    snib__sql_sync(t);
    snib__sql_end end = snib__my_run(k, t, 1, until, fault);
    return t->code == 1146 ? SNIB__SQL_OK : end;
}

static snib__sql_end connect_make_tables(struct snib__my_conn *k,
                                         struct snib__sql_script *t,
                                         snib_instant until,
                                         struct snib_error *fault)
{
    snib__sql_script_clear(t);
    for (int i = 0; snib__my_table(i); i++) {
        snib__sql_add_text(t, snib__my_table(i));
    }
    snib__sql_sync(t);
    snib__sql_end end = snib__my_run(k, t, 1, until, fault);
    if (end && (t->code == 1142 || t->code == 1044)) {
        return connect_refuse(
            fault, SNIB_ERR_CONFIG, k->store,
            "the tables are not there, and this user may not make them: give "
            "what \"snib doctor --schema\" prints to the database's owner");
    }
    return end;
}

static snib__sql_end connect_tables(struct snib__my_conn *k,
                                    struct snib__sql_script *t,
                                    snib_instant until,
                                    struct snib_error *fault)
{
    int64_t layout;
    snib__sql_end end = connect_read_layout(k, t, until, &layout, fault);
    if (!end && !layout) {
        end = connect_make_tables(k, t, until, fault);
        end = end ? end : connect_read_layout(k, t, until, &layout, fault);
    }
    if (!end && layout != SNIB__MY_SCHEMA) {
        snib__fail(fault, SNIB_ERR_CONFIG,
                   "%s: the tables %s_… have layout %lld, this snib knows %d; "
                   "use the newer snib everywhere, or another prefix "
                   "(?prefix=)",
                   k->store->address.where, k->store->prefix, (long long)layout,
                   SNIB__MY_SCHEMA);
        return SNIB__SQL_REFUSED;
    }
    return end;
}

/* -- the table of a dialect ------------------------------------------------ */

struct connect_recipe {
    const struct snib__mysql *p;
    snib__sql_end end;
    struct snib_error *fault;
};

static void connect_see_recipe(void *data, struct snib__sql_rows *rows)
{
    struct connect_recipe *seen = data;
    seen->end = snib__sql_recipe_check(&seen->p->recipe, rows, seen->p->prefix,
                                       seen->fault);
}

static snib__sql_end connect_recipe(struct snib__my_conn *k,
                                    struct snib__sql_script *t,
                                    snib_instant until,
                                    struct snib_error *fault)
{
    struct connect_recipe seen = {.p = k->store, .fault = fault};
    snib__sql_script_clear(t);
    snib__sql_add(t, SNIB__SQL_DO_RECIPE_SETTINGS, NULL, NULL);
    snib__sql_add(t, SNIB__SQL_DO_RECIPE_TABLE, connect_see_recipe, &seen);
    snib__sql_sync(t);
    snib__sql_end end = snib__my_run(k, t, 1, until, fault);
    return end ? end : seen.end;
}

/* -- what the tables' functions need of a connection ----------------------- */

static struct snib__my_conn *connect_of(struct snib__sql_session *s)
{
    return &snib__my_of(&s->sql)->conn;
}

static snib__sql_end connect_all(struct snib__sql_session *s)
{
    struct snib__my_conn *k = connect_of(s);
    struct snib__sql_script t;
    snib__sql_end end = snib__my_connect(k, s->sql.until, &s->sql.fault);
    if (end) {
        return end;
    }
    snib__sql_script_init(&t);
    end = connect_look(k, &t, s->sql.until, &s->sql.fault);
    if (!end && !k->store->getlock.on) {
        end = (k->store->recipe.on ? connect_recipe : connect_tables)(
            k, &t, s->sql.until, &s->sql.fault);
    }
    snib__sql_script_free(&t);
    if (end && k->c) {
        snib__my_quit(k);
    }
    return end;
}

static bool connect_is_cut(struct snib__sql_session *s)
{
    return snib__my_is_cut(connect_of(s));
}

static void connect_quit(struct snib__sql_session *s)
{
    snib__my_quit(connect_of(s));
}

static snib__sql_end connect_run(struct snib__sql_session *s, uint32_t certain)
{
    return snib__my_run(connect_of(s), &s->script, certain, s->sql.until,
                        &s->sql.fault);
}

static int64_t connect_listener_of(const char *notifier)
{
    (void)notifier; /* its name is enough */
    return 0;
}

const struct snib__sql_link snib__my_link = {
    .connect = connect_all,
    .is_cut = connect_is_cut,
    .quit = connect_quit,
    .run = connect_run,
    .notify = snib__my_notify,
    .listener_of = connect_listener_of,
};
