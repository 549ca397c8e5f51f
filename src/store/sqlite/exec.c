/* store/sqlite/exec.c — takes requests, runs transactions, notifies, answers.
 *
 * A chain of requests is executed in order. Requests that change claims share a
 * transaction (up to 64 of them, which makes 128 renewals cheap); the others
 * read beside the writers. Waiters are notified after the commit. If the
 * process dies between the two, the waiter's poll finds its grant.
 *
 *  1  a waiter that was notified, or polls: read its row only; if granted, done
 *  2  begin: wait for the write lock for a slice, at most to the limit
 *  3  the rules (core/rules); an error undoes all, then each request runs alone
 *  4  commit; only now are the answers true
 *  5  notify; a waiter that is dead is removed, and the next one is granted the
 *     lock in a transaction of its own, until one is alive
 *
 * When the write lock cannot be had, a request whose limit has come is answered
 * NOT_APPLIED, and the error names the process in the way. The others stay
 * PENDING and are executed again (core/blocking.h). */
#include <poll.h>

#include "base/error.h"
#include "core/rules/rules_batch.h"
#include "store/sqlite/internal.h"

/* The cleaner runs after each so many write transactions. */
#define CLEANER_EACH 4096

static struct snib__request *exec_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, link);
}

/* -- answers --------------------------------------------------------------- */

static void exec_not_applied(struct snib__sqlite *self, struct snib__request *r,
                             int rc)
{
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err =
        snib__db_fail(&self->db, rc, self->lockfile.path, r->said.reterr);
}

void snib__sqlite_no_token(const struct snib__sqlite *self,
                           struct snib__request *r)
{
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err =
        snib__fail(r->said.reterr, SNIB_ERR_CORRUPT,
                   "in %s the last token of this lock, or what a waiter "
                   "has seen, is not a token; snib force-release begins "
                   "it anew",
                   self->lockfile.path);
}

/* The rules refused: the last token is damaged, or the clock is out of
 * range. */
static void exec_refused(const struct snib__sqlite *self,
                         struct snib__request *r, snib_err err)
{
    if (err == SNIB_ERR_CORRUPT) {
        snib__sqlite_no_token(self, r);
        return;
    }
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err = snib__fail(r->said.reterr, err,
                             "this host's clock is beyond the range of tokens");
}

/* -- notifying ------------------------------------------------------------- */

/* These waiters were granted the lock but are dead: end their grants, so that
 * the next ones are granted it. */
static bool exec_pass_over(struct snib__sqlite *self,
                           const struct snib__sqlite_notify *dead,
                           uint32_t count)
{
    snib_instant until =
        snib__after(snib__host_now(), snib__ms(SNIB__SQLITE_SLICE_MS));
    if (snib__db_begin(&self->db, until)) {
        return false; /* the push lease ends it */
    }
    snib__sqlite_book(self);
    for (uint32_t i = 0; i < count && !self->book.err; i++) {
        snib__rules_end(&self->book, dead[i].name, dead[i].request,
                        dead[i].token);
    }
    if (self->book.err) {
        snib__db_rollback(&self->db);
        return false;
    }
    return snib__db_commit(&self->db) == SQLITE_OK;
}

static void exec_notify_all(struct snib__sqlite *self)
{
    struct snib__sqlite_notify *dead = self->dead;
    while (self->notify_count) {
        uint32_t n = 0, count = self->notify_count;
        for (uint32_t i = 0; i < count; i++) {
            if (snib__notifier_notify(&self->notifier, &self->lockfile,
                                      &self->notify[i].to) ==
                SNIB__NOTIFY_DEAD) {
                dead[n++] = self->notify[i];
            }
        }
        self->notify_count = 0;
        if (n && !exec_pass_over(self, dead, n)) {
            self->notify_count = 0;
        }
    }
}

static void exec_make_notifier(struct snib__sqlite *self)
{
    snib__notifier_make(&self->notifier, &self->lockfile, self->client);
    self->no_notifier = self->notifier.sock < 0;
    snib__notifier_tidy(&self->notifier, &self->lockfile, 64);
}

/* -- one transaction ------------------------------------------------------- */

struct transaction {
    struct snib__request *r[SNIB__SQLITE_BATCH];
    /* What each request asked for, to run it again after a rollback. */
    struct {
        int64_t token;
        uint32_t reserve, permits;
        bool waited;
    } asked[SNIB__SQLITE_BATCH];
    struct {
        int64_t pid, pidns;
    } blocker[SNIB__SQLITE_BATCH];
    uint32_t count;
};

static void exec_put(struct transaction *b, struct snib__request *r)
{
    b->asked[b->count].token = r->token;
    b->asked[b->count].reserve = r->acquire.reserve;
    b->asked[b->count].permits = r->acquire.permits;
    b->asked[b->count].waited = r->said.answer == SNIB__QUEUED;
    b->r[b->count++] = r;
}

