/* api/schema.c — the tables of a store in a database, as text. */
#include <string.h>

#include "api/api.h"
#include "base/error.h"
#include "snib/sys.h"

static snib_err schema_of(const struct snib__url *url, struct snib__buf *b,
                          struct snib_error *e)
{
    const struct snib__registered *store = snib__store_find(url->scheme);
    if (!store) {
        return snib__store_missing(url->scheme, e);
    }
    if (!store->schema) {
        return snib__fail(e, SNIB_ERR_UNSUPPORTED,
                          "%s: has no tables that others could make",
                          url->scheme);
    }
    return store->schema(url, b, e);
}

snib_err snib_store_schema(const char *url, char *ret_text, size_t size,
                           struct snib_error *reterr)
{
    struct snib__url *parsed = NULL;
    struct snib__buf b;
    if (size) {
        ret_text[0] = 0;
    }
    snib__buf_init(&b, SNIB_SCHEMA_TEXT);
    snib_err err = snib__url_parse(url, &parsed, reterr);
    err = err ? err : schema_of(parsed, &b, reterr);
    if (!err && snib__buf_size(&b) >= size) {
        err = snib__fail(reterr, SNIB_ERR_USAGE,
                         "the text needs SNIB_SCHEMA_TEXT bytes");
    }
    if (!err) {
        memcpy(ret_text, snib__buf_bytes(&b), snib__buf_size(&b));
        ret_text[snib__buf_size(&b)] = 0;
    }
    snib__buf_free(&b);
    snib__url_free(parsed);
    return err;
}
