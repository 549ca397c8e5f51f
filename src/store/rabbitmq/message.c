/* store/rabbitmq/message.c — the messages in a lock's queue, as text that people can
 * read there, and what follows from those that a consumer has seen:
 *
 *     snib1 held 00112233445566778899aabbccddeeff 1790000000000000 30000 2
 *     pid=4312&host=ci-7&…
 *
 * kind, request, token, lease in ms, number; then who is behind it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/rabbitmq/rabbitmq_i.h"

enum { MESSAGE_SEEN_MOST = 256, MESSAGE_HEAD_MAX = 160 };
#define MESSAGE_SERIAL_MOST                                                    \
    UINT64_C(999999999999999999) /* 18 digits are read */

static const char *const message_words[] = {
    [MQ_FOREIGN] = "",     [MQ_SEED] = "seed", [MQ_PROBE] = "probe",
    [MQ_WHO] = "who",      [MQ_HELD] = "held", [MQ_FREE] = "free",
    [MQ_WAITING] = "waits"};

/* -- as text --------------------------------------------------------------------- */

static bool message_hex(const char *text, uint64_t *ret)
{
    char digits[17] = {0}, *end;
    memcpy(digits, text, 16);
    *ret = strtoull(digits, &end, 16);
    return *end == 0 && digits[0] != '-' && digits[0] != '+' &&
           digits[0] != ' ';
}

static mq_kind message_kind(const char *word)
{
    for (int k = MQ_SEED; k <= MQ_WAITING; k++) {
        if (!strcmp(word, message_words[k])) {
            return (mq_kind)k;
        }
    }
    return MQ_FOREIGN;
}

/* Numbers that no snib writes make it foreign. */
static bool message_is_sound(const struct mq_message *m)
{
    return m->token >= 0 && m->lease_ms >= 0 &&
           m->lease_ms <= MQ_LEASE_MOST_MS && m->serial <= MESSAGE_SERIAL_MOST;
}

void snib__mq_message_read(const char *text, size_t size,
                           struct mq_message *ret)
{
    char head[MESSAGE_HEAD_MAX + 1], word[8], id[33];
    long long token, lease;
    unsigned long long serial;
    const char *end = memchr(text, '\n', size);
    size_t n = end ? (size_t)(end - text) : size;
    *ret = (struct mq_message){.kind = MQ_FOREIGN};
    if (n > MESSAGE_HEAD_MAX) {
        return;
    }
    memcpy(head, text, n);
    head[n] = 0;
    struct mq_message m = {.kind = MQ_FOREIGN};
    if (sscanf(head, "snib1 %7[a-z] %32[0-9a-f]%*1[ ]%18lld %18lld %18llu",
               word, id, &token, &lease, &serial) != 5 ||
        strlen(id) != 32 || !message_hex(id, &m.id[0]) ||
        !message_hex(id + 16, &m.id[1])) {
        return;
    }
    m.kind = message_kind(word);
    m.token = token;
    m.lease_ms = lease;
    m.serial = serial;
    if (message_is_sound(&m)) {
        *ret = m;
    }
}

void snib__mq_message_write(const struct mq_message *m, const char *about,
                            size_t about_size, struct snib__buf *ret)
{
    snib__buf_printf(ret, "snib1 %s %016llx%016llx %lld %lld %llu\n",
                     message_words[m->kind], (unsigned long long)m->id[0],
                     (unsigned long long)m->id[1], (long long)m->token,
                     (long long)m->lease_ms, (unsigned long long)m->serial);
    snib__buf_add(ret, about, about_size);
}

/* -- queues ------------------------------------------------------------------------ */

/* A name that is too long is cut, and told apart by a hash. Two that meet there
 * would be one lock, which excludes too much, never too little. */
void snib__mq_queue(const struct snib__name *name, char ret[MQ_QUEUE_MAX])
{
    enum { MOST = MQ_QUEUE_MAX - 1 - 7, KEPT = MOST - 17 };
    if (name->safe_size <= MOST) {
        snprintf(ret, MQ_QUEUE_MAX, "snib.l.%s", name->safe);
    } else {
        snprintf(ret, MQ_QUEUE_MAX, "snib.h.%.*s.%016llx", KEPT, name->safe,
                 (unsigned long long)name->hash);
    }
}

void snib__mq_queue_later(const char *queue, char ret[MQ_QUEUE_MAX])
{
    snprintf(ret, MQ_QUEUE_MAX, "%s", queue);
    ret[5] = queue[5] == 'l' ? 'w' : 'v'; /* of another kind, as long */
}

/* -- what was seen ------------------------------------------------------------------ */

