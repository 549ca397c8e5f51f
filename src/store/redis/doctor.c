/* store/redis/doctor.c — is this server set up so that our promises hold?
 *
 * The questions are sent in one pipeline, and every answer becomes findings. A
 * question that an ACL refuses (INFO, CONFIG) becomes a warning, "could not
 * look", never an error. The *rate* of the server's clock is compared with this
 * machine's (two readings of TIME against BOOTTIME), and its time with this
 * machine's wall clock as that was at the start of the client. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snib/inspect.h"
#include "store/redis/inspect_i.h"

void snib__doctor_failed(struct snib__request *rq, snib_err err,
                         const char *text)
{
    bool denied = err == SNIB_ERR_DENIED, config = err == SNIB_ERR_CONFIG;
    snib__doctor_row(
        rq->said.result, SNIB_LEVEL_FAIL,
        denied   ? "permissions"
        : config ? "configuration"
                 : "reachable",
        text && *text ? text : snib_err_text(err),
        denied   ? "check user and password, and give the user the rights "
                   "listed in docs/REDIS.md"
        : config ? "the text says what to do"
                 : "check the URL, and that the server runs and lets this host "
                   "connect");
}

/* -- answers --------------------------------------------------------------- */

static void doctor_ping(struct inspection *k, snib_instant now,
                        const struct snib__resp_cell *c)
{
    char text[200];
    double ms = (double)snib__between(k->begun, now).ns / 1e6;
    if (c->type == SNIB__RESP_ERROR &&
        snib__redis_error_kind(c->text, c->size) != E_DENIED) {
        k->refuses = true;
        snib__redis_error_words(text, sizeof text, c->text, c->size);
        snib__doctor_tell(
            k, SNIB_LEVEL_FAIL, "answer", text,
            "the server answers but refuses to work; see its log");
        return;
    }
    snprintf(text, sizeof text, "a round trip takes %.2f ms", ms);
    snib__doctor_tell(
        k, ms > 50 ? SNIB_LEVEL_WARN : SNIB_LEVEL_OK, "latency", text,
        ms > 50 ? "leases must be many times longer than a round trip; use a "
                  "nearer server"
                : "");
}

/* Only where the way is encrypted: what goes over a network without that is for
 * its owner to know. */
static void doctor_tls(const struct snib__redis *s, struct inspection *k)
{
    if (s->out->conn[CALLERS]->transport != SNIB__TLS) {
        return;
    }
    if (s->unverified) {
        snib__doctor_tell(
            k, SNIB_LEVEL_FAIL, "tls",
            "encrypted, but for whoever answers (tls_verify=no)",
            "give the CA of the server's certificate by tls_ca= in "
            "place of tls_verify=no");
    } else {
        snib__doctor_tell(k, SNIB_LEVEL_OK, "tls",
                          "encrypted, and the server's certificate is verified",
                          "");
    }
}

/* How the primary was found, where the URL does not name it alone. */
static void doctor_topology(const struct snib__redis *s, struct inspection *k)
{
    char text[400];
    if (s->topology) {
        const char *remedy = snib__topology_words(
            s->topology, s->session[WATCH].state == SESSION_READY, text,
            sizeof text);
        snib__doctor_tell(k, *remedy ? SNIB_LEVEL_WARN : SNIB_LEVEL_OK,
                          "topology", text, remedy);
    }
}

static void doctor_policy(struct inspection *k, const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *v = snib__resp_at(c, 1);
    char text[120], clean[41];
    if (snib__doctor_refused(k, c, "eviction", "maxmemory-policy") || !v ||
        v->type != SNIB__RESP_STRING) {
        return;
    }
    snib__redis_error_text(clean, sizeof clean, v->text, v->size);
    snprintf(text, sizeof text, "maxmemory-policy is %s", clean);
    if (snib__resp_is(v, "noeviction")) {
        snib__doctor_tell(k, SNIB_LEVEL_OK, "eviction", text, "");
    } else {
        snib__doctor_tell(
            k, SNIB_LEVEL_FAIL, "eviction", text,
            "set maxmemory-policy noeviction: all our keys have a TTL, so "
            "held locks may be evicted");
    }
}

static void doctor_aof(struct inspection *k, const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *v = snib__resp_at(c, 1);
    k->cursor = -1;
    if (snib__doctor_refused(k, c, "persistence", "appendonly") || !v) {
        return;
    }
    k->cursor = snib__resp_is(v, "yes");
}

/* appendfsync says when an acknowledged write is on the disk (docs/REDIS.md,
 * "What is promised where"). */
