/* base/list.h — an intrusive doubly linked list.
 *
 * A link that is on no list points to itself after snib__link_init; unlinking
 * such a link is harmless. Zeroed memory is not an initialised link. */
#ifndef SNIB__LIST_H
#define SNIB__LIST_H

#include <stdbool.h>
#include <stddef.h>

struct snib__link {
    struct snib__link *prev, *next;
};

struct snib__list {
    struct snib__link head;
};

#define SNIB__CONTAINER(ptr, type, member)                                     \
    ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void snib__link_init(struct snib__link *l)
{
    l->prev = l->next = l;
}

static inline void snib__list_init(struct snib__list *l)
{
    snib__link_init(&l->head);
}

static inline bool snib__list_empty(const struct snib__list *l)
{
    return l->head.next == &l->head;
}

static inline bool snib__linked(const struct snib__link *l)
{
    return l->next != l;
}

static inline void snib__list_push(struct snib__list *l, struct snib__link *n)
{
    n->prev = l->head.prev;
    n->next = &l->head;
    l->head.prev->next = n;
    l->head.prev = n;
}

static inline void snib__list_push_front(struct snib__list *l,
                                         struct snib__link *n)
{
    n->next = l->head.next;
    n->prev = &l->head;
    l->head.next->prev = n;
    l->head.next = n;
}

/* Puts n behind `at`, which is on a list (or its head). */
static inline void snib__list_insert(struct snib__link *at,
                                     struct snib__link *n)
{
    n->prev = at;
    n->next = at->next;
    at->next->prev = n;
    at->next = n;
}

static inline void snib__unlink(struct snib__link *n)
{
    n->prev->next = n->next;
    n->next->prev = n->prev;
    snib__link_init(n);
}

/* The first link, or NULL; it stays on the list. */
static inline struct snib__link *snib__list_first(const struct snib__list *l)
{
    return snib__list_empty(l) ? NULL : l->head.next;
}

/* The first link, taken off the list, or NULL. */
static inline struct snib__link *snib__list_pop(struct snib__list *l)
{
    struct snib__link *n = snib__list_first(l);
    if (n) {
        snib__unlink(n);
    }
    return n;
}

/* Moves all of `from` to the end of `to`. */
static inline void snib__list_append(struct snib__list *to,
                                     struct snib__list *from)
{
    if (!snib__list_empty(from)) {
        from->head.next->prev = to->head.prev;
        to->head.prev->next = from->head.next;
        from->head.prev->next = &to->head;
        to->head.prev = from->head.prev;
        snib__list_init(from);
    }
}

/* SNIB__LIST_EACH (link, list): the body must not unlink link; _SAFE, with a
 * second variable, allows that. */
#define SNIB__LIST_EACH(l, list)                                               \
    for (struct snib__link *l = (list)->head.next; l != &(list)->head;         \
         l = l->next)
#define SNIB__LIST_EACH_SAFE(l, n, list)                                       \
    for (struct snib__link *l = (list)->head.next, *n = l->next;               \
         l != &(list)->head; l = n, n = l->next)

#endif
