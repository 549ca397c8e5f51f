/* Versioned values at the server. Checked after every script: the keys are read
 * as text and compared with what the order of scripts says must be there.
 *
 *   in time            no copy is applied later than 10 s after it was sent
 *   compared and set   a change is applied when the version it expects is the
 *                      one there, and only then; the bytes and the time to live
 *                      are those it names, a counter goes up by one
 *   applied once       never twice, nor after its caller was told that it is
 *                      not applied, however late a copy comes
 *   versions rise      each number is above all before it, also after deletes
 *                      and the end of a time to live, and after loss of data
 *                      unless the clock was set back besides; and always above
 *                      what the client that asks had been told before
 *   a value stays      nothing else changes it: no read, no refusal, no lock
 *                      of the same name; it ends by its time or a delete
 *   memory             outlives the value by a day, has at most 8 changes
 *   a refusal is true  "changed" names the version that is there, and only a
 *                      change that expects another one is refused; "too late to
 *                      tell" is said only when so much has happened since that
 *                      it is
 *
 * Excused: a change that expects an absent value tells late copies by the
 * server's clock. When that was set, such a change may be applied twice
 * (docs/VALUES.md). And changes that were asked for before the store lost its
 * data. */
#include <stdlib.h>
#include <string.h>

#include "sim/direct.h"

enum { DAY_MS = 86400000, MEMORY = 8, LATE_MS = 10000 };

/* The value that is there now. */
struct found {
    int64_t version, expires_ms, last, memory_expires_ms, now_ms;
    struct sim_bytes bytes;
    uint64_t memory;
    int changes;
};

/* A step about a value, or something else that ran. */
struct step {
    const struct sim_seen *by;
    int name;
    struct sim_value *v;
    struct found was, is;
    bool asleep; /* its time is over, and nobody has read it */
    struct sim_change *change;
};

static bool same_bytes(const struct sim_bytes *a, const struct sim_bytes *b)
{
    return a->size == b->size && memcmp(a->text, b->text, (size_t)a->size) == 0;
}

/* -- reading --------------------------------------------------------------- */

static int key_of(char ret[64], int name, const char *tail)
{
    return snprintf(ret, 64, "%s%s", sim_keys[name], tail);
}

static void read_value(const struct sim_world *w, int name, struct found *is)
{
    char key[64];
    struct sim_redis_arg v = {0}, b = {0};
    struct sim_redis_key k;
    int64_t us = sim_wall_us(w, 0);
    const struct sim_redis *redis = w->node[0].redis;
    size_t n = (size_t)key_of(key, name, ":v");
    if (!sim_redis_find(redis, 0, key, n, us, &k)) {
        return;
    }
    is->expires_ms = k.expire_ms;
    if (sim_redis_hash_field(redis, 0, key, n, "v", us, &v)) {
        is->version = strtoll(v.ptr, NULL, 10);
    }
    if (sim_redis_hash_field(redis, 0, key, n, "b", us, &b)) {
        is->bytes.size = (int)b.len;
        memcpy(is->bytes.text, b.ptr,
               b.len < SIM_VALUE_BYTES ? b.len : SIM_VALUE_BYTES);
    }
}

static void read_memory(const struct sim_world *w, int name, struct found *is)
{
    char key[64];
    struct sim_redis_arg text;
    struct sim_redis_key k;
    int64_t us = sim_wall_us(w, 0);
    size_t n = (size_t)key_of(key, name, ":u");
    is->memory = 0;
    if (!sim_redis_find(w->node[0].redis, 0, key, n, us, &k) ||
        !sim_redis_string(w->node[0].redis, 0, key, n, us, &text)) {
        return;
    }
    is->memory_expires_ms = k.expire_ms;
    is->last = strtoll(text.ptr, NULL, 10);
    is->memory = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < text.len; i++) {
        is->memory =
            (is->memory ^ (uint8_t)text.ptr[i]) * UINT64_C(1099511628211);
        is->changes += text.ptr[i] == ':';
    }
}

static struct sim_change *change_of(const struct sim_world *w, const char *id)
{
    for (int i = w->directs->changes - 1; i >= 0; i--) {
        if (strcmp(w->directs->change[i].id, id) == 0) {
            return &w->directs->change[i];
        }
    }
    return NULL;
}

/* -- what is remembered ---------------------------------------------------- */

static void mark(struct sim_world *w, struct sim_value *v, int64_t number)
{
    v->mark[v->marks++ % SIM_MARKS] =
        (struct sim_mark){.at = w->t, .number = number};
}

static void keep(struct sim_value *v, const struct found *is)
{
    v->slept = false;
    v->version = is->version;
    v->bytes = is->bytes;
    v->expires_ms = is->expires_ms;
    v->memory = is->memory;
}

void theorem_values_lost(struct sim_world *w, int name, bool memory)
{
    struct sim_value *v = &w->directs->value[name];
    struct found is = {0};
    read_value(w, name, &is);
    read_memory(w, name, &is);
    keep(v, &is);
    if (!memory) {
        return;
    }
    v->lost_at = w->t;
    v->marks = 0;
    for (int i = 0; i < w->directs->changes; i++) {
        struct sim_change *c = &w->directs->change[i];
        c->hazy |= c->name == name;
    }
}

