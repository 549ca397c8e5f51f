/* run/inspect.c — inspecting locks without holding them: inspect, list, doctor;
 * and the one way to end another owner's grant.
 *
 * A store answers with rows (base/record.h). Here they become what the public
 * header shows. The rows were written by other clients, by other releases,
 * perhaps by somebody's redis-cli. So nothing in them is trusted but their
 * shape. A row that is not understood is passed over, a missing field is "" or
 * 0, numbers are brought into their range, and control characters are shown as
 * '?', since they could control the terminal of the person on call.
 *
 * A view is one block of memory: the struct, its parties, then all the texts.
 * So there is one free, and half a view cannot exist. The rows are read twice,
 * once to measure and once to fill. Both passes use inspect_read_party, so they
 * cannot disagree. */
#include "run/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/record.h"
#include "core/about.h"
#include "core/engine.h"
#include "run/client.h"

/* The most a store may answer: 100 000 busy locks fit. */
enum { ANSWER_MAX = 256 * 1024 * 1024, OWNER_MAX = 64, REQUEST_MAX = 32 };

/* -- one row -------------------------------------------------------------- */

/* A holder or waiter as it was read. The party's texts point into the rows. */
struct party_row {
    struct snib_party party;
    struct snib__about about;
    char client_id[OWNER_MAX + 1], request[REQUEST_MAX + 1];
    char holding[17 * SNIB__ABOUT_HELD + 1];
    int64_t age_ms;
    bool has_age;
};

/* Unix time by this host's clock. */
static int64_t inspect_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t inspect_not_negative(int64_t v)
{
    return v > 0 ? v : 0;
}

static uint32_t inspect_count_of(int64_t v)
{
    return v < 0 ? 0 : v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static snib_kind inspect_kind_of(int64_t v)
{
    return v >= SNIB_MUTEX && v <= SNIB_BARRIER ? (snib_kind)v : SNIB_MUTEX;
}

static void inspect_hide_controls(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            *text = '?';
        }
    }
}

/* Copy a field's bytes as text, cut to max - 1 and at a NUL. */
static void inspect_copy_text(const struct snib__rec *r, char *to, size_t max)
{
    size_t n = r->size < max ? r->size : max - 1;
    memcpy(to, r->data, n);
    to[n] = 0;
    inspect_hide_controls(to);
}

static void inspect_read_party_field(const struct snib__rec *r,
                                     struct party_row *row)
{
    switch (r->field) {
    case SNIB__F_OWNER:
        inspect_copy_text(r, row->client_id, sizeof row->client_id);
        break;
    case SNIB__F_REQUEST:
        inspect_copy_text(r, row->request, sizeof row->request);
        break;
    case SNIB__F_ABOUT:
        snib__about_read(r->data, r->size, &row->about);
        break;
    case SNIB__F_LEFT:
        row->party.left_ms = inspect_not_negative(snib__rec_value_i64(r));
        break;
    case SNIB__F_TOKEN:
        row->party.token = inspect_not_negative(snib__rec_value_i64(r));
        break;
    case SNIB__F_KIND:
        row->party.kind = inspect_kind_of(snib__rec_value_i64(r));
        break;
    case SNIB__F_PERMITS:
        row->party.permits = inspect_count_of(snib__rec_value_i64(r));
        break;
    case SNIB__F_HOLDS:
        row->party.holds = inspect_count_of(snib__rec_value_i64(r));
        break;
    case SNIB__F_SLOT:
        row->party.slot = snib__rec_value_i64(r);
        break;
    case SNIB__F_AGE:
        row->age_ms = inspect_not_negative(snib__rec_value_i64(r));
        row->has_age = true;
        break;
    }
}

