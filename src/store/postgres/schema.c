/* store/postgres/schema.c — what makes the tables, as text for psql. */
#include "base/error.h"
#include "store/postgres/postgres_i.h"

snib_err snib__postgres_schema(const struct snib__url *url,
                               struct snib__buf *ret, struct snib_error *e)
{
    const char *schema = snib__url_query(url, "schema");
    const char *dialect = snib__url_query(url, "dialect");
    schema = schema ? schema : "snib";
    if (!snib__sql_is_plain(schema)) {
        return snib__fail(e, SNIB_ERR_USAGE,
                          "a schema is lower-case letters, digits and '_', and "
                          "shorter than 48");
    }
    if (dialect && !strcmp(dialect, "advisory")) {
        return snib__fail(e, SNIB_ERR_UNSUPPORTED,
                          "advisory locks need no table");
    }
    if (dialect) {
        char table[104];
        snib_err err = snib__sql_recipe_place(
            url, snib__url_query(url, "schema") ? schema : "public", table,
            sizeof table, e);
        if (err) {
            return err;
        }
        snib__pg_schema_text(
            snib__pg_recipe_table(snib__sql_recipe_is_int_lock(url)), table,
            ret);
        snib__buf_puts(ret, ";\n");
        return ret->failed ? snib__fail_plain(e, SNIB_ERR_NOMEM) : snib__ok(e);
    }
    snib__buf_puts(ret, "BEGIN;\n");
    for (int i = 0; snib__pg_table(i); i++) {
        snib__pg_schema_text(snib__pg_table(i), schema, ret);
        snib__buf_puts(ret, ";\n");
    }
    snib__buf_puts(ret, "COMMIT;\n");
    return ret->failed ? snib__fail_plain(e, SNIB_ERR_NOMEM) : snib__ok(e);
}
