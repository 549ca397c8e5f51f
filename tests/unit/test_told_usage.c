/* tests/unit/test_told_usage.c — what is asked wrongly, or is too much, is told
 * so by each function. labels: thread
 * wraps: fallocate */
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/policy.h"
#include "snib/sys.h"
#include "told.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>

#define TOLD "unit.told_usage"

static int compute_too_much(void *data, const struct snib_value *now,
                            struct snib_value_next *next)
{
    static const char bytes[SNIB_VALUE_MAX + 1];
    (void)data;
    (void)now;
    *next = (struct snib_value_next){.bytes = bytes, .size = sizeof bytes};
    return 0;
}

static const struct snib_acquire_options *senseless(void)
{
    static const struct snib_acquire_options o = {.size = 1};
    return &o;
}

static snib_err open_url(struct world *w, const char *url)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    o.url = url;
    return snib_client_open(&o, &w->first, &e);
}

static snib_err ring_of_nobody(struct world *w)
{
    static const struct snib_ring_member one = {.id = ""};
    return snib_ring_new(&one, 1, &w->ring, &e);
}

static const struct snib_policy *policy_without_value(const struct world *w)
{
    static struct snib_policy p;
    p = *policy_of(w);
    p.key = "{order}";
    return &p;
}

static void *campaigns(void *data)
{
    struct world *w = data;
    struct snib_error mine;
    int64_t term;
    assert_int_equal(snib_elect_campaign(w->elect, &term, &mine),
                     SNIB_ERR_CANCELLED);
    return NULL;
}

/* A candidate campaigns already: the other one has the lock. */
static pthread_t campaign_beside(struct world *w)
{
    pthread_t thread;
    struct snib_view *v;
    must(snib_try(w->others, NULL, &w->got, &e));
    assert_int_equal(pthread_create(&thread, NULL, campaigns, w), 0);
    for (size_t n = 0; !n;) {
        must(snib_client_inspect(w->other, "x", 0, &v, &e));
        n = v->waiter_count;
        snib_view_free(v);
        nap(1);
    }
    return thread;
}

static snib_err end_campaign(struct world *w, pthread_t thread, snib_err err)
{
    struct snib_error mine;
    (void)snib_elect_resign(w->elect, &mine);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return err;
}

static snib_err second_campaign(struct world *w)
{
    pthread_t first = campaign_beside(w);
    return end_campaign(w, first, snib_elect_campaign(w->elect, &w->term, &e));
}

static snib_err second_elect_try(struct world *w)
{
    pthread_t first = campaign_beside(w);
    return end_campaign(w, first, snib_elect_try(w->elect, &w->term, &e));
}

static snib_err second_elect_try_for(struct world *w)
{
    pthread_t first = campaign_beside(w);
    return end_campaign(w, first,
                        snib_elect_try_for(w->elect, 20, &w->term, &e));
}

static snib_err release_crosswise(struct world *w)
{
    struct snib_grant crossed[2] = {w->grants[1], w->grants[0]};
    return snib_multi_release(w->multi, crossed, &e);
}

static snib_err start_release_elsewhere(struct world *w)
{
    must(snib_lock_new(w->c, "n", NULL, &w->made, &e));
    return snib_release_start(w->made, w->g, NULL, &e);
}

static snib_err put_too_much(struct world *w)
{
    static const char bytes[SNIB_VALUE_MAX + 1];
    return snib_value_put(w->c, "v", 0, 0, bytes, sizeof bytes, 0, &w->changed,
                          &e);
}

enum { CROWD = SNIB_RING_MEMBERS_MAX + 1 };

static const char *number(int i)
{
    static char id[CROWD][8];
    snprintf(id[i], sizeof id[i], "%d", i);
    return id[i];
}

static snib_err ring_of_a_crowd(struct world *w)
{
    static struct snib_ring_member m[CROWD];
    for (int i = 0; i < CROWD; i++) {
        m[i] = (struct snib_ring_member){.id = number(i)};
    }
    return snib_ring_new(m, CROWD, &w->ring, &e);
}

static snib_err ring_of_a_crowded_view(struct world *w)
{
    static struct snib_party p[CROWD];
    static const struct snib_party *at[CROWD];
    for (int i = 0; i < CROWD; i++) {
        p[i] = (struct snib_party){.client_id = number(i), .reason = ""};
        at[i] = &p[i];
    }
    const struct snib_view v = {.name = "x",
                                .name_size = 1,
                                .holder_count = CROWD,
                                .holders = at,
                                .waiters = at};
    return snib_ring_of_view(&v, &w->ring, &e);
}