static void inspect_read_party(struct snib__rec *r, const char *self,
                               struct party_row *row)
{
    *row = (struct party_row){.party.slot = -1};
    while (snib__rec_next_field(r)) {
        inspect_read_party_field(r, row);
    }
    inspect_hide_controls(row->about.host);
    inspect_hide_controls(row->about.user);
    inspect_hide_controls(row->about.program);
    inspect_hide_controls(row->about.reason);
    struct snib_party *p = &row->party;
    if (p->kind != SNIB_PERMITS || p->slot < 0 || p->slot > UINT32_MAX) {
        p->slot = -1;
    }
    p->client_id = row->client_id;
    p->host = row->about.host;
    p->user = row->about.user;
    p->program = row->about.program;
    p->reason = row->about.reason;
    p->request = row->request;
    p->holding = row->holding;
    p->owner = (uint64_t)inspect_not_negative(row->about.owner);
    for (uint32_t i = 0; i < row->about.held_count; i++) {
        snprintf(row->holding + i * 17U, 18, "%016" PRIx64 "%s",
                 row->about.held[i], i + 1 < row->about.held_count ? "," : "");
    }
    p->pid = inspect_not_negative(row->about.pid);
    p->since_ms = row->has_age ? inspect_wall_ms() - row->age_ms
                               : inspect_not_negative(row->about.since_ms);
    p->self = *self && strcmp(row->client_id, self) == 0;
}

/* -- one lock ------------------------------------------------------------- */

struct measure {
    const void *name; /* points into the rows */
    size_t name_size, text;
    size_t holders, waiters, closed;
    int64_t token, closed_ms, more;
};

static size_t inspect_text_size(const struct snib_party *p)
{
    return strlen(p->client_id) + strlen(p->host) + strlen(p->user) +
           strlen(p->program) + strlen(p->reason) + strlen(p->request) +
           strlen(p->holding) + 7;
}

static void inspect_measure_lock_row(struct snib__rec *r, struct measure *m)
{
    while (snib__rec_next_field(r)) {
        if (r->field == SNIB__F_NAME && r->size <= SNIB_NAME_MAX) {
            m->name = r->data;
            m->name_size = r->size;
        } else if (r->field == SNIB__F_TOKEN) {
            m->token = inspect_not_negative(snib__rec_value_i64(r));
        }
    }
}

static void inspect_measure_more(struct snib__rec *r, struct measure *m)
{
    while (snib__rec_next_field(r)) {
        if (r->field == SNIB__F_COUNT) {
            m->more = snib__rec_value_i64(r);
        }
    }
}

static bool inspect_is_party(int row)
{
    return row == SNIB__ROW_HOLDER || row == SNIB__ROW_WAITER ||
           row == SNIB__ROW_CLOSED;
}

/* Measure the lock whose row *at stands on; *at ends on the next lock's row.
 * False: there is no next lock. */
static bool inspect_measure_lock(struct snib__rec *at, const char *self,
                                 struct measure *m)
{
    struct party_row row;
    *m = (struct measure){0};
    inspect_measure_lock_row(at, m);
    m->text = m->name_size + 1;
    while (snib__rec_next_row(at)) {
        if (at->row == SNIB__ROW_LOCK) {
            return true;
        }
        if (at->row == SNIB__ROW_MORE) {
            inspect_measure_more(at, m);
        } else if (inspect_is_party(at->row)) {
            m->holders += at->row == SNIB__ROW_HOLDER;
            m->waiters += at->row == SNIB__ROW_WAITER;
            inspect_read_party(at, self, &row);
            if (at->row == SNIB__ROW_CLOSED) {
                m->closed++;
                m->closed_ms = row.party.left_ms > m->closed_ms
                                   ? row.party.left_ms
                                   : m->closed_ms;
            }
            m->text += inspect_text_size(&row.party);
        }
    }
    return false;
}

/* Copy text to *end, and move *end behind it. */
static const char *inspect_keep(char **end, const char *text)
{
    size_t size = strlen(text) + 1;
    const char *kept = memcpy(*end, text, size);
    *end += size;
    return kept;
}

static struct snib_party inspect_kept_party(const struct snib_party *p,
                                            char **end)
{
    struct snib_party kept = *p;
    kept.client_id = inspect_keep(end, p->client_id);
    kept.host = inspect_keep(end, p->host);
    kept.user = inspect_keep(end, p->user);
    kept.program = inspect_keep(end, p->program);
    kept.reason = inspect_keep(end, p->reason);
    kept.request = inspect_keep(end, p->request);
    kept.holding = inspect_keep(end, p->holding);
    return kept;
}

