/*
 * sha1.c — SHA-1 as script names need it (FIPS 180-4, section 6.1)
 *
 * Not for security: a script's name in EVALSHA is the SHA-1 of its text.
 */
#include "internal.h"

#include <string.h>

static uint32_t rol(uint32_t x, unsigned n)
{
    return (x << n) | (x >> (32 - n));
}

static void block(uint32_t h[5], const unsigned char *p)
{
    uint32_t w[80];
    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | (uint32_t)p[4 * i + 3];
    }
    for (int i = 16; i < 80; i++) {
        w[i] = rol(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int i = 0; i < 80; i++) {
        uint32_t f;
        uint32_t k;
        if (i < 20) {
            f = (b & c) | (~b & d);
            k = 0x5a827999u;
        } else if (i < 40) {
            f = b ^ c ^ d;
            k = 0x6ed9eba1u;
        } else if (i < 60) {
            f = (b & c) | (b & d) | (c & d);
            k = 0x8f1bbcdcu;
        } else {
            f = b ^ c ^ d;
            k = 0xca62c1d6u;
        }
        uint32_t t = rol(a, 5) + f + e + k + w[i];
        e = d;
        d = c;
        c = rol(b, 30);
        b = a;
        a = t;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

void sr_sha1_hex(char out[41], const void *p, size_t n)
{
    uint32_t h[5] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u,
                     0xc3d2e1f0u};
    const unsigned char *s = p;
    size_t left = n;
    while (left >= 64) {
        block(h, s);
        s += 64;
        left -= 64;
    }
    unsigned char tail[128] = {0};
    if (left > 0) {
        memcpy(tail, s, left);
    }
    tail[left] = 0x80;
    size_t total = left + 9 <= 64 ? 64 : 128;
    uint64_t bits = (uint64_t)n * 8;
    for (size_t i = 0; i < 8; i++) {
        tail[total - 1 - i] = (unsigned char)(bits >> (8 * i));
    }
    for (size_t i = 0; i < total; i += 64) {
        block(h, tail + i);
    }
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < 40; i++) {
        out[i] = hex[(h[i / 8] >> (28 - 4 * (i % 8))) & 15];
    }
    out[40] = '\0';
}