#define WRONG(X)                                                               \
    X(snib_acquire, 0, snib_acquire(w->lock, senseless(), &w->got, &e))        \
    X(snib_try, 0, snib_try(w->lock, senseless(), &w->got, &e))                \
    X(snib_try_for, 0, snib_try_for(w->lock, 20, senseless(), &w->got, &e))    \
    X(snib_acquire_start, 0,                                                   \
      snib_acquire_start(w->lock, senseless(), NULL, &w->ticket, &e))          \
    X(snib_try_start, 0,                                                       \
      snib_try_start(w->lock, senseless(), NULL, &w->ticket, &e))              \
    X(snib_try_for_start, 0,                                                   \
      snib_try_for_start(w->lock, 20, senseless(), NULL, &w->ticket, &e))      \
    X(snib_release_start, HELD, start_release_elsewhere(w))                    \
    X(snib_barrier_wait, 0,                                                    \
      snib_barrier_wait(w->c, "x", 0, 0, &w->generation, &e))                  \
    X(snib_barrier_try, 0,                                                     \
      snib_barrier_try(w->c, "x", 0, 0, &w->generation, &e))                   \
    X(snib_barrier_try_for, 0,                                                 \
      snib_barrier_try_for(w->c, "x", 0, 0, 20, &w->generation, &e))           \
    X(snib_barrier_wait_start, 0,                                              \
      snib_barrier_wait_start(w->c, "x", 0, 0, NULL, &w->ticket, &e))          \
    X(snib_barrier_try_start, 0,                                               \
      snib_barrier_try_start(w->c, "x", 0, 0, NULL, &w->ticket, &e))           \
    X(snib_barrier_try_for_start, 0,                                           \
      snib_barrier_try_for_start(w->c, "x", 0, 0, 20, NULL, &w->ticket, &e))   \
    X(snib_client_open, 0, open_url(w, "memory:x?colour=red"))                 \
    X(snib_client_deadlocks, PULL,                                             \
      snib_client_deadlocks(w->c, &w->cycles, &w->count, &e))                  \
    X(snib_client_doctor, 0, snib_client_doctor(w->c, NULL, NULL, &e))         \
    X(snib_client_recovery, 0,                                                 \
      snib_client_recovery(w->c, INT64_MAX, &w->recovery, sizeof w->recovery,  \
                           &e))                                                \
    X(snib_elect_campaign, ELECT | OTHER, second_campaign(w))                  \
    X(snib_elect_try, ELECT | OTHER, second_elect_try(w))                      \
    X(snib_elect_try_for, ELECT | OTHER, second_elect_try_for(w))              \
    X(snib_elect_new, 0, snib_elect_new(w->c, "", NULL, &w->made_elect, &e))   \
    X(snib_elect_leader, PULL | ELECT,                                         \
      snib_elect_leader(w->elect, &w->leader, &e))                             \
    X(snib_elect_watch, PULL | ELECT,                                          \
      snib_elect_watch(w->elect, 0, &w->leader, &e))                           \
    X(snib_elect_watch_for, PULL | ELECT,                                      \
      snib_elect_watch_for(w->elect, 0, 0, &w->leader, &e))                    \
    X(snib_elect_resign, PULL | ELECT, snib_elect_resign(w->elect, &e))        \
    X(snib_client_force_release, 0,                                            \
      snib_client_force_release(w->c, NULL, 0, NULL, &w->number, &e))          \
    X(snib_grant_abandon, HELD, snib_grant_abandon(w->lock, w->g, &e))         \
    X(snib_grant_adopt, LEFT | FIXED,                                          \
      snib_grant_adopt(w->lock, "x", 0, &w->got, &e))                          \
    X(snib_grant_export, HELD | FIXED,                                         \
      snib_grant_export(w->lock, w->g, w->text, 1, &e))                        \
    X(snib_grant_identity, 0,                                                  \
      snib_grant_identity("x", w->identity, sizeof w->identity, &e))           \
    X(snib_store_schema, 0,                                                    \
      snib_store_schema("x", w->text, sizeof w->text, &e))                     \
    X(snib_grant_request, HELD,                                                \
      snib_grant_request(w->lock, w->g, w->text, 1, &e))                       \
    X(snib_client_inspect, 0, snib_client_inspect(w->c, "", 0, &w->view, &e))  \
    X(snib_latch_await, 0, snib_latch_await(w->c, "", 0, &e))                  \
    X(snib_latch_try, 0, snib_latch_try(w->c, "", 0, &e))                      \
    X(snib_latch_try_for, 0, snib_latch_try_for(w->c, "", 0, 20, &e))          \
    X(snib_latch_await_start, 0,                                               \
      snib_latch_await_start(w->c, "", 0, NULL, &w->ticket, &e))               \
    X(snib_latch_try_start, 0,                                                 \
      snib_latch_try_start(w->c, "", 0, NULL, &w->ticket, &e))                 \
    X(snib_latch_try_for_start, 0,                                             \
      snib_latch_try_for_start(w->c, "", 0, 20, NULL, &w->ticket, &e))         \
    X(snib_latch_count_down, 0,                                                \
      snib_latch_count_down(w->c, "x", 0, 0, &w->number, &e))                  \
    X(snib_latch_left, 0, snib_latch_left(w->c, NULL, 0, &w->number, &e))      \
    X(snib_latch_open, 0, snib_latch_open(w->c, NULL, 0, &e))                  \
    X(snib_latch_set, 0, snib_latch_set(w->c, "x", 0, 0, &w->flag, &e))        \
    X(snib_client_list, PULL,                                                  \
      snib_client_list(w->c, NULL, &w->views, &w->count, &e))                  \
    X(snib_lock_new, 0, snib_lock_new(w->c, "", NULL, &w->made, &e))           \
    X(snib_multi_acquire, MULTI,                                               \
      snib_multi_acquire(w->multi, senseless(), w->grants, &e))                \
    X(snib_multi_try, MULTI,                                                   \
      snib_multi_try(w->multi, senseless(), w->grants, &e))                    \
    X(snib_multi_try_for, MULTI,                                               \
      snib_multi_try_for(w->multi, 20, senseless(), w->grants, &e))            \
    X(snib_multi_release, MULTI_HELD, release_crosswise(w))                    \
    X(snib_multi_new, 0, snib_multi_new(NULL, 0, NULL, &w->made_multi, &e))    \
    X(snib_policy_run, 0,                                                      \
      snib_policy_run(w->c, policy_without_value(w), NULL, body, w,            \
                      &w->result, &e))                                         \
    X(snib_policy_try, 0,                                                      \
      snib_policy_try(w->c, policy_without_value(w), NULL, body, w,            \
                      &w->result, &e))                                         \
    X(snib_policy_try_for, 0,                                                  \
      snib_policy_try_for(w->c, 20, policy_without_value(w), NULL, body, w,    \
                          &w->result, &e))                                     \
    X(snib_client_process, NO_TEXT, snib_client_process(w->c))                 \
    X(snib_release, HELD | PULL, snib_release(w->lock, w->g, &e))              \
    X(snib_renew, HELD, snib_renew(w->lock, w->g, 1, &e))                      \
    X(snib_ring_join, 0,                                                       \
      snib_ring_join(w->c, "ring", 0, "", NULL, &w->joined, &e))               \
    X(snib_ring_try, 0,                                                        \
      snib_ring_try(w->c, "ring", 0, "", NULL, &w->joined, &e))                \
    X(snib_ring_try_for, 0,                                                    \
      snib_ring_try_for(w->c, "ring", 0, "", 20, NULL, &w->joined, &e))        \
    X(snib_ring_new, 0, ring_of_nobody(w))                                     \
    X(snib_ring_of_view, 0, snib_ring_of_view(NULL, &w->ring, &e))             \
    X(snib_ring_read, 0, snib_ring_read(w->c, "", 0, &w->ring, &e))            \
    X(snib_scope_begin, 0, scope(snib_scope_begin(w->lock, senseless(), &e)))  \
    X(snib_scope_try, 0, scope(snib_scope_try(w->lock, senseless(), &e)))      \
    X(snib_scope_try_for, 0,                                                   \
      scope(snib_scope_try_for(w->lock, 20, senseless(), &e)))                 \
    X(snib_semaphore_add, PERMITS | HELD,                                      \
      snib_semaphore_add(w->c, "x", 0, -4, &e))                                \
    X(snib_semaphore_drain, 0,                                                 \
      snib_semaphore_drain(w->lock, NULL, &w->got, &w->number, &e))            \
    X(snib_semaphore_get, 0,                                                   \
      snib_semaphore_get(w->c, "", 0, &w->size, sizeof w->size, &e))           \
    X(snib_semaphore_set, 0,                                                   \
      snib_semaphore_set(w->c, "x", 0, SNIB_PERMITS_MAX + 1u, false, &w->flag, \
                         &e))                                                  \
    X(snib_semaphore_slot, HELD,                                               \
      snib_semaphore_slot(w->lock, w->g, &w->number, &e))                      \
    X(snib_test_advance, NO_TEXT, snib_test_advance(w->c, 1))                  \
    X(snib_test_drop_replies, NO_TEXT, snib_test_drop_replies(NULL, 1))        \
    X(snib_test_restart, NO_TEXT, snib_test_restart(NULL))                     \
    X(snib_test_expire, NO_TEXT, snib_test_expire(w->c, NULL))                 \
    X(snib_test_steal, NO_TEXT, snib_test_steal(w->c, "x", 0))                 \
    X(snib_value_delete, 0,                                                    \
      snib_value_delete(w->c, "v", 0, 0, &w->changed, &e))                     \
    X(snib_value_get, 0, snib_value_get(w->c, NULL, 0, &w->value, &e))         \
    X(snib_value_put, 0,                                                       \
      snib_value_put(w->c, "v", 0, 0, "1", 1, -1, &w->changed, &e))            \
    X(snib_value_update, 0,                                                    \
      snib_value_update(w->c, "v", 0, NULL, NULL, NULL, &w->stopped,           \
                        &w->changed, &e))                                      \
    X(snib_value_try, 0,                                                       \
      snib_value_try(w->c, "v", 0, NULL, NULL, NULL, &w->stopped, &w->changed, \
                     &e))                                                      \
    X(snib_value_try_for, 0,                                                   \
      snib_value_try_for(w->c, "v", 0, 20, NULL, NULL, NULL, &w->stopped,      \
                         &w->changed, &e))

