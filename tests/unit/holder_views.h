/* tests/unit/holder_views.h — the looks of holder_client.h: who holds a lock and
 * who waits there; and the waits at a latch or a barrier. */
#ifndef SNIB_TESTS_HOLDER_VIEWS_H
#define SNIB_TESTS_HOLDER_VIEWS_H

enum { PARTIES_MAX = 3 };

struct fake_view {
    struct snib_view view;
    char name[SNIB_NAME_MAX + 1];
    struct snib_party holders[PARTIES_MAX], waiters[PARTIES_MAX],
        closed[PARTIES_MAX];
    const struct snib_party *holder_at[PARTIES_MAX], *waiter_at[PARTIES_MAX],
        *closed_at[PARTIES_MAX];
};

static size_t make_parties(struct snib_party *to, const char *what)
{
    static const int pids[] = {LEASH,
                               OUTER_HOLDER,
                               OUTER_SUPERVISOR,
                               OUTER_HOLDER,
                               4711,
                               4711,
                               4711,
                               4711,
                               SHELL,
                               1,
                               0};
    size_t count = pick(what, PARTIES_MAX + 2);
    count = count > PARTIES_MAX ? 1 : count;
    for (size_t i = 0; i < count; i++) {
        to[i] = (struct snib_party){
            .client_id = "0ff1ce",
            .host = chance("here", 2) ? "here" : "ci-7",
            .user = chance("user", 3) ? "" : "anna",
            .program = "sh",
            .reason = chance("party's reason", 3) ? "release \x1b" : "",
            .pid = pids[pick("pid", COUNT_OF(pids))],
            .since_ms = w.now / MS - (int64_t)pick("since", 100000),
            .left_ms = (int64_t)pick("left", 30000),
            .token = 3,
            .kind = (snib_kind)(chance("shared", 3) ? pick("kind", 5) : 0),
            .permits = 1 + (uint32_t)pick("permits", 2),
            .request = "",
            .holding = "",
            .slot = -1,
            .start = chance("another process", 4) ? 4711 : 0};
        to[i].self = chance("self", 6);
    }
    return count;
}

snib_err __wrap_snib_client_inspect(struct snib_client *c, const char *name,
                                    size_t size, struct snib_view **ret,
                                    struct snib_error *error)
{
    struct fake_view *v;
    tell("looks at %d %.*s", c == CLIENT, (int)size, name);
    *ret = NULL;
    await_store();
    if (w.away || chance("no view", 12)) {
        return set_error(error, w.away ? SNIB_ERR_UNREACHABLE : some_error());
    }
    v = calloc(1, sizeof *v);
    assert_non_null(v);
    memcpy(v->name, name, size);
    v->view = (struct snib_view){.name = v->name,
                                 .name_size = size,
                                 .holders = v->holder_at,
                                 .waiters = v->waiter_at,
                                 .closed_by = v->closed_at};
    for (size_t i = 0; i < PARTIES_MAX; i++) {
        v->holder_at[i] = &v->holders[i];
        v->waiter_at[i] = &v->waiters[i];
        v->closed_at[i] = &v->closed[i];
    }
    v->view.holder_count = make_parties(v->holders, "holders");
    v->view.waiter_count = make_parties(v->waiters, "waiters");
    if (chance("closed", 6)) {
        v->view.closed_count = make_parties(v->closed, "closed by");
        v->view.closed_ms = 4000;
    }
    v->view.holders_more = chance("more", 12) ? 7 : 0;
    w.views++;
    *ret = &v->view;
    return set_error(error, SNIB_ERR_OK);
}

void __wrap_snib_view_free(struct snib_view *v)
{
    w.views -= v != NULL;
    free(v);
}

snib_err __wrap_snib_semaphore_get(struct snib_client *c, const char *name,
                                   size_t size, struct snib_semaphore *ret,
                                   size_t ret_size, struct snib_error *error)
{
    assert_int_equal(ret_size, sizeof *ret);
    tell("size of %d %.*s", c == CLIENT, (int)size, name);
    *ret = (struct snib_semaphore){.size = 5};
    return set_error(error, w.away || chance("no size", 4)
                                ? SNIB_ERR_UNREACHABLE
                                : SNIB_ERR_OK);
}

snib_err __wrap_snib_latch_left(struct snib_client *c, const char *name,
                                size_t size, uint32_t *ret,
                                struct snib_error *error)
{
    tell("latch of %d %.*s", c == CLIENT, (int)size, name);
    *ret = chance("gate", 3) ? 2 : 0;
    return set_error(error, w.away || chance("no gate", 4)
                                ? SNIB_ERR_UNREACHABLE
                                : SNIB_ERR_OK);
}

#endif
