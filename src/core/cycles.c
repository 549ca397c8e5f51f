/* core/cycles.c — finding the deadlock that a wait may be part of.
 *
 * An owner that holds something and waits tells others what it holds
 * (core/nested.c), and core/waits.c makes a graph of what all clients say.
 *
 * When it scans. 1 s after a nested wait began, then every 2 s and up to a
 * quarter more, the client lists the locks that are waited for: one scan for
 * all its nested waits that are 1 s old by then. (A wait that nobody else can
 * see is not looked for: core/move.c shows it before that.) After two scans in a row that
 * took long, the next one is 50 times as far away as the shorter of them took,
 * so scanning costs a server at most about a fiftieth of its time per client.
 * The time of a scan counts from when it was sent: the length of an outage
 * costs the server nothing, and must not put off the next scan by as many
 * minutes. A process that was stopped during a scan sees a long one too, so a
 * single long scan, even the very first, puts off nothing. A store that has to
 * search for long keeps to the fiftieth within a scan as well: it pauses, and
 * those pauses count as rest.
 *
 * Who gives up. The youngest wait of a deadlock whose owner holds what another
 * one waits for (core/waits.h) is scanned again 600 ms after that answer. If
 * the very same deadlock (the same requests and grants) is there again, all of
 * it existed at one instant between the two scans, and a deadlock that exists
 * at one instant stays: it is proven. The wait is refused, with the cycle in
 * its error.
 *
 * A wait above which something is held (snib run inside snib run) must also
 * have been heard of since the first of these two scans. When such a process is
 * killed, its wait stands in the queue for 3 s yet, but the command above goes
 * on at once. Since a waiter polls each second, that takes a scan or two more.
 *
 * The clocks of different hosts decide only who is the youngest, hence who is
 * refused, not whether. A scan that fails, or finds no memory, is as good as
 * none. Nothing here keeps a caller waiting: it is one direct request more. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/engine_i.h"
#include "core/waits.h"

enum {
    EVERY_MS = 2000,
    PROOF_MS = 600,      /* from one answer to the next scan, at least */
    PATIENCE_MS = 20000, /* a scan may walk a large store */
    CALM = 50,           /* length of a scan times this: pause to the next */
    SHOWN_MAX = 8        /* waits of a cycle that the error names */
};

void snib__cycles_init(struct snib__engine *e)
{
    for (int i = 0; i < SNIB__OWNERS; i++) {
        snib__list_init(&e->owners[i]);
    }
    snib__list_init(&e->cycles.nested);
    snib__link_init(&e->cycles.direct.told);
    snib__buf_init(&e->cycles.direct.result, 0);
}

void snib__cycles_free(struct snib__engine *e)
{
    snib__buf_free(&e->cycles.direct.result);
}

/* -- when ----------------------------------------------------------------- */

/* Clients that began together should not scan together. */
static snib_duration cycles_apart(const struct snib__engine *e, int64_t ms)
{
    return snib__ms(ms + (int64_t)(e->client[0] % (uint64_t)(ms / 4)));
}

snib_instant snib__cycles_due(const struct snib__engine *e)
{
    snib_instant due = SNIB__NEVER;
    if (e->cycles.scanning || e->closed) {
        return due;
    }
    SNIB__LIST_EACH (l, &e->cycles.nested) {
        const struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, nested);
        if (!snib__nested_says(s)) {
            continue;
        }
        /* The second scan of a proof is not put off. */
        due = snib__sooner(due, s->deadlock_id
                                    ? s->scan_at
                                    : snib__later(s->scan_at, e->cycles.again));
    }
    return due;
}

void snib__cycles_tick(struct snib__engine *e, snib_instant now)
{
    struct snib__cycles *c = &e->cycles;
    if (!snib__reached(now, snib__cycles_due(e))) {
        return;
    }
    snib__buf_free(&c->direct.result);
    c->direct =
        (struct snib__direct){.verb = SNIB__LIST,
                              .text = "*",
                              .awaited_only = true,
                              .limit = snib__after(now, snib__ms(PATIENCE_MS))};
    c->scanning = true;
    c->asked = now;
    if (snib__direct_start(e, now, &c->direct)) { /* no memory: later */
        c->scanning = false;
        c->again = snib__after(now, snib__ms(EVERY_MS));
    }
}

