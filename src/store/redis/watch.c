/* store/redis/watch.c — the connection to those who know which server is the
 * primary: the servers of a list one after another, or one Sentinel.
 *
 * Of a server of a list HELLO is asked and nothing else: the answer has its
 * role. Then the connection goes on to the next server, and after the last one
 * it stays down until there is doubt.
 *
 * A Sentinel is asked for its epoch and the address of the service's primary,
 * and then heard: it publishes "+switch-master SERVICE OLD-HOST OLD-PORT HOST
 * PORT". All of it stands in one write, since a connection that has subscribed
 * takes no other question. The address is used when the subscription is
 * acknowledged, so that no switch is missed after it, and when the topology
 * believes it. In doubt the connection is closed and the next Sentinel asked.
 *
 * When another server is named, the connections to the old one are cut at once:
 * it may go on working for a while, and what it grants or renews then counts for
 * nothing. What was awaited there is UNKNOWN, and the core repeats it by its id.
 * What is held is at risk until the new primary has confirmed it. */
#include <stdio.h>
#include <string.h>

#include "store/redis/inspect_i.h"

static const char channel[] = "+switch-master";

/* -- another primary ------------------------------------------------------- */

static void watch_log(const struct snib__redis *s, const char *text)
{
    if (s->out->log) {
        s->out->log(s->out->log_data, SNIB_LOG_INFO, text);
    }
}

/* The connections to the old primary are no more. They may be opened to the new
 * one at once. */
static void watch_move(struct snib__redis *s, snib_instant now)
{
    char text[ADDRESS_MAX + 32];
    snprintf(text, sizeof text, "redis: the primary is now %.*s", ADDRESS_SHOWN,
             s->topology->primary);
    watch_log(s, text);
    for (int i = 0; i < SESSIONS; i++) {
        struct session *l = &s->session[i];
        if (l->state >= SESSION_OPENING && l->state <= SESSION_READY) {
            snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE,
                              text + strlen("redis: "), false);
        }
        l->barred = false;
        l->err = SNIB_ERR_OK; /* it was about the old one                    */
        l->text[0] = 0;
        l->rest = snib__ms(REST_FIRST_MS);
        l->rest_until = now;
    }
}

/* Somebody has named the primary, or it has named itself. */
static void watch_found(struct snib__redis *s, snib_instant now,
                        const char *address)
{
    struct topology *t = s->topology;
    struct session *l = &s->session[WATCH];
    bool first = !t->primary[0], same = !strcmp(t->primary, address);
    t->known = false; /* so that no cut of ours begins a round              */
    if (!same) {
        snprintf(t->primary, sizeof t->primary, "%s", address);
        watch_move(s, now);
        t->vain = 0;
        s->out->moved = s->out->moved || !first;
    }
    t->known = true;
    t->asked = 0;
    t->over = false;
    l->err = SNIB_ERR_OK;
    l->text[0] = 0;
    l->barred = false;
}

/* -- a list: who says that it is the primary ------------------------------- */

static void watch_role(struct snib__redis *s, snib_instant now,
                       const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *mode = snib__state_field(c, "mode");
    const struct snib__resp_cell *role = snib__state_field(c, "role");
    if (snib__resp_is(mode, "sentinel")) {
        snib__session_cut(s, now, WATCH, true, SNIB_ERR_CONFIG,
                          "this is a Sentinel, which keeps no locks; write "
                          "redis+sentinel://HOST,HOST,HOST/SERVICE for it",
                          true);
    } else if (snib__resp_is(mode, "cluster")) {
        snib__session_cut(s, now, WATCH, true, SNIB_ERR_CONFIG,
                          "this server is a node of a Redis Cluster: write "
                          "redis+cluster://HOST,HOST,HOST for it",
                          true);
    } else {
        bool replica =
            snib__resp_is(role, "replica") || snib__resp_is(role, "slave");
        snib__topology_said(s->topology, replica ? NODE_REPLICA : NODE_PRIMARY);
        snib__session_leave(s, now, WATCH);
    }
}

/* -- a Sentinel ------------------------------------------------------------ */

static void watch_command(struct snib__redis *s, snib_instant now, job j,
                          const char *const words[], uint32_t count)
{
    struct snib__buf *out = &s->out->conn[WATCH]->out;
    snib__resp_begin(out, count);
    for (uint32_t k = 0; k < count; k++) {
        snib__resp_text(out, words[k]);
    }
    snib__session_push(
        s, WATCH,
        &(struct flight){.job = (uint8_t)j, .sent = now, .last = true});
}

