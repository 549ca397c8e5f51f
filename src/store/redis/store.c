/* store/redis/store.c — the store table, and its steps: requests come, bytes
 * come, time passes.
 *
 * Every step ends in the same way: what was heard of the primary is settled,
 * what can be sent is sent, a connection whose buffer found no memory is cut,
 * and the driver is to look at all of them. What becomes of a connection that
 * ends stands in session_end.c. */
#include <stdio.h>

#include "base/mem.h"
#include "store/redis/inspect_i.h"

static struct snib__redis *store_of(const struct snib__store *store)
{
    return (struct snib__redis *)(uintptr_t)store;
}

/* Is there work for this connection? */
static bool store_wanted(const struct snib__redis *s, int i)
{
    switch (i) {
    case CALLERS:
        return s->owned > 0 || s->ended_unsure;
    case BACKGROUND:
        return !snib__list_empty(&s->unsent[1]);
    case WATCH: /* a list is asked in doubt only; a Sentinel is listened to */
        return (s->owned > 0 || s->out->holds || s->ended_unsure) &&
               (s->topology->service || !s->topology->known);
    default:
        break;
    }
    if (s->queued || s->to_queue ||
        ((s->heard || s->out->listens) && s->out->holds)) {
        return true;
    }
    SNIB__LIST_EACH (l, &s->inspections) {
        if (SNIB__CONTAINER(l, struct inspection, link)->waits_subs) {
            return true;
        }
    }
    return false;
}

static void store_settle(struct snib__redis *s, snib_instant now)
{
    s->ended_unsure = s->ended_unsure && snib__ended_any(s, now);
    if (s->topology) {
        snib__watch_settle(s, now);
        if (store_wanted(s, WATCH)) {
            snib__session_want(s, now, WATCH);
        }
    }
    if (s->out->listens && store_wanted(s, SUBS)) {
        snib__session_want(s, now, SUBS); /* does nothing if it is there */
    }
    snib__send_flush(s, now);
    s->out->hears = s->session[SUBS].state == SESSION_READY;
    for (int i = 0; i < s->sessions; i++) {
        if (s->out->conn[i]->out.failed) {
            snib__session_cut(s, now, i, true, SNIB_ERR_NOMEM, "out of memory",
                              false);
        }
        snib__conn_touch(s->out, s->out->conn[i]);
    }
}

/* With recovery=: may it begin an epoch? Else it is a look, or of a value. */
static bool store_wants_lock(const struct snib__request *rq)
{
    switch (rq->verb) {
    case SNIB__INSPECT:
    case SNIB__LIST:
    case SNIB__DOCTOR:
    case SNIB__RECOVERY:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
        return false;
    case SNIB__PARAMS:
        return rq->params.op != SNIB__PARAMS_GET;
    case SNIB__ACQUIRE:
    case SNIB__RENEW:
    case SNIB__RELEASE:
    case SNIB__CANCEL:
    case SNIB__FORCE:
        break;
    }
    return true;
}

static void store_redis_start(struct snib__store *store, snib_instant now,
                              struct snib__list *chain)
{
    struct snib__redis *s = store_of(store);
    struct snib__link *l;
    while ((l = snib__list_pop(chain))) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        s->wants = s->wants || store_wants_lock(rq);
        snib__send_start(s, now, rq);
    }
    store_settle(s, now);
}

/* -- what a server says ---------------------------------------------------- */

/* A reply answers the oldest flight; of a script call for several requests, all
 * of them. */
