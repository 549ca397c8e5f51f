/* program.c — a program of the interface's first release. tests/package
 * compiles it against the headers that are kept in this folder, and against
 * copies of them whose growing structs have a field less or more, and runs it
 * with the library of today. It prints a line for each thing that it saw, and
 * exits with 0 when all was as that release said. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "snib.h"
#include "snib/deadlock.h"
#include "snib/elect.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/multi.h"
#include "snib/policy.h"
#include "snib/ring.h"
#include "snib/semaphore.h"
#include "snib/sys.h"
#include "snib/test.h"
#include "snib/value.h"

static int wrong;

static void see(const char *what, int good)
{
    printf("%s %s\n", good ? "yes" : "NO ", what);
    wrong += !good;
}

static void done(const char *what, snib_err err, const struct snib_error *e)
{
    if (err) {
        printf("     %s\n", e->text);
    }
    see(what, err == SNIB_ERR_OK && e->code == SNIB_ERR_OK && !e->text[0]);
}

static struct snib_error e;

static _Atomic int losses;

static void changed(void *data, struct snib_grant g, snib_state s, snib_cause c)
{
    (void)data;
    (void)g;
    losses += s == SNIB_STATE_LOST && c == SNIB_CAUSE_REVOKED;
}

/* A result with a guard behind it. */
#define ROOM(type)                                                             \
    struct {                                                                   \
        struct type is;                                                        \
        char guard[64];                                                        \
    }
#define ROOM_SET(room) memset(&(room), 0x5a, sizeof(room))
static int guarded(const char *guard)
{
    char whole[64];
    memset(whole, 0x5a, sizeof whole);
    return memcmp(guard, whole, sizeof whole) == 0;
}

static struct snib_client *client_of(const char *url, bool pull)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    o.url = url;
    o.pull = pull;
    done("a client is opened", snib_client_open(&o, &c, &e), &e);
    return c;
}

static struct snib_lock *lock_of(struct snib_client *c, const char *name,
                                 snib_kind kind)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.kind = kind;
    o.capacity = kind == SNIB_KIND_PERMITS ? 3 : 0;
    o.lease_ms = 5000;
    o.on_change = changed;
    done("a lock is made", snib_lock_new(c, name, &o, &l, &e), &e);
    return l;
}

static void mutex(struct snib_client *c)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_grant g, again;
    ROOM(snib_status) s;
    struct snib_view *v;
    struct snib_lock *l = lock_of(c, "mutex", SNIB_KIND_MUTEX);
    o.reason = "the first release";
    done("it is acquired", snib_acquire(l, &o, &g, &e), &e);
    done("and entered again", snib_try_for(l, 100, NULL, &again, &e), &e);
    see("with the same token", g.token == again.token && g.token > 0);
    ROOM_SET(s);
    snib_grant_status(l, g, &s.is, sizeof s.is);
    see("it is held twice", s.is.state == SNIB_STATE_HELD && s.is.holds == 2 &&
                                s.is.left_ms > 2000 && s.is.token == g.token &&
                                guarded(s.guard));
    done("it is renewed", snib_renew(l, g, 0, &e), &e);
    done("it is inspected", snib_client_inspect(c, "mutex", 0, &v, &e), &e);
    see("and shows its holder",
        v && v->holder_count == 1 && v->holders[0]->self &&
            v->holders[0]->token == g.token &&
            strcmp(v->holders[0]->reason, "the first release") == 0);
    snib_view_free(v);
    done("one hold is given back", snib_release(l, again, &e), &e);
    done("it is released by force",
         snib_client_force_release(c, "mutex", 0, "why not", NULL, &e), &e);
    for (int i = 0; i < 2000 && !losses; i++) {
        poll(NULL, 0, 10);
    }
    see("the callback tells", losses == 1);
    snib_grant_status(l, g, &s.is, sizeof s.is);
    see("so it is lost",
        s.is.state == SNIB_STATE_LOST && s.is.cause == SNIB_CAUSE_REVOKED);
    see("which the release says",
        snib_release(l, g, &e) == SNIB_ERR_LOST && e.code == SNIB_ERR_LOST);
    snib_lock_free(l);
    SNIB_WITH_TRY (scope, (l = lock_of(c, "scope", SNIB_KIND_MUTEX)), NULL,
                   &e) {
        see("a scope runs", snib_grant_held(l, scope.grant));
    }
    see("and ends", e.code == SNIB_ERR_OK);
    snib_lock_free(l);
}

