/* wide_grants.c — what is done with a grant: good, stale, another's, none. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "snib/semaphore.h"
#include "snib/sys.h"
#include "wide.h"

static struct wide_grant *good_grant(struct wide_actor *a)
{
    uint64_t first = pick("grant", WIDE_GRANTS);
    for (uint64_t i = 0; i < WIDE_GRANTS; i++) {
        struct wide_grant *g = &a->grant[(first + i) % WIDE_GRANTS];
        if (g->lock) {
            return g;
        }
    }
    return NULL;
}

struct wide_grant *wide_some_grant(struct wide_actor *a)
{
    static struct wide_grant odd[WIDE_ACTORS];
    struct wide_actor *other = &wide.actor[pick("whose", WIDE_ACTORS)];
    struct wide_grant *g = good_grant(a), *o = &odd[a->index];
    if (g && !chance("odd grant", 10)) {
        return g;
    }
    *o = g ? *g : (struct wide_grant){a->lock[pick("lock", WIDE_LOCKS)], {0}};
    if (chance("of another", 2)) {
        struct wide_grant *k = good_grant(other);
        for (int i = 0; k && i < WIDE_SHARED; i++) {
            if (k->lock == wide.shared[i]) { /* nobody frees it */
                *o = *k;
            }
        }
    } else {
        static const uint64_t tickets[] = {0, 1, 2, 3, 77, UINT64_MAX};
        o->grant.ticket = ONE_OF("odd ticket", tickets);
        o->grant.token = (int64_t)pick("odd token", 3) - 1;
    }
    return o->lock ? o : NULL;
}

static void release(struct wide_grant *g)
{
    struct snib_error e, *to = reserve(&e);
    snib_err err = told("release", snib_release(g->lock, g->grant, to), to);
    tell_status(g->lock, g->grant);
    if (!err && chance("twice", 6)) {
        (void)told("again", snib_release(g->lock, g->grant, to), to);
    }
    if (err != SNIB_ERR_USAGE) {
        g->lock = NULL;
    }
}

static void renew(struct wide_grant *g)
{
    static const int64_t leases[] = {0,    0,  50,       300,
                                     2000, 49, 86400000, 86400001};
    struct snib_error e, *to = reserve(&e);
    int64_t ms = ONE_OF("renew", leases);
    tell("renew %" PRId64, ms);
    (void)told("renew", snib_renew(g->lock, g->grant, ms, to), to);
    tell_status(g->lock, g->grant);
}

static void explain(struct wide_grant *g)
{
    static const size_t sizes[] = {SNIB_EXPLAIN_TEXT, SNIB_EXPLAIN_TEXT, 12, 1,
                                   0};
    char text[SNIB_EXPLAIN_TEXT];
    size_t size = ONE_OF("explain", sizes);
    memset(text, '-', sizeof text);
    text[sizeof text - 1] = 0;
    snib_grant_explain(g->lock, g->grant, text, size);
    tell("explains: %s", text);
}

static void look(struct wide_grant *g)
{
    struct snib_error e, *to = reserve(&e);
    uint32_t slot = 77;
    tell_status(g->lock, g->grant);
    errno = 0;
    int fd = snib_grant_fd(g->lock, g->grant);
    tell("errno %d", fd < 0 ? errno : 0);
    tell_fd("grant", fd);
    snib_err err =
        snib_semaphore_slot(chance("no lock", 20) ? NULL : g->lock, g->grant,
                            chance("no slot", 20) ? NULL : &slot, to);
    (void)told("slot", err, to);
    tell("slot %u", slot);
}

/* More descriptors of grants that are over than a client keeps open. */
static void many(struct wide_grant *g)
{
    struct snib_grant got;
    int fd[20], n = 0;
    while (n < 20 && !snib_try(g->lock, NULL, &got, NULL)) {
        fd[n++] = snib_grant_fd(g->lock, got);
        snib_err err = snib_release(g->lock, got, NULL);
        tell("one of many %s", snib_err_name(err));
    }
    for (int i = 0; i < n; i++) {
        tell_fd("one of many", fd[i]);
    }
}

static void adopt(struct wide_actor *a, struct snib_lock *lock)
{
    static const int64_t leases[] = {0, 300, 2000, 49, 86400001};
    struct snib_error e, *to = reserve(&e);
    struct snib_grant got = {7, 7};
    char word[SNIB_GRANT_TEXT];
    memcpy(word, a->text, sizeof word);
    if (chance("damaged", 5) && word[0]) {
        word[pick("where", strlen(word))] = "0zF:-"[pick("with", 5)];
    }
    if (!lock) {
        return;
    }
    snib_err err = told(
        "adopt",
        snib_grant_adopt(lock, word, ONE_OF("adopt", leases), &got, to), to);
    tell_grant("adopt", err, got);
    if (!err) {
        wide_remember(a, lock, got);
        tell_status(lock, got);
    }
}

static void text(struct wide_actor *a, struct wide_grant *g)
{
    char word[SNIB_GRANT_TEXT] = "before", id[SNIB_GRANT_TEXT] = "before";
    struct snib_error e, *to = reserve(&e);
    size_t size = chance("short", 8) ? pick("how short", 96) : sizeof word;
    snib_err err = snib_grant_export(g->lock, g->grant, word, size, to);
    (void)told("export", err, to);
    tell("'%s' of %zu", size ? word : "", size);
    if (!err) {
        memcpy(a->text, word, sizeof word);
        if (chance("takes up its own", 5)) {
            adopt(a, g->lock);
        }
    }
    size = chance("short", 8) ? pick("how short", 40) : sizeof word;
    err = snib_grant_request(g->lock, g->grant, word, size, to);
    (void)told("request", err, to);
    tell("'%s' of %zu", size ? word : "", size);
    size = chance("short", 8) ? pick("how short", 40) : sizeof id;
    err = snib_grant_identity(a->text, id, size, to);
    (void)told("identity", err, to);
    tell("'%s' of %zu", size ? id : "", size);
}

static void abandon(struct wide_actor *a, struct wide_grant *g)
{
    struct snib_error e, *to = reserve(&e);
    text(a, g);
    snib_err err =
        told("abandon", snib_grant_abandon(g->lock, g->grant, to), to);
    tell_status(g->lock, g->grant);
    if (!err) {
        struct snib_lock *lock = g->lock;
        g->lock = NULL;
        if (chance("takes it up", 2)) {
            adopt(a, lock);
        }
    }
}

void wide_grants(struct wide_actor *a)
{
    struct wide_grant *g = wide_some_grant(a);
    if (!g || chance("adopts", 9)) {
        adopt(a, a->lock[pick("lock", WIDE_LOCKS)]);
        return;
    }
    switch (pick("with a grant", 10)) {
    case 0:
    case 1:
    case 2:
    case 3:
        release(g);
        break;
    case 4:
    case 5:
        renew(g);
        break;
    case 6:
        explain(g);
        break;
    case 7:
        if (chance("many", 10)) {
            many(g);
        } else {
            look(g);
        }
        break;
    case 8:
        text(a, g);
        break;
    default:
        abandon(a, g);
        break;
    }
}
