/* statusline.c — see statusline.h. By hand, as the leash stays small; every
 * value is a number or a word of ours. */
#include "statusline.h"
#include "text.h"

#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

void statusline_write(int fd, const struct statusline *s)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    char line[512] = "";
    struct text t = TEXT_IN(line);

    text_addf(&t, "{\"by\":\"%s\",\"exit\":%d,\"reason\":\"%s\",\"ran\":%s,",
              s->by_command ? "command" : "snib", s->exit, s->reason,
              s->ran ? "true" : "false");
    if (s->token > 0) {
        text_addf(&t, "\"token\":%" PRId64 ",", s->token);
    } else {
        text_add(&t, "\"token\":null,");
    }
    text_addf(&t, "\"waited_ms\":%" PRId64 ",\"held_ms\":%" PRId64 "}\n",
              s->waited_ms, s->held_ms);
    if (poll(&p, 1, 100) == 1 && write(fd, line, t.used) < 0) {
        return; /* nobody listens */
    }
}
