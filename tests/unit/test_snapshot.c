/* tests/unit/test_snapshot.c — random histories of steps by snapshots, beside
 * the memory store: see snapshot_world.h. SNIB_TELL=N shows run N; SNIB_FIRST
 * and SNIB_RUNS say which runs there are. */
#include "snapshot_world.h"

#include "same_apart.h"

enum { RUNS = 1000, STEPS = 400 };

#define DAY (INT64_C(86400000) * 1024)

static char words[300]; /* of a request, or why it is forced */

/* -- what is asked --------------------------------------------------------- */

static void fresh(struct asked *a, snib__verb verb, int name)
{
    a->r = (struct snib__request){.verb = verb,
                                  .name = &oracle.name[name],
                                  .text = words,
                                  .acquire.permits = 1,
                                  .lease = snib__ms(5000)};
    a->r.id[0] = one_in(9) ? 7 : ++w.ids;
    a->r.id[1] = ++w.ids;
    a->r.text_size = (uint32_t)ANY_OF(0, 0, 5, 60, 251);
    a->used = a->holds = a->unsure = a->excused = false;
}

static int any_name(void)
{
    return (int)below((uint64_t)w.names);
}

/* One of this client's claims, which is there as far as it knows; NULL: it
 * knows of none. */
static struct asked *own_claim(int client)
{
    int first = (int)below(ASKED);
    for (int i = 0; i < ASKED; i++) {
        struct asked *a = &w.asked[(first + i) % ASKED];
        if (a->client == client && (a->used || a->unsure)) {
            return a;
        }
    }
    return NULL;
}

static int64_t some_floor(void)
{
    int64_t wall = w.now / MS * 1024;
    /* How far ahead it may be hangs on the tokens of all names: with others
     * that is as of the fetch. */
    int64_t most = w.names > 1 ? -1024 : 2000;
    return ANY_OF(wall, wall + 5, wall + DAY - 1024, wall + DAY + most);
}

/* Beside, or in the place of, what the client has there already. */
static void relate(struct snib__request *r, const struct asked *other)
{
    if (!other || !other->holds || !one_in(2)) {
        return;
    }
    r->name = other->r.name;
    if (one_in(2)) {
        memcpy(r->acquire.upgrade_of, other->r.id,
               sizeof r->acquire.upgrade_of);
        r->acquire.kind = other->r.acquire.kind == SNIB_KIND_READ
                              ? SNIB_KIND_WRITE
                              : SNIB_KIND_READ;
    } else {
        r->token = other->r.token; /* a yield */
    }
}

static void fill_acquire(struct asked *a, int client)
{
    const struct asked *other = own_claim(client);
    fresh(a, SNIB__ACQUIRE, any_name());
    struct snib__request *r = &a->r;
    r->acquire.kind = w.kind[below(KINDS)];
    r->acquire.permits =
        (uint32_t)ANY_OF(1, 1, 0, 2, w.few ? 2 : 3, w.few ? 2 : 5);
    r->acquire.capacity = one_in(2) ? (uint32_t)ANY_OF(1, 3, 4) : 0;
    r->acquire.may_queue = !one_in(4);
    r->lease = snib__ms(ANY_OF(20, 200, 1000, 2999, w.calm ? 900 : 9000));
    r->acquire.priority = (int8_t)ANY_OF(0, 0, 0, 0, 1, -1);
    r->acquire.delay = snib__ms(one_in(6) ? 400 : 0);
    r->acquire.reserve = (uint32_t)ANY_OF(0, 0, 1, 31, 32);
    r->floor = one_in(12) && !w.restores ? some_floor() : 0;
    relate(r, other);
}

