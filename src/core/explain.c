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

void snib__explain_drop_half(char *text)
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
        snib__explain_drop_half(text);
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
