/* proto/amqp/wire.c — numbers in network order, short and long strings, tables
 * (specification, 4.2.5; the types of a table's values as RabbitMQ has them). */
#include <string.h>

#include "proto/amqp/wire.h"

/* -- reading ----------------------------------------------------------------- */

static const uint8_t *wire_take(struct snib__amqp_in *in, size_t size)
{
    const uint8_t *at = in->at;
    if (in->bad || size > in->left) {
        in->bad = true;
        return NULL;
    }
    in->at += size;
    in->left -= size;
    return at;
}

uint64_t snib__amqp_get(struct snib__amqp_in *in, size_t width)
{
    const uint8_t *at = wire_take(in, width);
    uint64_t v = 0;
    for (size_t i = 0; at && i < width; i++) {
        v = v << 8 | at[i];
    }
    return v;
}

static struct snib__amqp_bytes wire_bytes(struct snib__amqp_in *in, size_t size)
{
    const uint8_t *at = wire_take(in, size);
    return (struct snib__amqp_bytes){(const char *)at, at ? size : 0};
}

struct snib__amqp_bytes snib__amqp_get_short(struct snib__amqp_in *in)
{
    return wire_bytes(in, snib__amqp_get(in, 1));
}

struct snib__amqp_bytes snib__amqp_get_long(struct snib__amqp_in *in)
{
    return wire_bytes(in, snib__amqp_get(in, 4));
}

/* How long a table's value of this type is; -1: its length stands before it. */
static int wire_width(uint64_t type)
{
    switch (type) {
    case 'V':
        return 0;
    case 't':
    case 'b':
    case 'B':
        return 1;
    case 's':
    case 'u':
        return 2;
    case 'I':
    case 'i':
    case 'f':
        return 4;
    case 'D':
        return 5;
    case 'l':
    case 'L':
    case 'd':
    case 'T':
        return 8;
    default:
        return -1; /* S, x, A, F */
    }
}

struct snib__amqp_bytes snib__amqp_find(struct snib__amqp_bytes table,
                                        const char *key)
{
    struct snib__amqp_in in = {.at = (const uint8_t *)table.bytes,
                               .left = table.size};
    const struct snib__amqp_bytes none = {"", 0};
    size_t n = strlen(key);
    while (in.left && !in.bad) {
        struct snib__amqp_bytes k = snib__amqp_get_short(&in);
        uint64_t type = snib__amqp_get(&in, 1);
        int width = wire_width(type);
        struct snib__amqp_bytes v = width < 0 ? snib__amqp_get_long(&in)
                                              : wire_bytes(&in, (size_t)width);
        if (!in.bad && type == 'S' && k.size == n && !memcmp(k.bytes, key, n)) {
            return v;
        }
    }
    return none;
}

/* -- writing ------------------------------------------------------------------ */

void snib__amqp_put(struct snib__buf *b, uint64_t value, size_t width)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < width; i++) {
        bytes[i] = (uint8_t)(value >> 8 * (width - 1 - i));
    }
    snib__buf_add(b, bytes, width);
}

void snib__amqp_put_short(struct snib__buf *b, const char *text)
{
    size_t n = strlen(text);
    n = n < SNIB__AMQP_SHORT ? n : SNIB__AMQP_SHORT;
    snib__amqp_put(b, n, 1);
    snib__buf_add(b, text, n);
}

size_t snib__amqp_begin(struct snib__buf *b)
{
    snib__amqp_put(b, 0, 4);
    return snib__buf_size(b);
}

void snib__amqp_end(struct snib__buf *b, size_t begun)
{
    size_t n = snib__buf_size(b) - begun;
    if (!b->failed) {
        uint8_t *at = b->data + b->start + begun - 4;
        for (int i = 0; i < 4; i++) {
            at[i] = (uint8_t)(n >> 8 * (3 - i));
        }
    }
}

void snib__amqp_put_flag(struct snib__buf *b, const char *key)
{
    snib__amqp_put_short(b, key);
    snib__buf_add(b, "t\1", 2);
}

void snib__amqp_put_number(struct snib__buf *b, const char *key, int64_t value)
{
    snib__amqp_put_short(b, key);
    snib__buf_add(b, "l", 1);
    snib__amqp_put(b, (uint64_t)value, 8);
}

void snib__amqp_put_text(struct snib__buf *b, const char *key, const char *text)
{
    snib__amqp_put_short(b, key);
    snib__buf_add(b, "S", 1);
    size_t begun = snib__amqp_begin(b);
    snib__buf_puts(b, text);
    snib__amqp_end(b, begun);
}