/* Allocate a block for what m measured. The texts start at *ret_text. */
static struct snib_view *inspect_new_view(const struct measure *m,
                                          char **ret_text)
{
    size_t parties = m->holders + m->waiters + m->closed;
    size_t head = sizeof(struct snib_view);
    size_t middle = parties * sizeof(struct snib_party);
    struct snib_view *view = snib__alloc(head + middle + m->text);
    if (!view) {
        return NULL;
    }
    struct snib_party *party = (void *)((char *)view + head);
    char *text = (char *)view + head + middle;
    view->name = text;
    view->name_size = m->name_size;
    view->token = m->token;
    view->holder_count = m->holders;
    view->waiter_count = m->waiters;
    view->holders = party;
    view->waiters = party + m->holders;
    view->closed_by = view->waiters + m->waiters;
    view->closed_count = m->closed;
    view->closed_ms = m->closed_ms;
    view->holders_more = inspect_count_of(m->more);
    if (m->name_size) {
        memcpy(text, m->name, m->name_size);
    }
    *ret_text = text + m->name_size + 1;
    return view;
}

/* Read the rows behind the lock row that *at stands on into the view. */
static void inspect_fill_view(struct snib__rec at, const char *self,
                              struct snib_view *view, char *text)
{
    struct snib_party *holder = (struct snib_party *)view->holders;
    struct snib_party *waiter = (struct snib_party *)view->waiters;
    struct snib_party *closed = (struct snib_party *)view->closed_by;
    struct party_row row;
    while (snib__rec_next_row(&at) && at.row != SNIB__ROW_LOCK) {
        if (!inspect_is_party(at.row)) {
            continue;
        }
        struct snib_party **to = at.row == SNIB__ROW_HOLDER   ? &holder
                                 : at.row == SNIB__ROW_WAITER ? &waiter
                                                              : &closed;
        inspect_read_party(&at, self, &row);
        *(*to)++ = inspect_kept_party(&row.party, &text);
    }
}

/* -- all locks ------------------------------------------------------------ */

struct views {
    struct snib_view **v;
    size_t size, cap;
};

static bool inspect_add_view(struct views *all, struct snib_view *view)
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

static int inspect_by_name(const void *a, const void *b)
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
static void inspect_sort_and_thin(struct views *all)
{
    size_t kept = 0;
    if (all->size < 2) {
        return;
    }
    qsort(all->v, all->size, sizeof *all->v, inspect_by_name);
    for (size_t i = 1; i < all->size; i++) {
        if (inspect_by_name(&all->v[kept], &all->v[i]) == 0) {
            snib_view_free(all->v[i]);
        } else {
            all->v[++kept] = all->v[i];
        }
    }
    all->size = kept + 1;
}

