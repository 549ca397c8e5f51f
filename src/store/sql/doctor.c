/* store/sql/doctor.c — what the check-ups of the stores in databases share.
 *
 * The questions are a store's; each answer becomes findings. What cannot be
 * looked at is a finding too. A server that cannot be asked at all, or not to
 * the end, is one, and an error as well. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "snib/inspect.h"
#include "store/sql/recipe.h"

enum { DOCTOR_SLOW_MS = 50, DOCTOR_CLOCK_MS = 60000 };

void snib__sql_doctor_tell(struct snib__sql_doctor *d, snib_level level,
                           const char *check, const char *text,
                           const char *remedy)
{
    snib__rec_finding(d->out, level, check, text, remedy);
}

void snib__sql_doctor_judge(struct snib__sql_doctor *d, bool good,
                            snib_level bad, const char *check, const char *text,
                            const char *remedy)
{
    snib__sql_doctor_tell(d, good ? SNIB_LEVEL_OK : bad, check, text,
                          good ? "" : remedy);
}

void snib__sql_doctor_lacks(struct snib__sql_doctor *d, const char *tables)
{
    char text[200];
    d->lacks = true;
    snprintf(text, sizeof text, "missing: %s", tables);
    snib__sql_doctor_tell(d, SNIB_LEVEL_FAIL, "tables", text,
                          "run what \"snib doctor --schema\" prints: it makes "
                          "them, and leaves those alone that are there");
}

void snib__sql_doctor_clock(struct snib__sql_doctor *d, int64_t us)
{
    char text[160];
    int64_t here = (d->sent.ns + d->wall_offset_ns) / 1000;
    long long ms = (us - here) / 1000;
    if (!d->wall_offset_ns) {
        return;
    }
    snprintf(text, sizeof text, "the server's is %lld ms %s this host's",
             ms < 0 ? -ms : ms, ms < 0 ? "behind" : "ahead of");
    snib__sql_doctor_judge(
        d, llabs(ms) < DOCTOR_CLOCK_MS, SNIB_LEVEL_WARN, "clock", text,
        "let NTP set both: leases do not mind, but ages are shown "
        "wrongly, and tokens of a clock that is set back rise slowly");
}

void snib__sql_doctor_latency(struct snib__sql_doctor *d)
{
    char text[80];
    snib_instant now = d->session->sql.driver->now();
    double ms = (double)snib__between(d->sent, now).ns / 1e6;
    snprintf(text, sizeof text, "a round trip takes %.2f ms", ms);
    snib__sql_doctor_judge(
        d, ms < DOCTOR_SLOW_MS, SNIB_LEVEL_WARN, "latency", text,
        "leases must be many times longer than a round trip; use a "
        "nearer server");
}

static void doctor_tls(struct snib__sql_doctor *d)
{
    if (d->address->verify) {
        snib__sql_doctor_tell(d, SNIB_LEVEL_OK, "tls",
                              "encrypted; the server's certificate is verified",
                              "");
    } else if (!d->address->here) {
        snib__sql_doctor_tell(
            d, SNIB_LEVEL_WARN, "tls", "none (?tls=no)",
            "leave ?tls=no out, unless nobody else is on the way");
    }
}

static void doctor_failed(struct snib__sql_doctor *d,
                          const struct snib_error *e)
{
    char remedy[160];
    bool denied = e->code == SNIB_ERR_DENIED,
         set_up = e->code == SNIB_ERR_CONFIG,
         full = strstr(e->text, " has no connection left") != NULL;
    snprintf(remedy, sizeof remedy,
             "check user and password, and give the user the rights listed in "
             "%s",
             d->page);
    snib__sql_doctor_tell(d, SNIB_LEVEL_FAIL,
                          denied   ? "permissions"
                          : set_up ? "configuration"
                                   : "reachable",
                          e->text,
                          denied ? remedy
                          : set_up || full
                              ? "the text says what to do"
                              : "check the URL, and that the server runs "
                                "and lets this host connect");
}

snib__sql_end snib__sql_doctor_ask(struct snib__sql_doctor *d,
                                   const struct snib__sql_question *q,
                                   size_t count)
{
    struct snib__sql_session *s = d->session;
    snib__sql_end end = snib__sql_connect(s);
    if (!end) {
        doctor_tls(d);
    }
    for (size_t i = 0; !end && i < count; i++) {
        snib__sql_script_clear(&s->script);
        snib__sql_add(&s->script, q[i].statement, q[i].see, d);
        if (q[i].statement == SNIB__SQL_DO_RECIPE_DOCTOR &&
            d->recipe->int_lock) {
            snib__sql_recipe_add_scope(&s->script, d->recipe);
        }
        snib__sql_sync(&s->script);
        d->sent = s->sql.driver->now();
        end = snib__sql_script_run(s, 1);
        if (end == SNIB__SQL_REFUSED || end == SNIB__SQL_CONFLICT) {
            snib__sql_doctor_tell(d, SNIB_LEVEL_WARN, q[i].check,
                                  s->sql.fault.text,
                                  "this could not be looked at");
            end = SNIB__SQL_OK;
        }
    }
    if (end) {
        doctor_failed(d, &s->sql.fault);
    }
    return end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
}
