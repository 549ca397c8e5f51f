/* core/ids.c — 128-bit ids as text: of clients and of requests. */
#include "core/ids.h"

#include <string.h>

#include "base/error.h"

enum { ID_DIGITS = 32, HALF_DIGITS = 16 };

static int ids_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool snib__id_read(const char *text, size_t size, uint64_t ret[2])
{
    uint64_t id[2] = {0, 0};
    if (size != ID_DIGITS) {
        return false;
    }
    for (size_t i = 0; i < ID_DIGITS; i++) {
        int d = ids_digit(text[i]);
        if (d < 0) {
            return false;
        }
        id[i / 16] = id[i / 16] << 4 | (uint64_t)d;
    }
    ret[0] = id[0];
    ret[1] = id[1];
    return true;
}

/* Read 16 hexadecimal digits, or 32 of which the first half is kept. */
static bool ids_read_half(const char *text, size_t size, uint64_t *ret)
{
    char whole[2 * HALF_DIGITS + 1];
    uint64_t id[2];
    if (size != HALF_DIGITS && size != 2 * HALF_DIGITS) {
        return false;
    }
    memcpy(whole, text, size);
    memcpy(whole + size, text, sizeof whole - 1 - size);
    if (!snib__id_read(whole, sizeof whole - 1, id)) {
        return false;
    }
    *ret = id[0];
    return true;
}

snib_err snib__above_read(const char *text, struct snib__above *ret,
                          struct snib_error *reterr)
{
    ret->count = 0;
    for (size_t size; *text; text += size + (text[size] == ',')) {
        size = strcspn(text, ",");
        if (ret->count == SNIB__ABOUT_HELD) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "above: more than %d ids of requests",
                              SNIB__ABOUT_HELD);
        }
        if (!ids_read_half(text, size, &ret->id[ret->count++])) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "above: '%.40s' does not begin with the id of a "
                              "request: 16 or 32 hexadecimal digits",
                              text);
        }
    }
    return SNIB_ERR_OK;
}