void snib__watch_ask(struct snib__redis *s, snib_instant now)
{
    const char *const epoch[] = {"SENTINEL", "MASTER", s->topology->service};
    const char *const ask[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME",
                               s->topology->service};
    const char *const subscribe[] = {"SUBSCRIBE", channel};
    if (s->topology->service) {
        watch_command(s, now, JOB_EPOCH, epoch, 3);
        watch_command(s, now, JOB_MASTER, ask, 3);
        watch_command(s, now, JOB_SUBSCRIBE, subscribe, 2);
    }
}

/* False: it is none, and the connection was cut. */
static bool watch_is_sentinel(struct snib__redis *s, snib_instant now,
                              const struct snib__resp_cell *c)
{
    if (snib__resp_is(snib__state_field(c, "mode"), "sentinel")) {
        return true;
    }
    snib__session_cut(s, now, WATCH, true, SNIB_ERR_CONFIG,
                      "this is no Sentinel but a server: give the addresses of "
                      "the Sentinels (their port is 26379 as a rule), or write "
                      "redis: for redis+sentinel:",
                      true);
    return false;
}

/* The reply to SENTINEL MASTER: names and values; or an error, where this user
 * may not ask it or the service is not known. */
static void watch_epoch(struct topology *t, const struct snib__resp_cell *c)
{
    int64_t epoch;
    bool told = c->type == SNIB__RESP_ARRAY &&
                snib__resp_number(snib__state_field(c, "config-epoch"), &epoch);
    t->told = told && epoch >= 0 && epoch < EPOCH_TOP ? epoch : EPOCH_NONE;
}

/* The reply to GET-MASTER-ADDR-BY-NAME: [host, port], or nil. False: it names
 * nobody, and the connection was cut. */
static bool watch_named(struct snib__redis *s, snib_instant now,
                        const struct snib__resp_cell *c)
{
    struct topology *t = s->topology;
    const struct snib__resp_cell *host = snib__resp_at(c, 0);
    char text[160];
    int64_t port;
    if (c->type == SNIB__RESP_NIL) {
        char service[80];
        snib__redis_error_text(service, sizeof service, t->service,
                               (uint32_t)strlen(t->service));
        snprintf(text, sizeof text,
                 "this Sentinel knows no service %s: the name is what stands "
                 "in its line sentinel monitor",
                 service);
        snib__session_cut(s, now, WATCH, true, SNIB_ERR_CONFIG, text, true);
        return false;
    }
    if (host && host->type == SNIB__RESP_STRING &&
        snib__resp_number(snib__resp_at(c, 1), &port) &&
        snib__topology_address(t->named, host->text, host->size, port)) {
        return true;
    }
    snib__session_cut(s, now, WATCH, true, SNIB_ERR_STORE,
                      "what this Sentinel names is not an address", false);
    return false;
}

/* One word of a message, up to the next space. */
static bool watch_word(const char **p, const char *end, const char **ret,
                       size_t *ret_size)
{
    const char *at = *p;
    while (*p < end && **p != ' ') {
        (*p)++;
    }
    *ret = at;
    *ret_size = (size_t)(*p - at);
    *p += *p < end;
    return *ret_size > 0;
}

static bool watch_number(const char *p, size_t size, int64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < size; i++) {
        if (p[i] < '0' || p[i] > '9' || size > 5) {
            return false;
        }
        *ret = *ret * 10 + (p[i] - '0');
    }
    return size > 0;
}

/* "SERVICE OLD-HOST OLD-PORT HOST PORT" */
static void watch_switched(struct snib__redis *s, snib_instant now,
                           const char *text, size_t size)
{
    const struct topology *t = s->topology;
    const char *end = text + size, *word[5];
    char address[ADDRESS_MAX];
    size_t length[5];
    int64_t port;
    for (int k = 0; k < 5; k++) {
        if (!watch_word(&text, end, &word[k], &length[k])) {
            return;
        }
    }
    if (length[0] == strlen(t->service) &&
        !memcmp(word[0], t->service, length[0]) &&
        watch_number(word[4], length[4], &port) &&
        snib__topology_address(address, word[3], length[3], port) &&
        strcmp(address, t->primary) != 0) {
        snib__topology_switched(s->topology);
        watch_found(s, now, address);
    }
}

