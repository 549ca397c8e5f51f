/* tests/unit/engine_library.h — the store of dice as a library that blocks, and
 * how an engine is opened over either. */
#ifndef SNIB_TESTS_ENGINE_LIBRARY_H
#define SNIB_TESTS_ENGINE_LIBRARY_H

#include "engine_store.h"

static int the_library;

static void tell_config(const struct snib__store_config *c)
{
    TELL("opened", c->request.ns, (int64_t)c->client[0], (int64_t)c->client[1],
         c->wall_offset_ns, c->url != NULL, (int64_t)c->seed.v[0],
         (int64_t)c->seed.v[1], (int64_t)c->seed.v[2], (int64_t)c->seed.v[3]);
}

static snib_err open_one(const struct snib__store_config *c,
                         struct snib_error *e)
{
    tell_config(c);
    w.out = c->out;
    w.owned_count = 0;
    w.wake = SNIB__NEVER;
    snib__list_init(&w.owned);
    snib__list_init(&w.inside);
    for (uint32_t i = 0, n = below(4); i < n; i++) {
        char address[8];
        snprintf(address, sizeof address, "%u", (unsigned)below(21));
        (void)snib__conn_add(c->out, SNIB__PLAIN, address);
    }
    if (one_in(60)) {
        e->code = SNIB_ERR_CONFIG;
        snprintf(e->text, sizeof e->text, "no such option");
        return SNIB_ERR_CONFIG;
    }
    return SNIB_ERR_OK;
}

static snib_err dice_open(const struct snib__store_config *c,
                          struct snib__store **ret, struct snib_error *e)
{
    snib_err err = open_one(c, e);
    *ret = err ? NULL : (struct snib__store *)(void *)&the_library;
    return err;
}

/* -- a library ------------------------------------------------------------------ */

static snib_err library_open(const struct snib__store_config *c, void **ret,
                             struct snib_error *e)
{
    *ret = &the_library; /* of a failure nothing is taken */
    return open_one(c, e);
}

/* It was occupied by others: until its limit, or there is time yet. */
static bool waits_still(struct snib__request *r)
{
    if (!w.honest && snib__reached(w.now, r->exec.patience) && one_in(2)) {
        fails(r, SNIB__NOT_APPLIED);
        r->exec.blocked = !one_in(5);
        return true;
    }
    if (w.honest || !one_in(5) || snib__reached(w.now, r->exec.patience)) {
        return false;
    }
    r->said.answer = SNIB__PENDING;
    say(r, one_in(4) ? SNIB_ERR_OK : SNIB_ERR_STORE);
    r->exec.blocked = true;
    return true;
}

static void exec(void *instance, snib_instant now, struct snib__list *chain)
{
    assert_ptr_equal(instance, &the_library);
    assert_int_equal(now.ns, w.now.ns);
    SNIB__LIST_EACH (l, chain) {
        struct snib__request *r = of_link(l);
        if (!waits_still(r)) {
            answer(r);
        }
        TELL("says", r->verb, r->said.answer, r->said.err);
    }
}

static int notifier_fd(void *instance)
{
    (void)instance;
    return -1;
}

static void some_id(uint64_t ret[2])
{
    const struct standing *s = &w.standing[below(STANDING_MAX)];
    const struct grant *g = &w.grant[below(GRANTS_MAX)];
    memcpy(ret, s->used && one_in(2) ? s->id : g->id, 2 * sizeof *ret);
    if (!snib__list_empty(&w.inside) && one_in(3)) {
        memcpy(ret, of_link(snib__list_first(&w.inside))->id, 2 * sizeof *ret);
    }
    ret[0] += one_in(20);
}

static uint32_t notified(void *instance, uint64_t (*ids)[2], uint32_t max)
{
    assert_ptr_equal(instance, &the_library);
    uint32_t n = one_in(12) ? max : below(4);
    TELL("rung", max);
    for (uint32_t i = 0; i < n; i++) {
        some_id(ids[i]);
    }
    return one_in(15) ? SNIB__NOTIFIED_ALL : n;
}

static void library_free(void *instance)
{
    assert_ptr_equal(instance, &the_library);
    tell_text("freed", "");
}

static struct snib__store_ops store_ops = {.scheme = "dice",
                                           .open = dice_open,
                                           .start = dice_start,
                                           .input = dice_input,
                                           .due = dice_due,
                                           .free = dice_free};

