/* api/views.c — rows of a store's answer made into public views.
 *
 * A store answers with rows (base/record.h). Here they become what the public
 * header shows. The rows were written by other clients, by other releases,
 * perhaps by somebody's redis-cli. So nothing in them is trusted but their
 * shape. A row that is not understood is passed over, a missing field is "" or
 * 0, numbers are brought into their range, and control characters are shown as
 * '?', since they could control the terminal of the person on call.
 *
 * A view is one block of memory: the struct, its parties, pointers to them (so
 * that a party may grow), then all the texts.
 * So there is one free, and half a view cannot exist. The rows are read twice,
 * once to measure and once to fill. Both passes use views_read_party, so they
 * cannot disagree. */
#include "api/views.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/about.h"
#include "snib/inspect.h"

enum { OWNER_MAX = 64, REQUEST_MAX = 32 };

/* -- one row -------------------------------------------------------------- */

/* A holder or waiter as it was read. The party's texts point into the rows. */
struct party_row {
    struct snib_party party;
    struct snib__about about;
    char client_id[OWNER_MAX + 1], request[REQUEST_MAX + 1];
    char holding[17 * SNIB__ABOUT_HELD + 1];
    int64_t age_ms, since_ms;
    bool has_age; /* since_ms 0: not said */
};

/* Unix time by this host's clock. */
static int64_t views_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t views_not_negative(int64_t v)
{
    return v > 0 ? v : 0;
}

