/*
 * util.c — bytes and numbers, the way Redis reads and writes them
 *
 * Numbers are where a model gives itself away: Redis accepts " 1" as a score
 * nowhere, "+1" as a score but not as an integer, and "007" as neither an
 * integer nor an error in a score. Each function below is one of Redis'
 * helpers (util.c, object.c), with its edge cases.
 */
#include "internal.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *p)
{
    if (p == NULL) {
        abort(); /* test code: no recovery worth having */
    }
    return p;
}

void *sr_alloc(size_t n)
{
    return checked(malloc(n == 0 ? 1 : n));
}

void *sr_zalloc(size_t n)
{
    return checked(calloc(1, n == 0 ? 1 : n));
}

void *sr_realloc(void *p, size_t n)
{
    return checked(realloc(p, n == 0 ? 1 : n));
}

void sr_buf_reserve(struct sr_buf *b, size_t more)
{
    size_t need = b->len + more;
    if (need <= b->cap) {
        return;
    }
    size_t cap = b->cap < 256 ? 256 : b->cap;
    while (cap < need) {
        cap *= 2;
    }
    b->p = sr_realloc(b->p, cap);
    b->cap = cap;
}

void sr_buf_add(struct sr_buf *b, const void *p, size_t n)
{
    if (n == 0) {
        return;
    }
    sr_buf_reserve(b, n);
    memcpy(b->p + b->len, p, n);
    b->len += n;
}

void sr_buf_add_cstr(struct sr_buf *b, const char *s)
{
    sr_buf_add(b, s, strlen(s));
}

void sr_buf_vprintf(struct sr_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) {
        return;
    }
    sr_buf_reserve(b, (size_t)n + 1);
    vsnprintf(b->p + b->len, (size_t)n + 1, fmt, ap);
    b->len += (size_t)n;
}

void sr_buf_free(struct sr_buf *b)
{
    free(b->p);
    b->p = NULL;
    b->len = 0;
    b->cap = 0;
}

struct sr_str *sr_str_new(const void *p, size_t n)
{
    struct sr_str *s = sr_alloc(sizeof *s + n + 1);
    s->len = (uint32_t)n;
    if (n > 0) {
        memcpy(s->p, p, n);
    }
    s->p[n] = '\0';
    return s;
}

bool sr_parse_ll(const char *p, size_t n, long long *out)
{
    if (n == 0 || n >= 21) {
        return false;
    }
    if (n == 1 && p[0] == '0') {
        *out = 0;
        return true;
    }
    size_t i = 0;
    bool negative = p[0] == '-';
    if (negative) {
        i = 1;
        if (n == 1) {
            return false;
        }
    }
    if (p[i] < '1' || p[i] > '9') {
        return false;
    }
    unsigned long long v = 0;
    for (; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return false;
        }
        unsigned digit = (unsigned)(p[i] - '0');
        if (v > (ULLONG_MAX - digit) / 10) {
            return false;
        }
        v = v * 10 + digit;
    }
    if (negative) {
        if (v > (unsigned long long)LLONG_MAX + 1) {
            return false;
        }
        *out =
            v == (unsigned long long)LLONG_MAX + 1 ? LLONG_MIN : -(long long)v;
    } else {
        if (v > (unsigned long long)LLONG_MAX) {
            return false;
        }
        *out = (long long)v;
    }
    return true;
}

bool sr_parse_double(const char *p, size_t n, double *out)
{
    /* Small integers, the usual case, without strtod. */
    if (n > 0 && n < 16) {
        long long v = 0;
        size_t i = p[0] == '-' ? 1 : 0;
        size_t from = i;
        while (i < n && p[i] >= '0' && p[i] <= '9') {
            v = v * 10 + (p[i] - '0');
            i++;
        }
        if (i == n && i > from && v != 0) {
            *out = (double)(from == 1 ? -v : v);
            return true;
        }
    }
    char *end;
    errno = 0;
    double d = strtod(p, &end);
    if (n == 0 || isspace((unsigned char)p[0]) || (size_t)(end - p) != n ||
        (errno == ERANGE && (isinf(d) || fpclassify(d) == FP_ZERO)) ||
        isnan(d)) {
        return false;
    }
    *out = d;
    return true;
}

