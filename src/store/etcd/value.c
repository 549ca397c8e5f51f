/* store/etcd/value.c — versioned values (core/version.h): a key for the record
 * and one for the bytes.
 *
 * The bytes hang on a lease as long as the value is kept; when it ends the value
 * is absent. The record outlives them by a day, so that a version is not given
 * twice. Both are read at once, and a change names the revisions with which they
 * were read. */
#include <stdio.h>

#include "base/error.h"
#include "core/version.h"
#include "store/etcd/etcd_i.h"

enum { VALUE_MEMORY = 26 * 3600, VALUE_MEMORY_AGE_MS = 3600 * 1000 };

struct value_rows {
    struct snib__etcd_pair record, bytes; /* key.size 0: absent */
    bool damaged;
};

static struct etcd_step *value_of(struct etcd_call *c)
{
    return (struct etcd_step *)(void *)c;
}

static void value_undo(struct etcd_step *k)
{
    if (k->decides) {
        k->r[0]->token = k->revision;
    }
}

static void value_range(struct snib__etcd *e, const struct etcd_step *k,
                        uint32_t branch, struct snib__buf *ret)
{
    struct etcd_key from, to;
    snib__etcd_key_value(e, k->r[0]->name, "", &from);
    snib__etcd_key_value(e, k->r[0]->name, "0", &to);
    snib__etcd_txn_range(
        ret, branch,
        &(struct snib__etcd_range){.from = snib__etcd_text_of(&from),
                                   .to = snib__etcd_text_of(&to)});
}

static void value_begin(struct snib__etcd *e, snib_instant now,
                        struct etcd_step *k)
{
    if (!k->decides) { /* the version that was expected */
        k->revision = k->r[0]->token;
        k->decides = true;
    }
    value_undo(k);
    snib__buf_clear(&e->message);
    value_range(e, k, SNIB__ETCD_SUCCESS, &e->message);
    snib__etcd_step_call(e, now, k, STEP_ASKS, SNIB__ETCD_TXN, &e->message);
}

/* -- what is there ---------------------------------------------------------- */

static bool value_read(struct snib__etcd_txn *t, struct value_rows *ret)
{
    struct snib__etcd_rows rows;
    struct snib__etcd_pair pair;
    *ret = (struct value_rows){.damaged = false};
    if (!snib__etcd_next_range(t, &rows)) {
        return false;
    }
    while (snib__etcd_next_pair(&rows, &pair)) {
        const char *key = pair.key.bytes;
        char last = key[pair.key.size - 1];
        if (last == 'r') {
            ret->record = pair;
        } else if (last == 'v') {
            ret->bytes = pair;
        }
    }
    return snib__etcd_whole(&rows);
}

/* *v: the record, or what a name without one begins with. False: it is none. */
static bool value_open(const struct value_rows *rows, struct snib__version *v)
{
    *v = (struct snib__version){0};
    if (rows->record.key.size &&
        !snib__version_unpack(rows->record.value.bytes, rows->record.value.size,
                              v)) {
        return false;
    }
    v->version = rows->bytes.key.size ? v->version : 0;
    return true;
}

static void value_answer(struct snib__etcd *e, struct etcd_step *k,
                         snib__answer answer, snib_err err, const char *text)
{
    struct snib__request *r = k->r[0];
    r->said.answer = answer;
    r->said.err = err ? snib__fail(r->said.reterr, err, "%s", text)
                      : snib__ok(r->said.reterr);
    snib__etcd_step_over(e, k);
}

static void value_damaged(struct snib__etcd *e, struct etcd_step *k)
{
    char text[200];
    value_undo(k);
    snprintf(text, sizeof text,
             "etcd: the value %.100s is damaged; remove its keys %.40sv/…",
             k->r[0]->name->safe, e->prefix);
    value_answer(e, k, SNIB__NOT_APPLIED, SNIB_ERR_CORRUPT, text);
}

static void value_get(struct snib__etcd *e, struct etcd_step *k,
                      const struct value_rows *rows,
                      const struct snib__version *v)
{
    struct snib__request *r = k->r[0];
    if (v->version) {
        snib__buf_add(r->said.result, rows->bytes.value.bytes,
                      rows->bytes.value.size);
    }
    if (r->said.result->failed) {
        value_answer(e, k, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM,
                     snib_err_text(SNIB_ERR_NOMEM));
    } else {
        r->token = v->version;
        value_answer(e, k, SNIB__DONE, SNIB_ERR_OK, "");
    }
}

/* -- changes ---------------------------------------------------------------- */

/* The record is kept for longer than the bytes, which keep their lease when only
 * a refusal is noted. */
static bool value_put_record(struct snib__etcd *e, snib_instant now,
                             struct etcd_step *k, const struct value_rows *rows,
                             const struct snib__version *v, bool puts,
                             bool deletes)
{
    uint8_t packed[SNIB__VERSION_BYTES];
    struct etcd_key key;
    bool same = rows->record.key.size && !puts && !deletes;
    int64_t kept = puts ? k->r[0]->lease.ns / 1000000000 + 1 : 0;
    struct etcd_ttl ttl = snib__etcd_ttl_seconds(VALUE_MEMORY + kept,
                                                 VALUE_MEMORY_AGE_MS, k->begun);
    const struct etcd_lease *l =
        same ? NULL : snib__etcd_lease_for(e, now, &ttl);
    snib__version_pack(v, packed);
    snib__etcd_key_value(e, k->r[0]->name, "r", &key);
    snib__etcd_compare(&e->message, snib__etcd_text_of(&key),
                       rows->record.mod_revision);
    snib__etcd_txn_put(
        &e->message, &(struct snib__etcd_put){.key = snib__etcd_text_of(&key),
                                              .value = {packed, sizeof packed},
                                              .lease = l ? l->id : 0,
                                              .same_lease = same});
    return same || l;
}

