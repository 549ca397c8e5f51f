/* store/file/slot.c — a waiter is woken; a death is noticed.
 *
 * A client that waits has a slot in the file. Whoever grants it a lock writes
 * the id of the request into the slot, raises the slot's word and wakes who
 * sleeps on it (a futex). The kernel says how many it woke. None: the waiter is
 * awake, or dead; then it is asked whether the process lives.
 *
 * There are two words. A caller's thread that waits sleeps on `call` itself, so
 * nothing stands between it and who wakes it. For those who wait otherwise (an
 * event loop, the library's background thread) a listening thread sleeps on
 * `word` and hands on what it hears by an eventfd, since a futex cannot be
 * polled. It is started when somebody polls; it knows nothing and takes no
 * mutex. `call` is odd while a caller's thread sleeps on it, or is about to:
 * who finds it odd makes it even and wakes that thread alone. Who is about to
 * sleep makes it odd, and then looks whether an id was told meanwhile; who
 * wakes has told the id before it looks whether `call` is odd. So one of the
 * two sees the other.
 *
 * The client's descriptor is an epoll set of that eventfd and of a few pidfds:
 * the first in a queue is told at once when the holder's process ends. While a
 * caller's thread sleeps, the background thread polls it.
 *
 * Ids. There are SNIB__FILE_TOLD places in turn. A writer takes the next turn,
 * writes the id, then the number of its turn. The reader believes a place whose
 * number is the one it waits for. If a writer is late, or the places have come
 * round, it reports that any request may have been granted. A lost message
 * costs a poll. */
#include "store/file/internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/blocking.h"

#define EVENT SNIB__FILE_WATCHES

/* So many slots are looked at before dead owners are looked for. */
#define FREE_TRIES 64

