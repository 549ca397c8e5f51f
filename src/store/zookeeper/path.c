/* store/zookeeper/path.c — what nodes are called.
 *
 *   BASE/NAME                             a lock; BASE is /snib, or the URL's path
 *   BASE/NAME/_c_UUID-__WRIT__0000000012  who wants it alone, or has it; Curator's
 *   BASE/NAME/_c_UUID-__READ__0000000013  a reader; InterProcessReadWriteLock's
 *   BASE/NAME/_c_UUID-lock-0000000012     with ?dialect=curator-mutex all of
 *                                         them; InterProcessMutex's
 *   BASE/NAME/=held-ID-W-30000            a mark (store.c): ID was granted it
 *   BASE/=fence-ID                        one a client (fence.c)
 *
 * UUID is the request's id. The ten digits are the server's: how many nodes were
 * made there before, a 32-bit number that gets negative after 2^31. A mark sorts
 * behind all digits, so that Curator, which sorts what it finds, is not disturbed.
 *
 * NAME is the safe spelling of the lock's name (core/name.h), and besides: a '/'
 * is %2F, a '.' in front %2E, a '=' in front %3D, and a 'z' in front below the
 * root %7A, where ZooKeeper has a node of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/name.h"
#include "store/zookeeper/zookeeper_i.h"

enum { PATH_UUID = 36, PATH_SEQ = 10, PATH_ID = 32 };

/* -- a lock ------------------------------------------------------------------ */

/* How this byte is spelled there; NULL: as it is. */
static const char *path_spelled(const struct snib__zoo *z, char c, bool first)
{
    return c == '/'                           ? "%2F"
           : first && c == '.'                ? "%2E"
           : first && c == '='                ? "%3D"
           : first && c == 'z' && !z->base[0] ? "%7A"
                                              : NULL;
}

void snib__zoo_path_lock(const struct snib__zoo *z, const struct snib__name *n,
                         struct zoo_path *ret)
{
    size_t used = (size_t)snprintf(ret->text, sizeof ret->text, "%s/", z->base);
    for (uint32_t i = 0; i < n->safe_size && used + 4 < sizeof ret->text; i++) {
        const char *spelled = path_spelled(z, n->safe[i], i == 0);
        if (spelled) {
            memcpy(ret->text + used, spelled, 3);
            used += 3;
        } else {
            ret->text[used++] = n->safe[i];
        }
    }
    ret->text[used] = 0;
}

void snib__zoo_path_child(const struct snib__zoo *z, const struct snib__name *n,
                          const char *child, struct zoo_path *ret)
{
    snib__zoo_path_lock(z, n, ret);
    size_t used = strlen(ret->text);
    snprintf(ret->text + used, sizeof ret->text - used, "/%s", child);
}

uint32_t snib__zoo_base_above(const struct snib__zoo *z, uint32_t at)
{
    uint32_t above = at - 1;
    while (z->base[above] != '/') {
        above--;
    }
    return above;
}

size_t snib__zoo_path_name(const struct snib__zoo *z, const char *node,
                           size_t size, char ret[SNIB_NAME_MAX])
{
    char safe[3 * SNIB_NAME_MAX];
    size_t used = 0;
    for (size_t i = 0; i < size && used < sizeof safe; i++) {
        bool first = used == 0;
        char c = node[i];
        if (path_spelled(z, c, first)) {
            return 0; /* ours would be spelled so */
        }
        for (const char *p = "/.=z"; c == '%' && i + 3 <= size && *p; p++) {
            const char *spelled = path_spelled(z, *p, first);
            if (spelled && !memcmp(spelled, node + i, 3)) {
                c = *p;
                i += 2;
                break;
            }
        }
        safe[used++] = c;
    }
    return snib__name_decode(safe, used, ret);
}

/* -- below a lock ------------------------------------------------------------ */

static bool path_hex(const char *text, size_t size, uint64_t *ret)
{
    uint64_t v = 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        bool digit = c >= '0' && c <= '9';
        if (!digit && (c < 'a' || c > 'f')) {
            return false;
        }
        v = v << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    *ret = v;
    return true;
}

/* 8-4-4-4-12 digits. */
static bool path_uuid(const char *text, uint64_t ret[2])
{
    char flat[PATH_ID];
    size_t n = 0;
    for (size_t i = 0; i < PATH_UUID; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash != (text[i] == '-')) {
            return false;
        }
        if (!dash) {
            flat[n++] = text[i];
        }
    }
    return path_hex(flat, 16, &ret[0]) && path_hex(flat + 16, 16, &ret[1]);
}

/* A number of ZooKeeper's: ten bytes, of which a '-' may be the first; eleven
 * with it, when it needs ten digits. */
