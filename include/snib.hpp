/* snib.hpp — snib.h for C++17: RAII, std::chrono, and the locks of <mutex>.
 *
 *   #include <snib.hpp>
 *
 *   snib::client client;                      // $SNIB_URL, or the user's file
 *   snib::mutex stock(client, "stock:4711");
 *   std::unique_lock guard(stock, std::chrono::seconds(10));
 *   if (guard) {
 *       sell(stock.token());                  // the fencing token
 *       guard.release()->release().value();   // throws if it was lost
 *   }
 *
 * Header only; link with -lsnib. What a word means, which errors there are and
 * what a store promises is said in snib.h; here is what C++ adds. What it does
 * not wrap (multi, values, elections, event loops, …) is called in C: get()
 * gives the C object, which stays the wrapper's.
 *
 *   client        a store that is open
 *   lock          a handle for one name, of any kind; acquires give grants
 *   grant         one hold of a lock; its destructor releases it
 *   mutex         a lock as <mutex> wants it: TimedLockable
 *   shared_mutex  the same, with readers: SharedTimedLockable
 *   result<T>     a T, or the error; value() throws it
 *   error         the exception
 *
 * Errors. Each function that may fail returns a result, and throws nothing.
 * value() makes an exception of an error:
 *
 *   snib::grant g = lock.acquire().value();              // throws
 *   if (auto g = lock.acquire()) { use(g->token()); }    // does not
 *
 * The constructors, mutex and shared_mutex have no result to return. They throw
 * snib::error, or std::bad_alloc before anything was sent, and are left out
 * where exceptions are off (-fno-exceptions); open() is there in both cases.
 *
 * Time. A limit is a duration or a point of any clock, rounded down to whole
 * milliseconds: less than one millisecond, a negative duration and a point of
 * the past are a try, which does not wait. A limit too far away for 64 bits is
 * none. A point of time is converted once, when the call begins: a clock that
 * is set meanwhile changes nothing.
 *
 * Owners. The owner is the calling thread, as with std::mutex: the thread that
 * acquired releases. A grant whose owner is a number (acquire_options.owner, of
 * snib_owner_new) may be moved to another thread, and so may permits; any other
 * grant that a foreign thread releases or destroys stays held (WRONG_OWNER)
 * until its lock is destroyed. Locks are re-entrant, permits excepted; with
 * lock_options.no_reentry a second acquire is refused (DEADLOCK).
 *
 * Loss. A lease may end before its owner releases: see snib_state. Neither
 * std::unique_lock nor the other guards of <mutex> know of that: owns_lock()
 * stays true, and their destructors tell nobody. So
 *   - ask held() before each step that needs the lock. It compares the clock
 *     and does no I/O;
 *   - pass token() to the resource, which refuses a lower one
 *     (docs/FENCING.md): only this is safe in the moment after held();
 *   - end with release(), which answers LOST when not all of it was protected.
 *     Of a std::unique_lock: guard.release()->release(); of a std::shared_lock:
 *     guard.release()->shared().release(), since what a shared_mutex itself is
 *     asked (held, token, release) is about writing. Under a std::lock_guard or
 *     std::scoped_lock call the mutex' release() at the end of the block; the
 *     guard then does nothing more;
 *   - or take lock_options.on_change, or grant::fd(), to be told at once.
 * A lost lock is released like any other; until then its owner cannot acquire
 * it again (LOST).
 *
 * Lifetimes. A client outlives its locks and mutexes, a lock its grants; so
 * none of these is made from a temporary. All functions may be called by
 * several threads at once, but not during a move or a destructor, nor during a
 * release, renew or detach of the same grant. Nothing here allocates memory
 * except the constructors, grant::explain, and a mutex when more threads hold
 * it or wait for it than ever before.
 *
 * fork(). In the child every call answers FORKED, as in C, and destructors do
 * what snib_client_free does there. But do not lock or unlock a mutex in the
 * child of a process with several threads: another one may have been inside. */
#ifndef SNIB_HPP
#define SNIB_HPP

#include "snib/grant.hpp"

#ifdef __cpp_exceptions

#include <mutex>
#include <thread>
#include <vector>

namespace snib
{

/* A lock as std::mutex is one, among all processes that use the store:
 * TimedLockable, for std::unique_lock, std::scoped_lock, std::lock and
 * std::condition_variable_any. Each thread that locks it is an owner; it may
 * lock it again, and unlocks as often. The mutex keeps the grant of each thread
 * that holds it: the functions that name no thread speak of the calling one's.
 *
 * options.kind may be any but BARRIER. Neither copied nor moved. Destroying it
 * while a thread holds it or waits for it is an error of the program. */
class mutex
{
  public:
    /* Errors: those of snib_lock_new. */
    mutex(client &client, std::string_view name,
          const lock_options &options = lock_options())
        : lock_(client, name, options)
    {
    }
    mutex(const mutex &) = delete;
    mutex &operator=(const mutex &) = delete;

