/* core/registry.c — entries of the registry: written by the client, read by its
 * witness (registry.h). */
#include "core/registry.h"

#include <assert.h>
#include <string.h>

#define REGISTRY_MARK UINT64_C(0x736e69622d726567) /* "snib-reg" */

/* Bytes that both processes see alike, whichever library each has: padding and
 * order are part of the layout. */
_Static_assert(sizeof(struct snib__registry_record) == 48 &&
                   sizeof(struct snib__registry_entry) == 624 &&
                   sizeof(struct snib__registry) == 56,
               "another layout needs another SNIB__REGISTRY_LAYOUT");

void snib__registry_init(struct snib__registry *r, uint32_t room)
{
    r->mark = REGISTRY_MARK;
    r->layout = SNIB__REGISTRY_LAYOUT;
    r->room = room;
}

/* The number of a free entry; 0: there is none left. */
static uint32_t registry_take(struct snib__registry *r)
{
    uint32_t i = r->free;
    if (i) {
        r->free = r->entry[i - 1].next;
        return i;
    }
    uint32_t used = atomic_load_explicit(&r->used, memory_order_relaxed);
    if (used >= r->room) {
        return 0;
    }
    atomic_store_explicit(&r->used, used + 1, memory_order_release);
    return used + 1;
}

void snib__registry_put(struct snib__registry *r, uint32_t *entry,
                        const struct snib__name *name,
                        const struct snib__registry_record *record)
{
    uint32_t i = *entry ? *entry : registry_take(r);
    if (!i) {
        return;
    }
    struct snib__registry_entry *e = &r->entry[i - 1];
    uint32_t which = atomic_load_explicit(&e->which, memory_order_relaxed);
    if (!which) {
        assert(name->raw_size <= SNIB_NAME_MAX);
        e->name_size = name->raw_size;
        memcpy(e->name, name->raw, name->raw_size);
    }
    e->record[which == 1] = *record;
    atomic_store_explicit(&e->which, which == 1 ? 2 : 1, memory_order_release);
    *entry = i;
}

void snib__registry_drop(struct snib__registry *r, uint32_t *entry)
{
    if (*entry) {
        struct snib__registry_entry *e = &r->entry[*entry - 1];
        atomic_store_explicit(&e->which, 0, memory_order_release);
        e->next = r->free;
        r->free = *entry;
        *entry = 0;
    }
}

bool snib__registry_fits(const struct snib__registry *r, size_t bytes)
{
    return bytes >= sizeof *r && r->mark == REGISTRY_MARK &&
           r->layout == SNIB__REGISTRY_LAYOUT &&
           bytes >= snib__registry_bytes(r->room);
}

uint32_t snib__registry_used(const struct snib__registry *r)
{
    uint32_t used = atomic_load_explicit(&r->used, memory_order_acquire);
    return used < r->room ? used : r->room;
}

bool snib__registry_read(const struct snib__registry *r, uint32_t i,
                         struct snib__registry_found *ret)
{
    const struct snib__registry_entry *e = &r->entry[i - 1];
    uint32_t which = atomic_load_explicit(&e->which, memory_order_acquire);
    if ((which != 1 && which != 2) || !e->name_size ||
        e->name_size > SNIB_NAME_MAX) {
        return false;
    }
    ret->record = e->record[which - 1];
    ret->name_size = e->name_size;
    memcpy(ret->name, e->name, e->name_size);
    ret->name[e->name_size] = 0;
    return ret->record.id[0] | ret->record.id[1];
}