static void store_answered(struct snib__redis *s, snib_instant now, int i,
                           const struct snib__resp_cell *c)
{
    struct session *l = &s->session[i];
    struct flight f;
    if (!l->count) {
        char text[200] = "a reply to nothing";
        if (c->type == SNIB__RESP_ERROR) {
            snib__redis_error_words(text, sizeof text, c->text, c->size);
        }
        snib__session_cut(s, now, i, true, SNIB_ERR_STORE, text, false);
        return;
    }
    s->out->conn[i]->awaited--;
    for (uint32_t k = 0; snib__session_pop(l, &f); k++) {
        if (f.job >= JOB_SUBSCRIBE && f.job <= JOB_AUTH) {
            snib__login_reply(s, now, i, (job)f.job, c);
        } else if (f.job == JOB_SLOTS) {
            (void)snib__node_told(s, now, i, c); /* else it is asked again */
        } else if (f.job == JOB_ENDED) {
            snib__ended_told(s, now, i, &f, c);
        } else if (f.job == JOB_MULTI || f.job == JOB_QUEUED) {
            snib__packet_queued(s, i, &f, c);
        } else if (f.safe) {
            snib__queue_overtaken(s, now, i, &f, c);
            snib__free(f.safe);
        } else if (f.job == JOB_REQUEST) {
            s->misread = false;
            if (!f.till) {
                snib__decode_reply(s, now, i, &f, c, k);
            } else if (!snib__packet_granted(s, now, &f, c, k)) {
                snib__packet_reply(s, now, i, &f, c, k);
            }
            l->proven = l->proven || c->type != SNIB__RESP_ERROR;
            if (c->type != SNIB__RESP_ERROR && !s->misread &&
                !s->state.good.ns) {
                snib__state_good(s, now);
            }
        }
        if (f.last) {
            break;
        }
    }
    l->doomed = l->doomed || l->unread;
    if (l->state == SESSION_READY && l->doomed && (!l->count || l->stuck)) {
        snib__session_end_doomed(s, now, i);
    }
}

static bool store_reads(const struct session *l)
{
    return l->state >= SESSION_LOGIN && l->state <= SESSION_READY;
}

/* Is it the beginning of an alert of TLS (RFC 8446, 5.1)? */
static bool store_is_alert(const uint8_t *bytes, size_t size)
{
    return size >= 2 && bytes[0] == 21 && bytes[1] == 3;
}

static void store_broken(struct snib__redis *s, snib_instant now, int i,
                         bool alert)
{
    const struct session *l = &s->session[i];
    bool greets = l->state == SESSION_HELLO;
    if (greets && alert) {
        snib__session_cut(s, now, i, true, SNIB_ERR_CONFIG,
                          "the server speaks TLS on this port: write rediss: "
                          "for redis:, or give the port without TLS",
                          true);
    } else {
        snib__session_cut(s, now, i, true, SNIB_ERR_STORE,
                          snib__resp_why(l->resp), greets);
    }
}

/* True: it is a message, and no reply. */
static bool store_hears(struct snib__redis *s, snib_instant now, int i,
                        const struct snib__resp_cell *c)
{
    return i == SUBS    ? snib__queue_hears(s, now, c)
           : i == WATCH ? snib__watch_hears(s, now, c)
                        : false;
}

/* True: these bytes are not read yet, since replicas are waited for. */
static bool store_keeps(struct snib__redis *s, snib_instant now, int i,
                        const void **bytes, size_t *size)
{
    confirm_bytes keeps = s->replicas && i < SUBS
                              ? snib__confirm_keeps(s, i, bytes, size)
                              : CONFIRM_READ;
    if (keeps == CONFIRM_NOMEM) {
        snib__session_cut(s, now, i, true, SNIB_ERR_NOMEM, "out of memory",
                          false);
    } else if (keeps == CONFIRM_MUCH) {
        snib__session_cut(s, now, i, true, SNIB_ERR_LIMIT,
                          "more came while replicas were waited for than is "
                          "kept",
                          false);
    }
    return keeps != CONFIRM_READ;
}

static void store_bytes(struct snib__redis *s, snib_instant now, int i,
                        const void *bytes, size_t size)
{
    struct session *l = &s->session[i];
    const struct snib__resp_cell *c;
    if (!store_reads(l) || store_keeps(s, now, i, &bytes, &size)) {
        return;
    }
    snib__resp_feed(l->resp, bytes, size);
    while (store_reads(l)) {
        switch (snib__resp_next(l->resp, &c)) {
        case SNIB__RESP_REPLY:
            if (l->state != SESSION_READY) {
                snib__session_greeted(s, now, i, c);
            } else if (!store_hears(s, now, i, c)) {
                store_answered(s, now, i, c);
            }
            break;
        case SNIB__RESP_MORE:
            if (s->replicas) {
                snib__session_confirmed(s, now, i);
            }
            return;
        case SNIB__RESP_BROKEN:
            store_broken(s, now, i, store_is_alert(bytes, size));
            return;
        case SNIB__RESP_NOMEM:
            snib__session_cut(s, now, i, true, SNIB_ERR_NOMEM, "out of memory",
                              false);
            return;
        }
    }
}

