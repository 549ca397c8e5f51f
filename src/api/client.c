/* api/client.c — opening a client, and asking about it. Its end:
 * client_end.c. */
#include "api/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/testing.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/ids.h"
#include "core/url.h"
#include "driver/socket_notifier.h"
#include "store/file/file.h"
#include "store/memory/memory.h"

enum { REQUEST_MS = 2000, REQUEST_MIN_MS = 10, REQUEST_MAX_MS = 600000 };

static snib_err client_read_options(const struct snib_client_options *given,
                                    struct snib_client_options *o,
                                    struct snib_client *c,
                                    struct snib_error *reterr)
{
    snib_err err =
        snib__options_read(given, sizeof *o, "client options", o, reterr);
    if (err) {
        return err;
    }
    int64_t ms = o->request_ms ? o->request_ms : REQUEST_MS;
    if (ms < REQUEST_MIN_MS || ms > REQUEST_MAX_MS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "request_ms is %lld; expected %d to %d",
                          (long long)ms, REQUEST_MIN_MS, REQUEST_MAX_MS);
    }
    if (o->identity &&
        !snib__id_read(o->identity, strlen(o->identity), c->id)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "identity is not 32 hexadecimal digits");
    }
    c->request = snib__ms(ms);
    c->pull = o->pull;
    c->log.tell = o->log;
    c->log.data = o->data;
    c->ops.of_store = o->store_events;
    c->logins.ask = o->login;
    c->logins.data = o->login_data;
    if (o->login &&
        !(c->logins.answer = snib__alloc(sizeof *c->logins.answer))) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    return SNIB_ERR_OK;
}

/* Argument, else $SNIB_URL, else the embedded file, which file: alone means,
 * too: its path is told of either. Whoever runs a set-uid program does not
 * choose where its user's files are made. *ret_default: it is that file. */
static snib_err client_choose_url(const char *given, char **ret,
                                  bool *ret_default, struct snib_error *reterr)
{
    const char *env = secure_getenv("SNIB_URL");
    const char *url = given ? given : env && *env ? env : NULL;
    *ret_default = !url || strcasecmp(url, "file:") == 0;
    if (*ret_default) {
        return snib__default_url(ret, reterr);
    }
    *ret = snib__strdup(url);
    return *ret ? SNIB_ERR_OK : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

static snib_err client_find_store(const char *scheme,
                                  const struct snib__registered **ret,
                                  struct snib_error *reterr)
{
    *ret = snib__store_find(scheme);
    return *ret ? SNIB_ERR_OK : snib__store_missing(scheme, reterr);
}

/* Two logins: which of them is meant? */
static snib_err client_check_login(const struct snib_client *c,
                                   const struct snib__url *url,
                                   struct snib_error *reterr)
{
    if (c->logins.ask && (url->user || url->password)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: there is a login in the URL, and the option "
                          "login is set, too; leave one of them out",
                          url->safe);
    }
    return SNIB_ERR_OK;
}

/* May this client have a witness, if it wants one? */
static snib_err client_check_witness(struct snib_client *c,
                                     const struct snib__registered *store,
                                     const struct snib__url *url,
                                     const struct snib_client_options *o,
                                     struct snib_error *reterr)
{
    if (!o->witness) {
        return SNIB_ERR_OK;
    }
    if (o->leashed) {
        return snib__fail(
            reterr, SNIB_ERR_USAGE,
            "witness and leashed: what outlives this process must "
            "not be ended with it; leave one of them out");
    }
    switch (store->witness) {
    case SNIB__WITNESS_NEEDLESS:
        c->witness.needless = true;
        return SNIB_ERR_OK;
    case SNIB__WITNESS_UNSUPPORTED:
        return snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                          "%s: has no witness yet; leave the option out, and a "
                          "crash costs the lease",
                          url->scheme);
    case SNIB__WITNESS_SUPPORTED:
        break;
    }
    if (o->login) {
        return snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                          "witness and the function login: a witness cannot "
                          "call it when this process is over; give the login "
                          "by the URL, or by password_file=");
    }
    return snib__witness_room(c, reterr);
}

static snib_err client_open_engine(struct snib_client *c,
                                   const struct snib__registered *store,
                                   const struct snib__url *url,
                                   const struct snib_client_options *o,
                                   struct snib_error *reterr)
{
    struct snib__about about;
    struct snib__engine_config config = {
        .ops = store->ops,
        .blocking = store->blocking,
        .url = url,
        .client = o->identity ? c->id : NULL,
        .request = c->request,
        .self = &about,
        .wall_offset_ns = snib__wall_offset(),
        .deadlocks = !o->no_deadlock_check,
        .login = c->logins.ask,
        .watch = o->store_events,
        .registry = c->witness.registry,
        .log = c->log.tell ? snib__parts_keep_log : NULL,
        .log_data = c};
    snib__self_about(&about, o->program, o->reason);
    about.leashed = o->leashed;
    snib_err err = snib__self_seed(&config.seed, reterr);
    if (err) {
        return err;
    }
    err = snib__engine_open(&config, &c->engine, reterr);
    if (err) {
        return err;
    }
    c->out = snib__engine_out(c->engine);
    snib__engine_client_id(c->engine, c->id);
    snib__engine_first_ticket(c->engine, (uint32_t)c->id[1]);
    snprintf(c->id_text, sizeof c->id_text, "%016" PRIx64 "%016" PRIx64,
             c->id[0], c->id[1]);
    c->exec.ops = store->blocking;
    if (c->exec.ops) {
        (void)snib__blocking_ops_of(snib__engine_store(c->engine),
                                    &c->exec.instance);
        c->exec.quick = c->exec.ops->caps & SNIB__IN_PROCESS;
        c->exec.brief = c->exec.ops->caps & SNIB__BRIEF;
    }
    if (c->exec.ops == &snib__memory_ops) {
        snib_instant now;
        c->virtual_clock = snib__memory_clock(c->exec.instance, &now)
                               ? snib__memory_clock
                               : NULL;
    }
    err = snib__sockets_reach(c);
    return err ? snib__fail_plain(reterr, err) : SNIB_ERR_OK;
}

