/* store/mysql/libmariadb.c — the database's own library, loaded at the first
 * need, as libpq is: a program that opens no such store is not slowed down by
 * it. It is never unloaded: OpenSSL, which it brings, does not bear that.
 *
 * When it is first used it has the whole process ignore SIGPIPE. What the
 * program has set is put back. */
#include <dlfcn.h>
#include <signal.h>

#include "base/error.h"
#include "store/mysql/mysql_i.h"

#define LIBMARIADB_NAME "libmariadb.so.3"
/* The first one that lets us say by which methods it may log in. */
#define LIBMARIADB_OLDEST 30300

static void libmariadb_begin(const struct snib__mariadb *lib)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    struct sigaction before;
    pthread_mutex_lock(&once);
    sigaction(SIGPIPE, NULL, &before);
    (void)lib->mysql_server_init(0, NULL, NULL);
    sigaction(SIGPIPE, &before, NULL);
    pthread_mutex_unlock(&once);
}

snib_err snib__mariadb_load(struct snib__mariadb *ret, struct snib_error *e)
{
    void *library =
        dlopen(LIBMARIADB_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        return snib__fail(e, SNIB_ERR_UNSUPPORTED,
                          "mysql: needs the library " LIBMARIADB_NAME
                          ", which is not here (Debian: apt-get install "
                          "libmariadb3)");
    }
    bool all = true;
    void *f;
#define LIBMARIADB_FIND(name)                                                  \
    f = dlsym(library, #name);                                                 \
    memcpy(&ret->name, &f, sizeof f);                                          \
    all = all && f;
    SNIB__MARIADB_FUNCTIONS(LIBMARIADB_FIND)
#undef LIBMARIADB_FIND
    if (!all || ret->mysql_get_client_version() < LIBMARIADB_OLDEST) {
        return snib__fail(e, SNIB_ERR_UNSUPPORTED,
                          "mysql: the library " LIBMARIADB_NAME
                          " of this machine is older than version 3.3");
    }
    libmariadb_begin(ret);
    return SNIB_ERR_OK;
}
