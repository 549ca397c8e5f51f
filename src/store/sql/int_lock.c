/* store/sql/int_lock.c — what stands in the columns of INT_LOCK (int_lock.h).
 *
 *     LOCK_KEY    a name that is a UUID: that, in lower case; another one: the MD5
 *                 of its bytes as a UUID of version 3
 *     CLIENT_ID   theirs: a UUID for each registry; ours: "snib:", then the
 *                 request's id and the token, each in digits of six bits
 *
 * MD5 is no secret's here; it only spreads names. */
#include "store/sql/int_lock.h"

#include <string.h>

#include "core/rules/rules.h"

enum {
    INT_LOCK_BLOCK = 64,
    INT_LOCK_OURS = 5,       /* "snib:" */
    INT_LOCK_ID_DIGITS = 11, /* of 64 bits */
    INT_LOCK_TOKEN_DIGITS = 9
};

/* -- MD5 ------------------------------------------------------------------- */

/* The first 32 bits behind the point of |sin(i + 1)|. */
static const uint32_t int_lock_sine[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a,
    0xa8304613, 0xfd469501, 0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be,
    0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821, 0xf61e2562, 0xc040b340,
    0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8,
    0x676f02d9, 0x8d2a4c8a, 0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c,
    0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70, 0x289b7ec6, 0xeaa127fa,
    0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92,
    0xffeff47d, 0x85845dd1, 0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1,
    0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391};

