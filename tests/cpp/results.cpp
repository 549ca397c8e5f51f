/* tests/cpp/results.cpp — clients, locks and grants by results: nothing here
 * throws, and it is compiled without exceptions, too. */
#include <snib.hpp>

#include "kit.hpp"
#include "snib/inspect.h"

#include <cmath>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace std::chrono_literals;
using kit::fresh;

namespace
{

snib::client open()
{
    auto client = snib::client::open(kit::url);
    CHECK(bool(client));
    return std::move(*client);
}

snib::lock lock_of(snib::client &client, std::string_view name,
                   const snib::lock_options &options = snib::lock_options())
{
    auto lock = snib::lock::open(client, name, options);
    CHECK(bool(lock));
    return std::move(*lock);
}

bool is_free(snib::client &other, const std::string &name)
{
    snib::lock lock = lock_of(other, name);
    return bool(lock.try_acquire());
}

void a_grant_is_held_until_its_block_ends()
{
    std::string name = fresh();
    snib::client client = open(), other = open();
    snib::lock lock = lock_of(client, name);
    {
        auto grant = lock.acquire();
        CHECK(grant && grant->held() && grant->token() > 0);
        CHECK(grant->status().state == SNIB_STATE_HELD && !grant->lost());
        CHECK(!is_free(other, name));
    }
    CHECK(is_free(other, name));
}

void a_failure_is_told_by_code_class_and_text()
{
    auto client = snib::client::open("nonsense:");
    CHECK(!client && client.code() != SNIB_ERR_OK);
    CHECK(client.error_class() == SNIB_CLASS_USAGE);
    CHECK(client.error().text[0] != 0);
    snib::client works = open();
    auto lock = snib::lock::open(works, "");
    CHECK(!lock && lock.code() == SNIB_ERR_USAGE);
}

void a_name_is_all_its_bytes_and_needs_no_end()
{
    std::string name = fresh(), longer = name + "-and-more";
    snib::client client = open(), other = open();
    std::string_view front = std::string_view(longer).substr(0, name.size());
    snib::lock lock = lock_of(client, front);
    auto grant = lock.acquire();
    CHECK(grant && !is_free(other, name) && is_free(other, longer));
    CHECK(is_free(other, name + std::string("\0x", 2)));
}

void a_grant_moves_and_is_released_once()
{
    std::string name = fresh();
    snib::client client = open(), other = open();
    snib::lock lock = lock_of(client, name);
    snib::grant first = std::move(*lock.acquire()), second(std::move(first));
    CHECK(second.held() && !first.held() && first.token() == 0);
    CHECK(first.release().code() == SNIB_ERR_NOT_HELD);
    CHECK(first.status().state == SNIB_STATE_RELEASED && first.fd() == -1);
    snib::lock moved = std::move(lock);
    std::vector<snib::grant> several(1);
    several[0] = std::move(second);
    CHECK(several[0].held() && !is_free(other, name));
    CHECK(bool(several[0].release()));
    CHECK(several[0].release().code() == SNIB_ERR_NOT_HELD);
    CHECK(is_free(other, name));
}

void assigning_to_a_grant_releases_what_it_held()
{
    std::string one = fresh(), two = fresh();
    snib::client client = open(), other = open();
    snib::lock first = lock_of(client, one), second = lock_of(client, two);
    snib::grant grant = std::move(*first.acquire());
    grant = std::move(*second.acquire());
    auto *self = &grant;
    grant = std::move(*self); // keeps what it holds
    CHECK(grant.held() && is_free(other, one) && !is_free(other, two));
}

void a_detached_grant_is_the_callers()
{
    snib::client client = open();
    snib::lock lock = lock_of(client, fresh());
    snib::lock another = lock_of(client, fresh());
    snib_grant raw = lock.acquire()->detach();
    CHECK(snib_grant_held(lock.get(), raw));
    snib::grant wrong(another.get(), raw);
    CHECK(wrong.release().code() == SNIB_ERR_USAGE && wrong.token() > 0);
    CHECK(wrong.release().code() == SNIB_ERR_USAGE);
    snib::grant again(lock.get(), raw);
    CHECK(again.held() && again.get().ticket == raw.ticket);
    CHECK(bool(again.release()) && !snib_grant_held(lock.get(), raw));
}

void a_loss_is_told_by_held_lost_and_release()
{
    std::string name = fresh();
    snib::client client = open();
    snib::lock lock = lock_of(client, name);
    auto grant = lock.acquire();
    kit::revoke(client.get(), name, grant->fd());
    CHECK(!grant->held() && grant->lost());
    CHECK(grant->status().cause == SNIB_CAUSE_REVOKED);
    CHECK(grant->explain().find("revoked") == 0);
    CHECK(lock.try_acquire().code() == SNIB_ERR_LOST);
    CHECK(grant->release().code() == SNIB_ERR_LOST);
    CHECK(grant->token() == 0 && !grant->lost());
    CHECK(bool(lock.try_acquire()));
}

void another_threads_grant_stays_held()
{
    std::string name = fresh();
    snib::client client = open(), other = open();
    snib::lock lock = lock_of(client, name);
    snib::grant grant = std::move(*lock.acquire());
    kit::elsewhere(
        [&] { CHECK(grant.release().code() == SNIB_ERR_WRONG_OWNER); });
    CHECK(grant.held() && !is_free(other, name));
    CHECK(bool(grant.release()) && is_free(other, name));
}

void a_grant_of_a_numbered_owner_moves_between_threads()
{
    snib::client client = open();
    snib::lock lock = lock_of(client, fresh());
    snib::acquire_options options;
    options.owner = snib_owner_new();
    snib::grant grant = std::move(*lock.acquire(options));
    kit::elsewhere([&] { CHECK(bool(grant.release())); });
}

void limits_are_whole_milliseconds_rounded_down()
{
    using std::chrono::duration;
    CHECK(snib::ms(999us) == 0 && snib::ms(1ms) == 1 && snib::ms(1999us) == 1);
    CHECK(snib::ms(-1h) == 0 && snib::ms(2s) == 2000 && snib::ms(0ns) == 0);
    CHECK(snib::ms(duration<double>(0.0015)) == 1);
    CHECK(snib::ms(duration<double>(std::nan(""))) == 0);
    CHECK(snib::ms(duration<int, std::ratio<1, 3>>(1)) == 333);
    CHECK(snib::ms(std::chrono::hours::max()) == INT64_MAX);
    CHECK(snib::ms(std::chrono::hours::min()) == 0);
    CHECK(snib::ms(std::chrono::milliseconds::max()) == INT64_MAX);
}

/* A try of a lock in use ends in BUSY, a wait in TIMEOUT. */
void what_is_less_than_a_millisecond_is_a_try()
{
    std::string name = fresh();
    snib::client client = open(), other = open();
    snib::lock mine = lock_of(client, name), theirs = lock_of(other, name);
    auto grant = mine.acquire();
    CHECK(theirs.try_acquire().code() == SNIB_ERR_BUSY);
    CHECK(theirs.try_acquire_for(999us).code() == SNIB_ERR_BUSY);
    CHECK(theirs.try_acquire_for(-1s).code() == SNIB_ERR_BUSY);
    CHECK(theirs.try_acquire_for(1ms).code() == SNIB_ERR_TIMEOUT);
}

void what_is_in_the_past_is_a_try()
{
    using std::chrono::steady_clock;
    using std::chrono::system_clock;
    std::string name = fresh();
    snib::client client = open(), other = open();
    snib::lock mine = lock_of(client, name), theirs = lock_of(other, name);
    auto grant = mine.acquire();
    for (auto past : {steady_clock::time_point::min(), steady_clock::now()}) {
        CHECK(theirs.try_acquire_until(past).code() == SNIB_ERR_BUSY);
    }
    CHECK(theirs.try_acquire_until(system_clock::time_point()).code() ==
          SNIB_ERR_BUSY);
    CHECK(theirs.try_acquire_until(steady_clock::now() + 20ms).code() ==
          SNIB_ERR_TIMEOUT);
    CHECK(theirs.try_acquire_until(system_clock::now() + 20ms).code() ==
          SNIB_ERR_TIMEOUT);
}

void a_limit_out_of_sight_waits()
{
    std::string name = fresh();
    snib::client client = open(), other = open();
    snib::lock mine = lock_of(client, name), theirs = lock_of(other, name);
    auto grant = mine.acquire();
    std::thread waiter([&] {
        CHECK(bool(theirs.try_acquire_for(std::chrono::hours::max())));
        CHECK(bool(theirs.try_acquire_until(
            std::chrono::steady_clock::time_point::max())));
    });
    snib_view *view = nullptr;
    for (std::size_t waiters = 0; waiters == 0; snib_view_free(view)) {
        CHECK(!snib_client_inspect(client.get(), name.data(), name.size(),
                                   &view, nullptr));
        waiters = view ? view->waiter_count : 1;
    }
    CHECK(bool(grant->release()));
    waiter.join();
}

void a_renewal_may_ask_for_another_lease()
{
    snib::client client = open();
    snib::lock_options options;
    options.lease_ms = snib::ms(1h);
    options.fixed_lease = true;
    snib::lock lock = lock_of(client, fresh(), options);
    auto grant = lock.acquire();
    CHECK(grant->status().left_ms > snib::ms(50min));
    CHECK(bool(grant->renew(2h)) && grant->status().left_ms > snib::ms(1h));
    CHECK(bool(grant->renew()));
    CHECK(grant->renew(0s).code() == SNIB_ERR_USAGE);
    CHECK(snib::grant().renew().code() == SNIB_ERR_NOT_HELD);
}

void permits_and_readers_are_grants_too()
{
    std::string name = fresh();
    snib::client client = open(), other = open();
    snib::lock_options options;
    options.kind = SNIB_KIND_READ;
    snib::lock reads = lock_of(client, name, options);
    snib::lock others = lock_of(other, name, options);
    auto one = reads.acquire(), two = others.acquire();
    CHECK(one && two && !is_free(other, name));
    options.kind = SNIB_KIND_PERMITS;
    options.capacity = 2;
    snib::lock permits = lock_of(client, fresh(), options);
    auto first = permits.acquire(), second = permits.acquire();
    CHECK(first && second && permits.try_acquire().code() == SNIB_ERR_BUSY);
    CHECK(first->status().slot != second->status().slot);
}

void the_end_of_a_client_ends_its_grants()
{
    std::string name = fresh();
    snib::client client = open(), other = open();
    snib::lock lock = lock_of(client, name);
    auto grant = lock.acquire();
    client.close();
    CHECK(lock.try_acquire().code() == SNIB_ERR_CLOSED);
    client.stop();
    CHECK(!grant->held() && is_free(other, name));
    CHECK(grant->release().code() == SNIB_ERR_CLOSED);
}

void a_forked_child_is_refused()
{
    snib::client client = open();
    snib::lock lock = lock_of(client, fresh());
    auto grant = lock.acquire();
    pid_t child = fork();
    if (child == 0) {
        bool refused = lock.try_acquire().code() == SNIB_ERR_FORKED &&
                       !grant->held() &&
                       grant->release().code() == SNIB_ERR_FORKED;
        _exit(refused ? 0 : 1);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(grant->held());
}

const kit::test tests[] = {
#define TEST(name)                                                             \
    {                                                                          \
#name, name                                                            \
    }
    TEST(a_grant_is_held_until_its_block_ends),
    TEST(a_failure_is_told_by_code_class_and_text),
    TEST(a_name_is_all_its_bytes_and_needs_no_end),
    TEST(a_grant_moves_and_is_released_once),
    TEST(assigning_to_a_grant_releases_what_it_held),
    TEST(a_detached_grant_is_the_callers),
    TEST(a_loss_is_told_by_held_lost_and_release),
    TEST(another_threads_grant_stays_held),
    TEST(a_grant_of_a_numbered_owner_moves_between_threads),
    TEST(limits_are_whole_milliseconds_rounded_down),
    TEST(what_is_less_than_a_millisecond_is_a_try),
    TEST(what_is_in_the_past_is_a_try),
    TEST(a_limit_out_of_sight_waits),
    TEST(a_renewal_may_ask_for_another_lease),
    TEST(permits_and_readers_are_grants_too),
    TEST(the_end_of_a_client_ends_its_grants),
    TEST(a_forked_child_is_refused),
};

} // namespace

int main(int argc, char **argv)
{
    return kit::run(tests, argc, argv);
}
