/*
 * lua_short.c — what lock scripts do most with numbers and memory, shorter
 *
 * Profiles of the simulator show half of all scripts' time in four places of
 * stock Lua: string.format (printf of doubles), tonumber (strtod, twice),
 * patterns (a recursion for each item) and malloc. Here are the plain cases of
 * the first three, those that our scripts use: whole numbers below 2^53,
 * digits, strings, patterns of records with blanks between. Everything else
 * (and every error) goes to Lua's own function, within the same call, so that
 * what a script sees is the same to the byte. The allocator keeps small
 * blocks in lists by size; Lua tells the size of what it frees.
 */
#include "internal.h"

#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lua's own function, behind ours ----------------------------------- */

static int original(lua_State *L)
{
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* Replaces the function `name` of the table on top. */
static void put_before(lua_State *L, const char *name, lua_CFunction f)
{
    lua_getfield(L, -1, name);
    lua_pushcclosure(L, f, 1);
    lua_setfield(L, -2, name);
}

/* ---- string.format ----------------------------------------------------- */

#define FORMAT_MAX 1024u
#define WHOLE_MAX  (1ll << 53)

struct text {
    size_t n;
    char p[FORMAT_MAX];
};

static bool add(struct text *t, const char *p, size_t n)
{
    if (n > FORMAT_MAX - t->n) {
        return false;
    }
    memcpy(t->p + t->n, p, n);
    t->n += n;
    return true;
}

/* %d and %.0f of a whole number are its digits. */
static bool add_whole(lua_State *L, int i, struct text *t)
{
    if (lua_type(L, i) != LUA_TNUMBER) {
        return false;
    }
    double v = lua_tonumber(L, i);
    if (!(fabs(v) < (double)WHOLE_MAX) || v != (double)(long long)v ||
        (v == 0 && signbit(v))) {
        return false;
    }
    char digits[24];
    return add(t, digits, sr_format_ll(digits, (long long)v));
}

/* %s of a string: itself, unless printf would stop at a NUL. */
static bool add_string(lua_State *L, int i, struct text *t)
{
    size_t n;
    if (lua_type(L, i) != LUA_TSTRING) {
        return false;
    }
    const char *p = lua_tolstring(L, i, &n);
    return memchr(p, '\0', n) == NULL && add(t, p, n);
}

/* false: not one of the plain cases. */
static bool format_plain(lua_State *L, struct text *t)
{
    size_t n;
    if (lua_type(L, 1) != LUA_TSTRING) {
        return false;
    }
    const char *p = lua_tolstring(L, 1, &n);
    const char *end = p + n;
    for (int i = 2;; i++) {
        const char *mark = memchr(p, '%', (size_t)(end - p));
        if (mark == NULL) {
            return add(t, p, (size_t)(end - p));
        }
        bool ok = add(t, p, (size_t)(mark - p));
        p = mark + 2; /* a NUL stands behind the last byte */
        if (mark[1] == 's') {
            ok = ok && add_string(L, i, t);
        } else if (mark[1] == 'd') {
            ok = ok && add_whole(L, i, t);
        } else if (strncmp(mark + 1, ".0f", 3) == 0) {
            p = mark + 4;
            ok = ok && add_whole(L, i, t);
        } else {
            return false;
        }
        if (!ok) {
            return false;
        }
    }
}

static int short_format(lua_State *L)
{
    struct text t;
    t.n = 0;
    if (!format_plain(L, &t)) {
        return original(L);
    }
    lua_pushlstring(L, t.p, t.n);
    return 1;
}

/* ---- tonumber ---------------------------------------------------------- */

static bool is_digit(char ch)
{
    return ch >= '0' && ch <= '9';
}

/* Digits and no base: below 2^53, so exact. Tokens have 16. */
static int short_tonumber(lua_State *L)
{
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING) {
        return original(L);
    }
    size_t n;
    const char *p = lua_tolstring(L, 1, &n);
    if (n == 0 || n > 16) {
        return original(L);
    }
    long long v = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(p[i])) {
            return original(L);
        }
        v = v * 10 + (p[i] - '0');
    }
    if (v >= WHOLE_MAX) {
        return original(L);
    }
    lua_pushnumber(L, (lua_Number)v);
    return 1;
}

