/* store/etcd/message.c — see message.h. The numbers are those of etcd's
 * rpc.proto and kv.proto; a field that is not named here is left out, or
 * skipped. */
#include "store/etcd/message.h"

/* -- out ------------------------------------------------------------------- */

static void message_text(struct snib__buf *b, uint32_t field,
                         struct snib__etcd_text t)
{
    if (t.size) {
        snib__pb_put_bytes(b, field, t.bytes, t.size);
    }
}

static void message_int(struct snib__buf *b, uint32_t field, int64_t v)
{
    if (v) {
        snib__pb_put_int(b, field, v);
    }
}

/* RangeRequest. It is never `serializable`: who asks one member for what it
 * remembers may be told what is over. */
void snib__etcd_put_range(struct snib__buf *b, const struct snib__etcd_range *r)
{
    message_text(b, 1, r->from);
    message_text(b, 2, r->to);
    message_int(b, 3, r->limit);
    message_int(b, 4, r->revision);
    message_int(b, 8, r->keys_only);
}

/* Compare: result EQUAL (0), target MOD (2). Of a key that is absent it is 0. */
void snib__etcd_compare(struct snib__buf *b, struct snib__etcd_text key,
                        uint64_t mod_revision)
{
    size_t begun = snib__pb_begin(b, SNIB__ETCD_COMPARE);
    snib__pb_put_int(b, 2, 2);
    message_text(b, 3, key);
    snib__pb_put_int(b, 6, (int64_t)mod_revision);
    snib__pb_end(b, begun);
}

/* Target CREATE (1), or of the keys from `from` on before `to`; all of them have to
 * be so. Where there is none, it counts as one whose revision is 0. */
static void message_made(struct snib__buf *b, int64_t result,
                         struct snib__etcd_text from, struct snib__etcd_text to,
                         int64_t revision)
{
    size_t begun = snib__pb_begin(b, SNIB__ETCD_COMPARE);
    message_int(b, 1, result);
    snib__pb_put_int(b, 2, 1);
    message_text(b, 3, from);
    snib__pb_put_int(b, 5, revision);
    message_text(b, 64, to);
    snib__pb_end(b, begun);
}

void snib__etcd_compare_made(struct snib__buf *b, struct snib__etcd_text key,
                             int64_t revision)
{
    message_made(b, 0, key, (struct snib__etcd_text){NULL, 0}, revision);
}

void snib__etcd_compare_none(struct snib__buf *b, struct snib__etcd_text from,
                             struct snib__etcd_text to)
{
    message_made(b, 0, from, to, 0);
}

void snib__etcd_compare_later(struct snib__buf *b, struct snib__etcd_text from,
                              struct snib__etcd_text to, int64_t revision)
{
    message_made(b, 1, from, to, revision);
}

/* RequestOp: range 1, put 2, delete 3. */
void snib__etcd_txn_range(struct snib__buf *b, uint32_t branch,
                          const struct snib__etcd_range *r)
{
    size_t op = snib__pb_begin(b, branch);
    size_t begun = snib__pb_begin(b, 1);
    snib__etcd_put_range(b, r);
    snib__pb_end(b, begun);
    snib__pb_end(b, op);
}

void snib__etcd_txn_put_in(struct snib__buf *b, uint32_t branch,
                           const struct snib__etcd_put *p)
{
    size_t op = snib__pb_begin(b, branch);
    size_t begun = snib__pb_begin(b, 2);
    message_text(b, 1, p->key);
    message_text(b, 2, p->value);
    message_int(b, 3, p->lease);
    message_int(b, 5, p->same_value);
    message_int(b, 6, p->same_lease);
    snib__pb_end(b, begun);
    snib__pb_end(b, op);
}

void snib__etcd_txn_put(struct snib__buf *b, const struct snib__etcd_put *p)
{
    snib__etcd_txn_put_in(b, SNIB__ETCD_SUCCESS, p);
}

void snib__etcd_txn_delete_in(struct snib__buf *b, uint32_t branch,
                              struct snib__etcd_text key)
{
    size_t op = snib__pb_begin(b, branch);
    size_t begun = snib__pb_begin(b, 3);
    message_text(b, 1, key);
    snib__pb_end(b, begun);
    snib__pb_end(b, op);
}

