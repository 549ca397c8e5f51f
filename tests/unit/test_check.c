/* tests/unit/test_check.c — each rule of core/check.c is broken by hand and
 * told in words; then the object is put back, and nothing is broken. */
#include "unit.h"

#ifdef SNIB_CHECKS

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/check.h"
#include "engine_desk.h"

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static struct snib__acquisition *looked_at; /* the acquisition that is broken */

/* What the check of that object says, the door's; "" when all is well. */
static const char *broken(struct desk *d, const char *object)
{
    static struct snib__broken b;
    struct snib__local_lock *local = d->local;
    struct snib__link *own = snib__list_first(&local->own_locks);
    const char *told;
    if (begins(object, "claim")) {
        told = snib__check_claim(local->claim, &b);
    } else if (begins(object, "acquisition")) {
        told = snib__check_acquisition(d->e, looked_at, &b);
    } else if (begins(object, "own claim")) {
        told = snib__check_local_lock(
            SNIB__CONTAINER(own, struct snib__local_lock, bucket), &b);
    } else if (begins(object, "local lock")) {
        told = snib__check_local_lock(local, &b);
    } else {
        told = snib__check_engine(d->e, &b);
    }
    return told ? told : "";
}

static void is_told(struct desk *d, const char *want)
{
    const char *told = broken(d, want);
    if (strcmp(told, want)) {
        print_error("told: \"%s\", not \"%s\"\n", told, want);
    }
    assert_string_equal(told, want);
}

static void all_is_well(struct desk *d)
{
    is_told(d, "");
}

/* Sets it to a wrong value, and back. */
#define BREAK(d, it, wrong, told)                                              \
    do {                                                                       \
        __typeof__(it) was_ = (it);                                            \
        (it) = (wrong);                                                        \
        is_told(d, told);                                                      \
        (it) = was_;                                                           \
        all_is_well(d);                                                        \
    } while (0)

/* Takes the link off its list, and puts it back. */
static void unlinked(struct desk *d, struct snib__link *l, const char *told)
{
    struct snib__link *at = l->prev;
    snib__unlink(l);
    is_told(d, told);
    snib__list_insert(at, l);
    all_is_well(d);
}

/* Puts a link that is on no list on one of its own. */
static void linked(struct desk *d, struct snib__link *l, const char *told)
{
    struct snib__list list;
    snib__list_init(&list);
    snib__list_push(&list, l);
    is_told(d, told);
    snib__unlink(l);
    all_is_well(d);
}

#define CLAIM "claim of 'door': "
#define NOT   ", and it is not so that "

static struct snib__acquisition *held(struct desk *d)
{
    struct snib__acquisition *s = acquire(d, ask_of(1));
    grant(d, 9);
    (void)news_of(d, s);
    all_is_well(d);
    return s;
}

/* -- claims --------------------------------------------------------------- */

static void a_claim_that_asks(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    struct snib__claim *t = d->local->claim;
    all_is_well(d);
    BREAK(d, t->holder, s, CLAIM "ACQUIRING with a holder");
    BREAK(d, t->renewing, t->acquiring,
          CLAIM "ACQUIRING with a renewal under way");
    BREAK(d, t->ending, t->acquiring, CLAIM "ACQUIRING with an end under way");
    BREAK(d, t->adopter, s, CLAIM "ACQUIRING with an adopter");
    BREAK(d, t->want_renew, true, CLAIM "ACQUIRING with `want_renew`");
    BREAK(d, t->acquiring, NULL,
          CLAIM "ACQUIRING" NOT "something will happen to it");
    BREAK(d, t->acquiring->rq.verb, SNIB__RENEW,
          CLAIM "ACQUIRING" NOT "its acquire is an ACQUIRE of its own");
    linked(d, &t->held,
           CLAIM "ACQUIRING with a link on the list of held claims");
    BREAK(d, t->says, s,
          CLAIM "ACQUIRING" NOT
                "the nested wait that it tells of is the first that waits");
}

static void a_claim_that_is_queued(void **state)
{
    struct desk *d = *state;
    (void)acquire(d, ask_of(1));
    struct snib__claim *t = d->local->claim;
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    all_is_well(d);
    BREAK(d, t->placed, false, CLAIM "QUEUED without `placed`");
    BREAK(d, t->acquiring, NULL, CLAIM "QUEUED without an acquire under way");
}

