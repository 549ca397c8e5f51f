/* store/redis/topology.c — what is known of several servers of which one is the
 * primary. It sends nothing and closes nothing: watch.c does. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/redis/redis_i.h"

enum { SHOWN = 60 }; /* bytes of an address, where two stand in one text    */

/* -- from a URL ------------------------------------------------------------ */

bool snib__topology_address(char ret[ADDRESS_MAX], const char *host,
                            size_t size, int64_t port)
{
    bool v6 = memchr(host, ':', size) != NULL;
    if (!size || size > 253 || port < 1 || port > 65535) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (host[i] <= ' ' || host[i] > '~' || strchr("[]/@?#", host[i])) {
            return false;
        }
    }
    snprintf(ret, ADDRESS_MAX, v6 ? "[%.*s]:%d" : "%.*s:%d", (int)size, host,
             (int)port);
    return true;
}

/* The path of Sentinels is /SERVICE or /SERVICE/DB. */
static snib_err topology_service(struct topology *t,
                                 const struct snib__url *url,
                                 const char **ret_db, struct snib_error *reterr)
{
    const char *path = url->path && *url->path == '/' ? url->path + 1 : "";
    const char *slash = strchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) : strlen(path);
    *ret_db = slash ? slash : "";
    if (!size) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: the name of the service is missing: write "
                          "%s://HOST,HOST,HOST/SERVICE (it is what stands in "
                          "sentinel monitor SERVICE …)",
                          url->safe, url->scheme);
    }
    t->service = snib__memdup(path, size);
    return t->service ? SNIB_ERR_OK : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

static snib_err topology_login(struct topology *t, const struct snib__url *url,
                               struct snib_error *reterr)
{
    const char *user = snib__url_query(url, "sentinel_user");
    const char *password = snib__url_query(url, "sentinel_password");
    if (user && !password) {
        return snib__fail(
            reterr, SNIB_ERR_USAGE,
            "%.120s: sentinel_user= without sentinel_password=", url->safe);
    }
    t->user = snib__strdup(user);
    t->password = snib__strdup(password);
    return (t->user || !user) && (t->password || !password)
               ? SNIB_ERR_OK
               : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

/* A node that is named twice would be asked twice, and would then be two
 * primaries. */
static bool topology_has(const struct topology *t, const char *address)
{
    for (uint32_t i = 0; i < t->nodes; i++) {
        if (!strcmp(t->node[i].address, address)) {
            return true;
        }
    }
    return false;
}

static snib_err topology_hosts(struct topology *t, const struct snib__url *url,
                               struct snib_error *reterr)
{
    uint16_t port = t->service ? SENTINEL_PORT : REDIS_PORT;
    for (uint32_t i = 0; i < url->nodes; i++) {
        const char *host = url->node[i].host ? url->node[i].host : "";
        char address[ADDRESS_MAX];
        if (!snib__topology_address(address, host, strlen(host),
                                    url->node[i].port ? url->node[i].port
                                                      : port)) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.120s: a host is not usable", url->safe);
        }
        if (!topology_has(t, address)) {
            memcpy(t->node[t->nodes++].address, address, sizeof address);
        }
    }
    return SNIB_ERR_OK;
}

snib_err snib__topology_new(const struct snib__url *url, struct topology **ret,
                            const char **ret_db, struct snib_error *reterr)
{
    struct topology *t;
    snib_err err = SNIB_ERR_OK;
    *ret = NULL;
    *ret_db = url->path ? url->path : "";
    if (!url->nodes) {
        return SNIB_ERR_OK;
    }
    t = snib__alloc(sizeof *t);
    if (!t) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    t->told = t->best = t->epoch = EPOCH_NONE;
    if (snib__url_is_sentinel(url)) {
        err = topology_service(t, url, ret_db, reterr);
        err = err ? err : topology_login(t, url, reterr);
    }
    err = err ? err : topology_hosts(t, url, reterr);
    if (err) {
        snib__topology_free(t);
        return err;
    }
    *ret = t;
    return SNIB_ERR_OK;
}

void snib__topology_free(struct topology *t)
{
    if (t) {
        if (t->password) {
            explicit_bzero(t->password, strlen(t->password));
        }
        snib__free(t->service);
        snib__free(t->user);
        snib__free(t->password);
        snib__free(t);
    }
}

