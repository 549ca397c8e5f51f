/* store/zookeeper/doctor.c — is this ensemble set up so that our promises hold?
 *
 *   is the path there? -> else: is what is above it? … -> can a node be made there? -> and
 *   removed?
 *
 * What may not be asked becomes a finding, never an error. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "snib/inspect.h"
#include "store/zookeeper/zookeeper_i.h"

enum {
    DOCTOR_SLOW_MS = 50,
    DOCTOR_SERVERS = 3,
    /* Two thirds of it are 12 s: five ticks and one of 2 s, as shipped. */
    DOCTOR_CURATOR_MS = 18000
};

static void doctor_ask(struct snib__zoo *z, snib_instant now,
                       struct zoo_step *k);

enum doctor_question {
    DOCTOR_BASE,
    DOCTOR_MAKE,
    DOCTOR_REMOVE,
    DOCTOR_QUESTIONS
};

static void doctor_tell(struct zoo_step *k, bool good, snib_level bad,
                        const char *check, const char *text, const char *remedy)
{
    snib__rec_finding(k->r->said.result, good ? SNIB_LEVEL_OK : bad, check,
                      text, good ? "" : remedy);
}

/* A third of the session is the lease; two thirds are for a leader that did not
 * hear of it. */
static void doctor_curator(const struct snib__zoo *z, struct zoo_step *k)
{
    char text[ZOO_TEXT];
    const struct zoo_session *s = &z->session;
    snprintf(text, sizeof text,
             "the locks of Curator's %s; leases are %d ms at most, a third of "
             "the session",
             z->mutexes ? "InterProcessMutex" : "InterProcessReadWriteLock",
             s->zk.timeout_ms / 3);
    doctor_tell(k, s->zk.timeout_ms >= DOCTOR_CURATOR_MS, SNIB_LEVEL_WARN,
                "dialect", text,
                "two thirds of the session have to be longer than the ensemble "
                "needs to leave a leader that is frozen (syncLimit and one "
                "tick more): raise session_ms=, or maxSessionTimeout there");
}

static void doctor_session(struct snib__zoo *z, struct zoo_step *k)
{
    char text[ZOO_TEXT];
    const struct zoo_session *s = &z->session;
    snprintf(text, sizeof text,
             "what a killed client has goes after %d ms, and a lease more",
             s->zk.timeout_ms);
    doctor_tell(k, s->zk.timeout_ms <= s->wish_ms, SNIB_LEVEL_WARN, "session",
                text,
                "the ensemble keeps sessions for longer than session_ms= "
                "wishes; lower tickTime or minSessionTimeout there");
    if (z->curator) {
        doctor_curator(z, k);
    }
    snprintf(text, sizeof text, "%u server%s in the URL", z->out->conns,
             z->out->conns == 1 ? "" : "s");
    doctor_tell(k, z->out->conns >= DOCTOR_SERVERS, SNIB_LEVEL_WARN, "servers",
                text,
                "run three or five, and name them all "
                "(zookeeper://HOST,HOST,HOST), so that the end of one is not "
                "the end of your locks");
}

static void doctor_base(struct snib__zoo *z, snib_instant now,
                        struct zoo_step *k, const struct zoo_reply *reply)
{
    char text[ZOO_TEXT];
    double ms = (double)snib__between(reply->sent, now).ns / 1e6;
    snprintf(text, sizeof text, "ZooKeeper at %.100s, locks in %.80s%s",
             z->out->conn[z->session.at]->address, z->base[0] ? z->base : "/",
             reply->end ? ", which the first lock makes" : "");
    doctor_tell(k, true, SNIB_LEVEL_OK, "server", text, "");
    snprintf(text, sizeof text, "a round trip takes %.2f ms", ms);
    doctor_tell(k, ms < DOCTOR_SLOW_MS, SNIB_LEVEL_WARN, "latency", text,
                "leases must be many times longer than a round trip; use a "
                "nearer server");
    doctor_session(z, k);
    doctor_tell(k, z->session.logged_in, SNIB_LEVEL_WARN, "login",
                z->session.logged_in
                    ? "only this login may use what it makes"
                    : "no login: whoever reaches the ensemble may change these "
                      "locks",
                "write zookeeper://USER:PASSWORD@HOST");
    doctor_tell(k, false, SNIB_LEVEL_WARN, "tls", "the way is not encrypted",
                "keep it inside a network that you trust");
}

