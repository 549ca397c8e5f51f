/* core/about.c — the line of text that says who stands behind a claim.
 *
 * Any version of ours writes it, any other reads it, and people are shown it.
 * So the reader skips what it does not know and never fails. The numbers matter
 * more than the words (pid and start decide whether a holder is alive, leashed
 * whether that may be used). So space for them is set aside first, and the
 * words, the reason last, are cut to what remains. A cut never leaves half of a
 * UTF-8 character. */
#include "core/about.h"

#include <string.h>

/* "&pid=", "&start=", "&since=", "&owner=" with 19 digits each, and
 * "&leashed=1". "&held=" and "&above=" take what they need on top of that. */
enum {
    NUMBERS_MAX = 5 + 7 + 7 + 6 + 4 * 19 + 10,
    HELD_SIZE = 17,
    KEYS_OF_HELD = 6 + 7
};

struct writer {
    struct snib__buf *out;
    size_t left; /* for words */
    bool more;   /* a separator is due */
};

static bool about_stands_for_itself(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') ||
           (c && memchr("-._~:/@,", c, sizeof "-._~:/@," - 1));
}

static bool about_continues_character(char c)
{
    return ((uint8_t)c & 0xc0) == 0x80;
}

/* The largest n <= most at which text, of size bytes, may be cut. */
static size_t about_cut_at(const char *text, size_t size, size_t most)
{
    size_t n = size < most ? size : most;
    while (n && n < size && about_continues_character(text[n])) {
        n--;
    }
    return n;
}

/* How many bytes of text fit into `left` bytes when encoded. */
static size_t about_fitting(const char *text, size_t size, size_t left)
{
    size_t n = 0, used = 0;
    while (n < size) {
        used += about_stands_for_itself((uint8_t)text[n]) ? 1 : 3;
        if (used > left) {
            break;
        }
        n++;
    }
    return about_cut_at(text, size, n);
}

static void about_put_key(struct writer *w, const char *key)
{
    if (w->more) {
        snib__buf_puts(w->out, "&");
    }
    snib__buf_puts(w->out, key);
    snib__buf_puts(w->out, "=");
    w->more = true;
}

/* max: size of the array, which need not hold a NUL. */
static void about_put_words(struct writer *w, const char *key, const char *text,
                            size_t max)
{
    size_t overhead = strlen(key) + 2;
    if (w->left <= overhead) {
        return;
    }
    size_t n = about_fitting(text, strnlen(text, max), w->left - overhead);
    if (!n) {
        return;
    }
    about_put_key(w, key);
    w->left -= overhead;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)text[i];
        if (about_stands_for_itself(c)) {
            snib__buf_add(w->out, &text[i], 1);
            w->left -= 1;
        } else {
            snib__buf_printf(w->out, "%%%02X", (unsigned)c);
            w->left -= 3;
        }
    }
}

static void about_put_number(struct writer *w, const char *key, int64_t v)
{
    if (v <= 0) {
        return;
    }
    /* "&since=1790000000000", from its end on; keys have at most 7 bytes. */
    char text[SNIB__I64_TEXT + 16], *end = text + sizeof text;
    size_t size = strlen(key);
    char *p = text + (snib__i64_text(end - SNIB__I64_TEXT, v) - text);
    *--p = '=';
    p -= size;
    memcpy(p, key, size);
    if (w->more) {
        *--p = '&';
    }
    snib__buf_add(w->out, p, (size_t)(end - p));
    w->more = true;
}

/* "held=0123456789abcdef,…" */
static void about_put_ids(struct writer *w, const char *key,
                          const uint64_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0) {
            about_put_key(w, key);
        } else {
            snib__buf_puts(w->out, ",");
        }
        snib__buf_printf(w->out, "%016llx", (unsigned long long)ids[i]);
    }
}

static void about_put_head(struct writer *w, const struct snib__about *a)
{
    about_put_words(w, "host", a->host, sizeof a->host);
    about_put_number(w, "pid", a->pid);
    about_put_words(w, "user", a->user, sizeof a->user);
    about_put_words(w, "program", a->program, sizeof a->program);
}

static void about_put_rest(struct writer *w, const struct snib__about *a)
{
    about_put_words(w, "reason", a->reason, sizeof a->reason);
    about_put_number(w, "since", a->since_ms);
    about_put_number(w, "start", a->start);
    about_put_number(w, "leashed", a->leashed ? 1 : 0);
    about_put_number(w, "owner", a->owner);
    about_put_ids(w, "held", a->held, a->held_count - a->above_count);
    about_put_ids(w, "above", a->held + a->held_count - a->above_count,
                  a->above_count);
}

void snib__about_write(const struct snib__about *a, struct snib__buf *out)
{
    struct writer w = {.out = out, .left = SNIB__ABOUT_MAX - NUMBERS_MAX};
    if (a->held_count) {
        w.left -= KEYS_OF_HELD + a->held_count * HELD_SIZE;
    }
    about_put_head(&w, a);
    about_put_rest(&w, a);
}

