/* store/etcd/key.c — the keys, as text.
 *
 *     PREFIXl/NAME/!               the lock row
 *     PREFIXl/NAME/a               the arrivals
 *     PREFIXl/NAME/c/OPENED.PLACE  a claim, whose request its row says
 *     PREFIXb/CLIENT               the notifier of a client
 *     PREFIXv/NAME/r, …/v          a versioned value: its record, its bytes
 *
 * NAME is the safe spelling (core/name.h), in which a '/' is written %2F too, so
 * no name is the beginning of another one. OPENED, CLIENT and REQUEST are 32
 * hexadecimal digits, PLACE (place.c) is 8.
 *
 * Of the recipe of etcd's own clients (recipe.c), whose names stand as they are:
 *
 *     [PREFIX]NAME/REQUEST    who stands there
 *     snib/x/REQUEST          a tombstone
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/etcd/recipe_i.h"

static void key_put(struct etcd_key *k, const char *text, size_t size)
{
    if (size < sizeof k->text - k->size) {
        memcpy(k->text + k->size, text, size);
        k->size += size;
        k->text[k->size] = 0;
    }
}

static void key_puts(struct etcd_key *k, const char *text)
{
    key_put(k, text, strlen(text));
}

static void key_name(struct etcd_key *k, const struct snib__name *name)
{
    for (uint32_t i = 0; i < name->safe_size; i++) {
        if (name->safe[i] == '/') {
            key_puts(k, "%2F");
        } else {
            key_put(k, name->safe + i, 1);
        }
    }
}

void snib__etcd_id_text(const uint64_t id[2], char ret[ETCD_ID + 1])
{
    snprintf(ret, ETCD_ID + 1, "%016llx%016llx", (unsigned long long)id[0],
             (unsigned long long)id[1]);
}

static void key_id(struct etcd_key *k, const uint64_t id[2])
{
    char text[ETCD_ID + 1];
    snib__etcd_id_text(id, text);
    key_puts(k, text);
}

static void key_place(struct etcd_key *k, const struct etcd_place *place)
{
    char text[ETCD_PLACE + 2];
    key_id(k, place->opened);
    snprintf(text, sizeof text, ".%08x", (unsigned)place->number);
    key_puts(k, text);
}

static void key_begin(const struct snib__etcd *e, const char *part,
                      struct etcd_key *ret)
{
    ret->size = 0;
    key_puts(ret, e->prefix);
    key_puts(ret, part);
}

/* '0' is what follows '/'. */
void snib__etcd_key_lock(const struct snib__etcd *e,
                         const struct snib__name *name, struct etcd_key *from,
                         struct etcd_key *to)
{
    key_begin(e, "l/", from);
    key_name(from, name);
    *to = *from;
    key_puts(from, "/");
    key_puts(to, "0");
}

void snib__etcd_key_row(const struct snib__etcd *e, const struct snib__key *key,
                        const struct etcd_place *place, struct etcd_key *ret)
{
    if (key->kind == SNIB__KEY_FLOOR) {
        key_begin(e, "f", ret);
        return;
    }
    key_begin(e, "l/", ret);
    key_name(ret, key->name);
    switch (key->kind) {
    case SNIB__KEY_LOCK:
        key_puts(ret, "/!");
        break;
    case SNIB__KEY_ARRIVALS:
        key_puts(ret, "/a");
        break;
    case SNIB__KEY_CLAIM:
        key_puts(ret, "/c/");
        key_place(ret, place);
        break;
    case SNIB__KEY_FLOOR:
        break;
    }
}

void snib__etcd_key_notifier(const struct snib__etcd *e,
                             const uint64_t client[2], struct etcd_key *ret)
{
    key_begin(e, "b/", ret);
    key_id(ret, client);
}

void snib__etcd_key_value(const struct snib__etcd *e,
                          const struct snib__name *name, const char *suffix,
                          struct etcd_key *ret)
{
    key_begin(e, "v/", ret);
    key_name(ret, name);
    key_puts(ret, *suffix == '0' ? "" : "/");
    key_puts(ret, suffix);
}

