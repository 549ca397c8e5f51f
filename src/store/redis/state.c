/* store/redis/state.c — how the server is, for callers that ask the client.
 *
 *   not asked --a connection is wanted--> asked --READY--> good
 *   asked, good --a connection is lost or refused, an error says that the
 *   server does not work now, or an answer is none of our scripts'--> bad
 *   bad --READY, an answer without error--> good
 *
 * READY means that the greeting was answered. Only the connections that
 * requests are sent on count, not the subscription. A connection that is lost
 * while the client neither waits for anything nor holds says nothing: servers
 * close idle connections. A server that is silent is told as unreachable
 * without a change of state here. */
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_i.h"

bool snib__state_clock(const struct snib__resp_cell *c, int64_t *ret_ms)
{
    int64_t seconds, micros;
    if (!snib__resp_number(snib__resp_at(c, 0), &seconds) ||
        !snib__resp_number(snib__resp_at(c, 1), &micros) || seconds < 0 ||
        seconds > INT64_C(9000000000) || micros < 0 || micros > 999999) {
        return false;
    }
    *ret_ms = seconds * 1000 + micros / 1000;
    return true;
}

void snib__state_good(struct snib__redis *s, snib_instant now)
{
    if (!s->state.good.ns) {
        s->state.good = now;
    }
    s->state.bad = (snib_instant){0};
    s->state.err = SNIB_ERR_OK;
}

/* The text without its head "no connection to HOST:PORT: ": the reader knows
 * which server it is. */
static const char *state_bare(const struct snib__redis *s, const char *text)
{
    char head[ADDRESS_SHOWN + 24];
    int n =
        snprintf(head, sizeof head, "no connection to %.*s: ", ADDRESS_SHOWN,
                 s->out->conn[CALLERS]->address);
    return strncmp(text, head, (size_t)n) ? text : text + n;
}

void snib__state_bad(struct snib__redis *s, snib_instant since, snib_err err,
                     const char *text)
{
    if (!s->state.bad.ns) {
        s->state.bad = since;
    }
    s->state.good = (snib_instant){0};
    s->state.err = err;
    text = state_bare(s, text);
    snprintf(s->state.text, sizeof s->state.text, "%s", text);
    char *first = s->state.text; /* the system's texts begin with a capital */
    if (first[0] >= 'A' && first[0] <= 'Z' && first[1] >= 'a' &&
        first[1] <= 'z') {
        first[0] = (char)(first[0] - 'A' + 'a');
    }
}

snib_instant snib__state_silent_at(const struct snib__redis *s,
                                   const struct session *l)
{
    return l->overdue.ns
               ? snib__after(l->overdue,
                             (snib_duration){s->patience.ns / MOMENT_PART})
               : SNIB__NEVER;
}

/* Since when an answer has been awaited that should be there by now; 0: there
 * is none. An unread answer is the server's silence only if this process was
 * awake to read it. */
static snib_instant state_silent_since(const struct snib__redis *s,
                                       snib_instant now)
{
    snib_instant since = {0};
    for (int i = 0; i < SUBS; i++) {
        const struct session *l = &s->session[i];
        if (l->count && snib__reached(now, snib__state_silent_at(s, l))) {
            since = l->ring[l->head].sent;
        }
    }
    return since;
}

void snib__state_read(const struct snib__redis *s, snib_instant now,
                      struct snib__store_state *ret)
{
    snib_instant silent = state_silent_since(s, now);
    ret->err = s->state.err;
    ret->reachable = s->state.good.ns != 0;
    ret->nodes_reachable = ret->reachable;
    if (!ret->err && silent.ns) {
        ret->err = SNIB_ERR_UNREACHABLE;
        ret->reachable = false;
        ret->nodes_reachable = 0;
        ret->since = silent;
        snprintf(ret->text, sizeof ret->text, "no answer");
    } else if (ret->err) {
        ret->since = s->state.bad;
        memcpy(ret->text, s->state.text, sizeof ret->text);
    } else if (ret->reachable) {
        ret->since = s->state.good;
    } else {
        ret->since = s->state.wanted;
        snprintf(ret->text, sizeof ret->text, "%s",
                 ret->since.ns ? "no answer yet" : "not asked yet");
    }
}

/* -- which server it is ---------------------------------------------------- */

const struct snib__resp_cell *snib__state_field(const struct snib__resp_cell *c,
                                                const char *name)
{
    for (uint32_t k = 0; k + 1 < c->size; k += 2) {
        if (snib__resp_is(snib__resp_at(c, k), name)) {
            return snib__resp_at(c, k + 1);
        }
    }
    return NULL;
}

static void state_keep(char *ret, size_t size, const struct snib__resp_cell *c,
                       const char *name)
{
    const struct snib__resp_cell *value = snib__state_field(c, name);
    ret[0] = 0;
    if (value && value->type == SNIB__RESP_STRING) {
        snib__redis_error_text(ret, size, value->text, value->size);
    }
}