    /* lock waits without a limit, for the store as for the lock. Throws the
     * errors of snib_acquire. */
    void lock()
    {
        take([this] { return lock_.acquire(); }).value();
    }

    /* False: another owner has it (BUSY), still has it at the limit (TIMEOUT).
     * Every other error is thrown: a store that is gone is no lock in use, and
     * a loop that tries again would not mend it. */
    bool try_lock()
    {
        return in_time(take([this] { return lock_.try_acquire(); }));
    }
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &limit)
    {
        return in_time(take([&] { return lock_.try_acquire_for(limit); }));
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &limit)
    {
        return in_time(take([&] { return lock_.try_acquire_until(limit); }));
    }

    /* Give back the calling thread's latest hold. unlock tells nothing, and
     * does nothing in a thread that holds nothing. release tells how the hold
     * ended; errors: those of snib_release. */
    void unlock() noexcept { (void)release(); }
    result<> release() noexcept { return latest().release(); }

    /* Of what the calling thread holds, as in grant. */
    bool held() const noexcept { return snib_grant_held(lock_.get(), mine()); }
    bool lost() const noexcept { return status().state == SNIB_STATE_LOST; }
    std::int64_t token() const noexcept { return mine().token; }
    snib_status status() const noexcept
    {
        snib_status status;
        snib_grant_status(lock_.get(), mine(), &status, sizeof status);
        return status;
    }

    /* The calling thread's grant, ticket 0: none; and the handle. */
    snib_grant mine() const noexcept
    {
        std::lock_guard<std::mutex> inside(inside_);
        std::size_t at = find();
        return at < holds_.size() ? holds_[at].what.get() : snib_grant();
    }
    snib_lock *get() const noexcept { return lock_.get(); }

  private:
    struct hold {
        std::thread::id who;
        grant what;
    };

    /* Room for the hold is made first: nothing can fail once there is one. */
    template <class Acquire> result<> take(Acquire acquire)
    {
        {
            std::lock_guard<std::mutex> inside(inside_);
            holds_.reserve(holds_.size() + coming_ + 1);
            coming_++;
        }
        result<grant> got = acquire();
        std::lock_guard<std::mutex> inside(inside_);
        coming_--;
        if (got) {
            holds_.push_back({std::this_thread::get_id(), std::move(*got)});
        }
        return got.error();
    }

    static bool in_time(const result<> &taken)
    {
        if (taken.code() == SNIB_ERR_BUSY || taken.code() == SNIB_ERR_TIMEOUT) {
            return false;
        }
        taken.value();
        return true;
    }

    /* Where the latest hold of this thread is; holds_.size(): nowhere. */
    std::size_t find() const noexcept
    {
        std::size_t at = holds_.size();
        while (at > 0 && holds_[at - 1].who != std::this_thread::get_id()) {
            at--;
        }
        return at > 0 ? at - 1 : holds_.size();
    }

    /* Takes the latest hold of this thread out. */
    grant latest() noexcept
    {
        std::lock_guard<std::mutex> inside(inside_);
        std::size_t at = find();
        if (at == holds_.size()) {
            return grant();
        }
        grant what = std::move(holds_[at].what);
        holds_.erase(holds_.begin() + static_cast<std::ptrdiff_t>(at));
        return what;
    }

    snib::lock lock_;
    mutable std::mutex inside_;
    std::vector<hold> holds_;
    std::size_t coming_ = 0;
};

/* A mutex that may be shared by readers: SharedTimedLockable, for
 * std::shared_lock too. lock() and its like write, lock_shared() and its like
 * read. Each reader has a lease of its own.
 *
 * More than std::shared_mutex allows: a thread may do both. A writer reads at
 * once, and a reader that writes waits for the other readers to go; a second
 * reader that wants to write is refused (DEADLOCK). See snib_kind.
 *
 * The functions that it has from mutex (held, token, release, …) speak of what
 * the calling thread writes. Those of shared() speak of what it reads. */
class shared_mutex : public mutex
{
  public:
    /* options.kind is not used. Errors: those of snib_lock_new. */
    shared_mutex(client &client, std::string_view name,
                 const lock_options &options = lock_options())
        : mutex(client, name, of_kind(options, SNIB_KIND_WRITE)),
          shared_(client, name, of_kind(options, SNIB_KIND_READ))
    {
    }

    void lock_shared() { shared_.lock(); }
    bool try_lock_shared() { return shared_.try_lock(); }
    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &limit)
    {
        return shared_.try_lock_for(limit);
    }
    template <class Clock, class Duration>
    bool
    try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &limit)
    {
        return shared_.try_lock_until(limit);
    }
    void unlock_shared() noexcept { shared_.unlock(); }

    mutex &shared() noexcept { return shared_; }

  private:
    static lock_options of_kind(lock_options options, snib_kind kind) noexcept
    {
        options.kind = kind;
        return options;
    }

    mutex shared_;
};

} // namespace snib

#endif /* __cpp_exceptions */
#endif