size_t sr_format_ll(char *buf, long long v)
{
    char tmp[24];
    char *p = tmp + sizeof tmp;
    unsigned long long u =
        v < 0 ? 0ull - (unsigned long long)v : (unsigned long long)v;
    do {
        *--p = (char)('0' + u % 10);
        u /= 10;
    } while (u != 0);
    if (v < 0) {
        *--p = '-';
    }
    size_t n = (size_t)(tmp + sizeof tmp - p);
    memcpy(buf, p, n);
    buf[n] = '\0';
    return n;
}

size_t sr_format_double(char *buf, size_t cap, double v)
{
    if (v > -1e15 && v < 1e15 && !(v == 0 && signbit(v))) {
        long long whole = (long long)v;
        if ((double)whole == v) {
            return sr_format_ll(buf, whole);
        }
    }
    int n = snprintf(buf, cap, "%.17g", v);
    return n < 0 ? 0 : (size_t)n;
}

long long sr_double_to_ll(double v)
{
    const double limit = 9223372036854775808.0;
    return v >= -limit && v < limit ? (long long)v : LLONG_MIN;
}

int sr_bytes_cmp(const char *a, size_t an, const char *b, size_t bn)
{
    size_t n = an < bn ? an : bn;
    int r = n == 0 ? 0 : memcmp(a, b, n);
    if (r != 0) {
        return r;
    }
    return an < bn ? -1 : an > bn ? 1 : 0;
}

bool sr_is(const struct sim_redis_arg *a, const char *word)
{
    const char *p = a->ptr;
    while (*word != '\0') {
        char ch = *p++;
        if (ch >= 'A' && ch <= 'Z') {
            ch = (char)(ch - 'A' + 'a');
        }
        if (ch != *word++) {
            return false;
        }
    }
    return *p == '\0';
}

/* One [...] class; *pat is left on the closing bracket (or the last byte). */
static bool glob_class(const char **pat, size_t *plen, char ch)
{
    const char *p = *pat + 1;
    size_t n = *plen - 1;
    bool negate = n > 0 && p[0] == '^';
    if (negate) {
        p++;
        n--;
    }
    bool match = false;
    for (;;) {
        if (n >= 2 && p[0] == '\\') {
            p++;
            n--;
            match = match || p[0] == ch;
        } else if (n > 0 && p[0] == ']') {
            break;
        } else if (n == 0) {
            p--;
            n++;
            break;
        } else if (n >= 3 && p[1] == '-') {
            char lo = p[0] < p[2] ? p[0] : p[2];
            char hi = p[0] < p[2] ? p[2] : p[0];
            p += 2;
            n -= 2;
            match = match || (ch >= lo && ch <= hi);
        } else {
            match = match || p[0] == ch;
        }
        p++;
        n--;
    }
    *pat = p;
    *plen = n;
    return negate ? !match : match;
}

static bool glob_at(const char *pat, size_t plen, const char *s, size_t slen,
                    bool *give_up)
{
    while (plen > 0 && slen > 0) {
        if (pat[0] == '*') {
            while (plen > 1 && pat[1] == '*') {
                pat++;
                plen--;
            }
            if (plen == 1) {
                return true;
            }
            while (slen > 0) {
                if (glob_at(pat + 1, plen - 1, s, slen, give_up)) {
                    return true;
                }
                if (*give_up) {
                    return false;
                }
                s++;
                slen--;
            }
            *give_up = true;
            return false;
        }
        if (pat[0] == '[') {
            if (!glob_class(&pat, &plen, s[0])) {
                return false;
            }
        } else if (pat[0] != '?') {
            if (pat[0] == '\\' && plen >= 2) {
                pat++;
                plen--;
            }
            if (pat[0] != s[0]) {
                return false;
            }
        }
        s++;
        slen--;
        pat++;
        plen--;
        if (slen == 0) {
            while (plen > 0 && *pat == '*') {
                pat++;
                plen--;
            }
            break;
        }
    }
    return plen == 0 && slen == 0;
}

bool sr_glob(const char *pat, size_t plen, const char *s, size_t slen)
{
    bool give_up = false;
    return glob_at(pat, plen, s, slen, &give_up);
}