static void doctor_fsync_policy(struct inspection *k,
                                const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *v = snib__resp_at(c, 1);
    char text[160], clean[41];
    if (k->cursor != 1 ||
        snib__doctor_refused(k, c, "persistence", "appendfsync") || !v ||
        v->type != SNIB__RESP_STRING) {
        return;
    }
    bool always = snib__resp_is(v, "always");
    snib__redis_error_text(clean, sizeof clean, v->text, v->size);
    snprintf(text, sizeof text, "appendonly is on, appendfsync %s%s", clean,
             always ? ""
             : snib__resp_is(v, "everysec")
                 ? ": a crash may forget the grants of the last second"
                 : ": a crash may forget the grants of half a minute");
    snib__doctor_tell(
        k, always ? SNIB_LEVEL_OK : SNIB_LEVEL_WARN, "persistence", text,
        always ? ""
               : "set appendfsync always, or rely on fencing tokens "
                 "(docs/FENCING.md)");
}

static void doctor_save(struct inspection *k, const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *v = snib__resp_at(c, 1);
    if (k->cursor == 0) {
        bool dumps = c->type == SNIB__RESP_ARRAY && v &&
                     v->type == SNIB__RESP_STRING && v->size;
        snib__doctor_tell(
            k, SNIB_LEVEL_WARN, "persistence",
            dumps ? "dumps only: a restart forgets the newest grants"
                  : "nothing is saved: a restart forgets all grants",
            "set appendonly yes and appendfsync always (everysec loses up to a "
            "second), or rely on fencing tokens");
    }
}

static void doctor_probe(struct inspection *k, const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *wrong = snib__resp_at(c, 0);
    char text[400], clean[200], what[41];
    int64_t heard;
    if (c->type == SNIB__RESP_ERROR) {
        snib__redis_error_words(clean, sizeof clean, c->text, c->size);
        bool keys = strstr(clean, "keys") != NULL;
        snib__doctor_tell(
            k, keys ? SNIB_LEVEL_WARN : SNIB_LEVEL_FAIL, "permissions", clean,
            keys ? "the user may use some keys only, so its other rights "
                   "could not be tried; see docs/REDIS.md"
                 : "give the user the rights listed in docs/REDIS.md");
        return;
    }
    if (!wrong || wrong->type != SNIB__RESP_ARRAY) {
        return;
    }
    const struct snib__resp_cell *e = wrong + 1;
    for (uint32_t i = 0; i + 1 < wrong->size; i += 2, e += 2) {
        if (e[0].type == SNIB__RESP_STRING && e[1].type == SNIB__RESP_STRING) {
            if (snib__doctor_no_right(&e[1]) && k->refuses) {
                continue; /* PING has said so */
            }
            snib__redis_error_words(clean, sizeof clean, e[1].text, e[1].size);
            snib__redis_error_text(what, sizeof what, e[0].text, e[0].size);
            snprintf(text, sizeof text, "%s in a script: %s", what, clean);
            snib__doctor_tell(
                k, SNIB_LEVEL_FAIL, "permissions", text,
                "give the user the rights listed in docs/REDIS.md");
        }
    }
    if (!wrong->size) {
        snib__doctor_tell(k, SNIB_LEVEL_OK, "permissions",
                          "scripts may run all they need", "");
    }
    if (snib__resp_number(snib__resp_at(c, 1), &heard) && heard > 1) {
        snib__doctor_tell(
            k, SNIB_LEVEL_FAIL, "client id",
            "somebody else listens to this client's channel",
            "two processes have one client id (a cloned machine?): restart "
            "one of them");
    }
}

/* c: the reply of ears.lua. (A broken connection of a client counts as a
 * listener until the server gives it up.) */
static void doctor_ears(struct inspection *k, const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *one = snib__resp_at(c, 2);
    int64_t all, more;
    char text[200], clean[80];
    if (c->type == SNIB__RESP_ERROR) {
        snib__redis_error_words(clean, sizeof clean, c->text, c->size);
        snprintf(text, sizeof text,
                 "could not look at who listens to whose channel: %s", clean);
        snib__doctor_tell(k, SNIB_LEVEL_WARN, "listeners", text,
                          "give the user +pubsub|channels for this check");
        return;
    }
    if (!snib__resp_number(snib__resp_at(c, 0), &all) ||
        !snib__resp_number(snib__resp_at(c, 1), &more) || !one ||
        one->type != SNIB__RESP_STRING) {
        return;
    }
    snib__redis_error_text(clean, sizeof clean, one->text, one->size);
    if (more > 0) {
        snprintf(text, sizeof text,
                 "%" PRId64 " of %" PRId64 " channels have more than one "
                 "listener, %s for instance: that client is given no lock by "
                 "message, and another hears of it",
                 more, all, clean);
        snib__doctor_tell(
            k, SNIB_LEVEL_WARN, "listeners", text,
            "find who else listens (CLIENT LIST TYPE pubsub): who may use "
            "&snib:* may listen to every client whose id it can read at a "
            "lock (docs/REDIS.md, \"Least privilege\")");
        return;
    }
    snib__doctor_tell(k, SNIB_LEVEL_OK, "listeners",
                      "nobody but itself listens to a client's channel", "");
}