/* -- the answer ----------------------------------------------------------- */

struct words {
    char *text;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *w,
                                                      const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(w->text + w->used, w->size - w->used, format, ap);
    va_end(ap);
    size_t room = w->size - w->used - 1;
    w->used += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
}

/* The error is one line: what is not plain text is shown as '?'. */
static void cycles_say_name(struct words *w, const struct snib__wait *wait)
{
    enum { MOST = 40 };
    const uint8_t *p = wait->name;
    char text[MOST + 1];
    uint32_t n = wait->name_size < MOST ? wait->name_size : MOST;
    while (n && n < wait->name_size && (p[n] & 0xc0) == 0x80) {
        n--; /* no half of a character */
    }
    for (uint32_t i = 0; i < n; i++) {
        text[i] = p[i] >= 0x20 && p[i] != 0x7f ? (char)p[i] : '?';
    }
    text[n] = 0;
    say(w, "'%s%s'", text, wait->name_size > MOST ? "..." : "");
}

static void cycles_say_who(struct words *w, const struct snib__wait *wait,
                           const struct snib__wait *me)
{
    char host[33];
    size_t n = 0;
    for (; n < sizeof host - 1 && wait->about.host[n]; n++) {
        char c = wait->about.host[n];
        host[n] = (unsigned char)c >= 0x20 && c != 0x7f ? c : '?';
    }
    host[n] = 0;
    if (wait == me) {
        say(w, "this");
    } else {
        say(w, "%s/%" PRId64 " owner %" PRId64, host, wait->about.pid,
            wait->about.owner);
    }
}

/* "this waits for 'a' held by h/1 owner 2; h/1 owner 2 waits for 'b' held by
 * this". Sentences that do not fit are counted: a sentence is shown whole or
 * not at all. */
static void cycles_tell_cycle(const struct snib__waits *g, uint32_t me,
                              struct snib_error *error)
{
    uint32_t cycle[SHOWN_MAX];
    uint32_t length = snib__waits_cycle(g, me, true, cycle, SHOWN_MAX);
    struct words w = {error->text, sizeof error->text, 0};
    uint32_t shown = length < SHOWN_MAX ? length : SHOWN_MAX;
    *error = (struct snib_error){.code = SNIB_ERR_DEADLOCK};
    say(&w, "deadlock: ");
    size_t whole = w.used; /* with space behind it for "; and 9 more" */
    uint32_t told = 0;
    for (uint32_t i = 0; i < shown; i++) {
        uint32_t next = i + 1 < length && i + 1 < shown ? cycle[i + 1]
                        : i + 1 < length                ? SNIB__WAIT_NONE
                                                        : cycle[0];
        const struct snib__wait *a = &g->waits[cycle[i]];
        say(&w, "%s", i ? "; " : "");
        cycles_say_who(&w, a, &g->waits[me]);
        say(&w, " waits for ");
        cycles_say_name(&w, a);
        if (next != SNIB__WAIT_NONE) {
            const struct snib__edge *e =
                snib__waits_edge(g, cycle[i], next, true);
            say(&w, " %s ", e && e->queue ? "behind" : "held by");
            cycles_say_who(&w, &g->waits[next], &g->waits[me]);
        }
        if (w.used + 1 >= w.size) {
            w.used = whole;
            say(&w, "; and %" PRIu32 " more", length - told);
            return;
        }
        if (w.used <= w.size - 24) {
            whole = w.used;
            told = i + 1;
        }
    }
    if (shown < length) {
        say(&w, "; and %" PRIu32 " more", length - shown);
    }
}

