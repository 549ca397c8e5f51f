/* proc_i.h — what proc.c and proc_marked.c share. One thread. */
#ifndef SNIB_CLI_PROC_I_H
#define SNIB_CLI_PROC_I_H

#include "cli/supervisor/proc.h"

struct stat_fields {
    char state;
    pid_t parent;
    pid_t group;
    long threads;
    int64_t start;
};

/* Read a small file as a text. How many bytes; 0: an empty file, as that of a
 * process that is just ending; -1 with errno. */
ssize_t proc_read_whole(const char *path, char *to, size_t size);
/* False: the process has ended, or errno tells why it cannot be seen. */
bool proc_read_stat(pid_t pid, struct stat_fields *ret);
/* Does nothing of it run any more? A process whose first thread has ended
 * (pthread_exit) is shown as a zombie while its other threads run. */
bool proc_is_dead(const struct stat_fields *);

/* Note every process that there is now, in the order of /proc: the newest last,
 * mostly. False: it cannot be seen which there are. */
bool proc_list(void);
extern pid_t *proc_list_pids;
extern size_t proc_list_count;

/* What came of reading a file in /proc/PID. */
enum proc_seen {
    PROC_SEEN_NOT,    /* no descriptor is free, or no memory */
    PROC_SEEN_GONE,   /* the process has ended */
    PROC_SEEN_BARRED, /* it is another user's */
    PROC_SEEN
};
/* By errno. */
enum proc_seen proc_how_failed(void);

#endif
