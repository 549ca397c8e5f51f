/* store/etcd/look.c — inspect and list. They settle nothing, and what is there
 * is alive: what is over is gone with its lease.
 *
 * A list is read page by page, all as of the revision of the first one. A name
 * whose rows do not end with a page is read anew with the next. One that nobody
 * waits for takes no more than a fiftieth of the server's time, once it has taken
 * so much that this counts (core/request.h). */
#include <stdlib.h>

#include "base/error.h"
#include "base/glob.h"
#include "base/mem.h"
#include "core/snapshot/layout.h"
#include "store/etcd/etcd_i.h"

enum { LOOK_PAGE = 1000, LOOK_PAGE_MAX = 64000 };
enum { LOOK_FREE_MS = 100, LOOK_CALM = 50, LOOK_REST_MAX_MS = 100 };

struct look_claim {
    struct snib__stored_claim c;
    const void *about;
    size_t size;
};

/* One lock, its rows as they come. */
struct look_lock {
    struct etcd_parts parts;
    bool there; /* the lock row, and */
    int64_t token;
    struct look_claim *claim;
    uint32_t claims, capacity;
    bool failed; /* no memory */
    /* A row of it cannot be read, so nobody can say who holds it. */
    snib_err err;
    struct snib_error why;
};

static struct etcd_step *look_of(struct etcd_call *c)
{
    return (struct etcd_step *)(void *)c;
}

/* -- a lock ----------------------------------------------------------------- */

static bool look_waits(const struct look_claim *c)
{
    return c->c.state == SNIB__WAITS;
}

static int look_order(const void *left, const void *right)
{
    const struct look_claim *a = left, *b = right;
    if (look_waits(a) != look_waits(b)) {
        return look_waits(a) ? 1 : -1;
    }
    if (a->c.rank != b->c.rank) {
        return a->c.rank < b->c.rank ? -1 : 1;
    }
    if (a->c.id != b->c.id) {
        return a->c.id < b->c.id ? -1 : 1;
    }
    return memcmp(a->c.request, b->c.request, sizeof a->c.request);
}

/* Where the reason goes: that of the first such row is told. */
static struct snib_error *look_why(struct look_lock *k)
{
    return k->err ? NULL : &k->why;
}

static void look_add(struct look_lock *k, const struct snib__etcd_pair *pair)
{
    if (k->claims == k->capacity) {
        uint32_t capacity = k->capacity ? 2 * k->capacity : 16;
        struct look_claim *v = snib__realloc(k->claim, capacity * sizeof *v);
        if (!v) {
            k->failed = true;
            return;
        }
        k->claim = v;
        k->capacity = capacity;
    }
    struct look_claim *c = &k->claim[k->claims];
    *c = (struct look_claim){.about = NULL};
    snib_err err = snib__layout_claim(pair->value.bytes, pair->value.size,
                                      &c->c, &c->about, &c->size, look_why(k));
    k->err = k->err ? k->err : err;
    if (!err && (look_waits(c) || snib__rules_claim_holds(&c->c))) {
        k->claims++;
    }
}

static void look_row(struct look_lock *k, const struct snib__etcd_pair *pair)
{
    struct snib__lock_row row;
    if (k->parts.kind == SNIB__KEY_LOCK) {
        snib_err err = snib__layout_lock(pair->value.bytes, pair->value.size,
                                         &row, look_why(k));
        k->err = k->err ? k->err : err;
        k->there = true;
        k->token = row.token;
    } else if (k->parts.kind == SNIB__KEY_CLAIM) {
        look_add(k, pair);
    }
}

/* What is there has not ended, though the hosts' clocks may say that its lease is
 * over (0 ms are left then), and ends no later than that does if it is renewed just
 * now. */
static void look_show(struct look_lock *k, snib_instant now, const char *name,
                      size_t size, struct snib__buf *out)
{
    if (k->claims) {
        qsort(k->claim, k->claims, sizeof *k->claim, look_order);
    }
    snib__rec_row(out, SNIB__ROW_LOCK);
    snib__rec_bytes(out, SNIB__F_NAME, name, size);
    snib__rec_i64(out, SNIB__F_TOKEN, k->there ? k->token : 0);
    for (uint32_t i = 0; i < k->claims; i++) {
        struct look_claim *c = &k->claim[i];
        snib_duration shown = {look_waits(c) ? 1000000 : 1 - c->c.delay.ns};
        if (!look_waits(c)) {
            c->c.until = snib__sooner(c->c.until, snib__after(now, c->c.lease));
        }
        c->c.until = snib__later(c->c.until, snib__after(now, shown));
        snib__rules_row(out, now, &c->c, c->about, c->size);
    }
}

static void look_end(struct snib__etcd *e, struct etcd_step *k,
                     snib__answer answer, snib_err err, const char *text)
{
    struct snib__request *r = k->r[0];
    r->said.answer = answer;
    r->said.err = err ? snib__fail(r->said.reterr, err, "%s", text)
                      : snib__ok(r->said.reterr);
    snib__etcd_step_over(e, k);
}

