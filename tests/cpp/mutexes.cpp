/* tests/cpp/mutexes.cpp — snib::mutex and snib::shared_mutex as the locks of
 * the standard library use them. */
#include <snib.hpp>

#include "kit.hpp"

#include <condition_variable>
#include <cstdlib>
#include <future>
#include <new>
#include <shared_mutex>

using namespace std::chrono_literals;
using kit::elsewhere;
using kit::fresh;

/* Allocations by C++ so far. (Weak: a sanitizer has its own, and then none are
 * counted.) */
static std::atomic<int> allocations;

[[gnu::weak]] void *operator new(std::size_t size)
{
    allocations++;
    if (void *made = std::malloc(size)) {
        return made;
    }
    throw std::bad_alloc();
}
[[gnu::weak]] void operator delete(void *made) noexcept
{
    std::free(made);
}
[[gnu::weak]] void operator delete(void *made, std::size_t) noexcept
{
    std::free(made);
}

namespace
{

/* What would dangle does not compile. */
static_assert(!std::is_constructible_v<snib::lock, snib::client, const char *>);
static_assert(
    !std::is_constructible_v<snib::mutex, snib::client, const char *>);
static_assert(!std::is_copy_constructible_v<snib::grant> &&
              std::is_nothrow_move_constructible_v<snib::grant> &&
              std::is_nothrow_move_assignable_v<snib::grant>);
static_assert(!std::is_move_constructible_v<snib::mutex>);
static_assert(noexcept(std::declval<snib::mutex &>().unlock()));
static_assert(std::is_nothrow_copy_constructible_v<snib::error>);

struct world {
    std::string name = fresh();
    snib::client client{kit::url}, other{kit::url};
    snib::mutex mutex{client, name}, theirs{other, name};