static bool inspect_read_views(struct snib__rec *at, const char *self,
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
        more = inspect_measure_lock(at, self, &m);
        if (!m.name_size) {
            continue;
        }
        struct snib_view *view = inspect_new_view(&m, &text);
        if (!view || !inspect_add_view(all, view)) {
            snib_view_free(view);
            return false;
        }
        inspect_fill_view(row, self, view, text);
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
    if (!inspect_read_views(&at, self, &all)) {
        snib_views_free(all.v, all.size);
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    inspect_sort_and_thin(&all);
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

/* -- asking --------------------------------------------------------------- */

/* The client's id. 33 is 32 hexadecimal digits and a NUL. */
static void inspect_self_text(struct snib_client *client, char self[33])
{
    uint64_t id[2];
    snib__client_id(client, id);
    snprintf(self, 33, "%016" PRIx64 "%016" PRIx64, id[0], id[1]);
}

static void inspect_query_init(struct snib__direct *q, snib__verb verb)
{
    *q = (struct snib__direct){.verb = verb, .limit = SNIB__NEVER};
    snib__buf_init(&q->result, ANSWER_MAX);
}

/* Run q. The caller frees its result in any case. */
static snib_err inspect_spec(struct snib_client *client, struct snib__direct *q,
                             struct snib_error *reterr)
{
    snib_err err = snib__run_direct(client, q, reterr);
    if (!err && q->result.failed) {
        return snib__fail(reterr, SNIB_ERR_NOMEM,
                          "no memory for the store's answer");
    }
    return err;
}

static snib_err inspect_check_name(const char *name, size_t *size,
                                   struct snib_error *reterr)
{
    if (name && !*size) {
        *size = strlen(name);
    }
    if (!name || !*size || *size > SNIB_NAME_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "a lock's name has 1 to %d bytes", SNIB_NAME_MAX);
    }
    return SNIB_ERR_OK;
}

/* Take the view of `name` out of views (which are freed); else make an empty
 * one. */
static snib_err inspect_pick_view(struct snib_view **views, size_t count,
                                  const char *name, size_t size,
                                  struct snib_view **ret,
                                  struct snib_error *reterr)
{
    const struct measure m = {
        .name = name, .name_size = size, .text = size + 1};
    char *text;
    for (size_t i = 0; i < count && !*ret; i++) {
        if (views[i]->name_size == size &&
            memcmp(views[i]->name, name, size) == 0) {
            *ret = views[i];
            views[i] = NULL;
        }
    }
    snib_views_free(views, count);
    if (!*ret) {
        *ret = inspect_new_view(&m, &text);
    }
    return *ret ? snib__ok(reterr) : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

snib_err snib_inspect(struct snib_client *client, const char *name, size_t size,
                      struct snib_view **ret, struct snib_error *reterr)
{
    struct snib__direct q;
    struct snib_view **views = NULL;
    char self[33];
    size_t count = 0;
    if (ret) {
        *ret = NULL;
    }
    if (!client || !ret) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_inspect: client and ret must not be NULL");
    }
    snib_err err = inspect_check_name(name, &size, reterr);
    if (err) {
        return err;
    }
    inspect_query_init(&q, SNIB__INSPECT);
    q.name = name;
    q.name_size = size;
    err = inspect_spec(client, &q, reterr);
    if (!err) {
        inspect_self_text(client, self);
        err = snib__views_read(snib__buf_bytes(&q.result),
                               snib__buf_size(&q.result), self, &views, &count,
                               reterr);
    }
    snib__buf_free(&q.result);
    return err ? err : inspect_pick_view(views, count, name, size, ret, reterr);
}

snib_err snib_list(struct snib_client *client, const char *glob,
                   struct snib_view ***ret, size_t *ret_count,
                   struct snib_error *reterr)
{
    struct snib__direct q;
    char self[33];
    if (ret) {
        *ret = NULL;
    }
    if (ret_count) {
        *ret_count = 0;
    }
    if (!client || !ret || !ret_count) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_list: client, ret and ret_count must not be "
                          "NULL");
    }
    inspect_query_init(&q, SNIB__LIST);
    q.text = glob ? glob : "*";
    snib_err err = inspect_spec(client, &q, reterr);
    if (!err) {
        inspect_self_text(client, self);
        err = snib__views_read(snib__buf_bytes(&q.result),
                               snib__buf_size(&q.result), self, ret, ret_count,
                               reterr);
    }
    snib__buf_free(&q.result);
    return err;
}

/* Read the number in the count row. False: there is none. */
static bool inspect_read_count(const struct snib__buf *rows, uint32_t *ret)
{
    struct snib__rec at;
    snib__rec_begin(&at, snib__buf_bytes(rows), snib__buf_size(rows));
    while (snib__rec_next_row(&at)) {
        while (at.row == SNIB__ROW_COUNT && snib__rec_next_field(&at)) {
            if (at.field == SNIB__F_COUNT) {
                *ret = inspect_count_of(snib__rec_value_i64(&at));
                return true;
            }
        }
    }
    return false;
}

snib_err snib_force_release(struct snib_client *client, const char *name,
                            size_t size, const char *reason,
                            uint32_t *ret_released, struct snib_error *reterr)
{
    struct snib__direct q;
    uint32_t released = 0;
    if (!client) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_force_release: client must not be NULL");
    }
    snib_err err = inspect_check_name(name, &size, reterr);
    if (err) {
        return err;
    }
    inspect_query_init(&q, SNIB__FORCE);
    q.name = name;
    q.name_size = size;
    q.text = reason ? reason : "";
    err = inspect_spec(client, &q, reterr);
    if (!err && !inspect_read_count(&q.result, &released)) {
        err = snib__fail(reterr, SNIB_ERR_INTERNAL,
                         "the store did not say how many holders it ended");
    }
    snib__buf_free(&q.result);
    if (!err && ret_released) {
        *ret_released = released;
    }
    return err;
}