/* ---- string.find, string.match ------------------------------------------ */

/* Anchored patterns of plain bytes, captures, a last ".*", and %d+ %x+ %S+ each
 * before a byte outside its class or before the end. Such a class then always
 * takes all that it can, so nothing has ever to be tried again. */
#define CAPTURES 8

struct matched {
    const char *from[CAPTURES], *to[CAPTURES]; /* to NULL: not closed */
    int n;
    const char *end;
};

enum outcome { NO, YES, NOT_PLAIN };

static bool is_hex(char ch)
{
    return is_digit(ch) || (ch >= 'a' && ch <= 'f') || (ch >= 'A' && ch <= 'F');
}

static bool is_blank(char ch)
{
    return ch == ' ' || (ch >= '\t' && ch <= '\r');
}

/* The first byte from s on that is not of the class. */
static const char *run_end(char class, const char *s, const char *end)
{
    switch (class) {
    case 'd':
        while (s < end && is_digit(*s)) {
            s++;
        }
        return s;
    case 'x':
        while (s < end && is_hex(*s)) {
            s++;
        }
        return s;
    default:
        while (s < end && !is_blank(*s)) {
            s++;
        }
        return s;
    }
}

static bool is_plain(char ch)
{
    return ch == ' ' || is_digit(ch) || (ch >= 'a' && ch <= 'z') ||
           (ch >= 'A' && ch <= 'Z');
}

static bool is_end(const char *p)
{
    return *p == '\0' || (*p == '$' && p[1] == '\0');
}

/* "%d+", "%x+" or "%S+", and behind it what ends it for certain. */
static bool is_run(const char *p)
{
    if ((p[1] != 'd' && p[1] != 'x' && p[1] != 'S') || p[2] != '+') {
        return false;
    }
    const char *next = p + 3 + strspn(p + 3, "()");
    return is_end(next) ||
           (is_plain(*next) && run_end(p[1], next, next + 1) == next);
}

static bool close_capture(struct matched *m, const char *s)
{
    int i = m->n - 1;
    while (i >= 0 && m->to[i] != NULL) {
        i--;
    }
    if (i >= 0) {
        m->to[i] = s;
    }
    return i >= 0;
}

/* p: behind the '^'. */
static enum outcome match_plain(const char *p, const char *s, const char *end,
                                struct matched *m)
{
    m->n = 0;
    const char *was;
    for (; !is_end(p); p++) {
        switch (*p) {
        case '(':
            if (m->n == CAPTURES || p[1] == ')') {
                return NOT_PLAIN;
            }
            m->from[m->n] = s;
            m->to[m->n++] = NULL;
            break;
        case ')':
            if (!close_capture(m, s)) {
                return NOT_PLAIN;
            }
            break;
        case '.':
            if (p[1] != '*' || !is_end(p + 2 + strspn(p + 2, ")"))) {
                return NOT_PLAIN;
            }
            s = end;
            p++;
            break;
        case '%':
            if (!is_run(p)) {
                return NOT_PLAIN;
            }
            was = s;
            s = run_end(p[1], s, end);
            if (s == was) {
                return NO;
            }
            p += 2;
            break;
        default:
            if (!is_plain(*p) || (p[1] != '\0' && strchr("*+-?", p[1]))) {
                return NOT_PLAIN;
            }
            if (s == end || *s != *p) {
                return NO;
            }
            s++;
            break;
        }
    }
    if (*p == '$' && s != end) {
        return NO;
    }
    m->end = s;
    return close_capture(m, s) ? NOT_PLAIN : YES;
}