static void a_claim_that_is_to_be_confirmed(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.confirm = true;
    (void)acquire(d, spec);
    struct snib__claim *t = d->local->claim;
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->token = 9;
    rq->said.left = snib__ms(3000);
    rq->said.valid_from = d->now;
    say(d, rq, SNIB__DONE);
    assert_int_equal(t->state, SNIB__CLAIM_CONFIRM);
    all_is_well(d);
    BREAK(d, t->prior, 4, CLAIM "CONFIRM with a prior grant");
    BREAK(d, t->doubt, SNIB__DOUBT_OPEN,
          CLAIM "CONFIRM" NOT "what it confirms in open doubt is adopted");
    BREAK(d, t->deadline, SNIB__NEVER,
          CLAIM "CONFIRM" NOT "it ends some day, whoever is silent");
    BREAK(d, t->renewing->claim, NULL,
          CLAIM "CONFIRM" NOT "its renewal is a RENEW of its own");
    unlinked(d, snib__list_first(&d->local->waiting),
             CLAIM "CONFIRM without an acquisition that waits for it");
}

static void a_claim_that_confirms_what_is_adopted(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    struct snib__acquisition *s, *other;
    uint64_t id[2] = {1, 2};
    spec.fixed = true;
    assert_int_equal(
        snib__engine_adopt(d->e, d->now, d->local, &spec, id, 9, &s, &d->err),
        SNIB_ERR_OK);
    other = acquire(d, ask_of(2));
    all_is_well(d); /* it has no limit, so it asks for ever */
    assert_int_equal(d->local->claim->deadline.ns, SNIB__NEVER.ns);
    BREAK(d, d->local->claim->adopter, other,
          CLAIM "CONFIRM" NOT "its adopter is the first that waits");
}

static void a_claim_that_is_held(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    struct snib__claim *t = s->local->claim;
    struct snib__broken b;
    d->local->claim = NULL;
    assert_string_equal(snib__check_claim(t, &b),
                        CLAIM "HELD" NOT "it is its local lock's claim");
    d->local->claim = t;
    BREAK(d, s->state, SNIB__ACQ_ENDING,
          CLAIM "HELD" NOT "its holder is SERVED by it");
    BREAK(d, t->holder, NULL, CLAIM "HELD without a holder");
    BREAK(d, t->says, s,
          CLAIM "HELD with a wait of which it says what its owner holds");
    BREAK(d, t->ender, s,
          CLAIM "HELD with an acquisition that waits for its end");
    BREAK(d, t->prior, 4, CLAIM "HELD with a prior grant");
    BREAK(d, t->doubt, SNIB__DOUBT_COPIES, "");
    BREAK(d, t->doubt, SNIB__DOUBT_OPEN, CLAIM "HELD with an open doubt");
    BREAK(d, t->placed, true, CLAIM "HELD with `placed`");
    BREAK(d, t->refusals, 1, CLAIM "HELD with refusals");
    BREAK(d, t->state, SNIB__CLAIM_QUEUED,
          CLAIM "QUEUED without an acquire under way");
    BREAK(d, t->state, SNIB__CLAIM_RISK, "");
    BREAK(d, t->token, t->token + 32,
          CLAIM "HELD" NOT "its token is one of those reserved");
    BREAK(d, t->deadline, SNIB__NEVER,
          CLAIM "HELD" NOT "it ends some day, whoever is silent");
    BREAK(d, t->timer.index, 0, CLAIM "HELD" NOT "something will happen to it");
    BREAK(d, s->token, 10,
          CLAIM "HELD" NOT "its holder's token is the claim's");
    unlinked(d, &t->held,
             CLAIM "HELD without a link on the list of held claims");
}

/* Nobody renews it and no deadline ends it, so it needs no timer. */
static void a_fixed_aggressive_grant_waits_for_its_holder(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = spec.aggressive = true;
    (void)acquire(d, spec);
    grant(d, 9);
    assert_int_equal(d->local->claim->state, SNIB__CLAIM_HELD);
    assert_int_equal(d->local->claim->timer.index, 0);
    all_is_well(d);
}