/* The path, or the part of it that is looked at. */
static void doctor_path(const struct snib__zoo *z, const struct zoo_step *k,
                        char ret[ZOO_BASE_MAX])
{
    snprintf(ret, ZOO_BASE_MAX, "%.*s", (int)k->part, z->base);
}

static void doctor_rights(struct snib__zoo *z, struct zoo_step *k)
{
    char text[ZOO_TEXT], path[ZOO_BASE_MAX];
    doctor_path(z, k, path);
    snprintf(text, sizeof text, "nodes can be made%s in %.150s",
             k->part < strlen(z->base) ? "" : " and removed",
             path[0] ? path : "/");
    doctor_tell(k, true, SNIB_LEVEL_OK, "permissions", text, "");
}

static void doctor_done(struct snib__zoo *z, snib_instant now,
                        struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    char text[ZOO_TEXT], path[ZOO_BASE_MAX];
    bool gone = reply->end == ZOO_SAYS && reply->zk == SNIB__ZK_NO_NODE;
    bool failed =
        reply->end == ZOO_SAYS && !gone && reply->zk != SNIB__ZK_EXISTS_ALREADY;
    if (reply->end == ZOO_AGAIN || reply->end == ZOO_LOST) {
        reply->end = ZOO_AGAIN; /* the probe goes with the session */
        snib__buf_clear(k->r->said.result);
        snib__zoo_step_failed(z, now, k, reply, z->base);
        return;
    }
    bool above =
        k->part < strlen(z->base); /* nobody has to remove anything there */
    if (failed && !(above && k->at == DOCTOR_REMOVE)) {
        doctor_path(z, k, path);
        (void)snib__zoo_words(z, reply->zk, path, text, sizeof text);
        bool sasl = reply->zk == SNIB__ZK_SASL;
        doctor_tell(k, false, SNIB_LEVEL_FAIL, sasl ? "login" : "permissions",
                    text,
                    sasl ? "use an ensemble that wants no login by SASL "
                           "(sessionRequireClientSASLAuth, enforce.auth.*)"
                         : "give the rights cdrwa there");
        k->at = DOCTOR_QUESTIONS;
    } else if (k->at == DOCTOR_BASE) {
        if (!above) {
            doctor_base(z, now, k, reply);
        }
        if (gone && k->part) {
            k->part = snib__zoo_base_above(z, k->part);
        } else {
            k->at = DOCTOR_MAKE;
        }
    } else if (++k->at == DOCTOR_QUESTIONS) {
        doctor_rights(z, k);
    }
    if (k->at < DOCTOR_QUESTIONS) {
        doctor_ask(z, now, k);
        return;
    }
    bool full = k->r->said.result->failed;
    snib__zoo_step_answer(z, k, full ? SNIB__NOT_APPLIED : SNIB__DONE,
                          full ? SNIB_ERR_NOMEM : SNIB_ERR_OK, NULL);
}

/* The probe goes with the session, whatever happens. */
static void doctor_ask(struct snib__zoo *z, snib_instant now,
                       struct zoo_step *k)
{
    char path[ZOO_BASE_MAX + 64], base[ZOO_BASE_MAX];
    doctor_path(z, k, base);
    snprintf(path, sizeof path, "%s/=doctor-%016llx%016llx", base,
             (unsigned long long)z->client[0],
             (unsigned long long)z->client[1]);
    const struct snib__zk_create create = {.path = path,
                                           .data = "",
                                           .flags = SNIB__ZK_EPHEMERAL,
                                           .creators_own =
                                               z->session.logged_in};
    if (k->at == DOCTOR_BASE) {
        snib__zoo_step_ask(z, k, SNIB__ZK_EXISTS, doctor_done);
        snib__zk_put_read(snib__zoo_out(z), base[0] ? base : "/", false);
    } else if (k->at == DOCTOR_MAKE) {
        snib__zoo_step_ask(z, k, SNIB__ZK_CREATE2, doctor_done);
        snib__zk_put_create(snib__zoo_out(z), &create);
    } else {
        snib__zoo_step_ask(z, k, SNIB__ZK_DELETE, doctor_done);
        snib__zk_put_version(snib__zoo_out(z), path, -1);
    }
    snib__zoo_step_send(z, now, k, k->at != DOCTOR_BASE);
}

static void doctor_begin(struct snib__zoo *z, snib_instant now,
                         struct zoo_step *k)
{
    k->at = DOCTOR_BASE;
    k->part = (uint32_t)strlen(z->base);
    snib__buf_clear(k->r->said.result);
    doctor_ask(z, now, k);
}

const struct zoo_work snib__zoo_doctor_work = {.begin = doctor_begin};