static const uint8_t int_lock_roll[4][4] = {
    {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};

static uint32_t int_lock_word(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

/* Its function of three of the words; *ret_at: which word of the block. */
static uint32_t int_lock_mix(int i, const uint32_t v[4], int *ret_at)
{
    switch (i / 16) {
    case 0:
        *ret_at = i;
        return (v[1] & v[2]) | (~v[1] & v[3]);
    case 1:
        *ret_at = (5 * i + 1) % 16;
        return (v[3] & v[1]) | (~v[3] & v[2]);
    case 2:
        *ret_at = (3 * i + 5) % 16;
        return v[1] ^ v[2] ^ v[3];
    default:
        *ret_at = 7 * i % 16;
        return v[2] ^ (v[1] | ~v[3]);
    }
}

static void int_lock_block(uint32_t h[4], const uint8_t block[INT_LOCK_BLOCK])
{
    uint32_t v[4];
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        int at;
        int n = int_lock_roll[i / 16][i % 4];
        uint32_t x = v[0] + int_lock_mix(i, v, &at);
        x += int_lock_sine[i] + int_lock_word(block + 4 * at);
        v[0] = v[3];
        v[3] = v[2];
        v[2] = v[1];
        v[1] += x << n | x >> (32 - n);
    }
    for (int i = 0; i < 4; i++) {
        h[i] += v[i];
    }
}

static void int_lock_md5(const char *text, size_t size, uint8_t ret[16])
{
    uint32_t h[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    uint64_t bits = (uint64_t)size * 8;
    bool marked = false, over = false;
    while (!over) {
        uint8_t block[INT_LOCK_BLOCK] = {0};
        size_t n = size < INT_LOCK_BLOCK ? size : INT_LOCK_BLOCK;
        memcpy(block, text, n);
        text += n;
        size -= n;
        if (n < INT_LOCK_BLOCK && !marked) {
            block[n] = 0x80;
            marked = true;
            n++;
        }
        over = marked && n <= INT_LOCK_BLOCK - 8;
        for (int i = 0; over && i < 8; i++) {
            block[INT_LOCK_BLOCK - 8 + i] = (uint8_t)(bits >> (8 * i));
        }
        int_lock_block(h, block);
    }
    for (int i = 0; i < 16; i++) {
        ret[i] = (uint8_t)(h[i / 4] >> (8 * (i % 4)));
    }
}

/* -- names ----------------------------------------------------------------- */

static bool int_lock_is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
           (c >= 'A' && c <= 'F');
}

/* Does a '-' stand behind this character of a UUID, or at its place? */
static bool int_lock_is_dash(size_t at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

static bool int_lock_is_uuid(const char *name, size_t size)
{
    bool is = size == SNIB__INT_LOCK_UUID;
    for (size_t i = 0; is && i < size; i++) {
        is = int_lock_is_dash(i) ? name[i] == '-' : int_lock_is_hex(name[i]);
    }
    return is;
}

/* It takes five numbers with '-' between them, of any length, with a sign, and in
 * any script's digits. */
bool snib__int_lock_is_doubtful(const char *name, size_t size)
{
    int dashes = 0;
    bool digits = true;
    for (size_t i = 0; i < size; i++) {
        dashes += name[i] == '-';
        digits = digits &&
                 (name[i] == '-' || name[i] == '+' ||
                  int_lock_is_hex(name[i]) || (unsigned char)name[i] >= 0x80);
    }
    return dashes == 4 && digits && !int_lock_is_uuid(name, size);
}

void snib__int_lock_key(const char *name, size_t size,
                        char ret[SNIB__INT_LOCK_UUID + 1])
{
    static const char digit[] = "0123456789abcdef";
    uint8_t md5[16];
    size_t at = 0;
    if (int_lock_is_uuid(name, size)) {
        for (size_t i = 0; i < size; i++) {
            bool upper = name[i] >= 'A' && name[i] <= 'F';
            ret[i] = (char)(name[i] + (upper ? 'a' - 'A' : 0));
        }
        ret[size] = 0;
        return;
    }
    int_lock_md5(name, size, md5);
    md5[6] = (uint8_t)((md5[6] & 0x0f) | 0x30); /* version 3 */
    md5[8] = (uint8_t)((md5[8] & 0x3f) | 0x80);
    for (int i = 0; i < 16; i++) {
        if (int_lock_is_dash(at)) {
            ret[at++] = '-';
        }
        ret[at++] = digit[md5[i] >> 4];
        ret[at++] = digit[md5[i] & 15];
    }
    ret[at] = 0;
}

/* -- clients --------------------------------------------------------------- */

static const char int_lock_digit[] =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

static char *int_lock_put(char *to, uint64_t n, int digits)
{
    for (int i = digits - 1; i >= 0; i--) {
        to[i] = int_lock_digit[n & 63];
        n >>= 6;
    }
    return to + digits;
}

/* False: it is no number of 64 bits. */
static bool int_lock_get(const char **text, int digits, uint64_t *ret)
{
    *ret = 0;
    for (int i = 0; i < digits; i++, ++*text) {
        const char *found = **text ? strchr(int_lock_digit, **text) : NULL;
        if (!found || *ret >> 58) {
            return false;
        }
        *ret = *ret << 6 | (uint64_t)(found - int_lock_digit);
    }
    return true;
}

void snib__int_lock_client(const uint64_t id[2], int64_t token,
                           char ret[SNIB__INT_LOCK_UUID + 1])
{
    char *to = ret;
    memcpy(to, "snib:", INT_LOCK_OURS);
    to += INT_LOCK_OURS;
    to = int_lock_put(to, id[0], INT_LOCK_ID_DIGITS);
    to = int_lock_put(to, id[1], INT_LOCK_ID_DIGITS);
    to = int_lock_put(to, (uint64_t)token, INT_LOCK_TOKEN_DIGITS);
    *to = 0;
}

bool snib__int_lock_read_client(const char *text, size_t size,
                                uint64_t ret_id[2], int64_t *ret_token)
{
    uint64_t token;
    if (size != SNIB__INT_LOCK_UUID ||
        strncmp(text, "snib:", INT_LOCK_OURS) != 0) {
        return false;
    }
    text += INT_LOCK_OURS;
    bool is = int_lock_get(&text, INT_LOCK_ID_DIGITS, &ret_id[0]) &&
              int_lock_get(&text, INT_LOCK_ID_DIGITS, &ret_id[1]) &&
              int_lock_get(&text, INT_LOCK_TOKEN_DIGITS, &token);
    *ret_token = is ? (int64_t)token : 0;
    return is && snib__is_token(*ret_token);
}