static void slot_close(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

/* -- the thread ------------------------------------------------------------- */

static long slot_futex(_Atomic uint32_t *word, int what, uint32_t n)
{
    return syscall(SYS_futex, word, what, n, NULL, NULL, 0);
}

static void *slot_listen(void *arg)
{
    struct snib__file_ear *e = arg;
    _Atomic uint32_t *word = &e->slot->word;
    uint32_t seen = atomic_load(word);
    for (;;) {
        eventfd_write(e->event, 1); /* also for what came before */
        /* `stop` first: the file may be gone then (open.c). */
        while (!atomic_load(&e->stop) && atomic_load(word) == seen) {
            (void)slot_futex(word, FUTEX_WAIT, seen);
        }
        if (atomic_load(&e->stop)) {
            return NULL;
        }
        seen = atomic_load(word);
    }
}

/* The host program's signals are not for this thread. */
static bool slot_start(struct snib__file_ear *e)
{
    sigset_t all, old;
    pthread_attr_t attr;
    sigfillset(&all);
    if (pthread_attr_init(&attr)) {
        return false;
    }
    pthread_attr_setstacksize(&attr, 256 * 1024);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int no = pthread_create(&e->thread, &attr, slot_listen, e);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    e->running = no == 0;
    return e->running;
}

/* -- a slot ------------------------------------------------------------------ */

/* Until `whose` is written the process in it is that of an owner before, who may
 * be dead. */
static bool slot_take(struct snib__file_slot *s, uint64_t was, uint64_t owner,
                      const struct snib__host *h)
{
    if (!snib__file_cas(&s->owner, &was, owner)) {
        return false;
    }
    snib__file_before("own");
    s->pid = h->pid;
    s->start = h->start;
    s->pidns = h->pidns;
    snib__file_store(&s->whose, owner);
    return true;
}

/* Has the process of this owner ended? Never before the owner has said which one
 * it is. thorough: also if another process has its pid by now. */
static bool slot_is_dead(struct snib__file_slot *s, uint64_t owner,
                         const struct snib__host *h, bool thorough)
{
    if (snib__file_load(&s->whose) != owner) {
        return false;
    }
    int64_t pid = s->pid, start = s->start, pidns = s->pidns;
    atomic_thread_fence(memory_order_acquire);
    return snib__file_load(&s->owner) == owner && pid &&
           snib__host_gone(h, pid, start, pidns, thorough);
}

/* Find a free slot, or one of the dead, from `from` on. */
static bool slot_find(struct snib__map *m, const struct snib__host *h,
                      uint64_t owner, uint32_t from, uint32_t tries, bool dead,
                      uint32_t *ret)
{
    for (uint32_t i = 0; i < tries && i < m->slot_count; i++) {
        uint32_t at = (from + i) % m->slot_count;
        struct snib__file_slot *s = &m->slots[at];
        uint64_t was = snib__file_load(&s->owner);
        if ((!was || (dead && slot_is_dead(s, was, h, true))) &&
            slot_take(s, was, owner, h)) {
            *ret = at;
            return true;
        }
    }
    return false;
}

/* It sleeps no more, or shall not: `call` is no longer this odd value. */
static bool slot_end_sleep(struct snib__file_slot *s, uint32_t value)
{
    return atomic_compare_exchange_strong(&s->call, &value, value + 1);
}

static bool slot_get(struct snib__file_ear *e, struct snib__map *m,
                     const struct snib__host *h)
{
    uint64_t owner = snib__file_add(&m->head->owners, 1);
    uint32_t from = (uint32_t)(owner * 2654435761u) % m->slot_count;
    if (!slot_find(m, h, owner, from, FREE_TRIES, false, &e->index) &&
        !slot_find(m, h, owner, from, FREE_TRIES, true, &e->index) &&
        !slot_find(m, h, owner, from, m->slot_count, true, &e->index)) {
        return false;
    }
    e->slot = &m->slots[e->index];
    uint32_t value = atomic_load(&e->slot->call);
    /* The owner before was killed asleep; who wakes it may come just now. */
    if (value % 2) {
        snib__file_before("awake");
        (void)slot_end_sleep(e->slot, value);
    }
    e->taken = snib__file_load(&e->slot->told);
    e->owner = owner;
    return true;
}

static void slot_leave(struct snib__file_ear *e)
{
    uint64_t owner = e->owner;
    if (e->running) {
        atomic_store(&e->stop, true);
        atomic_fetch_add(&e->slot->word, 1);
        (void)slot_futex(&e->slot->word, FUTEX_WAKE, INT32_MAX);
        pthread_join(e->thread, NULL);
        e->running = false;
    }
    if (owner) {
        (void)snib__file_cas(&e->slot->owner, &owner, 0);
        e->owner = 0;
    }
}

static bool slot_make(struct snib__file_ear *e, struct snib__map *m,
                      const struct snib__host *h)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u32 = EVENT};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    e->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->event >= 0 && epoll >= 0 &&
        epoll_ctl(epoll, EPOLL_CTL_ADD, e->event, &ev) == 0 &&
        slot_get(e, m, h)) {
        e->epoll = epoll;
        return true;
    }
    slot_close(&e->event);
    slot_close(&epoll);
    return false;
}

/* -- a caller's thread sleeps ------------------------------------------------ */

_Atomic uint32_t *snib__ear_word(struct snib__file_ear *e, uint32_t *ret_value)
{
    pthread_mutex_lock(&e->mutex);
    struct snib__file_slot *s = e->owner ? e->slot : NULL;
    if (s) {
        uint32_t value = atomic_load(&s->call);
        if (value % 2 == 0) { /* odd: one who slept has not looked yet */
            value = atomic_fetch_add(&s->call, 1) + 1;
        }
        *ret_value = value;
        snib__file_before("sleep");
        if (atomic_load(&s->told) != e->taken) {
            (void)slot_end_sleep(s, value);
        }
    }
    pthread_mutex_unlock(&e->mutex);
    return s ? &s->call : NULL;
}

void snib__ear_polled(struct snib__file_ear *e)
{
    pthread_mutex_lock(&e->mutex);
    if (e->owner && !e->running) {
        e->failed = !slot_start(e);
    }
    pthread_mutex_unlock(&e->mutex);
}

bool snib__ear_init(struct snib__file_ear *e)
{
    *e = (struct snib__file_ear){.epoll = -1, .event = -1};
    for (int i = 0; i < SNIB__FILE_WATCHES; i++) {
        e->watch[i].fd = -1;
    }
    return pthread_mutex_init(&e->mutex, NULL) == 0;
}

