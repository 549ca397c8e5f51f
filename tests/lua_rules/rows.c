/* rows.c — do both stores show the same? Holders and waiters as inspect and list
 * show them, and the rows that answer FORCE and PARAMS. */
#include <stdlib.h>

#include "compare.h"

enum { ROWS = 40, ABOUT = 200 };

struct row {
    int kind;
    char request[40], owner[40], about[ABOUT];
    int64_t left, token, mode, permits, slot, rank, age;
};

struct view {
    char name[40];
    int64_t token;
    int holders, waiters;
    struct row holder[ROWS], waiter[ROWS];
};

struct views {
    int count;
    struct view view[NAMES];
};

static void view_text(char *ret, size_t room, const struct snib__rec *rec)
{
    size_t n = rec->size < room - 1 ? rec->size : room - 1;
    memcpy(ret, rec->data, n);
    ret[n] = 0;
}

/* Since when a request waits is written into its text by the scripts. */
static void view_about(char *text)
{
    char *since = strstr(text, "since=");
    if (since) {
        char *end = since + strcspn(since, "&");
        memmove(since, end, strlen(end) + 1);
    }
}

static void view_field(struct row *r, const struct snib__rec *rec)
{
    switch (rec->field) {
    case SNIB__F_REQUEST:
        view_text(r->request, sizeof r->request, rec);
        break;
    case SNIB__F_CLIENT:
        view_text(r->owner, sizeof r->owner, rec);
        break;
    case SNIB__F_ABOUT:
        view_text(r->about, sizeof r->about, rec);
        view_about(r->about);
        break;
    case SNIB__F_LEFT:
        r->left = snib__rec_value_i64(rec);
        break;
    case SNIB__F_TOKEN:
        r->token = snib__rec_value_i64(rec);
        break;
    case SNIB__F_KIND:
        r->mode = snib__rec_value_i64(rec);
        break;
    case SNIB__F_PERMITS:
        r->permits = snib__rec_value_i64(rec);
        break;
    case SNIB__F_SLOT:
        r->slot = snib__rec_value_i64(rec);
        break;
    case SNIB__F_RANK:
        r->rank = snib__rec_value_i64(rec);
        break;
    case SNIB__F_AGE:
        r->age = snib__rec_value_i64(rec);
        break;
    default:
        break;
    }
}

static struct row view_row(struct snib__rec *rec)
{
    struct row r = {.kind = rec->row, .slot = -1};
    while (snib__rec_next_field(rec)) {
        view_field(&r, rec);
    }
    return r;
}

static void view_lock(struct snib__rec *rec, struct view *v)
{
    *v = (struct view){.token = 0};
    while (snib__rec_next_field(rec)) {
        if (rec->field == SNIB__F_NAME) {
            view_text(v->name, sizeof v->name, rec);
        } else if (rec->field == SNIB__F_TOKEN) {
            v->token = snib__rec_value_i64(rec);
        }
    }
}

/* The scripts' rank is the class and a counter, the rules' is the class alone,
 * counted from another end. What is compared is the class, then the order. */
static int64_t view_class(int side, int64_t rank)
{
    if (side == LUA) {
        return rank >> 40;
    }
    return rank == INT8_MIN ? 0 : 128 + rank;
}

static bool view_is_before(const struct row *a, const struct row *b)
{
    return a->kind == SNIB__ROW_WAITER ? a->rank < b->rank
                                       : strcmp(a->request, b->request) < 0;
}

/* Waiters in the order of the queue, holders by request. */
static void view_insert(struct row *rows, int *count, const struct row *r)
{
    int at = *count;
    if (at == ROWS) {
        differ("too many rows");
        return;
    }
    for (; at && view_is_before(r, &rows[at - 1]); at--) {
        rows[at] = rows[at - 1];
    }
    rows[at] = *r;
    ++*count;
}

static void view_add(int side, struct views *all, struct snib__rec *rec)
{
    if (rec->row == SNIB__ROW_LOCK && all->count < NAMES) {
        view_lock(rec, &all->view[all->count++]);
        return;
    }
    struct view *v = &all->view[all->count - 1];
    struct row r = view_row(rec);
    if (r.kind == SNIB__ROW_WAITER) {
        r.rank = view_class(side, r.rank);
        view_insert(v->waiter, &v->waiters, &r);
    } else {
        r.rank = 0; /* of a holder only the rules show it */
        view_insert(v->holder, &v->holders, &r);
    }
}

static int view_by_name(const void *a, const void *b)
{
    return strcmp(((const struct view *)a)->name,
                  ((const struct view *)b)->name);
}

/* awaited_only: locks without waiters may be left out, or not. */
static void view_leave_out(struct views *all, bool awaited_only)
{
    int kept = 0;
    for (int i = 0; i < all->count; i++) {
        if (!awaited_only || all->view[i].waiters) {
            all->view[kept++] = all->view[i];
        }
    }
    all->count = kept;
}

