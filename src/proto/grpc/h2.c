/* proto/grpc/h2.c — see h2.h.
 *
 * gRPC is a convention on HTTP/2: a call is a POST whose body, and whose
 * answer's body, is a row of messages, each with five bytes before it (not
 * compressed, length). How the call went stands in the trailer: grpc-status and
 * grpc-message. A call that the server has certainly not looked at is told
 * apart from one that was lost: by REFUSED_STREAM, or by a GOAWAY that names an
 * earlier stream as the last. (nghttp2 closes both with REFUSED_STREAM.) */
#include "proto/grpc/h2.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "proto/grpc/nghttp2_i.h"

enum {
    H2_PREFIX = 5,
    H2_WINDOW = 8 << 20, /* what a server may send before we have taken it */
    H2_HEADER_LIST = 64 << 10,
    H2_KEPT = 64 << 10 /* memory that a stream keeps for its next answer */
};

/* -- memory ---------------------------------------------------------------- */

/* What nghttp2 has had in its memory is overwritten when it gives it back, so
 * its size is kept before it. */
union h2_block {
    size_t size;
    max_align_t align;
};

static void *h2_malloc(size_t size, void *data)
{
    (void)data;
    union h2_block *b =
        size < SIZE_MAX - sizeof *b ? snib__alloc(sizeof *b + size) : NULL;
    if (b) {
        b->size = size;
    }
    return b ? b + 1 : NULL;
}

static void h2_free(void *p, void *data)
{
    (void)data;
    if (p) {
        union h2_block *b = (union h2_block *)p - 1;
        explicit_bzero(p, b->size);
        snib__free(b);
    }
}

static void *h2_calloc(size_t n, size_t size, void *data)
{
    size_t all;
    return __builtin_mul_overflow(n, size, &all) ? NULL : h2_malloc(all, data);
}

static void *h2_realloc(void *p, size_t size, void *data)
{
    void *v = h2_malloc(size, data);
    if (p && v) {
        size_t had = ((union h2_block *)p - 1)->size;
        memcpy(v, p, had < size ? had : size);
        h2_free(p, data);
    }
    return v;
}

/* -- what the server says -------------------------------------------------- */

static struct snib__h2_stream *h2_stream_of(const struct snib__h2 *h,
                                            int32_t id)
{
    return h->lib->nghttp2_session_get_stream_user_data(h->session, id);
}

static void h2_touch(struct snib__h2 *h, struct snib__h2_stream *s)
{
    if (!snib__linked(&s->changed)) {
        snib__list_push(&h->changed, &s->changed);
    }
}

static bool h2_is(const uint8_t *name, size_t size, const char *what)
{
    return size == strlen(what) && !memcmp(name, what, size);
}

static int h2_hex(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* grpc-message: what is not plain ASCII stands there as %XX. */
static void h2_text(struct snib__h2_stream *s, const uint8_t *v, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size && n + 1 < sizeof s->text; i++) {
        int c = v[i];
        if (c == '%' && size - i > 2 && h2_hex(v[i + 1]) >= 0 &&
            h2_hex(v[i + 2]) >= 0) {
            c = h2_hex(v[i + 1]) * 16 + h2_hex(v[i + 2]);
            i += 2;
        }
        s->text[n++] = (char)(c < 0x20 ? ' ' : c < 0x7f ? c : '?');
    }
    s->text[n] = 0;
}

static int h2_number(const uint8_t *v, size_t size)
{
    int n = 0;
    for (size_t i = 0; i < size && i < 4; i++) {
        if (v[i] < '0' || v[i] > '9') {
            return -1;
        }
        n = n * 10 + (v[i] - '0');
    }
    return size && size <= 4 ? n : -1;
}