static bool value_put_bytes(struct snib__etcd *e, snib_instant now,
                            struct etcd_step *k, const struct value_rows *rows,
                            bool puts, bool deletes)
{
    struct snib__request *r = k->r[0];
    struct etcd_key key;
    struct etcd_ttl ttl = snib__etcd_ttl_hold(r->lease, k->begun);
    const struct etcd_lease *l =
        puts ? snib__etcd_lease_for(e, now, &ttl) : NULL;
    snib__etcd_key_value(e, r->name, "v", &key);
    snib__etcd_compare(&e->message, snib__etcd_text_of(&key),
                       rows->bytes.mod_revision);
    if (puts) {
        snib__etcd_txn_put(&e->message, &(struct snib__etcd_put){
                                            .key = snib__etcd_text_of(&key),
                                            .value = {r->text, r->text_size},
                                            .lease = l ? l->id : 0});
    } else if (deletes) {
        snib__etcd_txn_delete(&e->message, snib__etcd_text_of(&key));
    }
    return l || !puts;
}

static void value_change(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k, const struct value_rows *rows,
                         struct snib__version *v)
{
    snib__version_todo todo =
        snib__version_step(v, k->r[0], snib__etcd_wall(e, now).ns / 1000000);
    bool puts = todo == SNIB__VERSION_PUT,
         deletes = todo == SNIB__VERSION_DELETE;
    if (todo == SNIB__VERSION_KEEP) {
        snib__etcd_step_over(e, k);
        return;
    }
    snib__buf_clear(&e->message);
    bool record = value_put_record(e, now, k, rows, v, puts, deletes);
    bool bytes = value_put_bytes(e, now, k, rows, puts, deletes);
    if (!record || !bytes) { /* a grant has written into the same buffer */
        value_undo(k);
        snib__etcd_step_wait(e, k);
        return;
    }
    value_range(e, k, SNIB__ETCD_FAILURE, &e->message);
    snib__etcd_step_call(e, now, k, STEP_WRITES, SNIB__ETCD_TXN, &e->message);
}

/* -- answers ---------------------------------------------------------------- */

static void value_found(struct snib__etcd *e, snib_instant now,
                        struct etcd_step *k, const struct etcd_reply *reply)
{
    static const struct etcd_reply strange = {
        .end = ETCD_AGAIN, .err = SNIB_ERR_STORE, .leave = true};
    struct snib__etcd_txn t;
    struct value_rows rows;
    struct snib__version v;
    snib__etcd_read_txn(reply->bytes, reply->size, &t);
    if (!t.bad) {
        snib__etcd_saw(e, &k->call, t.header.revision);
    }
    if (t.bad || !value_read(&t, &rows)) {
        snib__etcd_step_by_reply(e, now, k, &strange);
    } else if (!value_open(&rows, &v)) {
        value_damaged(e, k);
    } else if (k->r[0]->verb == SNIB__VALUE_GET) {
        value_get(e, k, &rows, &v);
    } else {
        value_change(e, now, k, &rows, &v);
    }
}

static void value_lost(struct snib__etcd *e, snib_instant now,
                       struct etcd_step *k)
{
    (void)now;
    value_undo(k);
    snib__etcd_step_lost(e, k);
}

static void value_wrote(struct snib__etcd *e, snib_instant now,
                        struct etcd_step *k, const struct etcd_reply *reply)
{
    struct snib__etcd_txn t;
    snib__etcd_read_txn(reply->bytes, reply->size, &t);
    if (t.bad) {
        value_lost(e, now, k);
    } else if (t.succeeded) {
        snib__etcd_step_over(e, k);
    } else {
        (void)snib__etcd_step_pause(e, now, k);
    }
}

static void value_done(struct snib__etcd *e, snib_instant now,
                       struct etcd_call *c, const struct etcd_reply *reply)
{
    struct etcd_step *k = value_of(c);
    bool writes = k->phase == STEP_WRITES;
    switch (reply->end) {
    case ETCD_OK:
        if (writes) {
            value_wrote(e, now, k, reply);
        } else {
            value_found(e, now, k, reply);
        }
        break;
    case ETCD_NO_LEASE:
        snib__etcd_leases_doubt(e);
        (void)snib__etcd_step_pause(e, now, k);
        break;
    case ETCD_REFUSED:
    case ETCD_AGAIN:
        value_undo(k);
        snib__etcd_step_by_reply(e, now, k, reply);
        break;
    case ETCD_LOST:
        value_lost(e, now, k);
        break;
    }
}

const struct etcd_work snib__etcd_value_work = {.begin = value_begin,
                                                .done = value_done,
                                                .go_on = value_begin,
                                                .late = value_lost,
                                                .undo = value_undo};
