/* proto/grpc/h2.h — gRPC over HTTP/2 as bytes, of a client: calls out, their
 * answers in. Sans-I/O: built on nghttp2, which touches no socket and is not
 * visible here.
 *
 *     snib__h2_call, _send --> snib__h2_output --> the connection
 *     the connection --> snib__h2_input --> streams on `changed`
 *
 * A stream is one call. It belongs to whoever makes the call, and stays at its
 * place until it has ended or was dropped. Many are under way at once; each
 * ends by itself.
 *
 * Bounds, checked before memory is spent: SNIB__H2_IN bytes of answers, of all
 * streams together, each until it was taken, or its stream is used for another
 * call or dropped, over the ends of connections; less of a stream whose owner has
 * set the limit of its `in`; 64 KB of headers of an answer. What passes them ends
 * its stream as LOST. Memory that nghttp2 gives back is overwritten: tokens of
 * logins were in it. */
#ifndef SNIB__H2_H
#define SNIB__H2_H

#include "base/buf.h"
#include "base/list.h"
#include "snib.h"

#define SNIB__H2_IN ((size_t)64 << 20)

/* The codes of gRPC that somebody looks at. */
enum {
    SNIB__GRPC_OK = 0,
    SNIB__GRPC_UNKNOWN = 2,
    SNIB__GRPC_INVALID_ARGUMENT = 3,
    SNIB__GRPC_NOT_FOUND = 5,
    SNIB__GRPC_PERMISSION_DENIED = 7,
    SNIB__GRPC_RESOURCE_EXHAUSTED = 8,
    SNIB__GRPC_FAILED_PRECONDITION = 9,
    SNIB__GRPC_OUT_OF_RANGE = 11,
    SNIB__GRPC_UNIMPLEMENTED = 12,
    SNIB__GRPC_UNAVAILABLE = 14,
    SNIB__GRPC_UNAUTHENTICATED = 16
};

typedef enum snib__h2_end {
    SNIB__H2_OPEN,     /* under way */
    SNIB__H2_ANSWERED, /* status and text are the server's */
    SNIB__H2_UNSEEN,   /* the server says that it has not looked at it */
    SNIB__H2_LOST      /* it ended without a status: nobody knows */
} snib__h2_end;

struct snib__h2_stream {
    struct snib__link changed; /* on h2.changed, or on none */
    struct snib__buf out;      /* not yet written */
    struct snib__buf in;       /* not yet taken */
    size_t held;               /* so much of it counts in h2.held */
    size_t headers;            /* bytes of them that came */
    int32_t id;                /* 0: it is not under way */
    bool more;                 /* the caller will send more */
    bool secret; /* what goes and comes is overwritten; set by the owner */
    snib__h2_end end;
    uint16_t http; /* status; 0: none came */
    bool grpc;     /* the answer says that it is gRPC */
    int status;    /* of gRPC; -1: none came */
    char text[200];
};

struct snib__h2 {
    struct snib__list changed; /* streams with bytes, or at their end */
    bool met;                  /* the server has spoken HTTP/2 */
    bool away;                 /* no more calls can be made on it */
    size_t held;               /* bytes of answers that somebody may want */
    char why[160];             /* it is broken: why */
    struct nghttp2_session *session;
    const struct snib__nghttp2 *lib; /* set by the owner */
};

/* Load nghttp2; *ret is freed with snib__free. Errors: UNSUPPORTED (it is not
 * there), NOMEM. */
struct snib__nghttp2;
snib_err snib__h2_load(struct snib__nghttp2 **ret, struct snib_error *);

/* What all calls of a connection have in common; borrowed while it lasts. */
struct snib__h2_head {
    const char *authority; /* "host:port" */
    bool secure;
    const char *token; /* goes along as "token"; NULL: none */
};

/* A new connection; h.lib is set. False: no memory. */
bool snib__h2_open(struct snib__h2 *);
/* All streams have ended: those under way are LOST. It may be opened anew; what
 * was answered stays where it is, and counts. */
void snib__h2_close(struct snib__h2 *);

void snib__h2_stream_init(struct snib__h2_stream *);
/* It was dropped. */
void snib__h2_stream_free(struct snib__h2_stream *);
/* Call path ("/etcdserverpb.KV/Range") with this message. more: the call stays
 * open for snib__h2_send. False: no memory, or no more calls on this
 * connection; nothing was sent. */
bool snib__h2_call(struct snib__h2 *, struct snib__h2_stream *,
                   const struct snib__h2_head *, const char *path,
                   const void *message, size_t size, bool more);
bool snib__h2_send(struct snib__h2 *, struct snib__h2_stream *,
                   const void *message, size_t size);
/* Its answer is not wanted any more, whether it has come or not; it is not under
 * way afterwards. */
void snib__h2_drop(struct snib__h2 *, struct snib__h2_stream *);

/* Ask whether the server is there: something comes back. False: no memory. */
bool snib__h2_ping(struct snib__h2 *);

/* These bytes came. False: it is broken (why). */
bool snib__h2_input(struct snib__h2 *, const void *bytes, size_t size);
/* What is to be sent now. False: no memory, or it is broken. */
bool snib__h2_output(struct snib__h2 *, struct snib__buf *out);

/* The first message in what came. True: it is whole; take it afterwards. */
bool snib__h2_message(const struct snib__h2_stream *, const uint8_t **ret,
                      size_t *ret_size);
void snib__h2_take(struct snib__h2 *, struct snib__h2_stream *);

#endif
