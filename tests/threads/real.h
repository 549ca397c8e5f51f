/* real.h — the functions behind those that the linker sends to wrap.c. */
#ifndef THREADS_REAL_H
#define THREADS_REAL_H

#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <time.h>

#define REAL(name) __real_##name
#define WRAP(name) __wrap_##name

/* What there is of name in the C library, and what is called in its place. */
#define WRAPPED(type, name, ...)                                               \
    type REAL(name)(__VA_ARGS__);                                              \
    type WRAP(name)(__VA_ARGS__)

WRAPPED(int, pthread_mutex_lock, pthread_mutex_t *);
WRAPPED(int, pthread_mutex_trylock, pthread_mutex_t *);
WRAPPED(int, pthread_mutex_unlock, pthread_mutex_t *);
WRAPPED(int, pthread_mutex_destroy, pthread_mutex_t *);
WRAPPED(int, pthread_cond_wait, pthread_cond_t *, pthread_mutex_t *);
WRAPPED(int, pthread_cond_timedwait, pthread_cond_t *, pthread_mutex_t *,
        const struct timespec *);
WRAPPED(int, pthread_cond_signal, pthread_cond_t *);
WRAPPED(int, pthread_cond_broadcast, pthread_cond_t *);
WRAPPED(int, pthread_create, pthread_t *, const pthread_attr_t *,
        void *(*)(void *), void *);
WRAPPED(int, pthread_join, pthread_t, void **);
WRAPPED(int, pthread_detach, pthread_t);
WRAPPED(int, ppoll, struct pollfd *, nfds_t, const struct timespec *,
        const sigset_t *);
WRAPPED(int, __ppoll_chk, struct pollfd *, nfds_t, const struct timespec *,
        const sigset_t *, size_t);
WRAPPED(int, epoll_wait, int, struct epoll_event *, int, int);
WRAPPED(int, timerfd_create, int, int);
WRAPPED(int, timerfd_settime, int, int, const struct itimerspec *,
        struct itimerspec *);
WRAPPED(int, clock_gettime, clockid_t, struct timespec *);
WRAPPED(int, nanosleep, const struct timespec *, struct timespec *);
WRAPPED(ssize_t, read, int, void *, size_t);
WRAPPED(ssize_t, write, int, const void *, size_t);
WRAPPED(int, eventfd_read, int, uint64_t *);
WRAPPED(int, eventfd_write, int, uint64_t);
WRAPPED(int, close, int);
WRAPPED(int, connect, int, const struct sockaddr *, socklen_t);
WRAPPED(ssize_t, send, int, const void *, size_t, int);
WRAPPED(ssize_t, recv, int, void *, size_t, int);
WRAPPED(ssize_t, __recv_chk, int, void *, size_t, size_t, int);
WRAPPED(long, syscall, long, ...);

#endif
