/* tests/conformance/events.h — a client with or without a thread, and the events
 * of what it starts; for started.c and sequences.c. */
#ifndef SNIB_TESTS_CONFORMANCE_EVENTS_H
#define SNIB_TESTS_CONFORMANCE_EVENTS_H

#include <poll.h>

#include "kit.h"

static struct snib_client *open_for(bool pull)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_error err;
    o.url = store_url();
    o.pull = pull;
    if (snib_client_open(&o, &c, &err)) {
        fail_msg("%s: %s", o.url, err.text);
    }
    return c;
}

/* The next event, by the loop that event.h shows. */
static struct snib_event event_of(struct snib_client *c, bool pull)
{
    struct snib_event ev;
    int64_t deadline = now_ms() + 10000;
    for (;;) {
        if (pull) {
            must(snib_client_process(c));
        }
        if (snib_client_next(c, &ev, sizeof ev)) {
            return ev;
        }
        struct pollfd p = {.fd = snib_client_fd(c), .events = POLLIN};
        assert_true(now_ms() < deadline);
        poll(&p, 1, 1000);
    }
}

static snib_err answer(struct snib_client *c, bool pull, snib_err started,
                       const uint64_t *ticket)
{
    must(started);
    struct snib_event ev = event_of(c, pull);
    assert_int_equal(ev.kind, SNIB_EVENT_DONE);
    assert_int_equal(ev.grant.ticket, *ticket);
    assert_int_equal(!ev.error.code, !*ev.error.text);
    return ev.error.code;
}

/* In a scope with c, pull and ticket: the answer to f_start(…). */
#define ANSWER(f, ...)                                                         \
    answer(c, pull, f##_start(__VA_ARGS__, NULL, &ticket, NULL), &ticket)

#endif