void snib__etcd_txn_delete(struct snib__buf *b, struct snib__etcd_text key)
{
    snib__etcd_txn_delete_in(b, SNIB__ETCD_SUCCESS, key);
}

void snib__etcd_put_grant(struct snib__buf *b, int64_t ttl)
{
    snib__pb_put_int(b, 1, ttl);
}

void snib__etcd_put_login(struct snib__buf *b, const char *user,
                          const char *password)
{
    snib__pb_put_text(b, 1, user);
    snib__pb_put_text(b, 2, password);
}

/* WatchRequest: create_request 1, from now on. */
void snib__etcd_put_watch(struct snib__buf *b, struct snib__etcd_text key)
{
    size_t begun = snib__pb_begin(b, 1);
    message_text(b, 1, key);
    snib__pb_end(b, begun);
}

/* … with the filter NOPUT (0), a packed list of one. */
void snib__etcd_put_watch_end(struct snib__buf *b, struct snib__etcd_text key)
{
    size_t begun = snib__pb_begin(b, 1);
    message_text(b, 1, key);
    snib__pb_put_bytes(b, 5, "", 1);
    snib__pb_end(b, begun);
}

void snib__etcd_put_lease(struct snib__buf *b, int64_t id)
{
    snib__pb_put_int(b, 1, id);
}

/* -- in -------------------------------------------------------------------- */

void snib__etcd_read_header(const struct snib__pb *at,
                            struct snib__etcd_header *ret)
{
    struct snib__pb p = snib__pb_inside(at);
    while (snib__pb_next(&p)) {
        switch (p.field) {
        case 1:
            ret->cluster = (uint64_t)p.number;
            break;
        case 2:
            ret->member = (uint64_t)p.number;
            break;
        case 3:
            ret->revision = p.number;
            break;
        case 4:
            ret->term = (uint64_t)p.number;
            break;
        default:
            break;
        }
    }
}

void snib__etcd_read_txn(const void *bytes, size_t size,
                         struct snib__etcd_txn *ret)
{
    struct snib__pb p;
    *ret = (struct snib__etcd_txn){.succeeded = false};
    snib__pb_open(&p, bytes, size);
    while (snib__pb_next(&p)) {
        if (p.field == 1) {
            snib__etcd_read_header(&p, &ret->header);
        } else if (p.field == 2) {
            ret->succeeded = p.number != 0;
        }
    }
    ret->bad = p.bad || !ret->header.revision;
    snib__pb_open(&ret->at, bytes, size);
}

void snib__etcd_read_range(const void *bytes, size_t size,
                           struct snib__etcd_rows *ret)
{
    struct snib__pb p;
    *ret = (struct snib__etcd_rows){.count = 0};
    snib__pb_open(&p, bytes, size);
    while (snib__pb_next(&p)) {
        if (p.field == 3) {
            ret->more = p.number != 0;
        } else if (p.field == 4) {
            ret->count = p.number;
        }
    }
    ret->bad = p.bad;
    snib__pb_open(&ret->at, bytes, size);
}

bool snib__etcd_next_range(struct snib__etcd_txn *t,
                           struct snib__etcd_rows *ret)
{
    while (snib__pb_next(&t->at)) {
        struct snib__pb op = snib__pb_inside(&t->at);
        if (t->at.field == 3 && snib__pb_next(&op) && op.field == 1) {
            snib__etcd_read_range(op.bytes, op.size, ret);
            return true;
        }
    }
    return false;
}

static struct snib__etcd_text message_bytes(const struct snib__pb *p)
{
    return (struct snib__etcd_text){p->bytes, p->size};
}

/* False: it is damaged. */
static bool message_pair(const struct snib__pb *at, struct snib__etcd_pair *ret)
{
    struct snib__pb p = snib__pb_inside(at);
    *ret = (struct snib__etcd_pair){.lease = 0};
    while (snib__pb_next(&p)) {
        switch (p.field) {
        case 1:
            ret->key = message_bytes(&p);
            break;
        case 2:
            ret->made = p.number;
            break;
        case 3:
            ret->mod_revision = (uint64_t)p.number;
            break;
        case 5:
            ret->value = message_bytes(&p);
            break;
        case 6:
            ret->lease = p.number;
            break;
        default:
            break;
        }
    }
    return !p.bad && ret->key.size && ret->mod_revision;
}

