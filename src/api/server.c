/* api/server.c — the server that a client talks to.
 *
 * The answer is one block of memory: the struct, then (of a quorum or a cluster)
 * its servers, pointers to them, so that a server may grow, and all the texts. It
 * is made after the mutex was given back. */
#include <string.h>

#include "api/api.h"
#include "base/error.h"
#include "base/mem.h"
#include "snib/inspect.h"

/* The whole, and each server; to one of a cluster lead three connections. */
enum { SERVERS_MAX = 1 + SNIB__CONNS_MAX / 3 };

/* What the store says, whole and server by server. */
struct server_known {
    struct snib__server all[SERVERS_MAX];
    uint32_t count; /* servers behind the first, which is the whole */
    snib_instant now;
    char *address; /* of the whole */
};

static void server_ask(struct snib_client *c, struct server_known *k)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    k->now = s.now;
    (void)snib__engine_server(c->engine, s.now, 0, &k->all[0]);
    while (k->count + 1 < SERVERS_MAX &&
           snib__engine_server(c->engine, s.now, k->count + 1,
                               &k->all[k->count + 1])) {
        k->count++;
    }
    snib__step_end(&s);
}

/* A store without connections is named as its URL names it. */
static char *server_address(const struct snib_client *c,
                            const struct server_known *k)
{
    struct snib__buf b;
    if (!k->count) {
        return snib__strdup(k->all[0].address[0] ? k->all[0].address
                                                 : c->store_identity);
    }
    snib__buf_init(&b, sizeof k->all);
    for (uint32_t i = 1; i <= k->count; i++) {
        snib__buf_puts(&b, i > 1 ? "," : "");
        snib__buf_puts(&b, k->all[i].address);
    }
    char *ret = b.failed ? NULL : snib__strdup(snib__buf_text(&b));
    snib__buf_free(&b);
    return ret;
}

static size_t server_size(const struct server_known *k)
{
    size_t n = (k->count + 1) * sizeof(struct snib_server) +
               k->count * sizeof(struct snib_server *) + strlen(k->address) + 1;
    for (uint32_t i = 0; i <= k->count; i++) {
        const struct snib__server *is = &k->all[i];
        n += strlen(is->address) + strlen(is->product) + strlen(is->version) +
             strlen(is->role) + strlen(is->run_id) + strlen(is->state.text) + 6;
    }
    return n;
}

static const char *server_put(char **to, const char *text)
{
    char *at = *to;
    size_t n = strlen(text) + 1;
    memcpy(at, text, n);
    *to += n;
    return at;
}

static void server_fill(const struct server_known *k, uint32_t i,
                        struct snib_server *ret, char **texts)
{
    const struct snib__server *is = &k->all[i];
    ret->address = server_put(texts, i ? is->address : k->address);
    ret->product = server_put(texts, is->product);
    ret->version = server_put(texts, is->version);
    ret->role = server_put(texts, is->role);
    ret->run_id = server_put(texts, is->run_id);
    ret->connected_ms = is->connected.ns
                            ? snib__to_ms(snib__between(is->connected, k->now))
                            : -1;
    ret->reachable = is->state.reachable;
    ret->error = is->state.err;
    ret->text = server_put(texts, is->state.text);
}

static struct snib_server *server_make(const struct server_known *k)
{
    struct snib_server *ret = snib__alloc(server_size(k));
    if (!ret) {
        return NULL;
    }
    const struct snib_server **each = (void *)(ret + k->count + 1);
    char *texts = (char *)(each + k->count);
    for (uint32_t i = 0; i <= k->count; i++) {
        server_fill(k, i, &ret[i], &texts);
        if (i) {
            each[i - 1] = &ret[i];
        }
    }
    ret->server_count = k->count;
    ret->servers = k->count ? each : NULL;
    return ret;
}

snib_err snib_client_server(struct snib_client *c, struct snib_server **ret,
                            struct snib_error *reterr)
{
    *ret = NULL;
    snib_err err = snib__client_check(c, reterr);
    if (err) {
        return err;
    }
    struct server_known *k = snib__alloc(sizeof *k);
    if (k) {
        server_ask(c, k);
        k->address = server_address(c, k);
    }
    if (k && k->address) {
        *ret = server_make(k);
    }
    snib__free(k ? k->address : NULL);
    snib__free(k);
    return *ret ? snib__ok(reterr) : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

void snib_server_free(struct snib_server *server)
{
    snib__free(server);
}