    bool is_free()
    {
        bool locked = theirs.try_lock();
        if (locked) {
            theirs.unlock();
        }
        return locked;
    }
    void revoke(snib::mutex &of)
    {
        kit::revoke(client.get(), name, snib_grant_fd(of.get(), of.mine()));
    }
};

/* The code of what it throws; OK: nothing. */
template <class Work> snib_err thrown(Work work)
{
    try {
        work();
    } catch (const snib::error &e) {
        return e.code();
    }
    return SNIB_ERR_OK;
}

void the_errors_are_exceptions()
{
    try {
        snib::client client("nonsense:");
        CHECK(!"opened");
    } catch (const std::exception &e) {
        auto &error = dynamic_cast<const snib::error &>(e);
        CHECK(error.error_class() == SNIB_CLASS_USAGE);
        CHECK(error.what() == std::string(error.what()) && *error.what());
    }
    snib::client client(kit::url);
    CHECK(thrown([&] { snib::mutex(client, ""); }) == SNIB_ERR_USAGE);
    CHECK(thrown([&] { snib::lock(client, ""); }) == SNIB_ERR_USAGE);
    snib::lock lock(client, fresh());
    snib::grant mine = lock.acquire().value();
    CHECK(thrown([&] { snib::grant().release().value(); }) ==
          SNIB_ERR_NOT_HELD);
    CHECK(thrown([&] { mine.release().value(); }) == SNIB_ERR_OK);
}

void a_unique_lock_locks_and_unlocks()
{
    world w;
    {
        std::unique_lock guard(w.mutex);
        CHECK(guard && w.mutex.held() && !w.is_free());
        guard.unlock();
        CHECK(w.is_free() && !w.mutex.held() && w.mutex.token() == 0);
        guard.lock();
        CHECK(w.mutex.token() > 0 && !w.is_free());
    }
    CHECK(w.is_free());
}

void a_block_that_throws_unlocks()
{
    world w;
    try {
        std::lock_guard guard(w.mutex);
        throw 1;
    } catch (int) {
        CHECK(w.is_free());
    }
}

void the_threads_of_two_clients_exclude_each_other()
{
    world w;
    int count = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) {
        threads.emplace_back([&, i] {
            for (int k = 0; k < 50; k++) {
                std::lock_guard guard(i % 2 ? w.mutex : w.theirs);
                count++;
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(count == 400);
}

void one_mutex_serves_many_threads_each_with_its_own_hold()
{
    world w;
    std::lock_guard guard(w.mutex);
    elsewhere([&] {
        CHECK(!w.mutex.try_lock() && !w.mutex.held());
        CHECK(w.mutex.status().state == SNIB_STATE_RELEASED);
        w.mutex.unlock(); /* of nothing */
        CHECK(w.mutex.release().code() == SNIB_ERR_NOT_HELD);
    });
    CHECK(w.mutex.held() && !w.is_free());
}

void a_thread_locks_again_and_unlocks_as_often()
{
    world w;
    std::unique_lock outer(w.mutex), inner(w.mutex, 0s);
    CHECK(inner && w.mutex.status().holds == 2);
    inner.unlock();
    CHECK(w.mutex.held() && !w.is_free());
    outer.unlock();
    CHECK(w.is_free());
}

void a_lock_in_use_is_false_at_once_and_at_the_limit()
{
    world w;
    std::lock_guard guard(w.theirs);
    CHECK(!std::unique_lock(w.mutex, std::try_to_lock));
    CHECK(!std::unique_lock(w.mutex, 20ms));
    CHECK(!std::unique_lock(w.mutex, std::chrono::system_clock::now() + 20ms));
    CHECK(!w.mutex.try_lock_for(999us) && !w.mutex.try_lock_for(-1h));
    CHECK(
        !w.mutex.try_lock_until(std::chrono::steady_clock::time_point::min()));
}

void a_lock_that_becomes_free_in_time_is_locked()
{
    world w;
    std::unique_lock guard(w.theirs);
    std::thread waiter([&] {
        CHECK(w.mutex.try_lock_for(1h));
        w.mutex.unlock();
        CHECK(w.mutex.try_lock_until(std::chrono::steady_clock::now() + 1h));
        w.mutex.unlock();
    });
    guard.unlock();
    waiter.join();
}

void whatever_is_not_a_lock_in_use_is_thrown()
{
    world w;
    w.client.close();
    CHECK(thrown([&] { w.mutex.lock(); }) == SNIB_ERR_CLOSED);
    CHECK(thrown([&] { (void)w.mutex.try_lock(); }) == SNIB_ERR_CLOSED);
    CHECK(thrown([&] { (void)w.mutex.try_lock_for(1s); }) == SNIB_ERR_CLOSED);
    CHECK(!w.mutex.held());
}

void two_mutexes_are_locked_in_any_order()
{
    world w;
    snib::mutex second(w.client, fresh());
    int count = 0;
    auto work = [&](auto &one, auto &two) {
        for (int i = 0; i < 50; i++) {
            std::scoped_lock both(one, two);
            count++;
        }
    };
    std::thread other([&] { work(second, w.mutex); });
    work(w.mutex, second);
    other.join();
    CHECK(count == 100 && w.is_free());
}

void a_condition_variable_waits_on_it()
{
    world w;
    std::condition_variable_any changed;
    bool ready = false;
    std::unique_lock guard(w.mutex);
    std::thread other([&] {
        std::lock_guard inside(w.mutex);
        ready = true;
        changed.notify_one();
    });
    changed.wait(guard, [&] { return ready; });
    CHECK(ready && w.mutex.held());
    guard.unlock();
    other.join();
}

void a_guard_does_not_know_of_a_loss_and_the_mutex_does()
{
    world w;
    std::unique_lock guard(w.mutex);
    w.revoke(w.mutex);
    CHECK(guard.owns_lock() && !w.mutex.held() && w.mutex.lost());
    CHECK(w.mutex.status().cause == SNIB_CAUSE_REVOKED);
    CHECK(thrown([&] { w.mutex.lock(); }) == SNIB_ERR_LOST);
    CHECK(guard.release()->release().code() == SNIB_ERR_LOST);
    CHECK(!w.mutex.lost() && w.mutex.try_lock());
    w.mutex.unlock();
}

void a_guard_of_a_lost_lock_ends_quietly()
{
    world w;
    {
        std::lock_guard guard(w.mutex);
        w.revoke(w.mutex);
    }
    CHECK(w.mutex.try_lock());
    w.mutex.unlock();
}

void who_lost_it_does_not_unlock_the_next_one()
{
    world w;
    w.mutex.lock();
    std::int64_t lost = w.mutex.token();
    w.revoke(w.mutex);
    std::promise<void> locked, unlocked;
    std::thread next([&] {
        std::lock_guard guard(w.mutex);
        CHECK(w.mutex.token() > lost);
        locked.set_value();
        unlocked.get_future().wait();
        CHECK(w.mutex.held() && !w.is_free());
    });
    locked.get_future().wait();
    w.mutex.unlock();
    unlocked.set_value();
    next.join();
    CHECK(w.is_free());
}

void a_hold_costs_no_allocation_but_the_first()
{
    world w;
    w.mutex.lock();
    w.mutex.unlock();
    int before = allocations;
    for (int i = 0; i < 10; i++) {
        std::unique_lock guard(w.mutex, 1s);
        CHECK(w.mutex.held() && w.mutex.token() > 0);
    }
    CHECK(allocations == before);
}

void readers_share_and_writers_do_not()
{
    world w;
    snib::shared_mutex mutex(w.client, w.name), theirs(w.other, w.name);
    std::shared_lock reads(mutex);
    elsewhere([&] {
        std::shared_lock too(mutex, std::try_to_lock), far(theirs, 1s);
        CHECK(too && far && mutex.shared().held() && !mutex.held());
        std::shared_lock until(theirs, std::chrono::system_clock::now() + 1s);
        CHECK(until && !theirs.try_lock() && !theirs.try_lock_for(2ms));
    });
    CHECK(mutex.shared().held() && mutex.shared().token() >= 0);
    reads.unlock();
    std::lock_guard writes(mutex);
    CHECK(mutex.held() && mutex.token() > 0 && !mutex.shared().held());
    elsewhere([&] {
        CHECK(!mutex.try_lock_shared() && !theirs.try_lock_shared_for(2ms));
        CHECK(!theirs.try_lock_shared_until(
            std::chrono::steady_clock::time_point()));
    });
}

void a_writer_reads_and_goes_on_reading()
{
    world w;
    snib::shared_mutex mutex(w.client, w.name), theirs(w.other, w.name);
    mutex.lock();
    mutex.lock_shared();
    mutex.unlock();
    CHECK(!mutex.held() && mutex.shared().held());
    CHECK(!theirs.try_lock() && theirs.try_lock_shared());
    theirs.unlock_shared();
    mutex.unlock_shared();
    CHECK(w.is_free());
}

void shared_and_plain_mutexes_are_locked_together()
{
    world w;
    snib::shared_mutex data(w.client, fresh());
    std::mutex local;
    std::scoped_lock all(w.mutex, data, local);
    CHECK(w.mutex.held() && data.held());
}

const kit::test tests[] = {
#define TEST(name)                                                             \
    {                                                                          \
#name, name                                                            \
    }
    TEST(the_errors_are_exceptions),
    TEST(a_unique_lock_locks_and_unlocks),
    TEST(a_block_that_throws_unlocks),
    TEST(the_threads_of_two_clients_exclude_each_other),
    TEST(one_mutex_serves_many_threads_each_with_its_own_hold),
    TEST(a_thread_locks_again_and_unlocks_as_often),
    TEST(a_lock_in_use_is_false_at_once_and_at_the_limit),
    TEST(a_lock_that_becomes_free_in_time_is_locked),
    TEST(whatever_is_not_a_lock_in_use_is_thrown),
    TEST(two_mutexes_are_locked_in_any_order),
    TEST(a_condition_variable_waits_on_it),
    TEST(a_guard_does_not_know_of_a_loss_and_the_mutex_does),
    TEST(a_guard_of_a_lost_lock_ends_quietly),
    TEST(who_lost_it_does_not_unlock_the_next_one),
    TEST(a_hold_costs_no_allocation_but_the_first),
    TEST(readers_share_and_writers_do_not),
    TEST(a_writer_reads_and_goes_on_reading),
    TEST(shared_and_plain_mutexes_are_locked_together),
};

} // namespace

int main(int argc, char **argv)
{
    return kit::run(tests, argc, argv);
}
