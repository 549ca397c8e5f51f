/* base/glob.c — names by pattern; see glob.h. */
#include "base/glob.h"

/* Matches one [set]. Returns the byte after it, or NULL when it is never closed
 * (then the bracket is an ordinary byte, as in sh). */
static const char *glob_in_set(const char *g, const char *end, unsigned char ch,
                               bool *ret_hit)
{
    bool negate = g < end && (*g == '!' || *g == '^'), hit = false;
    const char *p = g + negate, *first = p;
    while (p < end && (*p != ']' || p == first)) {
        unsigned char lo = (unsigned char)*p, hi;
        if (lo == '\\' && p + 1 < end) {
            lo = (unsigned char)*++p;
        }
        hi = lo;
        if (p + 2 < end && p[1] == '-' && p[2] != ']') {
            hi = (unsigned char)p[2];
            p += 2;
        }
        hit |= lo <= ch && ch <= hi;
        p++;
    }
    if (p >= end) {
        return NULL;
    }
    *ret_hit = hit != negate;
    return p + 1;
}

/* Matches one element of the glob against one byte; returns what follows it. */
static const char *glob_match_one(const char *g, const char *end,
                                  unsigned char ch, bool *ret_hit)
{
    const char *next;
    if (*g == '?') {
        *ret_hit = true;
        return g + 1;
    }
    if (*g == '[' && (next = glob_in_set(g + 1, end, ch, ret_hit))) {
        return next;
    }
    if (*g == '\\' && g + 1 < end) {
        g++;
    }
    *ret_hit = (unsigned char)*g == ch;
    return g + 1;
}

/* Linear in practice: only the last star is ever tried again. */
bool snib__glob(const char *glob, size_t glob_size, const char *s, size_t size)
{
    const char *star = NULL, *retry = NULL;
    if (!glob) {
        return true;
    }
    const char *g = glob, *g_end = glob + glob_size, *s_end = s + size;
    while (s < s_end) {
        bool hit = false;
        if (g < g_end && *g == '*') {
            star = ++g;
            retry = s;
            continue;
        }
        if (g < g_end) {
            const char *next =
                glob_match_one(g, g_end, (unsigned char)*s, &hit);
            if (hit) {
                g = next;
                s++;
                continue;
            }
        }
        if (!star) {
            return false;
        }
        g = star;
        s = ++retry;
    }
    while (g < g_end && *g == '*') {
        g++;
    }
    return g == g_end;
}