static void look_no_memory(struct snib__etcd *e, struct etcd_step *k)
{
    look_end(e, k, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM,
             snib_err_text(SNIB_ERR_NOMEM));
}

static void look_strange(struct snib__etcd *e, snib_instant now,
                         struct etcd_step *k)
{
    static const struct etcd_reply strange = {
        .end = ETCD_AGAIN,
        .err = SNIB_ERR_STORE,
        .leave = true,
        .text = "the answer is not etcd's, or not whole"};
    snib__buf_clear(k->r[0]->said.result);
    snib__etcd_step_by_reply(e, now, k, &strange);
}

/* -- inspect ---------------------------------------------------------------- */

static void look_inspected(struct snib__etcd *e, snib_instant now,
                           struct etcd_step *k, struct snib__etcd_rows *rows)
{
    struct look_lock lock = {.there = false};
    struct snib__etcd_pair pair;
    struct snib__request *r = k->r[0];
    while (snib__etcd_next_pair(rows, &pair)) {
        if (snib__etcd_key_read(e, pair.key, &lock.parts)) {
            look_row(&lock, &pair);
        } else if (!lock.err) {
            lock.err = snib__etcd_key_strange(pair.key, look_why(&lock));
        }
    }
    bool whole = snib__etcd_whole(rows);
    if (whole && !lock.failed) {
        look_show(&lock, snib__etcd_wall(e, now), r->name->raw,
                  r->name->raw_size, r->said.result);
    }
    snib__free(lock.claim);
    if (!whole) {
        look_strange(e, now, k);
    } else if (lock.failed || r->said.result->failed) {
        look_no_memory(e, k);
    } else if (lock.err) {
        look_end(e, k, SNIB__NOT_APPLIED, lock.err, lock.why.text);
    } else if (lock.there && !snib__is_token(lock.token)) {
        look_end(e, k, SNIB__NOT_APPLIED, SNIB_ERR_CORRUPT,
                 "the last token of this lock is not a token; snib "
                 "force-release begins it anew");
    } else {
        look_end(e, k, SNIB__DONE, SNIB_ERR_OK, "");
    }
}

/* -- list ------------------------------------------------------------------- */

static bool look_is_listed(const struct snib__request *r,
                           const struct look_lock *k)
{
    bool waited = false;
    for (uint32_t i = 0; i < k->claims; i++) {
        waited = waited || look_waits(&k->claim[i]);
    }
    return k->claims && (waited || !r->list.awaited_only) &&
           snib__glob(r->text, r->text_size, k->parts.name, k->parts.size);
}

static void look_show_damage(const struct look_lock *k,
                             const struct snib__request *r)
{
    if (!r->list.awaited_only &&
        snib__glob(r->text, r->text_size, k->parts.name, k->parts.size)) {
        snib__rec_row(r->said.result, SNIB__ROW_LOCK);
        snib__rec_bytes(r->said.result, SNIB__F_NAME, k->parts.name,
                        k->parts.size);
        snib__rec_text(r->said.result, SNIB__F_TEXT, k->why.text);
    }
}

/* A page in the making: one lock after the other. */
struct look_page {
    struct snib__etcd *e;
    snib_instant now;
    struct etcd_step *k;
    struct look_lock lock;
    struct snib__etcd_text first; /* the first key of `lock` */
    uint32_t names;
};

static void look_flush(struct look_page *p)
{
    struct snib__request *r = p->k->r[0];
    if (p->first.size && p->lock.err) {
        look_show_damage(&p->lock, r);
    } else if (p->first.size && look_is_listed(r, &p->lock)) {
        look_show(&p->lock, snib__etcd_wall(p->e, p->now), p->lock.parts.name,
                  p->lock.parts.size, r->said.result);
    }
    p->lock.claims = 0;
    p->lock.there = false;
    p->lock.err = SNIB_ERR_OK;
}

static void look_page_row(struct look_page *p,
                          const struct snib__etcd_pair *pair)
{
    struct etcd_parts parts = {.size = 0};
    bool read = snib__etcd_key_read(p->e, pair->key, &parts);
    if (!parts.size) {
        return; /* it is below no name */
    }
    bool same = p->first.size && parts.safe_size == p->lock.parts.safe_size &&
                !memcmp(parts.safe, p->lock.parts.safe, parts.safe_size);
    if (!same) {
        look_flush(p);
        p->first = pair->key;
        p->names++;
    }
    p->lock.parts = parts;
    if (read) {
        look_row(&p->lock, pair);
    } else if (!p->lock.err) {
        p->lock.err = snib__etcd_key_strange(pair->key, look_why(&p->lock));
    }
}

static void look_ask(struct snib__etcd *e, snib_instant now,
                     struct etcd_step *k);