__attribute__((format(printf, 3, 4))) static void
cycles_log(struct snib__engine *e, int level, const char *fmt, ...)
{
    if (e->out.log) {
        char line[320];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(line, sizeof line, fmt, ap);
        va_end(ap);
        e->out.log(e->out.log_data, level, line);
    }
}

/* Judges the wait s by this scan. True: it is refused. */
static bool cycles_judge(struct snib__engine *e, snib_instant now,
                         const struct snib__waits *g,
                         struct snib__acquisition *s)
{
    const struct snib__claim *t = s->local->claim;
    s->scan_at = now; /* with the client's next scan */
    uint32_t me = t && t->state == SNIB__CLAIM_QUEUED
                      ? snib__waits_find(g, t->id)
                      : SNIB__WAIT_NONE;
    uint32_t set =
        me == SNIB__WAIT_NONE ? SNIB__WAIT_NONE : g->waits[me].sure_set;
    if (set == SNIB__WAIT_NONE || snib__waits_youngest(g, set, true) != me) {
        s->deadlock_id = 0;
        return false;
    }
    uint64_t id = snib__waits_id(g, set, true);
    int64_t unheard = snib__waits_unheard(g, set, true);
    int64_t proof = unheard > PROOF_MS ? unheard : PROOF_MS;
    bool again = s->deadlock_id == id && unheard < INT64_MAX &&
                 snib__reached(e->cycles.asked,
                               snib__after(s->deadlock_at, snib__ms(proof)));
    if (!again) {
        if (s->deadlock_id != id) {
            s->deadlock_id = id;
            s->deadlock_at = now;
        }
        s->scan_at = snib__after(now, snib__ms(PROOF_MS));
        return false;
    }
    struct snib_error error;
    cycles_tell_cycle(g, me, &error);
    cycles_log(e, SNIB_LOG_WARN, "%s", error.text);
    snib__acquisition_deadlock(e, now, s, &error);
    return true;
}

/* Sets when to scan again, proofs apart. Before the first scan there was none,
 * which counts as one that took no time. A scan that was cut off, or never
 * sent, has cost the server nothing that would have to be made good. */
static void cycles_rest(struct snib__engine *e, snib_instant now)
{
    struct snib__cycles *c = &e->cycles;
    int64_t all = now.ns - c->asked.ns;
    int64_t took = c->direct.took.ns > 0 ? c->direct.took.ns : all;
    int64_t rested = all > took ? all - took : 0;
    bool cost = !c->direct.err || (c->direct.answer == SNIB__UNKNOWN &&
                                   snib__reached(now, c->direct.limit));
    c->again = snib__after(now, cycles_apart(e, EVERY_MS));
    if (cost) {
        int64_t before = c->took.ns;
        c->took.ns = took;
        took = took < before ? took : before;
        c->again = snib__later(
            c->again, snib__after(now, (snib_duration){took * CALM - rested}));
    }
}

/* Acquisitions that came while the scan was under way may be missing in it;
 * their own time has not come yet. */
void snib__cycles_answer(struct snib__engine *e, snib_instant now,
                         snib_instant sent)
{
    struct snib__cycles *c = &e->cycles;
    struct snib__waits *g = NULL;
    c->scanning = false;
    c->asked = snib__later(c->asked, sent); /* it may have waited for a
                                               connection */
    cycles_rest(e, now);
    if (c->direct.err) {
        cycles_log(e, SNIB_LOG_DEBUG, "no look for deadlocks: %s",
                   c->direct.error.text);
    }
    if (!c->direct.err && !e->closed) {
        g = snib__waits_new(snib__buf_bytes(&c->direct.result),
                            snib__buf_size(&c->direct.result));
    }
    SNIB__LIST_EACH_SAFE (l, next, &c->nested) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, nested);
        if (!snib__nested_says(s) || !snib__reached(c->asked, s->scan_at)) {
            continue;
        }
        if (g) {
            (void)cycles_judge(e, now, g, s);
        } else {
            s->scan_at = c->again;
        }
    }
    snib__waits_free(g);
    snib__buf_free(&c->direct.result);
}
