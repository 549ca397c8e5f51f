/* show.c — see show.h. The field names of the JSON (schema 1) are a promise:
 * fields are added, never renamed. */
#define _GNU_SOURCE
#include "cli/words/show.h"
#include "cli/cli.h"
#include "cli/words/duration.h"
#include "cli/words/kinds.h"
#include "cli/words/text.h"
#include "cli/words/waitline.h"
#include "snib/inspect.h"

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Did the library that makes the JSON run out of memory? It leaves out what it
 * cannot make, or all of it, and goes on: so its memory functions are watched
 * here. */
static bool json_is_short;

static void *show_json_allocate(size_t size)
{
    void *ret = malloc(size);

    json_is_short = json_is_short || ret == NULL;
    return ret;
}

void show_begin(void)
{
    json_set_alloc_funcs(show_json_allocate, free);
}

json_t *show_json_answer(void)
{
    json_t *o = json_object();

    json_object_set_new(o, "schema", json_integer(1));
    return o;
}

json_t *show_json_text(const char *bytes, size_t size)
{
    /* One byte becomes at most three (U+FFFD). */
    char *fit = malloc(size * 3 + 1);
    size_t used = 0;
    json_t *ret;

    if (fit == NULL) {
        json_is_short = true;
        return NULL;
    }
    while (size > 0) {
        size_t n = text_utf8(bytes, size);

        if (n == 0) {
            memcpy(fit + used, "\xEF\xBF\xBD", 3);
            used += 3;
            n = 1;
        } else {
            memcpy(fit + used, bytes, n);
            used += n;
        }
        bytes += n;
        size -= n;
    }
    ret = json_stringn(fit, used);
    free(fit);
    return ret;
}

static json_t *show_text(const char *s)
{
    return show_json_text(s, strlen(s));
}

/* The exact bytes, when the text cannot show them. */
void show_json_name(json_t *object, const char *name, size_t size)
{
    size_t at = 0;
    char *hex;

    json_object_set_new(object, "name", show_json_text(name, size));
    while (at < size) {
        size_t n = text_utf8(name + at, size - at);

        if (n == 0) {
            break;
        }
        at += n;
    }
    hex = at < size ? malloc(size * 2 + 1) : NULL;
    if (hex == NULL) {
        json_is_short = json_is_short || at < size;
        return;
    }
    for (size_t i = 0; i < size; i++) {
        snprintf(hex + i * 2, 3, "%02x", (unsigned)(unsigned char)name[i]);
    }
    json_object_set_new(object, "name_hex", json_string(hex));
    free(hex);
}

static void show_rfc3339(int64_t ms, char *to, size_t size)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    size_t used;

    gmtime_r(&seconds, &tm);
    used = strftime(to, size, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(to + used, size - used, ".%03dZ", (int)(ms % 1000));
}

json_t *show_json_party(const struct snib_party *p, bool holder)
{
    json_t *o = json_object();
    char since[48];

    json_object_set_new(o, "client", show_text(p->client_id));
    json_object_set_new(o, "host", show_text(p->host));
    json_object_set_new(o, "pid", json_integer(p->pid));
    json_object_set_new(o, "user", show_text(p->user));
    json_object_set_new(o, "program", show_text(p->program));
    json_object_set_new(o, "reason", show_text(p->reason));
    if (p->since_ms != 0) { /* else the store does not know */
        show_rfc3339(p->since_ms, since, sizeof since);
        json_object_set_new(o, "since", json_string(since));
        json_object_set_new(o, "since_ms", json_integer(p->since_ms));
    }
    json_object_set_new(o, "left_ms", json_integer(p->left_ms));
    json_object_set_new(o, "kind", json_string(kind_text(p->kind)));
    json_object_set_new(o, "permits", json_integer(p->permits));
    json_object_set_new(o, "owner", json_integer((json_int_t)p->owner));
    json_object_set_new(o, "request", show_text(p->request));
    if (holder) {
        json_object_set_new(o, "token", json_integer(p->token));
        json_object_set_new(o, "holds", json_integer(p->holds));
        if (p->slot >= 0) {
            json_object_set_new(o, "slot", json_integer(p->slot));
        }
        if (p->keep_ms > 0) {
            json_object_set_new(o, "keep_ms", json_integer(p->keep_ms));
        }
    }
    return o;
}

