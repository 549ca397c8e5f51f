/* signame.c — see signame.h. The names come from the C library. */
#define _GNU_SOURCE
#include "cli/supervisor/signame.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static int signame_parse_number(const char *text)
{
    int number = 0;

    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || number > SIGRTMAX) {
            return 0;
        }
        number = number * 10 + (*text - '0');
    }
    return number <= SIGRTMAX ? number : 0;
}

int signame_parse(const char *text)
{
    if (*text >= '0' && *text <= '9') {
        return signame_parse_number(text);
    }
    if (strncmp(text, "SIG", 3) == 0) {
        text += 3;
    }
    for (int sig = 1; sig < SIGRTMIN; sig++) {
        const char *name = sigabbrev_np(sig);

        if (name != NULL && strcmp(name, text) == 0) {
            return sig;
        }
    }
    return 0;
}
