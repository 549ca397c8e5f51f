/* supervisor_words.c — what the supervisor says on stderr, and in the line of
 * --status-fd.
 *
 * None of it is needed for safety, and none of it may block (say.c,
 * statusline.c).
 */
#define _GNU_SOURCE
#include "cli/supervisor/proc.h"
#include "cli/supervisor/statusline.h"
#include "cli/supervisor/supervisor_i.h"
#include "cli/words/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

/* "revoked by anna on ci-7: bad release", "unreachable: connection refused"; or
 * the cause alone. */
static void supervisor_words_lost_words(const struct body *b, struct text *t)
{
    const struct supervisor *l = &b->supervisor;

    if (b->lost_text[0] != '\0') {
        text_add_shown(t, b->lost_text, strlen(b->lost_text));
        return;
    }
    text_add(t, l->lost_why == SUPERVISOR_CAUSE_HOLDER
                    ? "the holder process died"
                    : supervisor_why_text(l->lost_why));
    if (l->lost_why == SUPERVISOR_CAUSE_UNREACHABLE &&
        b->risk_text[0] != '\0') {
        text_add(t, ": ");
        text_add_shown(t, b->risk_text, strlen(b->risk_text));
    }
}

void supervisor_speak(const struct body *b, unsigned todo)
{
    char words[3 * SNIB_EXPLAIN_TEXT] = "";
    struct text t = TEXT_IN(words);
    const struct supervisor *l = &b->supervisor;
    const char *name = shown(b->plan->names[0]);

    if (todo & SUPERVISOR_SAY_HOLDER) {
        say("%s: the holder process, which talks to the store, died while it "
            "waited for the lock; nothing ran",
            name);
    }
    if ((todo & SUPERVISOR_SAY_LIMIT) && !b->plan->args->busy_ok) {
        /* Of several names some may be held; only the holder knows which. */
        say("%s%snot acquired within the wait limit (the holder process %d, "
            "which talks to the store, did not answer)",
            b->plan->name_count == 1 ? name : "the locks were ",
            b->plan->name_count == 1 ? ": " : "", (int)b->holder);
    }
    if (todo & SUPERVISOR_SAY_LOST) {
        supervisor_words_lost_words(b, &t);
        say("%s: lock lost (%s)%s", name, words,
            l->rules.on_lost == SUPERVISOR_LOST_KILL && !l->ended
                ? "; the command is stopped"
                : "");
    }
    if (todo & SUPERVISOR_SAY_MAX_RUN) {
        say("%s: --max-run is over; the command is stopped", name);
    }
    if (b->plan->args->quiet) {
        return;
    }
    if (todo & SUPERVISOR_SAY_RISK) {
        text_add_shown(&t, b->risk_text, strlen(b->risk_text));
        say("%s: at risk (%s); the lease still runs", name,
            words[0] != '\0' ? words : "a renewal failed");
    }
    if (todo & SUPERVISOR_SAY_LEFT) {
        say("%s: the command left processes behind; they are stopped before "
            "the lock is released",
            name);
    }
    if (todo & SUPERVISOR_SAY_UNRELEASED) {
        say("%s: the release was not confirmed; the lock is free when its "
            "lease ends",
            name);
    }
}

void supervisor_say_not_begun(const struct body *b, int error)
{
    const struct cli_args *args = b->plan->args;

    say("%s: %s%s", shown(b->plan->command[0]), strerror(error),
        args->has_dashes || args->script != NULL
            ? ""
            : " (without a --, the command begins behind the first name)");
}

static int64_t supervisor_words_between_ms(int64_t from, int64_t to)
{
    return from != 0 && to > from ? (to - from) / SUPERVISOR_MS : 0;
}

int supervisor_exit_status(const struct body *b)
{
    const struct cli_args *a = b->plan->args;

    if (b->supervisor.exit == CLI_NOT_ACQUIRED && !b->supervisor.by_command) {
        return a->busy_ok          ? CLI_OK
               : a->busy_exit >= 0 ? (int)a->busy_exit
                                   : CLI_NOT_ACQUIRED;
    }
    return b->supervisor.exit;
}

void supervisor_report(const struct body *b, int code)
{
    const struct supervisor *l = &b->supervisor;
    char words[32] = "";
    struct text token = TEXT_IN(words);
    int64_t now = proc_now();
    struct statusline s = {
        .by_command = l->by_command,
        .exit = code,
        .cause = supervisor_why_text(l->why),
        .ran = l->ran,
        .token = b->page->tokens[0],
        .waited_ms = supervisor_words_between_ms(
            l->started, l->granted != 0 ? l->granted : now),
        /* nothing is held beyond the deadline, however long a release took */
        .held_ms = supervisor_words_between_ms(
            l->granted, now < l->deadline ? now : l->deadline),
    };

    if (b->status >= 0 && !statusline_write(b->status, &s)) {
        say("--status-fd %d: the line could not be written: %s",
            (int)b->plan->args->status_fd, strerror(errno));
    }
    if (b->plan->args->verbose) {
        text_addf(&token, s.token > 0 ? "token %" PRId64 : "no token", s.token);
        say("%s: exit %d by %s (%s), %s, waited %" PRId64 "ms, held %" PRId64
            "ms",
            shown(b->plan->names[0]), code, l->by_command ? "command" : "snib",
            s.cause, words, s.waited_ms, s.held_ms);
    }
}

/* Keep a copy of the descriptor. The command inherits the user's own only where
 * it is one of the first three, which are the command's streams. */
void supervisor_keep_status_fd(struct body *b, int fd)
{
    if (fd < 0) {
        return;
    }
    b->status = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (b->status < 0) {
        b->status = fd;
    }
    if (fd > 2) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}