static void others(struct snib_client *c)
{
    struct snib_grant g[2];
    ROOM(snib_semaphore) size;
    ROOM(snib_multi_status) all;
    ROOM(snib_elect_status) leads;
    struct snib_multi *many;
    struct snib_elect *elect;
    struct snib_value *value;
    int64_t term, version;
    uint32_t left;
    bool set;
    struct snib_lock *l[2] = {lock_of(c, "permits", SNIB_KIND_PERMITS),
                              lock_of(c, "read", SNIB_KIND_READ)};
    done("several are made one", snib_multi_new(l, 2, NULL, &many, &e), &e);
    done("and acquired", snib_multi_try(many, NULL, g, &e), &e);
    ROOM_SET(all);
    snib_multi_status(many, g, &all.is, sizeof all.is);
    see("all are held", all.is.state == SNIB_STATE_HELD &&
                            all.is.left_ms > 2000 && guarded(all.guard));
    ROOM_SET(size);
    done("a semaphore is read",
         snib_semaphore_get(c, "permits", 0, &size.is, sizeof size.is, &e), &e);
    see("and has its size", size.is.size == 3 && size.is.used == 1 &&
                                size.is.available == 2 && guarded(size.guard));
    done("all are released", snib_multi_release(many, g, &e), &e);
    snib_multi_free(many);
    snib_lock_free(l[0]);
    snib_lock_free(l[1]);
    done("a candidate is made", snib_elect_new(c, "e", NULL, &elect, &e), &e);
    done("and leads", snib_elect_campaign(elect, &term, &e), &e);
    ROOM_SET(leads);
    snib_elect_status(elect, &leads.is, sizeof leads.is);
    see("by its status", leads.is.state == SNIB_ELECT_LEADER &&
                             leads.is.term == term && guarded(leads.guard));
    done("and resigns", snib_elect_resign(elect, &e), &e);
    snib_elect_free(elect);
    done("a latch is set", snib_latch_set(c, "latch", 0, 1, &set, &e), &e);
    done("and counted", snib_latch_count_down(c, "latch", 0, 1, &left, &e), &e);
    see("to its end", set && left == 0);
    done("a value is put",
         snib_value_put(c, "v", 0, 0, "one", 3, 0, &version, &e), &e);
    done("and read", snib_value_get(c, "v", 0, &value, &e), &e);
    see("as it is", value && value->version == version && value->size == 3 &&
                        memcmp(value->bytes, "one", 4) == 0);
    snib_value_free(value);
}

static void events(bool pull)
{
    ROOM(snib_event) ev;
    uint64_t ticket;
    int mine;
    struct snib_client *c = client_of("memory:events", pull);
    struct snib_lock *l = lock_of(c, "started", SNIB_KIND_MUTEX);
    struct pollfd p = {.fd = snib_client_fd(c), .events = POLLIN};
    done("an acquire is started",
         snib_try_for_start(l, 1000, NULL, &mine, &ticket, &e), &e);
    for (int step = 0; step < 2; step++) {
        ROOM_SET(ev);
        while (!snib_client_next(c, &ev.is, sizeof ev.is)) {
            poll(&p, 1, 100);
            see("it is processed",
                !pull || snib_client_process(c) == SNIB_ERR_OK);
        }
        see("its event is whole",
            ev.is.user == &mine && ev.is.grant.ticket == ticket &&
                guarded(ev.guard) &&
                ev.is.kind ==
                    (step ? SNIB_EVENT_RELEASED : SNIB_EVENT_GRANTED));
        if (!step) {
            done("a release is started",
                 snib_release_start(l, ev.is.grant, &mine, &e), &e);
        }
    }
    snib_lock_free(l);
    snib_client_free(c);
}

int main(void)
{
    struct snib_client *c = client_of("memory:abi", false);
    mutex(c);
    others(c);
    snib_client_free(c);
    events(false);
    events(true);
    return wrong ? 1 : 0;
}
