/* proto/grpc/nghttp2.c — nghttp2, loaded at the first need, as the libraries of
 * databases are: most programs use no store that needs it. It is never
 * unloaded. */
#include <dlfcn.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "proto/grpc/h2.h"
#include "proto/grpc/nghttp2_i.h"

#define NGHTTP2_NAME "libnghttp2.so.14"

snib_err snib__h2_load(struct snib__nghttp2 **ret, struct snib_error *e)
{
    *ret = NULL;
    void *library = dlopen(NGHTTP2_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        return snib__fail(e, SNIB_ERR_UNSUPPORTED,
                          "etcd: needs the library " NGHTTP2_NAME
                          ", which is not here (Debian: apt-get install "
                          "libnghttp2-14)");
    }
    struct snib__nghttp2 *lib = snib__alloc(sizeof *lib);
    if (!lib) {
        return snib__fail_plain(e, SNIB_ERR_NOMEM);
    }
    bool all = true;
    void *f;
#define NGHTTP2_FIND(name)                                                     \
    f = dlsym(library, #name);                                                 \
    memcpy(&lib->name, &f, sizeof f);                                          \
    all = all && f;
    SNIB__NGHTTP2_FUNCTIONS(NGHTTP2_FIND)
#undef NGHTTP2_FIND
    if (!all) {
        snib__free(lib);
        return snib__fail(e, SNIB_ERR_UNSUPPORTED,
                          "etcd: the library " NGHTTP2_NAME
                          " of this machine lacks what is needed of it");
    }
    *ret = lib;
    return snib__ok(e);
}
