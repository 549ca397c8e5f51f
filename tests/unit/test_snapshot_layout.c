/* core/snapshot/layout: the rows of a lock as bytes. */
#include "unit.h"

#include "core/snapshot/layout.h"

static struct snib_error error;

static struct snib__buf buf(void)
{
    struct snib__buf b;
    snib__buf_init(&b, 4000);
    return b;
}

static snib_err read_claim(const void *bytes, size_t size,
                           struct snib__stored_claim *ret)
{
    const void *about;
    size_t about_size;
    return snib__layout_claim(bytes, size, ret, &about, &about_size, &error);
}

static struct snib__stored_claim some_claim(void)
{
    return (struct snib__stored_claim){
        .id = INT64_C(0x0102030405060708),
        .request = {1, UINT64_MAX},
        .client = {UINT64_MAX, 2},
        .state = SNIB__SHARES,
        .kind = SNIB_KIND_BARRIER,
        .permits = UINT32_MAX,
        .reserve = SNIB__RESERVE_MAX,
        .slot = 70000,
        .token = SNIB__TOKEN_END,
        .floor = SNIB__TOKEN_END - 2 - SNIB__RESERVE_MAX,
        .rank = INT8_MIN,
        .upgrade_of = {3, 4},
        .lease = {INT64_MAX / 4},
        .delay = {1},
        .since = {1700000000000000000},
        .until = {INT64_MAX / 2},
        .notifier = "one",
        .note = "because",
    };
}

static void a_claim_is_read_as_it_was_written(void **state)
{
    struct snib__stored_claim c = some_claim(), back;
    struct snib__buf b = buf();
    const void *about;
    size_t size;
    (void)state;
    snib__layout_put_claim(&b, &c, "who\0where", 9);
    assert_int_equal(snib__layout_claim(snib__buf_bytes(&b), snib__buf_size(&b),
                                        &back, &about, &size, &error),
                     SNIB_ERR_OK);
    assert_int_equal(size, 9);
    assert_memory_equal(about, "who\0where", 9);
    assert_int_equal(back.id, c.id);
    assert_memory_equal(back.request, c.request, sizeof c.request);
    assert_memory_equal(back.client, c.client, sizeof c.client);
    assert_int_equal(back.state, c.state);
    assert_int_equal(back.kind, c.kind);
    assert_int_equal(back.permits, c.permits);
    assert_int_equal(back.reserve, c.reserve);
    assert_int_equal(back.slot, c.slot);
    assert_int_equal(back.token, c.token);
    assert_int_equal(back.floor, c.floor);
    assert_int_equal(back.rank, c.rank);
    assert_memory_equal(back.upgrade_of, c.upgrade_of, sizeof c.upgrade_of);
    assert_int_equal(back.lease.ns, c.lease.ns);
    assert_int_equal(back.delay.ns, c.delay.ns);
    assert_int_equal(back.since.ns, c.since.ns);
    assert_int_equal(back.until.ns, c.until.ns);
    assert_string_equal(back.notifier, c.notifier);
    assert_string_equal(back.note, c.note);
    snib__buf_free(&b);
}

static void the_other_rows_are_read_as_they_were_written(void **state)
{
    struct snib__lock_row l = {77, {.size = -1, .latch = 3}}, back;
    struct snib__buf b = buf();
    int64_t n;
    (void)state;
    snib__layout_put_lock(&b, &l);
    assert_int_equal(snib__layout_lock(snib__buf_bytes(&b), snib__buf_size(&b),
                                       &back, &error),
                     SNIB_ERR_OK);
    assert_int_equal(back.token, 77);
    assert_int_equal(back.params.size, -1);
    assert_int_equal(back.params.latch, 3);
    snib__buf_clear(&b);
    snib__layout_put_arrivals(&b, 12);
    assert_int_equal(snib__layout_arrivals(snib__buf_bytes(&b),
                                           snib__buf_size(&b), &n, &error),
                     SNIB_ERR_OK);
    assert_int_equal(n, 12);
    snib__buf_clear(&b);
    snib__layout_put_floor(&b, 13);
    assert_int_equal(
        snib__layout_floor(snib__buf_bytes(&b), snib__buf_size(&b), &n, &error),
        SNIB_ERR_OK);
    assert_int_equal(n, 13);
    snib__buf_free(&b);
}