/* -- time ------------------------------------------------------------------ */

/* These two say when an overdue answer is noticed, and when it closes the
 * connection. A process that stood still may find that both instants have
 * passed while the answer lies unread in its socket. So the server gets a
 * moment more, counted from the step in which we noticed. */
static snib_instant store_notice_at(const struct snib__redis *s,
                                    const struct session *l)
{
    return snib__after(l->ring[l->head].sent,
                       (snib_duration){s->patience.ns / QUIET_PART});
}

static snib_instant store_close_at(const struct snib__redis *s,
                                   const struct session *l)
{
    return snib__later(snib__after(l->ring[l->head].sent, s->patience),
                       snib__state_silent_at(s, l));
}

/* Is it to be seen whether the other end is there? */
static bool store_pings(const struct snib__redis *s, int i)
{
    return i == SUBS    ? s->queued + s->to_queue > 0
           : i == WATCH ? store_wanted(s, WATCH)
                        : false;
}

/* One node that does not answer keeps nobody waiting for long: the next one may
 * know. */
static snib_instant store_node_by(const struct snib__redis *s,
                                  const struct session *l)
{
    return snib__after(l->since, (snib_duration){s->patience.ns / QUIET_PART});
}

static snib_instant store_session_due(const struct snib__redis *s, int i)
{
    const struct session *l = &s->session[i];
    snib_instant due = SNIB__NEVER;
    switch (l->state) {
    case SESSION_OPENING:
        return i == WATCH ? store_node_by(s, l)
                          : snib__after(l->since, s->patience);
    case SESSION_CLOSING:
        return snib__after(l->since, s->patience);
    case SESSION_RESTING:
        /* Before the primary is known only WATCH is opened. */
        return store_wanted(s, i) &&
                       (i == WATCH || !s->topology || s->topology->known)
                   ? l->rest_until
                   : SNIB__NEVER;
    case SESSION_READY:
        if (store_pings(s, i)) {
            due = l->ping_at;
        }
        if (l->login_at.ns && !l->asked) {
            due = snib__sooner(due, l->login_at);
        }
        break;
    case SESSION_LOGIN:
    case SESSION_HELLO:
    case SESSION_SLOTS:
    case SESSION_REPLICA:
    case SESSION_SELECT:
    case SESSION_PROBE:
    case SESSION_LAYOUT_SET:
    case SESSION_LAYOUT_GET:
    case SESSION_RECOVERY:
    case SESSION_INFO:
    case SESSION_TIME:
    case SESSION_SUBSCRIBE:
    case SESSION_EPOCH:
    case SESSION_ASKED:
        break;
    case SESSION_DOWN:
        return SNIB__NEVER;
    }
    if (l->count && i == WATCH && l->state != SESSION_READY) {
        return store_node_by(s, l);
    }
    if (l->count) {
        due = snib__sooner(due, l->overdue.ns ? store_close_at(s, l)
                                              : store_notice_at(s, l));
    }
    return due;
}

static void store_ping(struct snib__redis *s, snib_instant now, int i)
{
    struct session *l = &s->session[i];
    l->ping_at =
        snib__after(now, snib__ms(i == SUBS ? POLL_MS : WATCH_PING_MS));
    if (l->count || !snib__session_has_room(s, i, 1)) {
        return; /* a PING is awaited: its silence will tell */
    }
    snib__resp_begin(&s->out->conn[i]->out, 1);
    snib__resp_arg(&s->out->conn[i]->out, "PING", 4);
    snib__session_push(
        s, i, &(struct flight){.job = JOB_PING, .sent = now, .last = true});
}

/* It has been asked, and does not answer. */
static bool store_is_silent(const struct snib__redis *s, snib_instant now,
                            int i)
{
    const struct session *l = &s->session[i];
    return l->count &&
           snib__reached(now, i == WATCH && l->state != SESSION_READY
                                  ? store_node_by(s, l)
                                  : store_close_at(s, l));
}