/* -- doctor --------------------------------------------------------------- */

enum { CHECK_MAX = 64, FINDING_MAX = 1024 };

struct finding_row {
    snib_level level;
    char check[CHECK_MAX], text[FINDING_MAX], remedy[FINDING_MAX];
};

static snib_level inspect_level_of(int64_t v)
{
    return v == SNIB_LEVEL_OK     ? SNIB_LEVEL_OK
           : v == SNIB_LEVEL_WARN ? SNIB_LEVEL_WARN
                                  : SNIB_LEVEL_FAIL;
}

static void inspect_read_finding(struct snib__rec *r, struct finding_row *row)
{
    *row = (struct finding_row){0};
    while (snib__rec_next_field(r)) {
        if (r->field == SNIB__F_LEVEL) {
            row->level = inspect_level_of(snib__rec_value_i64(r));
        } else if (r->field == SNIB__F_CHECK) {
            inspect_copy_text(r, row->check, sizeof row->check);
        } else if (r->field == SNIB__F_TEXT) {
            inspect_copy_text(r, row->text, sizeof row->text);
        } else if (r->field == SNIB__F_REMEDY) {
            inspect_copy_text(r, row->remedy, sizeof row->remedy);
        }
    }
}

/* True: one of the findings was a failure. */
static bool inspect_tell_findings(const struct snib__buf *rows,
                                  void (*tell)(void *,
                                               const struct snib_finding *),
                                  void *data)
{
    struct snib__rec at;
    struct finding_row row;
    bool failed = false;
    snib__rec_begin(&at, snib__buf_bytes(rows), snib__buf_size(rows));
    while (snib__rec_next_row(&at)) {
        if (at.row == SNIB__ROW_FINDING) {
            inspect_read_finding(&at, &row);
            const struct snib_finding f = {row.level, row.check, row.text,
                                           row.remedy};
            failed = failed || f.level == SNIB_LEVEL_FAIL;
            tell(data, &f);
        }
    }
    return failed;
}

/* What to do when the store could not be asked. */
static const char *inspect_remedy_of(snib_err err)
{
    switch (snib_err_class(err)) {
    case SNIB_CLASS_RETRY:
    case SNIB_CLASS_UNKNOWN:
        return "check the URL (host, port, path) and that the store runs and "
               "is reachable from here";
    case SNIB_CLASS_STORE:
        return err == SNIB_ERR_DENIED
                   ? "check user and password in the URL and what the store "
                     "permits that user"
                   : "see the store's own log";
    case SNIB_CLASS_USAGE:
        return "correct the URL or the options of this client";
    case SNIB_CLASS_LIMIT:
        return "give this process more memory";
    case SNIB_CLASS_NONE:
    case SNIB_CLASS_REFUSED:
    case SNIB_CLASS_LOST:
    case SNIB_CLASS_INTERNAL:
        break;
    }
    return "please report this with the version and the URL's scheme";
}

snib_err snib_doctor(struct snib_client *client,
                     void (*tell)(void *data, const struct snib_finding *),
                     void *data, struct snib_error *reterr)
{
    struct snib__direct q;
    struct snib_error detail = {0};
    if (!client || !tell) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_doctor: client and tell must not be NULL");
    }
    inspect_query_init(&q, SNIB__DOCTOR);
    snib_err err = inspect_spec(client, &q, &detail);
    bool told = inspect_tell_findings(&q.result, tell, data);
    snib__buf_free(&q.result);
    if (err) {
        const struct snib_finding f = {SNIB_LEVEL_FAIL, "reachable",
                                       detail.text[0] ? detail.text
                                                      : snib_err_text(err),
                                       inspect_remedy_of(err)};
        if (!told) { /* the store could not say it itself */
            tell(data, &f);
        }
        return snib__fail(reterr, err, "%s", f.text);
    }
    return snib__ok(reterr);
}
