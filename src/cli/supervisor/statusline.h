/* statusline.h — the one JSON line of --status-fd. */
#ifndef SNIB_CLI_STATUSLINE_H
#define SNIB_CLI_STATUSLINE_H

#include <stdbool.h>
#include <stdint.h>

struct statusline {
    bool by_command;
    int exit;
    const char
        *cause; /* one of SUPERVISOR_WHYS: plain ASCII, nothing to escape */
    bool ran;
    int64_t token; /* 0: none, written as null */
    int64_t waited_ms, held_ms;
};

/* Write it. False with errno: a full or closed descriptor took it not, or not
 * all of it; EAGAIN: not in time. */
bool statusline_write(int fd, const struct statusline *);

/* Where nothing was even begun: usage, configuration. Unless one was written
 * before. fd may be -1: none. */
void statusline_write_refused(int fd, int exit);

#endif