static bool path_seq(const char *text, size_t size, int32_t *ret)
{
    bool minus = size && *text == '-';
    int64_t v = 0;
    if (size != PATH_SEQ && !(minus && size == PATH_SEQ + 1)) {
        return false;
    }
    for (size_t i = minus; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        v = v * 10 + (text[i] - '0');
    }
    v = minus ? -v : v;
    *ret = (int32_t)v;
    return v >= INT32_MIN && v <= INT32_MAX;
}

/* _c_UUID-, what it is, and its number. */
enum { PATH_HEAD = 3 + PATH_UUID + 1, PATH_KIND = 8, PATH_LOCK = 5 };

static bool path_stands(const char *name, size_t size, struct zoo_child *ret)
{
    if (size < PATH_HEAD + PATH_LOCK + PATH_SEQ ||
        memcmp(name, "_c_", 3) != 0 || name[PATH_HEAD - 1] != '-' ||
        !path_uuid(name + 3, ret->id)) {
        return false;
    }
    const char *kind = name + PATH_HEAD;
    ret->what = ZOO_STANDS;
    ret->mutex = !memcmp(kind, "lock-", PATH_LOCK);
    size_t named = ret->mutex ? PATH_LOCK : PATH_KIND;
    if (size < PATH_HEAD + named + PATH_SEQ) {
        return false;
    }
    ret->reads = !ret->mutex && !memcmp(kind, "__READ__", PATH_KIND);
    return (ret->mutex || ret->reads || !memcmp(kind, "__WRIT__", PATH_KIND)) &&
           path_seq(kind + named, size - PATH_HEAD - named, &ret->seq);
}

static bool path_mark(const char *name, size_t size, struct zoo_child *ret)
{
    enum { HEAD = 6, KIND = HEAD + PATH_ID, DIGITS = KIND + 3 };
    if (size <= DIGITS || size > DIGITS + 12 || memcmp(name, "=held-", HEAD) ||
        !path_hex(name + HEAD, 16, &ret->id[0]) ||
        !path_hex(name + HEAD + 16, 16, &ret->id[1]) || name[KIND] != '-' ||
        name[KIND + 2] != '-') {
        return false;
    }
    ret->what = ZOO_MARK;
    ret->reads = name[KIND + 1] == 'R';
    ret->lease_ms = 0;
    for (size_t i = DIGITS; i < size; i++) {
        if (name[i] < '0' || name[i] > '9') {
            return false;
        }
        ret->lease_ms = ret->lease_ms * 10 + (name[i] - '0');
    }
    return ret->reads || name[KIND + 1] == 'W';
}

void snib__zoo_child_read(const char *name, size_t size, struct zoo_child *ret)
{
    *ret = (struct zoo_child){.what = ZOO_FOREIGN};
    bool fits = size < sizeof ret->name;
    if (!fits ||
        (!path_stands(name, size, ret) && !path_mark(name, size, ret))) {
        ret->what = ZOO_FOREIGN;
    }
    memcpy(ret->name, name, fits ? size : sizeof ret->name - 1);
}

static void path_put_stands(const uint64_t id[2], const char *kind,
                            char ret[ZOO_CHILD_MAX])
{
    unsigned long long a = id[0], b = id[1];
    snprintf(ret, ZOO_CHILD_MAX, "_c_%08llx-%04llx-%04llx-%04llx-%012llx-%s",
             a >> 32, a >> 16 & 0xffff, a & 0xffff, b >> 48, b & 0xffffffffffff,
             kind);
}

void snib__zoo_child_stands(const uint64_t id[2], bool reads,
                            char ret[ZOO_CHILD_MAX])
{
    path_put_stands(id, reads ? "__READ__" : "__WRIT__", ret);
}

void snib__zoo_child_mutex(const uint64_t id[2], char ret[ZOO_CHILD_MAX])
{
    path_put_stands(id, "lock-", ret);
}

void snib__zoo_child_beside(const uint64_t id[2],
                            const struct zoo_child *writer,
                            char ret[ZOO_CHILD_MAX])
{
    char kind[PATH_KIND + PATH_SEQ + 2];
    snprintf(kind, sizeof kind, "__READ__%s",
             writer->name + PATH_HEAD + PATH_KIND);
    path_put_stands(id, kind, ret);
}

void snib__zoo_child_mark(const uint64_t id[2], bool reads, int64_t lease_ms,
                          char ret[ZOO_CHILD_MAX])
{
    snprintf(ret, ZOO_CHILD_MAX, "=held-%016llx%016llx-%c-%lld",
             (unsigned long long)id[0], (unsigned long long)id[1],
             reads ? 'R' : 'W', (long long)lease_ms);
}