bool snib__mq_view_add(struct mq_view *v, const struct mq_seen *seen)
{
    if (v->count == MESSAGE_SEEN_MOST) {
        return false;
    }
    if (v->count == v->capacity) {
        uint32_t capacity = v->capacity ? 2 * v->capacity : 4;
        struct mq_seen *grown =
            snib__realloc(v->seen, capacity * sizeof *grown);
        if (!grown) {
            return false;
        }
        v->seen = grown;
        v->capacity = capacity;
    }
    v->seen[v->count++] = *seen;
    return true;
}

void snib__mq_view_free(struct mq_view *v)
{
    snib__free(v->seen);
    *v = (struct mq_view){.seen = NULL};
}

static bool message_is_of(const struct mq_message *m, const uint64_t id[2])
{
    return m->id[0] == id[0] && m->id[1] == id[1];
}

/* A FREE that was sent before says nothing of it: a request may be granted the lock
 * again under its id, when the answer to the first grant was lost for a lease. */
bool snib__mq_view_is_over(const struct mq_view *v,
                           const struct mq_message *held)
{
    for (uint32_t i = 0; i < v->count; i++) {
        const struct mq_message *m = &v->seen[i].says;
        if (m->kind == MQ_FREE && message_is_of(m, held->id) &&
            m->serial >= held->serial) {
            return true;
        }
    }
    return false;
}

/* Is there another message with this token, or a higher one? */
static bool message_is_topped(const struct mq_view *v, uint32_t i)
{
    for (uint32_t j = 0; j < v->count; j++) {
        if (j != i && v->seen[j].says.token >= v->seen[i].says.token) {
            return true;
        }
    }
    return false;
}

/* A FREE that ends nothing here, or no more than another one does. */
static bool message_ends_nothing(const struct mq_view *v, uint32_t i)
{
    const struct mq_message *m = &v->seen[i].says;
    bool needed = false;
    for (uint32_t j = 0; j < v->count; j++) {
        const struct mq_message *o = &v->seen[j].says;
        if (j == i || !message_is_of(o, m->id)) {
            continue;
        }
        if (o->kind == MQ_FREE && o->serial >= m->serial) {
            return true;
        }
        needed = needed || (o->kind == MQ_HELD && o->serial <= m->serial);
    }
    return !needed;
}

/* A HELD that was sent before another one of its request, and for no longer: leases
 * count from the sending, so it is over before that one is. */
static bool message_is_outlasted(const struct mq_view *v, uint32_t i)
{
    const struct mq_message *m = &v->seen[i].says;
    for (uint32_t j = 0; j < v->count; j++) {
        const struct mq_message *o = &v->seen[j].says;
        if (j != i && o->kind == MQ_HELD && message_is_of(o, m->id) &&
            o->serial >= m->serial && o->lease_ms >= m->lease_ms) {
            return true;
        }
    }
    return false;
}

static uint64_t message_take_out(struct mq_view *v, uint32_t i)
{
    uint64_t tag = v->seen[i].tag;
    memmove(&v->seen[i], &v->seen[i + 1], (--v->count - i) * sizeof *v->seen);
    return tag;
}

/* What says nothing any more: tries that are refused leave messages, too. */
uint64_t snib__mq_view_prune(struct mq_view *v)
{
    for (uint32_t i = 0; i < v->count; i++) {
        const struct mq_message *m = &v->seen[i].says;
        if (message_is_topped(v, i) &&
            (m->kind == MQ_HELD
                 ? snib__mq_view_is_over(v, m) || message_is_outlasted(v, i)
                 : message_ends_nothing(v, i))) {
            return message_take_out(v, i);
        }
    }
    return 0;
}

uint64_t snib__mq_view_outdone(struct mq_view *v, const uint64_t id[2],
                               uint64_t serial)
{
    for (uint32_t i = 0; i < v->count; i++) {
        const struct mq_message *m = &v->seen[i].says;
        if (m->kind == MQ_HELD && message_is_of(m, id) && m->serial < serial) {
            return message_take_out(v, i);
        }
    }
    return 0;
}

snib_instant snib__mq_view_until(const struct mq_view *v, const uint64_t id[2])
{
    snib_instant latest = {0};
    for (uint32_t i = 0; i < v->count; i++) {
        const struct mq_seen *s = &v->seen[i];
        if (s->says.kind == MQ_HELD && !message_is_of(&s->says, id) &&
            !snib__mq_view_is_over(v, &s->says)) {
            latest = snib__later(
                latest, snib__after(s->came, snib__ms(s->says.lease_ms)));
        }
    }
    return latest;
}

int64_t snib__mq_view_token(const struct mq_view *v, uint64_t but_tag)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        int64_t token = v->seen[i].says.token;
        if (v->seen[i].tag != but_tag && token > most) {
            most = token;
        }
    }
    return most;
}
