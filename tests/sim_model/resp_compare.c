/*
 * resp_compare.c — cutting RESP into replies, comparing and showing them
 */
#include "resp_compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t reply_len(const char *p, size_t n)
{
    const char *nl = n == 0 ? NULL : memchr(p, '\n', n);
    if (nl == NULL) {
        return 0;
    }
    size_t used = (size_t)(nl - p) + 1;
    long v = strtol(p + 1, NULL, 10);
    switch (p[0]) {
    case '$':
        if (v >= 0) {
            used += (size_t)v + 2;
        }
        return used <= n ? used : 0;
    case '*':
        break;
    default:
        return used;
    }
    for (long i = 0; i < v; i++) {
        size_t m = reply_len(p + used, n - used);
        if (m == 0) {
            return 0;
        }
        used += m;
    }
    return used;
}

size_t count_replies(const char *p, size_t n, size_t *bytes)
{
    size_t count = 0;
    size_t at = 0;
    size_t m;
    while (at < n && (m = reply_len(p + at, n - at)) > 0) {
        at += m;
        count++;
    }
    *bytes = at;
    return count;
}

struct slice {
    const char *p;
    size_t n;
};

static int slice_cmp(const void *a, const void *b)
{
    const struct slice *x = a;
    const struct slice *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int r = memcmp(x->p, y->p, n);
    return r != 0 ? r : (x->n > y->n) - (x->n < y->n);
}

/* Equal as sets? SCAN's array is the second element of a pair. */
static bool equal_sorted(const char *a, size_t an, const char *b, size_t bn)
{
    static struct slice x[4096];
    static struct slice y[4096];
    if (an > 4 && memcmp(a, "*2\r\n$1\r\n0\r\n", 11) == 0 && bn > 11 &&
        memcmp(a, b, 11) == 0) {
        a += 11;
        an -= 11;
        b += 11;
        bn -= 11;
    }
    if (an != bn || a[0] != '*') {
        return an == bn && memcmp(a, b, an) == 0;
    }
    const char *pa = memchr(a, '\n', an);
    size_t head = (size_t)(pa - a) + 1;
    if (memcmp(a, b, head) != 0) {
        return false;
    }
    size_t n = 0;
    size_t m = 0;
    for (size_t i = head; i < an && n < 4096; i += x[n++].n) {
        x[n].p = a + i;
        x[n].n = reply_len(a + i, an - i);
    }
    for (size_t i = head; i < bn && m < 4096; i += y[m++].n) {
        y[m].p = b + i;
        y[m].n = reply_len(b + i, bn - i);
    }
    qsort(x, n, sizeof x[0], slice_cmp);
    qsort(y, m, sizeof y[0], slice_cmp);
    for (size_t i = 0; i < n && n == m; i++) {
        if (slice_cmp(&x[i], &y[i]) != 0) {
            return false;
        }
    }
    return n == m;
}

/* Equal but for the numbers? */
static bool equal_shape(const char *a, size_t an, const char *b, size_t bn)
{
    while (an > 0 && bn > 0) {
        const char *ea = memchr(a, '\n', an);
        const char *eb = memchr(b, '\n', bn);
        size_t n = ea == NULL ? an : (size_t)(ea - a) + 1;
        size_t m = eb == NULL ? bn : (size_t)(eb - b) + 1;
        if ((a[0] != ':' || b[0] != ':') && (n != m || memcmp(a, b, n) != 0)) {
            return false;
        }
        a += n;
        an -= n;
        b += m;
        bn -= m;
    }
    return an == bn;
}

/* Has INFO's text b every field that a has? */
static bool has_fields(const char *a, size_t an, const char *b, size_t bn)
{
    const char *end = a + an;
    while (a < end) {
        const char *stop = memchr(a, '\n', (size_t)(end - a));
        const char *colon = memchr(a, ':', (size_t)(end - a));
        stop = stop == NULL ? end : stop + 1;
        if (colon != NULL && colon < stop &&
            memmem(b, bn, a, (size_t)(colon - a) + 1) == NULL) {
            return false;
        }
        a = stop;
    }
    return true;
}

bool replies_equal(enum compare how, const char *a, size_t an, const char *b,
                   size_t bn)
{
    if (an == bn && memcmp(a, b, an) == 0) {
        return true;
    }
    if (how == SORTED) {
        return equal_sorted(a, an, b, bn);
    }
    if (how == SHAPE) {
        return equal_shape(a, an, b, bn);
    }
    if (how == FIELDS) {
        return a[0] == '$' && b[0] == '$' && has_fields(a, an, b, bn);
    }
    if (how == NEAR && a[0] == ':' && b[0] == ':') {
        long long x = strtoll(a + 1, NULL, 10);
        long long y = strtoll(b + 1, NULL, 10);
        return x > 0 && y > 0 && llabs(x - y) < 10000;
    }
    return false;
}

void show(const char *what, const char *p, size_t n)
{
    fprintf(stderr, "%s", what);
    for (size_t i = 0; i < n && i < 2000; i++) {
        unsigned char ch = (unsigned char)p[i];
        if (ch >= 32 && ch < 127) {
            fputc(ch, stderr);
        } else {
            fprintf(stderr, "\\x%02x", ch);
        }
    }
}
