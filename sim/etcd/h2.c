/* sim/etcd/h2.c — the server's end of a connection: frames of HTTP/2, by nghttp2,
 * and the messages of gRPC in them. What a call asks for is calls.c's.
 *
 * An answer is headers, the message, and a trailer with the status; a refusal is
 * one frame of headers. A watch stays open, and speaks whenever there is
 * something to say. */
#include <stdlib.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "sim/etcd/model.h"

enum { PREFIX = 5 };

/* -- streams ----------------------------------------------------------------- */

struct sim_etcd_stream *sim_etcd_stream(struct sim_etcd_conn *c, int32_t id)
{
    struct sim_etcd_stream *s = c->streams;
    while (s && s->id != id) {
        s = s->next;
    }
    return s;
}

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame,
                         void *data)
{
    struct sim_etcd_conn *c = data;
    struct sim_etcd_stream *s = calloc(1, sizeof *s);
    (void)session;
    if (!s) {
        abort();
    }
    s->conn = c;
    s->id = frame->hd.stream_id;
    s->next = c->streams;
    c->streams = s;
    snib__buf_init(&s->in, SIM_ETCD_BUF);
    snib__buf_init(&s->out, SIM_ETCD_BUF);
    return 0;
}

static int header(nghttp2_session *session, const nghttp2_frame *frame,
                  const uint8_t *name, size_t name_size, const uint8_t *value,
                  size_t size, uint8_t flags, void *data)
{
    struct sim_etcd_stream *s = sim_etcd_stream(data, frame->hd.stream_id);
    (void)session;
    (void)flags;
    if (s && name_size == 5 && !memcmp(name, ":path", 5)) {
        snprintf(s->path, sizeof s->path, "%.*s", (int)size,
                 (const char *)value);
    }
    return 0;
}

static int data_came(nghttp2_session *session, uint8_t flags, int32_t id,
                     const uint8_t *bytes, size_t size, void *data)
{
    struct sim_etcd_stream *s = sim_etcd_stream(data, id);
    (void)session;
    (void)flags;
    if (s) {
        snib__buf_add(&s->in, bytes, size);
    }
    return 0;
}

static bool is_watch(const struct sim_etcd_stream *s)
{
    return !strcmp(s->path, SNIB__ETCD_WATCH);
}

/* A call that asks once is done when its message is whole and it has ended; a
 * watch is heard at once. */
static int frame_came(nghttp2_session *session, const nghttp2_frame *frame,
                      void *data)
{
    struct sim_etcd_stream *s = sim_etcd_stream(data, frame->hd.stream_id);
    bool ends = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    (void)session;
    if (!s || frame->hd.type != NGHTTP2_DATA || (!ends && !is_watch(s))) {
        return 0;
    }
    const uint8_t *b = snib__buf_bytes(&s->in);
    size_t have = snib__buf_size(&s->in);
    size_t size = have < PREFIX ? 0
                                : (size_t)b[1] << 24 | (size_t)b[2] << 16 |
                                      (size_t)b[3] << 8 | b[4];
    if (have >= PREFIX && have - PREFIX >= size) {
        sim_etcd_called(s, b + PREFIX, size);
    }
    return 0;
}

static void stream_free(struct sim_etcd_stream *s)
{
    snib__buf_free(&s->in);
    snib__buf_free(&s->out);
    free(s);
}

static int stream_closed(nghttp2_session *session, int32_t id, uint32_t code,
                         void *data)
{
    struct sim_etcd_conn *c = data;
    (void)session;
    (void)code;
    for (struct sim_etcd_stream **at = &c->streams; *at; at = &(*at)->next) {
        struct sim_etcd_stream *s = *at;
        if (s->id == id) {
            *at = s->next;
            if (c->watch == id) {
                c->watch = 0;
                c->watched[0] = 0;
            }
            stream_free(s);
            break;
        }
    }
    return 0;
}

/* -- answers ----------------------------------------------------------------- */

