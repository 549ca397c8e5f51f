/* statusline.h — the one JSON line of --status-fd. */
#ifndef SNIB_CLI_STATUSLINE_H
#define SNIB_CLI_STATUSLINE_H

#include <stdbool.h>
#include <stdint.h>

struct statusline {
    bool by_command;
    int exit;
    /* One of SUPERVISOR_WHYS: plain ASCII, nothing to escape. */
    const char *cause;
    bool ran;
    int64_t token; /* 0: none, written as null */
    int64_t waited_ms, held_ms;
};

/* Write the line. False with errno when the descriptor did not take all of it;
 * EAGAIN: not in time. */
bool statusline_write(int fd, const struct statusline *);

/* Write the line of a run that never began (usage, configuration), unless a
 * line was written before. fd may be -1: none. */
void statusline_write_refused(int fd, int exit);

#endif
