/* waitline.c — see waitline.h. */
#define _GNU_SOURCE
#include "cli/words/waitline.h"
#include "cli/cli.h"
#include "cli/words/duration.h"
#include "snib/inspect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
/* A wait that ends sooner is not mentioned. */
#define PATIENCE (SECOND / 10)
/* How often to check whether the store went away or came back. */
#define WATCH (SECOND / 4)

void waitline_init(struct waitline *w, bool quiet, int64_t now_ns)
{
    const char *term;

    *w = (struct waitline){
        .started_ns = now_ns, .due_ns = INT64_MAX, .watch_ns = INT64_MAX};
    if (quiet) {
        return;
    }
    term = getenv("TERM");
    w->due_ns = now_ns + PATIENCE;
    w->watch_ns = now_ns + PATIENCE;
    w->place = term != NULL && strcmp(term, "dumb") != 0 && isatty(2)
                   ? WAITLINE_TERMINAL
                   : WAITLINE_LOG;
}

static void waitline_schedule(struct waitline *w, int64_t now_ns)
{
    static const int64_t marks[] = {10 * SECOND, 60 * SECOND};
    int64_t waited = now_ns - w->started_ns;

    if (w->place == WAITLINE_TERMINAL) {
        w->due_ns = now_ns + SECOND;
        return;
    }
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (waited < marks[i]) {
            w->due_ns = w->started_ns + marks[i];
            return;
        }
    }
    w->due_ns = w->started_ns + (waited / (300 * SECOND) + 1) * (300 * SECOND);
}

static bool waitline_has_request(const struct snib_party *p)
{
    return p->request != NULL && p->request[strspn(p->request, "0")] != '\0';
}

/* A table may have no room for the host, a server may not tell it: then by its
 * program, and by the request, which others who look see as well. */
static void waitline_nameless(struct text *t, const struct snib_party *p)
{
    static const char stranger[] = "not snib";
    bool ours = strcmp(p->program, "snib") == 0;

    if (strncmp(p->program, stranger, sizeof stranger - 1) == 0) {
        text_add(t, "a client that is ");
    }
    if (p->program[0] != '\0' && !ours) {
        text_add_shown(t, p->program, strlen(p->program));
    } else if (ours || waitline_has_request(p)) {
        text_add(t, "a client of snib");
    } else {
        text_add(t, "an unknown client");
    }
    if (waitline_has_request(p)) {
        text_addf(t, " (request %.16s)", p->request);
    }
}

void waitline_party(struct text *t, const struct snib_party *p)
{
    if (p->host[0] == '\0') {
        waitline_nameless(t, p);
    }
    text_add_shown(t, p->host, strlen(p->host));
    if (p->pid > 0) {
        text_addf(t, "/%" PRId64, p->pid);
    }
    if (p->user[0] != '\0' || p->reason[0] != '\0') {
        text_add(t, " (");
        text_add_shown(t, p->user, strlen(p->user));
        if (p->reason[0] != '\0') {
            text_add(t, p->user[0] != '\0' ? ", \"" : "\"");
            text_add_shown(t, p->reason, strlen(p->reason));
            text_add(t, "\"");
        }
        text_add(t, ")");
    }
}

void waitline_program(struct text *t, const struct snib_party *p)
{
    if (p->host[0] != '\0' && p->program[0] != '\0') {
        text_add(t, " running ");
        text_add_shown(t, p->program, strlen(p->program));
    }
}

static const char *waitline_ordinal(size_t n)
{
    if (n % 100 >= 11 && n % 100 <= 13) {
        return "th";
    }
    switch (n % 10) {
    case 1:
        return "st";
    case 2:
        return "nd";
    case 3:
        return "rd";
    default:
        return "th";
    }
}

static void waitline_add_place(struct text *t, const struct snib_view *view)
{
    for (size_t i = 0; i < view->waiter_count; i++) {
        if (view->waiters[i]->self) {
            text_addf(t, "; you are %zu%s of %zu", i + 1,
                      waitline_ordinal(i + 1), view->waiter_count);
            return;
        }
    }
}

void waitline_skip(struct waitline *w, int64_t now_ns)
{
    w->due_ns = now_ns + SECOND;
}