static void acquire_some(int client)
{
    struct asked *v[CHAIN];
    int n = 0, want = w.names > 1 && one_in(2) ? CHAIN : 1;
    uint32_t batch = one_in(4) ? 0 : 1 + (uint32_t)below(1000);
    bool all = one_in(2);
    for (int i = 0; i < ASKED && n < want; i++) {
        struct asked *a = &w.asked[i];
        if (a->client == client && !a->used && !a->unsure) {
            fill_acquire(a, client);
            a->r.batch.number = want > 1 ? batch : 0;
            a->r.batch.all = all;
            a->r.batch.index = (uint8_t)n;
            a->was = a->r;
            v[n++] = a;
        }
    }
    if (n) {
        ask(&w.client[client], v, n);
    }
}

static void ask_again(struct asked *a, bool resent)
{
    struct asked *one = a;
    a->r.token = resent || one_in(2) ? a->was.token : a->r.token;
    a->r.batch.number = 0;
    a->r.resent = resent;
    ask(&w.client[a->client], &one, 1);
}

static void end_or_renew(struct asked *a, int client, bool resent)
{
    struct asked *one = &w.client[client].other;
    int64_t token = a->r.token + one_in(15);
    fresh(one,
          a->unsure ? SNIB__CANCEL
                    : (snib__verb)ANY_OF(SNIB__RENEW, SNIB__RENEW,
                                         SNIB__RELEASE, SNIB__CANCEL),
          0);
    struct snib__request *r = &one->r;
    memcpy(r->id, a->r.id, sizeof r->id);
    r->name = a->r.name;
    r->acquire.kind = a->r.acquire.kind;
    r->lease = snib__ms(ANY_OF(1, 500, 3000, w.calm ? 900 : 8000));
    r->token = r->verb == SNIB__CANCEL && one_in(2) ? 0 : token;
    r->renew.only_asks = one_in(4);
    r->renew.listen = one_in(2);
    r->resent = resent || one_in(3);
    ask(&w.client[client], &one, 1);
}

static void ask_other(int client)
{
    struct asked *one = &w.client[client].other;
    fresh(one, one_in(3) ? SNIB__FORCE : SNIB__PARAMS, any_name());
    struct snib__request *r = &one->r;
    r->text = r->verb == SNIB__FORCE && one_in(4) ? NULL : r->text;
    r->params.op = (uint8_t)below(SNIB__PARAMS_OPEN + 1);
    r->params.amount = r->params.op == SNIB__PARAMS_ADD
                           ? ANY_OF(-3, -1, 0, 1, 2, SNIB_PERMITS_MAX)
                           : ANY_OF(0, 1, 2, 3, 5);
    ask(&w.client[client], &one, 1);
}

/* As the core does: what is not known is asked again, or cancelled. */
static void go_on(int client)
{
    struct asked *a = own_claim(client);
    if (!a) {
        acquire_some(client);
    } else if (a->unsure) {
        if (one_in(2)) {
            ask_again(a, true);
        } else {
            end_or_renew(a, client, true);
        }
    } else if (!a->holds && !one_in(5)) {
        a->r.acquire.may_queue = a->r.acquire.may_queue && !one_in(20);
        ask_again(a, false);
    } else {
        end_or_renew(a, one_in(20) ? client : a->client, false);
    }
}

/* An old request once more, whatever has become of it. */
static void ask_late(int client)
{
    struct asked *a = &w.asked[below(ASKED)];
    if (a->client == client && a->was.name && !a->used && !a->unsure) {
        a->r = a->was;
        ask_again(a, one_in(2));
    }
}