static void a_claim_that_is_leaving(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *ending, *s = held(d);
    struct snib__claim *t = s->local->claim;
    (void)release(d, s->ticket, 1, &ending);
    all_is_well(d);
    BREAK(d, t->gone_by, SNIB__NEVER,
          CLAIM "LEAVING" NOT "it ends some day, whoever is silent");
    BREAK(d, t->renewing, t->ending, CLAIM "LEAVING with a renewal under way");
    BREAK(d, t->ending->rq.verb, SNIB__ACQUIRE,
          CLAIM "LEAVING" NOT "its end is a RELEASE or a CANCEL of its own");
    BREAK(d, d->e->leaving, 0,
          "counts of 'the engine': between two steps" NOT
          "claims that are LEAVING are counted");
}

/* -- acquisitions --------------------------------------------------------- */

#define ACQ "acquisition of 'door': "

static void an_acquisition_that_waits(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    looked_at = s;
    BREAK(d, s->holds, 1, ACQ "WAITING with holds");
    BREAK(d, s->unsure, true, ACQ "WAITING with `unsure`");
    BREAK(d, s->unawaited, true, ACQ "WAITING with `unawaited`");
    BREAK(d, s->ticket, 77, ACQ "WAITING" NOT "its ticket finds it");
    BREAK(d, s->news, SNIB__NEWS_STATE,
          ACQ "WAITING" NOT "it is told exactly if it has news");
    BREAK(d, d->local->claim, NULL, ACQ "WAITING without a claim");
    unlinked(d, &s->link, ACQ "WAITING without a link on a list");
    unlinked(d, &s->by_owner, ACQ "WAITING" NOT "its owner's list has it");
}

static void an_acquisition_that_is_leaving(void **state)
{
    struct desk *d = *state;
    struct snib_error why;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    looked_at = s;
    assert_int_equal(
        snib__engine_give_up(d->e, d->now, s, SNIB_ERR_CANCELLED, &why),
        SNIB_ERR_OK);
    assert_int_equal(s->state, SNIB__ACQ_LEAVING);
    all_is_well(d);
    BREAK(d, s->timer.index, 0,
          ACQ "LEAVING" NOT
              "it stays for a time, that after its limit if it has one");
    BREAK(d, s->err, SNIB_ERR_OK,
          ACQ "LEAVING without an error as its outcome");
    BREAK(d, s->local->claim->state, SNIB__CLAIM_QUEUED,
          ACQ "LEAVING" NOT "its claim is LEAVING");
}

static void an_acquisition_that_is_served(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    looked_at = s;
    BREAK(d, s->holds, 0, ACQ "SERVED without holds");
    BREAK(d, s->timer.index, 1, ACQ "SERVED with a timer");
    BREAK(d, s->state, SNIB__ACQ_REFUSED, ACQ "REFUSED with holds");
    linked(d, &s->link, ACQ "SERVED with a link on a list");
    linked(d, &s->nested, ACQ "SERVED with a place among nested waits");
}

static void an_acquisition_whose_release_is_answered(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d), *ending;
    looked_at = s;
    (void)release(d, s->ticket, 1, &ending);
    assert_ptr_equal(ending, s);
    BREAK(d, s->holds, 1, ACQ "ENDING with holds");
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    (void)news_of(d, s);
    assert_int_equal(s->state, SNIB__ACQ_GONE);
    BREAK(d, s->unawaited, true, ACQ "GONE with `unawaited`");
    snib__acquisition_done(d->e, s);
    all_is_well(d);
}

static void an_acquisition_that_is_refused(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.try_only = true;
    struct snib__acquisition *s = acquire(d, spec);
    looked_at = s;
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    (void)news_of(d, s);
    BREAK(d, s->err, SNIB_ERR_OK,
          ACQ "REFUSED without an error as its outcome");
    is_refused(d, s, SNIB_ERR_BUSY);
}

/* -- local locks ---------------------------------------------------------- */

#define LOCAL "local lock of 'door': between two steps" NOT

static void a_local_lock_with_its_queue(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec second = ask_of(2);
    struct snib__acquisition *first = acquire(d, ask_of(1));
    (void)acquire(d, second);
    all_is_well(d);
    BREAK(d, first->options.priority, -1,
          LOCAL "who waits stands there WAITING, by rank");
    BREAK(d, d->local->claim, NULL,
          LOCAL "who waits there has a claim that asks for it");
    BREAK(d, d->local->refs, 2, LOCAL "each that needs it has a reference");
    BREAK(d, d->e->counts.local_locks, 2,
          "counts of 'the engine': between two steps" NOT
          "local locks are counted");
}

