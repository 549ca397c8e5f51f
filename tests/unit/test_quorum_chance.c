/* The quorum: chance plays with ways and clocks against two theorems, nobody
 * holds while another does, and tokens rise; and what is short: servers, memory.
 */
#include "quorum_world.h"

enum { IDLE_, ASKING_, HOLDING_, RENEWING_, LEAVING_ };

struct player {
    struct snib__request rq, grant;
    int state;
    snib_instant deadline, at, released;
    bool renewed;
};

static snib_instant deadline_of(const struct snib__request *rq)
{
    return snib__before(snib__after(rq->said.valid_from, rq->said.left),
                        snib__quorum_allowance(rq->said.left));
}

static void play(int servers, int clients, uint64_t seed, uint32_t *ret_grants)
{
    struct player player[CLIENTS] = {0};
    uint64_t d = seed * 7919 + 1;
    int64_t last = 0;
    open_clients(servers, clients, seed);
    for (int k = 0; k < servers; k++) {
        server[k].offset_ms = (int64_t)(dice(&d) % 12000) - 6000;
    }
    clocks_known = seed % 3 != 0;
    for (uint32_t n = 0; n < 6000; n++) {
        snib_instant next = due();
        for (int i = 0; i < clients; i++) {
            next = snib__sooner(next,
                                player[i].at.ns ? player[i].at : SNIB__NEVER);
        }
        if (next.ns != SNIB__NEVER.ns) {
            tick(next);
        } else if (n > 0) {
            fail_msg("all wait, for nothing: seed %d, step %u", (int)seed, n);
        }
        if (dice(&d) % 20 == 0) { /* the ways change */
            int i = (int)(dice(&d) % (uint32_t)clients),
                k = (int)(dice(&d) % (uint32_t)servers);
            uint32_t how = dice(&d) % 10;
            client[i].way[k] = how < 7   ? WAY_OPEN
                               : how < 8 ? WAY_SHUT
                                         : WAY_MUTE;
            client[i].there_ms[k] = dice(&d) % (how == 6 ? 3000 : 20);
            client[i].back_ms[k] = dice(&d) % 20;
        }
        for (int i = 0; i < clients; i++) {
            struct player *p = &player[i];
            bool told = p->state != IDLE_ && p->state != HOLDING_ &&
                        is_answered(i, &p->rq) &&
                        p->rq.said.answer != SNIB__QUEUED;
            bool time = snib__reached(now, p->at) && p->at.ns;
            switch (p->state) {
            case IDLE_:
                p->rq = request(SNIB__ACQUIRE);
                p->rq.lease = snib__ms(1000 + dice(&d) % 2000);
                p->rq.acquire.may_queue = dice(&d) % 4 != 0;
                p->rq.limit =
                    p->rq.acquire.may_queue ? SNIB__NEVER : p->rq.limit;
                p->rq.floor = dice(&d) % 2 ? last : 0;
                p->state = ASKING_;
                p->at = (snib_instant){0};
                start(i, &p->rq);
                break;
            case ASKING_:
                if (!told) {
                    break;
                }
                p->state = IDLE_;
                p->at = snib__after(now, snib__ms(1 + dice(&d) % 50));
                if (p->rq.said.answer != SNIB__DONE) {
                    assert_int_not_equal(p->rq.said.answer, SNIB__UNKNOWN);
                    break;
                }
                p->grant = p->rq;
                p->deadline = deadline_of(&p->rq);
                if (snib__reached(now, p->deadline)) {
                    break;
                }
                /* The theorems. */
                for (int j = 0; j < clients; j++) {
                    if (j != i &&
                        (player[j].state == HOLDING_ ||
                         player[j].state == RENEWING_) &&
                        !snib__reached(now, player[j].deadline)) {
                        fail_msg("two hold: seed %d, step %u", (int)seed, n);
                    }
                }
                if (p->rq.token <= last) {
                    fail_msg("token fell: seed %d, step %u", (int)seed, n);
                }
                last = p->rq.token + p->rq.acquire.reserve;
                ++*ret_grants;
                p->state = HOLDING_;
                p->at = snib__after(now, snib__ms(dice(&d) % 600));
                break;
            case HOLDING_:
                if (!time) {
                    break;
                }
                p->rq = of_grant(dice(&d) % 3 ? SNIB__RELEASE : SNIB__RENEW,
                                 &p->grant);
                p->rq.lease = p->grant.lease;
                if (snib__reached(now, p->deadline)) {
                    p->rq.verb = SNIB__RELEASE;
                }
                p->rq.limit = snib__after(now, p->grant.lease);
                p->state = p->rq.verb == SNIB__RELEASE ? LEAVING_ : RENEWING_;
                p->at = (snib_instant){0};
                start(i, &p->rq);
                break;
            case RENEWING_:
                if (!told) {
                    break;
                }
                if (p->rq.said.answer == SNIB__DONE) {
                    p->deadline =
                        snib__reached(now, p->deadline)
                            ? p->deadline /* lost meanwhile: as the core */
                            : snib__later(p->deadline, deadline_of(&p->rq));
                }
                p->state = HOLDING_;
                p->at = snib__after(now, snib__ms(dice(&d) % 300));
                break;
            case LEAVING_:
                if (told) {
                    p->state = IDLE_;
                    p->at = snib__after(now, snib__ms(1 + dice(&d) % 50));
                }
                break;
            default:
                break;
            }
        }
    }
    tear_down(NULL);
}

