/* store/mysql/schema.c — what makes the tables, as text for the program mysql. */
#include "base/error.h"
#include "store/mysql/mysql_i.h"

snib_err snib__mysql_schema(const struct snib__url *url, struct snib__buf *ret,
                            struct snib_error *e)
{
    const char *prefix = snib__url_query(url, "prefix");
    prefix = prefix ? prefix : "snib";
    if (!snib__sql_is_plain(prefix)) {
        return snib__fail(e, SNIB_ERR_USAGE,
                          "a prefix is lower-case letters, digits and '_', and "
                          "shorter than 48");
    }
    if (snib__my_is_getlock(url)) {
        return snib__fail(e, SNIB_ERR_UNSUPPORTED, "named locks need no table");
    }
    if (snib__url_query(url, "dialect")) {
        char table[64];
        snib_err err =
            snib__sql_recipe_place(url, NULL, table, sizeof table, e);
        if (err) {
            return err;
        }
        snib__my_expand(
            table, snib__my_recipe_table(snib__sql_recipe_is_int_lock(url)),
            NULL, NULL, ret);
        snib__buf_puts(ret, ";\n");
        return ret->failed ? snib__fail_plain(e, SNIB_ERR_NOMEM) : snib__ok(e);
    }
    for (int i = 0; snib__my_table(i); i++) {
        snib__my_expand(prefix, snib__my_table(i), NULL, NULL, ret);
        snib__buf_puts(ret, ";\n");
    }
    return ret->failed ? snib__fail_plain(e, SNIB_ERR_NOMEM) : snib__ok(e);
}