static json_t *show_json_parties(const struct snib_party *const *parties,
                                 size_t count, bool holder)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++) {
        json_array_append_new(array, show_json_party(parties[i], holder));
    }
    return array;
}

/* Size and count, where the name has them. */
static void show_add_params(json_t *o, const struct snib_view *view,
                            const struct kind_params *params)
{
    int64_t used = 0;

    for (size_t i = 0; i < view->holder_count; i++) {
        used += view->holders[i]->kind == SNIB_KIND_PERMITS
                    ? (int64_t)view->holders[i]->permits
                    : 0;
    }
    if (params->size >= 0) {
        json_t *s = json_object();

        json_object_set_new(s, "size", json_integer(params->size));
        json_object_set_new(s, "used", json_integer(used));
        json_object_set_new(s, "available", json_integer(params->size - used));
        json_object_set_new(o, "semaphore", s);
    }
    if (params->latch > 0) {
        json_object_set_new(o, "latch", json_integer(params->latch));
    }
}

static int64_t show_wall_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* How long the lock-delay of holders that ended without a release keeps
 * others out: what is left by the store's time, and the instant by this
 * host's clock. */
static void show_add_closed(json_t *o, const struct snib_view *view)
{
    int64_t until_ms = show_wall_ms() + view->closed_ms;
    char until[48];
    json_t *closed;

    if (view->closed_count == 0) {
        return;
    }
    closed = json_object();
    show_rfc3339(until_ms, until, sizeof until);
    json_object_set_new(closed, "left_ms", json_integer(view->closed_ms));
    json_object_set_new(closed, "until", json_string(until));
    json_object_set_new(closed, "until_ms", json_integer(until_ms));
    json_object_set_new(
        closed, "by",
        show_json_parties(view->closed_by, view->closed_count, true));
    json_object_set_new(o, "closed", closed);
}

/* As above: how long the server lets nobody in anew. Of a recovery that has not
 * begun nobody knows until when. */
static void show_add_recovery(json_t *o, const struct snib_view *view)
{
    int64_t until_ms = show_wall_ms() + view->recovery_ms;
    char until[48];
    json_t *recovery;

    if (view->recovery_ms == 0) {
        return;
    }
    recovery = json_object();
    show_rfc3339(until_ms, until, sizeof until);
    json_object_set_new(recovery, "left_ms", json_integer(view->recovery_ms));
    json_object_set_new(recovery, "begun", json_boolean(!view->recovery_ahead));
    if (!view->recovery_ahead) {
        json_object_set_new(recovery, "until", json_string(until));
        json_object_set_new(recovery, "until_ms", json_integer(until_ms));
    }
    if (view->replicas_missing > 0) {
        json_object_set_new(recovery, "replicas_missing",
                            json_integer(view->replicas_missing));
    }
    json_object_set_new(o, "recovery", recovery);
}

void show_json_view(json_t *o, const struct snib_view *view,
                    const struct kind_params *params)
{
    show_json_name(o, view->name, view->name_size);
    json_object_set_new(o, "held", json_boolean(view->holder_count > 0));
    json_object_set_new(o, "token", json_integer(view->token));
    json_object_set_new(
        o, "holders",
        show_json_parties(view->holders, view->holder_count, true));
    json_object_set_new(
        o, "waiters",
        show_json_parties(view->waiters, view->waiter_count, false));
    show_add_params(o, view, params);
    show_add_closed(o, view);
    show_add_recovery(o, view);
}

/* Only ASCII: names and reasons are other people's, and a terminal obeys more
 * bytes than JSON has to escape. */
