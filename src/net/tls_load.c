/* net/tls_load.c — OpenSSL is loaded when TLS is first wanted; see
 * tls_openssl.h. It stays until the process ends, since what it has registered
 * there (its clean-up, the keys of threads) cannot be taken back. */
#include "net/tls.h"

#if SNIB_WITH_TLS

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "net/tls_openssl.h"

#define LIBRARY "libssl.so.3"

struct snib__openssl snib__openssl;
static pthread_once_t tls_load_once = PTHREAD_ONCE_INIT;
static const char *tls_load_lacks = LIBRARY;

/* POSIX: a pointer to an object from dlsym has the bytes of one to a function.
 * libcrypto is found as what libssl depends on. */
static bool tls_load_one(void *library, const char *name, void *ret,
                         size_t size)
{
    void *at = dlsym(library, name);
    memcpy(ret, &at, size);
    if (!at) {
        tls_load_lacks = name;
    }
    return at;
}

static void tls_load_all(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    bool good = library;
#define LOAD_ONE(f)                                                            \
    good = good && tls_load_one(library, #f, &snib__openssl.f##_,              \
                                sizeof snib__openssl.f##_);
    SNIB__OPENSSL(LOAD_ONE)
    if (good) {
        tls_load_lacks = NULL;
    }
}

const char *snib__openssl_load(void)
{
    pthread_once(&tls_load_once, tls_load_all);
    return tls_load_lacks;
}

#endif
