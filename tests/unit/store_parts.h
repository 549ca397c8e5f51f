/* tests/unit/store_parts.h — for tests of the parts of a store, that look at bytes:
 * bytes, and the store opened at a URL, without a step. The including file says
 * before what opens it and what frees it, as store_opens and store_frees. */
#ifndef SNIB_TESTS_UNIT_STORE_PARTS_H
#define SNIB_TESTS_UNIT_STORE_PARTS_H

static struct snib__buf bytes;

static void begin(void)
{
    snib__buf_free(&bytes);
    snib__buf_init(&bytes, 1 << 20);
}

static struct snib__store *store;
static struct snib__out out;
static struct snib_error e;

static snib_err opened(const char *text)
{
    struct snib__url *url;
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    snib__conns_init(&out, 1 << 20);
    assert_int_equal(snib__url_parse(text, &url, &e), SNIB_ERR_OK);
    struct snib__store_config c = {.url = url,
                                   .out = &out,
                                   .client = {1, 2},
                                   .request = snib__ms(1000),
                                   .wall_offset_ns = 1};
    c.seed.v[0] = 1;
    snib_err err = store_opens(&c, &store, &e);
    snib__url_free(url);
    return err;
}

static void closed(void)
{
    store_frees(store);
    store = NULL;
    snib__conns_free(&out);
}

#endif
