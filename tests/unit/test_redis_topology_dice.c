/* tests/unit/test_redis_topology_dice.c — store/redis among three servers that
 * take turns as the primary, die and come back, and three Sentinels that may be
 * behind, deaf or gone: what it does in thousands of steps by dice.
 *
 * Always: a server that has said on a connection that it is a replica is asked
 * for no lock on it; no lock is asked for at an address that was not named, or
 * not named any more; where Sentinels tell their epochs, none is connected to
 * that only a lower one than the highest that was told has named; each request
 * is answered once; the store does not want to be woken again and again at one
 * instant; in every fourth run memory is short at times. Once all trouble is
 * over: a request is granted by the one primary. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_session.h"

enum { SERVERS = 3, REQUESTS = 6, RUNS = 400, STEPS = 250, MOST = 10000 };

#define SENTINEL_HELLO HELLO_REPLY_OF("$8\r\nsentinel", "$8\r\nsentinel")
#define REPLICA_HELLO  HELLO_REPLY_OF("$10\r\nstandalone", "$7\r\nreplica")

static struct snib__rng rng;
static bool list, scarce;

/* Servers and Sentinels have the hosts h0 to h2 and s0 to s2. */
static struct {
    bool up, primary;
} server[SERVERS];
static struct {
    bool up;
    int names; /* the server                                                */
    int epoch;
} sentinel[SERVERS];
static int newest, epoch; /* what the latest failover has made the primary   */
static bool epochs;       /* the Sentinels tell theirs                       */
static bool healed;       /* no server is deposed any more                    */
static int told[SERVERS]; /* the highest epoch with which it was named       */
static struct {
    bool up, replica;
    char host; /* 'h' or 's'                                                */
    int at;    /* which of these                                            */
    bool multi, aborts; /* a transaction is begun; one of it was refused     */
    int sets;           /* in it                                             */
} end[SESSIONS_MOST];
static struct {
    struct snib__request rq;
    bool started;
} asked_for[REQUESTS];
static uint32_t grants, packets, aborted;

static int below(int n)
{
    return (int)snib__rng_below(&rng, (uint64_t)n);
}

static bool one_in(int n)
{
    return below(n) == 0;
}

static const struct topology *topology(void)
{
    return ((const struct snib__redis *)(void *)store)->topology;
}

/* -- the other ends ----------------------------------------------------------- */

static bool is_up(int i)
{
    return end[i].host == 'h' ? server[end[i].at].up : sentinel[end[i].at].up;
}

static void cut(int i)
{
    if (end[i].up) {
        end[i].up = false;
        closed(i);
    }
}

static void connects(int i)
{
    const char *address = out.conn[i]->address;
    assert_true(address[0] == 'h' || address[0] == 's');
    end[i].host = address[0];
    end[i].at = address[1] - '0';
    end[i].replica = end[i].multi = false;
    assert_in_range(end[i].at, 0, SERVERS - 1);
    for (int k = 0; k < SERVERS && end[i].host == 'h' && epochs; k++) {
        assert_true(told[end[i].at] >= told[k]);
    }
    if (is_up(i)) {
        end[i].up = true;
        opened(i);
    } else {
        out.conn[i]->open = false;
        input(i, SNIB__IN_REFUSED, "Connection refused", 18);
    }
}

static void tells(int names, int of_epoch)
{
    told[names] = of_epoch > told[names] ? of_epoch : told[names];
}

static void says_epoch(int i)
{
    char text[16];
    snprintf(text, sizeof text, "%d", sentinel[end[i].at].epoch);
    if (epochs) {
        sayf(i, "*2\r\n$12\r\nconfig-epoch\r\n$%zu\r\n%s\r\n", strlen(text),
             text);
    } else {
        say(i, "-NOPERM x\r\n");
    }
}

static void names(int i)
{
    char host[3] = {'h', (char)('0' + sentinel[end[i].at].names)};
    sayf(i, "*2\r\n$2\r\n%s\r\n$4\r\n6379\r\n", host);
}

static void is_named(int i)
{
    char address[ADDRESS_MAX];
    assert_false(end[i].replica);
    assert_int_equal(end[i].host, 'h');
    snprintf(address, sizeof address, "h%d:6379", end[i].at);
    assert_string_equal(topology()->primary, address);
}

/* It asks for a lock. */
static void asked(int i)
{
    is_named(i);
    assert_false(end[i].multi);
    if (!server[end[i].at].primary) {
        say(i, "-READONLY You can't write against a read only replica.\r\n");
    } else {
        grant_reply(i, 1000 + ++grants);
    }
}

/* It asks without a script. In times of trouble a server may be deposed at any
 * command. */
