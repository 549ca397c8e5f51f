/* held.c — see held.h. */
#include "cli/holder/held.h"

#include <string.h>

static bool held_parse_entry(const char *entry, size_t size,
                             struct held_entry *ret)
{
    const char *equals = memchr(entry, '=', size);
    size_t address;

    if (equals == NULL) {
        return false;
    }
    address = size - (size_t)(equals + 1 - entry);
    if (address >= sizeof ret->address) {
        return false;
    }
    memcpy(ret->address, equals + 1, address);
    ret->address[address] = '\0';
    return control_address_valid(ret->address) &&
           text_unpercent(entry, (size_t)(equals - entry), ret->name,
                          sizeof ret->name, &ret->name_size);
}

bool held_next(const char **at, struct held_entry *ret)
{
    while (*at != NULL && **at != '\0') {
        const char *entry = *at;
        size_t size = strcspn(entry, ":");

        *at = entry + size + (entry[size] == ':');
        if (held_parse_entry(entry, size, ret)) {
            return true;
        }
    }
    return false;
}

bool held_last(const char *held, size_t *end, struct held_entry *ret)
{
    while (*end > 0) {
        size_t size = 0;
        const char *entry;

        while (size < *end && held[*end - size - 1] != ':') {
            size++;
        }
        entry = held + *end - size;
        *end -= size + (size < *end); /* the colon, too */
        if (held_parse_entry(entry, size, ret)) {
            return true;
        }
    }
    return false;
}

void held_add(struct text *t, const char *name, const char *address)
{
    if (t->used > 0) {
        text_add(t, ":");
    }
    text_add_percent(t, name, strlen(name));
    text_add(t, "=");
    text_add(t, address);
}
