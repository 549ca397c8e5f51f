/* store/etcd/doctor.c — is this cluster set up so that our promises hold?
 *
 * Four questions, one after the other; what the user may not ask becomes a
 * finding, never an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "snib/inspect.h"
#include "store/etcd/etcd_i.h"

enum { DOCTOR_SLOW_MS = 50, DOCTOR_FULL = 3 };

enum doctor_question {
    DOCTOR_STATUS,
    DOCTOR_MEMBERS,
    DOCTOR_ALARMS,
    DOCTOR_RIGHTS,
    DOCTOR_QUESTIONS
};

static void doctor_tell(struct etcd_step *k, bool good, snib_level bad,
                        const char *check, const char *text, const char *remedy)
{
    snib__rec_finding(k->r[0]->said.result, good ? SNIB_LEVEL_OK : bad, check,
                      text, good ? "" : remedy);
}

/* -- answers ---------------------------------------------------------------- */

/* 3.5.0 to 3.5.2: etcd's own announcement says not to use them. */
static void doctor_version(struct etcd_step *k, const char *version)
{
    char text[200];
    unsigned long patch =
        strncmp(version, "3.5.", 4) ? 3 : strtoul(version + 4, NULL, 10);
    if (patch > 2) {
        return;
    }
    snprintf(text, sizeof text,
             "a member of etcd %s that is killed may come back without "
             "changes that it has acknowledged, and two may then hold a lock",
             version);
    doctor_tell(k, false, SNIB_LEVEL_FAIL, "version", text,
                "install etcd 3.5.3 or later on each member");
}

static void doctor_clock(const struct snib__etcd *e, struct etcd_step *k)
{
    bool known = e->out->wall_offset_ns != 0;
    doctor_tell(k, known, SNIB_LEVEL_WARN, "clock",
                known ? "tokens rise by this host's clock, and by the last "
                        "token of each lock"
                      : "this host does not know the time",
                "set this host's clock");
}

static void doctor_status(struct snib__etcd *e, snib_instant now,
                          struct etcd_step *k, const struct etcd_reply *reply)
{
    struct snib__etcd_status s;
    char text[200];
    double ms = (double)snib__between(reply->sent, now).ns / 1e6;
    if (!snib__etcd_read_status(reply->bytes, reply->size, &s)) {
        doctor_tell(k, false, SNIB_LEVEL_FAIL, "server",
                    "the answer is not etcd's", "check the URL");
        return;
    }
    snprintf(text, sizeof text, "etcd %s at %.100s, keys %s%s…", s.version,
             e->out->conn[e->session.at]->address, e->prefix,
             e->recipe ? "NAME/" : "");
    doctor_tell(k, true, SNIB_LEVEL_OK, "server", text, "");
    doctor_version(k, s.version);
    snprintf(text, sizeof text, "a round trip takes %.2f ms", ms);
    doctor_tell(k, ms < DOCTOR_SLOW_MS, SNIB_LEVEL_WARN, "latency", text,
                "leases must be many times longer than a round trip; use a "
                "nearer member");
    if (e->recipe) {
        doctor_tell(k, true, SNIB_LEVEL_OK, "dialect",
                    "the locks of etcdctl lock and of Go's concurrency.Mutex; "
                    "tokens are etcd's revisions, and fall back with a backup "
                    "that is restored",
                    "");
    } else {
        doctor_clock(e, k);
    }
    if (e->secure) {
        doctor_tell(k, true, SNIB_LEVEL_OK, "tls", "encrypted", "");
    }
}

/* Fewer than three: what the end of one costs. */
static void doctor_quorum(struct etcd_step *k, int voters)
{
    if (voters == 1 || voters == 2) {
        doctor_tell(k, false, SNIB_LEVEL_WARN, "quorum",
                    voters == 1
                        ? "one voting member: while it is away nobody gets a "
                          "lock, and none is renewed"
                        : "two voting members: while one is away nobody gets "
                          "a lock, and none is renewed",
                    "run three or five");
    }
}

static void doctor_plural(char *ret, size_t size, int n, const char *what)
{
    snprintf(ret, size, "%d %s%s", n, what, n == 1 ? "" : "s");
}

/* MemberListResponse: members 2; Member: isLearner 5. A learner has no vote. */
static void doctor_members(struct snib__etcd *e, struct etcd_step *k,
                           const struct etcd_reply *reply)
{
    struct snib__pb p;
    int members = 0, learners = 0;
    char text[200], votes[40], more[40] = "";
    snib__pb_open(&p, reply->bytes, reply->size);
    while (snib__pb_next(&p)) {
        struct snib__pb member = snib__pb_inside(&p);
        members += p.field == 2;
        while (p.field == 2 && snib__pb_next(&member)) {
            learners += member.field == 5 && member.number != 0;
        }
    }
    doctor_plural(votes, sizeof votes, members - learners,
                  learners ? "voting member" : "member");
    if (learners) {
        memcpy(more, " and ", 6);
        doctor_plural(more + 5, sizeof more - 5, learners, "learner");
    }
    snprintf(text, sizeof text, "%s%s, %u of them in the URL", votes, more,
             e->out->conns);
    doctor_tell(k, members - learners < DOCTOR_FULL || e->out->conns > 1,
                SNIB_LEVEL_WARN, "members", text,
                "name several in the URL (etcd://HOST,HOST,HOST), so that the "
                "end of one is not the end of your locks");
    doctor_quorum(k, members - learners);
}