static int h2_on_header(nghttp2_session *session, const nghttp2_frame *frame,
                        const uint8_t *name, size_t name_size,
                        const uint8_t *value, size_t value_size, uint8_t flags,
                        void *data)
{
    const struct snib__h2 *h = data;
    struct snib__h2_stream *s = h2_stream_of(h, frame->hd.stream_id);
    (void)session;
    (void)flags;
    if (!s || frame->hd.type != NGHTTP2_HEADERS) {
        return 0;
    }
    s->headers += name_size + value_size;
    if (s->headers > H2_HEADER_LIST) { /* this stream ends */
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (h2_is(name, name_size, ":status")) {
        s->http = (uint16_t)h2_number(value, value_size);
    } else if (h2_is(name, name_size, "content-type")) {
        s->grpc = value_size >= 16 && !memcmp(value, "application/grpc", 16);
    } else if (h2_is(name, name_size, "grpc-status")) {
        s->status = h2_number(value, value_size);
    } else if (h2_is(name, name_size, "grpc-message")) {
        h2_text(s, value, value_size);
    }
    return 0;
}

/* So much of what came was taken, and counts no more. */
static void h2_let_go(struct snib__h2 *h, struct snib__h2_stream *s, size_t n)
{
    n = n < s->held ? n : s->held;
    h->held -= n;
    s->held -= n;
}

/* Nobody wants what came. */
static void h2_forget(struct snib__h2 *h, struct snib__h2_stream *s)
{
    h2_let_go(h, s, s->held);
    if (s->in.cap > H2_KEPT) {
        snib__buf_free(&s->in);
    } else {
        snib__buf_clear(&s->in);
    }
}

static int h2_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
                      const uint8_t *bytes, size_t size, void *data)
{
    struct snib__h2 *h = data;
    struct snib__h2_stream *s = h2_stream_of(h, id);
    (void)flags;
    if (!s) {
        return 0;
    }
    s->in.failed = s->in.failed || size > SNIB__H2_IN - h->held;
    snib__buf_add(&s->in, bytes, size);
    s->held += s->in.failed ? 0 : size;
    h->held += s->in.failed ? 0 : size;
    if (s->in.failed) { /* it can never be told whole */
        return h->lib->nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id,
                                                 NGHTTP2_CANCEL);
    }
    h2_touch(h, s);
    return 0;
}

static int h2_on_frame(nghttp2_session *session, const nghttp2_frame *frame,
                       void *data)
{
    struct snib__h2 *h = data;
    (void)session;
    h->met = h->met || frame->hd.type == NGHTTP2_SETTINGS;
    h->away = h->away || frame->hd.type == NGHTTP2_GOAWAY;
    return 0;
}

static int h2_on_close(nghttp2_session *session, int32_t id, uint32_t code,
                       void *data)
{
    struct snib__h2 *h = data;
    struct snib__h2_stream *s = h2_stream_of(h, id);
    (void)session;
    if (!s) {
        return 0;
    }
    bool whole = !s->in.failed && s->http == 200 && s->grpc && s->status >= 0;
    /* Who has begun to answer has seen it, whatever is said then. */
    bool unseen = code == NGHTTP2_REFUSED_STREAM && !s->headers;
    s->end = whole    ? SNIB__H2_ANSWERED
             : unseen ? SNIB__H2_UNSEEN
                      : SNIB__H2_LOST;
    s->id = 0;
    if (s->in.failed) {
        h2_forget(h, s);
    }
    h2_touch(h, s);
    return 0;
}

/* -- a connection ---------------------------------------------------------- */

static bool h2_callbacks(const struct snib__nghttp2 *lib,
                         nghttp2_session_callbacks **ret)
{
    if (lib->nghttp2_session_callbacks_new(ret)) {
        return false;
    }
    lib->nghttp2_session_callbacks_set_on_header_callback(*ret, h2_on_header);
    lib->nghttp2_session_callbacks_set_on_data_chunk_recv_callback(*ret,
                                                                   h2_on_data);
    lib->nghttp2_session_callbacks_set_on_frame_recv_callback(*ret,
                                                              h2_on_frame);
    lib->nghttp2_session_callbacks_set_on_stream_close_callback(*ret,
                                                                h2_on_close);
    return true;
}

static bool h2_settings(const struct snib__h2 *h)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, H2_HEADER_LIST}};
    return !h->lib->nghttp2_submit_settings(
               h->session, NGHTTP2_FLAG_NONE, settings,
               sizeof settings / sizeof settings[0]) &&
           !h->lib->nghttp2_session_set_local_window_size(
               h->session, NGHTTP2_FLAG_NONE, 0, H2_WINDOW);
}