/* -- a round --------------------------------------------------------------- */

static void topology_next(struct topology *t)
{
    t->at = (t->at + 1) % t->nodes;
    t->over = ++t->asked >= t->nodes;
}

void snib__topology_round(struct topology *t)
{
    for (uint32_t i = 0; i < t->nodes; i++) {
        t->node[i].said = NODE_NOTHING;
        t->node[i].hopeless = false;
    }
    t->asked = t->votes = t->silent = 0;
    t->over = false;
    t->named[0] = 0;
    t->best = EPOCH_NONE;
    t->err = SNIB_ERR_OK;
    t->barred = false;
    t->text[0] = 0;
}

bool snib__topology_doubt(struct topology *t)
{
    bool known = t->known;
    if (known) {
        t->known = t->best_of = false;
        t->doubts++;
        snib__topology_round(t);
    }
    return known;
}

void snib__topology_said(struct topology *t, node_said said)
{
    t->node[t->at].said = said;
    topology_next(t);
}

/* Which of two reasons says more: one that somebody has to remove, then what a
 * node has answered, then that one does not answer. */
static int topology_weight(snib_err err, bool barred)
{
    return barred                        ? 3
           : err == SNIB_ERR_OK          ? 0
           : err == SNIB_ERR_UNREACHABLE ? 1
                                         : 2;
}

void snib__topology_failed(struct topology *t, snib_err err, const char *text,
                           bool barred)
{
    struct topology_node *n = &t->node[t->at];
    n->said = NODE_USELESS;
    if (t->known) {
        t->at = (t->at + 1) % t->nodes; /* it was only listened to          */
        return;
    }
    t->silent += err == SNIB_ERR_UNREACHABLE;
    if (topology_weight(err, barred) > topology_weight(t->err, t->barred)) {
        bool named = strstr(text, n->address) != NULL;
        t->err = err;
        t->barred = barred;
        snprintf(t->text, sizeof t->text, "%.*s%s%s", named ? 0 : ADDRESS_SHOWN,
                 n->address, named ? "" : ": ", text);
    }
    topology_next(t);
}

bool snib__topology_hopeless(const struct topology *t)
{
    bool all = true;
    for (uint32_t i = 0; i < t->nodes; i++) {
        all = all && t->node[i].hopeless;
    }
    return all;
}

static uint32_t topology_count(const struct topology *t, node_said said)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->nodes; i++) {
        n += t->node[i].said == said;
    }
    return n;
}

/* The first node from `from` on that says it is the primary. */
static uint32_t topology_primary(const struct topology *t, uint32_t from)
{
    while (from < t->nodes && t->node[from].said != NODE_PRIMARY) {
        from++;
    }
    return from;
}

named_is snib__topology_named(struct topology *t)
{
    bool behind = t->told < t->epoch;
    t->epoch = behind ? t->epoch : t->told;
    if (t->known) { /* only somebody to listen to is looked for             */
        return behind && t->told != EPOCH_NONE &&
                       strcmp(t->named, t->primary) != 0
                   ? NAMED_BEHIND
                   : NAMED_PRIMARY;
    }
    t->votes++;
    t->best = t->told > t->best ? t->told : t->best;
    if (t->told == EPOCH_NONE) {
        return NAMED_PRIMARY;
    }
    return behind                                  ? NAMED_BEHIND
           : t->best_of || t->votes * 2 > t->nodes ? NAMED_PRIMARY
                                                   : NAMED_SO_FAR;
}

/* It would not have switched without a failover after the last that it knew
 * of. */
void snib__topology_switched(struct topology *t)
{
    if (t->told != EPOCH_NONE && t->told == t->epoch) {
        t->epoch = ++t->told;
    } else {
        t->told = EPOCH_NONE;
    }
}

static bool topology_again_best_of(struct topology *t)
{
    bool again = t->votes && !t->best_of;
    if (t->votes == t->nodes && t->best < t->epoch) {
        t->epoch = t->best; /* set up anew */
    }
    t->best_of = again;
    return again;
}

bool snib__topology_again(struct topology *t)
{
    bool two = topology_count(t, NODE_PRIMARY) > 1;
    bool again = two && !t->two;
    if (t->service) {
        return topology_again_best_of(t);
    }
    t->two = two;
    return again;
}

