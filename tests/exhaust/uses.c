/* uses.c — a program that uses the library, in which one call of libc fails
 * (tests/harness/faults.c is linked in, but for sanitizers; with
 * SNIB_USES_ALLOC=N the N-th allocation of the library's own hook does).
 *
 *   snib-uses URL
 *
 * One after the other: a client is opened, acquires, renews, enters again,
 * looks; starts an acquire and a release and takes their events; the same with
 * a pull client; several locks as one; a versioned value; all is freed. Every
 * call answers what the headers list, with its text; every start ends in one
 * event. Afterwards, without failures, another gets each lock at once (when the
 * lease is over, where an outcome was told as unknown), and no descriptor and
 * no block of memory is left.
 *
 * Exit status: 0 nothing failed, 3 something was told, 1 something is wrong (on
 * stderr). What was told is on stdout, a line each. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "snib.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/multi.h"
#include "snib/value.h"

#ifdef SNIB_USES_FAULTS
void snib_faults_stop(void); /* faults.c */
#else
static void snib_faults_stop(void)
{
}
#endif

enum { LEASE_MS = 3000, WAIT_MS = 8000 };

static const char *url;
static bool anything_told, unknown, anything_wrong;

static void wrong(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    anything_wrong = true;
}

static void need(bool good, const char *what, const char *why)
{
    if (!good) {
        wrong(what, why);
    }
}

/* What a failure of libc may become. None of them is an answer about others:
 * nobody else is here. */
static bool may_be(snib_err err)
{
    return err == SNIB_ERR_NOMEM || err == SNIB_ERR_LIMIT ||
           err == SNIB_ERR_UNREACHABLE || err == SNIB_ERR_UNKNOWN ||
           err == SNIB_ERR_STORE || err == SNIB_ERR_CONFIG ||
           err == SNIB_ERR_DENIED || err == SNIB_ERR_LOST ||
           err == SNIB_ERR_TIMEOUT;
}

/* True when it is done. */
static bool ok(const char *what, snib_err err, const struct snib_error *e)
{
    if (err != e->code) {
        fprintf(stderr, "%s: %s, and in the error %s: %s\n", what,
                snib_err_name(err), snib_err_name(e->code), e->text);
        anything_wrong = true;
    }
    if (err == SNIB_ERR_OK) {
        return true;
    }
    printf("%s: %s: %s\n", what, snib_err_name(err), e->text);
    need(e->text[0] && strlen(e->text) < sizeof e->text, what, "no text");
    if (!may_be(err)) {
        wrong(what, snib_err_name(err));
    }
    anything_told = true;
    if (err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_LOST ||
        err == SNIB_ERR_UNREACHABLE) {
        unknown = true;
    }
    return false;
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void changed(void *data, struct snib_grant g, snib_state state,
                    snib_cause reason)
{
    (void)g;
    (void)reason;
    if (state == SNIB_STATE_LOST || state == SNIB_STATE_AT_RISK) {
        *(volatile bool *)data = true;
    }
}

static struct snib_lock *lock_new(struct snib_client *c, const char *name,
                                  bool *ret_worse)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l = NULL;
    struct snib_error e;
    o.lease_ms = LEASE_MS;
    if (ret_worse) {
        o.on_change = changed;
        o.data = ret_worse;
    }
    bool made = ok("lock_new", snib_lock_new(c, name, &o, &l, &e), &e);
    need(made == (l != NULL), "lock_new", "the pointer");
    return l;
}

static struct snib_acquire_options with_reason(void)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.reason = "exhausted";
    return o;
}

/* -- blocking calls ------------------------------------------------------------ */

static void look(struct snib_client *c, struct snib_grant g)
{
    struct snib_view *v = NULL;
    struct snib_error e;
    if (ok("inspect", snib_client_inspect(c, "a", 1, &v, &e), &e)) {
        need(v->holder_count == 1 && v->holders[0]->token == g.token, "inspect",
             "does not show the holder");
    }
    snib_view_free(v);
}