/* AlarmResponse: alarms 2; AlarmMember: alarm 2 (1 NOSPACE, 2 CORRUPT). */
static void doctor_alarms(struct etcd_step *k, const struct etcd_reply *reply)
{
    struct snib__pb p;
    bool full = false, corrupt = false;
    snib__pb_open(&p, reply->bytes, reply->size);
    while (snib__pb_next(&p)) {
        struct snib__pb alarm = snib__pb_inside(&p);
        while (p.field == 2 && snib__pb_next(&alarm)) {
            full = full || (alarm.field == 2 && alarm.number == 1);
            corrupt = corrupt || (alarm.field == 2 && alarm.number == 2);
        }
    }
    doctor_tell(k, !full && !corrupt, SNIB_LEVEL_FAIL, "alarms",
                corrupt ? "a member's data is corrupt"
                : full  ? "the database is full (NOSPACE)"
                        : "none",
                corrupt ? "replace that member (etcdctl alarm list)"
                        : "etcdctl compact, defrag, alarm disarm; or raise "
                          "--quota-backend-bytes");
}

/* -- questions ---------------------------------------------------------------- */

/* The server looks whether the user may do both branches before it compares
 * anything, and what is compared is never true. */
static void doctor_ask_rights(struct snib__etcd *e, struct snib__buf *b)
{
    struct etcd_key from, to, key;
    const char *prefix = e->recipe ? "snib/x/" : e->prefix;
    snib__etcd_key_all(e, &from, &to);
    key.size = (size_t)snprintf(key.text, sizeof key.text, "%sdoctor", prefix);
    if (e->recipe) { /* those to the locks' own keys show with a lock */
        from = to = key;
        to.text[to.size++] = 'z';
    }
    snib__etcd_compare(b, snib__etcd_text_of(&key), INT64_MAX);
    snib__etcd_txn_put(
        b, &(struct snib__etcd_put){.key = snib__etcd_text_of(&key)});
    snib__etcd_txn_range(
        b, SNIB__ETCD_FAILURE,
        &(struct snib__etcd_range){.from = snib__etcd_text_of(&from),
                                   .to = snib__etcd_text_of(&to),
                                   .limit = 1});
}

static void doctor_ask(struct snib__etcd *e, snib_instant now,
                       struct etcd_step *k)
{
    static const char *const paths[DOCTOR_QUESTIONS] = {
        SNIB__ETCD_STATUS, SNIB__ETCD_MEMBERS, SNIB__ETCD_ALARM,
        SNIB__ETCD_TXN};
    snib__buf_clear(&e->message);
    if (k->asked == DOCTOR_RIGHTS) {
        doctor_ask_rights(e, &e->message);
    }
    snib__etcd_step_call(e, now, k, STEP_ASKS, paths[k->asked], &e->message);
}

static void doctor_begin(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k)
{
    k->asked = DOCTOR_STATUS;
    snib__buf_clear(k->r[0]->said.result);
    doctor_ask(e, now, k);
}

static void doctor_refused(struct etcd_step *k, const struct etcd_reply *reply)
{
    static const char *const checks[DOCTOR_QUESTIONS] = {
        "server", "members", "alarms", "permissions"};
    bool rights = k->asked == DOCTOR_RIGHTS;
    doctor_tell(k, false, rights ? SNIB_LEVEL_FAIL : SNIB_LEVEL_WARN,
                checks[k->asked], reply->text,
                rights ? "give the user the rights listed in docs/ETCD.md"
                       : "this could not be looked at");
}

static void doctor_done(struct snib__etcd *e, snib_instant now,
                        struct etcd_call *c, const struct etcd_reply *reply)
{
    struct etcd_step *k = (struct etcd_step *)(void *)c;
    if (reply->end == ETCD_AGAIN) {
        snib__buf_clear(k->r[0]->said.result);
        snib__etcd_step_by_reply(e, now, k, reply);
        return;
    }
    if (reply->end) {
        doctor_refused(k, reply);
    } else if (k->asked == DOCTOR_STATUS) {
        doctor_status(e, now, k, reply);
    } else if (k->asked == DOCTOR_MEMBERS) {
        doctor_members(e, k, reply);
    } else if (k->asked == DOCTOR_ALARMS) {
        doctor_alarms(k, reply);
    } else {
        doctor_tell(k, true, SNIB_LEVEL_OK, "permissions",
                    e->recipe ? "those to the tombstones' keys, snib/x/…; to a "
                                "lock's own keys the first acquire shows them"
                              : "all that are needed",
                    "");
    }
    if (++k->asked < DOCTOR_QUESTIONS) {
        doctor_ask(e, now, k);
        return;
    }
    struct snib__request *r = k->r[0];
    r->said.answer = r->said.result->failed ? SNIB__NOT_APPLIED : SNIB__DONE;
    r->said.err = r->said.result->failed
                      ? snib__fail_plain(r->said.reterr, SNIB_ERR_NOMEM)
                      : snib__ok(r->said.reterr);
    snib__etcd_step_over(e, k);
}

const struct etcd_work snib__etcd_doctor_work = {.begin = doctor_begin,
                                                 .done = doctor_done};
