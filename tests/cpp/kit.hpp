/* tests/cpp/kit.hpp — a program of cases, without exceptions if need be.
 *
 * usage: PROGRAM [URL]      the store; without one a memory: of its own
 *
 * The last line is what tools/test/tally.py reads. */
#ifndef SNIB_TESTS_KIT_HPP
#define SNIB_TESTS_KIT_HPP

#include <snib.h>
#include <snib/inspect.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>

#include <poll.h>

namespace kit
{

struct test {
    const char *name;
    void (*run)();
};

inline const char *url = "memory:cpp";
inline std::atomic<bool> failed;

#define CHECK(what) kit::check(what, #what, __FILE__, __LINE__)
inline void check(bool so, const char *what, const char *file, int line)
{
    if (!so) {
        std::printf("%s:%d: not so: %s\n", file, line, what);
        failed = true;
    }
}

/* A name that no other case uses. */
inline std::string fresh()
{
    static int count;
    return "cpp-" + std::to_string(++count);
}

/* Run it in another thread, to its end. */
template <class Work> void elsewhere(Work work)
{
    std::thread(work).join();
}

/* All holders of the name lose it. fd is that of a grant: wait for its loss. */
inline void revoke(snib_client *client, const std::string &name, int fd)
{
    struct pollfd lost = {fd, POLLIN, 0};
    CHECK(!snib_client_force_release(client, name.data(), name.size(), "test",
                                     nullptr, nullptr));
    CHECK(poll(&lost, 1, 10000) == 1);
}

template <std::size_t N> int run(const test (&tests)[N], int argc, char **argv)
{
    int bad = 0;
    url = argc > 1 ? argv[1] : url;
    for (const test &one : tests) {
        failed = false;
        one.run();
        bad += failed;
        std::printf("%s %s\n", failed ? "FAILED" : "ok", one.name);
        std::fflush(stdout);
    }
    std::printf("%d passed, %d failed, 0 skipped\n", int(N) - bad, bad);
    return bad ? 1 : 0;
}

} // namespace kit

#endif
