/* proc.h — what /proc tells about other processes. These functions may
 * allocate. The supervisor may not, and reads its children with code of its own
 * (supervisor_group.c). */
#ifndef SNIB_CLI_PROC_H
#define SNIB_CLI_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Now on CLOCK_BOOTTIME, ns. */
int64_t proc_now(void);

enum { PROC_BOOT_ID = 40 };
/* This boot's id; "" when /proc does not tell. */
void proc_boot_id(char ret[PROC_BOOT_ID]);

/* Does /proc show this process's pid namespace? Not when it is not mounted, or
 * belongs to another namespace, where the same numbers mean other processes. */
bool proc_is_ours(void);

/* Start time in clock ticks since boot. Pid and start time together name one
 * process for sure. 0: no such process. */
int64_t proc_start(pid_t);
/* Is it a zombie, no thread of which runs? It waits for a parent that may never
 * reap it. */
bool proc_ended(pid_t);
/* Has the process that was started then surely ended? */
bool proc_is_gone(pid_t, int64_t start);
/* 0: none or not known. */
pid_t proc_parent(pid_t);
bool proc_is_ancestor(pid_t candidate, pid_t of);
/* Is it surely no ancestor? True when each process above `of` was seen, up to
 * the first. (Those of other users may be hidden.) */
bool proc_is_no_ancestor(pid_t candidate, pid_t of);
/* Do both run the same program file? */
bool proc_same_program(pid_t, pid_t);

/* Is it stopped by a signal just now? */
bool proc_stopped(pid_t);
pid_t proc_group(pid_t); /* 0: not known */

/* Take the next pid of a list as /proc/PID/task/TID/children has it, with a
 * space behind each; *at moves behind that space. False: there are no more. A
 * pid without its space was cut off by a full buffer and is not taken: it would
 * name another process. No allocation. */
bool proc_next_pid(const char **at, pid_t *ret);

/* The children of `parent` as that file lists them, for a kernel without it. No
 * allocation. False: they cannot be seen, errno. */
bool proc_read_children(pid_t parent, char *to, size_t size);

/* Is `pid` blocked in a wait for its children, has one child, namely `child`,
 * and has no other thread that could do something meanwhile? Then it does
 * nothing before that child changes its state, or a signal comes. PROC_RUNS: it
 * is on the processor now, ask again. PROC_WAITS_NOT: it does something else,
 * or /proc does not tell. */
enum proc_waits { PROC_WAITS, PROC_RUNS, PROC_WAITS_NOT };
enum proc_waits proc_only_waits(pid_t pid, pid_t child);

/* Can a member of the group still run? Zombies cannot: they only wait for a
 * parent that may never reap them. (A process with a thread that runs is none,
 * even where /proc shows its first thread as one.) True, too, when /proc cannot
 * be read just now. */
bool proc_group_alive(pid_t pgid);

/* Mark this process and everything that it will start with the address of its
 * holder. The mark also stays on processes that leave the group, close all
 * descriptors and clear their environment. */
void proc_set_mark(const char *address);

enum proc_marked {
    PROC_MARKED_NONE,
    /* None was found. But a process ended while all were looked at, and may
     * have been a marked one that left a child. */
    PROC_MARKED_PERHAPS,
    /* None was found. But not all could be looked at, for want of a descriptor
     * or of memory, say. */
    PROC_MARKED_UNSEEN,
    PROC_MARKED /* one was found, and signalled */
};

/* KILL every process but this one that has the mark, or whose initial
 * environment has the address inside SNIB_HELD. With spare_holders the holder
 * of a nested snib run gets only TERM, because it tidies up by itself. Needs
 * PROC_DESCRIPTORS. */
enum { PROC_DESCRIPTORS = 2 };
enum proc_marked proc_kill_marked(const char *address, bool spare_holders);

#endif