static void asked_in_a_packet(int i)
{
    bool set = !strcmp(word[0], "SET");
    if (!healed && one_in(8)) {
        server[end[i].at].primary = false;
    }
    if (!strcmp(word[0], "MULTI")) {
        is_named(i);
        end[i].multi = true;
        end[i].aborts = false;
        end[i].sets = 0;
        say(i, "+OK\r\n");
    } else if (strcmp(word[0], "EXEC") != 0) {
        end[i].sets += set;
        end[i].aborts = end[i].aborts || !server[end[i].at].primary;
        say(i, server[end[i].at].primary ? "+QUEUED\r\n" : "-READONLY x\r\n");
    } else {
        end[i].multi = false;
        packets++;
        if (end[i].aborts || !server[end[i].at].primary) {
            aborted++;
            sayf(i, "-EXECABORT Transaction discarded because of%s.\r\n",
                 end[i].aborts ? " previous errors" : ": READONLY x");
            return;
        }
        sayf(i, "*%d\r\n", end[i].sets + 1);
        for (int k = 0; k < end[i].sets; k++, grants++) {
            say(i, "+OK\r\n");
        }
        say(i, "$15\r\n1790000000250-1\r\n");
    }
}

static void answers(int i)
{
    while (end[i].up && is_up(i) && !out.conn[i]->shut && heard(i)) {
        const char *what = word[0];
        if (end[i].multi || !strcmp(what, "MULTI")) {
            asked_in_a_packet(i);
            continue;
        }
        if (!strcmp(what, "HELLO")) {
            bool primary = end[i].host == 'h' && server[end[i].at].primary;
            end[i].replica = !primary;
            say(i, end[i].host == 's' ? SENTINEL_HELLO
                   : primary          ? HELLO_REPLY
                                      : REPLICA_HELLO);
        } else if (!strcmp(what, "SENTINEL") && !strcmp(word[1], "MASTER")) {
            says_epoch(i);
        } else if (!strcmp(what, "SENTINEL")) {
            names(i);
        } else if (!strcmp(what, "SUBSCRIBE")) {
            if (i == WATCH) {
                tells(sentinel[end[i].at].names, sentinel[end[i].at].epoch);
            }
            sayf(i, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
                 strlen(word[1]), word[1]);
        } else if (!strcmp(what, "SET")) {
            say(i, end[i].replica ? "-READONLY x\r\n" : "+OK\r\n");
        } else if (!strcmp(what, "GET")) {
            say(i, "$1\r\n2\r\n");
        } else if (!strcmp(what, "INFO")) {
            say(i, "-NOPERM x\r\n");
        } else if (!strcmp(what, "TIME")) {
            say(i, TIME_REPLY);
        } else if (!strcmp(what, "PING")) {
            say(i, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
        } else if (!strcmp(what, "ROLE")) {
            say(i, "*1\r\n$5\r\nslave\r\n");
        } else {
            asked(i);
        }
    }
}

/* -- requests ------------------------------------------------------------------ */

static void take_answers(void)
{
    struct snib__link *l;
    while ((l = snib__list_pop(&out.answered))) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        int k = 0;
        while (k < REQUESTS && &asked_for[k].rq != rq) {
            k++;
        }
        assert_in_range(k, 0, REQUESTS - 1);
        assert_true(asked_for[k].started);
        assert_int_not_equal(rq->said.answer, SNIB__PENDING);
        asked_for[k].started = false;
    }
}

static void ask(int k, int64_t limit_ms)
{
    if (!asked_for[k].started) {
        asked_for[k].rq = request(SNIB__ACQUIRE);
        asked_for[k].rq.acquire.permits = 1;
        asked_for[k].rq.once = one_in(4);
        asked_for[k].rq.background = one_in(3);
        asked_for[k].rq.limit = snib__after(now, snib__ms(limit_ms));
        asked_for[k].started = true;
        start(&asked_for[k].rq);
    }
}

/* -- trouble ------------------------------------------------------------------- */

/* Another server becomes the primary. The old one dies, is a replica, or goes on
 * as a second primary for a while. */
static void fail_over(void)
{
    int old = newest, new = below(SERVERS);
    if (new == old) {
        return;
    }
    server[new].up = server[new].primary = true;
    newest = new;
    epoch++;
    server[old].primary = one_in(3);
    server[old].up = !one_in(2);
}

static void one_primary(void)
{
    for (int k = 0; k < SERVERS; k++) {
        server[k].primary = k == newest;
    }
}

/* A Sentinel hears of it, and says so to who listens. */
static void hears_of_it(int k)
{
    char text[64];
    int old = sentinel[k].names;
    sentinel[k].names = newest;
    sentinel[k].epoch = epoch;
    snprintf(text, sizeof text, "svc h%d 6379 h%d 6379", old,
             sentinel[k].names);
    if (end[WATCH].up && end[WATCH].host == 's' && end[WATCH].at == k &&
        sentinel[k].up && out.conn[WATCH]->pushes && !out.conn[WATCH]->shut) {
        sayf(WATCH,
             "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%zu\r\n%s\r\n",
             strlen(text), text);
        tells(newest, (int)topology()->epoch); /* it did not say which       */
    }
}

