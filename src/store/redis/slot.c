/* store/redis/slot.c — the slot of a key, and slots that nobody serves (slots.h). */
#include <string.h>

#include "store/redis/slots.h"

/* CRC-16/XMODEM, as the Redis Cluster specification has it: polynomial 0x1021,
 * from 0, not reflected. Half a byte at a time. */
static uint16_t slot_crc(const char *p, size_t size)
{
    static const uint16_t half[16] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    uint16_t crc = 0;
    for (size_t i = 0; i < size; i++) {
        uint8_t c = (uint8_t)p[i];
        crc = (uint16_t)(crc << 4 ^ half[(crc >> 12 ^ c >> 4) & 15]);
        crc = (uint16_t)(crc << 4 ^ half[(crc >> 12 ^ c) & 15]);
    }
    return crc;
}

/* "If the key contains a {…} pattern only the substring between { and } is
 * hashed": the first {, and the first } behind it, with something between. */
uint32_t snib__slot_of_key(const char *key, size_t size)
{
    const char *open = size ? memchr(key, '{', size) : NULL;
    const char *shut =
        open ? memchr(open + 1, '}', size - (size_t)(open + 1 - key)) : NULL;
    if (shut && shut > open + 1) {
        return slot_crc(open + 1, (size_t)(shut - open - 1)) % SNIB__SLOTS;
    }
    return slot_crc(key, size) % SNIB__SLOTS;
}

/* A safe name has no brace in it. */
uint32_t snib__slot_of(const struct snib__name *n)
{
    return slot_crc(n->safe, n->safe_size) % SNIB__SLOTS;
}

uint32_t snib__slots_unserved(const struct snib__slots *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < SNIB__SLOTS; i++) {
        n += !s->home_of[i];
    }
    return n;
}
