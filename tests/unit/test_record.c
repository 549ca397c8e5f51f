/* base/record.h */
#include "unit.h"

#include "base/record.h"

static void rows_and_fields_come_back_in_order(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib__rec r;
    snib__buf_init(&b, 10000);
    snib__rec_row(&b, SNIB__ROW_LOCK);
    snib__rec_bytes(&b, SNIB__F_NAME, "a\0\xff", 3);
    snib__rec_i64(&b, SNIB__F_TOKEN, INT64_MIN);
    snib__rec_row(&b, SNIB__ROW_HOLDER);
    snib__rec_text(&b, SNIB__F_ABOUT, "");
    snib__rec_row(&b, SNIB__ROW_WAITER);

    snib__rec_begin(&r, snib__buf_bytes(&b), snib__buf_size(&b));
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_LOCK);
    assert_true(snib__rec_next_field(&r));
    assert_int_equal(r.field, SNIB__F_NAME);
    assert_int_equal(r.size, 3);
    assert_memory_equal(r.data, "a\0\xff", 3);
    assert_true(snib__rec_next_field(&r));
    assert_int_equal(r.field, SNIB__F_TOKEN);
    assert_true(snib__rec_value_i64(&r) == INT64_MIN);
    assert_false(snib__rec_next_field(&r));
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_HOLDER);
    assert_true(snib__rec_next_field(&r));
    assert_int_equal(r.size, 0);
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_WAITER);
    assert_false(snib__rec_next_field(&r));
    assert_false(snib__rec_next_row(&r));
    assert_false(snib__rec_next_row(&r));
    snib__buf_free(&b);
}

static void unread_fields_are_skipped(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib__rec r;
    snib__buf_init(&b, 10000);
    for (int i = 0; i < 3; i++) {
        snib__rec_row(&b, SNIB__ROW_LOCK);
        /* a value that looks like a row                                    */
        snib__rec_bytes(&b, SNIB__F_NAME, "\xffL\xffL", 4);
        snib__rec_i64(&b, SNIB__F_TOKEN, -1);
    }
    int rows = 0;
    snib__rec_begin(&r, snib__buf_bytes(&b), snib__buf_size(&b));
    while (snib__rec_next_row(&r)) {
        rows++;
    }
    assert_int_equal(rows, 3);
    snib__buf_free(&b);
}

static void nothing_has_no_rows(void **state)
{
    (void)state;
    struct snib__rec r;
    snib__rec_begin(&r, "", 0);
    assert_false(snib__rec_next_row(&r));
    assert_false(snib__rec_next_field(&r));
}

static void a_value_of_another_size_is_no_number(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib__rec r;
    snib__buf_init(&b, 100);
    snib__rec_row(&b, SNIB__ROW_LOCK);
    snib__rec_text(&b, SNIB__F_TOKEN, "1234567");
    snib__rec_begin(&r, snib__buf_bytes(&b), snib__buf_size(&b));
    assert_true(snib__rec_next_row(&r) && snib__rec_next_field(&r));
    assert_true(snib__rec_value_i64(&r) == 0);
    snib__buf_free(&b);
}

/* What stands where a row should begin is one only with its mark and its name:
 * else there are no more, and nothing of it is read. */
static void what_does_not_begin_a_row_ends_the_record(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib__rec r;
    snib__buf_init(&b, 100);
    snib__rec_row(&b, SNIB__ROW_LOCK);
    const uint8_t *row = (const uint8_t *)snib__buf_bytes(&b);
    size_t size = snib__buf_size(&b);
    snib__rec_begin(&r, row, size);
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_LOCK);
    assert_false(snib__rec_next_row(&r));
    for (size_t cut = 0; cut < size; cut++) {
        snib__rec_begin(&r, row, cut);
        assert_false(snib__rec_next_row(&r));
    }
    for (int first = 0; first < 256; first++) {
        uint8_t other[8] = {(uint8_t)first, row[1], 0xff, 0xff, 0xff, 0xff};
        for (size_t n = 2; n <= sizeof other; n++) {
            snib__rec_begin(&r, other, n);
            assert_int_equal(snib__rec_next_row(&r), first == row[0]);
        }
    }
    snib__buf_free(&b);
}

static void walk(const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    struct snib__rec r;
    snib__rec_begin(&r, bytes, size);
    while (snib__rec_next_row(&r)) {
        while (snib__rec_next_field(&r)) {
            assert_true(r.data >= p && r.data + r.size <= p + size);
            snib__rec_value_i64(&r);
        }
    }
}

static void damaged_bytes_are_never_read_past_their_end(void **state)
{
    (void)state;
    uint64_t seed = 9;
    struct snib__buf b;
    snib__buf_init(&b, 10000);
    for (int i = 0; i < 5; i++) {
        snib__rec_row(&b, SNIB__ROW_HOLDER);
        snib__rec_text(&b, SNIB__F_ABOUT, "host=h");
        snib__rec_i64(&b, SNIB__F_LEFT, i);
    }
    size_t size = snib__buf_size(&b);
    for (size_t cut = 0; cut <= size; cut++) {
        uint8_t *part = snib__memdup(snib__buf_bytes(&b), cut);
        walk(part, cut);
        snib__free(part);
    }
    for (int i = 0; i < 20000; i++) {
        uint8_t *part = snib__memdup(snib__buf_bytes(&b), size);
        for (uint32_t k = dice(&seed) % 4 + 1; k; k--) {
            part[dice(&seed) % size] = (uint8_t)dice(&seed);
        }
        walk(part, size);
        snib__free(part);
    }
    snib__buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest record[] = {
        cmocka_unit_test(rows_and_fields_come_back_in_order),
        cmocka_unit_test(unread_fields_are_skipped),
        cmocka_unit_test(nothing_has_no_rows),
        cmocka_unit_test(a_value_of_another_size_is_no_number),
        cmocka_unit_test(what_does_not_begin_a_row_ends_the_record),
        cmocka_unit_test(damaged_bytes_are_never_read_past_their_end),
    };
    return RUN(record);
}
