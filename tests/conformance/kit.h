/* tests/conformance/kit.h — what the cases of all conformance programs share:
 * clients of the store under test, facts that are waited for. */
#ifndef SNIB_TESTS_CONFORMANCE_KIT_H
#define SNIB_TESTS_CONFORMANCE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "snib.h"

/* PROGRAM URL [CASE]. False: wrong, and it was said. */
bool take_arguments(int argc, char **argv);

/* Of the store, as given. */
const char *store_url(void);
bool is_memory(void);

int64_t now_ms(void);

/* Between two looks at a fact that must come true before a deadline. */
void look_again_after_ms(int ms);

/* A lock's name that nobody has used before. Valid for the next 63 calls. */
const char *fresh_name(void);

/* The test's; free with snib_client_free, snib_lock_free. They fail the case
 * rather than return NULL: not for threads of one's own. */
struct snib_client *open_client(void);
struct snib_lock *lock_with(struct snib_client *, const char *name,
                            const struct snib_lock_options *);

snib_err acquire_for(struct snib_lock *, int64_t wait_ms, struct snib_grant *);

/* Fails the case at the caller's line when err is not OK. */
void must_at(snib_err, const char *file, int line);
#define must(err) must_at((err), __FILE__, __LINE__)

/* Fails the case at the caller's line when err is another. */
void must_be_at(snib_err, snib_err want, const char *file, int line);
#define must_be(err, want) must_be_at((err), (want), __FILE__, __LINE__)

size_t waiters_of(struct snib_client *, const char *name);
/* At least (at most) so many, within 5 s. */
void wait_for_waiters(struct snib_client *, const char *name, size_t);
void wait_for_fewer_waiters(struct snib_client *, const char *name, size_t);

/* What on_change was told. */
struct changes {
    atomic_int lost, reason;
};
void note_change(void *changes, struct snib_grant, snib_state, snib_reason);

/* The next event, within 5 s. */
struct snib_event next_event(struct snib_client *);

#endif