/* What stands where does not change as long as the layout has its number. */
static void a_row_is_these_bytes(void **state)
{
    static const uint8_t is[] = {1, 'l', 2,   1,   0,   0,   0,   0,   0,
                                 0, 255, 255, 255, 255, 255, 255, 255, 255,
                                 5, 0,   0,   0,   0,   0,   0,   0};
    struct snib__lock_row l = {258, {.size = -1, .latch = 5}};
    struct snib__buf b = buf();
    (void)state;
    snib__layout_put_lock(&b, &l);
    assert_int_equal(snib__buf_size(&b), sizeof is);
    assert_memory_equal(snib__buf_bytes(&b), is, sizeof is);
    snib__buf_free(&b);
}

static void another_layout_is_refused_in_words(void **state)
{
    static const uint8_t row[] = {7, 'c', 1, 2, 3};
    struct snib__stored_claim c;
    struct snib__lock_row l;
    int64_t n;
    (void)state;
    assert_int_equal(read_claim(row, sizeof row, &c), SNIB_ERR_CONFIG);
    assert_string_equal(
        error.text, "a row of this lock has layout 7, this snib knows 1; use "
                    "the newer snib everywhere, or begin with an empty store "
                    "when nobody uses this one");
    assert_int_equal(snib__layout_lock(row, sizeof row, &l, &error),
                     SNIB_ERR_CONFIG);
    assert_int_equal(snib__layout_arrivals(row, sizeof row, &n, &error),
                     SNIB_ERR_CONFIG);
    assert_int_equal(snib__layout_floor(row, sizeof row, &n, &error),
                     SNIB_ERR_CONFIG);
}

/* In memory of just that size, so that a look beyond its end is seen. */
static snib_err read_first(const struct snib__buf *b, size_t size)
{
    struct snib__stored_claim c;
    void *bytes = snib__memdup(snib__buf_bytes(b), size);
    snib_err err = read_claim(bytes, size, &c);
    snib__free(bytes);
    return err;
}

static void a_row_that_is_cut_or_longer_is_damaged(void **state)
{
    struct snib__stored_claim c = some_claim();
    struct snib__buf b = buf();
    (void)state;
    snib__layout_put_claim(&b, &c, "about", 5);
    for (size_t size = 0; size < snib__buf_size(&b); size++) {
        assert_int_equal(read_first(&b, size), SNIB_ERR_CORRUPT);
    }
    assert_int_equal(read_first(&b, snib__buf_size(&b)), SNIB_ERR_OK);
    snib__buf_puts(&b, "x");
    assert_int_equal(read_first(&b, snib__buf_size(&b)), SNIB_ERR_CORRUPT);
    assert_non_null(strstr(error.text, "damaged"));
    snib__buf_free(&b);
}

static void so_are_the_other_rows(void **state)
{
    struct snib__lock_row l = {1, {.size = -7, .latch = -7}};
    struct snib__buf b = buf();
    int64_t n;
    (void)state;
    snib__layout_put_lock(&b, &l);
    size_t size = snib__buf_size(&b);
    assert_int_equal(snib__layout_lock(snib__buf_bytes(&b), size, &l, &error),
                     SNIB_ERR_OK);
    assert_int_equal(l.params.size, -1);
    assert_int_equal(l.params.latch, 0);
    assert_int_equal(
        snib__layout_lock(snib__buf_bytes(&b), size - 1, &l, &error),
        SNIB_ERR_CORRUPT);
    snib__buf_clear(&b);
    snib__layout_put_arrivals(&b, 1);
    assert_int_equal(snib__layout_arrivals(snib__buf_bytes(&b), 9, &n, &error),
                     SNIB_ERR_CORRUPT);
    snib__buf_clear(&b);
    snib__layout_put_floor(&b, 1);
    assert_int_equal(snib__layout_floor(snib__buf_bytes(&b), 9, &n, &error),
                     SNIB_ERR_CORRUPT);
    snib__buf_free(&b);
}

