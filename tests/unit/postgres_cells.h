/* tests/unit/postgres_cells.h — the results of unit.postgres_same: rows of cells as
 * libpq hands them out; some of another type than was asked for. See
 * postgres_world.h. */
#ifndef SNIB_TESTS_POSTGRES_CELLS_H
#define SNIB_TESTS_POSTGRES_CELLS_H

#include "postgres_world.h"

static struct result *result_of(const PGresult *r)
{
    struct result *ret = (struct result *)(uintptr_t)r;
    assert_non_null(ret);
    return ret;
}

static struct result *result_new(ExecStatusType status)
{
    struct result *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->status = status;
    w.results_alive++;
    return r;
}

static void result_size(struct result *r, int rows, int cols)
{
    r->rows = rows;
    r->cols = cols;
    r->cells = calloc((size_t)rows * (size_t)cols + 1, sizeof *r->cells);
    assert_non_null(r->cells);
    for (int i = 0; i < rows * cols; i++) {
        r->cells[i].size = -1;
    }
}

static struct cell *cell_at(const struct result *r, int row, int col)
{
    static struct cell none = {.size = -1};
    /* libpq warns and says NULL where there is none */
    return row >= 0 && row < r->rows && col >= 0 && col < r->cols
               ? &r->cells[row * r->cols + col]
               : &none;
}

static void put_bytes(struct result *r, int row, int col, const void *bytes,
                      size_t size)
{
    struct cell *c = cell_at(r, row, col);
    free(c->bytes);
    c->bytes = malloc(size + 1);
    assert_non_null(c->bytes);
    memcpy(c->bytes, bytes, size);
    c->bytes[size] = 0;
    c->size = (int)size;
}

static void put_text(struct result *r, int row, int col, const char *text)
{
    put_bytes(r, row, col, text, strlen(text));
}

/* Of 8 bytes, as all columns are; of another size now and then. */
static void put_int(struct result *r, int row, int col, int64_t n)
{
    uint64_t v = htobe64((uint64_t)n);
    const uint8_t *p = (const uint8_t *)&v;
    static const size_t sizes[] = {4, 2, 1, 3, 7};
    bool odd = w.odd && chance("odd size", 20);
    size_t size = odd ? sizes[pick("size", 5)] : 8;
    put_bytes(r, row, col, p + 8 - size, size);
}

static void put_small(struct result *r, int row, int col, int64_t n)
{
    uint64_t v = htobe64((uint64_t)n);
    put_bytes(r, row, col, (const uint8_t *)&v + 4, 4);
}

static void put_id(struct result *r, int row, int col, const uint64_t id[2])
{
    uint64_t v[2] = {htobe64(id[0]), htobe64(id[1])};
    put_bytes(r, row, col, v, w.odd && chance("odd id", 9) ? 15 : 16);
}

/* -- as libpq shows them --------------------------------------------------------- */

static void dice_clear(PGresult *res)
{
    if (!res) {
        return;
    }
    struct result *r = result_of(res);
    for (int i = 0; i < r->rows * r->cols; i++) {
        free(r->cells[i].bytes);
    }
    free(r->cells);
    free(r);
    w.results_alive--;
}

static ExecStatusType dice_result_status(const PGresult *res)
{
    return res ? result_of(res)->status : PGRES_FATAL_ERROR;
}

static int dice_ntuples(const PGresult *res)
{
    return result_of(res)->rows;
}

static int dice_is_null(const PGresult *res, int row, int col)
{
    return cell_at(result_of(res), row, col)->size < 0;
}

static int dice_length(const PGresult *res, int row, int col)
{
    int size = cell_at(result_of(res), row, col)->size;
    return size < 0 ? 0 : size;
}

static char *dice_value(const PGresult *res, int row, int col)
{
    static char empty[16];
    struct cell *c = cell_at(result_of(res), row, col);
    return c->bytes ? (char *)c->bytes : empty;
}

static char *dice_field(const PGresult *res, int field)
{
    struct result *r = result_of(res);
    char *text = field == PG_DIAG_SQLSTATE                ? r->state
                 : field == PG_DIAG_SEVERITY_NONLOCALIZED ? r->severity
                 : field == PG_DIAG_MESSAGE_PRIMARY       ? r->words
                                                          : NULL;
    return text && text[0] ? text : NULL;
}

#endif
