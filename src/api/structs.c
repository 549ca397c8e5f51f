/* api/structs.c — structs of the caller, which grow from release to release.
 *
 * An option struct begins with its size, as the caller was compiled. A smaller
 * one is of an older header: what it lacks is zero, the default. A larger one
 * is of a newer header: what this library does not know must be zero there, or
 * the caller would believe in something that nobody does. A size that no header
 * can have is a struct that was not initialised.
 *
 * The size of a result comes as an argument beside it, so that a caller need
 * not initialise the struct, and cannot forget to. */
#include <string.h>

#include "api/api.h"
#include "base/error.h"

enum { SIZE_MOST = 4096 };

static bool options_all_zero(const char *p, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (p[i]) {
            return false;
        }
    }
    return true;
}

snib_err snib__options_read(const void *given, size_t known, const char *what,
                            void *ret, struct snib_error *reterr)
{
    size_t size;
    memset(ret, 0, known);
    if (!given) {
        return SNIB_ERR_OK;
    }
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > SIZE_MOST ||
        size % _Alignof(struct snib_lock_options)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s of size %zu, expected %zu: start from SNIB_INIT",
                          what, size, known);
    }
    if (size > known &&
        !options_all_zero((const char *)given + known, size - known)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s of size %zu: this library, which is older than "
                          "the program, knows %zu bytes, and a field behind "
                          "them is set",
                          what, size, known);
    }
    memcpy(ret, given, size < known ? size : known);
    return SNIB_ERR_OK;
}

void snib__result_write(const void *known, size_t known_size, void *ret,
                        size_t ret_size)
{
    size_t both = ret_size < known_size ? ret_size : known_size;
    memcpy(ret, known, both);
    memset((char *)ret + both, 0, ret_size - both);
}
