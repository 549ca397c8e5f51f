/* store/postgres/advisory_key.c — the number of a name, as .NET's
 * Medallion.Threading (DistributedLock) has it, so that both mean the same lock:
 *
 *     up to 9 characters of ASCII   seven bits each, a 0, then ones; as a pair
 *     16 hexadecimal digits         that number
 *     8 digits, a comma, 8 digits   that pair
 *     anything else                 the first eight bytes of its SHA-1, the lowest
 *                                   one first (allowHashing there)
 *
 * SHA-1 is no secret's here; it only spreads names. */
#include <stdlib.h>
#include <string.h>

#include "store/postgres/advisory.h"

enum { KEY_ASCII = 9, KEY_HEX = 16, KEY_PAIR = 17, KEY_BLOCK = 64 };

/* -- SHA-1 ----------------------------------------------------------------- */

static uint32_t key_roll(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static uint32_t key_word(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

static void key_round(int i, const uint32_t v[5], uint32_t *f, uint32_t *k)
{
    if (i < 20) {
        *f = (v[1] & v[2]) | (~v[1] & v[3]);
        *k = 0x5a827999;
    } else if (i < 40) {
        *f = v[1] ^ v[2] ^ v[3];
        *k = 0x6ed9eba1;
    } else if (i < 60) {
        *f = (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]);
        *k = 0x8f1bbcdc;
    } else {
        *f = v[1] ^ v[2] ^ v[3];
        *k = 0xca62c1d6;
    }
}

static void key_block(uint32_t h[5], const uint8_t block[KEY_BLOCK])
{
    uint32_t w[80], v[5], f, k;
    for (int i = 0; i < 16; i++) {
        w[i] = key_word(block + 4 * i);
    }
    for (int i = 16; i < 80; i++) {
        w[i] = key_roll(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 80; i++) {
        key_round(i, v, &f, &k);
        uint32_t next = key_roll(v[0], 5) + f + v[4] + k + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = key_roll(v[1], 30);
        v[1] = v[0];
        v[0] = next;
    }
    for (int i = 0; i < 5; i++) {
        h[i] += v[i];
    }
}

/* Its first two words. */
static void key_sha1(const char *text, size_t size, uint32_t ret[2])
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                     0xc3d2e1f0};
    uint64_t bits = (uint64_t)size * 8;
    bool marked = false, over = false;
    while (!over) {
        uint8_t block[KEY_BLOCK] = {0};
        size_t n = size < KEY_BLOCK ? size : KEY_BLOCK;
        memcpy(block, text, n);
        text += n;
        size -= n;
        if (n < KEY_BLOCK && !marked) {
            block[n] = 0x80;
            marked = true;
            n++;
        }
        over = marked && n <= KEY_BLOCK - 8;
        for (int i = 0; over && i < 8; i++) {
            block[KEY_BLOCK - 1 - i] = (uint8_t)(bits >> (8 * i));
        }
        key_block(h, block);
    }
    ret[0] = h[0];
    ret[1] = h[1];
}

/* -- names ----------------------------------------------------------------- */

static bool key_is_ascii(const char *name, size_t size)
{
    bool is = size <= KEY_ASCII;
    for (size_t i = 0; is && i < size; i++) {
        is = (unsigned char)name[i] < 0x80;
    }
    return is;
}

static uint64_t key_ascii(const char *name, size_t size)
{
    uint64_t key = 0;
    for (size_t i = 0; i < size; i++) {
        key = key << 7 | (unsigned char)name[i];
    }
    key <<= 1;
    for (size_t i = size; i < KEY_ASCII; i++) {
        key = key << 7 | 0x7f;
    }
    return key;
}

static bool key_hex(const char *digits, uint64_t *ret)
{
    char text[9] = "";
    memcpy(text, digits, 8);
    *ret = strtoull(text, NULL, 16);
    return strspn(text, "0123456789abcdefABCDEF") == 8;
}

static struct snib__pg_key key_made(bool pair, uint64_t key)
{
    return (struct snib__pg_key){.pair = pair,
                                 .one = (int64_t)key,
                                 .high = (int32_t)(uint32_t)(key >> 32),
                                 .low = (int32_t)(uint32_t)key};
}

struct snib__pg_key snib__pg_key_of(const char *name, size_t size)
{
    uint64_t high, low;
    uint32_t sha[2];
    bool pair = size == KEY_PAIR && name[8] == ',';
    if (key_is_ascii(name, size)) {
        return key_made(true, key_ascii(name, size));
    }
    if ((pair || size == KEY_HEX) && key_hex(name, &high) &&
        key_hex(name + size - 8, &low)) {
        return key_made(pair, high << 32 | low);
    }
    key_sha1(name, size, sha);
    return key_made(false, (uint64_t)__builtin_bswap32(sha[1]) << 32 |
                               __builtin_bswap32(sha[0]));
}