static void trouble(void)
{
    int k = below(SERVERS);
    switch (below(8)) {
    case 0:
        fail_over();
        break;
    case 1:
        one_primary();
        break;
    case 2:
        server[k].up = !server[k].up;
        break;
    case 3:
        sentinel[k].up = !sentinel[k].up;
        break;
    case 4:
    case 5:
        hears_of_it(k);
        break;
    default:
        cut(below(SESSIONS_MOST));
        break;
    }
    for (int i = 0; i < SESSIONS_MOST; i++) {
        if (end[i].up && !is_up(i) && one_in(3)) {
            cut(i); /* else it is silent                                    */
        }
    }
}

/* -- time ---------------------------------------------------------------------- */

static void turn(void)
{
    for (int i = 0; i < SESSIONS_MOST; i++) {
        no_memory_at = scarce && one_in(8) ? 1 + below(3) : 0;
        if (out.conn[i]->shut) {
            end[i].up = false;
            closed(i);
        }
        if (out.conn[i]->open && !end[i].up) {
            connects(i);
        }
        answers(i);
        no_memory_at = 0;
    }
    take_answers();
}

static void settle(void)
{
    int turns = 0;
    do {
        turn();
        assert_true(++turns < MOST);
    } while (opens(&out) || shuts(&out));
}

static void pass_by(int64_t ms)
{
    snib_instant until = snib__after(now, snib__ms(ms));
    int at_once = 0;
    while (now.ns < until.ns) {
        settle();
        snib_instant due = ops->due(store);
        if (due.ns > until.ns) {
            now = until;
            break;
        }
        assert_true(due.ns > now.ns || ++at_once < MOST);
        at_once = due.ns > now.ns ? 0 : at_once;
        now = snib__later(now, due);
        input(0, SNIB__IN_TICK, NULL, 0);
    }
    settle();
}

static void heal(void)
{
    healed = true;
    one_primary();
    for (int k = 0; k < SERVERS; k++) {
        server[k].up = sentinel[k].up = true;
        hears_of_it(k);
    }
    for (int i = 0; i < SESSIONS_MOST; i++) {
        if (end[i].up && end[i].host == 'h' && !server[end[i].at].primary) {
            cut(i); /* as a server does when it is demoted                  */
        }
    }
}

static void one_run(uint64_t seed)
{
    snib__rng_init(&rng, &(struct snib__seed){{seed, 5, list, 0}});
    memset(end, 0, sizeof end);
    memset(asked_for, 0, sizeof asked_for);
    memset(server, 0, sizeof server);
    memset(told, 0, sizeof told);
    epoch = 0;
    healed = false;
    epochs = !list && one_in(2);
    newest = below(SERVERS);
    server[newest].primary = true;
    for (int k = 0; k < SERVERS; k++) {
        server[k].up = sentinel[k].up = true;
        sentinel[k].names = newest;
        sentinel[k].epoch = 0;
    }
    open_store(list ? "redis://h0,h1,h2" : "redis+sentinel://s0,s1,s2/svc");
    for (int step = 0; step < STEPS; step++) {
        out.holds = one_in(3) ? !out.holds : out.holds;
        if (one_in(3)) {
            ask(below(REQUESTS), 1 + below(4000));
        }
        if (one_in(4)) {
            trouble();
        }
        pass_by(one_in(4) ? below(3000) : below(50));
    }
    heal();
    scarce = false;
    pass_by(20000);
    uint32_t before = grants;
    for (int k = 0; k < REQUESTS; k++) {
        assert_false(asked_for[k].started);
    }
    ask(0, 5000);
    asked_for[0].rq.once = false;
    pass_by(4999);
    assert_false(asked_for[0].started);
    assert_int_equal(asked_for[0].rq.said.answer, SNIB__DONE);
    assert_int_equal(grants, before + 1);
    assert_int_equal(topology()->primary[1] - '0', newest);
    tear_down(NULL);
}

static void many_runs(bool of_a_list)
{
    list = of_a_list;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        scarce = seed % 4 == 0; /* memory is short at times */
        one_run(seed);
    }
    assert_true(grants > RUNS); /* much was asked for                       */
    assert_true(packets > RUNS && aborted > RUNS / 4);
}

static void sentinels_that_may_be_behind(void **state)
{
    (void)state;
    many_runs(false);
}

static void servers_that_are_asked_for_their_roles(void **state)
{
    (void)state;
    many_runs(true);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(sentinels_that_may_be_behind),
        cmocka_unit_test(servers_that_are_asked_for_their_roles),
    };
    return RUN(cases);
}

#endif