uint32_t snib__field_count(int64_t v)
{
    return v < 0 ? 0 : v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static snib_kind views_kind_of(int64_t v)
{
    return v >= SNIB_KIND_MUTEX && v <= SNIB_KIND_BARRIER ? (snib_kind)v
                                                          : SNIB_KIND_MUTEX;
}

static void views_hide_controls(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

/* Copy a field's bytes as text, cut to max - 1 and at a NUL. */
void snib__field_text(const struct snib__rec *r, char *to, size_t max)
{
    size_t n = r->size < max ? r->size : max - 1;
    memcpy(to, r->data, n);
    to[n] = 0;
    views_hide_controls(to);
}

static void views_read_party_field(const struct snib__rec *r,
                                   struct party_row *row)
{
    switch (r->field) {
    case SNIB__F_CLIENT:
        snib__field_text(r, row->client_id, sizeof row->client_id);
        break;
    case SNIB__F_REQUEST:
        snib__field_text(r, row->request, sizeof row->request);
        break;
    case SNIB__F_ABOUT:
        snib__about_read(r->data, r->size, &row->about);
        break;
    case SNIB__F_LEFT:
        row->party.left_ms = views_not_negative(snib__rec_value_i64(r));
        break;
    case SNIB__F_TOKEN:
        row->party.token = views_not_negative(snib__rec_value_i64(r));
        break;
    case SNIB__F_KIND:
        row->party.kind = views_kind_of(snib__rec_value_i64(r));
        break;
    case SNIB__F_PERMITS:
        row->party.permits = snib__field_count(snib__rec_value_i64(r));
        break;
    case SNIB__F_HOLDS:
        row->party.holds = snib__field_count(snib__rec_value_i64(r));
        break;
    case SNIB__F_SLOT:
        row->party.slot = snib__rec_value_i64(r);
        break;
    case SNIB__F_KEEP:
        row->party.keep_ms = views_not_negative(snib__rec_value_i64(r));
        break;
    case SNIB__F_AGE:
        row->age_ms = views_not_negative(snib__rec_value_i64(r));
        row->has_age = true;
        break;
    case SNIB__F_SINCE:
        row->since_ms = snib__rec_value_i64(r);
        break;
    }
}

/* By this host's clock: now less the age. That is another ms each time, since
 * the answer takes its time, so the store's own instant is shown where its clock
 * and this host's agree. */
static int64_t views_since(const struct party_row *row)
{
    enum { AGREE_MS = 1000 };
    int64_t since_ms = views_wall_ms() - row->age_ms;
    int64_t apart = since_ms - row->since_ms;
    return row->since_ms > 0 && apart <= AGREE_MS && apart >= -AGREE_MS
               ? row->since_ms
               : since_ms;
}

static void views_read_party(struct snib__rec *r, const char *self,
                             struct party_row *row)
{
    *row = (struct party_row){.party.slot = -1};
    while (snib__rec_next_field(r)) {
        views_read_party_field(r, row);
    }
    views_hide_controls(row->about.host);
    views_hide_controls(row->about.user);
    views_hide_controls(row->about.program);
    views_hide_controls(row->about.reason);
    struct snib_party *p = &row->party;
    if (p->kind != SNIB_KIND_PERMITS || p->slot < 0 || p->slot > UINT32_MAX) {
        p->slot = -1;
    }
    p->client_id = row->client_id;
    p->host = row->about.host;
    p->user = row->about.user;
    p->program = row->about.program;
    p->reason = row->about.reason;
    p->request = row->request;
    p->holding = row->holding;
    p->owner = (uint64_t)views_not_negative(row->about.owner);
    for (uint32_t i = 0; i < row->about.held_count; i++) {
        snprintf(row->holding + i * 17U, 18, "%016" PRIx64 "%s",
                 row->about.held[i], i + 1 < row->about.held_count ? "," : "");
    }
    p->pid = views_not_negative(row->about.pid);
    p->start = views_not_negative(row->about.start);
    p->since_ms = row->has_age ? views_since(row)
                               : views_not_negative(row->about.since_ms);
    p->self = *self && strcmp(row->client_id, self) == 0;
}

/* -- one lock ------------------------------------------------------------- */

struct measure {
    const void *name, *damage; /* point into the rows */
    size_t name_size, damage_size, text;
    size_t holders, waiters, closed;
    int64_t token, closed_ms, more, recovery_ms;
    bool recovery_ahead;
    uint32_t replicas_missing;
};

static size_t views_text_size(const struct snib_party *p)
{
    return strlen(p->client_id) + strlen(p->host) + strlen(p->user) +
           strlen(p->program) + strlen(p->reason) + strlen(p->request) +
           strlen(p->holding) + 7;
}

static void views_measure_lock_row(struct snib__rec *r, struct measure *m)
{
    while (snib__rec_next_field(r)) {
        if (r->field == SNIB__F_NAME && r->size <= SNIB_NAME_MAX) {
            m->name = r->data;
            m->name_size = r->size;
        } else if (r->field == SNIB__F_TOKEN) {
            m->token = views_not_negative(snib__rec_value_i64(r));
        } else if (r->field == SNIB__F_LEFT) {
            m->recovery_ms = views_not_negative(snib__rec_value_i64(r));
        } else if (r->field == SNIB__F_COUNT) {
            m->recovery_ahead = snib__rec_value_i64(r) == 1;
        } else if (r->field == SNIB__F_MISSING) {
            m->replicas_missing = snib__field_count(snib__rec_value_i64(r));
        } else if (r->field == SNIB__F_TEXT) {
            m->damage = r->data;
            m->damage_size = r->size;
        }
    }
}

static void views_measure_more(struct snib__rec *r, struct measure *m)
{
    while (snib__rec_next_field(r)) {
        if (r->field == SNIB__F_COUNT) {
            m->more = snib__rec_value_i64(r);
        }
    }
}

static bool views_is_party(int row)
{
    return row == SNIB__ROW_HOLDER || row == SNIB__ROW_WAITER ||
           row == SNIB__ROW_CLOSED;
}

/* Measure the lock whose row *at stands on; *at ends on the next lock's row.
 * False: there is no next lock. */
static bool views_measure_lock(struct snib__rec *at, const char *self,
                               struct measure *m)
{
    struct party_row row;
    *m = (struct measure){0};
    views_measure_lock_row(at, m);
    m->text = m->name_size + 1 + m->damage_size + 1;
    while (snib__rec_next_row(at)) {
        if (at->row == SNIB__ROW_LOCK) {
            return true;
        }
        if (at->row == SNIB__ROW_MORE) {
            views_measure_more(at, m);
        } else if (views_is_party(at->row)) {
            m->holders += at->row == SNIB__ROW_HOLDER;
            m->waiters += at->row == SNIB__ROW_WAITER;
            views_read_party(at, self, &row);
            if (at->row == SNIB__ROW_CLOSED) {
                m->closed++;
                m->closed_ms = row.party.left_ms > m->closed_ms
                                   ? row.party.left_ms
                                   : m->closed_ms;
            }
            m->text += views_text_size(&row.party);
        }
    }
    return false;
}

/* Copy text to *end, and move *end behind it. */
static const char *views_keep(char **end, const char *text)
{
    size_t size = strlen(text) + 1;
    const char *kept = memcpy(*end, text, size);
    *end += size;
    return kept;
}

static struct snib_party views_kept_party(const struct snib_party *p,
                                          char **end)
{
    struct snib_party kept = *p;
    kept.client_id = views_keep(end, p->client_id);
    kept.host = views_keep(end, p->host);
    kept.user = views_keep(end, p->user);
    kept.program = views_keep(end, p->program);
    kept.reason = views_keep(end, p->reason);
    kept.request = views_keep(end, p->request);
    kept.holding = views_keep(end, p->holding);
    return kept;
}

/* Allocate a block for what m measured. The texts start at *ret_text. */
static struct snib_view *views_new_view(const struct measure *m,
                                        char **ret_text)
{
    size_t parties = m->holders + m->waiters + m->closed;
    size_t head = sizeof(struct snib_view);
    size_t pointers = parties * sizeof(struct snib_party *);
    size_t middle = parties * sizeof(struct snib_party);
    struct snib_view *view = snib__alloc(head + middle + pointers + m->text);
    if (!view) {
        return NULL;
    }
    struct snib_party *party = (void *)((char *)view + head);
    const struct snib_party **at = (void *)((char *)view + head + middle);
    char *text = (char *)view + head + middle + pointers;
    for (size_t i = 0; i < parties; i++) {
        at[i] = &party[i];
    }
    view->name = text;
    view->name_size = m->name_size;
    view->token = m->token;
    view->holder_count = m->holders;
    view->waiter_count = m->waiters;
    view->holders = at;
    view->waiters = at + m->holders;
    view->closed_by = view->waiters + m->waiters;
    view->closed_count = m->closed;
    view->closed_ms = m->closed_ms;
    view->holders_more = snib__field_count(m->more);
    view->recovery_ms = m->recovery_ms;
    view->recovery_ahead = m->recovery_ahead;
    view->replicas_missing = m->replicas_missing;
    if (m->name_size) {
        memcpy(text, m->name, m->name_size);
    }
    text += m->name_size + 1;
    if (m->damage) {
        memcpy(text, m->damage, m->damage_size);
        views_hide_controls(text);
        view->damage = text;
    }
    *ret_text = text + m->damage_size + 1;
    return view;
}

/* Read the rows behind the lock row that *at stands on into the view. */
static void views_fill_view(struct snib__rec at, const char *self,
                            struct snib_view *view, char *text)
{
    struct snib_party *holder = (struct snib_party *)(view + 1);
    struct snib_party *waiter = holder + view->holder_count;
    struct snib_party *closed = waiter + view->waiter_count;
    struct party_row row;
    while (snib__rec_next_row(&at) && at.row != SNIB__ROW_LOCK) {
        if (!views_is_party(at.row)) {
            continue;
        }
        struct snib_party **to = at.row == SNIB__ROW_HOLDER   ? &holder
                                 : at.row == SNIB__ROW_WAITER ? &waiter
                                                              : &closed;
        views_read_party(&at, self, &row);
        *(*to)++ = views_kept_party(&row.party, &text);
    }
}

/* -- all locks ------------------------------------------------------------ */

struct views {
    struct snib_view **v;
    size_t size, cap;
};

static bool views_add_view(struct views *all, struct snib_view *view)
{
    if (all->size == all->cap) {
        size_t cap = all->cap ? all->cap * 2 : 4;
        void *v = snib__realloc(all->v, cap * sizeof *all->v);
        if (!v) {
            return false;
        }
        all->v = v;
        all->cap = cap;
    }
    all->v[all->size++] = view;
    return true;
}

static int views_by_name(const void *a, const void *b)
{
    const struct snib_view *x = *(struct snib_view *const *)a;
    const struct snib_view *y = *(struct snib_view *const *)b;
    size_t n = x->name_size < y->name_size ? x->name_size : y->name_size;
    int order = memcmp(x->name, y->name, n);
    return order
               ? order
               : (x->name_size > y->name_size) - (x->name_size < y->name_size);
}

/* A scan may show a name twice (Redis documents this for SCAN). One of them is
 * kept. */
static void views_sort_and_thin(struct views *all)
{
    size_t kept = 0;
    if (all->size < 2) {
        return;
    }
    qsort(all->v, all->size, sizeof *all->v, views_by_name);
    for (size_t i = 1; i < all->size; i++) {
        if (views_by_name(&all->v[kept], &all->v[i]) == 0) {
            snib_view_free(all->v[i]);
        } else {
            all->v[++kept] = all->v[i];
        }
    }
    all->size = kept + 1;
}

static bool views_read_views(struct snib__rec *at, const char *self,
                             struct views *all)
{
    bool more = false;
    while (!more && snib__rec_next_row(at)) {
        more = at->row == SNIB__ROW_LOCK; /* rows of no lock are passed over */
    }
    while (more) {
        struct snib__rec row = *at;
        struct measure m;
        char *text;
        more = views_measure_lock(at, self, &m);
        if (!m.name_size && !m.damage) {
            continue;
        }
        struct snib_view *view = views_new_view(&m, &text);
        if (!view || !views_add_view(all, view)) {
            snib_view_free(view);
            return false;
        }
        views_fill_view(row, self, view, text);
    }
    return true;
}

snib_err snib__views_read(const void *rows, size_t size, const char *self,
                          struct snib_view ***ret, size_t *ret_count,
                          struct snib_error *reterr)
{
    struct views all = {0};
    struct snib__rec at;
    *ret = NULL;
    *ret_count = 0;
    snib__rec_begin(&at, rows, size);
    if (!views_read_views(&at, self, &all)) {
        snib_views_free(all.v, all.size);
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    views_sort_and_thin(&all);
    *ret = all.v;
    *ret_count = all.size;
    return snib__ok(reterr);
}

void snib_view_free(struct snib_view *view)
{
    snib__free(view);
}

void snib_views_free(struct snib_view **views, size_t count)
{
    for (size_t i = 0; views && i < count; i++) {
        snib_view_free(views[i]);
    }
    snib__free(views);
}

struct snib_view *snib__view_empty(const char *name, size_t size)
{
    const struct measure m = {
        .name = name, .name_size = size, .text = size + 1};
    char *text;
    return views_new_view(&m, &text);
}
