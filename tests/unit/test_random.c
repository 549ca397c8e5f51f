/* base/random.h */
#include "unit.h"

#include "base/random.h"

/* The recurrence of xoshiro256** written down a second time, straight from
 * its description, with the state given. */
static uint64_t reference_next(uint64_t s[4])
{
    uint64_t five = s[1] * 5;
    uint64_t result = ((five << 7) | (five >> 57)) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

static void the_first_outputs_are_those_of_xoshiro256starstar(void **state)
{
    (void)state;
    struct snib__rng r = {{1, 2, 3, 4}};
    /* By hand: rotl(2 * 5, 7) * 9 = 1280 * 9; then s[1] = 2 ^ 3 ^ 1 = 0.    */
    assert_true(snib__rng_next(&r) == 11520);
    assert_true(snib__rng_next(&r) == 0);
    uint64_t s[4] = {1, 2, 3, 4};
    r = (struct snib__rng){{1, 2, 3, 4}};
    for (int i = 0; i < 10000; i++) {
        assert_true(snib__rng_next(&r) == reference_next(s));
    }
}

static void the_same_seed_gives_the_same_numbers(void **state)
{
    (void)state;
    struct snib__seed seed = {{1, 2, 3, 4}};
    struct snib__rng a, b;
    snib__rng_init(&a, &seed);
    snib__rng_init(&b, &seed);
    for (int i = 0; i < 1000; i++) {
        assert_true(snib__rng_next(&a) == snib__rng_next(&b));
    }
}

static void every_bit_of_the_seed_matters(void **state)
{
    (void)state;
    uint64_t first[257];
    for (int bit = 0; bit <= 256; bit++) {
        struct snib__seed seed = {{0, 0, 0, 0}};
        struct snib__rng r;
        if (bit < 256) {
            seed.v[bit / 64] = UINT64_C(1) << (bit % 64);
        }
        snib__rng_init(&r, &seed);
        assert_true((r.s[0] | r.s[1] | r.s[2] | r.s[3]) != 0);
        for (int i = 0; i < 4; i++) {
            first[bit] = snib__rng_next(&r);
        }
        for (int i = 0; i < bit; i++) {
            assert_true(first[i] != first[bit]);
        }
    }
}

static void below_stays_below_and_reaches_all(void **state)
{
    (void)state;
    struct snib__seed seed = {{42, 0, 0, 0}};
    struct snib__rng r;
    snib__rng_init(&r, &seed);
    for (uint64_t n = 1; n < 40; n++) {
        uint64_t seen = 0;
        for (int i = 0; i < 2000; i++) {
            uint64_t v = snib__rng_below(&r, n);
            assert_true(v < n);
            seen |= UINT64_C(1) << v;
        }
        assert_true(seen == (UINT64_C(1) << n) - 1);
    }
    assert_true(snib__rng_below(&r, 1) == 0);
    uint64_t above = 0;
    for (int i = 0; i < 1000; i++) {
        above += snib__rng_below(&r, UINT64_MAX) > UINT64_MAX / 2;
    }
    assert_true(above > 400 && above < 600);
}

static void ids_do_not_repeat(void **state)
{
    (void)state;
    enum { IDS = 4096 };
    static uint64_t id[IDS];
    struct snib__seed seed = {{7, 7, 7, 7}};
    struct snib__rng r;
    snib__rng_init(&r, &seed);
    for (int i = 0; i < IDS; i++) {
        id[i] = snib__rng_next(&r);
        for (int k = 0; k < i; k++) {
            assert_true(id[k] != id[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest random[] = {
        cmocka_unit_test(the_first_outputs_are_those_of_xoshiro256starstar),
        cmocka_unit_test(the_same_seed_gives_the_same_numbers),
        cmocka_unit_test(every_bit_of_the_seed_matters),
        cmocka_unit_test(below_stays_below_and_reaches_all),
        cmocka_unit_test(ids_do_not_repeat),
    };
    return RUN(random);
}