#define MUCH(X)                                                                \
    X(snib_value_put, 0, put_too_much(w))                                      \
    X(snib_value_update, 0,                                                    \
      snib_value_update(w->c, "v", 0, NULL, compute_too_much, NULL,            \
                        &w->stopped, &w->changed, &e))                         \
    X(snib_value_try, 0,                                                       \
      snib_value_try(w->c, "v", 0, NULL, compute_too_much, NULL, &w->stopped,  \
                     &w->changed, &e))                                         \
    X(snib_value_try_for, 0,                                                   \
      snib_value_try_for(w->c, "v", 0, 20, NULL, compute_too_much, NULL,       \
                         &w->stopped, &w->changed, &e))                        \
    X(snib_ring_new, 0, ring_of_a_crowd(w))                                    \
    X(snib_ring_of_view, 0, ring_of_a_crowded_view(w))

#define WRONG_BODY_(f, needs, call) BODY_OF_(wrong_, f, call)
#define WRONG_ROW_(f, needs, call)  {#f, needs, wrong_##f},
#define MUCH_BODY_(f, needs, call)  BODY_OF_(much_, f, call)
#define MUCH_ROW_(f, needs, call)   {#f, needs, much_##f},

WRONG(WRONG_BODY_)
MUCH(MUCH_BODY_)

