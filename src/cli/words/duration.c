/* duration.c — see duration.h. No libc parser is used: strtoll accepts spaces
 * and signs and saturates silently, and no lease may come from any of these. */
#include "cli/words/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct unit {
    const char *text;
    int64_t ms;
} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

static bool duration_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A word of its own: `0` or `forever`. */
static bool duration_parse_word(const char *text, unsigned allowed,
                                int64_t *ret_ms, const char **ret_why)
{
    *ret_why = NULL;
    if (strcmp(text, "0") == 0) {
        *ret_ms = 0;
        if ((allowed & DURATION_ZERO_OK) == 0) {
            *ret_why = "0 is not possible here";
        }
        return true;
    }
    if (strcmp(text, "forever") == 0) {
        *ret_ms = DURATION_FOREVER;
        if ((allowed & DURATION_FOREVER_OK) == 0) {
            *ret_why = "forever is not possible here";
        }
        return true;
    }
    return false;
}

static const struct unit *duration_find_unit(const char *text)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text, units[i].text) == 0) {
            return &units[i];
        }
    }
    return NULL;
}

bool duration_parse(const char *text, unsigned allowed, int64_t *ret_ms,
                    const char **ret_why)
{
    const struct unit *unit;
    int64_t number = 0;

    if (duration_parse_word(text, allowed, ret_ms, ret_why)) {
        return *ret_why == NULL;
    }
    if (!duration_is_digit(*text)) {
        *ret_why = "not a duration; write 250ms, 30s, 5m or 2h";
        return false;
    }
    for (; duration_is_digit(*text); text++) {
        number = number * 10 + (*text - '0');
        if (number > DURATION_MAX_MS) {
            *ret_why = "longer than a hundred years";
            return false;
        }
    }
    if (*text == '\0') {
        *ret_why = "a number without a unit; write 250ms, 30s, 5m or 2h";
        return false;
    }
    unit = duration_find_unit(text);
    if (unit == NULL) {
        *ret_why = *text == '.' || *text == ','
                       ? "whole numbers only; write 1500ms, not 1.5s"
                       : "unknown unit; the units are ms, s, m and h";
        return false;
    }
    if (number > DURATION_MAX_MS / unit->ms) {
        *ret_why = "longer than a hundred years";
        return false;
    }
    *ret_ms = number * unit->ms;
    if (*ret_ms == 0 && (allowed & DURATION_ZERO_OK) == 0) {
        *ret_why = "0 is not possible here";
        return false;
    }
    return true;
}

const char *duration_exact(int64_t ms, char ret[DURATION_TEXT_MAX])
{
    size_t i = sizeof units / sizeof units[0] - 1;

    while (ms % units[i].ms != 0) {
        i--;
    }
    snprintf(ret, DURATION_TEXT_MAX, "%" PRId64 "%s", ms / units[i].ms,
             units[i].text);
    return ret;
}

void duration_text(int64_t ms, char ret[DURATION_TEXT_MAX])
{
    const size_t size = DURATION_TEXT_MAX;
    int64_t s;

    if (ms < 0) {
        ms = 0;
    }
    s = ms / 1000;
    if (ms < 1000) {
        snprintf(ret, size, "%" PRId64 "ms", ms);
    } else if (s < 60) {
        snprintf(ret, size, "%" PRId64 "s", s);
    } else if (s < 3600) {
        snprintf(ret, size, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    } else if (s < 86400) {
        snprintf(ret, size, "%" PRId64 "h%02" PRId64 "m", s / 3600,
                 s % 3600 / 60);
    } else {
        snprintf(ret, size, "%" PRId64 "d%02" PRId64 "h", s / 86400,
                 s % 86400 / 3600);
    }
}
