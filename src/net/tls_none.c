/* net/tls_none.c — a build without TLS; see tls.h. No filter can be made, so
 * nothing that takes one is ever called. */
#include "net/tls.h"

#include <stdlib.h>

#include "base/error.h"

#if !SNIB_WITH_TLS

snib_err snib__tls_shared_new(const struct snib__tls_files *files,
                              struct snib__tls_shared **ret,
                              struct snib_error *reterr)
{
    (void)files;
    *ret = NULL;
    return snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                      "this build has no TLS: build it with OpenSSL "
                      "(libssl-dev, -DSNIB_TLS=ON), or use redis: "
                      "through a tunnel");
}

void snib__tls_shared_free(struct snib__tls_shared *shared)
{
    (void)shared; /* always NULL */
}

struct snib__tls *snib__tls_new(struct snib__tls_shared *shared,
                                const char *address)
{
    (void)shared;
    (void)address;
    return NULL;
}

void snib__tls_free(struct snib__tls *t)
{
    (void)t; /* always NULL */
}

void snib__tls_feed(struct snib__tls *t, const void *bytes, size_t size)
{
    (void)t;
    (void)bytes;
    (void)size;
    abort();
}

snib__tls_progress snib__tls_shake(struct snib__tls *t)
{
    (void)t;
    abort();
}

long snib__tls_open(struct snib__tls *t, void *to, size_t size)
{
    (void)t;
    (void)to;
    (void)size;
    abort();
}

size_t snib__tls_seal(struct snib__tls *t, const void *bytes, size_t size)
{
    (void)t;
    (void)bytes;
    (void)size;
    abort();
}

void snib__tls_bye(struct snib__tls *t)
{
    (void)t;
    abort();
}

const void *snib__tls_wire(const struct snib__tls *t, size_t *ret_size)
{
    (void)t;
    (void)ret_size;
    abort();
}

void snib__tls_sent(struct snib__tls *t, size_t size)
{
    (void)t;
    (void)size;
    abort();
}

const char *snib__tls_instead(const struct snib__tls *t)
{
    (void)t;
    return "";
}

const char *snib__tls_why(const struct snib__tls *t, snib_err *ret_err)
{
    (void)t;
    (void)ret_err;
    abort();
}

bool snib__tls_resumed(const struct snib__tls *t)
{
    (void)t;
    abort();
}

#endif