void snib__state_hello(struct snib__redis *s, int i,
                       const struct snib__resp_cell *c)
{
    struct greeting *g = &s->session[i].greeting;
    char role[sizeof g->role];
    int64_t number;
    *g = (struct greeting){.number = 0};
    state_keep(g->product, sizeof g->product, c, "server");
    state_keep(g->version, sizeof g->version, c, "version");
    state_keep(role, sizeof role, c, "role");
    snprintf(g->role, sizeof g->role, "%s",
             !strcmp(role, "master")  ? "primary"
             : !strcmp(role, "slave") ? "replica"
                                      : role);
    if (snib__resp_number(snib__state_field(c, "id"), &number)) {
        g->number = number;
    }
    memcpy(s->shown.product, g->product, sizeof g->product);
    memcpy(s->shown.version, g->version, sizeof g->version);
    memcpy(s->shown.role, g->role, sizeof g->role);
}

/* The value of a line "name:value" of INFO. False: there is none. */
static bool state_line(const struct snib__resp_cell *c, const char *name,
                       char *ret, size_t size)
{
    const char *p = c->text, *end = c->text + c->size;
    size_t n = strlen(name);
    while (p && p < end) {
        const char *next = memchr(p, '\n', (size_t)(end - p));
        const char *over = next ? next : end;
        if ((size_t)(over - p) > n && !memcmp(p, name, n) && p[n] == ':') {
            p += n + 1;
            over -= over > p && over[-1] == '\r';
            snib__redis_error_text(ret, size, p, (uint32_t)(over - p));
            return true;
        }
        p = next ? next + 1 : NULL;
    }
    return false;
}

/* A user may be refused INFO; then only HELLO tells. Valkey, which HELLO may
 * call redis for old clients' sake, gives its own name here. */
void snib__state_info(struct snib__redis *s, int i,
                      const struct snib__resp_cell *c)
{
    struct greeting *g = &s->session[i].greeting;
    if (c->type != SNIB__RESP_STRING) {
        return;
    }
    state_line(c, "run_id", g->run_id, sizeof g->run_id);
    if (state_line(c, "valkey_version", g->version, sizeof g->version)) {
        snprintf(g->product, sizeof g->product, "valkey");
    }
}

/* Is it another server, or another life of that server? So it is under another
 * address that was found as the primary's, and under the same one if it was a
 * replica meanwhile, with the data of another server. Else the run id tells.
 * Where it is not known, a server of another name or version is another one. (With one
 * of two run ids the names may come from different answers.) So is one that has
 * given this connection a lower number than an earlier connection had, whose
 * number was heard before this one was made. */
static bool state_is_other(const struct snib__redis *s, const struct session *l)
{
    const struct greeting *is = &l->greeting, *was = &s->met;
    if (!s->met_at.ns) {
        return false;
    }
    if (s->topology && (s->topology->demoted ||
                        strcmp(s->topology->met, s->topology->primary) != 0)) {
        return true;
    }
    if (is->run_id[0] && was->run_id[0]) {
        return strcmp(is->run_id, was->run_id) != 0;
    }
    if (!is->run_id[0] && !was->run_id[0] &&
        (strcmp(is->product, was->product) != 0 ||
         strcmp(is->version, was->version) != 0)) {
        return true;
    }
    return is->number && is->number < was->number &&
           s->met_at.ns < l->opened.ns;
}

void snib__state_demoted(struct snib__redis *s, int i)
{
    struct topology *t = s->topology;
    if (t && !strcmp(s->out->conn[i]->address, t->met)) {
        t->demoted = true;
    }
}

void snib__state_met(struct snib__redis *s, snib_instant now, int i)
{
    const struct session *l = &s->session[i];
    if (i == SUBS) {
        return; /* it is not asked for its run id, and never there alone */
    }
    bool other = state_is_other(s, l);
    if (other) {
        s->out->moved = true;
    }
    if (other && s->watch) {
        s->out->changed = true;
        if (s->out->log) {
            s->out->log(s->out->log_data, SNIB_LOG_INFO,
                        "redis: another server answers, or it was restarted");
        }
    }
    if (s->topology) {
        memcpy(s->topology->met, s->topology->primary, sizeof s->topology->met);
        s->topology->demoted = false;
    }
    int64_t number = s->met.number;
    s->met = s->shown = l->greeting;
    if (other || !s->met_at.ns || s->met.number > number) {
        s->met_at = now;
    } else {
        s->met.number = number;
    }
}

void snib__state_server(const struct snib__redis *s, snib_instant now,
                        struct snib__server *ret)
{
    ret->state.nodes = 1;
    snib__state_read(s, now, &ret->state);
    memcpy(ret->address,
           s->topology ? s->topology->primary : s->out->conn[CALLERS]->address,
           sizeof ret->address);
    memcpy(ret->product, s->shown.product, sizeof ret->product);
    memcpy(ret->version, s->shown.version, sizeof ret->version);
    memcpy(ret->role, s->shown.role, sizeof ret->role);
    memcpy(ret->run_id, s->shown.run_id, sizeof ret->run_id);
    for (int i = 0; i < SESSIONS; i++) {
        const struct session *l = &s->session[i];
        if (l->state == SESSION_READY &&
            (!ret->connected.ns || l->since.ns < ret->connected.ns)) {
            ret->connected = l->since;
        }
    }
}