static void a_row_of_another_kind_is_damaged(void **state)
{
    struct snib__lock_row l;
    struct snib__buf b = buf();
    (void)state;
    snib__layout_put_floor(&b, 4);
    assert_int_equal(
        snib__layout_lock(snib__buf_bytes(&b), snib__buf_size(&b), &l, &error),
        SNIB_ERR_CORRUPT);
    snib__buf_free(&b);
}

static snib_err read_back(const struct snib__stored_claim *c,
                          struct snib__stored_claim *ret)
{
    struct snib__buf b = buf();
    snib__layout_put_claim(&b, c, NULL, 0);
    snib_err err = read_claim(snib__buf_bytes(&b), snib__buf_size(&b), ret);
    snib__buf_free(&b);
    return err;
}

static void what_cannot_be_is_brought_within_bounds_or_refused(void **state)
{
    struct snib__stored_claim c = some_claim(), back;
    (void)state;
    c.token = -5;
    c.floor = SNIB__TOKEN_END - 1;
    c.reserve = 4000;
    c.lease.ns = -1;
    c.until.ns = INT64_MAX;
    assert_int_equal(read_back(&c, &back), SNIB_ERR_OK);
    assert_int_equal(back.token, 0);
    assert_int_equal(back.floor, SNIB__TOKEN_END);
    assert_int_equal(back.reserve, SNIB__RESERVE_MAX);
    assert_int_equal(back.lease.ns, 0);
    assert_int_equal(back.until.ns, INT64_MAX / 2);
    c.state = SNIB__SHARES + 1;
    assert_int_equal(read_back(&c, &back), SNIB_ERR_CORRUPT);
    c = some_claim();
    c.kind = (snib_kind)(SNIB_KIND_BARRIER + 1);
    assert_int_equal(read_back(&c, &back), SNIB_ERR_CORRUPT);
}

static void texts_fill_their_room_but_not_more(void **state)
{
    struct snib__stored_claim c = some_claim(), back;
    struct snib__buf b = buf();
    (void)state;
    memset(c.note, 'n', sizeof c.note - 1);
    memset(c.notifier, 'm', sizeof c.notifier - 1);
    assert_int_equal(read_back(&c, &back), SNIB_ERR_OK);
    assert_string_equal(back.note, c.note);
    assert_string_equal(back.notifier, c.notifier);
    snib__layout_put_claim(&b, &c, NULL, 0);
    /* The note's length is four bytes before its text; one more does not
     * fit. */
    size_t at = snib__buf_size(&b) - 4 - (sizeof c.note - 1) - 4;
    uint8_t *bytes = b.data + b.start;
    assert_int_equal(bytes[at], sizeof c.note - 1);
    bytes[at]++;
    snib__buf_puts(&b, "n");
    bytes = b.data + b.start;
    memmove(bytes + at + 4 + sizeof c.note, bytes + at + 3 + sizeof c.note, 4);
    bytes[at + 3 + sizeof c.note] = 'n';
    assert_int_equal(read_first(&b, snib__buf_size(&b)), SNIB_ERR_CORRUPT);
    snib__buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_claim_is_read_as_it_was_written),
        cmocka_unit_test(the_other_rows_are_read_as_they_were_written),
        cmocka_unit_test(a_row_is_these_bytes),
        cmocka_unit_test(another_layout_is_refused_in_words),
        cmocka_unit_test(a_row_that_is_cut_or_longer_is_damaged),
        cmocka_unit_test(so_are_the_other_rows),
        cmocka_unit_test(a_row_of_another_kind_is_damaged),
        cmocka_unit_test(what_cannot_be_is_brought_within_bounds_or_refused),
        cmocka_unit_test(texts_fill_their_room_but_not_more),
    };
    return RUN(cases);
}
