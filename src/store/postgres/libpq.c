/* store/postgres/libpq.c — the database's own library, loaded at the first need.
 *
 * libpq brings some twenty libraries, whose loading costs more than a lock in a
 * file. So a program is not linked with it, and one that opens no such store
 * never loads it. It is never unloaded: OpenSSL, which it brings, does not bear
 * that. */
#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/postgres_i.h"

#define LIBPQ_NAME "libpq.so.5"
/* The first one with a pipeline. */
#define LIBPQ_OLDEST 140000

snib_err snib__pq_load(struct snib__pq *ret, struct snib_error *e)
{
    void *library = dlopen(LIBPQ_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        return snib__fail(e, SNIB_ERR_UNSUPPORTED,
                          "postgres: needs the library " LIBPQ_NAME
                          ", which is not here (Debian: apt-get install "
                          "libpq5)");
    }
    bool all = true;
    void *f;
#define LIBPQ_FIND(name)                                                       \
    f = dlsym(library, #name);                                                 \
    memcpy(&ret->name, &f, sizeof f);                                          \
    all = all && f;
    SNIB__PQ_FUNCTIONS(LIBPQ_FIND)
#undef LIBPQ_FIND
    if (!all || ret->PQlibVersion() < LIBPQ_OLDEST) {
        return snib__fail(e, SNIB_ERR_UNSUPPORTED,
                          "postgres: the library " LIBPQ_NAME
                          " of this machine is older than version 14");
    }
    return SNIB_ERR_OK;
}