static void a_local_lock_with_its_dead(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    looked_at = s;
    d->now = snib__after(d->now, snib__ms(31000));
    snib__engine_tick(d->e, d->now);
    assert_int_equal(s->state, SNIB__ACQ_DEAD);
    all_is_well(d);
    unlinked(d, &s->link, ACQ "DEAD without a link on a list");
    BREAK(d, s->holds, 0, ACQ "DEAD without holds");
    struct snib__acquisition *other = acquire(d, ask_of(2));
    snib__unlink(&other->link);
    snib__list_push(&d->local->dead, &other->link);
    is_told(d, LOCAL "who is dead stands there DEAD");
    snib__unlink(&other->link);
    snib__list_push(&d->local->waiting, &other->link);
    all_is_well(d);
}

#define OWN "own claim of 'door': between two steps" NOT

static void an_own_claim(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.kind = SNIB_KIND_READ;
    struct snib__acquisition *s = acquire(d, spec);
    struct snib__local_lock *own = s->local;
    assert_ptr_equal(own->parent, d->local);
    all_is_well(d);
    BREAK(d, own->refs, own->refs + 1,
          "counts of 'the engine': between two steps" NOT
          "somebody stands behind each reference to an own claim");
    BREAK(d, d->e->counts.own_claims, 0,
          "counts of 'the engine': between two steps" NOT
          "own claims are counted");
    BREAK(d, d->local->parent, own,
          OWN "an own claim stands below a name, and is that name's");
    struct snib__link more;
    snib__list_push(&own->own_locks, &more);
    is_told(d, OWN "below an own claim there is nothing, and nobody is dead");
    snib__unlink(&more);
    all_is_well(d);
}

/* -- counts --------------------------------------------------------------- */

#define COUNTS "counts of 'the engine': between two steps" NOT

static void what_is_counted(void **state)
{
    struct desk *d = *state;
    struct snib__engine *e = d->e;
    (void)held(d);
    BREAK(d, e->counts.claims, 0, COUNTS "claims are counted");
    BREAK(d, e->counts.acquisitions, 2, COUNTS "acquisitions are counted");
    BREAK(d, e->out_requests, 1,
          COUNTS "each request that the store owes an answer is busy");
    BREAK(d, e->spares, 1, COUNTS "spare requests are counted");
    linked(d, &e->out.answered.head,
           COUNTS "nothing is left to be sent or taken");
    struct snib__link more;
    snib__list_push(&e->held, &more);
    is_told(d, COUNTS "all claims that are HELD, at RISK or KEPT are listed");
    snib__unlink(&more);
    all_is_well(d);
}

static void a_step_that_breaks_something_ends_the_process(void **state)
{
    struct desk *d = *state;
    int ends[2], status = 0;
    char said[512] = "";
    (void)held(d);
    assert_int_equal(pipe(ends), 0);
    d->local->claim->doubt = SNIB__DOUBT_OPEN;
    pid_t child = fork();
    if (!child) {
        dup2(ends[1], 2);
        signal(SIGABRT, SIG_DFL); /* not cmocka's */
        feed(d);
        _exit(0);
    }
    close(ends[1]);
    assert_true(read(ends[0], said, sizeof said - 1) > 0);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, CLAIM "HELD with an open doubt"));
    d->local->claim->doubt = SNIB__DOUBT_NONE;
    feed(d);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        T(a_claim_that_asks),
        T(a_claim_that_is_queued),
        T(a_claim_that_is_to_be_confirmed),
        T(a_claim_that_confirms_what_is_adopted),
        T(a_claim_that_is_held),
        T(a_fixed_aggressive_grant_waits_for_its_holder),
        T(a_claim_that_is_leaving),
        T(an_acquisition_that_waits),
        T(an_acquisition_that_is_leaving),
        T(an_acquisition_that_is_served),
        T(an_acquisition_whose_release_is_answered),
        T(an_acquisition_that_is_refused),
        T(a_local_lock_with_its_queue),
        T(a_local_lock_with_its_dead),
        T(an_own_claim),
        T(what_is_counted),
        T(a_step_that_breaks_something_ends_the_process),
    };
    return RUN(cases);
}

#else

int main(void)
{
    print_message("skipped: built without SNIB_CHECKS\n");
    return 77;
}

#endif