/* Leases do not depend on this difference, since all time is the server's. But
 * people who read "since" are misled by it, and after a failover to a server
 * whose clock is behind tokens may fall. */
static void doctor_skew_check(struct inspection *k, int64_t there_ms,
                              int64_t here_ms, int64_t trip_ms)
{
    enum { FINE_MS = 1000 };
    int64_t skew = there_ms - here_ms;
    bool fine = skew <= FINE_MS && skew >= -FINE_MS - trip_ms;
    char text[160];
    snprintf(text, sizeof text,
             "the server's clock is %" PRId64 " ms %s this host's",
             skew < 0 ? -skew : skew, skew < 0 ? "behind" : "ahead of");
    snib__doctor_tell(
        k, fine ? SNIB_LEVEL_OK : SNIB_LEVEL_WARN, "clock-skew", text,
        fine ? ""
             : "run NTP on both: fencing tokens follow the server's "
               "clock");
}

/* Between the two readings no more time may have passed at the server than here
 * between the first question and the second answer. */
static void doctor_clock_check(const struct snib__redis *s,
                               struct inspection *k, snib_instant now,
                               const struct snib__resp_cell *c)
{
    int64_t ms;
    char text[200];
    if (!k->time_ms || !snib__state_clock(c, &ms)) {
        snib__doctor_tell(k, SNIB_LEVEL_WARN, "clock",
                          "the server's clock was not read",
                          "give the user +time");
        return;
    }
    int64_t there = ms - k->time_ms;
    int64_t here = snib__to_ms(snib__between(k->begun, now)) + 2;
    bool fine = there >= 0 && there <= here;
    snprintf(text, sizeof text,
             "server time is %" PRId64 ".%03" PRId64 " s since 1970, its "
             "clock runs %s",
             ms / 1000, ms % 1000, fine ? "evenly" : "unevenly");
    snib__doctor_tell(
        k, fine ? SNIB_LEVEL_OK : SNIB_LEVEL_FAIL, "clock", text,
        fine ? "" : "let NTP slew the clock, never step it: leases end by it");
    if (s->wall_offset_ns) {
        doctor_skew_check(k, ms, (now.ns + s->wall_offset_ns) / 1000000, here);
    }
}

void snib__doctor_subscription(struct snib__redis *s, struct inspection *k)
{
    const struct session *l = &s->session[SUBS];
    char text[300];
    if (l->state == SESSION_READY) {
        snib__doctor_tell(k, SNIB_LEVEL_OK, "subscription",
                          "may listen for grants", "");
        return;
    }
    snprintf(text, sizeof text, "cannot listen for grants: %s", l->text);
    snib__doctor_tell(
        k, SNIB_LEVEL_FAIL, "subscription", text,
        "waiting needs the right to the channels (ACL: &snib:* +subscribe) "
        "and a third connection");
}

void snib__doctor_judge(const struct snib__redis *s, snib_instant now,
                        struct inspection *k, const struct snib__resp_cell *c)
{
    if (snib__doctor_down(s, k, c)) {
        return;
    }
    switch ((enum doctor_step)k->step) {
    case DOCTOR_PING:
        doctor_ping(k, now, c);
        doctor_tls(s, k);
        doctor_topology(s, k);
        break;
    case DOCTOR_TIME:
        snib__state_clock(c, &k->time_ms);
        break;
    case DOCTOR_INFO:
        snib__doctor_info(s, k, c);
        break;
    case DOCTOR_POLICY:
        doctor_policy(k, c);
        break;
    case DOCTOR_AOF:
        doctor_aof(k, c);
        break;
    case DOCTOR_FSYNC:
        doctor_fsync_policy(k, c);
        break;
    case DOCTOR_SAVE:
        doctor_save(k, c);
        break;
    case DOCTOR_LAYOUT:
        snib__doctor_layout(k, c);
        break;
    case DOCTOR_MARK:
        if (s->recovery_ms) {
            snib__doctor_epoch(s, k, c);
        } else if (!s->slots) {
            snib__doctor_mark(k, c);
        }
        break;
    case DOCTOR_MULTI:
    case DOCTOR_EXEC:
        if (!s->slots) {
            snib__doctor_packet(k, c);
        }
        break;
    case DOCTOR_PROBE:
        doctor_probe(k, c);
        break;
    case DOCTOR_EARS:
        doctor_ears(k, c);
        break;
    case DOCTOR_TIME_AGAIN:
        doctor_clock_check(s, k, now, c);
        break;
    case DOCTOR_SUBS:
        break;
    }
}
