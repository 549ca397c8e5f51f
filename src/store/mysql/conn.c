/* store/mysql/conn.c — a connection: the library's calls, each of which may have
 * to wait for the server, and the end of a connection.
 *
 * Everything is the library's way without blocking: a call begins, says what it
 * waits for, and goes on when that has come. A call that has begun is gone
 * through to its end by the same thread; if the time is over, or the store stops,
 * the socket is shut and the call told that its time is over, so that it cleans
 * up behind itself.
 *
 * On TLS the library writes by write(2), so a peer that has gone may cost a
 * SIGPIPE. The threads that use connections block it; only closing may happen on
 * a thread of the program's. */
#include <errmsg.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "base/error.h"
#include "store/mysql/mysql_i.h"

/* The stack on which the library's calls run. Its own choice, 60 kB without a guard
 * behind them, is little for the look-up of a host name, which may go through any
 * module that the machine has for that. */
enum { CONN_STACK = 256 << 10 };

/* A client that has no verified way must not give its password away. By the first
 * methods it is never sent; by the others it is, under a key that comes from the
 * server, or from who is in between: so only on this host. */
#define CONN_PROOFS "mysql_native_password,client_ed25519,auth_gssapi_client"
#define CONN_HERE   CONN_PROOFS ",caching_sha2_password,sha256_password"

/* -- calls ----------------------------------------------------------------- */

/* What to tell the library, which waits for `status`. */
static int conn_wait(struct snib__my_conn *k, int status, snib_instant until)
{
    int fd = k->store->lib.mysql_get_socket(k->c);
    bool to_read = status & MYSQL_WAIT_READ;
    bool to_write = status & MYSQL_WAIT_WRITE;
    if (!k->late &&
        snib__sql_wait(fd, k->store->stop, to_read, to_write, until)) {
        return status & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE);
    }
    if (!k->late && fd >= 0) {
        shutdown(fd, SHUT_RDWR);
    }
    k->late = true;
    return MYSQL_WAIT_TIMEOUT;
}

/* False: no memory. Without what it was to set it must not connect. */
static bool conn_option(struct snib__my_conn *k, enum mysql_option option,
                        const void *value)
{
    return k->store->lib.mysql_options(k->c, option, value) == 0;
}

/* A server may ask for any file of the client's (LOAD DATA LOCAL), and for the
 * password in the clear: not this one's. */
static bool conn_guard(struct snib__my_conn *k)
{
    static const unsigned off = 0;
    static const my_bool no = 0;
    const struct snib__sql_address *address = &k->store->address;
    return conn_option(k, MYSQL_OPT_LOCAL_INFILE, &off) &&
           conn_option(k, MYSQL_OPT_RECONNECT, &no) &&
           (address->verify ||
            conn_option(k, MARIADB_OPT_RESTRICTED_AUTH,
                        address->here ? CONN_HERE : CONN_PROOFS));
}

static bool conn_secure(struct snib__my_conn *k)
{
    static const my_bool yes = 1;
    const struct snib__sql_address *address = &k->store->address;
    return !address->verify ||
           (conn_option(k, MYSQL_OPT_SSL_CA,
                        snib__sql_authorities(address->ca)) &&
            conn_option(k, MYSQL_OPT_SSL_ENFORCE, &yes) &&
            conn_option(k, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes));
}

bool snib__my_begin(struct snib__my_conn *k)
{
    static const unsigned tcp = MYSQL_PROTOCOL_TCP;
    static const unsigned local = MYSQL_PROTOCOL_SOCKET;
    static const size_t stack = CONN_STACK;
    k->c = k->store->lib.mysql_init(NULL);
    if (!k->c) {
        return false;
    }
    k->is.up = true;
    k->late = false;
    if (!conn_option(k, MYSQL_OPT_NONBLOCK, &stack) ||
        !conn_option(k, MYSQL_SET_CHARSET_NAME, "utf8mb4") ||
        !conn_option(k, MYSQL_OPT_PROTOCOL,
                     k->store->address.socket ? &local : &tcp) ||
        !conn_guard(k) || !conn_secure(k)) {
        snib__my_quit(k);
    }
    return k->c != NULL;
}

/* The library lets the programs that this one starts inherit its sockets: their
 * copies would keep a connection open whose client has ended. */