snib_err snib_client_open(const struct snib_client_options *options,
                          struct snib_client **ret, struct snib_error *reterr)
{
    struct snib_client_options o;
    char *text = NULL;
    struct snib__url *url = NULL;
    const struct snib__registered *store = NULL;
    bool is_default = false;
    *ret = NULL;
    struct snib_client *c = snib__alloc(sizeof *c);
    if (!c) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib__parts_init(c);
    c->pid = snib__process_remember();
    snib_err err = client_read_options(options, &o, c, reterr);
    if (!err) {
        err = client_choose_url(o.url, &text, &is_default, reterr);
    }
    if (!err) {
        err = snib__url_parse(text, &url, reterr);
    }
    if (!err) {
        err = client_check_login(c, url, reterr);
    }
    if (!err && !(c->url = snib__strdup(url->safe))) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (!err) {
        err = snib__passfile_open(c, url, reterr);
    }
    if (!err) {
        err = snib__secure_open(c, url, reterr);
    }
    if (!err) {
        err = client_find_store(url->scheme, &store, reterr);
    }
    if (!err) {
        err = client_check_witness(c, store, url, &o, reterr);
    }
    if (!err) {
        err = client_open_engine(c, store, url, &o, reterr);
    }
    if (!err && c->witness.registry) {
        err = snib__witness_start(c, o.witness_program, text, reterr);
    }
    if (!err && is_default) {
        err = snib__file_default_still(url->path, reterr);
    }
    if (!err && !(c->store_identity = snib__store_identity(store, url))) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (!err) {
        snib__socket_notifier(c);
    }
    if (!err && c->pull) {
        err = snib__loop_open(c, reterr);
    }
    if (!err && c->exec.ops && c->exec.ops->exec_in) {
        err = snib__sessions_start(c, reterr);
    }
    if (text) {
        memset(text, 0, strlen(text)); /* a password may stand in it */
        __asm__ volatile("" : : "r"(text) : "memory");
    }
    snib__free(text);
    snib__url_free(url);
    if (err) {
        snib__sessions_end(c);
        snib__parts_free(c);
        snib__parts_free_last(c);
        return err;
    }
    *ret = c;
    return snib__ok(reterr);
}

/* -- asking about it ------------------------------------------------------- */

const char *snib_client_url(const struct snib_client *c)
{
    return c->url;
}

void snib_client_store_status(struct snib_client *c,
                              struct snib_store_status *ret)
{
    struct snib__step s;
    struct snib__store_state is;
    *ret = (struct snib_store_status){.error = SNIB_ERR_FORKED};
    if (snib__client_check(c, NULL)) {
        snprintf(ret->text, sizeof ret->text, "%s",
                 snib_err_text(SNIB_ERR_FORKED));
        return;
    }
    snib__step_begin(&s, c);
    snib__engine_store_state(c->engine, s.now, &is);
    ret->reachable = is.reachable;
    ret->error = is.err;
    ret->for_ms = is.since.ns && is.since.ns < s.now.ns
                      ? snib__to_ms((snib_duration){s.now.ns - is.since.ns})
                      : 0;
    ret->nodes = is.nodes;
    ret->nodes_reachable = is.nodes_reachable;
    memcpy(ret->text, is.text, sizeof ret->text);
    snib__step_end(&s);
}

const char *snib_client_id(const struct snib_client *c)
{
    return c->id_text;
}

void snib__client_id(struct snib_client *c, uint64_t ret[2])
{
    ret[0] = c->id[0];
    ret[1] = c->id[1];
}

void *snib__client_memory(struct snib_client *c)
{
    return !snib__client_check(c, NULL) && c->exec.ops == &snib__memory_ops
               ? c->exec.instance
               : NULL;
}

static void client_wake_to_check(struct snib__step *s)
{
    SNIB__LIST_EACH (l, &s->c->calls.roles.waiting) {
        snib__call_wake(s, SNIB__CONTAINER(l, struct snib__call, w.link));
    }
}

void snib__client_kick(struct snib_client *c)
{
    struct snib__step s;
    if (snib__client_check(c, NULL)) {
        return;
    }
    snib__step_begin(&s, c);
    if (!c->stopped) {
        snib__engine_tick(c->engine, s.now);
        snib__ops_due(&s);
        snib__step_act(&s);
        while (c->exec.quick && snib__step_exec(&s)) {
        }
        client_wake_to_check(&s);
        s.kick = true;
    }
    snib__step_end(&s);
}

void snib__client_counts(struct snib_client *c, struct snib__counts *counts,
                         uint32_t ret_awaited[SNIB__CONNS_MAX],
                         int ret_reader[SNIB__CONNS_MAX])
{
    struct snib__step s;
    snib__step_begin(&s, c);
    if (counts) {
        snib__engine_counts(c->engine, counts);
    }
    for (uint32_t i = 0; i < SNIB__CONNS_MAX; i++) {
        bool is = i < c->sock.count && c->sock.v[i]->conn;
        if (ret_awaited) {
            ret_awaited[i] = is ? c->sock.v[i]->conn->awaited : 0;
        }
        if (ret_reader) {
            ret_reader[i] = is ? c->calls.roles.sock[i].reader : SNIB__NOBODY;
        }
    }
    snib__step_end(&s);
}