/* A line that wraps could not be wiped. Bytes count as columns: a line that is
 * too short is harmless. */
static size_t waitline_terminal_width(void)
{
    struct winsize size;

    return ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col
                                                                : 80;
}

/* Begin a line; waitline_print writes it. */
static struct text waitline_begin(const struct waitline *w, char *line,
                                  size_t size)
{
    struct text t = {.bytes = line, .size = size - 8};

    line[0] = '\0';
    if (w->place == WAITLINE_TERMINAL) {
        text_add(&t, "\r");
        t.size = waitline_terminal_width() < size - 8
                     ? waitline_terminal_width()
                     : size - 8;
    }
    return t;
}

static void waitline_print(struct waitline *w, struct text *t, int64_t now_ns)
{
    t->size += 8;
    t->cut = false;
    text_add(t, w->place == WAITLINE_TERMINAL ? "\033[K" : "\n");
    w->shown = w->place == WAITLINE_TERMINAL;
    say_raw(t->bytes, t->used);
    waitline_schedule(w, now_ns);
}

void waitline_show(struct waitline *w, const struct snib_view *view,
                   const struct kind_params *params, int64_t now_ns)
{
    char line[1024];
    struct text t;

    if (w->place == WAITLINE_OFF) {
        w->due_ns = INT64_MAX;
        return;
    }
    if (view->holder_count == 0 && view->waiter_count == 0 &&
        view->closed_count == 0 && view->recovery_ms == 0 &&
        params->latch == 0) {
        waitline_skip(w, now_ns); /* the lock is about to be granted */
        return;
    }
    t = waitline_begin(w, line, sizeof line);
    text_add_shown(&t, view->name, view->name_size);
    text_add(&t, ": ");
    kind_holders(&t, view, params);
    waitline_add_place(&t, view);
    waitline_print(w, &t, now_ns);
}

/* -- an unreachable store ------------------------------------------------- */

static bool waitline_is_away(const struct snib_store_status *s)
{
    return !s->reachable && s->error != SNIB_ERR_OK;
}

void waitline_watch(struct waitline *w, struct snib_client *client,
                    int64_t now_ns)
{
    struct snib_store_status status;

    if (w->place == WAITLINE_OFF) {
        w->watch_ns = INT64_MAX;
        return;
    }
    w->watch_ns = now_ns + WATCH;
    snib_client_store_status(client, &status);
    if (waitline_is_away(&status) != w->away) {
        w->away = waitline_is_away(&status);
        w->started_ns = w->due_ns = now_ns;
    }
}

bool waitline_store(struct text *t, struct snib_client *client)
{
    const char *url = snib_client_url(client);
    struct snib_store_status status;
    char since[DURATION_TEXT_MAX];

    snib_client_store_status(client, &status);
    if (!waitline_is_away(&status)) {
        return false;
    }
    duration_text(status.for_ms, since);
    text_add_shown(t, url, strlen(url));
    text_addf(t, " %s for %s",
              status.error == SNIB_ERR_UNREACHABLE ? "unreachable"
                                                   : "not usable",
              since);
    if (status.text[0] != '\0') {
        text_add(t, " (");
        text_add_shown(t, status.text, strlen(status.text));
        text_add(t, ")");
    }
    return true;
}

bool waitline_away(struct waitline *w, struct snib_client *client,
                   const char *name, int64_t now_ns)
{
    char line[1024], why[512] = "";
    struct text t, store = TEXT_IN(why);

    if (w->place == WAITLINE_OFF || !waitline_store(&store, client)) {
        return false;
    }
    if (!w->away) { /* else the next check would have it said once more */
        w->away = true;
        w->started_ns = now_ns;
    }
    t = waitline_begin(w, line, sizeof line);
    text_add_shown(&t, name, strlen(name));
    text_add(&t, ": ");
    text_add(&t, why);
    text_add(&t, "; waiting");
    waitline_print(w, &t, now_ns);
    return true;
}

void waitline_wipe(struct waitline *w)
{
    if (w->shown) {
        say_raw("\r\033[K", 4);
        w->shown = false;
    }
}