void snib__about_head(const struct snib__about *a, struct snib__about_head *ret)
{
    /* More than the words and one number may take: it never grows. */
    struct snib__buf out = {.data = (uint8_t *)ret->text,
                            .cap = sizeof ret->text,
                            .limit = sizeof ret->text - 1};
    struct writer w = {.out = &out, .left = SNIB__ABOUT_MAX - NUMBERS_MAX};
    about_put_head(&w, a);
    ret->size = (uint32_t)snib__buf_size(&out);
    ret->left = (uint32_t)w.left;
}

void snib__about_write_on(const struct snib__about_head *head,
                          const struct snib__about *a, struct snib__buf *out)
{
    if (a->held_count) { /* which leaves less to the words */
        snib__about_write(a, out);
        return;
    }
    struct writer w = {.out = out, .left = head->left, .more = head->size > 0};
    snib__buf_add(out, head->text, head->size);
    about_put_rest(&w, a);
}

struct piece {
    const char *p;
    size_t size;
};

/* Returns what stands before the next `stop`; text moves behind it. */
static struct piece about_split(struct piece *text, char stop)
{
    struct piece head = *text;
    const char *at = text->size ? memchr(text->p, stop, text->size) : NULL;
    if (!at) {
        text->size = 0;
        return head;
    }
    head.size = (size_t)(at - text->p);
    text->p = at + 1;
    text->size -= head.size + 1;
    return head;
}

static int about_digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The decoded byte at *at, which moves on; -1: malformed, or a NUL. */
static int about_decode_one(struct piece v, size_t *at)
{
    char c = v.p[*at];
    *at += 1;
    if (c != '%') {
        return c ? (uint8_t)c : -1;
    }
    if (v.size - *at < 2) {
        return -1;
    }
    int high = about_digit_of(v.p[*at]), low = about_digit_of(v.p[*at + 1]);
    *at += 2;
    return high < 0 || low < 0 || high + low == 0 ? -1 : high * 16 + low;
}

/* Decodes v into to[max] and cuts it to fit; malformed: "". */
static void about_get_words(struct piece v, char *to, size_t max)
{
    char text[SNIB__ABOUT_MAX + 1];
    size_t n = 0;
    for (size_t at = 0; at < v.size && n < sizeof text;) {
        int c = about_decode_one(v, &at);
        if (c < 0) {
            to[0] = 0;
            return;
        }
        text[n++] = (char)c;
    }
    n = about_cut_at(text, n, max - 1);
    memcpy(to, text, n);
    to[n] = 0;
}

/* A positive decimal number, 0 for anything else. */
static int64_t about_get_number(struct piece v)
{
    int64_t n = 0;
    for (size_t i = 0; i < v.size; i++) {
        if (v.p[i] < '0' || v.p[i] > '9' || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, v.p[i] - '0', &n)) {
            return 0;
        }
    }
    return n;
}

/* Reads whole ids only; anything else ends the list. */
static void about_get_held(struct piece v, struct snib__about *ret)
{
    while (v.size && ret->held_count < SNIB__ABOUT_HELD) {
        struct piece id = about_split(&v, ',');
        uint64_t n = 0;
        if (id.size != HELD_SIZE - 1) {
            return;
        }
        for (size_t i = 0; i < id.size; i++) {
            int digit = about_digit_of(id.p[i]);
            if (digit < 0) {
                return;
            }
            n = n << 4 | (uint64_t)digit;
        }
        ret->held[ret->held_count++] = n;
    }
}

static bool about_is(struct piece key, const char *word)
{
    return key.size == strlen(word) && memcmp(key.p, word, key.size) == 0;
}

void snib__about_read(const void *text, size_t size, struct snib__about *ret)
{
    *ret = (struct snib__about){0};
    struct piece rest = {text, text ? size : 0};
    while (rest.size) {
        struct piece value = about_split(&rest, '&');
        struct piece key = about_split(&value, '=');
        if (!key.size) {
            continue;
        }
        if (about_is(key, "host")) {
            about_get_words(value, ret->host, sizeof ret->host);
        } else if (about_is(key, "user")) {
            about_get_words(value, ret->user, sizeof ret->user);
        } else if (about_is(key, "program")) {
            about_get_words(value, ret->program, sizeof ret->program);
        } else if (about_is(key, "reason")) {
            about_get_words(value, ret->reason, sizeof ret->reason);
        } else if (about_is(key, "pid")) {
            ret->pid = about_get_number(value);
        } else if (about_is(key, "start")) {
            ret->start = about_get_number(value);
        } else if (about_is(key, "since")) {
            ret->since_ms = about_get_number(value);
        } else if (about_is(key, "leashed")) {
            ret->leashed = about_get_number(value) == 1;
        } else if (about_is(key, "owner")) {
            ret->owner = about_get_number(value);
        } else if (about_is(key, "held") && !ret->held_count) {
            about_get_held(value, ret);
        } else if (about_is(key, "above") && !ret->above_count) {
            uint32_t own = ret->held_count;
            about_get_held(value, ret);
            ret->above_count = ret->held_count - own;
        }
    }
}