static void view_read(int side, const struct pair *p, struct views *ret)
{
    const struct snib__buf *rows = &p->on[side].rows;
    struct snib__rec rec;
    ret->count = 0;
    snib__rec_begin(&rec, snib__buf_bytes(rows), snib__buf_size(rows));
    while (snib__rec_next_row(&rec)) {
        view_add(side, ret, &rec);
    }
    view_leave_out(ret, p->on[side].r.list.awaited_only);
    qsort(ret->view, (size_t)ret->count, sizeof *ret->view, view_by_name);
}

static void compare_rows(const struct view *v, const struct row *a,
                         const struct row *b)
{
    compare_texts("shown request", a->request, b->request);
    compare_numbers("shown state", a->kind, b->kind);
    compare_texts("shown owner", a->owner, b->owner);
    compare_texts("shown text", a->about, b->about);
    compare_numbers("shown rest of a lease", a->left, b->left);
    compare_numbers("shown kind", a->mode, b->mode);
    compare_numbers("shown permits", a->permits, b->permits);
    compare_numbers("shown slot", a->slot, b->slot);
    compare_numbers("shown class", a->rank, b->rank);
    compare_numbers("shown age", a->age, b->age);
    if (compare_same_token(a->mode, v->name)) {
        compare_numbers("shown token", a->token, b->token);
    }
}

static void compare_view(const struct view *a, const struct view *b)
{
    compare_texts("shown name", a->name, b->name);
    compare_numbers("last token", a->token, b->token);
    compare_numbers("holders shown", a->holders, b->holders);
    compare_numbers("waiters shown", a->waiters, b->waiters);
    for (int i = 0; i < a->holders && !world_failed(); i++) {
        compare_rows(a, &a->holder[i], &b->holder[i]);
    }
    for (int i = 0; i < a->waiters && !world_failed(); i++) {
        compare_rows(a, &a->waiter[i], &b->waiter[i]);
    }
}

/* A grant of which its client has not heard. */
static void view_unheard(const struct row *r)
{
    uint64_t id[2] = {0, 0};
    char half[17] = "";
    memcpy(half, r->request, 16);
    id[0] = strtoull(half, NULL, 16);
    id[1] = strtoull(r->request + 16, NULL, 16);
    struct claim *c = world_of_id(id);
    if (c && !c->holds && r->kind == SNIB__ROW_HOLDER) {
        c->until_ms = world_now() + r->left;
        world.seen[SEEN_UNHEARD]++;
    }
}

static void view_remember(const struct view *v)
{
    for (int i = 0; i < v->holders; i++) {
        view_unheard(&v->holder[i]);
    }
    world.highest = v->token > world.highest ? v->token : world.highest;
}

void compare_views(const struct pair *p)
{
    static struct views all[SIDES];
    compare_answers(p);
    for (int s = 0; s < SIDES && !world_failed(); s++) {
        view_read(s, p, &all[s]);
    }
    compare_numbers("locks shown", all[RULES].count, all[LUA].count);
    for (int i = 0; i < all[RULES].count && !world_failed(); i++) {
        compare_view(&all[RULES].view[i], &all[LUA].view[i]);
        view_remember(&all[RULES].view[i]);
    }
}

/* -- FORCE, PARAMS -------------------------------------------------------------------- */

/* The counts of holders ended, or of a params row: done, size, permits in use,
 * latch count, waiters. */
static void row_read(const struct pair *p, int side, int64_t ret[5])
{
    static const char keys[] = {SNIB__F_COUNT, SNIB__F_SIZE, SNIB__F_PERMITS,
                                SNIB__F_LATCH, SNIB__F_WAITING};
    const struct snib__buf *rows = &p->on[side].rows;
    struct snib__rec rec;
    snib__rec_begin(&rec, snib__buf_bytes(rows), snib__buf_size(rows));
    while (snib__rec_next_row(&rec)) {
        while (snib__rec_next_field(&rec)) {
            for (int i = 0; i < 5; i++) {
                if (rec.field == keys[i]) {
                    ret[i] = snib__rec_value_i64(&rec);
                }
            }
        }
    }
}

static int row_name(const struct pair *p)
{
    int name = 0;
    while (world.name[name] != p->on[RULES].r.name) {
        name++;
    }
    return name;
}

/* The waiters are not compared where one is dead, as in compare_queued, or can
 * never be served: the scripts forget it before it asks again. */
static bool row_counts_waiters(int name)
{
    for (int i = 0; i < CLAIMS; i++) {
        if (world.claim[i].name == name && world_lost(&world.claim[i])) {
            return false;
        }
    }
    return !world_dead_at(name);
}

void compare_row(const struct pair *p)
{
    static const char *const what[] = {"count", "size", "permits in use",
                                       "latch count", "waiters"};
    int64_t row[SIDES][5] = {{0}, {0}};
    int name = row_name(p);
    compare_answers(p);
    if (p->on[RULES].r.said.answer != SNIB__DONE) {
        compare_causes(p);
        return;
    }
    for (int s = 0; s < SIDES; s++) {
        row_read(p, s, row[s]);
    }
    if (p->on[RULES].r.verb == SNIB__PARAMS) {
        world.size[name] = row[RULES][1];
    }
    for (int i = 0; i < 4 + row_counts_waiters(name); i++) {
        compare_numbers(what[i], row[RULES][i], row[LUA][i]);
    }
}