/* Subject and pattern, no start index; *s: the subject. */
static enum outcome match_args(lua_State *L, const char **s, struct matched *m)
{
    size_t n, pn;
    if (lua_gettop(L) != 2 || lua_type(L, 1) != LUA_TSTRING ||
        lua_type(L, 2) != LUA_TSTRING) {
        return NOT_PLAIN;
    }
    *s = lua_tolstring(L, 1, &n);
    const char *p = lua_tolstring(L, 2, &pn);
    if (p[0] != '^' || strlen(p) != pn) {
        return NOT_PLAIN;
    }
    return match_plain(p + 1, *s, *s + n, m);
}

static int push_captures(lua_State *L, const struct matched *m)
{
    for (int i = 0; i < m->n; i++) {
        lua_pushlstring(L, m->from[i], (size_t)(m->to[i] - m->from[i]));
    }
    return m->n;
}

static int short_find(lua_State *L)
{
    struct matched m;
    const char *s;
    enum outcome got = match_args(L, &s, &m);
    if (got == NOT_PLAIN) {
        return original(L);
    }
    if (got == NO) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushinteger(L, 1);
    lua_pushinteger(L, m.end - s);
    return 2 + push_captures(L, &m);
}

static int short_match(lua_State *L)
{
    struct matched m;
    const char *s;
    enum outcome got = match_args(L, &s, &m);
    if (got == NOT_PLAIN) {
        return original(L);
    }
    if (got == NO) {
        lua_pushnil(L);
        return 1;
    }
    if (m.n == 0) {
        lua_pushlstring(L, s, (size_t)(m.end - s));
        return 1;
    }
    return push_captures(L, &m);
}

void sr_lua_open_short(lua_State *L)
{
    put_before(L, "tonumber", short_tonumber);
    lua_getfield(L, -1, "string");
    put_before(L, "format", short_format);
    put_before(L, "find", short_find);
    put_before(L, "match", short_match);
    lua_pop(L, 1);
}

/* ---- memory ------------------------------------------------------------ */

#define STEP  16u
#define CHUNK 65536u

struct sr_block {
    struct sr_block *next;
};

static size_t class_of(size_t n)
{
    return (n - 1) / STEP;
}

static void *take(struct sr_pool *pool, size_t n)
{
    if (n > SR_POOL_MAX) {
        return sr_alloc(n);
    }
    size_t class = class_of(n);
    struct sr_block *b = pool->unused[class];
    if (b != NULL) {
        pool->unused[class] = b->next;
        return b;
    }
    size_t size = (class + 1) * STEP;
    if (pool->left < size) {
        struct sr_block *chunk = sr_alloc(CHUNK);
        chunk->next = pool->chunks;
        pool->chunks = chunk;
        pool->at = (char *)chunk + STEP;
        pool->left = CHUNK - STEP;
    }
    pool->at += size;
    pool->left -= size;
    return pool->at - size;
}

static void give(struct sr_pool *pool, void *p, size_t n)
{
    if (n > SR_POOL_MAX) {
        free(p);
    } else if (p != NULL) {
        struct sr_block *b = p;
        b->next = pool->unused[class_of(n)];
        pool->unused[class_of(n)] = b;
    }
}

void *sr_pool_alloc(void *user, void *p, size_t was, size_t n)
{
    struct sr_pool *pool = user;
    if (n == 0) {
        give(pool, p, was);
        return NULL;
    }
    if (p == NULL) {
        return take(pool, n);
    }
    if (was > SR_POOL_MAX && n > SR_POOL_MAX) {
        return sr_realloc(p, n);
    }
    if (was <= SR_POOL_MAX && n <= SR_POOL_MAX &&
        class_of(was) == class_of(n)) {
        return p;
    }
    void *q = take(pool, n);
    memcpy(q, p, was < n ? was : n);
    give(pool, p, was);
    return q;
}

void sr_pool_free(struct sr_pool *pool)
{
    while (pool->chunks != NULL) {
        struct sr_block *next = pool->chunks->next;
        free(pool->chunks);
        pool->chunks = next;
    }
}
