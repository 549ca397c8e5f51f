/* proto/zk/jute.h — the numbers and texts that ZooKeeper's messages are made of:
 * big-endian integers, one byte for a boolean, and bytes with their length in
 * front (-1: none). No sockets, no clock.
 *
 * Reading never leaves the bytes: what is not there, or says that it is longer
 * than what is there, sets `bad`, which stays set, and gives 0 or nothing. So a
 * reader looks at `bad` once, at the end. */
#ifndef SNIB__JUTE_H
#define SNIB__JUTE_H

#include "base/buf.h"

struct snib__jute {
    const uint8_t *at, *end;
    bool bad;
};

/* Borrowed bytes; NULL: none. */
struct snib__jute_bytes {
    const char *bytes;
    size_t size;
};

void snib__jute_put_bool(struct snib__buf *, bool);
void snib__jute_put_i32(struct snib__buf *, int32_t);
void snib__jute_put_i64(struct snib__buf *, int64_t);
void snib__jute_put_bytes(struct snib__buf *, const void *, size_t);
void snib__jute_put_text(struct snib__buf *, const char *);

void snib__jute_open(struct snib__jute *, const void *bytes, size_t size);
bool snib__jute_bool(struct snib__jute *);
int32_t snib__jute_i32(struct snib__jute *);
int64_t snib__jute_i64(struct snib__jute *);
struct snib__jute_bytes snib__jute_bytes(struct snib__jute *);
/* The length of a list, each of whose members takes `least` bytes or more. */
uint32_t snib__jute_count(struct snib__jute *, size_t least);

#endif
