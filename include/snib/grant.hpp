/* snib/grant.hpp — the part of snib.hpp that throws nothing by itself: client,
 * lock, grant, result. Include snib.hpp, which says how they are used. */
#ifndef SNIB_GRANT_HPP
#define SNIB_GRANT_HPP

#include "snib.h"

#if __cplusplus < 201703L
#error "snib.hpp needs C++17"
#endif

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace snib
{

/* An option struct of snib.h with its size set and everything else at its
 * default: client_options o; o.url = "memory:"; For members that end in _ms
 * there is ms(): o.lease_ms = snib::ms(10s). */
template <class Options> struct options : Options {
    constexpr options() noexcept : Options() { this->size = sizeof(Options); }
};
using client_options = options<snib_client_options>;
using lock_options = options<snib_lock_options>;
using acquire_options = options<snib_acquire_options>;

/* -- time ------------------------------------------------------------------ */

namespace detail
{

template <class Rep, class Period>
constexpr long double
real_ms(const std::chrono::duration<Rep, Period> &time) noexcept
{
    return std::chrono::duration<long double, std::milli>(time).count();
}

/* 0 for what is less than 1, and for no number. INT64_MAX is no limit. */
constexpr std::int64_t whole_ms(long double ms) noexcept
{
    return !(ms >= 1)   ? 0
           : ms < 9e18L ? static_cast<std::int64_t>(ms)
                        : INT64_MAX;
}

/* By subtraction of reals: point - Clock::now() may overflow. */
template <class Clock, class Duration>
std::int64_t
ms_until(const std::chrono::time_point<Clock, Duration> &point) noexcept
{
    return whole_ms(real_ms(point.time_since_epoch()) -
                    real_ms(Clock::now().time_since_epoch()));
}

} // namespace detail

/* A duration in whole milliseconds, rounded down; never negative. */
template <class Rep, class Period>
constexpr std::int64_t
ms(const std::chrono::duration<Rep, Period> &time) noexcept
{
    return detail::whole_ms(detail::real_ms(time));
}

/* -- errors ---------------------------------------------------------------- */

/* The exception. what() is the text: one line for a person, which says what was
 * wrong. Copies are cheap enough and throw nothing. */
class error : public std::exception
{
  public:
    explicit error(const snib_error &what) noexcept : error_(what) {}
    const char *what() const noexcept override { return error_.text; }
    snib_err code() const noexcept { return error_.code; }
    snib_class error_class() const noexcept
    {
        return snib_err_class(error_.code);
    }

  private:
    snib_error error_;
};

/* A T, or the error in its place; true when there is a T. After an error
 * value() throws it, and * and -> must not be used. */
template <class T = void> class result;

template <> class [[nodiscard]] result<void>
{
  public:
    result() noexcept : error_() {}
    result(const snib_error &error) noexcept : error_(error) {}

    explicit operator bool() const noexcept { return !error_.code; }
    snib_err code() const noexcept { return error_.code; }
    snib_class error_class() const noexcept
    {
        return snib_err_class(error_.code);
    }
    const snib_error &error() const noexcept { return error_; }
#ifdef __cpp_exceptions
    void value() const
    {
        if (error_.code) {
            throw snib::error(error_);
        }
    }
#endif

  private:
    snib_error error_;
};

template <class T> class [[nodiscard]] result : private result<void>
{
  public:
    result(T &&value) noexcept : value_(std::move(value)) {}
    result(const snib_error &error) noexcept : result<void>(error) {}

    using result<void>::operator bool;
    using result<void>::code;
    using result<void>::error_class;
    using result<void>::error;
    T &operator*() &noexcept { return *value_; }
    T &&operator*() &&noexcept { return std::move(*value_); }
    T *operator->() noexcept { return &*value_; }
#ifdef __cpp_exceptions
    T &value() &
    {
        result<void>::value();
        return *value_;
    }
    T value() &&
    {
        result<void>::value();
        return std::move(*value_);
    }
#endif

  private:
    std::optional<T> value_;
};

/* -- client ---------------------------------------------------------------- */

namespace detail
{

struct free_it {
    void operator()(snib_client *client) const noexcept
    {
        snib_client_free(client);
    }
    void operator()(snib_lock *lock) const noexcept { snib_lock_free(lock); }
};

} // namespace detail

/* A store that is open. The destructor releases what is still held and joins
 * the background thread: see snib_client_free. Movable; what it was moved from
 * may only be destroyed or assigned to. */
class client
{
  public:
    /* Errors: those of snib_client_open. */
    static result<client>
    open(const client_options &options = client_options()) noexcept
    {
        snib_error e;
        snib_client *made;
        if (snib_client_open(&options, &made, &e)) {
            return e;
        }
        return client(made);
    }
    static result<client> open(const char *url) noexcept
    {
        client_options options;
        options.url = url;
        return open(options);
    }

    /* See snib_client_close and snib_client_stop. */
    void close() noexcept { snib_client_close(get()); }
    void stop() noexcept { snib_client_stop(get()); }
    snib_client *get() const noexcept { return client_.get(); }

#ifdef __cpp_exceptions
    /* The store of the environment's SNIB_URL; without it the user's file. */
    client() : client(open().value())
    {
    }
    explicit client(const char *url) : client(open(url).value())
    {
    }
    explicit client(const client_options &options)
        : client(open(options).value())
    {
    }
#endif

  private:
    explicit client(snib_client *made) noexcept : client_(made)
    {
    }

    std::unique_ptr<snib_client, detail::free_it> client_;
};

/* -- lock and grant -------------------------------------------------------- */

/* One hold of a lock, or nothing. The destructor releases it and throws
 * nothing. Movable between objects; between threads see "Owners" in snib.hpp.
 *
 * A grant that holds nothing (made by the default constructor, moved from,
 * released) answers as a stale one does in C: not held, RELEASED, NOT_HELD. */
class grant
{
  public:
    grant() noexcept = default;
    /* Takes over a grant of C's; raw was acquired through lock. */
    grant(snib_lock *lock, snib_grant raw) noexcept : lock_(lock), raw_(raw) {}
    grant(grant &&from) noexcept
        : lock_(std::exchange(from.lock_, nullptr)), raw_(from.raw_)
    {
    }
    grant &operator=(grant &&from) noexcept
    {
        if (this != &from) {
            grant old(std::move(*this));
            lock_ = std::exchange(from.lock_, nullptr);
            raw_ = from.raw_;
        }
        return *this;
    }
    ~grant()
    {
        if (lock_) {
            (void)snib_release(lock_, raw_, nullptr);
        }
    }

    /* Give the hold back now, and hear how it ended. Afterwards the object
     * holds nothing, except after WRONG_OWNER and USAGE, which leave the grant
     * as it is. Errors: those of snib_release. */
    result<> release() noexcept
    {
        snib_error e;
        if (!lock_) {
            return nothing();
        }
        snib_err err = snib_release(lock_, raw_, &e);
        if (err != SNIB_ERR_WRONG_OWNER && err != SNIB_ERR_USAGE) {
            lock_ = nullptr;
        }
        return e;
    }

    /* True while the deadline is ahead. */
    bool held() const noexcept { return lock_ && snib_grant_held(lock_, raw_); }
    /* It was lost, and is not released yet. */
    bool lost() const noexcept { return status().state == SNIB_STATE_LOST; }
    /* The fencing token; 0: there is none. */
    std::int64_t token() const noexcept { return lock_ ? raw_.token : 0; }
    /* State, cause of a loss, time left, … */
    snib_status status() const noexcept
    {
        snib_status status = {};
        status.state = SNIB_STATE_RELEASED;
        status.slot = -1;
        if (lock_) {
            snib_grant_status(lock_, raw_, &status, sizeof status);
        }
        return status;
    }
    /* Why it is at risk or lost, in words: see snib_grant_explain. */
    std::string explain() const
    {
        char text[SNIB_EXPLAIN_TEXT] = "";
        if (lock_) {
            snib_grant_explain(lock_, raw_, text, sizeof text);
        }
        return text;
    }

    /* Renew now, to the lock's lease or to another. Errors: those of
     * snib_renew. */
    result<> renew() noexcept { return renew_to(0); }
    template <class Rep, class Period>
    result<> renew(const std::chrono::duration<Rep, Period> &lease) noexcept
    {
        /* 0 would stand for the lock's lease; 1 is refused as too short. */
        return renew_to(ms(lease) > 0 ? ms(lease) : 1);
    }

    /* A descriptor that becomes readable when the grant is lost or released; -1
     * on failure: see snib_grant_fd. Of a grant that holds nothing errno is
     * ENOENT. */
    int fd() const noexcept
    {
        if (!lock_) {
            errno = ENOENT;
            return -1;
        }
        return snib_grant_fd(lock_, raw_);
    }

    /* The grant in C; its ticket is 0 when this holds nothing. */
    snib_grant get() const noexcept { return lock_ ? raw_ : snib_grant(); }
    /* The same, and the caller releases it from now on. */
    snib_grant detach() noexcept
    {
        snib_grant raw = get();
        lock_ = nullptr;
        return raw;
    }

  private:
    static snib_error nothing() noexcept
    {
        snib_error e = {};
        e.code = SNIB_ERR_NOT_HELD;
        std::strncpy(e.text, snib_err_text(e.code), sizeof e.text - 1);
        return e;
    }
    result<> renew_to(std::int64_t lease_ms) noexcept
    {
        snib_error e;
        if (!lock_) {
            return nothing();
        }
        return snib_renew(lock_, raw_, lease_ms, &e) ? e : result<>();
    }

    snib_lock *lock_ = nullptr;
    snib_grant raw_ = {};
};

/* A handle for one name, of any kind (lock_options.kind). Movable as a client
 * is; grants do not notice. The destructor releases in the background what is
 * still held through it, and waits for an on_change that runs. */
class lock
{
  public:
    /* name may have any bytes; it need not end in NUL. options.name_size is
     * not used. Errors: those of snib_lock_new. */
    static result<lock>
    open(client &client, std::string_view name,
         const lock_options &options = lock_options()) noexcept
    {
        snib_error e;
        snib_lock *made;
        lock_options o = options;
        o.name_size = name.size();
        if (snib_lock_new(client.get(), name.empty() ? "" : name.data(), &o,
                          &made, &e)) {
            return e;
        }
        return lock(made);
    }

    /* Wait without a limit; do not wait; wait for so long, or until then. The
     * errors are those of snib_acquire, snib_try and snib_try_for: a try of a
     * lock that is not free ends in BUSY, a wait in TIMEOUT. */
    result<grant>
    acquire(const acquire_options &options = acquire_options()) &noexcept
    {
        return wait(INT64_MAX, options);
    }
    result<grant>
    try_acquire(const acquire_options &options = acquire_options()) &noexcept
    {
        return wait(0, options);
    }
    template <class Rep, class Period>
    result<grant> try_acquire_for(
        const std::chrono::duration<Rep, Period> &limit,
        const acquire_options &options = acquire_options()) &noexcept
    {
        return wait(ms(limit), options);
    }
    template <class Clock, class Duration>
    result<grant> try_acquire_until(
        const std::chrono::time_point<Clock, Duration> &limit,
        const acquire_options &options = acquire_options()) &noexcept
    {
        return wait(detail::ms_until(limit), options);
    }

    snib_lock *get() const noexcept { return lock_.get(); }

#ifdef __cpp_exceptions
    /* As open, but throws. */
    lock(client &client, std::string_view name,
         const lock_options &options = lock_options())
        : lock(open(client, name, options).value())
    {
    }
#endif

  private:
    explicit lock(snib_lock *made) noexcept : lock_(made)
    {
    }

    /* INT64_MAX is no limit, 0 is a try. */
    result<grant> wait(std::int64_t wait_ms,
                       const acquire_options &options) noexcept
    {
        snib_error e;
        snib_grant raw;
        if (snib_try_for(get(), wait_ms, &options, &raw, &e)) {
            return e;
        }
        return grant(get(), raw);
    }

    std::unique_ptr<snib_lock, detail::free_it> lock_;
};

} // namespace snib

#endif