bool snib__h2_open(struct snib__h2 *h)
{
    nghttp2_mem memory = {NULL, h2_malloc, h2_free, h2_calloc, h2_realloc};
    nghttp2_session_callbacks *callbacks;
    *h = (struct snib__h2){.lib = h->lib, .held = h->held};
    snib__list_init(&h->changed);
    if (!h2_callbacks(h->lib, &callbacks)) {
        return false;
    }
    if (h->lib->nghttp2_session_client_new3(&h->session, callbacks, h, NULL,
                                            &memory)) {
        h->session = NULL;
    }
    h->lib->nghttp2_session_callbacks_del(callbacks);
    if (h->session && !h2_settings(h)) {
        h->lib->nghttp2_session_del(h->session);
        h->session = NULL;
    }
    return h->session;
}

void snib__h2_close(struct snib__h2 *h)
{
    struct snib__link *l;
    if (h->session) {
        h->lib->nghttp2_session_del(h->session);
        h->session = NULL;
    }
    while (h->changed.head.next && (l = snib__list_pop(&h->changed))) {
    }
}

/* -- calls ----------------------------------------------------------------- */

void snib__h2_stream_init(struct snib__h2_stream *s)
{
    *s = (struct snib__h2_stream){.status = -1};
    snib__link_init(&s->changed);
    snib__buf_init(&s->out, SNIB__H2_IN);
    snib__buf_init(&s->in, SNIB__H2_IN);
}

void snib__h2_stream_free(struct snib__h2_stream *s)
{
    snib__unlink(&s->changed);
    snib__buf_free(&s->out);
    snib__buf_free(&s->in);
}

static ssize_t h2_read(nghttp2_session *session, int32_t id, uint8_t *to,
                       size_t size, uint32_t *flags, nghttp2_data_source *from,
                       void *data)
{
    const struct snib__h2 *h = data;
    struct snib__h2_stream *s = h2_stream_of(h, id);
    (void)session;
    (void)from;
    if (!s) { /* it was dropped */
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    size_t n = snib__buf_size(&s->out);
    if (!n && s->more) {
        return NGHTTP2_ERR_DEFERRED;
    }
    n = n < size ? n : size;
    memcpy(to, snib__buf_bytes(&s->out), n);
    snib__buf_consume(&s->out, n);
    if (!snib__buf_size(&s->out) && !s->more) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)n;
}

static void h2_put(struct snib__h2_stream *s, const void *message, size_t size)
{
    const uint8_t prefix[H2_PREFIX] = {0, (uint8_t)(size >> 24),
                                       (uint8_t)(size >> 16),
                                       (uint8_t)(size >> 8), (uint8_t)size};
    snib__buf_add(&s->out, prefix, sizeof prefix);
    snib__buf_add(&s->out, message, size);
}

