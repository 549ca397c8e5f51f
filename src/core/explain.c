/* core/explain.c — a risk, a loss and a forced release, in words.
 *
 * The cause of a loss is one word (snib_cause), which programs compare. The
 * person who reads a log wants to know more: why the last renewal was refused,
 * who ended the grant and why. The acquisition keeps that as a text
 * (`trouble`), from the first renewal that fails until one succeeds or the
 * acquisition is freed. A grant without trouble has no text: it costs a
 * pointer.
 *
 * Text that others wrote (the reason of a forced release, a server's error) is
 * data: control characters become '?', so that it stays one line. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/engine_i.h"

/* Bytes of the text that a forced release leaves at the store, NUL included. */
enum { FORCE_MAX = 1000 };

static void explain_one_line(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

void snib__acquisition_trouble(struct snib__acquisition *s, const char *text)
{
    if (!s || !text || !*text || (s->trouble && !strcmp(s->trouble, text))) {
        return;
    }
    char *copy = snib__strdup(text);
    if (copy) { /* no memory: the older text stays */
        explain_one_line(copy);
        snib__free(s->trouble);
        s->trouble = copy;
    }
}

void snib__acquisition_recovered(struct snib__acquisition *s)
{
    if (s) {
        snib__free(s->trouble);
        s->trouble = NULL;
    }
}

/* Drops what a cut has left of a UTF-8 character. */
static void explain_drop_half(char *text)
{
    size_t n = strlen(text), tail = 0;
    while (tail < n && tail < 4 &&
           ((unsigned char)text[n - 1 - tail] & 0xc0) == 0x80) {
        tail++;
    }
    if (tail == n) {
        return;
    }
    unsigned char lead = (unsigned char)text[n - 1 - tail];
    size_t wants = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    if (tail < wants) {
        text[n - 1 - tail] = 0;
    }
}

/* "revoked by anna on ci-7: release 4.2 is bad" */
void snib__explain_force(const struct snib__about *by, const char *reason,
                         struct snib__buf *out)
{
    char text[FORCE_MAX];
    int n =
        snprintf(text, sizeof text, "revoked by %s%s%s%s%s",
                 *by->user ? by->user : "somebody", *by->host ? " on " : "",
                 by->host, reason && *reason ? ": " : "", reason ? reason : "");
    if (n >= (int)sizeof text) {
        explain_drop_half(text);
    }
    explain_one_line(text);
    snib__buf_puts(out, text);
}

void snib__explain_revoked(struct snib_error *e)
{
    const char *word = snib_cause_text(SNIB_CAUSE_REVOKED);
    e->code = SNIB_ERR_LOST;
    explain_one_line(e->text);
    if (strncmp(e->text, word, strlen(word))) {
        snprintf(e->text, sizeof e->text, "%s", word);
    }
}

static const char *explain_risk_text(snib_cause why)
{
    return why == SNIB_CAUSE_PAUSED
               ? "this process or machine stood still, or its clock was set; "
                 "the store has not confirmed the grant yet"
               : "a renewal failed";
}

/* Writes the cause's word first. The text of a failed renewal is added only
 * where it is the cause; the text of a forced release begins with its word
 * already. */
static void explain_loss_text(snib_cause why, const char *more, char *ret,
                              size_t size)
{
    const char *word = snib_cause_text(why), *text = "";
    switch (why) {
    case SNIB_CAUSE_REVOKED:
        snprintf(ret, size, "%s", *more ? more : word);
        return;
    case SNIB_CAUSE_UNREACHABLE:
        text = *more ? more : "no renewal was answered";
        break;
    case SNIB_CAUSE_EXPIRED:
        text = *more ? more : "the lease was fixed, and is over";
        break;
    case SNIB_CAUSE_STOLEN:
        text = "the store does not know the grant any more";
        break;
    case SNIB_CAUSE_PAUSED:
        text = "this process or machine stood still past the deadline";
        break;
    case SNIB_CAUSE_HOLD_MAX:
        text = "held for as long as hold_max_ms allows";
        break;
    case SNIB_CAUSE_NONE:
        break;
    }
    snprintf(ret, size, "%s%s%s", word, *text ? ": " : "", text);
}

void snib__engine_explain(struct snib__engine *e, snib_instant now,
                          const struct snib__acquisition *s, char *ret,
                          size_t size)
{
    struct snib_status status;
    const char *more = s->trouble ? s->trouble : "";
    if (!size) {
        return;
    }
    ret[0] = 0;
    snib__engine_status(e, now, s, &status);
    switch (status.state) {
    case SNIB_HELD:
    case SNIB_RELEASED:
        break;
    case SNIB_AT_RISK:
        snprintf(ret, size, "%s",
                 *more ? more : explain_risk_text(status.cause));
        break;
    case SNIB_LOST:
        explain_loss_text(status.cause, more, ret, size);
        break;
    }
    explain_drop_half(ret);
}
