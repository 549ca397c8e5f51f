/* proto/grpc/pb.h — protobuf (version 3) as bytes: fields out, fields in. No
 * schema: who writes and reads a message knows its fields.
 *
 * Writing keeps a failure in the buffer (sticky). A field that has its default
 * value (0, nothing) is left out by the caller. Reading stays inside the bytes;
 * what is no protobuf ends it with `bad` set. */
#ifndef SNIB__PB_H
#define SNIB__PB_H

#include "base/buf.h"

/* -- writing --------------------------------------------------------------- */

void snib__pb_put_int(struct snib__buf *, uint32_t field, int64_t v);
void snib__pb_put_bytes(struct snib__buf *, uint32_t field, const void *p,
                        size_t size);
void snib__pb_put_text(struct snib__buf *, uint32_t field, const char *text);
/* A message inside: what is appended between begin and end. Returns what end
 * takes. Nothing may be consumed from the buffer in between. */
size_t snib__pb_begin(struct snib__buf *, uint32_t field);
void snib__pb_end(struct snib__buf *, size_t begun);

/* -- reading --------------------------------------------------------------- */

struct snib__pb {
    const uint8_t *at, *end;
    uint32_t field;       /* of what next() has found */
    bool is_bytes;        /* a text, bytes or a message: bytes, size; else */
    int64_t number;       /* an integer */
    const uint8_t *bytes; /* borrowed from what was given to open */
    size_t size;
    bool bad;
};

void snib__pb_open(struct snib__pb *, const void *bytes, size_t size);
/* The next field. False: there is none, or what follows is bad. */
bool snib__pb_next(struct snib__pb *);
/* The fields of the message that next() has found. */
static inline struct snib__pb snib__pb_inside(const struct snib__pb *p)
{
    struct snib__pb ret;
    snib__pb_open(&ret, p->is_bytes ? p->bytes : NULL,
                  p->is_bytes ? p->size : 0);
    return ret;
}
/* The field as text, cut where it does not fit, in plain ASCII. */
void snib__pb_text(const struct snib__pb *, char *ret, size_t size);

#endif
