/* driver/login.c — the thread that asks the program for logins.
 *
 * The program's function may take its time: it may ask a server of tokens. So
 * it runs on a thread of its own, with no lock held, one call at a time. What
 * it writes is overwritten as soon as the engine has it. The thread is started
 * when the first login is wanted, and ends with the client: a stop waits for
 * the function, since it may use what the program frees after that. */
#include <stdlib.h>
#include <string.h>

#include "driver/driver.h"

enum { HOST_MAX = 264 };

/* "HOST:PORT" or "[V6]:PORT"; a path is a socket's, which has neither. */
static void login_split(const char *address, char host[HOST_MAX],
                        uint16_t *ret_port)
{
    const char *colon = strrchr(address, ':');
    host[0] = 0;
    *ret_port = 0;
    if (address[0] == '/' || !colon) {
        return;
    }
    bool v6 = address[0] == '[';
    size_t n = (size_t)(colon - address) - (v6 ? 2 : 0);
    if (n < HOST_MAX) {
        memcpy(host, address + v6, n);
        host[n] = 0;
    }
    *ret_port = (uint16_t)strtoul(colon + 1, NULL, 10);
}

/* Ask for the login of one connection, and give it to the engine. */
static void login_ask(struct snib__step *s)
{
    struct snib_client *c = s->c;
    struct snib_login *l = c->logins.answer;
    uint32_t i = snib__socks_next(&c->logins.wanted, 0);
    struct snib__input in = {.kind = SNIB__IN_LOGIN, .conn = i, .login = l};
    char host[HOST_MAX], address[HOST_MAX];
    /* A copy: while the function runs the connection may be closed and opened
     * to another server. */
    memcpy(address, c->out->conn[i]->address, sizeof address);
    l->address = address;
    l->host = host;
    login_split(l->address, host, &l->port);
    l->refused = snib__socks_has(&c->logins.refused, i);
    snib__socks_put(&c->logins.wanted, i, false);
    c->logins.asks = true;
    snib__step_pause(s);
    in.err = c->logins.ask(c->logins.data, l);
    /* A password_file= belongs to the set-up; a program's function says DENIED of
     * what is told at once. */
    if (in.err == SNIB_ERR_CONFIG && !c->logins.file) {
        in.err = SNIB_ERR_UNREACHABLE;
    }
    l->user[sizeof l->user - 1] = 0;
    l->password[sizeof l->password - 1] = 0;
    l->text[sizeof l->text - 1] = 0;
    snib__step_again(s);
    c->logins.asks = false;
    if (!c->stopped) {
        snib__engine_input(c->engine, s->now, &in);
    }
    explicit_bzero(l, sizeof *l);
    if (!c->stopped) {
        snib__step_act(s);
    }
}

void *snib__login_body(void *arg)
{
    struct snib_client *c = arg;
    struct snib__step s;
    snib__step_begin(&s, c);
    while (!c->logins.thread.stop) {
        if (!snib__socks_empty(&c->logins.wanted)) {
            login_ask(&s);
        } else {
            snib__step_pause(&s);
            snib__step_again(&s);
            if (!c->logins.thread.stop &&
                snib__socks_empty(&c->logins.wanted)) {
                snib__mu_wait(c, &c->logins.more);
            }
            snib__step_refresh(&s);
        }
    }
    snib__step_end(&s);
    return NULL;
}

bool snib__login_end(struct snib_client *c)
{
    struct snib__thread *t = &c->logins.thread;
    t->stop = true;
    if (t->on) {
        pthread_cond_broadcast(&c->logins.more);
    }
    return t->on;
}

void snib__login_join(struct snib_client *c)
{
    pthread_join(c->logins.thread.id, NULL);
}