static void exec_undo(struct snib__sqlite *self, struct transaction *b)
{
    snib__db_rollback(&self->db);
    self->notify_count = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        b->r[i]->token = b->asked[i].token;
        b->r[i]->acquire.reserve = b->asked[i].reserve;
        b->r[i]->acquire.permits = b->asked[i].permits;
    }
}

static void exec_run_rules(void *self, struct snib__request *r)
{
    snib__rules_run(&((struct snib__sqlite *)self)->book, r);
}

/* Run the requests in the transaction that has begun, and commit it. It is
 * committed if book.err is OK. Otherwise it is rolled back: a waiter needs a
 * notifier first (want_notifier), or SQLite failed (its code is returned), or
 * the rules refused (SQLITE_OK is returned). self->doubt: after an I/O error
 * the commit may come true yet. */
static int exec_try_once(struct snib__sqlite *self, struct transaction *b)
{
    struct snib__rules_batch batch = {.run = exec_run_rules, .data = self};
    int rc;
    snib__sqlite_book(self);
    for (uint32_t i = 0; i < b->count && !self->book.err; i++) {
        self->blocker.pid = 0;
        self->thorough = b->asked[i].waited;
        snib__rules_batch_run(&batch, b->r[i]);
        b->blocker[i].pid = self->blocker.pid;
        b->blocker[i].pidns = self->blocker.pidns;
    }
    if (self->book.err) {
        rc = self->rc;
        exec_undo(self, b);
        return rc;
    }
    rc = snib__db_commit(&self->db);
    /* A later commit overwrites in the -wal what one that failed has left. */
    self->doubt = rc && (self->doubt || (rc & 0xff) == SQLITE_IOERR);
    if (rc) {
        exec_undo(self, b);
        self->book.err = SNIB_ERR_STORE;
    }
    return rc;
}

static void exec_after_commit(struct snib__sqlite *self, struct transaction *b)
{
    exec_notify_all(self);
    for (uint32_t i = 0; i < b->count; i++) {
        struct snib__request *r = b->r[i];
        if (r->verb == SNIB__FORCE || r->verb == SNIB__PARAMS) {
            snib__rules_count(r);
        } else if (r->said.answer == SNIB__QUEUED && r->said.position == 1) {
            snib__notifier_watch(&self->notifier, &self->host, r->id,
                                 b->blocker[i].pid, b->blocker[i].pidns);
        } else if (r->verb == SNIB__ACQUIRE || r->verb == SNIB__CANCEL) {
            snib__notifier_unwatch(&self->notifier, r->id);
        }
    }
    if (++self->writes == SNIB__SQLITE_LONG_LIVED) {
        self->db.frames_max = SNIB__SQLITE_WAL_LONG;
    }
    if (self->writes % CLEANER_EACH == 0) {
        snib__sqlite_cleaner(self);
    }
}

/* The transaction could not begin. If others had the write lock, a request
 * before its limit stays PENDING; any other request is refused. */
static void exec_too_late(struct snib__sqlite *self, struct transaction *b,
                          int rc)
{
    snib_instant now = snib__host_now();
    for (uint32_t i = 0; i < b->count; i++) {
        struct snib__request *r = b->r[i];
        exec_not_applied(self, r, rc);
        r->exec.blocked = rc == SQLITE_BUSY;
        if (r->exec.blocked && !snib__reached(now, r->exec.patience)) {
            r->said.answer = SNIB__PENDING; /* the error names the blocker */
        }
    }
}

/* How long to try for the write lock: a slice, or until the first limit if that
 * is near; but never so short that another's transaction of 10 us would look
 * like a refusal. */
static snib_instant exec_patience_of(const struct transaction *b)
{
    snib_instant now = snib__host_now(), until = SNIB__NEVER;
    for (uint32_t i = 0; i < b->count; i++) {
        until = snib__sooner(until, b->r[i]->exec.patience);
    }
    if (!snib__reached(snib__after(now, snib__ms(SNIB__SQLITE_LAST_MS)),
                       until)) {
        return snib__after(now, snib__ms(SNIB__SQLITE_SLICE_MS));
    }
    return snib__later(until,
                       snib__after(now, snib__ms(SNIB__SQLITE_LEAST_MS)));
}

/* True: all have an answer. False: one of them made all fail. */
static bool exec_run_together(struct snib__sqlite *self, struct transaction *b)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        self->db.yields = true;
        int rc = snib__db_begin(&self->db, exec_patience_of(b));
        self->db.yields = false;
        if (rc) {
            exec_too_late(self, b, rc);
            return true;
        }
        rc = exec_try_once(self, b);
        if (!self->book.err) {
            exec_after_commit(self, b);
            return true;
        }
        if (self->want_notifier) {
            exec_make_notifier(self);
            continue;
        }
        if (b->count == 1) {
            if (rc) {
                exec_not_applied(self, b->r[0], rc);
            } else {
                exec_refused(self, b->r[0], self->book.err);
            }
            return true;
        }
        return false;
    }
    return false; /* not reached: a notifier is wanted once at most */
}

