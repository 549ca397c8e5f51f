/* history.c — a step in words. */
#include "history.h"

static const char *const acts[ACTS] = {
    [ACQUIRE] = "acquire", [REPEAT] = "repeat",   [POLL] = "poll",
    [RENEW] = "renew",     [RELEASE] = "release", [CANCEL] = "cancel",
    [YIELD] = "yield",     [BATCH] = "batch",     [FORCE] = "force",
    [PARAMS] = "params",   [LIST] = "list",       [PASS] = "pass"};

static const char *const kinds[] = {
    [SNIB_KIND_MUTEX] = "mutex",     [SNIB_KIND_READ] = "read",
    [SNIB_KIND_WRITE] = "write",     [SNIB_KIND_PERMITS] = "permits",
    [SNIB_KIND_BARRIER] = "barrier",
};

static const char *const ops[] = {"get",   "size", "init", "add",
                                  "close", "down", "open"};

static void step_number(FILE *out, const char *what, int64_t value)
{
    if (value) {
        fprintf(out, " %s=%lld", what, (long long)value);
    }
}

static void step_flag(FILE *out, const char *what, bool is)
{
    if (is) {
        fprintf(out, " %s", what);
    }
}

static void step_wish(FILE *out, const struct wish *w)
{
    fprintf(out, " #%d %s", w->claim, kinds[w->kind]);
    fprintf(out, " of %c for %lld ms", 'a' + w->name, (long long)w->lease_ms);
    if (w->kind == SNIB_KIND_PERMITS || w->kind == SNIB_KIND_BARRIER) {
        fprintf(out, " permits=%u", w->permits);
    }
    step_number(out, "capacity", w->capacity);
    step_number(out, "delay", w->delay_ms);
    step_number(out, "rank", w->rank);
    step_number(out, "reserve", w->reserve);
    step_number(out, "floor", w->floor);
    step_flag(out, "queues", w->queue);
    if (w->base != NOBODY) {
        fprintf(out, " upgrade_of=#%d", w->base);
    }
}

static void step_subject(FILE *out, const struct step *s)
{
    switch (s->act) {
    case ACQUIRE:
    case BATCH:
    case YIELD:
        for (int i = 0; i < s->count; i++) {
            step_wish(out, &s->wish[i]);
        }
        break;
    case REPEAT:
    case POLL:
    case RENEW:
    case RELEASE:
    case CANCEL:
        fprintf(out, " #%d", s->wish[0].claim);
        break;
    case FORCE:
        fprintf(out, " %c", 'a' + s->wish[0].name);
        break;
    case PARAMS:
        fprintf(out, " %c %s", 'a' + s->wish[0].name, ops[s->op]);
        break;
    case LIST:
    case PASS:
    case ACTS:
        break;
    }
}

void step_write(FILE *out, const struct step *s)
{
    fprintf(out, "client %d: %s", s->client, acts[s->act]);
    step_subject(out, s);
    if (s->act == PASS || s->act == RENEW) {
        step_number(out, s->act == PASS ? "ms" : "lease", s->ms);
    }
    step_number(out, "amount", s->amount);
    step_flag(out, "all", s->all);
    step_flag(out, "resent", s->resent);
    step_flag(out, "with-another-token", s->wrong);
    step_flag(out, "twice", s->again);
    step_flag(out, "then-a-late-copy", s->late);
    step_flag(out, "only-asks", s->asks);
    step_flag(out, "waiters-poll", s->keep);
    step_flag(out, "awaited-only", s->awaited);
    if (s->lost != NOBODY) {
        fprintf(out, ", nothing gets through to client %d", s->lost);
    }
}
