/* base/buf.h */
#include "unit.h"

#include "base/buf.h"

static void bytes_come_out_as_they_went_in(void **state)
{
    (void)state;
    struct snib__buf b;
    snib__buf_init(&b, 1000);
    snib__buf_puts(&b, "ab");
    snib__buf_add(&b, "\0c", 2);
    snib__buf_add(&b, NULL, 0);
    snib__buf_put_i64(&b, -7);
    snib__buf_printf(&b, "<%s %d>", "x", 3);
    assert_int_equal(snib__buf_size(&b), 11);
    assert_memory_equal(snib__buf_bytes(&b), "ab\0c-7<x 3>", 11);
    snib__buf_consume(&b, 4);
    assert_string_equal(snib__buf_text(&b), "-7<x 3>");
    snib__buf_consume(&b, 7);
    assert_int_equal(snib__buf_size(&b), 0);
    snib__buf_free(&b);
    snib__buf_free(&b);
}

static void an_empty_buffer_has_text_and_bytes(void **state)
{
    (void)state;
    struct snib__buf b;
    snib__buf_init(&b, 10);
    assert_non_null(snib__buf_bytes(&b));
    assert_int_equal(snib__buf_size(&b), 0);
    assert_string_equal(snib__buf_text(&b), "");
    assert_false(b.failed);
    snib__buf_free(&b);
}

static void numbers_at_the_edges_are_decimal(void **state)
{
    (void)state;
    struct snib__buf b;
    snib__buf_init(&b, 100);
    snib__buf_put_i64(&b, INT64_MIN);
    snib__buf_puts(&b, " ");
    snib__buf_put_i64(&b, INT64_MAX);
    snib__buf_puts(&b, " ");
    snib__buf_put_i64(&b, 0);
    assert_string_equal(snib__buf_text(&b),
                        "-9223372036854775808 9223372036854775807 0");
    snib__buf_free(&b);
}

static void the_limit_is_reached_exactly_and_never_passed(void **state)
{
    (void)state;
    for (size_t limit = 0; limit < 300; limit++) {
        struct snib__buf b;
        snib__buf_init(&b, limit);
        for (size_t i = 0; i < limit; i++) {
            snib__buf_add(&b, "x", 1);
        }
        assert_false(b.failed);
        assert_int_equal(snib__buf_size(&b), limit);
        snib__buf_add(&b, "y", 1);
        assert_true(b.failed);
        assert_int_equal(snib__buf_size(&b), limit);
        snib__buf_free(&b);
    }
}

static void failure_sticks_until_cleared(void **state)
{
    (void)state;
    struct snib__buf b;
    snib__buf_init(&b, 4);
    snib__buf_puts(&b, "12345");
    assert_true(b.failed);
    snib__buf_puts(&b, "1");
    snib__buf_put_i64(&b, 1);
    snib__buf_printf(&b, "%d", 1);
    assert_int_equal(snib__buf_size(&b), 0);
    assert_string_equal(snib__buf_text(&b), "");
    snib__buf_clear(&b);
    snib__buf_puts(&b, "1234");
    assert_false(b.failed);
    assert_string_equal(snib__buf_text(&b), "1234");
    snib__buf_free(&b);
    assert_false(b.failed);
}

static void consumed_room_counts_again(void **state)
{
    (void)state;
    struct snib__buf b;
    snib__buf_init(&b, 100);
    for (int i = 0; i < 1000; i++) {
        snib__buf_puts(&b, "0123456789");
        if (snib__buf_size(&b) > 80) {
            snib__buf_consume(&b, 80);
        }
    }
    assert_false(b.failed);
    assert_true(b.cap <= 256);
    snib__buf_free(&b);
}

static void a_size_that_overflows_is_refused(void **state)
{
    (void)state;
    struct snib__buf b;
    snib__buf_init(&b, SIZE_MAX / 4);
    snib__buf_puts(&b, "x");
    assert_false(snib__buf_reserve(&b, SIZE_MAX));
    snib__buf_clear(&b);
    snib__buf_puts(&b, "x");
    assert_false(snib__buf_reserve(&b, SIZE_MAX / 4));
    snib__buf_free(&b);
}

static void long_printf_text_is_whole(void **state)
{
    (void)state;
    struct snib__buf b;
    char text[700];
    memset(text, 'q', sizeof text);
    for (int n = 0; n < (int)sizeof text; n++) {
        snib__buf_init(&b, 1000);
        snib__buf_printf(&b, "%.*s", n, text);
        assert_int_equal(snib__buf_size(&b), n);
        assert_int_equal(strlen(snib__buf_text(&b)), n);
        snib__buf_free(&b);
    }
}

