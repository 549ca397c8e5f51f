/*
 * reply.c — answers in RESP2, and Redis' words for what is wrong
 *
 * Every command writes into its client's output buffer; in a script that is
 * the script client's, whose bytes lua_redis.c then reads back.
 */
#include "internal.h"

#include <limits.h>
#include <math.h>
#include <string.h>

void sr_raw(struct sr_client *c, const char *text)
{
    sr_buf_add_cstr(&c->out, text);
}

void sr_ok(struct sr_client *c)
{
    sr_buf_add(&c->out, "+OK\r\n", 5);
}

static void header(struct sr_client *c, char type, long long v)
{
    sr_buf_reserve(&c->out, 32);
    char *p = c->out.p + c->out.len;
    p[0] = type;
    size_t n = 1 + sr_format_ll(p + 1, v);
    p[n++] = '\r';
    p[n++] = '\n';
    c->out.len += n;
}

void sr_int(struct sr_client *c, long long v)
{
    header(c, ':', v);
}

void sr_bulk(struct sr_client *c, const void *p, size_t n)
{
    header(c, '$', (long long)n);
    sr_buf_add(&c->out, p, n);
    sr_buf_add(&c->out, "\r\n", 2);
}

void sr_bulk_cstr(struct sr_client *c, const char *s)
{
    sr_bulk(c, s, strlen(s));
}

void sr_bulk_ll(struct sr_client *c, long long v)
{
    char buf[24];
    size_t n = sr_format_ll(buf, v);
    sr_bulk(c, buf, n);
}

void sr_bulk_str(struct sr_client *c, const struct sr_str *s)
{
    sr_bulk(c, s->p, s->len);
}

void sr_null(struct sr_client *c)
{
    sr_raw(c, "$-1\r\n");
}

void sr_array(struct sr_client *c, size_t n)
{
    header(c, '*', (long long)n);
}

void sr_double(struct sr_client *c, double d)
{
    char buf[64];
    if (isinf(d)) {
        sr_bulk_cstr(c, d > 0 ? "inf" : "-inf");
    } else {
        sr_bulk(c, buf, sr_format_double(buf, sizeof buf, d));
    }
}

void sr_status(struct sr_client *c, const char *p, size_t n)
{
    sr_buf_add(&c->out, "+", 1);
    sr_buf_add(&c->out, p, n);
    sr_buf_add(&c->out, "\r\n", 2);
}

/* ---- errors ------------------------------------------------------------ */

const char SR_TXT_MISCONF[] =
    "-MISCONF Redis is configured to save RDB snapshots, but it's currently "
    "unable to persist to disk. Commands that may modify the data set are "
    "disabled, because this instance is configured to report errors during "
    "writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). "
    "Please check the Redis logs for details about the RDB error.";
const char SR_TXT_READONLY[] =
    "-READONLY You can't write against a read only replica.";
const char SR_TXT_OOM[] =
    "-OOM command not allowed when used memory > 'maxmemory'.";
const char SR_TXT_NOREPLICAS[] =
    "-NOREPLICAS Not enough good replicas to write.";
const char SR_TXT_MASTERDOWN[] =
    "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is "
    "set to 'no'.";
const char SR_TXT_LOADING[] = "-LOADING Redis is loading the dataset in memory";
const char SR_TXT_BUSY[] =
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or "
    "SHUTDOWN NOSAVE.";
const char SR_TXT_NOAUTH[] = "-NOAUTH Authentication required.";

void sr_err_bytes(struct sr_client *c, const char *p, size_t n)
{
    if (n == 0 || p[0] != '-') {
        sr_buf_add(&c->out, "-ERR ", 5);
    }
    sr_buf_add(&c->out, p, n);
    sr_buf_add(&c->out, "\r\n", 2);
}

void sr_err(struct sr_client *c, const char *fmt, ...)
{
    struct sr_buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    sr_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    size_t from = 0;
    size_t to = b.len;
    while (to > from && (b.p[to - 1] == '\r' || b.p[to - 1] == '\n')) {
        to--;
    }
    while (from < to && (b.p[from] == '\r' || b.p[from] == '\n')) {
        from++;
    }
    for (size_t i = from; i < to; i++) {
        if (b.p[i] == '\r' || b.p[i] == '\n') {
            b.p[i] = ' ';
        }
    }
    sr_err_bytes(c, b.p + from, to - from);
    sr_buf_free(&b);
}

void sr_err_arity(struct sr_client *c)
{
    sr_err(c, "wrong number of arguments for '%s' command", c->cmd->name);
}

void sr_err_syntax(struct sr_client *c)
{
    sr_raw(c, "-ERR syntax error\r\n");
}

void sr_err_type(struct sr_client *c)
{
    sr_raw(c, "-WRONGTYPE Operation against a key holding the wrong kind of "
              "value\r\n");
}

void sr_err_expire(struct sr_client *c)
{
    sr_err(c, "invalid expire time in '%s' command", c->cmd->name);
}

void sr_err_subcommand(struct sr_client *c)
{
    char upper[32];
    size_t n = 0;
    for (const char *p = c->argv[0].ptr; *p != '\0' && n < 31; p++) {
        upper[n++] = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
    }
    upper[n] = '\0';
    sr_err(c,
           "unknown subcommand or wrong number of arguments for '%.128s'. "
           "Try %s HELP.",
           c->argv[1].ptr, upper);
}

/* ---- arguments as numbers ---------------------------------------------- */

bool sr_arg_ll(struct sr_client *c, int i, long long *out)
{
    if (!sr_parse_ll(c->argv[i].ptr, c->argv[i].len, out)) {
        sr_raw(c, "-ERR value is not an integer or out of range\r\n");
        return false;
    }
    return true;
}

bool sr_arg_double(struct sr_client *c, int i, double *out)
{
    if (!sr_parse_double(c->argv[i].ptr, c->argv[i].len, out)) {
        sr_raw(c, "-ERR value is not a valid float\r\n");
        return false;
    }
    return true;
}

bool sr_arg_positive(struct sr_client *c, int i, long long *out)
{
    if (!sr_parse_ll(c->argv[i].ptr, c->argv[i].len, out) || *out < 0) {
        sr_raw(c, "-ERR value is out of range, must be positive\r\n");
        return false;
    }
    return true;
}

bool sr_range(long long *start, long long *stop, size_t len)
{
    long long n = (long long)len;
    if (*start < 0) {
        *start += n;
    }
    if (*stop < 0) {
        *stop += n;
    }
    if (*start < 0) {
        *start = 0;
    }
    if (*start > *stop || *start >= n) {
        return false;
    }
    if (*stop >= n) {
        *stop = n - 1;
    }
    return true;
}