static nghttp2_nv h2_pair(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value,
                        strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static int32_t h2_submit(struct snib__h2 *h, struct snib__h2_stream *s,
                         const struct snib__h2_head *head, const char *path)
{
    const nghttp2_data_provider body = {{.ptr = NULL}, h2_read};
    nghttp2_nv nv[] = {
        h2_pair(":method", "POST"),
        h2_pair(":scheme", head->secure ? "https" : "http"),
        h2_pair(":path", path),
        h2_pair(":authority", head->authority),
        h2_pair("content-type", "application/grpc"),
        h2_pair("user-agent", "snib/" SNIB_VERSION),
        h2_pair("te", "trailers"),
        h2_pair("token", head->token ? head->token : ""),
    };
    size_t n = sizeof nv / sizeof nv[0] - !head->token;
    nv[n - 1].flags = /* a secret is in no table of the server's */
        head->token ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE;
    return h->lib->nghttp2_submit_request(h->session, NULL, nv, n, &body, s);
}

bool snib__h2_call(struct snib__h2 *h, struct snib__h2_stream *s,
                   const struct snib__h2_head *head, const char *path,
                   const void *message, size_t size, bool more)
{
    if (!h->session || h->away || s->id) {
        return false;
    }
    snib__buf_clear(&s->out);
    h2_forget(h, s);
    if (s->secret) {
        snib__buf_hide(&s->out);
        snib__buf_hide(&s->in);
    }
    s->headers = 0;
    s->more = more;
    s->http = 0;
    s->grpc = false;
    s->status = -1;
    s->text[0] = 0;
    h2_put(s, message, size);
    int32_t id = s->out.failed ? -1 : h2_submit(h, s, head, path);
    s->id = id > 0 ? id : 0;
    s->end = SNIB__H2_OPEN;
    /* After 2^30 calls there are no more numbers: another connection has. */
    h->away = h->away || id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE;
    return id > 0;
}

bool snib__h2_send(struct snib__h2 *h, struct snib__h2_stream *s,
                   const void *message, size_t size)
{
    h2_put(s, message, size);
    return !s->out.failed && s->id &&
           !h->lib->nghttp2_session_resume_data(h->session, s->id);
}

void snib__h2_drop(struct snib__h2 *h, struct snib__h2_stream *s)
{
    snib__unlink(&s->changed);
    h2_forget(h, s);
    if (s->id && h->session) {
        h->lib->nghttp2_session_set_stream_user_data(h->session, s->id, NULL);
        (void)h->lib->nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE,
                                                s->id, NGHTTP2_CANCEL);
    }
    s->id = 0;
}

/* -- bytes ----------------------------------------------------------------- */

static void h2_break(struct snib__h2 *h, const char *what)
{
    if (!h->why[0]) {
        snprintf(h->why, sizeof h->why, "%s", what);
    }
}

/* Is there nothing more to come, and nothing to say? What is no HTTP/2 is
 * answered by a GOAWAY first. */
static void h2_end(struct snib__h2 *h)
{
    if (!h->lib->nghttp2_session_want_read(h->session) &&
        !h->lib->nghttp2_session_want_write(h->session)) {
        h2_break(h, h->met ? "the server has ended the connection"
                           : "this does not speak HTTP/2");
    }
}

bool snib__h2_ping(struct snib__h2 *h)
{
    return !h->lib->nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL);
}

bool snib__h2_input(struct snib__h2 *h, const void *bytes, size_t size)
{
    ssize_t n = h->lib->nghttp2_session_mem_recv(h->session, bytes, size);
    if (n == NGHTTP2_ERR_NOMEM) {
        h2_break(h, "out of memory");
    } else if (n < 0 || (size_t)n != size) {
        h2_break(h, h->met ? "what came is not HTTP/2"
                           : "this does not speak HTTP/2");
    } else {
        h2_end(h);
    }
    return !h->why[0];
}

bool snib__h2_output(struct snib__h2 *h, struct snib__buf *out)
{
    const uint8_t *bytes;
    ssize_t n;
    while ((n = h->lib->nghttp2_session_mem_send(h->session, &bytes)) > 0) {
        snib__buf_add(out, bytes, (size_t)n);
    }
    if (n < 0 || out->failed) {
        h2_break(h, "out of memory, or too much is being sent");
    }
    h2_end(h);
    return !h->why[0];
}

bool snib__h2_message(const struct snib__h2_stream *s, const uint8_t **ret,
                      size_t *ret_size)
{
    const uint8_t *b = snib__buf_bytes(&s->in);
    size_t have = snib__buf_size(&s->in);
    if (have < H2_PREFIX || b[0]) { /* we have offered no compression */
        return false;
    }
    *ret = b + H2_PREFIX;
    *ret_size =
        (size_t)b[1] << 24 | (size_t)b[2] << 16 | (size_t)b[3] << 8 | b[4];
    return have - H2_PREFIX >= *ret_size;
}

void snib__h2_take(struct snib__h2 *h, struct snib__h2_stream *s)
{
    const uint8_t *message;
    size_t size;
    if (snib__h2_message(s, &message, &size)) {
        snib__buf_consume(&s->in, H2_PREFIX + size);
        h2_let_go(h, s, H2_PREFIX + size);
    }
}
