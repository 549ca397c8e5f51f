/* store/redis/doctor_keys.c — what is said of the keys that are no lock's, and
 * of the way in which a free mutex is taken; rows of findings. */
#include <stdio.h>
#include <string.h>

#include "store/redis/inspect_i.h"

void snib__doctor_row(struct snib__buf *out, snib_level level,
                      const char *check, const char *text, const char *remedy)
{
    snib__rec_row(out, SNIB__ROW_FINDING);
    snib__rec_i64(out, SNIB__F_LEVEL, level);
    snib__rec_text(out, SNIB__F_CHECK, check);
    snib__rec_text(out, SNIB__F_TEXT, text);
    snib__rec_text(out, SNIB__F_REMEDY, remedy);
}

void snib__doctor_tell(struct inspection *k, snib_level level,
                       const char *check, const char *text, const char *remedy)
{
    snib__doctor_row(k->rq->said.result, level, check, text, remedy);
}

bool snib__doctor_refused(struct inspection *k, const struct snib__resp_cell *c,
                          const char *check, const char *what)
{
    char text[300], clean[160];
    if (c->type != SNIB__RESP_ERROR) {
        return false;
    }
    snib__redis_error_words(clean, sizeof clean, c->text, c->size);
    snprintf(text, sizeof text, "could not look at %s: %s", what, clean);
    snib__doctor_tell(
        k, SNIB_LEVEL_WARN, check, text,
        "give the user +info and +config|get for this check, or ask the "
        "server's operator");
    return true;
}

bool snib__doctor_no_right(const struct snib__resp_cell *c)
{
    return snib__redis_error_kind(c->text, c->size) != E_DENIED;
}

/* It refuses whatever has a key, so this is no matter of rights. */
bool snib__doctor_down(const struct snib__redis *s, struct inspection *k,
                       const struct snib__resp_cell *c)
{
    char text[252], clean[160];
    if (c->type != SNIB__RESP_ERROR) {
        return false;
    }
    snib__redis_error_words(clean, sizeof clean, c->text, c->size);
    if (!snib__redis_error_down(s, clean, text, sizeof text)) {
        return false;
    }
    if (!k->down) {
        k->down = true;
        snib__doctor_tell(k, SNIB_LEVEL_FAIL, "cluster", text,
                          "start the nodes that do not answer, or give their "
                          "slots to others (redis-cli --cluster fix)");
    }
    return true;
}

/* With another number than ours there would be no consultation. */
void snib__doctor_layout(struct inspection *k, const struct snib__resp_cell *c)
{
    char text[250] = "no number of it is written here", clean[160];
    bool known = c->type == SNIB__RESP_STRING;
    if (c->type == SNIB__RESP_ERROR && snib__doctor_no_right(c) && k->refuses) {
        return; /* PING has said so */
    }
    if (c->type == SNIB__RESP_ERROR) {
        snib__redis_error_words(clean, sizeof clean, c->text, c->size);
        snprintf(text, sizeof text, "could not look at its number: %s", clean);
    }
    snib__doctor_tell(
        k, known ? SNIB_LEVEL_OK : SNIB_LEVEL_WARN, "layout",
        known ? "the locks have layout " SNIB__REDIS_LAYOUT : text,
        known ? ""
              : "let the user write the key " SNIB__REDIS_LAYOUT_KEY
                ", by which versions notice each other (docs/REDIS.md)");
}

/* c: the answer to XLEN. Where all is well nothing is said. */
void snib__doctor_mark(struct inspection *k, const struct snib__resp_cell *c)
{
    char text[300], clean[160];
    if (c->type != SNIB__RESP_ERROR ||
        (snib__doctor_no_right(c) && k->refuses)) {
        return;
    }
    if (snib__redis_error_kind(c->text, c->size) == E_CORRUPT) {
        snib__doctor_tell(k, SNIB_LEVEL_FAIL, "mark",
                          "the key " SNIB__REDIS_MARK_KEY
                          " is of another type, so not ours",
                          "if it is \"recovery\", the others have recovery= in "
                          "their URL: use it here, too; else rename or delete "
                          "it: every grant draws its token there "
                          "(docs/REDIS.md)");
        return;
    }
    snib__redis_error_words(clean, sizeof clean, c->text, c->size);
    snprintf(text, sizeof text,
             "could not look at the mark: %s; so each acquire is a whole "
             "script, and tokens rise above those of other logins only while "
             "the server's clock is not set back",
             clean);
    snib__doctor_tell(
        k, SNIB_LEVEL_WARN, "mark", text,
        "let the user read and write the key " SNIB__REDIS_MARK_KEY
        " (docs/REDIS.md, \"Least privilege\")");
}