/* May this change be applied twice, or although it was refused? */
static bool excused(const struct sim_world *w, const struct sim_change *c)
{
    return c->hazy || (w->directs->stepped && c->expected == 0);
}

/* -- changes --------------------------------------------------------------- */

static int64_t counter(const struct sim_bytes *b)
{
    char text[SIM_VALUE_BYTES + 1] = "";
    memcpy(text, b->text,
           (size_t)(b->size < SIM_VALUE_BYTES ? b->size : SIM_VALUE_BYTES));
    return strtoll(text, NULL, 10);
}

/* The clock was set back and data were lost: versions are given again. */
static bool may_fall(const struct sim_world *w, const struct step *s)
{
    return s->v->lost_at > 0 && w->directs->stepped;
}

static void versions_rise(struct sim_world *w, const struct step *s,
                          int64_t number)
{
    if (number <= s->v->top && !may_fall(w, s)) {
        sim_fail(w, "versions rise", "name %d: %lld after %lld", s->name,
                 (long long)number, (long long)s->v->top);
    } else if (number <= s->change->floor) {
        sim_fail(w, "versions rise", "name %d: %lld, %.6s was told %lld before",
                 s->name, (long long)number, s->change->id,
                 (long long)s->change->floor);
    } else if (number <= 0 || number >= INT64_C(1) << 53) {
        sim_fail(w, "versions rise", "name %d: version %lld", s->name,
                 (long long)number);
    }
}

/* Is what is there what the change says? */
static void as_asked(struct sim_world *w, const struct step *s)
{
    const struct sim_change *c = s->change;
    const struct found *is = &s->is;
    int64_t ends = is->now_ms + (c->remove ? 0 : c->keep_ms);
    if (c->remove ? is->version != 0 : !same_bytes(&is->bytes, &c->bytes)) {
        sim_fail(w, "compared and set", "name %d: not what %.6s writes",
                 s->name, c->id);
    } else if (!c->remove && is->expires_ms != ends) {
        sim_fail(w, "compared and set",
                 "name %d: %.6s is kept until %lld, asked for %lld", s->name,
                 c->id, (long long)is->expires_ms, (long long)ends);
    } else if (c->counts && !may_fall(w, s) &&
               counter(&is->bytes) != counter(&s->was.bytes) + 1) {
        sim_fail(w, "compared and set",
                 "name %d: an update is lost: %lld, %lld", s->name,
                 (long long)counter(&s->was.bytes),
                 (long long)counter(&is->bytes));
    }
    if (!is->memory || is->changes > MEMORY || is->memory_expires_ms < 0 ||
        is->memory_expires_ms < ends + DAY_MS - 1) {
        sim_fail(w, "memory outlives the value",
                 "name %d: %d changes, until %lld; the value %lld", s->name,
                 is->changes, (long long)is->memory_expires_ms,
                 (long long)ends);
    }
}

static void applied(struct sim_world *w, struct step *s)
{
    struct sim_change *c = s->change;
    int64_t number = c->remove ? s->is.last : s->is.version;
    if (c->applied && !excused(w, c)) {
        sim_fail(w, "applied once", "name %d: %.6s is applied again", s->name,
                 c->id);
    } else if (c->refused && !excused(w, c)) {
        sim_fail(w, "applied once",
                 "name %d: %.6s is applied although its caller was told that "
                 "it is not",
                 s->name, c->id);
    } else if (c->expected != s->was.version) {
        sim_fail(w, "compared and set", "name %d: %.6s expects %lld, not %lld",
                 s->name, c->id, (long long)c->expected,
                 (long long)s->was.version);
    }
    int64_t late = w->t - c->until - (c->until - c->born) / 50;
    if (late > (LATE_MS + 100) * SIM_MS && !w->directs->stepped) { /* rates */
        sim_fail(w, "in time", "name %d: a copy of %.6s, %lld ms late", s->name,
                 c->id, (long long)(late / SIM_MS));
    }
    versions_rise(w, s, number);
    as_asked(w, s);
    c->applied++;
    c->number = number;
    s->v->top = number > s->v->top ? number : s->v->top;
    mark(w, s->v, number);
    if (s->by->said != SIM_SAID_DONE ||
        s->by->given != (c->remove ? 0 : number)) {
        sim_fail(w, "a refusal is true", "name %d: %.6s, applied, is told %d",
                 s->name, c->id, (int)s->by->said);
    }
}

