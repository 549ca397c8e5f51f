/* wide_tell.c — what a caller is told, into the run's number. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "snib/event.h"
#include "snib/inspect.h"
#include "unseen.h"
#include "wide.h"

/* A process' number is another in each run. */
static void mask(char *text)
{
    static const char before[] = "belongs to process ";
    char *at = strstr(text, before);
    if (at) {
        at += sizeof before - 1;
        size_t n = strspn(at, "0123456789");
        memmove(at, at + n, strlen(at + n) + 1);
    }
}

void tell(const char *format, ...)
{
    enum { PART = 350 };
    char text[6000];
    va_list args;
    UNSEEN;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mask(text);
    for (size_t i = 0, n = strlen(text); i < n; i += PART) {
        sched_say("%.350s", text + i);
    }
    if (sched.run && sched.run->verbose) {
        printf("%12" PRId64 " %2d  %s\n", sched_now() / 1000 - 1000000000,
               sched_self(), text);
    }
}

struct snib_error *reserve(struct snib_error *e)
{
    memset(e, 'x', sizeof *e);
    e->text[sizeof e->text - 1] = 0;
    e->code = SNIB_ERR_INTERNAL;
    return chance("no room for the error", 8) ? NULL : e;
}

/* An error is what was returned, and says something. */
snib_err told(const char *what, snib_err err, const struct snib_error *e)
{
    tell("%s = %s: %s", what, snib_err_name(err), e ? e->text : "-");
    if (e && e->code != err) {
        sched_fail("%s returned %s, and its error is %s", what,
                   snib_err_name(err), snib_err_name(e->code));
    }
    if (e && !err != !e->text[0]) {
        sched_fail("%s returned %s and '%s'", what, snib_err_name(err),
                   e->text);
    }
    if (err == SNIB_ERR_INTERNAL && !wide.hostile) {
        sched_fail("%s returned INTERNAL: %s", what, e ? e->text : "-");
    }
    return err;
}

void tell_bytes(const char *what, const void *bytes, size_t size)
{
    const uint8_t *b = bytes;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) {
        h = (h ^ b[i]) * 1099511628211u;
    }
    tell("%s: %zu bytes %016" PRIx64, what, size, h);
}

void tell_grant(const char *what, snib_err err, struct snib_grant g)
{
    tell("%s: ticket %" PRIu64 " token %" PRId64, what, g.ticket, g.token);
    if (!err != !!g.ticket || (err && g.token) || g.token < 0) {
        sched_fail("%s returned %s and the grant %" PRIu64, what,
                   snib_err_name(err), g.ticket);
    }
}

void tell_status(struct snib_lock *lock, struct snib_grant g)
{
    struct snib_status s;
    memset(&s, 1, sizeof s);
    snib_grant_status(lock, g, &s, sizeof s);
    tell("status %s %s token %" PRId64 " left %" PRId64 " held %" PRId64
         " holds %u kind %d permits %u slot %" PRId64 ", %d",
         snib_state_text(s.state), snib_cause_text(s.cause), s.token, s.left_ms,
         s.held_ms, s.holds, (int)s.kind, s.permits, s.slot,
         snib_grant_held(lock, g));
    if (s.left_ms < 0 || s.held_ms < 0) {
        sched_fail("a status that cannot be");
    }
}

void tell_grants(struct wide_actor *a)
{
    for (int i = 0; i < WIDE_GRANTS; i++) {
        struct wide_grant *g = &a->grant[i];
        if (g->lock) {
            char text[SNIB_EXPLAIN_TEXT];
            tell_status(g->lock, g->grant);
            snib_grant_explain(g->lock, g->grant, text, sizeof text);
            tell("explains: %s", text);
        }
    }
}

static void tell_party(const char *what, const struct snib_party *p)
{
    tell("%s %s %s %s %s '%s' pid %" PRId64 " since %" PRId64 " left %" PRId64
         " token %" PRId64 " kind %d permits %u holds %u self %d owner %" PRIu64
         " %s [%s] slot %" PRId64,
         what, p->client_id, p->host, p->user, p->program, p->reason, p->pid,
         p->since_ms, p->left_ms, p->token, (int)p->kind, p->permits, p->holds,
         p->self, p->owner, p->request, p->holding, p->slot);
}

void tell_view(const struct snib_view *v)
{
    tell_bytes("view", v->name, v->name_size + 1);
    tell("token %" PRId64 ": %zu %zu %zu more %u closed %" PRId64, v->token,
         v->holder_count, v->waiter_count, v->closed_count, v->holders_more,
         v->closed_ms);
    for (size_t i = 0; i < v->holder_count; i++) {
        tell_party("holder", v->holders[i]);
    }
    for (size_t i = 0; i < v->waiter_count; i++) {
        tell_party("waiter", v->waiters[i]);
    }
    for (size_t i = 0; i < v->closed_count; i++) {
        tell_party("closed", v->closed_by[i]);
    }
}

void tell_event(int client, const struct snib_event *e)
{
    tell("event %d of %d: ticket %" PRIu64 " token %" PRId64 " user %d %s %s "
         "%s: %s",
         (int)e->kind, client, e->grant.ticket, e->grant.token,
         (int)(intptr_t)e->user, snib_state_text(e->state),
         snib_cause_text(e->cause), snib_err_name(e->error.code),
         e->error.text);
    wide.events[client] += e->kind != SNIB_EVENT_STATE;
    bool granted = e->kind == SNIB_EVENT_GRANTED;
    if ((granted && (e->error.code || e->state != SNIB_STATE_HELD)) ||
        (e->kind == SNIB_EVENT_REFUSED && (!e->error.code || e->grant.token)) ||
        wide.events[client] > wide.starts[client]) {
        sched_fail("an event that cannot be");
    }
}

void tell_fd(const char *what, int fd)
{
    struct pollfd v = {.fd = fd, .events = POLLIN};
    tell("%s: %s", what,
         fd < 0                                 ? "none"
         : sched_poll(&v, 1, sched_now(), NULL) ? "speaks"
                                                : "is silent");
}

void tell_store(int client)
{
    struct snib_store_status s;
    snib_client_store_status(wide.client[client], &s);
    tell("store %d %s %" PRId64 " %u of %u: %s", s.reachable,
         snib_err_name(s.error), s.for_ms, s.nodes_reachable, s.nodes, s.text);
}

void tell_ring(const struct snib_ring *r)
{
    size_t n = snib_ring_count(r), size = 7, order[6];
    tell("ring of %zu: %016" PRIx64, n, snib_ring_fingerprint(r));
    for (size_t i = 0; i <= n && i < 12; i++) {
        size = 0;
        const char *id = snib_ring_id(r, i, chance("size", 2) ? &size : NULL);
        tell("%zu %s %zu, found %zu", i, id ? id : "-", size,
             id ? snib_ring_find(r, id, chance("exact", 2) ? size : 0) : 0);
    }
    for (int i = 0; i < 4; i++) {
        char key[24];
        int k = snprintf(key, sizeof key, "key-%d", (int)pick("key", 1000));
        size_t max = pick("owners", 7);
        size_t found = snib_ring_owners(r, key, (size_t)k, order, max);
        tell("%s is of %zu, %zu", key, snib_ring_owner(r, key, (size_t)k),
             found);
        for (size_t o = 0; o < found; o++) {
            tell(" %zu", order[o]);
        }
    }
}
