/* tests/unit/model_world.h — a store that is a connection, beside a model of its
 * server: the connection between the two, requests and their answers. For
 * rabbitmq_world.h and zookeeper_world.h, which say before what the store's
 * functions are (ops) and what the model says (model_out), and have a settle(), a
 * pass_ms() and a begin() of their own. */
#ifndef SNIB_TESTS_UNIT_MODEL_WORLD_H
#define SNIB_TESTS_UNIT_MODEL_WORLD_H

static struct snib__store *store;
static struct snib__out out;
static struct snib__name *name;
static struct snib_error e, said;
static snib_instant now;
static bool logs_in; /* the program gives the logins */
static bool up;      /* the connection */

/* Carry out what the store wishes, until it wishes nothing. */
static void settle(void);

static void input(snib__input_kind kind, const void *bytes, size_t size)
{
    const struct snib__input in = {
        .kind = kind, .conn = 0, .bytes = bytes, .size = size};
    ops->input(store, now, &in);
}

static void open_at(const char *text, int64_t wall_offset_ns)
{
    struct snib__url *url;
    now = (snib_instant){INT64_C(1000000000)};
    out = (struct snib__out){.limit = 0};
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    snib__conns_init(&out, 1 << 20);
    assert_false(snib__url_parse(text, &url, &e));
    struct snib__store_config c = {.url = url,
                                   .out = &out,
                                   .client = {1, 2},
                                   .request = snib__ms(1000),
                                   .login = logs_in,
                                   .wall_offset_ns = wall_offset_ns};
    c.seed.v[0] = 1;
    assert_false(ops->open(&c, &store, &e));
    snib__url_free(url);
    assert_false(snib__name_new("n", 0, &name, &e));
}

static int end(void **state)
{
    (void)state;
    ops->free(store);
    snib__conns_free(&out);
    snib__free(name);
    snib__buf_free(&model_out);
    return 0;
}

static struct snib__request request(snib__verb verb, uint64_t id)
{
    struct snib__request r = {.name = name,
                              .id = {id, id},
                              .verb = verb,
                              .lease = snib__ms(2000),
                              .limit = snib__after(now, snib__ms(60000))};
    r.said.reterr = &said;
    r.acquire.may_queue = verb == SNIB__ACQUIRE;
    return r;
}

static void ask(struct snib__request *r)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&r->link);
    snib__list_push(&chain, &r->link);
    ops->start(store, now, &chain);
    settle();
}

/* Its answer, taken; PENDING: there is none. */
static snib__answer answer(struct snib__request *r)
{
    SNIB__LIST_EACH_SAFE (l, next, &out.answered) {
        if (l == &r->link) {
            snib__unlink(l);
            return r->said.answer;
        }
    }
    return SNIB__PENDING;
}

static void give_back(const struct snib__request *r)
{
    struct snib__request release = request(SNIB__RELEASE, r->id[0]);
    release.token = r->token;
    ask(&release);
    assert_int_equal(answer(&release), SNIB__DONE);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