void show_json_print(json_t *object)
{
    char *bytes = json_is_short
                      ? NULL
                      : json_dumps(object, JSON_COMPACT | JSON_ENSURE_ASCII);

    if (bytes != NULL && !json_is_short) {
        puts(bytes);
    }
    json_is_short = json_is_short || bytes == NULL;
    free(bytes);
    json_decref(object);
}

bool show_is_me(const struct snib_party *p)
{
    char host[256] = "";
    const struct passwd *me = getpwuid(geteuid());

    gethostname(host, sizeof host - 1);
    return strcmp(host, p->host) == 0 && me != NULL &&
           strcmp(me->pw_name, p->user) == 0 &&
           (geteuid() != 0 || getsid((pid_t)p->pid) == getsid(0));
}

void show_party(struct text *t, const struct snib_party *p)
{
    waitline_party(t, p);
    waitline_program(t, p);
    kind_wish(t, p);
}

static void show_print_party(const char *label, const struct snib_party *p)
{
    char line[1024] = "";
    struct text t = TEXT_IN(line);

    show_party(&t, p);
    printf("  %-8s %s\n", label, line);
}

/* Who awaits a latch stands in the queue as a reader does. */
static void show_print_waiter(const char *label, const struct snib_party *p,
                              const struct kind_params *params)
{
    char line[1024] = "";
    struct text t = TEXT_IN(line);

    if (params->latch <= 0 || p->kind != SNIB_KIND_READ) {
        show_print_party(label, p);
        return;
    }
    show_party(&t, &(struct snib_party){.host = p->host,
                                        .pid = p->pid,
                                        .user = p->user,
                                        .reason = p->reason,
                                        .program = p->program,
                                        .request = p->request});
    printf("  %-8s %s, to pass the latch, or to read\n", label, line);
}

void show_view(const struct snib_view *view, const struct kind_params *params)
{
    char line[1024] = "", since[48], left[DURATION_TEXT_MAX];
    struct text t = TEXT_IN(line);

    text_add_shown(&t, view->name, view->name_size);
    text_add(&t, ": ");
    kind_holders(&t, view, params);
    printf("%s\n", line);
    for (size_t i = 0; i < view->holder_count; i++) {
        const struct snib_party *p = view->holders[i];

        show_print_party("holder", p);
        if (p->since_ms != 0) { /* else the store does not know */
            show_rfc3339(p->since_ms, since, sizeof since);
            printf("  %-8s %s\n", "since", since);
        }
        kind_lease_text(p->left_ms, left);
        printf("  %-8s %s%s\n", "lease", left,
               p->left_ms > 0 ? "" : ", until the server ends it");
        if (p->token) {
            printf("  %-8s %" PRId64 "\n", "token", p->token);
        }
        if (p->keep_ms > 0) {
            duration_text(p->keep_ms, left);
            printf("  %-8s it may be released and kept, up to %s, until "
                   "somebody asks for it\n",
                   "kept", left);
        }
    }
    for (size_t i = 0; i < view->closed_count; i++) {
        const struct snib_party *p = view->closed_by[i];

        if (p->host[0] != '\0') { /* else the store does not know who it was */
            show_print_party("closed", p);
        }
        show_rfc3339(show_wall_ms() + p->left_ms, since, sizeof since);
        duration_text(p->left_ms, left);
        printf("  %-8s %s, in %s\n", "until", since, left);
        if (p->token > 0) {
            printf("  %-8s %" PRId64 "\n", "token", p->token);
        }
    }
    for (size_t i = 0; i < view->waiter_count; i++) {
        show_print_waiter(i == 0 ? "waiting" : "", view->waiters[i], params);
    }
}

int show_end(void)
{
    static bool told;
    int error = fflush(stdout) != 0 ? errno : 0;

    if (error == 0 && !ferror(stdout) && !json_is_short) {
        return CLI_OK;
    }
    if (!told && json_is_short) {
        say("out of memory: the answer cannot be printed");
    } else if (!told) {
        say("cannot write to stdout%s%s", error != 0 ? ": " : "",
            error == EBADF ? "it is closed"
            : error != 0   ? strerror(error)
                           : "");
    }
    told = true;
    return CLI_INTERNAL;
}