/* A commit failed with an I/O error, and nothing has been written since. A
 * later recovery of the -wal may still find the commit, and with it every
 * request that was not answered DONE: these are unknown. */
static void exec_in_doubt(struct transaction *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->r[i]->said.answer == SNIB__NOT_APPLIED ||
            b->r[i]->said.answer == SNIB__PENDING) {
            b->r[i]->said.answer = SNIB__UNKNOWN;
        }
    }
    poll(NULL, 0, 20); /* the core asks again: not too fast */
}

static void exec_flush(struct snib__sqlite *self, struct transaction *b)
{
    self->doubt = false; /* of an earlier transaction, already answered */
    if (b->count && !exec_run_together(self, b)) {
        for (uint32_t i = 0; i < b->count; i++) {
            struct transaction alone = {.count = 1};
            alone.r[0] = b->r[i];
            alone.asked[0] = b->asked[i];
            if (!exec_run_together(self, &alone)) {
                exec_not_applied(self, alone.r[0], SQLITE_INTERNAL);
            }
            if (self->doubt) {
                exec_in_doubt(&alone);
            }
        }
    } else if (self->doubt) {
        exec_in_doubt(b);
    }
    b->count = 0;
}

/* -- the chain ------------------------------------------------------------- */

/* Is the lock this waiter's own by now? A read costs half a transaction and
 * takes no lock that another needs. */
static bool exec_look_first(struct snib__sqlite *self, struct snib__request *r)
{
    struct snib__stored_claim c;
    if (r->verb != SNIB__ACQUIRE || r->said.answer != SNIB__QUEUED) {
        return false;
    }
    if (snib__files_moved(&self->lockfile)) {
        return false; /* the transaction reports it */
    }
    if (!snib__sqlite_peek(self, r, &c) ||
        !snib__rules_answer_if_granted(snib__host_lease_now(&self->host), &c,
                                       r)) {
        return false;
    }
    snib__notifier_unwatch(&self->notifier, r->id);
    return true;
}

/* The params of a name, read beside the writers: a process that stands still
 * inside a write is not in the way of a reader. */
static void exec_read_params(struct snib__sqlite *self, struct snib__request *r)
{
    int rc = snib__db_begin_read(&self->db);
    if (!rc) {
        snib__sqlite_book(self);
        snib__rules_run(&self->book, r);
        rc = self->rc;
        int end = snib__db_end_read(&self->db);
        rc = rc ? rc : end;
    }
    if (rc) {
        exec_not_applied(self, r, rc);
    } else {
        snib__rules_count(r);
    }
}

static void exec_inside(struct snib__sqlite *self, struct snib__list *chain)
{
    struct transaction b;
    b.count = 0;
    SNIB__LIST_EACH (l, chain) {
        struct snib__request *r = exec_of(l);
        if (r->verb == SNIB__PARAMS && r->params.op == SNIB__PARAMS_GET) {
            exec_flush(self, &b);
            exec_read_params(self, r);
            continue;
        }
        switch (r->verb) {
        case SNIB__ACQUIRE:
        case SNIB__RENEW:
        case SNIB__RELEASE:
        case SNIB__CANCEL:
        case SNIB__FORCE:
        case SNIB__PARAMS:
            if (r->batch.number && !r->batch.index &&
                b.count + SNIB__BATCH_MAX > SNIB__SQLITE_BATCH) {
                exec_flush(self, &b); /* a batch runs in one transaction */
            }
            if (r->verb == SNIB__RENEW && r->renew.listen &&
                self->notifier.sock < 0 && !self->no_notifier) {
                exec_make_notifier(self); /* to hear of a forced release */
            }
            if (!exec_look_first(self, r)) {
                exec_put(&b, r);
            }
            if (b.count == SNIB__SQLITE_BATCH) {
                exec_flush(self, &b);
            }
            break;
        case SNIB__INSPECT:
        case SNIB__LIST:
            exec_flush(self, &b);
            snib__sqlite_inspect(self, r);
            break;
        case SNIB__DOCTOR:
            exec_flush(self, &b);
            snib__sqlite_doctor(self, r);
            break;
        case SNIB__VALUE_GET:
        case SNIB__VALUE_PUT:
        case SNIB__VALUE_DELETE:
            exec_flush(self, &b);
            snib__sqlite_value(self, r);
            break;
        }
    }
    exec_flush(self, &b);
    snib__db_empty_wal(&self->db);
}

void snib__sqlite_exec(void *instance, snib_instant now,
                       struct snib__list *chain)
{
    (void)now; /* the clock is read again, inside the write lock */
    snib__forked_in();
    exec_inside(instance, chain);
    snib__forked_out();
}

int snib__sqlite_notifier_fd(void *instance)
{
    return snib__notifier_fd(&((struct snib__sqlite *)instance)->notifier);
}

uint32_t snib__sqlite_notified(void *instance, uint64_t (*ids)[2], uint32_t max)
{
    return snib__notifier_take(&((struct snib__sqlite *)instance)->notifier,
                               ids, max);
}