static struct snib__blocking_ops library_ops = {.scheme = "library",
                                                .open = library_open,
                                                .exec = exec,
                                                .notifier_fd = notifier_fd,
                                                .notified = notified,
                                                .free = library_free};

/* The one thread that runs it takes what is there. */
static void take_list(void)
{
    if (!w.blocking || !snib__list_empty(&w.inside)) {
        return;
    }
    snib__list_append(&w.inside, &w.out->exec);
    SNIB__LIST_EACH (l, &w.inside) {
        tell_request(of_link(l));
        of_link(l)->store.sends[0].sent = w.now;
    }
}

static void give_back(void)
{
    struct snib__list back;
    if (snib__list_empty(&w.inside)) {
        return;
    }
    snib__list_init(&back);
    library_ops.exec(&the_library, w.now, &w.inside);
    snib__list_append(&back, &w.inside);
    snib__engine_executed(w.e, w.now, &back);
}

/* -- open ------------------------------------------------------------------------- */

static void keep_log(void *data, int level, const char *line)
{
    assert_ptr_equal(data, &w);
    TELL("log", level);
    tell_text("line", line);
}

static void some_state(void)
{
    static const snib_err errs[] = {SNIB_ERR_OK, SNIB_ERR_UNREACHABLE,
                                    SNIB_ERR_STORE};
    w.state = (struct snib__store_state){.nodes = 3};
    w.state.reachable = !one_in(3);
    w.state.err = one_in(2) ? SNIB_ERR_OK : ONE_OF(errs);
    w.state.since = snib__before(w.now, snib__ms(below(3000)));
    w.state.nodes_reachable = w.state.reachable ? 2 : 0;
    snprintf(w.state.text, sizeof w.state.text, "%s",
             w.state.err ? "no connection to db: refused" : "");
}

static bool open_engine(void)
{
    static const int64_t patience[] = {2000, 2000, 500, 60};
    static const uint64_t client[2] = {7, 9};
    struct snib_error error = {0};
    static struct snib__url url;
    struct snib__about self = {.host = "here", .pid = 4, .start = 5};
    snprintf(self.user, sizeof self.user, "%s", one_in(3) ? "" : "anna");
    self.leashed = one_in(4);
    store_ops.abi = library_ops.abi = SNIB__STORE_ABI + one_in(90);
    store_ops.size = sizeof store_ops + one_in(90);
    library_ops.size = sizeof library_ops - one_in(90);
    store_ops.caps = library_ops.caps =
        w.mood.circles ? SNIB__CAN_QUEUE | below(4) : below(8);
    store_ops.state = one_in(3) ? NULL : dice_state;
    w.blocking = one_in(3);
    w.deadlocks = w.mood.circles || one_in(3);
    w.request = snib__ms(ONE_OF(patience));
    some_state();
    struct snib__engine_config cfg = {
        .ops = &store_ops,
        .blocking = w.blocking ? &library_ops : NULL,
        .url = &url,
        .seed = {{some_bits(), same.run, 3, 4}},
        .client = one_in(2) ? client : NULL,
        .request = w.request,
        .self = one_in(5) ? NULL : &self,
        .wall_offset_ns = one_in(4) ? 0 : INT64_C(1790000000000000000),
        .deadlocks = w.deadlocks,
        .log = one_in(3) ? NULL : keep_log,
        .log_data = &w};
    if (one_in(12)) {
        snib__mem_fail_at(1 + below(24), one_in(2));
    }
    snib_err err = snib__engine_open(&cfg, &w.e, &error);
    snib__mem_fail_at(0, false);
    TELL("open", err, error.code, w.e != NULL);
    tell_error(&error);
    assert_true(!err == (w.e != NULL));
    if (w.e && w.blocking) {
        void *is = NULL;
        assert_ptr_equal(snib__blocking_ops_of(snib__engine_store(w.e), &is),
                         &library_ops);
        assert_ptr_equal(is, &the_library);
        assert_non_null(snib__blocking_ops_of(snib__engine_store(w.e), NULL));
    }
    if (w.e) {
        uint64_t id[2];
        snib__engine_client_id(w.e, id);
        TELL("client", (int64_t)id[0], (int64_t)id[1], w.out->conns,
             w.out == snib__engine_out(w.e), snib__engine_store(w.e) != NULL);
    }
    return w.e != NULL;
}

#endif