bool snib__etcd_next_pair(struct snib__etcd_rows *rows,
                          struct snib__etcd_pair *ret)
{
    while (!rows->bad && snib__pb_next(&rows->at)) {
        if (rows->at.field == 2) {
            rows->seen++;
            rows->bad = !message_pair(&rows->at, ret);
            return !rows->bad;
        }
    }
    return false;
}

bool snib__etcd_whole(const struct snib__etcd_rows *rows)
{
    return !rows->bad && !rows->at.bad && !rows->more &&
           rows->seen == rows->count;
}

bool snib__etcd_read_grant(const void *bytes, size_t size,
                           struct snib__etcd_grant *ret)
{
    struct snib__pb p;
    *ret = (struct snib__etcd_grant){.id = 0};
    snib__pb_open(&p, bytes, size);
    while (snib__pb_next(&p)) {
        if (p.field == 2) {
            ret->id = p.number;
        } else if (p.field == 3) {
            ret->ttl = p.number;
        }
    }
    return !p.bad && ret->id && ret->ttl > 0;
}

bool snib__etcd_read_status(const void *bytes, size_t size,
                            struct snib__etcd_status *ret)
{
    struct snib__pb p;
    *ret = (struct snib__etcd_status){.leader = 0};
    snib__pb_open(&p, bytes, size);
    while (snib__pb_next(&p)) {
        switch (p.field) {
        case 1:
            snib__etcd_read_header(&p, &ret->header);
            break;
        case 2:
            snib__pb_text(&p, ret->version, sizeof ret->version);
            break;
        case 3:
            ret->bytes = p.number;
            break;
        case 4:
            ret->leader = (uint64_t)p.number;
            break;
        case 10:
            ret->learner = p.number != 0;
            break;
        default:
            break;
        }
    }
    return !p.bad && ret->version[0];
}

void snib__etcd_read_watch(const void *bytes, size_t size,
                           struct snib__etcd_watched *ret)
{
    struct snib__pb p;
    *ret = (struct snib__etcd_watched){.created = false};
    snib__pb_open(&p, bytes, size);
    while (snib__pb_next(&p)) {
        switch (p.field) {
        case 3:
            ret->created = p.number != 0;
            break;
        case 4:
            ret->canceled = p.number != 0;
            break;
        case 6:
            snib__pb_text(&p, ret->reason, sizeof ret->reason);
            break;
        default:
            break;
        }
    }
    ret->canceled = ret->canceled || p.bad;
    snib__pb_open(&ret->at, bytes, size);
}

/* Event: type 1 (PUT is 0), kv 2. */
bool snib__etcd_next_event(struct snib__etcd_watched *w,
                           struct snib__etcd_pair *ret)
{
    while (snib__pb_next(&w->at)) {
        struct snib__pb event = snib__pb_inside(&w->at);
        bool put = w->at.field == 11, there = false;
        while (put && snib__pb_next(&event)) {
            if (event.field == 1) {
                put = event.number == 0;
            } else if (event.field == 2) {
                there = message_pair(&event, ret);
            }
        }
        if (put && there) {
            return true;
        }
    }
    return false;
}

bool snib__etcd_any_event(const struct snib__etcd_watched *w)
{
    struct snib__pb p = w->at;
    bool any = false;
    while (snib__pb_next(&p)) {
        any = any || p.field == 11;
    }
    return any;
}

/* LeaseTimeToLiveResponse: TTL 3, which is left out when it is 0. */
bool snib__etcd_read_left(const void *bytes, size_t size, int64_t *ret)
{
    struct snib__pb p;
    struct snib__etcd_header header = {0};
    *ret = 0;
    snib__pb_open(&p, bytes, size);
    while (snib__pb_next(&p)) {
        if (p.field == 1) {
            snib__etcd_read_header(&p, &header);
        } else if (p.field == 3) {
            *ret = p.number;
        }
    }
    return !p.bad && header.revision;
}
