/* host.h — what a program under the scheduler says of its host, for wrap.c. */
#ifndef THREADS_HOST_H
#define THREADS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0, or the error that this call of a thread of the run is to fail with. */
int host_fails(const char *call);
/* So many of these bytes are sent or taken at once, at least one. */
size_t host_size(const char *call, size_t size);
/* REALTIME - BOOTTIME, ns. */
int64_t host_wall(void);
/* The clock is about to be read. */
void host_clock(void);

/* A message for whoever reads this descriptor. True: a call that slept on a word
 * was woken, and the descriptor does not become readable. */
bool host_wakes(int fd);

/* For the run's number: what is asked of the kernel, with which descriptor (-1:
 * none), and two numbers of it. */
void host_does(const char *call, int fd, int64_t a, int64_t b);
/* There is a descriptor, it is about to go. */
void host_fd(const char *kind, int fd);
void host_fd_goes(int fd);

#endif
