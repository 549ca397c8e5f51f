/* proto/resp.c — the RESP2 codec; see resp.h.
 *
 * hiredis' reader parses. Our object functions put the values that it found
 * into a fixed array of cells and copy texts into an arena (the reader's own
 * strings point into a buffer that moves). This file checks what the reader
 * does not: the reader has no bound on elements (0.14), takes a bulk string of
 * any length for "incomplete", and rescans an endless line from its start;
 * hence the bound on unread bytes. If our functions refuse an object, the
 * reader says "out of memory"; `over` then says that a bound was the cause.
 *
 * hiredis allocates its reader and read buffer itself, not by base/mem.h. */
#if !defined(SNIB_WITH_REDIS) || SNIB_WITH_REDIS
#include "proto/resp.h"

#include <string.h>

#include <hiredis/hiredis.h>
#include <hiredis/read.h>

#include "base/mem.h"

#if HIREDIS_MAJOR >= 1
typedef size_t array_size;
#else
typedef int array_size;
#endif

struct snib__resp {
    redisReader *reader;
    size_t unread_max;
    struct snib__buf arena;
    uint32_t cells;
    bool over;       /* a bound was passed                                 */
    bool short_of;   /* no memory                                          */
    const char *why; /* why it is BROKEN; NULL: it is not                  */
    struct snib__resp_cell cell[SNIB__RESP_CELLS];
};

/* -- writing --------------------------------------------------------------- */

