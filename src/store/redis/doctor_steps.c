/* store/redis/doctor_steps.c — what the doctor asks a server, and when all is
 * answered. */
#include "store/redis/inspect_i.h"

static void doctor_steps_command(struct snib__redis *s, snib_instant now, int i,
                                 struct inspection *k,
                                 const char *const words[])
{
    struct snib__buf *out = &s->out->conn[i]->out;
    uint32_t n = 0;
    while (words[n]) {
        n++;
    }
    snib__resp_begin(out, n);
    for (uint32_t j = 0; j < n; j++) {
        snib__resp_text(out, words[j]);
    }
    snib__inspect_flight(s, now, i, k, -1);
}

bool snib__doctor_send(struct snib__redis *s, snib_instant now, int i,
                       struct inspection *k)
{
    struct snib__buf *out = &s->out->conn[i]->out;
    char layout[LAYOUT_KEY_MAX];
    snib__layout_key(s, i, layout);
    k->begun = now;
    doctor_steps_command(s, now, i, k, (const char *const[]){"PING", NULL});
    doctor_steps_command(s, now, i, k, (const char *const[]){"TIME", NULL});
    doctor_steps_command(s, now, i, k, (const char *const[]){"INFO", NULL});
    doctor_steps_command(
        s, now, i, k,
        (const char *const[]){"CONFIG", "GET", "maxmemory-policy", NULL});
    doctor_steps_command(
        s, now, i, k,
        (const char *const[]){"CONFIG", "GET", "appendonly", NULL});
    doctor_steps_command(
        s, now, i, k,
        (const char *const[]){"CONFIG", "GET", "appendfsync", NULL});
    doctor_steps_command(s, now, i, k,
                         (const char *const[]){"CONFIG", "GET", "save", NULL});
    doctor_steps_command(s, now, i, k,
                         (const char *const[]){"GET", layout, NULL});
    doctor_steps_command(
        s, now, i, k,
        s->recovery_ms
            ? (const char *const[]){"MGET", SNIB__REDIS_EPOCH_KEY,
                                    SNIB__REDIS_MARK_KEY, NULL}
            : (const char *const[]){"XLEN", SNIB__REDIS_MARK_KEY, NULL});
    doctor_steps_command(s, now, i, k, (const char *const[]){"MULTI", NULL});
    doctor_steps_command(s, now, i, k, (const char *const[]){"EXEC", NULL});
    snib__encode_probe(s, i, out);
    snib__inspect_flight(s, now, i, k, SNIB__SCRIPT_PROBE);
    snib__encode_script(out, SNIB__SCRIPT_EARS, true, 0, 0);
    snib__inspect_flight(s, now, i, k, SNIB__SCRIPT_EARS);
    doctor_steps_command(s, now, i, k, (const char *const[]){"TIME", NULL});
    k->waits_subs = true;
    snib__session_want(s, now, SUBS);
    return true;
}

static void doctor_steps_end(struct snib__redis *s, struct inspection *k)
{
    if (k->rq->said.result->failed) {
        snib__request_fail(s, k->rq, SNIB__NOT_APPLIED, SNIB_ERR_LIMIT, NULL);
    } else {
        snib__request_finish(s, k->rq, SNIB__DONE);
    }
}

static void doctor_steps_next(struct snib__redis *s, struct inspection *k)
{
    const struct session *l = &s->session[SUBS];
    if (k->step != DOCTOR_SUBS) {
        return;
    }
    if (l->state == SESSION_READY || l->err) {
        k->waits_subs = false;
        snib__doctor_subscription(s, k);
        doctor_steps_end(s, k);
    }
}

void snib__inspect_subs(struct snib__redis *s, snib_instant now)
{
    (void)now;
    SNIB__LIST_EACH_SAFE (l, after, &s->inspections) {
        struct inspection *k = SNIB__CONTAINER(l, struct inspection, link);
        if (k->waits_subs) {
            doctor_steps_next(s, k);
        }
    }
}

void snib__doctor_reply(struct snib__redis *s, snib_instant now, int i,
                        struct inspection *k, const struct snib__resp_cell *c)
{
    if (k->step == DOCTOR_SUBS) {
        return;
    }
    snib__doctor_judge(s, now, k, c);
    if (k->step == DOCTOR_EXEC && k->stuck) {
        /* What was sent behind it is only added to the transaction. */
        s->session[i].stuck = s->session[i].doomed = true;
        doctor_steps_end(s, k);
        return;
    }
    k->step++;
    doctor_steps_next(s, k);
}