void snib__etcd_key_recipe(const struct snib__etcd *e,
                           const struct snib__name *name, struct etcd_key *from,
                           struct etcd_key *to)
{
    key_begin(e, "", from);
    key_put(from, name->raw, name->raw_size);
    *to = *from;
    key_puts(from, "/");
    key_puts(to, "0");
}

void snib__etcd_key_recipe_own(const struct snib__etcd *e,
                               const struct snib__name *name,
                               const uint64_t id[2], struct etcd_key *ret)
{
    struct etcd_key to;
    snib__etcd_key_recipe(e, name, ret, &to);
    key_id(ret, id);
}

void snib__etcd_key_tombstone(const uint64_t id[2], struct etcd_key *ret)
{
    ret->size = 0;
    key_puts(ret, "snib/x/");
    key_id(ret, id);
}

void snib__etcd_key_all(const struct snib__etcd *e, struct etcd_key *from,
                        struct etcd_key *to)
{
    key_begin(e, "l/", from);
    key_begin(e, "l0", to);
}

/* -- reading --------------------------------------------------------------- */

bool snib__etcd_id_read(const char *text, size_t size, uint64_t ret[2])
{
    ret[0] = ret[1] = 0;
    for (size_t i = 0; i < ETCD_ID && size == ETCD_ID; i++) {
        char c = text[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
        if (d < 0) {
            return false;
        }
        ret[i / 16] = ret[i / 16] << 4 | (uint64_t)d;
    }
    return size == ETCD_ID;
}

static bool key_read_name(const char *safe, size_t size, struct etcd_parts *ret)
{
    char plain[3 * SNIB_NAME_MAX];
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        bool slash = size - i > 2 && !memcmp(safe + i, "%2F", 3);
        if (n == sizeof plain) {
            return false;
        }
        plain[n++] = slash ? '/' : safe[i];
        i += slash ? 2 : 0;
    }
    ret->safe = safe;
    ret->safe_size = size;
    ret->size = snib__name_decode(plain, n, ret->name);
    return ret->size > 0;
}

static bool key_read_place(const char *text, size_t size,
                           struct etcd_place *ret)
{
    static const char zeros[] = "000000000000000000000000";
    char number[ETCD_ID];
    uint64_t n[2] = {0, 0};
    if (size != ETCD_ID + 1 + ETCD_PLACE || text[ETCD_ID] != '.') {
        return false;
    }
    memcpy(number, zeros, ETCD_ID - ETCD_PLACE);
    memcpy(number + ETCD_ID - ETCD_PLACE, text + ETCD_ID + 1, ETCD_PLACE);
    bool is = snib__etcd_id_read(text, ETCD_ID, ret->opened) &&
              snib__etcd_id_read(number, ETCD_ID, n);
    ret->number = (uint32_t)n[1];
    return is;
}

bool snib__etcd_key_read(const struct snib__etcd *e, struct snib__etcd_text t,
                         struct etcd_parts *ret)
{
    struct etcd_key from, to;
    const char *text = t.bytes;
    snib__etcd_key_all(e, &from, &to);
    if (t.size <= from.size || memcmp(text, from.text, from.size) != 0) {
        return false;
    }
    text += from.size;
    size_t size = t.size - from.size;
    const char *slash = memchr(text, '/', size);
    if (!slash || !key_read_name(text, (size_t)(slash - text), ret)) {
        return false;
    }
    size -= (size_t)(slash - text) + 1;
    text = slash + 1;
    if (size == 1 && (*text == '!' || *text == 'a')) {
        ret->kind = *text == '!' ? SNIB__KEY_LOCK : SNIB__KEY_ARRIVALS;
        return true;
    }
    ret->kind = SNIB__KEY_CLAIM;
    return size > 2 && text[0] == 'c' && text[1] == '/' &&
           key_read_place(text + 2, size - 2, &ret->place);
}

snib_err snib__etcd_key_strange(struct snib__etcd_text t,
                                struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_CONFIG,
                      "a key of this lock was made by another version of snib, "
                      "or by hand; let clients of that version end, or delete "
                      "it: %.*s",
                      (int)t.size, (const char *)t.bytes);
}