/* The next page, now or after a rest. took: by the last one. */
static void look_go_on(struct snib__etcd *e, snib_instant now,
                       struct etcd_step *k, snib_duration took)
{
    struct snib__request *r = k->r[0];
    snib_duration rest = snib__ms(LOOK_REST_MAX_MS);
    if (!r->background || snib__to_ms(k->busy) < LOOK_FREE_MS) {
        look_ask(e, now, k);
        return;
    }
    rest.ns = took.ns * LOOK_CALM < rest.ns ? took.ns * LOOK_CALM : rest.ns;
    r->said.left = k->busy;
    k->rests = true;
    k->until = snib__after(k->until, rest);
    r->limit = snib__later(r->limit, k->until);
    snib__etcd_step_rest(e, k, snib__after(now, rest));
}

/* The next page begins with the name that may go on, or asks for more at once if
 * there was no other one in this. */
static void look_listed(struct snib__etcd *e, snib_instant now,
                        struct etcd_step *k, struct snib__etcd_rows *rows,
                        int64_t revision, snib_duration took)
{
    struct look_page p = {.e = e, .now = now, .k = k};
    struct snib__etcd_pair pair;
    bool more = rows->more;
    while (snib__etcd_next_pair(rows, &pair)) {
        look_page_row(&p, &pair);
    }
    bool bad = rows->bad || rows->at.bad ||
               (more && p.names < 2 && k->asked >= LOOK_PAGE_MAX);
    if (!more) {
        look_flush(&p);
    } else {
        k->asked = p.names < 2 ? 2 * k->asked : LOOK_PAGE;
        snib__buf_clear(&k->from);
        snib__buf_add(&k->from, p.first.bytes, p.first.size);
    }
    bool failed = p.lock.failed || k->r[0]->said.result->failed;
    snib__free(p.lock.claim);
    k->revision = revision;
    k->busy.ns += took.ns;
    if (bad) {
        look_strange(e, now, k);
    } else if (failed) {
        look_no_memory(e, k);
    } else if (more) {
        if (k->r[0]->list.limit_moves || k->r[0]->background) {
            k->until = snib__after(now, e->request);
        }
        look_go_on(e, now, k, took);
    } else {
        k->r[0]->said.left =
            k->r[0]->said.left.ns ? k->busy : (snib_duration){0};
        look_end(e, k, SNIB__DONE, SNIB_ERR_OK, "");
    }
}

/* -- asking ----------------------------------------------------------------- */

static void look_ask(struct snib__etcd *e, snib_instant now,
                     struct etcd_step *k)
{
    struct etcd_key from, to;
    struct snib__etcd_range range = {.limit = 0};
    bool lists = k->r[0]->verb == SNIB__LIST;
    if (lists) {
        snib__etcd_key_all(e, &from, &to);
        range.limit = k->asked;
        range.revision = k->revision;
    } else {
        snib__etcd_key_lock(e, k->r[0]->name, &from, &to);
    }
    range.from = snib__etcd_text_of(&from);
    range.to = snib__etcd_text_of(&to);
    if (lists && snib__buf_size(&k->from)) {
        range.from.bytes = snib__buf_bytes(&k->from);
        range.from.size = snib__buf_size(&k->from);
    }
    snib__buf_clear(&e->message);
    snib__etcd_put_range(&e->message, &range);
    snib__etcd_step_call(e, now, k, STEP_ASKS, SNIB__ETCD_RANGE, &e->message);
}

static void look_begin(struct snib__etcd *e, snib_instant now,
                       struct etcd_step *k)
{
    if (k->rests) {
        k->rests = false;
        look_ask(e, now, k);
        return;
    }
    k->asked = LOOK_PAGE;
    k->revision = 0;
    k->busy.ns = 0;
    snib__buf_clear(&k->from);
    snib__buf_clear(k->r[0]->said.result); /* it may be asked for again */
    k->r[0]->said.valid_from = now;
    k->r[0]->said.left = (snib_duration){0};
    look_ask(e, now, k);
}

static void look_done(struct snib__etcd *e, snib_instant now,
                      struct etcd_call *c, const struct etcd_reply *reply)
{
    struct etcd_step *k = look_of(c);
    struct snib__etcd_rows rows;
    struct snib__etcd_header header = {0};
    struct snib__pb p;
    if (reply->end) {
        snib__buf_clear(k->r[0]->said.result);
        if (reply->compacted && k->conflicts++ < 3) {
            snib__etcd_step_again(e, now, k);
        } else {
            snib__etcd_step_by_reply(e, now, k, reply);
        }
        return;
    }
    snib__pb_open(&p, reply->bytes, reply->size);
    if (snib__pb_next(&p) && p.field == 1) {
        snib__etcd_read_header(&p, &header);
    }
    snib__etcd_read_range(reply->bytes, reply->size, &rows);
    if (rows.bad || !header.revision) {
        look_strange(e, now, k);
    } else if (k->r[0]->verb == SNIB__LIST) {
        look_listed(e, now, k, &rows,
                    k->revision ? k->revision : header.revision,
                    snib__between(reply->sent, now));
    } else {
        look_inspected(e, now, k, &rows);
    }
}

const struct etcd_work snib__etcd_look_work = {.begin = look_begin,
                                               .done = look_done};