bool snib__watch_hears(struct snib__redis *s, snib_instant now,
                       const struct snib__resp_cell *c)
{
    if (c->type != SNIB__RESP_ARRAY ||
        !snib__resp_is(snib__resp_at(c, 0), "message")) {
        return false;
    }
    const struct snib__resp_cell *text = snib__resp_at(c, 2);
    if (text && text->type == SNIB__RESP_STRING && s->topology->service &&
        snib__resp_is(snib__resp_at(c, 1), channel)) {
        watch_switched(s, now, text->text, text->size);
    }
    return true;
}

/* -- the greeting ---------------------------------------------------------- */

static void watch_listens(struct snib__redis *s, snib_instant now)
{
    struct session *l = &s->session[WATCH];
    switch (snib__topology_named(s->topology)) {
    case NAMED_SO_FAR:
        snib__topology_said(s->topology, NODE_PRIMARY);
        snib__session_leave(s, now, WATCH);
        return;
    case NAMED_BEHIND:
        snib__session_cut(s, now, WATCH, true, SNIB_ERR_STORE,
                          "this Sentinel has not heard of the latest failover: "
                          "it is not believed before it has",
                          false);
        return;
    case NAMED_PRIMARY:
        break;
    }
    l->state = SESSION_READY;
    l->ping_at = snib__after(now, snib__ms(WATCH_PING_MS));
    s->out->conn[WATCH]->pushes = true;
    s->topology->node[s->topology->at].said = NODE_PRIMARY;
    watch_found(s, now, s->topology->named);
}

static void watch_refused(struct snib__redis *s, snib_instant now,
                          const struct snib__resp_cell *c)
{
    struct session *l = &s->session[WATCH];
    char text[200];
    if (c->type != SNIB__RESP_ERROR) {
        snib__session_cut(s, now, WATCH, true, SNIB_ERR_STORE,
                          "this does not answer like a Redis server", true);
        return;
    }
    if (l->state == SESSION_HELLO && snib__session_no_hello(s, now, WATCH, c)) {
        return;
    }
    error_kind kind = snib__redis_error_kind(c->text, c->size);
    if (s->topology->service && c->size >= 6 && !memcmp(c->text, "NOAUTH", 6)) {
        snprintf(text, sizeof text,
                 "NOAUTH: this Sentinel asks for a login: put "
                 "sentinel_password= into the URL, and sentinel_user= if it "
                 "has users");
    } else {
        snib__redis_error_words(text, sizeof text, c->text, c->size);
    }
    if (s->asks && !s->topology->service && kind == E_DENIED && !l->refused) {
        l->refused = true;
        snib__session_anew(s, now, WATCH, text);
        return;
    }
    snib__session_cut(s, now, WATCH, true, snib__redis_error_code(kind), text,
                      kind == E_DENIED);
}

void snib__watch_greeted(struct snib__redis *s, snib_instant now,
                         const struct snib__resp_cell *c)
{
    struct session *l = &s->session[WATCH];
    bool fits = c->type == SNIB__RESP_ARRAY || l->state == SESSION_EPOCH ||
                (l->state == SESSION_ASKED && c->type == SNIB__RESP_NIL);
    struct flight f;
    if (!fits || !snib__session_pop(l, &f)) {
        watch_refused(s, now, c);
        return;
    }
    s->out->conn[WATCH]->awaited--;
    if (l->state == SESSION_HELLO && !s->topology->service) {
        l->refused = false;
        watch_role(s, now, c);
    } else if (l->state == SESSION_HELLO) {
        if (watch_is_sentinel(s, now, c)) {
            l->state = SESSION_EPOCH;
        }
    } else if (l->state == SESSION_EPOCH) {
        watch_epoch(s->topology, c);
        l->state = SESSION_ASKED;
    } else if (l->state == SESSION_ASKED) {
        if (watch_named(s, now, c)) {
            l->state = SESSION_SUBSCRIBE;
        }
    } else if (l->state == SESSION_SUBSCRIBE) {
        watch_listens(s, now);
    }
}

/* -- at the end of a step -------------------------------------------------- */

void snib__watch_settle(struct snib__redis *s, snib_instant now)
{
    struct topology *t = s->topology;
    struct session *l = &s->session[WATCH];
    if (t->over && !t->known && snib__topology_again(t)) {
        snib__topology_round(t);
    }
    if (t->over && !t->known) {
        const char *primary = snib__topology_decide(t);
        if (primary) {
            watch_found(s, now, primary);
        } else {
            snib__session_in_vain(s, now);
            snib__topology_round(t);
        }
    }
    if (!t->known && l->state == SESSION_READY) {
        t->at = (t->at + 1) % t->nodes;
        snib__session_leave(s, now, WATCH);
    }
}
