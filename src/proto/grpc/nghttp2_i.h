/* proto/grpc/nghttp2_i.h — what is called of nghttp2, and how: through pointers
 * that are filled when a connection is first wanted (nghttp2.c). From here on
 * its names mean the pointers of `lib`, which each caller has. */
#ifndef SNIB__NGHTTP2_I_H
#define SNIB__NGHTTP2_I_H

#include <nghttp2/nghttp2.h>

#define SNIB__NGHTTP2_FUNCTIONS(X)                                             \
    X(nghttp2_session_callbacks_new)                                           \
    X(nghttp2_session_callbacks_del)                                           \
    X(nghttp2_session_callbacks_set_on_header_callback)                        \
    X(nghttp2_session_callbacks_set_on_data_chunk_recv_callback)               \
    X(nghttp2_session_callbacks_set_on_frame_recv_callback)                    \
    X(nghttp2_session_callbacks_set_on_stream_close_callback)                  \
    X(nghttp2_session_client_new3)                                             \
    X(nghttp2_session_del)                                                     \
    X(nghttp2_session_get_stream_user_data)                                    \
    X(nghttp2_session_mem_recv)                                                \
    X(nghttp2_session_mem_send)                                                \
    X(nghttp2_session_resume_data)                                             \
    X(nghttp2_session_set_local_window_size)                                   \
    X(nghttp2_session_set_stream_user_data)                                    \
    X(nghttp2_session_want_read)                                               \
    X(nghttp2_session_want_write)                                              \
    X(nghttp2_submit_ping)                                                     \
    X(nghttp2_submit_request)                                                  \
    X(nghttp2_submit_rst_stream)                                               \
    X(nghttp2_submit_settings)

struct snib__nghttp2 {
#define SNIB__NGHTTP2_POINTER(f) __typeof__(f) *f;
    SNIB__NGHTTP2_FUNCTIONS(SNIB__NGHTTP2_POINTER)
};

#endif
