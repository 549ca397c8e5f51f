/*
 * input.c — from request bytes to commands
 *
 * Bytes may come in any split. A request is an array of bulk strings; the
 * lines of words that Redis takes besides are refused. Arguments point into
 * the connection's buffer, with the byte after each overwritten by NUL. A
 * protocol error is answered and the connection closed, as Redis does.
 */
#include "internal.h"

#include <limits.h>
#include <string.h>

#define LENGTH_MAX (64u * 1024u)

static void protocol_error(struct sr_client *c, const char *what)
{
    sr_err(c, "Protocol error: %s", what);
    c->closing = true;
}

static void want_args(struct sr_client *c, int n)
{
    if (n <= c->argv_cap) {
        return;
    }
    int cap = c->argv_cap == 0 ? 16 : c->argv_cap;
    while (cap < n) {
        cap *= 2;
    }
    c->argv = sr_realloc(c->argv, (size_t)cap * sizeof *c->argv);
    c->offs = sr_realloc(c->offs, (size_t)cap * sizeof *c->offs);
    c->argv_cap = cap;
}

/* The number between a type byte and the CR (NULL: none yet); a valid one is
 * taken out of the input. 1: got it; 0: incomplete; -1: failed. */
static int read_length(struct sr_client *c, const char *cr, const char *too_big,
                       bool *valid, long long *out)
{
    const char *p = c->in.p + c->in_pos;
    size_t left = c->in.len - c->in_pos;
    if (cr == NULL) {
        if (left > LENGTH_MAX) {
            protocol_error(c, too_big);
            return -1;
        }
        return 0;
    }
    size_t n = (size_t)(cr - p);
    if (n + 2 > left) {
        return 0;
    }
    *valid = sr_parse_ll(p + 1, n - 1, out);
    c->in_pos += *valid ? n + 2 : 0;
    return 1;
}

static const char *find_cr(const struct sr_client *c)
{
    return memchr(c->in.p + c->in_pos, '\r', c->in.len - c->in_pos);
}

static bool read_bulk(struct sr_client *c, bool stranger)
{
    if (c->bulk_len < 0) {
        if (c->in_pos == c->in.len) {
            return false;
        }
        char type = c->in.p[c->in_pos];
        long long v = 0;
        bool valid = false;
        const char *cr = find_cr(c);
        if (cr != NULL && cr + 1 < c->in.p + c->in.len && type != '$') {
            char text[64] = "expected '$', got ' '";
            text[19] = type;
            protocol_error(c, text);
            return false;
        }
        int got = read_length(c, cr, "too big bulk count string", &valid, &v);
        if (got <= 0) {
            return false;
        }
        if (!valid || v < 0 || v > 512ll * 1024 * 1024) {
            protocol_error(c, "invalid bulk length");
            return false;
        }
        if (v > 16384 && stranger) {
            protocol_error(c, "unauthenticated bulk length");
            return false;
        }
        c->bulk_len = (long)v;
    }
    size_t n = (size_t)c->bulk_len;
    if (c->in.len - c->in_pos < n + 2) {
        return false;
    }
    want_args(c, c->argc + 1);
    c->offs[c->argc] = c->in_pos;
    c->argv[c->argc].len = n;
    c->argc++;
    c->in_pos += n + 2;
    c->bulk_len = -1;
    c->multi_left--;
    return true;
}

/* Does c->argv hold a command (argc may be 0)? Else more bytes are needed. A
 * stranger has yet to authenticate and may send little. */
static bool read_multibulk(struct sr_client *c, bool stranger)
{
    if (c->multi_left == 0) {
        long long v = 0;
        bool valid = false;
        int got = read_length(c, find_cr(c), "too big mbulk count string",
                              &valid, &v);
        if (got <= 0) {
            return false;
        }
        if (!valid || v > INT_MAX) {
            protocol_error(c, "invalid multibulk length");
            return false;
        }
        if (v > 10 && stranger) {
            protocol_error(c, "unauthenticated multibulk length");
            return false;
        }
        c->argc = 0;
        if (v <= 0) {
            return true;
        }
        c->multi_left = (long)v;
        c->bulk_len = -1;
    }
    while (c->multi_left > 0) {
        if (!read_bulk(c, stranger)) {
            return false;
        }
    }
    for (int i = 0; i < c->argc; i++) {
        char *p = c->in.p + c->offs[i];
        p[c->argv[i].len] = '\0';
        c->argv[i].ptr = p;
    }
    return true;
}

void sim_redis_input(struct sim_redis *srv, int id, const void *bytes, size_t n,
                     int64_t wall_us)
{
    struct sr_client *c = sr_client_of(srv, id);
    if (c == NULL || c->closing) {
        return;
    }
    srv->now_us = wall_us;
    srv->now_ms = wall_us / 1000;
    sr_buf_add(&c->in, bytes, n);
    while (c->open && !c->closing && c->in_pos < c->in.len) {
        if (c->multi_left == 0 && c->in.p[c->in_pos] != '*') {
            protocol_error(c, "expected '*'");
            break;
        }
        if (!read_multibulk(c, !c->authed && sr_auth_required(srv))) {
            break;
        }
        if (c->argc > 0) {
            sr_process(srv, c);
        }
        c->argc = 0;
    }
    if (c->multi_left > 0) {
        return; /* arguments already read point into the buffer */
    }
    if (c->in_pos == c->in.len) {
        c->in.len = 0;
        c->in_pos = 0;
    } else if (c->in_pos > 4096) {
        c->in.len -= c->in_pos;
        memmove(c->in.p, c->in.p + c->in_pos, c->in.len);
        c->in_pos = 0;
    }
}