static void resp_head(struct snib__buf *b, char type, uint64_t n)
{
    char text[24];
    char *p = text + sizeof text;
    *--p = '\n';
    *--p = '\r';
    do {
        *--p = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    *--p = type;
    snib__buf_add(b, p, (size_t)(text + sizeof text - p));
}

void snib__resp_begin(struct snib__buf *b, uint32_t argc)
{
    resp_head(b, '*', argc);
}

void snib__resp_open(struct snib__buf *b, size_t size)
{
    resp_head(b, '$', size);
}

void snib__resp_end(struct snib__buf *b)
{
    snib__buf_add(b, "\r\n", 2);
}

void snib__resp_arg(struct snib__buf *b, const void *p, size_t n)
{
    snib__resp_open(b, n);
    snib__buf_add(b, p, n);
    snib__resp_end(b);
}

void snib__resp_text(struct snib__buf *b, const char *text)
{
    snib__resp_arg(b, text, strlen(text));
}

void snib__resp_i64(struct snib__buf *b, int64_t v)
{
    char text[SNIB__I64_TEXT];
    const char *p = snib__i64_text(text, v);
    snib__resp_arg(b, p, (size_t)(text + sizeof text - p));
}

/* -- objects for hiredis --------------------------------------------------- */

static struct snib__resp_cell *resp_take(const redisReadTask *task,
                                         snib__resp_type type)
{
    struct snib__resp *r = task->privdata;
    if (r->cells == SNIB__RESP_CELLS) {
        r->over = true;
        return NULL;
    }
    struct snib__resp_cell *c = &r->cell[r->cells++];
    *c = (struct snib__resp_cell){.type = type, .span = 1, .text = ""};
    return c;
}

static void *resp_create_string(const redisReadTask *task, char *text,
                                size_t size)
{
    struct snib__resp *r = task->privdata;
    snib__resp_type type = task->type == REDIS_REPLY_ERROR ? SNIB__RESP_ERROR
                           : task->type == REDIS_REPLY_STATUS
                               ? SNIB__RESP_STATUS
                               : SNIB__RESP_STRING;
    struct snib__resp_cell *c = resp_take(task, type);
    if (!c) {
        return NULL;
    }
    if (size >= r->arena.limit - snib__buf_size(&r->arena)) {
        r->over = true;
        return NULL;
    }
    c->integer = (int64_t)snib__buf_size(&r->arena); /* offset, until done */
    c->size = (uint32_t)size;
    snib__buf_add(&r->arena, text, size);
    snib__buf_add(&r->arena, "", 1);
    if (r->arena.failed) {
        r->short_of = true;
        return NULL;
    }
    return c;
}

static void *resp_create_array(const redisReadTask *task, array_size elements)
{
    struct snib__resp *r = task->privdata;
    if (elements > SNIB__RESP_ELEMENTS) {
        r->over = true;
        return NULL;
    }
    struct snib__resp_cell *c = resp_take(task, SNIB__RESP_ARRAY);
    if (c) {
        c->size = (uint32_t)elements;
    }
    return c;
}

static void *resp_create_integer(const redisReadTask *task, long long v)
{
    struct snib__resp_cell *c = resp_take(task, SNIB__RESP_INTEGER);
    if (c) {
        c->integer = v;
    }
    return c;
}

static void *resp_create_nil(const redisReadTask *task)
{
    return resp_take(task, SNIB__RESP_NIL);
}

static void resp_free_object(void *object)
{
    (void)object; /* cells are given back all at once */
}

static redisReplyObjectFunctions functions = {
    .createString = resp_create_string,
    .createArray = resp_create_array,
    .createInteger = resp_create_integer,
    .createNil = resp_create_nil,
    .freeObject = resp_free_object,
};

/* -- reading --------------------------------------------------------------- */

bool snib__resp_reset(struct snib__resp *r)
{
    if (r->reader) {
        redisReaderFree(r->reader);
    }
    snib__buf_clear(&r->arena);
    r->cells = 0;
    r->over = r->short_of = false;
    r->why = NULL;
    r->reader = redisReaderCreateWithFunctions(&functions);
    if (!r->reader) {
        r->short_of = true;
        return false;
    }
    r->reader->maxbuf = 0; /* never shrinks: it would assert on memory */
#if HIREDIS_MAJOR >= 1
    r->reader->maxelements = SNIB__RESP_ELEMENTS;
#endif
    r->reader->privdata = r;
    return true;
}

snib_err snib__resp_new(size_t unread_max, struct snib__resp **ret)
{
    /* The cells (33 KB) need no zeroes: resp_take() writes each before use. */
    struct snib__resp *r = snib__realloc(NULL, sizeof *r);
    *ret = NULL;
    if (!r) {
        return SNIB_ERR_NOMEM;
    }
    memset(r, 0, offsetof(struct snib__resp, cell));
    r->unread_max = unread_max;
    snib__buf_init(&r->arena, unread_max + SNIB__RESP_CELLS);
    if (!snib__resp_reset(r)) {
        snib__resp_free(r);
        return SNIB_ERR_NOMEM;
    }
    *ret = r;
    return SNIB_ERR_OK;
}

void snib__resp_free(struct snib__resp *r)
{
    if (r) {
        if (r->reader) {
            redisReaderFree(r->reader);
        }
        snib__buf_free(&r->arena);
        snib__free(r);
    }
}

void snib__resp_feed(struct snib__resp *r, const void *bytes, size_t size)
{
    if (r->short_of || r->why || !size) {
        return;
    }
    if (redisReaderFeed(r->reader, bytes, size) != REDIS_OK) {
        r->short_of = true;
    }
}

/* Give texts their address and arrays their span. The loop goes backwards, so
 * that the spans of an array's elements are known when it reaches the array. */
static void resp_complete(struct snib__resp *r)
{
    const char *base = (const char *)snib__buf_bytes(&r->arena);
    for (uint32_t i = r->cells; i-- > 0;) {
        struct snib__resp_cell *c = &r->cell[i];
        switch (c->type) {
        case SNIB__RESP_STATUS:
        case SNIB__RESP_ERROR:
        case SNIB__RESP_STRING:
            c->text = base + c->integer;
            c->integer = 0;
            break;
        case SNIB__RESP_ARRAY:
            for (uint32_t n = c->size, at = 1; n; n--) {
                at += c[at].span;
                c->span = at;
            }
            break;
        case SNIB__RESP_NIL:
        case SNIB__RESP_INTEGER:
            break;
        }
    }
}

snib__resp_result snib__resp_next(struct snib__resp *r,
                                  const struct snib__resp_cell **ret)
{
    void *reply = NULL;
    *ret = NULL;
    if (r->short_of) {
        return SNIB__RESP_NOMEM;
    }
    if (r->why) {
        return SNIB__RESP_BROKEN;
    }
    if (r->cells && !r->reader->reply && r->reader->ridx < 0) {
        /* the last reply has been handed out */
        r->cells = 0;
        snib__buf_clear(&r->arena);
    }
    if (redisReaderGetReply(r->reader, &reply) != REDIS_OK) {
        if (r->short_of) {
            return SNIB__RESP_NOMEM;
        }
        if (!r->over && r->reader->err == REDIS_ERR_OOM) {
            r->short_of = true;
            return SNIB__RESP_NOMEM;
        }
        r->why = r->over ? "a reply is larger than this client accepts"
                         : "what came is not the protocol of Redis (RESP2): is "
                           "this a Redis "
                           "server?";
        return SNIB__RESP_BROKEN;
    }
    if (reply) {
        resp_complete(r);
        *ret = r->cell;
        return SNIB__RESP_REPLY;
    }
    if (r->reader->len - r->reader->pos > r->unread_max) {
        r->over = true;
        r->why = "a reply is larger than this client accepts";
        return SNIB__RESP_BROKEN;
    }
    return SNIB__RESP_MORE;
}

const char *snib__resp_why(const struct snib__resp *r)
{
    return r->why ? r->why : "";
}

const struct snib__resp_cell *snib__resp_at(const struct snib__resp_cell *array,
                                            uint32_t i)
{
    if (!array || array->type != SNIB__RESP_ARRAY || i >= array->size) {
        return NULL;
    }
    const struct snib__resp_cell *c = array + 1;
    while (i--) {
        c = snib__resp_skip(c);
    }
    return c;
}

bool snib__resp_is(const struct snib__resp_cell *c, const char *text)
{
    return c &&
           (c->type == SNIB__RESP_STATUS || c->type == SNIB__RESP_STRING) &&
           c->size == strlen(text) && !memcmp(c->text, text, c->size);
}

bool snib__resp_number(const struct snib__resp_cell *c, int64_t *ret)
{
    if (c && c->type == SNIB__RESP_INTEGER) {
        *ret = c->integer;
        return true;
    }
    if (!c || c->type != SNIB__RESP_STRING || c->size < 1 || c->size > 19) {
        return false;
    }
    bool minus = c->text[0] == '-';
    uint32_t i = minus ? 1 : 0;
    int64_t v = 0;
    if (i == c->size || (c->text[i] == '0' && c->size > 1)) {
        return false;
    }
    for (; i < c->size; i++) {
        int digit = c->text[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, digit, &v)) {
            return false;
        }
    }
    *ret = minus ? -v : v;
    return true;
}
#endif