static void hold(struct snib_client *c, struct snib_lock *l)
{
    struct snib_acquire_options o = with_reason();
    struct snib_grant g = {0}, again = {0};
    struct snib_status s;
    struct snib_error e;
    if (!ok("acquire", snib_try_for(l, WAIT_MS, &o, &g, &e), &e)) {
        need(!snib_grant_held(l, g), "acquire", "refused, and held");
        return;
    }
    need(g.ticket && g.token > 0, "acquire", "no grant");
    need(snib_grant_held(l, g), "acquire", "not held");
    (void)ok("renew", snib_renew(l, g, LEASE_MS, &e), &e);
    snib_grant_status(l, g, &s, sizeof s);
    need(s.left_ms <= LEASE_MS, "status", "a deadline behind the lease");
    if (ok("acquire again", snib_try_for(l, WAIT_MS, &o, &again, &e), &e)) {
        need(again.token == g.token, "acquire again", "another token");
        (void)ok("release again", snib_release(l, again, &e), &e);
    }
    look(c, g);
    need(snib_grant_fd(l, g) >= 0 || errno == EMFILE || errno == ENOMEM ||
             errno == ENOENT,
         "grant_fd", "errno");
    (void)ok("release", snib_release(l, g, &e), &e);
    need(!snib_grant_held(l, g), "release", "still held");
}

static void values(struct snib_client *c)
{
    struct snib_value *v = NULL;
    struct snib_error e;
    int64_t was = 0, version = 0;
    if (ok("value_get", snib_value_get(c, "v", 1, &v, &e), &e)) {
        was = v->version;
        snib_value_free(v);
        v = NULL;
        bool put = ok(
            "value_put",
            snib_value_put(c, "v", 1, was, "text", 4, 60000, &version, &e), &e);
        need(!put || version > was, "value_put", "the version");
    }
    if (ok("value_get", snib_value_get(c, "v", 1, &v, &e), &e)) {
        need(!version || (v->version == version && v->size == 4), "value_get",
             "not what was put");
    }
    snib_value_free(v);
}

/* -- events ------------------------------------------------------------------- */

/* The event of a start, or a complaint. */
static bool event_of(struct snib_client *c, bool pull, struct snib_event *ret)
{
    struct snib_error none = {0};
    int64_t end = now_ms() + 3 * (WAIT_MS + LEASE_MS);
    while (now_ms() < end) {
        struct pollfd p = {.fd = snib_client_fd(c), .events = POLLIN};
        if (pull && snib_client_process(c)) {
            wrong("process", none.text);
        }
        if (snib_client_next(c, ret, sizeof *ret)) {
            if (ret->kind != SNIB_EVENT_STATE) {
                return true;
            }
            continue;
        }
        int64_t ms = pull ? snib_client_timeout_ms(c) : -1;
        poll(&p, 1, ms < 0 || ms > 500 ? 500 : (int)ms);
    }
    wrong("event", "none comes");
    return false;
}

static void started(struct snib_client *c, struct snib_lock *l, bool pull)
{
    struct snib_acquire_options o = with_reason();
    struct snib_event ev;
    struct snib_error e;
    uint64_t ticket = 0;
    if (!ok("acquire_start", snib_try_for_start(l, WAIT_MS, &o, c, &ticket, &e),
            &e) ||
        !event_of(c, pull, &ev)) {
        return;
    }
    need(ev.grant.ticket == ticket && ev.user == c, "event", "another's");
    need(ev.kind == (ev.error.code ? SNIB_EVENT_REFUSED : SNIB_EVENT_GRANTED),
         "event", "the kind");
    if (!ok("granted", ev.error.code, &ev.error)) {
        return;
    }
    need(snib_grant_held(l, ev.grant), "granted", "not held");
    /* A release that cannot be started has to be had again. */
    while (!ok("release_start", snib_release_start(l, ev.grant, c, &e), &e)) {
        if (anything_wrong) {
            return;
        }
    }
    if (event_of(c, pull, &ev)) {
        need(ev.kind == SNIB_EVENT_RELEASED, "event", "not of the release");
        (void)ok("released", ev.error.code, &ev.error);
    }
}

