/* tests/unit/test_file_values.c — the embedded store: versioned values that have
 * ended make room, and damaged ones are told. (What every store does with values:
 * tests/conformance/value.c.) */
#include "file_store.h"

static struct snib__request put(const struct snib__name *n, int64_t ms)
{
    struct snib__request r = request(SNIB__VALUE_PUT, n);
    r.lease = snib__ms(ms);
    r.text = "x";
    r.text_size = 1;
    return r;
}

static uint32_t values_of(int peer)
{
    struct snib__file *f = self_of(peer);
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->map.value_root_count; i++) {
        assert_int_equal(
            snib__root_copy(&f->map, &f->copy, SNIB__FILE_INDEX, i), 0);
        n += (uint32_t)(f->copy.used / sizeof(struct snib__file_entry));
    }
    return n;
}

/* … when others are written, and versions still rise. */
static void what_has_ended_goes(void **state)
{
    enum { SHORT = 20, LONG = 60 };
    static char text[SHORT + LONG][16];
    int64_t forgotten = 0;
    (void)state;
    open_peers(1);
    for (int i = 0; i < SHORT + LONG; i++) {
        snprintf(text[i], sizeof text[i], "value-%d", i);
        struct snib__name n = name_of(text[i]);
        struct snib__request p = put(&n, i < SHORT ? 1 : 600000);
        assert_int_equal(run(0, &p), SNIB__DONE);
        if (i < SHORT && p.token > forgotten) {
            forgotten = p.token;
        }
        if (i == SHORT - 1) { /* as if they had ended long ago */
            assert_int_equal(values_of(0), SHORT);
            self_of(0)->host.wall_skew_ms += 120000;
        }
    }
    assert_int_equal(values_of(0), LONG);
    assert_int_equal(lost_of(owners_of(0)), 0);
    /* It begins anew, but above, though the clock was set back. */
    self_of(0)->host.wall_skew_ms -= 3600000;
    struct snib__name n = name_of(text[0]);
    struct snib__request p = put(&n, 600000);
    assert_int_equal(run(0, &p), SNIB__DONE);
    assert_true(p.token > forgotten);
}

static void a_damaged_value_is_told(void **state)
{
    struct snib__name n = name_of("value");
    struct snib_error e = {0};
    struct snib__buf out;
    (void)state;
    shape.value_roots = 1;
    open_peers(1);
    struct snib__request p = put(&n, 600000);
    assert_int_equal(run(0, &p), SNIB__DONE);
    struct snib__file *f = self_of(0);
    assert_int_equal(snib__root_copy(&f->map, &f->copy, SNIB__FILE_INDEX, 0),
                     0);
    const struct snib__file_entry *entry = (const void *)f->copy.bytes;
    struct snib__file_value *v =
        (void *)(snib__block_at(&f->map, entry->block, entry->class) + 1);
    v->record[0] ^= 1;
    struct snib__request again = put(&n, 600000);
    again.token = p.token;
    again.said.reterr = &e;
    assert_int_equal(run(0, &again), SNIB__NOT_APPLIED);
    assert_int_equal(again.said.err, SNIB_ERR_CORRUPT);
    assert_non_null(strstr(e.text, "is damaged"));
    snib__buf_init(&out, 1 << 17);
    struct snib__request g = request(SNIB__VALUE_GET, &n);
    g.said.result = &out;
    assert_int_equal(run(0, &g), SNIB__NOT_APPLIED);
    assert_int_equal(g.said.err, SNIB_ERR_CORRUPT);
    snib__buf_free(&out);
    struct snib__name other = name_of("other"); /* which is well */
    p = put(&other, 600000);
    assert_int_equal(run(0, &p), SNIB__DONE);
    shape.value_roots = 2;
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(what_has_ended_goes),
        CASE(a_damaged_value_is_told),
    };
    return RUN(cases);
}