static nghttp2_nv pair(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value,
                        strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *to,
                        size_t size, uint32_t *flags, nghttp2_data_source *from,
                        void *data)
{
    struct sim_etcd_stream *s = sim_etcd_stream(data, id);
    size_t n = s ? snib__buf_size(&s->out) : 0;
    char status[12];
    (void)from;
    if (!s) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    if (!n && !s->answered) {
        return NGHTTP2_ERR_DEFERRED;
    }
    n = n < size ? n : size;
    memcpy(to, snib__buf_bytes(&s->out), n);
    snib__buf_consume(&s->out, n);
    if (!snib__buf_size(&s->out) && s->answered) {
        snprintf(status, sizeof status, "%d", s->status);
        nghttp2_nv nv = pair("grpc-status", status);
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session, id, &nv, 1);
    }
    return (ssize_t)n;
}

void sim_etcd_answer(struct sim_etcd_stream *s, const struct snib__buf *message)
{
    const nghttp2_nv nv[] = {pair(":status", "200"),
                             pair("content-type", "application/grpc")};
    const nghttp2_data_provider body = {{.ptr = NULL}, read_out};
    nghttp2_session *session = s->conn->session;
    size_t n = snib__buf_size(message);
    const uint8_t prefix[PREFIX] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16),
                                    (uint8_t)(n >> 8), (uint8_t)n};
    bool first = !nghttp2_session_get_stream_user_data(session, s->id);
    snib__buf_add(&s->out, prefix, sizeof prefix);
    snib__buf_add(&s->out, snib__buf_bytes(message), n);
    s->answered = !is_watch(s);
    if (first) {
        nghttp2_session_set_stream_user_data(session, s->id, s);
        nghttp2_submit_response(session, s->id, nv, 2, &body);
    } else {
        nghttp2_session_resume_data(session, s->id);
    }
}

void sim_etcd_refuse(struct sim_etcd_stream *s, int status, const char *text)
{
    char number[12];
    snprintf(number, sizeof number, "%d", status);
    const nghttp2_nv nv[] = {
        pair(":status", "200"), pair("content-type", "application/grpc"),
        pair("grpc-status", number), pair("grpc-message", text)};
    s->answered = true;
    nghttp2_submit_response(s->conn->session, s->id, nv, 4, NULL);
}

/* -- a connection ------------------------------------------------------------ */

static nghttp2_session_callbacks *callbacks(void)
{
    nghttp2_session_callbacks *ret;
    if (nghttp2_session_callbacks_new(&ret)) {
        abort();
    }
    nghttp2_session_callbacks_set_on_begin_headers_callback(ret, begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(ret, header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(ret, data_came);
    nghttp2_session_callbacks_set_on_frame_recv_callback(ret, frame_came);
    nghttp2_session_callbacks_set_on_stream_close_callback(ret, stream_closed);
    return ret;
}

/* nghttp2 allows this outside its callbacks only. */
void sim_etcd_conn_flush(struct sim_etcd_conn *c)
{
    const uint8_t *bytes;
    ssize_t n;
    while ((n = nghttp2_session_mem_send(c->session, &bytes)) > 0) {
        snib__buf_add(&c->out, bytes, (size_t)n);
    }
    c->broken |= n < 0 || c->out.failed;
}

struct sim_etcd_conn *sim_etcd_conn_new(struct sim_etcd_member *m, int id)
{
    nghttp2_session_callbacks *cb = callbacks();
    struct sim_etcd_conn *c = calloc(1, sizeof *c);
    if (!c) {
        abort();
    }
    c->id = id;
    c->member = m;
    snib__buf_init(&c->out, SIM_ETCD_BUF);
    if (nghttp2_session_server_new(&c->session, cb, c) ||
        nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, NULL, 0)) {
        abort();
    }
    nghttp2_session_callbacks_del(cb);
    return c;
}

void sim_etcd_conn_free(struct sim_etcd_conn *c)
{
    nghttp2_session_del(c->session);
    while (c->streams) {
        struct sim_etcd_stream *s = c->streams;
        c->streams = s->next;
        stream_free(s);
    }
    snib__buf_free(&c->out);
    free(c);
}

void sim_etcd_conn_input(struct sim_etcd_conn *c, const void *bytes,
                         size_t size)
{
    ssize_t n = nghttp2_session_mem_recv(c->session, bytes, size);
    c->broken |= n < 0 || (size_t)n != size;
}

void sim_etcd_goes_away(struct sim_etcd_conn *c, bool at_once)
{
    int32_t last = at_once ? nghttp2_session_get_last_proc_stream_id(c->session)
                           : INT32_MAX;
    nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR,
                          NULL, 0);
}