/* Whose key the mark is; m: what stands there. */
static void doctor_keys_taken(struct inspection *k,
                              const struct snib__resp_cell *m)
{
    if (!snib__resp_is(m, "recovery")) {
        snib__doctor_tell(
            k, SNIB_LEVEL_FAIL, "mark",
            "the key " SNIB__REDIS_MARK_KEY
            " is not taken: clients without recovery= are let in as well "
            "as those who have it",
            "let nobody delete or evict it; the next client that connects and "
            "asks for a lock takes it");
    }
}

/* The epoch, where it is of this life of the server and no clock was set back;
 * else none has begun. ret_till: when its recovery is over. */
static bool doctor_keys_begun(const struct snib__redis *s,
                              const struct inspection *k,
                              const struct snib__resp_cell *e,
                              long long *ret_till)
{
    char text[160], life[sizeof k->life];
    if (!e || e->type != SNIB__RESP_STRING || e->size >= sizeof text) {
        return false;
    }
    snprintf(text, sizeof text, "%.*s", (int)e->size, e->text);
    return sscanf(text, "%40s %lld", life, ret_till) == 2 &&
           (!k->life[0] || !strcmp(life, k->life)) &&
           *ret_till - k->time_ms <= s->recovery_ms;
}

/* c: the answer to MGET of the epoch and the mark. */
void snib__doctor_epoch(const struct snib__redis *s, struct inspection *k,
                        const struct snib__resp_cell *c)
{
    char text[200];
    long long till = 0, ms = s->recovery_ms;
    if (c->type == SNIB__RESP_ERROR && snib__doctor_no_right(c) && k->refuses) {
        return; /* PING has said so */
    }
    if (snib__doctor_refused(k, c, "recovery", "the epoch")) {
        return;
    }
    bool begun = doctor_keys_begun(s, k, snib__resp_at(c, 0), &till);
    if (!begun) {
        snprintf(text, sizeof text,
                 "the server was restarted, replaced or emptied, or is new: "
                 "nobody is let in for %lld ms from when the first asks%s",
                 ms,
                 k->connected < s->replicas
                     ? " and enough replicas are connected"
                     : "");
    } else if (till > k->time_ms) {
        snprintf(text, sizeof text,
                 "the server was restarted, replaced or emptied: nobody is let "
                 "in anew for %lld ms more",
                 till - (long long)k->time_ms);
    } else {
        snprintf(text, sizeof text,
                 "recovery=: after the server was restarted, promoted or "
                 "emptied nobody is let in anew for %lld ms",
                 ms);
    }
    snib__doctor_tell(k, SNIB_LEVEL_OK, "recovery", text, "");
    if (begun) {
        doctor_keys_taken(k, snib__resp_at(c, 1));
    }
    if (s->topology && !s->replicas) {
        snib__doctor_tell(
            k, SNIB_LEVEL_WARN, "recovery",
            "it keeps two owners apart when the old primary of a failover is "
            "dead, not while it goes on with a new one there",
            "fence what the locks protect (docs/REDIS.md, \"When the server "
            "forgets\")");
    }
}

/* c: the answer to MULTI or to EXEC. */
void snib__doctor_packet(struct inspection *k, const struct snib__resp_cell *c)
{
    static const char abort[] = "EXECABORT";
    char text[300], clean[160];
    bool error = c->type == SNIB__RESP_ERROR;
    if (k->step == DOCTOR_MULTI) {
        k->stuck = !error;
    } else {
        k->stuck = k->stuck && error &&
                   (c->size < sizeof abort - 1 ||
                    memcmp(c->text, abort, sizeof abort - 1) != 0);
        error = k->stuck;
    }
    if (!error || (snib__doctor_no_right(c) && k->refuses)) {
        return;
    }
    snib__redis_error_words(clean, sizeof clean, c->text, c->size);
    snprintf(text, sizeof text,
             "no transactions: %s; so each acquire is a whole script", clean);
    snib__doctor_tell(k, SNIB_LEVEL_WARN, "transactions", text,
                      "give the user +multi +exec, or connect without the "
                      "proxy: a free mutex then costs a third");
}
