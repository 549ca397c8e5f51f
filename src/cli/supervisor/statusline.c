/* statusline.c — see statusline.h. The line is made by hand, as the supervisor
 * stays small: every value is a number or a fixed word. */
#include "cli/supervisor/statusline.h"
#include "cli/cli.h"
#include "cli/supervisor/supervisor_step.h"
#include "cli/words/text.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

static bool written;

bool statusline_write(int fd, const struct statusline *s)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    char line[512] = "";
    struct text t = TEXT_IN(line);

    text_addf(&t, "{\"by\":\"%s\",\"exit\":%d,\"cause\":\"%s\",\"ran\":%s,",
              s->by_command ? "command" : "snib", s->exit, s->cause,
              s->ran ? "true" : "false");
    if (s->token > 0) {
        text_addf(&t, "\"token\":%" PRId64 ",", s->token);
    } else {
        text_add(&t, "\"token\":null,");
    }
    text_addf(&t, "\"waited_ms\":%" PRId64 ",\"held_ms\":%" PRId64 "}\n",
              s->waited_ms, s->held_ms);
    written = true;
    errno = EAGAIN; /* for the case that nobody reads the pipe */
    return TEMP_FAILURE_RETRY(poll(&p, 1, 100)) == 1 &&
           text_write(fd, line, t.used) == 0;
}

static enum supervisor_why statusline_cause_of(int exit)
{
    switch (exit) {
    case CLI_USAGE:
        return SUPERVISOR_CAUSE_USAGE;
    case CLI_CONFIG:
        return SUPERVISOR_CAUSE_CONFIG;
    default:
        return SUPERVISOR_CAUSE_INTERNAL;
    }
}

void statusline_write_refused(int fd, int exit)
{
    const struct statusline s = {
        .exit = exit, .cause = supervisor_why_text(statusline_cause_of(exit))};

    if (fd >= 0 && !written) {
        /* If this fails, the descriptor's fault was said, or is said next. */
        (void)statusline_write(fd, &s);
    }
}
