/* store/sql/script.c — statements that travel together, as they are composed; and
 * the values of their results. */
#include <endian.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/sql/tables.h"

enum { SCRIPT_BYTES_MAX = 64 << 20 };

/* -- composing ------------------------------------------------------------- */

void snib__sql_script_init(struct snib__sql_script *t)
{
    *t = (struct snib__sql_script){0};
    snib__buf_init(&t->bytes, SCRIPT_BYTES_MAX);
}

void snib__sql_script_clear(struct snib__sql_script *t)
{
    t->items = t->params = t->synced = t->error_at = 0;
    t->failed = t->fatal = false;
    t->state[0] = t->error[0] = 0;
    t->code = 0;
    snib__buf_clear(&t->bytes);
}

void snib__sql_script_free(struct snib__sql_script *t)
{
    snib__free(t->item);
    snib__free(t->param);
    snib__buf_free(&t->bytes);
}

static bool script_grow(void **array, uint32_t count, uint32_t *room,
                        size_t size)
{
    if (count < *room) {
        return true;
    }
    uint32_t more = *room ? 2 * *room : 32;
    void *p = more > *room ? snib__realloc(*array, more * size) : NULL;
    if (p) {
        *array = p;
        *room = more;
    }
    return p != NULL;
}

static void script_append(struct snib__sql_script *t,
                          const struct snib__sql_item *item)
{
    if (!script_grow((void **)&t->item, t->items, &t->item_capacity,
                     sizeof *t->item)) {
        t->failed = true;
        return;
    }
    t->item[t->items] = *item;
    t->item[t->items++].param = t->params;
}

void snib__sql_add(struct snib__sql_script *t, int statement,
                   snib__sql_row *row, void *data)
{
    script_append(t, &(struct snib__sql_item){.kind = SNIB__SQL_ITEM_STATEMENT,
                                              .statement = statement,
                                              .row = row,
                                              .data = data});
}

void snib__sql_add_text(struct snib__sql_script *t, const char *text)
{
    script_append(
        t, &(struct snib__sql_item){.kind = SNIB__SQL_ITEM_TEXT, .text = text});
}

void snib__sql_sync(struct snib__sql_script *t)
{
    script_append(t, &(struct snib__sql_item){.kind = SNIB__SQL_ITEM_SYNC});
}

static void script_param(struct snib__sql_script *t,
                         enum snib__sql_param_kind kind, const void *p,
                         size_t size)
{
    if (t->failed || !script_grow((void **)&t->param, t->params,
                                  &t->param_capacity, sizeof *t->param)) {
        t->failed = true;
        return;
    }
    t->param[t->params++] =
        (struct snib__sql_param){kind, snib__buf_size(&t->bytes), size};
    t->item[t->items - 1].params++;
    if (size > 0) {
        snib__buf_add(&t->bytes, p, size);
    }
    t->failed = t->failed || t->bytes.failed;
}

void snib__sql_int(struct snib__sql_script *t, int64_t n)
{
    uint64_t v = htobe64((uint64_t)n);
    script_param(t, SNIB__SQL_PARAM_INT, &v, sizeof v);
}

void snib__sql_null(struct snib__sql_script *t)
{
    script_param(t, SNIB__SQL_PARAM_NULL, NULL, 0);
}

void snib__sql_bytes(struct snib__sql_script *t, const void *p, size_t size)
{
    script_param(t, SNIB__SQL_PARAM_BYTES, p, size);
}

void snib__sql_string(struct snib__sql_script *t, const char *s)
{
    snib__sql_bytes(t, s, strlen(s));
}

void snib__sql_id(struct snib__sql_script *t, const uint64_t id[2])
{
    uint64_t v[2] = {htobe64(id[0]), htobe64(id[1])};
    snib__sql_bytes(t, v, sizeof v);
}

void snib__sql_id_or_null(struct snib__sql_script *t, const uint64_t id[2])
{
    if (id[0] || id[1]) {
        snib__sql_id(t, id);
    } else {
        snib__sql_null(t);
    }
}

void snib__sql_name(struct snib__sql_script *t, const struct snib__name *name)
{
    snib__sql_bytes(t, name->raw, name->raw_size);
}

int64_t snib__sql_param_int(const struct snib__sql_script *t,
                            const struct snib__sql_param *p)
{
    uint64_t v;
    memcpy(&v, (const char *)snib__buf_bytes(&t->bytes) + p->at, sizeof v);
    return (int64_t)be64toh(v);
}

/* -- values of results ----------------------------------------------------- */

bool snib__sql_is_null(struct snib__sql_rows *rows, int row, int col)
{
    size_t size;
    return rows->ops->bytes(rows, row, col, &size) == NULL;
}

int64_t snib__sql_get_int(struct snib__sql_rows *rows, int row, int col)
{
    return rows->ops->number(rows, row, col);
}

void snib__sql_get_id(struct snib__sql_rows *rows, int row, int col,
                      uint64_t ret[2])
{
    size_t size;
    const void *p = rows->ops->bytes(rows, row, col, &size);
    ret[0] = ret[1] = 0;
    if (p && size == 2 * sizeof *ret) {
        memcpy(ret, p, 2 * sizeof *ret);
        ret[0] = be64toh(ret[0]);
        ret[1] = be64toh(ret[1]);
    }
}

const void *snib__sql_get_bytes(struct snib__sql_rows *rows, int row, int col,
                                size_t *ret_size)
{
    const void *p = rows->ops->bytes(rows, row, col, ret_size);
    *ret_size = p ? *ret_size : 0;
    return p ? p : "";
}

void snib__sql_get_text(struct snib__sql_rows *rows, int row, int col,
                        char *ret, size_t size)
{
    size_t n;
    const void *p = snib__sql_get_bytes(rows, row, col, &n);
    n = n < size ? n : size - 1;
    memcpy(ret, p, n);
    ret[n] = 0;
}