static void nobody_holds_while_another_does_and_tokens_rise(void **state)
{
    (void)state;
    uint32_t grants = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        play(2 + (int)(seed % 6), 2 + (int)(seed % 3), seed, &grants);
    }
    print_message("%u grants\n", grants);
    assert_true(grants > 5000);
}

/* A server that is down while thousands of sections go by costs a bounded
 * number of requests that wait for it. */
static void nothing_piles_up_behind_a_server_that_is_down(void **state)
{
    (void)state;
    static const way ways[] = {WAY_SHUT, WAY_MUTE};
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        open_clients(3, 1, 0);
        const struct snib__quorum *q = (const void *)client[0].store;
        struct snib__request g = acquired(0);
        end(0, &g);
        client[0].way[2] = ways[w];
        uint32_t ops_most = 0, due_most = 0;
        for (int n = 0; n < 20000; n++) {
            g = acquired(0);
            assert_int_equal(end(0, &g), SNIB__DONE);
            run(1);
            ops_most = q->tasks > ops_most ? q->tasks : ops_most;
            due_most = q->node[2].due > due_most ? q->node[2].due : due_most;
        }
        assert_in_range(due_most, 1, BEHIND_MAX + 1);
        assert_in_range(ops_most, 1, BEHIND_MAX + SWEEPS_MAX + 8);
        client[0].way[2] = WAY_OPEN;
        run(LEASE + 1000); /* what it may still hold of ours ends */
        g = acquired(0);
        run(5);
        assert_int_equal(held_at(3), 3); /* it is one of them again */
        tear_down(NULL);
    }
}

/* Without memory a request is refused or late, never wrong, and nothing
 * leaks. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool all = false;
    for (int64_t at = 1; !all; at++) {
        open_clients(3, 1, 0);
        client[0].way[2] = WAY_MUTE;
        struct snib__request g = request(SNIB__ACQUIRE);
        snib__mem_fail_at(at, false);
        /* Travels are the fakes': they must not fail; only the first is ours. */
        struct snib__list chain;
        snib__list_init(&chain);
        snib__link_init(&g.link);
        snib__list_push(&chain, &g.link);
        g.said.answer = SNIB__PENDING;
        if (at <= 3) {
            tasks->start(client[0].store, now, &chain);
        }
        snib__mem_fail_at(0, false);
        if (at <= 3) {
            assert_true(is_answered(0, &g));
            assert_int_equal(g.said.err, SNIB_ERR_NOMEM);
        }
        all = at > 3;
        tear_down(NULL);
    }
}

int main(void)
{
    const struct CMUnitTest chance[] = {
        CASE(nobody_holds_while_another_does_and_tokens_rise),
        CASE(nothing_piles_up_behind_a_server_that_is_down),
        CASE(every_allocation_may_fail),
    };
    return RUN(chance);
}