static void store_session_tick(struct snib__redis *s, snib_instant now, int i)
{
    struct session *l = &s->session[i];
    char text[sizeof l->text];
    if (!snib__reached(now, store_session_due(s, i))) {
        return;
    }
    switch (l->state) {
    case SESSION_OPENING:
        snprintf(text, sizeof text,
                 "no connection to %.*s within the time allowed%s",
                 ADDRESS_SHOWN, s->out->conn[i]->address,
                 s->out->conn[i]->transport == SNIB__TLS
                     ? " (if it is the port without TLS, write redis:)"
                     : "");
        snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE, text, false);
        break;
    case SESSION_RESTING:
        snib__session_want(s, now, i);
        break;
    case SESSION_LOGIN:
    case SESSION_HELLO:
    case SESSION_SLOTS:
    case SESSION_REPLICA:
    case SESSION_SELECT:
    case SESSION_PROBE:
    case SESSION_LAYOUT_SET:
    case SESSION_LAYOUT_GET:
    case SESSION_RECOVERY:
    case SESSION_INFO:
    case SESSION_TIME:
    case SESSION_SUBSCRIBE:
    case SESSION_EPOCH:
    case SESSION_ASKED:
    case SESSION_READY:
        if (l->count && !l->overdue.ns &&
            snib__reached(now, store_notice_at(s, l))) {
            l->overdue = now;
        }
        if (store_is_silent(s, now, i)) {
            snib__session_cut(s, now, i, true, SNIB_ERR_UNREACHABLE,
                              "the server does not answer", false);
        } else if (l->state == SESSION_READY && l->login_at.ns && !l->asked &&
                   snib__reached(now, l->login_at)) {
            snib__login_ask(s, i);
        } else if (l->state == SESSION_READY && i >= SUBS &&
                   snib__reached(now, l->ping_at)) {
            store_ping(s, now, i);
        }
        break;
    case SESSION_CLOSING:
        l->state = SESSION_RESTING; /* nobody has said that it is closed */
        break;
    case SESSION_DOWN:
        break;
    }
}

static void store_tick(struct snib__redis *s, snib_instant now)
{
    struct snib__timer *t;
    for (int i = 0; i < s->sessions; i++) {
        store_session_tick(s, now, i);
    }
    while ((t = snib__heap_min(&s->timers)) && snib__reached(now, t->at)) {
        snib__heap_remove(&s->timers, t);
        snib__send_due(s, now,
                       SNIB__CONTAINER(t, struct snib__request, store.timer));
    }
}

static void store_redis_input(struct snib__store *store, snib_instant now,
                              const struct snib__input *in)
{
    struct snib__redis *s = store_of(store);
    int i = in->conn;
    switch (in->kind) {
    case SNIB__IN_OPENED:
        if (i < s->sessions && s->session[i].state == SESSION_OPENING) {
            snib__session_opened(s, now, i);
        }
        break;
    case SNIB__IN_BYTES:
        if (i < s->sessions) {
            store_bytes(s, now, i, in->bytes, in->size);
        }
        break;
    case SNIB__IN_CLOSED:
    case SNIB__IN_REFUSED:
        if (i < s->sessions) {
            snib__session_closed(s, now, in);
        }
        break;
    case SNIB__IN_LOGIN:
        if (i < s->sessions) {
            snib__session_login(s, now, i, in);
        }
        break;
    case SNIB__IN_NOTIFIED:
        break;
    case SNIB__IN_TICK:
        store_tick(s, now);
        break;
    }
    store_settle(s, now);
}

static snib_instant store_redis_due(const struct snib__store *store)
{
    const struct snib__redis *s = store_of(store);
    snib_instant due = snib__heap_due(&s->timers);
    for (int i = 0; i < s->sessions; i++) {
        due = snib__sooner(due, store_session_due(s, i));
    }
    return snib__sooner(due, s->collect_until);
}

static void store_redis_state(const struct snib__store *store, snib_instant now,
                              struct snib__store_state *ret)
{
    snib__state_read(store_of(store), now, ret);
}

static bool store_redis_server(const struct snib__store *store,
                               snib_instant now, uint32_t node,
                               struct snib__server *ret)
{
    snib__state_server(store_of(store), now, ret);
    return node == 0;
}

const struct snib__store_ops snib__redis_store_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__store_ops),
    .scheme = "redis",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH | SNIB__CAN_KEEP,
    .open = snib__redis_open,
    .start = store_redis_start,
    .input = store_redis_input,
    .due = store_redis_due,
    .state = store_redis_state,
    .server = store_redis_server,
    .free = snib__redis_free,
};