static const struct call wrong[] = {WRONG(WRONG_ROW_)};
static const struct call much[] = {MUCH(MUCH_ROW_)};

static void what_is_asked_wrongly_is_told_so(void **state)
{
    (void)state;
    each_row(wrong, 0);
}

static void what_is_too_much_is_told_so(void **state)
{
    (void)state;
    each_row(much, 0);
}

static snib_err open_unknown(struct world *w)
{
    return open_url(w, "gopher://x");
}

static snib_err open_nowhere(struct world *w)
{
    return open_url(w, "file:/dev/null/locks.db");
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static bool disk_is_full;

int __real_fallocate(int fd, int mode, off_t from, off_t size);
int __wrap_fallocate(int fd, int mode, off_t from, off_t size);
int __wrap_fallocate(int fd, int mode, off_t from, off_t size)
{
    errno = ENOSPC;
    return disk_is_full ? -1 : __real_fallocate(fd, mode, from, size);
}

static snib_err open_where_nothing_is_written(struct world *w)
{
    char dir[] = "/tmp/snib-told-XXXXXX", url[64];
    assert_non_null(mkdtemp(dir));
    snprintf(url, sizeof url, "file:%s/locks.db", dir);
    disk_is_full = true;
    snib_err err = open_url(w, url);
    disk_is_full = false;
    assert_int_equal(nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    return err;
}

static void a_store_that_is_not_known_is_told_so(void **state)
{
    (void)state;
    each_row(ONE("snib_client_open", 0, open_unknown), 0);
}

static void a_file_that_cannot_be_is_told_so(void **state)
{
    (void)state;
    each_row(ONE("snib_client_open", 0, open_nowhere), 0);
}

static void a_disk_that_takes_nothing_is_told_so(void **state)
{
    (void)state;
    each_row(ONE("snib_client_open", 0, open_where_nothing_is_written), 0);
}

int main(void)
{
    const struct CMUnitTest told_usage[] = {
        cmocka_unit_test(what_is_asked_wrongly_is_told_so),
        cmocka_unit_test(what_is_too_much_is_told_so),
        cmocka_unit_test(a_store_that_is_not_known_is_told_so),
        cmocka_unit_test(a_file_that_cannot_be_is_told_so),
        cmocka_unit_test(a_disk_that_takes_nothing_is_told_so),
    };
    return RUN(told_usage);
}