void snib__ear_free(struct snib__file_ear *e, bool forked)
{
    if (!forked) {
        slot_leave(e);
        pthread_mutex_destroy(&e->mutex);
    }
    for (int i = 0; i < SNIB__FILE_WATCHES; i++) {
        slot_close(&e->watch[i].fd);
    }
    int epoll = atomic_exchange(&e->epoll, -1);
    slot_close(&epoll);
    slot_close(&e->event);
}

void snib__ear_make(struct snib__file_ear *e, struct snib__map *m,
                    const struct snib__host *h)
{
    pthread_mutex_lock(&e->mutex);
    (void)slot_make(e, m, h);
    pthread_mutex_unlock(&e->mutex);
}

int snib__ear_fd(struct snib__file_ear *e)
{
    return atomic_load(&e->epoll);
}

uint32_t snib__ear_count(struct snib__map *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->slot_count; i++) {
        n += snib__file_load(&m->slots[i].owner) != 0;
    }
    return n;
}

/* -- telling ----------------------------------------------------------------- */

/* Wake who sleeps there. False: nobody does; the client is awake, or dead. */
static bool slot_wake(struct snib__file_slot *s)
{
    snib__file_before("wake");
    uint32_t value = atomic_load(&s->call);
    if (value % 2) { /* or it has just woken, and will look */
        return slot_end_sleep(s, value) &&
               slot_futex(&s->call, FUTEX_WAKE, INT32_MAX) > 0;
    }
    atomic_fetch_add(&s->word, 1);
    return slot_futex(&s->word, FUTEX_WAKE, INT32_MAX) > 0;
}

bool snib__ear_tell(struct snib__map *m, const struct snib__host *h,
                    uint32_t index, uint64_t owner, const uint64_t id[2])
{
    if (index >= m->slot_count) {
        return true; /* damaged: its poll finds out */
    }
    struct snib__file_slot *s = &m->slots[index];
    if (snib__file_load(&s->owner) != owner) {
        return false; /* it has closed, or it was dead */
    }
    snib__file_before("tell");
    uint64_t turn = atomic_fetch_add(&s->told, 1) + 1;
    uint32_t at = (uint32_t)(turn % SNIB__FILE_TOLD);
    snib__file_store(&s->tell[at].turn, 0);
    snib__file_store(&s->tell[at].id[0], id[0]);
    snib__file_store(&s->tell[at].id[1], id[1]);
    snib__file_store(&s->tell[at].turn, turn);
    return slot_wake(s) || !slot_is_dead(s, owner, h, false);
}

/* -- hearing ------------------------------------------------------------------ */

/* close() alone would leave it in the epoll set when a forked child has a
 * copy. */
static void slot_drop_watch(struct snib__file_ear *e, int i)
{
    epoll_ctl(e->epoll, EPOLL_CTL_DEL, e->watch[i].fd, NULL);
    slot_close(&e->watch[i].fd);
    e->watching--;
}

static bool slot_is_idle(const struct snib__file_ear *e, int i)
{
    return !e->watch[i].request[0] && !e->watch[i].request[1];
}

static uint32_t slot_ended(struct snib__file_ear *e, uint64_t (*ids)[2],
                           uint32_t max)
{
    struct epoll_event ev[SNIB__FILE_WATCHES + 1];
    uint32_t n = 0;
    int count = epoll_wait(e->epoll, ev, SNIB__FILE_WATCHES + 1, 0);
    for (int i = 0; i < count; i++) {
        uint32_t k = ev[i].data.u32;
        if (k < SNIB__FILE_WATCHES && e->watch[k].fd >= 0 && n < max) {
            if (!slot_is_idle(e, (int)k)) {
                memcpy(ids[n++], e->watch[k].request, sizeof ids[0]);
            }
            slot_drop_watch(e, (int)k);
        }
    }
    return n;
}

/* The next id that was told; *ret_all: it was missed. */
static bool slot_next(struct snib__file_ear *e, uint64_t id[2], bool *ret_all)
{
    struct snib__file_slot *s = e->slot;
    uint64_t told = snib__file_load(&s->told), turn = e->taken + 1;
    if (told == e->taken) {
        return false;
    }
    uint32_t at = (uint32_t)(turn % SNIB__FILE_TOLD);
    bool whole = told - e->taken < SNIB__FILE_TOLD &&
                 snib__file_load(&s->tell[at].turn) == turn;
    id[0] = snib__file_load(&s->tell[at].id[0]);
    id[1] = snib__file_load(&s->tell[at].id[1]);
    whole = whole && snib__file_load(&s->tell[at].turn) == turn;
    e->taken = whole ? turn : told;
    *ret_all = *ret_all || !whole;
    return whole;
}

