/* store/redis/layout.c — the number of the keys' layout, by which two releases
 * of snib on one server notice each other.
 *
 * The number is written where there is none, and then read, so that of two
 * clients that begin at the same instant both read the same. A user who may do
 * neither, and a server that takes no writes, are let pass: the number keeps
 * versions apart, not users. A server that is still loading does not tell the
 * number: that connection ends with the first answer to a request, and the next
 * one asks again. */
#include <stdio.h>

#include "store/redis/redis_i.h"

void snib__layout_key(const struct snib__redis *s, int i,
                      char ret[LAYOUT_KEY_MAX])
{
    if (!s->slots) {
        snprintf(ret, LAYOUT_KEY_MAX, "%s", SNIB__REDIS_LAYOUT_KEY);
    } else { /* without a slot it is refused, and so not known              */
        snprintf(ret, LAYOUT_KEY_MAX, "snib:{%%node%d}:layout",
                 s->session[i].tag);
    }
}

void snib__layout_encode_set(struct snib__buf *b, const char *key)
{
    /* Every key of ours ends some day; the next greeting writes it anew. */
    static const char year_ms[] = "31536000000";
    snib__resp_begin(b, 6);
    snib__resp_text(b, "SET");
    snib__resp_text(b, key);
    snib__resp_text(b, SNIB__REDIS_LAYOUT);
    snib__resp_text(b, "NX");
    snib__resp_text(b, "PX");
    snib__resp_text(b, year_ms);
}

void snib__layout_encode_get(struct snib__buf *b, const char *key)
{
    snib__resp_begin(b, 2);
    snib__resp_text(b, "GET");
    snib__resp_text(b, key);
}

static void layout_other(const struct snib__resp_cell *c, char *ret_text,
                         size_t size)
{
    char number[41];
    if (c->type == SNIB__RESP_STRING) {
        snib__redis_error_text(number, sizeof number, c->text, c->size);
        snprintf(ret_text, size,
                 "the locks of this server have layout %s, this snib "
                 "knows " SNIB__REDIS_LAYOUT
                 "; use the newer snib everywhere, or delete "
                 "the key " SNIB__REDIS_LAYOUT_KEY " when nobody uses them",
                 number);
    } else {
        snprintf(ret_text, size,
                 "the key " SNIB__REDIS_LAYOUT_KEY
                 " is of another type, so not "
                 "ours: rename or delete it");
    }
}

layout_verdict snib__layout_read(const struct snib__resp_cell *c,
                                 char *ret_text, size_t size)
{
    error_kind kind = c->type == SNIB__RESP_ERROR
                          ? snib__redis_error_kind(c->text, c->size)
                          : E_STORE;
    if (kind == E_CORRUPT || (c->type == SNIB__RESP_STRING &&
                              !snib__resp_is(c, SNIB__REDIS_LAYOUT))) {
        layout_other(c, ret_text, size);
        return LAYOUT_OTHER;
    }
    if (c->type != SNIB__RESP_ERROR && c->type != SNIB__RESP_STRING &&
        c->type != SNIB__RESP_NIL) {
        return LAYOUT_STRANGE;
    }
    return kind == E_RETRY ? LAYOUT_UNREAD : LAYOUT_OURS;
}
