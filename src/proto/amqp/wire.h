/* proto/amqp/wire.h — the fields of AMQP 0-9-1, one by one. For this folder. */
#ifndef SNIB__AMQP_WIRE_H
#define SNIB__AMQP_WIRE_H

#include "proto/amqp/amqp.h"

/* What is left to be read. A read past the end gives 0 and sets bad. */
struct snib__amqp_in {
    const uint8_t *at;
    size_t left;
    bool bad;
};

uint64_t snib__amqp_get(struct snib__amqp_in *, size_t width); /* <= 8 bytes */
struct snib__amqp_bytes snib__amqp_get_short(struct snib__amqp_in *);
struct snib__amqp_bytes snib__amqp_get_long(struct snib__amqp_in *);
/* The text of this key in a table, which is read as a whole. None: empty. */
struct snib__amqp_bytes snib__amqp_find(struct snib__amqp_bytes table,
                                        const char *key);

void snib__amqp_put(struct snib__buf *, uint64_t value, size_t width);
void snib__amqp_put_short(struct snib__buf *, const char *text);
/* Something whose length in four bytes stands before it begins; ends. */
size_t snib__amqp_begin(struct snib__buf *);
void snib__amqp_end(struct snib__buf *, size_t begun);
/* A row of a table. */
void snib__amqp_put_flag(struct snib__buf *, const char *key);
void snib__amqp_put_number(struct snib__buf *, const char *key, int64_t value);
void snib__amqp_put_text(struct snib__buf *, const char *key, const char *text);

#endif
