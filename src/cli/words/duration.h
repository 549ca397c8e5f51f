/* duration.h — durations as people type them: `250ms`, `30s`, `5m`, `2h`.
 *
 * A bare number is an error that says so: is 30 thirty seconds or thirty
 * milliseconds? Other tools disagree. `0` and `forever` are words of their own,
 * accepted where an option allows them. Whole numbers only; no sign, no spaces,
 * one unit.
 */
#ifndef SNIB_CLI_DURATION_H
#define SNIB_CLI_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DURATION_FOREVER INT64_C(-1)
/* A hundred years; longer than that is `forever` or a typing error. */
#define DURATION_MAX_MS INT64_C(3155760000000)

#define DURATION_ZERO_OK    0x1u /* the word 0 */
#define DURATION_FOREVER_OK 0x2u /* the word forever */

/* Parse text. If false, *ret_why is a static phrase that completes "…: ". */
bool duration_parse(const char *text, unsigned allowed, int64_t *ret_ms,
                    const char **ret_why);

#define DURATION_TEXT_MAX 32
/* Write ms as it could have been typed, nothing rounded; returns ret. */
const char *duration_exact(int64_t ms, char ret[DURATION_TEXT_MAX]);
/* "250ms", "24s", "3m12s", "2h05m", "3d4h"; for people, not for parsing. */
void duration_text(int64_t ms, char ret[DURATION_TEXT_MAX]);

#endif