static void begin(struct client *c)
{
    int client = (int)(c - w.client);
    struct asked *again = &c->other;
    if (again->unsure && one_in(2)) { /* of which no answer came */
        again->unsure = false;
        again->r.resent = true;
        ask(c, &again, 1);
        return;
    }
    switch (below(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        acquire_some(client);
        break;
    case 4:
        ask_other(client);
        break;
    case 5:
        if (!w.calm || one_in(4)) {
            ask_late(client);
        }
        break;
    default:
        go_on(client);
    }
}

/* -- what happens ---------------------------------------------------------- */

static void time_passes(void)
{
    int64_t ms = w.calm ? ANY_OF(0, 1, 5, 20)
                        : ANY_OF(1, 5, 20, 200, 1000, 2999, 3001, 12000, 61000);
    w.now += ms * MS;
    say_line("time", ms);
}

static void act(struct client *c)
{
    if (c->frozen) {
        c->frozen = !one_in(30);
    } else if (c->phase == IDLE) {
        begin(c);
    } else if (c->phase == SENT) {
        take_fetch(c);
    } else {
        take_write(c);
    }
    c->frozen = c->frozen || (w.faults && c->phase == FETCHED && one_in(60));
}

static void late_ones(void)
{
    for (int i = 0; i < LATE; i++) {
        if (w.late[i].used && w.late[i].after-- == 0) {
            take_late(&w.late[i]);
        }
    }
}

static void something_happens(void)
{
    late_ones();
    if (one_in(12)) {
        time_passes();
    } else if (w.restores && one_in(60)) {
        make_backup();
    } else if (w.restores && one_in(60)) {
        restore_backup();
    } else if (one_in(20)) {
        clean_up();
    } else {
        act(&w.client[below(CLIENTS)]);
    }
}

static void set_up(uint64_t which)
{
    static const char *const names[NAMES] = {"a", "b", "c"};
    memset(words, 'w', sizeof words);
    w.now = EPOCH_NS + 1000000 * MS;
    w.ids = which << 32;
    w.names = one_in(3) ? NAMES : 1;
    w.calm = w.names > 1 || one_in(4);
    w.faults = !one_in(4);
    w.restores = one_in(4);
    w.cuts = one_in(2);
    w.few = one_in(2);
    for (int i = 0; i < KINDS; i++) { /* all of them, or some */
        w.kind[i] =
            (snib_kind)(w.few ? below(SNIB_KIND_BARRIER + 1) : (uint64_t)i);
    }
    for (int i = 0; i < NAMES; i++) {
        oracle.name[i] = (struct snib__name){.raw = names[i],
                                             .safe = names[i],
                                             .raw_size = 1,
                                             .safe_size = 1,
                                             .hash = (uint64_t)i + 5};
    }
    for (int i = 0; i < CLIENTS; i++) {
        struct client *c = &w.client[i];
        oracle.id[i][0] = i < 2 ? 1 : (uint64_t)i; /* two of one client */
        oracle.id[i][1] = 4;
        snib__snapshot_init(&c->s, oracle.id[i]);
        snprintf(c->s.notifier, sizeof c->s.notifier, "notifier %d", i);
        c->clock_off = ANY_OF(0, 5000000000, -EPOCH_NS);
    }
    for (int i = 0; i < ASKED; i++) {
        w.asked[i].client = i % CLIENTS;
    }
    open_space();
}

static void live(uint64_t which)
{
    set_up(which);
    for (int i = 0; i < STEPS; i++) {
        something_happens();
    }
    for (int i = 0; i < ASKED; i++) {
        snib__buf_free(&w.asked[i].rows);
    }
    for (int i = 0; i < CLIENTS; i++) {
        snib__buf_free(&w.client[i].other.rows);
        snib__snapshot_free(&w.client[i].s);
    }
    close_spaces();
}

static void random_histories_give_what_the_memory_store_gives(void **state)
{
    const char *first = getenv("SNIB_FIRST"), *runs = getenv("SNIB_RUNS");
    uint64_t from = first ? strtoull(first, NULL, 10) : 1;
    uint64_t count = runs ? strtoull(runs, NULL, 10) : RUNS, n = share();
    (void)state;
    for (uint64_t run = from; run < from + count; run++) {
        char text[40];
        if (!is_left_out(run - from, n)) {
            same_apart(same_run, run, text, sizeof text);
            if (strncmp(text, "no number", 9) == 0) {
                fail_msg("run %d (SNIB_TELL shows it)", (int)run);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(random_histories_give_what_the_memory_store_gives),
    };
    return RUN(cases);
}
