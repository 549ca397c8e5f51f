/* core/conn.c — see conn.h. */
#include "core/conn.h"

#include <stdio.h>

#include "base/mem.h"
#include "core/store.h"

void snib__conns_init(struct snib__out *out, size_t limit)
{
    out->conn = NULL;
    out->conns = out->capacity = 0;
    out->limit = limit;
    out->outer = NULL;
    snib__list_init(&out->touched);
}

void snib__conns_free(struct snib__out *out)
{
    for (uint32_t i = 0; !out->outer && i < out->conns; i++) {
        struct snib__conn *conn = out->conn[i];
        snib__unlink(&conn->touched);
        snib__buf_wipe(&conn->out);
        snib__buf_free(&conn->out);
        snib__free(conn);
    }
    snib__free(out->conn);
    out->conn = NULL;
    out->conns = out->capacity = 0;
}

static struct snib__conn *conn_new(const struct snib__out *out,
                                   snib__transport transport,
                                   const char *address)
{
    struct snib__conn *conn = snib__alloc(sizeof *conn);
    if (conn) {
        snib__link_init(&conn->touched);
        snib__buf_init(&conn->out, out->limit);
        conn->index = out->conns;
        conn->transport = (uint8_t)transport;
        snprintf(conn->address, sizeof conn->address, "%s", address);
    }
    return conn;
}

static bool conn_reserve(struct snib__out *out)
{
    if (out->conns < out->capacity) {
        return true;
    }
    uint32_t capacity = out->capacity ? 2 * out->capacity : 4;
    struct snib__conn **more =
        snib__realloc(out->conn, capacity * sizeof(struct snib__conn *));
    if (more) {
        out->conn = more;
        out->capacity = capacity;
    }
    return more;
}

snib_err snib__conn_add(struct snib__out *out, snib__transport transport,
                        const char *address)
{
    struct snib__conn *conn;
    if (out->conns >= SNIB__CONNS_MAX) {
        return SNIB_ERR_LIMIT;
    }
    if (!conn_reserve(out)) {
        return SNIB_ERR_NOMEM;
    }
    if (out->outer) {
        snib_err err = snib__conn_add(out->outer, transport, address);
        if (err) {
            return err;
        }
        conn = out->outer->conn[out->outer->conns - 1];
    } else if (!(conn = conn_new(out, transport, address))) {
        return SNIB_ERR_NOMEM;
    }
    out->conn[out->conns++] = conn;
    return SNIB_ERR_OK;
}