uint32_t snib__ear_take(struct snib__file_ear *e, uint64_t (*ids)[2],
                        uint32_t max)
{
    uint32_t n = 0;
    bool all = false;
    eventfd_t count;
    pthread_mutex_lock(&e->mutex);
    if (e->owner) {
        if (e->running) {
            (void)eventfd_read(e->event, &count);
        }
        while (n < max && slot_next(e, ids[n], &all)) {
            n++;
        }
        if (n == max && e->running) {
            eventfd_write(e->event, 1); /* there may be more */
        }
    }
    /* Who was woken asks for nothing else: a death stays to be read. */
    if (!n && !all && e->watching) {
        n = slot_ended(e, ids, max);
    }
    pthread_mutex_unlock(&e->mutex);
    return all ? SNIB__NOTIFIED_ALL : n;
}

/* The request waits no more. The watch stays for the next one that waits behind
 * that process: two that take turns make it once. */
void snib__ear_unwatch(struct snib__file_ear *e, const uint64_t request[2])
{
    if (!e->watching) {
        return; /* only this thread adds any */
    }
    pthread_mutex_lock(&e->mutex);
    for (int i = 0; i < SNIB__FILE_WATCHES; i++) {
        if (e->watch[i].fd >= 0 && e->watch[i].request[0] == request[0] &&
            e->watch[i].request[1] == request[1]) {
            e->watch[i].request[0] = e->watch[i].request[1] = 0;
        }
    }
    pthread_mutex_unlock(&e->mutex);
}

/* The watch of this process that is idle, or of this request; -1: none. */
static int slot_watch_of(const struct snib__file_ear *e,
                         const uint64_t request[2], int64_t pid, int64_t start)
{
    for (int i = 0; i < SNIB__FILE_WATCHES; i++) {
        bool mine = e->watch[i].request[0] == request[0] &&
                    e->watch[i].request[1] == request[1];
        if (e->watch[i].fd >= 0 && (mine || slot_is_idle(e, i)) &&
            e->watch[i].pid == pid && e->watch[i].start == start) {
            return i;
        }
    }
    return -1;
}

/* Where to put a new watch: in place of this request's, where there is none, or
 * of one that is idle; -1: all are in use. */
static int slot_watch_at(struct snib__file_ear *e, const uint64_t request[2])
{
    int at = -1, idle = -1;
    for (int i = 0; i < SNIB__FILE_WATCHES; i++) {
        if (e->watch[i].fd < 0) {
            at = at < 0 ? i : at;
        } else if (e->watch[i].request[0] == request[0] &&
                   e->watch[i].request[1] == request[1]) {
            slot_drop_watch(e, i);
            return i;
        } else if (slot_is_idle(e, i)) {
            idle = i;
        }
    }
    if (at < 0 && idle >= 0) {
        slot_drop_watch(e, idle);
        at = idle;
    }
    return at;
}

void snib__ear_watch(struct snib__file_ear *e, const struct snib__host *h,
                     const uint64_t request[2], int64_t pid, int64_t start,
                     int64_t pidns)
{
    if (e->epoll < 0) {
        return;
    }
    pthread_mutex_lock(&e->mutex);
    int at = slot_watch_of(e, request, pid, start);
    if (at >= 0) {
        memcpy(e->watch[at].request, request, sizeof e->watch[at].request);
        pthread_mutex_unlock(&e->mutex);
        return;
    }
    at = slot_watch_at(e, request);
    if (at >= 0 && (e->watch[at].fd = snib__host_pidfd(h, pid, pidns)) >= 0) {
        struct epoll_event ev = {.events = EPOLLIN, .data.u32 = (uint32_t)at};
        memcpy(e->watch[at].request, request, sizeof e->watch[at].request);
        e->watch[at].pid = pid;
        e->watch[at].start = start;
        e->watching++;
        if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->watch[at].fd, &ev)) {
            slot_drop_watch(e, at);
        }
    }
    pthread_mutex_unlock(&e->mutex);
}