/* None of the Sentinels has named a primary that is believed. */
static void topology_no_sentinel(struct topology *t)
{
    char why[sizeof t->text];
    if (t->err == SNIB_ERR_UNREACHABLE && t->nodes > 1) {
        snprintf(why, sizeof why, "%s", t->text);
        snprintf(t->text, sizeof t->text,
                 "none of the %u Sentinels answers; %.200s", t->nodes, why);
    }
}

const char *snib__topology_decide(struct topology *t)
{
    uint32_t primaries = topology_count(t, NODE_PRIMARY);
    uint32_t first = topology_primary(t, 0);
    if (t->service) {
        topology_no_sentinel(t);
        return NULL;
    }
    if (primaries == 1) {
        return t->node[first].address;
    }
    if (primaries > 1) {
        uint32_t second = topology_primary(t, first + 1);
        t->err = SNIB_ERR_STORE;
        t->barred = false;
        snprintf(t->text, sizeof t->text,
                 "%.*s and %.*s both say that they are the primary: neither is "
                 "asked for locks until one of them is a replica (or are these "
                 "two names of one server? then leave out one)",
                 SHOWN, t->node[first].address, SHOWN, t->node[second].address);
    } else if (!t->barred && topology_count(t, NODE_REPLICA)) {
        t->err = SNIB_ERR_UNREACHABLE;
        snprintf(t->text, sizeof t->text,
                 "none of the %u servers is the primary (%u replicas; %u give "
                 "no usable answer)",
                 t->nodes, topology_count(t, NODE_REPLICA),
                 topology_count(t, NODE_USELESS));
    }
    return NULL;
}

/* -- for people ------------------------------------------------------------ */

/* Sentinels name a primary that has failed until they have agreed on another
 * one, some seconds later. The URL is right then, and its servers run. */
const char *snib__topology_note(const struct topology *t, char *ret,
                                size_t size)
{
    ret[0] = 0;
    if (t && t->service && t->primary[0]) {
        snprintf(ret, size,
                 "; no primary is known at the moment: the Sentinels still "
                 "name %.*s",
                 SHOWN, t->primary);
    }
    return ret;
}

/* Does it lead to the host of whoever uses it? */
static bool topology_is_local(const char *address)
{
    static const char *const local[] = {"127.", "localhost:", "[::1]:"};
    bool is = false;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        is = is || !strncmp(address, local[i], strlen(local[i]));
    }
    return is;
}

static const char *topology_words_service(const struct topology *t,
                                          bool listens, char *ret, size_t size)
{
    const char *by = t->node[t->at].address;
    if (!listens) {
        snprintf(ret, size,
                 "%.*s is the primary of the service %.40s, as it was last "
                 "heard; none of the %u Sentinels is listened to just now",
                 SHOWN, t->primary, t->service, t->nodes);
        return "look at the Sentinels: while none is reached nobody hears of "
               "a failover";
    }
    snprintf(ret, size,
             "%.*s is the primary of the service %.40s, says the Sentinel "
             "%.*s (of %u in the URL)%s",
             SHOWN, t->primary, t->service, SHOWN, by, t->nodes,
             t->told == EPOCH_NONE
                 ? ", which does not tell how many failovers it knows of"
                 : "");
    if (topology_is_local(t->primary) && !topology_is_local(by)) {
        return "this address is another server on each host: give the "
               "Sentinels one that all hosts reach (sentinel monitor)";
    }
    if (t->nodes == 1) {
        return "name all Sentinels in the URL: while the only one is down "
               "nobody hears of a failover, and whether it is behind cannot "
               "be seen";
    }
    return t->told == EPOCH_NONE
               ? "give its user +sentinel|master: a Sentinel that is behind "
                 "is then seen (docs/REDIS.md)"
               : "";
}

const char *snib__topology_words(const struct topology *t, bool listens,
                                 char *ret, size_t size)
{
    uint32_t useless = topology_count(t, NODE_USELESS);
    if (t->service) {
        return topology_words_service(t, listens, ret, size);
    }
    snprintf(ret, size,
             "%.*s is the primary of the %u servers in the URL (%u replicas; "
             "%u give no usable answer)",
             SHOWN, t->primary, t->nodes, topology_count(t, NODE_REPLICA),
             useless);
    return useless ? "look at the servers that give no usable answer: after a "
                     "failover the primary may be one of them"
                   : "";
}
