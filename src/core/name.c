/* core/name.c — names and their safe spelling.
 *
 * The spelling is a bijection onto its image: a byte that must be encoded has
 * exactly one spelling (%XX, upper case), every other byte stands for itself,
 * and '%' itself is encoded. So two names are equal exactly when their safe
 * spellings are. No safe spelling holds a brace, so the hash tag of "snib:{n}"
 * ends where we ended it. Decoding refuses everything that encoding never
 * makes, so nobody else's key is taken for one of ours. */
#include "core/name.h"

#include <string.h>

#include "base/error.h"
#include "base/mem.h"

static const char hex_digits[] = "0123456789ABCDEF";

static bool name_must_encode(uint8_t c)
{
    return c < 0x20 || c > 0x7e || c == '{' || c == '}' || c == '%';
}

/* FNV-1a with a last mixing step, so that the low bits, which choose the
 * bucket, depend on every byte. */
static uint64_t name_hash_of(const uint8_t *p, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) {
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    }
    h ^= h >> 32;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return h ^ (h >> 32);
}

static size_t name_safe_size_of(const uint8_t *p, size_t size)
{
    size_t n = size;
    for (size_t i = 0; i < size; i++) {
        n += name_must_encode(p[i]) ? 2 : 0;
    }
    return n;
}

static void name_encode(const uint8_t *p, size_t size, char *to)
{
    for (size_t i = 0; i < size; i++) {
        if (name_must_encode(p[i])) {
            *to++ = '%';
            *to++ = hex_digits[p[i] >> 4];
            *to++ = hex_digits[p[i] & 15];
        } else {
            *to++ = (char)p[i];
        }
    }
    *to = 0;
}

snib_err snib__name_new(const char *raw, size_t size, struct snib__name **ret,
                        struct snib_error *reterr)
{
    *ret = NULL;
    if (raw && !size) {
        size = strnlen(raw, SNIB_NAME_MAX + 1);
    }
    if (!raw || !size) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "the lock name is empty: give 1 to %d bytes",
                          SNIB_NAME_MAX);
    }
    if (size > SNIB_NAME_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "the lock name is too long: give 1 to %d bytes",
                          SNIB_NAME_MAX);
    }
    const uint8_t *bytes = (const uint8_t *)raw;
    size_t safe_size = name_safe_size_of(bytes, size);
    bool plain = safe_size == size;
    struct snib__name *n =
        snib__alloc(sizeof *n + size + 1 + (plain ? 0 : safe_size + 1));
    if (!n) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    char *text = (char *)(n + 1);
    memcpy(text, raw, size);
    n->raw = n->safe = text;
    if (!plain) {
        n->safe = text + size + 1;
        name_encode(bytes, size, text + size + 1);
    }
    n->raw_size = (uint32_t)size;
    n->safe_size = (uint32_t)safe_size;
    n->hash = name_hash_of(bytes, size);
    *ret = n;
    return SNIB_ERR_OK;
}

bool snib__name_same(const struct snib__name *a, const struct snib__name *b)
{
    return a->hash == b->hash && a->raw_size == b->raw_size &&
           memcmp(a->raw, b->raw, a->raw_size) == 0;
}

/* The value of an upper-case hexadecimal digit; -1: it is none. */
static int name_digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte that stands at *at, which moves on; -1: not canonical. */
static int name_decode_one(const char *safe, size_t size, size_t *at)
{
    uint8_t c = (uint8_t)safe[*at];
    if (c != '%') {
        *at += 1;
        return name_must_encode(c) ? -1 : c;
    }
    if (size - *at < 3) {
        return -1;
    }
    int high = name_digit_of(safe[*at + 1]), low = name_digit_of(safe[*at + 2]);
    *at += 3;
    if (high < 0 || low < 0) {
        return -1;
    }
    return name_must_encode((uint8_t)(high * 16 + low)) ? high * 16 + low : -1;
}

size_t snib__name_decode(const char *safe, size_t size, char ret[SNIB_NAME_MAX])
{
    size_t n = 0, at = 0;
    while (at < size) {
        int c = name_decode_one(safe, size, &at);
        if (c < 0 || n == SNIB_NAME_MAX) {
            return 0;
        }
        ret[n++] = (char)c;
    }
    return n;
}
