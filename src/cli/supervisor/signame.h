/* signame.h — signal names for --on-lost signal:NAME. */
#ifndef SNIB_CLI_SIGNAME_H
#define SNIB_CLI_SIGNAME_H

/* "USR1", "SIGUSR1", "10" to a number; 0: no such signal. */
int signame_parse(const char *text);

#endif