/* Did so much happen that the store cannot know any more? */
static bool too_late(const struct sim_world *w, const struct step *s)
{
    const struct sim_change *c = s->change;
    const struct sim_value *v = s->v;
    int64_t since = c->born - (w->t - c->born) / 50 - (LATE_MS + 20) * SIM_MS;
    uint32_t later = 0;
    if (excused(w, c) || (!c->expected && v->lost_at >= since && v->lost_at)) {
        return true;
    }
    for (uint32_t i = 0; i < v->marks && i < SIM_MARKS; i++) {
        const struct sim_mark *m = &v->mark[(v->marks - 1 - i) % SIM_MARKS];
        if (c->expected ? m->number == c->expected : m->at < since) {
            return later >= MEMORY;
        }
        later++;
    }
    return later >= MEMORY || (c->expected && v->lost_at);
}

static void not_applied(struct sim_world *w, struct step *s)
{
    struct sim_change *c = s->change;
    enum sim_said said = s->by->said;
    int64_t version = s->by->given;
    bool ok = true, notes = false;
    if (said == SIM_SAID_DONE) {
        ok = (c->applied && version == (c->remove ? 0 : c->number)) ||
             excused(w, c);
    } else if (said == SIM_SAID_NO) {
        ok = version == s->was.version &&
             (c->expected != s->was.version || c->noted || excused(w, c));
        notes = s->by->resent && !c->expected && s->is.memory != s->was.memory;
    } else if (said == SIM_SAID_FORGOTTEN) {
        ok = s->by->resent && too_late(w, s);
    }
    if (!ok) {
        sim_fail(w, "a refusal is true",
                 "name %d: %.6s, expects %lld, is told %d, %lld; there is "
                 "%lld",
                 s->name, c->id, (long long)c->expected, (int)said,
                 (long long)version, (long long)s->was.version);
    }
    if (notes) {
        c->noted = true;
        mark(w, s->v, 0);
    } else if (s->is.memory != s->was.memory) {
        sim_fail(w, "a value stays", "name %d: its memory changed", s->name);
    }
}

static bool changed(const struct step *s)
{
    return s->is.version != s->was.version ||
           !same_bytes(&s->is.bytes, &s->was.bytes);
}

static void put(struct sim_world *w, struct step *s)
{
    s->change = change_of(w, s->by->request);
    if (!s->change || s->change->name != s->name) {
        sim_fail(w, "compared and set", "name %d: nobody's request %.6s",
                 s->name, s->by->request);
        return;
    }
    if (changed(s)) {
        applied(w, s);
    } else {
        not_applied(w, s);
    }
    struct sim_change *c = s->change;
    c->reply[c->replies++ % 8] = (struct sim_reply){
        .at = w->t, .said = s->by->said, .version = s->by->given};
}

/* -- the rest -------------------------------------------------------------- */

/* Nothing changes the value but a request to change it. */
static void stays(struct sim_world *w, const struct step *s)
{
    const struct found *was = &s->was;
    if (changed(s) || (was->version && was->expires_ms != s->is.expires_ms)) {
        sim_fail(w, "a value stays", "name %d: version %lld became %lld",
                 s->name, (long long)was->version, (long long)s->is.version);
    } else if (was->memory != s->is.memory) {
        sim_fail(w, "a value stays", "name %d: its memory changed", s->name);
    }
}

static void get(struct sim_world *w, struct step *s)
{
    struct sim_value *v = s->v;
    const struct found *is = &s->is;
    if (s->by->said != SIM_SAID_DONE) { /* refused by a state of the server */
        return;
    }
    if (s->by->given != is->version) {
        sim_fail(w, "a read is true", "name %d: read %lld, there is %lld",
                 s->name, (long long)s->by->given, (long long)is->version);
    }
    v->read[v->reads++ % SIM_READS] = (struct sim_read){
        .at = w->t, .version = is->version, .bytes = is->bytes};
}

/* Find the value that was there before, by the present clock. A value whose
 * time is over is absent. It is dropped when somebody reads it; if the clock is
 * set back before that, it is there again. */
static void before(struct step *s)
{
    struct sim_value *v = s->v;
    s->asleep = v->version && v->expires_ms < s->is.now_ms;
    if (!s->asleep && v->slept && s->is.version == 0) {
        v->version = 0;
        v->bytes.size = 0;
    }
    v->slept = s->asleep;
    s->was.memory = v->memory;
    if (!s->asleep) {
        s->was.version = v->version;
        s->was.bytes = v->bytes;
        s->was.expires_ms = v->expires_ms;
    }
}

void theorem_values(struct sim_world *w, const struct sim_seen *by)
{
    for (int n = 0; w->opt.value_pct && n < w->opt.names; n++) {
        struct step s = {.by = by, .name = n, .v = &w->directs->value[n]};
        s.is.now_ms = sim_wall_us(w, 0) / 1000;
        read_value(w, n, &s.is);
        read_memory(w, n, &s.is);
        before(&s);
        if (n == by->name && by->deed == SIM_DID_VALUE_PUT) {
            put(w, &s);
        } else {
            stays(w, &s);
        }
        if (n == by->name && by->deed == SIM_DID_VALUE_GET) {
            get(w, &s);
        }
        if (!s.asleep || s.is.version) {
            keep(s.v, &s.is);
        }
        s.v->memory = s.is.memory;
    }
}