/* -- several as one ------------------------------------------------------------ */

static void several(struct snib_lock *const locks[2])
{
    struct snib_acquire_options o = with_reason();
    struct snib_multi *m = NULL;
    struct snib_grant g[2] = {{0}, {0}};
    struct snib_error e;
    if (!ok("multi_new", snib_multi_new(locks, 2, NULL, &m, &e), &e)) {
        return;
    }
    if (ok("multi_acquire", snib_multi_try_for(m, WAIT_MS, &o, g, &e), &e)) {
        need(snib_multi_held(m, g), "multi_acquire", "not held");
        (void)ok("multi_release", snib_multi_release(m, g, &e), &e);
    } else {
        need(!snib_grant_held(locks[0], g[0]) &&
                 !snib_grant_held(locks[1], g[1]),
             "multi_acquire", "refused, and held");
    }
    snib_multi_free(m);
}

/* -- all of it ------------------------------------------------------------------ */

static struct snib_client *client(bool pull)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c = NULL;
    struct snib_error e;
    o.url = url;
    o.pull = pull;
    bool made = ok("client_open", snib_client_open(&o, &c, &e), &e);
    need(made == (c != NULL), "client_open", "the pointer");
    return c;
}

static void threaded(void)
{
    struct snib_client *c = client(false);
    bool worse = false;
    if (!c) {
        return;
    }
    struct snib_lock *a = lock_new(c, "a", &worse);
    struct snib_lock *two[2] = {lock_new(c, "b", NULL), lock_new(c, "c", NULL)};
    if (a) {
        hold(c, a);
        started(c, a, false);
    }
    if (two[0] && two[1]) {
        several(two);
    }
    values(c);
    anything_told = anything_told || worse; /* a renewal of its own failed */
    snib_lock_free(a);
    snib_lock_free(two[0]);
    snib_lock_free(two[1]);
    snib_client_close(c);
    snib_client_stop(c);
    snib_client_free(c);
}

static void pulled(void)
{
    struct snib_client *c = client(true);
    struct snib_lock *d = c ? lock_new(c, "d", NULL) : NULL;
    if (d) {
        started(c, d, true);
    }
    snib_lock_free(d);
    snib_client_free(c);
}

static void another_gets(const char *name)
{
    struct snib_client *c = client(false);
    struct snib_lock *l = c ? lock_new(c, name, NULL) : NULL;
    struct snib_grant g;
    struct snib_error e;
    int64_t wait_ms = unknown ? LEASE_MS + 1000 : 0;
    if (!l || snib_try_for(l, wait_ms, NULL, &g, &e)) {
        wrong(name, "is left held");
    }
    snib_lock_free(l);
    snib_client_free(c);
}

static int descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

int main(int argc, char **argv)
{
    const char *nth = getenv("SNIB_USES_ALLOC");
    if (argc != 2) {
        fprintf(stderr, "usage: snib-uses URL\n");
        return 64;
    }
    url = argv[1];
    int before = descriptors();
    snib__mem_fail_at(nth ? atoll(nth) : 0, false);
    /* The space of memory: ends with its last client. */
    struct snib_client *keeps =
        strncmp(url, "memory:", 7) ? NULL : client(false);
    threaded();
    pulled();
    snib_faults_stop();
    snib__mem_fail_at(0, false);
    if (unknown && keeps) {
        snib_client_free(keeps); /* a space without a client has no locks */
        keeps = NULL;
    }
    bool told = anything_told;
    for (const char *name = "abcd"; *name; name++) {
        another_gets((char[]){*name, 0});
    }
    snib_client_free(keeps);
    need(descriptors() == before, "descriptors", "are left open");
    need(snib__mem_alive() == 0, "memory", "is left");
    need(told == anything_told, "afterwards", "still told");
    return anything_wrong ? 1 : told ? 3 : 0;
}
