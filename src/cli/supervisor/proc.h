/* proc.h — what /proc tells about other processes. May allocate; the supervisor,
 * which may not, has its own reader of its children (supervisor.c). */
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

/* Does /proc show the processes that we see? Not when there is none, or that
 * of another pid namespace, where our numbers are strangers'. */
bool proc_is_ours(void);

/* Start time in clock ticks since boot: with the pid the name of a process.
 * 0: no such process. */
int64_t proc_start(pid_t);
/* It only waits for a parent that may never look. */
bool proc_ended(pid_t);
/* 0: none or not known. */
pid_t proc_parent(pid_t);
bool proc_is_ancestor(pid_t candidate, pid_t of);
/* It is surely not: each one above `of` was seen, up to the first. (Other users'
 * may be hidden.) */
bool proc_is_no_ancestor(pid_t candidate, pid_t of);
/* Do both run the same program file? */
bool proc_same_program(pid_t, pid_t);

/* Stopped by a signal, just now. */
bool proc_stopped(pid_t);
pid_t proc_group(pid_t); /* 0: not known                                    */

/* The next of a list as /proc/PID/task/TID/children has it, a space behind each
 * pid; *at moves behind that. False: there are no more. What has lost its end
 * in a full buffer is none: it would name another process. No allocation. */
bool proc_next_pid(const char **at, pid_t *ret);

/* Is `pid` blocked in a wait for its children, of which it has one, `child`,
 * and no other thread that could do something meanwhile? Then it does nothing
 * before that one has changed its state, or a signal comes. RUNS: not now, but
 * it is on the processor: ask again. NOT: it does something else, or /proc
 * does not tell. */
enum proc_waits { PROC_WAITS, PROC_RUNS, PROC_WAITS_NOT };
enum proc_waits proc_only_waits(pid_t pid, pid_t child);

/* Is there a member of the group that still can run? Zombies cannot: they
 * only wait for a parent that may never look. */
bool proc_group_alive(pid_t pgid);

/* Mark this process and all that it will start, by the address of its holder:
 * those that leave the group, close all descriptors and clear their
 * environment, too. */
void proc_set_mark(const char *address);

/* KILL every process but this one that has that mark, or whose initial
 * environment has the address inside SNIB_HELD. To a holder of a snib in there,
 * which tidies up by itself, TERM only, unless that one is no longer spared.
 * Returns how many there were. */
int proc_kill_marked(const char *address, bool spare_holders);

#endif