static void what_is_hidden_leaves_no_copy(void **state)
{
    (void)state;
    struct snib__buf b;
    snib__buf_init(&b, 10000);
    snib__buf_puts(&b, "head ");
    snib__buf_hide(&b);
    snib__buf_puts(&b, "s3cret");
    assert_non_null(memmem(b.data, b.cap, "s3cret", 6));
    snib__buf_consume(&b, 8); /* "head s3c" */
    assert_null(memmem(b.data, b.cap, "s3", 2));
    assert_non_null(memmem(b.data, b.cap, "ret", 3));
    while (b.start) { /* until it is moved to the front */
        snib__buf_puts(&b, ".");
    }
    const uint8_t *ret = memmem(b.data, b.cap, "ret", 3);
    assert_ptr_equal(ret, b.data);
    assert_null(memmem(ret + 3, b.cap - 3, "ret", 3));
    size_t n = snib__buf_size(&b);
    snib__buf_consume(&b, n);
    assert_null(memmem(b.data, b.cap, "ret", 3));
    snib__buf_puts(&b, "open"); /* what follows is no secret any more */
    snib__buf_consume(&b, 4);
    assert_non_null(memmem(b.data, b.cap, "open", 4));
    snib__buf_hide(&b);
    snib__buf_puts(&b, "s3cret");
    snib__buf_clear(&b);
    assert_null(memmem(b.data, b.cap, "s3cret", 6));
    snib__buf_free(&b);
}

static void what_is_hidden_grows_or_fails_whole(void **state)
{
    (void)state;
    struct snib__buf b;
    char text[500];
    memset(text, 'q', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (int fails = 0; fails <= 1; fails++) {
        snib__buf_init(&b, 10000);
        snib__buf_hide(&b);
        snib__buf_puts(&b, "s3cret");
        snib__mem_fail_at(fails, false);
        snib__buf_puts(&b, text);
        snib__mem_fail_at(0, false);
        assert_int_equal(b.failed, fails);
        assert_memory_equal(snib__buf_bytes(&b), "s3cret", 6);
        assert_int_equal(snib__buf_size(&b), fails ? 6 : 505);
        snib__buf_free(&b);
    }
    assert_int_equal(snib__mem_alive(), 0);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int nth = 1; nth < 6; nth++) {
        struct snib__buf b;
        snib__buf_init(&b, 10000);
        snib__mem_fail_at(nth, false);
        for (int i = 0; i < 100; i++) {
            snib__buf_puts(&b, "0123456789");
        }
        snib__mem_fail_at(0, false);
        assert_true(b.failed);
        assert_true(snib__buf_size(&b) < 1000);
        snib__buf_free(&b);
    }
}

/* Against a plain array, with random appends and takes. */
static void it_behaves_like_a_queue_of_bytes(void **state)
{
    (void)state;
    enum { LIMIT = 500 };
    uint8_t model[LIMIT];
    size_t size = 0;
    uint64_t seed = 3;
    struct snib__buf b;
    snib__buf_init(&b, LIMIT);
    for (int i = 0; i < 50000; i++) {
        size_t n = dice(&seed) % 60;
        if (dice(&seed) % 2 && n <= LIMIT - size) {
            for (size_t k = 0; k < n; k++) {
                model[size + k] = (uint8_t)dice(&seed);
            }
            snib__buf_add(&b, model + size, n);
            size += n;
        } else if (n <= size) {
            snib__buf_consume(&b, n);
            memmove(model, model + n, size - n);
            size -= n;
        }
        assert_int_equal(snib__buf_size(&b), size);
        assert_memory_equal(snib__buf_bytes(&b), model, size);
    }
    assert_false(b.failed);
    snib__buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest buf[] = {
        cmocka_unit_test(bytes_come_out_as_they_went_in),
        cmocka_unit_test(an_empty_buffer_has_text_and_bytes),
        cmocka_unit_test(numbers_at_the_edges_are_decimal),
        cmocka_unit_test(the_limit_is_reached_exactly_and_never_passed),
        cmocka_unit_test(failure_sticks_until_cleared),
        cmocka_unit_test(consumed_room_counts_again),
        cmocka_unit_test(a_size_that_overflows_is_refused),
        cmocka_unit_test(long_printf_text_is_whole),
        cmocka_unit_test(what_is_hidden_leaves_no_copy),
        cmocka_unit_test(what_is_hidden_grows_or_fails_whole),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(it_behaves_like_a_queue_of_bytes),
    };
    return RUN(buf);
}
