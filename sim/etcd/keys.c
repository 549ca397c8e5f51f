/* sim/etcd/keys.c — the keys of the cluster. One that is a row of a lock of this
 * world is also kept as what its bytes say, for the books. */
#include <stdlib.h>
#include <string.h>

#include "core/name.h"
#include "sim/etcd/model.h"

static int compare(const struct sim_etcd_key *k, struct snib__etcd_text t)
{
    size_t n = k->size < t.size ? k->size : t.size;
    int c = memcmp(k->text, t.bytes, n);
    return c ? c : (k->size > t.size) - (k->size < t.size);
}

int sim_etcd_from(const struct sim_etcd_keys *keys, struct snib__etcd_text t)
{
    int low = 0, high = keys->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (compare(&keys->key[middle], t) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct sim_etcd_key *sim_etcd_find(const struct sim_etcd_keys *keys,
                                   struct snib__etcd_text t)
{
    int at = sim_etcd_from(keys, t);
    return at < keys->count && !compare(&keys->key[at], t) ? &keys->key[at]
                                                           : NULL;
}

/* -- rows of locks ----------------------------------------------------------- */

/* snib/l/NAME/!, …/a, …/c/CLIENT.PLACE, with the name as it is spelled in keys. */
static void place(struct sim_etcd_key *k)
{
    static const char locks[] = "snib/l/";
    const char *at = k->text + strlen(locks);
    const char *end =
        strncmp(k->text, locks, strlen(locks)) == 0 ? strchr(at, '/') : NULL;
    char name[SNIB_NAME_MAX];
    k->name = -1;
    if (!end) {
        return;
    }
    size_t size = snib__name_decode(at, (size_t)(end - at), name);
    for (int n = 0; n < SIM_NAMES; n++) {
        if (size == strlen(sim_names[n]) && !memcmp(name, sim_names[n], size)) {
            k->name = n;
            k->kind = end[1] == '!'   ? SNIB__KEY_LOCK
                      : end[1] == 'a' ? SNIB__KEY_ARRIVALS
                                      : SNIB__KEY_CLAIM;
        }
    }
}

static void read_row(struct sim_etcd_key *k)
{
    const void *about;
    size_t size;
    if (k->name >= 0 && k->kind == SNIB__KEY_LOCK) {
        snib__layout_lock(k->value, k->value_size, &k->l, NULL);
    } else if (k->name >= 0 && k->kind == SNIB__KEY_CLAIM) {
        snib__layout_claim(k->value, k->value_size, &k->c, &about, &size, NULL);
    }
}

/* -- changes ----------------------------------------------------------------- */

static void make_room(struct sim_etcd_keys *keys, int count)
{
    if (count > keys->room) {
        keys->room = count < 32 ? 32 : 2 * count;
        keys->key = realloc(keys->key, (size_t)keys->room * sizeof *keys->key);
        if (!keys->key) {
            abort();
        }
    }
}

static struct sim_etcd_key *add(struct sim_etcd_keys *keys,
                                struct snib__etcd_text t)
{
    int at = sim_etcd_from(keys, t);
    if (t.size >= SIM_ETCD_KEY) {
        abort();
    }
    make_room(keys, keys->count + 1);
    struct sim_etcd_key *k = &keys->key[at];
    memmove(k + 1, k, (size_t)(keys->count++ - at) * sizeof *k);
    memset(k, 0, offsetof(struct sim_etcd_key, value));
    memcpy(k->text, t.bytes, t.size);
    k->size = t.size;
    place(k);
    return k;
}

void sim_etcd_put(struct sim_etcd_keys *keys, struct snib__etcd_text key,
                  struct snib__etcd_text value, int64_t lease)
{
    struct sim_etcd_key *k = sim_etcd_find(keys, key);
    if (value.size > SIM_ETCD_VALUE) {
        abort();
    }
    k = k ? k : add(keys, key);
    memcpy(k->value, value.bytes, value.size);
    k->value_size = value.size;
    k->mod = keys->revision;
    k->lease = lease;
    read_row(k);
}

void sim_etcd_delete(struct sim_etcd_keys *keys, struct sim_etcd_key *k)
{
    int at = (int)(k - keys->key);
    memmove(k, k + 1, (size_t)(--keys->count - at) * sizeof *k);
}

void sim_etcd_keys_copy(struct sim_etcd_keys *to,
                        const struct sim_etcd_keys *from)
{
    make_room(to, from->count);
    to->count = from->count;
    to->revision = from->revision;
    if (from->count) {
        memcpy(to->key, from->key, (size_t)from->count * sizeof *from->key);
    }
}

void sim_etcd_keys_free(struct sim_etcd_keys *keys)
{
    free(keys->key);
    *keys = (struct sim_etcd_keys){0};
}
