/* proto/grpc/pb.c — see pb.h.
 *
 * A field is a number (its own, with three bits that say how it is coded) and a
 * value. Integers are written in groups of seven bits, the lowest first. The
 * length of a message that is written piece by piece is not known when it
 * begins, so it is given five groups, which is what any reader takes. */
#include "proto/grpc/pb.h"

enum { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };
enum { PB_LENGTH = 5, PB_VARINT_MOST = 10 };

/* -- writing --------------------------------------------------------------- */

static void pb_varint(struct snib__buf *b, uint64_t v)
{
    uint8_t byte[PB_VARINT_MOST];
    size_t n = 0;
    do {
        byte[n++] = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        v >>= 7;
    } while (v);
    snib__buf_add(b, byte, n);
}

static void pb_tag(struct snib__buf *b, uint32_t field, unsigned how)
{
    pb_varint(b, (uint64_t)field << 3 | how);
}

void snib__pb_put_int(struct snib__buf *b, uint32_t field, int64_t v)
{
    pb_tag(b, field, PB_VARINT);
    pb_varint(b, (uint64_t)v);
}

void snib__pb_put_bytes(struct snib__buf *b, uint32_t field, const void *p,
                        size_t size)
{
    pb_tag(b, field, PB_BYTES);
    pb_varint(b, size);
    snib__buf_add(b, p, size);
}

void snib__pb_put_text(struct snib__buf *b, uint32_t field, const char *text)
{
    snib__pb_put_bytes(b, field, text, strlen(text));
}

size_t snib__pb_begin(struct snib__buf *b, uint32_t field)
{
    static const uint8_t length[PB_LENGTH];
    pb_tag(b, field, PB_BYTES);
    snib__buf_add(b, length, sizeof length);
    return snib__buf_size(b);
}

void snib__pb_end(struct snib__buf *b, size_t begun)
{
    if (b->failed) {
        return;
    }
    uint64_t n = snib__buf_size(b) - begun;
    uint8_t *length = b->data + b->start + begun - PB_LENGTH;
    for (int i = 0; i < PB_LENGTH; i++) {
        length[i] =
            (uint8_t)((n >> 7 * i & 0x7f) | (i < PB_LENGTH - 1 ? 0x80 : 0));
    }
}

/* -- reading --------------------------------------------------------------- */

void snib__pb_open(struct snib__pb *p, const void *bytes, size_t size)
{
    *p = (struct snib__pb){.at = bytes};
    p->end = size ? p->at + size : p->at;
}

static uint64_t pb_get_varint(struct snib__pb *p)
{
    uint64_t v = 0;
    for (int i = 0; i < PB_VARINT_MOST && p->at < p->end; i++) {
        uint8_t byte = *p->at++;
        v |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (!(byte & 0x80)) {
            return v;
        }
    }
    p->bad = true;
    return 0;
}

static void pb_take(struct snib__pb *p, uint64_t size)
{
    if (size > (uint64_t)(p->end - p->at)) {
        p->bad = true;
        return;
    }
    p->bytes = p->at;
    p->size = (size_t)size;
    p->at += size;
}

bool snib__pb_next(struct snib__pb *p)
{
    if (p->bad || p->at == p->end) {
        return false;
    }
    uint64_t tag = pb_get_varint(p);
    p->field = (uint32_t)(tag >> 3);
    p->is_bytes = false;
    p->number = 0;
    p->bytes = NULL;
    p->size = 0;
    switch (tag & 7) {
    case PB_VARINT:
        p->number = (int64_t)pb_get_varint(p);
        break;
    case PB_BYTES:
        p->is_bytes = true;
        pb_take(p, pb_get_varint(p));
        break;
    case PB_FIXED64: /* nothing that is read here has such fields */
        pb_take(p, 8);
        break;
    case PB_FIXED32:
        pb_take(p, 4);
        break;
    default:
        p->bad = true;
    }
    p->bad = p->bad || !p->field || tag >> 3 > UINT32_MAX;
    return !p->bad;
}

void snib__pb_text(const struct snib__pb *p, char *ret, size_t size)
{
    size_t n = p->is_bytes ? p->size : 0;
    n = n < size ? n : size - 1;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = p->bytes[i];
        ret[i] = (char)(c < 0x20 ? ' ' : c < 0x7f ? c : '?');
    }
    ret[n] = 0;
}