static void conn_keep(struct snib__my_conn *k)
{
    int fd = k->store->lib.mysql_get_socket(k->c);
    if (fd >= 0) {
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

bool snib__my_login(struct snib__my_conn *k, const char *password,
                    snib_instant until)
{
    const struct snib__mariadb *lib = &k->store->lib;
    const struct snib__sql_address *p = &k->store->address;
    MYSQL *ret = NULL;
    int status = lib->mysql_real_connect_start(
        &ret, k->c, p->socket ? NULL : p->host, p->user, password, p->database,
        (unsigned)strtoul(p->port, NULL, 10), p->socket ? p->host : NULL,
        CLIENT_MULTI_STATEMENTS);
    while (status) {
        conn_keep(k); /* each address that is tried has another one */
        status = lib->mysql_real_connect_cont(&ret, k->c,
                                              conn_wait(k, status, until));
    }
    conn_keep(k);
    return ret != NULL;
}

bool snib__my_query(struct snib__my_conn *k, const char *text, size_t size,
                    snib_instant until)
{
    const struct snib__mariadb *lib = &k->store->lib;
    int err = 0;
    int status = lib->mysql_real_query_start(&err, k->c, text, size);
    while (status) {
        status =
            lib->mysql_real_query_cont(&err, k->c, conn_wait(k, status, until));
    }
    return err == 0;
}

bool snib__my_send(struct snib__my_conn *k, const char *text, size_t size,
                   snib_instant until)
{
    const struct snib__mariadb *lib = &k->store->lib;
    int err = 0;
    int status = lib->mysql_send_query_start(&err, k->c, text, size);
    while (status) {
        status =
            lib->mysql_send_query_cont(&err, k->c, conn_wait(k, status, until));
    }
    return err == 0;
}

bool snib__my_answered(struct snib__my_conn *k, snib_instant until)
{
    const struct snib__mariadb *lib = &k->store->lib;
    my_bool err = 0;
    int status = lib->mysql_read_query_result_start(&err, k->c);
    while (status) {
        status = lib->mysql_read_query_result_cont(&err, k->c,
                                                   conn_wait(k, status, until));
    }
    return err == 0;
}

MYSQL_RES *snib__my_store(struct snib__my_conn *k, snib_instant until)
{
    const struct snib__mariadb *lib = &k->store->lib;
    MYSQL_RES *ret = NULL;
    int status = lib->mysql_store_result_start(&ret, k->c);
    while (status) {
        status = lib->mysql_store_result_cont(&ret, k->c,
                                              conn_wait(k, status, until));
    }
    return ret;
}

int snib__my_next(struct snib__my_conn *k, snib_instant until)
{
    const struct snib__mariadb *lib = &k->store->lib;
    int ret = 0;
    int status = lib->mysql_next_result_start(&ret, k->c);
    while (status) {
        status = lib->mysql_next_result_cont(&ret, k->c,
                                             conn_wait(k, status, until));
    }
    return ret;
}

/* -- its end --------------------------------------------------------------- */

bool snib__my_is_down(const struct snib__my_conn *k)
{
    unsigned code = k->store->lib.mysql_errno(k->c);
    return k->late || !code || (code >= CR_MIN_ERROR && code <= CR_MAX_ERROR) ||
           (code >= CER_MIN_ERROR && code <= CER_MAX_ERROR);
}

/* Nobody asked, so nothing may come: what does is the server's farewell. */
bool snib__my_is_cut(struct snib__my_conn *k)
{
    struct pollfd fd = {.fd = k->store->lib.mysql_get_socket(k->c),
                        .events = POLLIN};
    return poll(&fd, 1, 0) != 0;
}

void snib__my_drop(struct snib__my_conn *k, const char *text)
{
    char words[200] = "";
    int fd = k->store->lib.mysql_get_socket(k->c);
    if (!text && !k->late) {
        snib__sql_clean(&k->store->address, k->store->lib.mysql_error(k->c),
                        words, sizeof words);
    }
    if (text) {
        snib__fail(&k->is.why, SNIB_ERR_UNREACHABLE, "%s", text);
    } else {
        snib__fail(&k->is.why, SNIB_ERR_UNREACHABLE, "%s: %s",
                   k->store->address.where,
                   *words ? words : "no answer from the server");
    }
    if (fd >= 0) {
        shutdown(fd, SHUT_RDWR);
    }
    snib__my_quit(k);
}

static void conn_close(struct snib__my_conn *k)
{
    static const struct timespec none;
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    k->store->lib.mysql_close(k->c);
    if (!sigismember(&pending, SIGPIPE)) {
        (void)sigtimedwait(&pipe, NULL, &none);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void snib__my_quit(struct snib__my_conn *k)
{
    if (k->c) {
        conn_close(k);
    }
    if (k->counted) {
        pthread_mutex_lock(&k->store->listener.mu);
        if (!--k->store->server.sessions) {
            k->store->server.connected = (snib_instant){0};
        }
        pthread_mutex_unlock(&k->store->listener.mu);
    }
    k->c = NULL;
    k->counted = false;
    k->named[0] = 0;
    k->is.up = k->is.ready = k->is.inside = false;
}
