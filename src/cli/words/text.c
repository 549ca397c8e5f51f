/* text.c — see text.h. */
#include "cli/words/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static void text_add_bytes(struct text *t, const char *bytes, size_t size)
{
    size_t room = t->size - 1 - t->used;

    if (t->cut || size > room) {
        t->cut = true; /* whole pieces only: half an escape misleads */
        return;
    }
    memcpy(t->bytes + t->used, bytes, size);
    t->used += size;
    t->bytes[t->used] = '\0';
}

void text_add(struct text *t, const char *s)
{
    text_add_bytes(t, s, strlen(s));
}

void text_addf(struct text *t, const char *format, ...)
{
    char piece[512];
    va_list args;

    va_start(args, format);
    vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    text_add(t, piece);
}

static uint32_t text_continued(const char *s, size_t n, uint32_t first)
{
    uint32_t code = first;

    for (size_t i = 1; i < n; i++) {
        if (((unsigned char)s[i] & 0xC0u) != 0x80u) {
            return UINT32_MAX;
        }
        code = (code << 6) | ((unsigned char)s[i] & 0x3Fu);
    }
    return code;
}

static size_t text_decode(const char *s, size_t size, uint32_t *ret_code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char c = (unsigned char)s[0];
    size_t n = c < 0x80       ? 1
               : c >> 5 == 6  ? 2
               : c >> 4 == 14 ? 3
               : c >> 3 == 30 ? 4
                              : 0;

    if (n == 0 || n > size) {
        return 0;
    }
    *ret_code = text_continued(s, n, n == 1 ? c : c & (0xFFu >> (n + 1)));
    if (*ret_code > 0x10FFFF || *ret_code < least[n] ||
        (*ret_code >= 0xD800 && *ret_code < 0xE000)) {
        return 0;
    }
    return n;
}

size_t text_utf8(const char *s, size_t size)
{
    uint32_t code;

    return text_decode(s, size, &code);
}

/* Control characters, and those that make a line read in another order. */
static bool text_harmful(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 ||
           code == 0x2029 || code == 0x200E || code == 0x200F ||
           code == 0x061C || (code >= 0x202A && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

void text_add_shown(struct text *t, const char *bytes, size_t size)
{
    while (size > 0) {
        uint32_t code = 0;
        size_t n = text_decode(bytes, size, &code);

        if (n != 0 && !text_harmful(code)) {
            text_add_bytes(t, bytes, n);
        } else {
            n = n == 0 ? 1 : n;
            for (size_t i = 0; i < n; i++) {
                text_addf(t, "\\x%02X", (unsigned)(unsigned char)bytes[i]);
            }
        }
        bytes += n;
        size -= n;
    }
}

static bool text_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || (c != '\0' && strchr("_-./+", c) != NULL);
}

void text_add_percent(struct text *t, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text_plain((unsigned char)bytes[i])) {
            text_add_bytes(t, bytes + i, 1);
        } else {
            text_addf(t, "%%%02X", (unsigned)(unsigned char)bytes[i]);
        }
    }
}

static int text_hex(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return -1;
}

bool text_unpercent(const char *from, size_t from_size, char *to,
                    size_t to_size, size_t *ret_size)
{
    size_t used = 0;

    for (size_t i = 0; i < from_size; i++) {
        char c = from[i];

        if (c == '%') {
            int high = i + 2 < from_size ? text_hex(from[i + 1]) : -1;
            int low = i + 2 < from_size ? text_hex(from[i + 2]) : -1;

            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (used + 1 >= to_size) {
            return false;
        }
        to[used++] = c;
    }
    to[used] = '\0';
    *ret_size = used;
    return true;
}

int text_write(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = TEMP_FAILURE_RETRY(write(fd, bytes, size));

        if (n <= 0) {
            return n < 0 ? errno : ENOSPC;
        }
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}
