/* api/inspect.c — inspecting locks without holding them: inspect, list, doctor;
 * and the one way to end another owner's grant. What is shown of the store's
 * rows: views.c. Each function has one text: a struct with where its results
 * go, which is filled by a function that checks the arguments, and is run or
 * started. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/inspect_i.h"
#include "api/views.h"
#include "base/error.h"
#include "core/engine.h"
#include "snib/event.h"
#include "snib/inspect.h"

/* The client's id. 33 is 32 hexadecimal digits and a NUL. */
static void inspect_self_text(struct snib_client *client, char self[33])
{
    uint64_t id[2];
    snib__client_id(client, id);
    snprintf(self, 33, "%016" PRIx64 "%016" PRIx64, id[0], id[1]);
}

static void inspect_op_init(struct snib__direct_op *d,
                            struct snib_client *client,
                            const struct snib__direct_rules *rules,
                            snib__verb verb)
{
    *d = (struct snib__direct_op){.client = client,
                                  .rules = rules,
                                  .q = {.verb = verb, .limit = SNIB__NEVER}};
}

/* -- inspect ---------------------------------------------------------------- */

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
    for (size_t i = 0; i < count && !*ret; i++) {
        if (views[i]->name_size == size &&
            memcmp(views[i]->name, name, size) == 0) {
            *ret = views[i];
            views[i] = NULL;
        }
    }
    snib_views_free(views, count);
    if (!*ret) {
        *ret = snib__view_empty(name, size);
    }
    return *ret ? snib__ok(reterr) : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

snib_err snib__inspect_prepare(struct snib__direct_op *d,
                               struct snib_client *client, const char *name,
                               size_t size,
                               const struct snib__direct_rules *rules,
                               struct snib_error *reterr)
{
    snib_err err = inspect_check_name(name, &size, reterr);
    if (err) {
        return err;
    }
    inspect_op_init(d, client, rules, SNIB__INSPECT);
    d->q.name = name;
    d->q.name_size = size;
    return SNIB_ERR_OK;
}

snib_err snib__inspect_view(const struct snib__direct_op *d,
                            struct snib_view **ret, struct snib_error *reterr)
{
    struct snib_view **views = NULL;
    char self[33];
    size_t count = 0;
    *ret = NULL;
    inspect_self_text(d->client, self);
    snib_err err = snib__views_read(snib__buf_bytes(&d->q.result),
                                    snib__buf_size(&d->q.result), self, &views,
                                    &count, reterr);
    return err ? err
               : inspect_pick_view(views, count, d->q.name, d->q.name_size, ret,
                                   reterr);
}

struct inspect_op {
    struct snib__direct_op d;
    struct snib_view **ret;
};

static snib_err inspect_decode(struct snib__direct_op *d, snib_err err,
                               struct snib_error *ret)
{
    struct inspect_op *o = SNIB__CONTAINER(d, struct inspect_op, d);
    return err ? err : snib__inspect_view(d, o->ret, ret);
}

static const struct snib__direct_rules inspect_rules = {.decode =
                                                            inspect_decode};

static snib_err inspect_prepare(struct inspect_op *o,
                                struct snib_client *client, const char *name,
                                size_t size, struct snib_view **ret,
                                struct snib_error *reterr)
{
    if (ret) {
        *ret = NULL;
    }
    if (!client || !ret) {
        return snib__fail(
            reterr, SNIB_ERR_USAGE,
            "snib_client_inspect: client and ret must not be NULL");
    }
    o->ret = ret;
    return snib__inspect_prepare(&o->d, client, name, size, &inspect_rules,
                                 reterr);
}

snib_err snib_client_inspect(struct snib_client *client, const char *name,
                             size_t size, struct snib_view **ret,
                             struct snib_error *reterr)
{
    struct inspect_op o;
    snib_err err = inspect_prepare(&o, client, name, size, ret, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib_client_inspect_start(struct snib_client *client, const char *name,
                                   size_t size, struct snib_view **ret,
                                   void *user, uint64_t *ret_ticket,
                                   struct snib_error *reterr)
{
    struct inspect_op o;
    snib__no_ticket(ret_ticket);
    snib_err err = inspect_prepare(&o, client, name, size, ret, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
}

/* -- list --------------------------------------------------------------------- */

struct list_op {
    struct snib__direct_op d;
    struct snib_view ***ret;
    size_t *ret_count;
};

static snib_err inspect_decode_list(struct snib__direct_op *d, snib_err err,
                                    struct snib_error *ret)
{
    struct list_op *o = SNIB__CONTAINER(d, struct list_op, d);
    char self[33];
    if (err) {
        return err;
    }
    inspect_self_text(d->client, self);
    return snib__views_read(snib__buf_bytes(&d->q.result),
                            snib__buf_size(&d->q.result), self, o->ret,
                            o->ret_count, ret);
}

static const struct snib__direct_rules list_rules = {.decode =
                                                         inspect_decode_list};

static snib_err inspect_prepare_list(struct list_op *o,
                                     struct snib_client *client,
                                     const char *glob, struct snib_view ***ret,
                                     size_t *ret_count,
                                     struct snib_error *reterr)
{
    if (ret) {
        *ret = NULL;
    }
    if (ret_count) {
        *ret_count = 0;
    }
    if (!client || !ret || !ret_count) {
        return snib__fail(
            reterr, SNIB_ERR_USAGE,
            "snib_client_list: client, ret and ret_count must not be "
            "NULL");
    }
    inspect_op_init(&o->d, client, &list_rules, SNIB__LIST);
    o->d.q.text = glob ? glob : "*";
    o->ret = ret;
    o->ret_count = ret_count;
    return SNIB_ERR_OK;
}

snib_err snib_client_list(struct snib_client *client, const char *glob,
                          struct snib_view ***ret, size_t *ret_count,
                          struct snib_error *reterr)
{
    struct list_op o;
    snib_err err =
        inspect_prepare_list(&o, client, glob, ret, ret_count, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib_client_list_start(struct snib_client *client, const char *glob,
                                struct snib_view ***ret, size_t *ret_count,
                                void *user, uint64_t *ret_ticket,
                                struct snib_error *reterr)
{
    struct list_op o;
    snib__no_ticket(ret_ticket);
    snib_err err =
        inspect_prepare_list(&o, client, glob, ret, ret_count, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
}

/* -- force -------------------------------------------------------------------- */

/* Read the number in the count row. False: there is none. */
static bool inspect_read_count(const struct snib__buf *rows, uint32_t *ret)
{
    struct snib__rec at;
    snib__rec_begin(&at, snib__buf_bytes(rows), snib__buf_size(rows));
    while (snib__rec_next_row(&at)) {
        while (at.row == SNIB__ROW_COUNT && snib__rec_next_field(&at)) {
            if (at.field == SNIB__F_COUNT) {
                *ret = snib__field_count(snib__rec_value_i64(&at));
                return true;
            }
        }
    }
    return false;
}

struct force_op {
    struct snib__direct_op d;
    uint32_t *ret_released;
};

static snib_err inspect_decode_force(struct snib__direct_op *d, snib_err err,
                                     struct snib_error *ret)
{
    struct force_op *o = SNIB__CONTAINER(d, struct force_op, d);
    uint32_t released = 0;
    if (!err && !inspect_read_count(&d->q.result, &released)) {
        err = snib__fail(ret, SNIB_ERR_INTERNAL,
                         "the store did not say how many holders it ended");
    }
    if (!err && o->ret_released) {
        *o->ret_released = released;
    }
    return err;
}

static const struct snib__direct_rules force_rules = {.decode =
                                                          inspect_decode_force};

static snib_err
inspect_prepare_force(struct force_op *o, struct snib_client *client,
                      const char *name, size_t size, const char *reason,
                      uint32_t *ret_released, struct snib_error *reterr)
{
    if (!client) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_client_force_release: client must not be NULL");
    }
    snib_err err = inspect_check_name(name, &size, reterr);
    if (err) {
        return err;
    }
    inspect_op_init(&o->d, client, &force_rules, SNIB__FORCE);
    o->d.q.name = name;
    o->d.q.name_size = size;
    o->d.q.text = reason ? reason : "";
    o->ret_released = ret_released;
    return SNIB_ERR_OK;
}

snib_err snib_client_force_release(struct snib_client *client, const char *name,
                                   size_t size, const char *reason,
                                   uint32_t *ret_released,
                                   struct snib_error *reterr)
{
    struct force_op o;
    snib_err err = inspect_prepare_force(&o, client, name, size, reason,
                                         ret_released, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib_client_force_release_start(struct snib_client *client,
                                         const char *name, size_t size,
                                         const char *reason,
                                         uint32_t *ret_released, void *user,
                                         uint64_t *ret_ticket,
                                         struct snib_error *reterr)
{
    struct force_op o;
    snib__no_ticket(ret_ticket);
    snib_err err = inspect_prepare_force(&o, client, name, size, reason,
                                         ret_released, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
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
            snib__field_text(r, row->check, sizeof row->check);
        } else if (r->field == SNIB__F_TEXT) {
            snib__field_text(r, row->text, sizeof row->text);
        } else if (r->field == SNIB__F_REMEDY) {
            snib__field_text(r, row->remedy, sizeof row->remedy);
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

struct doctor_op {
    struct snib__direct_op d;
    void (*tell)(void *, const struct snib_finding *);
    void *data;
};

static snib_err inspect_decode_doctor(struct snib__direct_op *d, snib_err err,
                                      struct snib_error *ret)
{
    struct doctor_op *o = SNIB__CONTAINER(d, struct doctor_op, d);
    bool told = inspect_tell_findings(&d->q.result, o->tell, o->data);
    if (!err) {
        return SNIB_ERR_OK;
    }
    if (!ret->text[0]) {
        snib__fail_plain(ret, err);
    }
    const struct snib_finding f = {
        SNIB_LEVEL_FAIL, err == SNIB_ERR_DENIED ? "permissions" : "reachable",
        ret->text, inspect_remedy_of(err)};
    if (!told) { /* the store could not say it itself */
        o->tell(o->data, &f);
    }
    return err;
}

static const struct snib__direct_rules doctor_rules = {
    .decode = inspect_decode_doctor};

static snib_err
inspect_prepare_doctor(struct doctor_op *o, struct snib_client *client,
                       void (*tell)(void *, const struct snib_finding *),
                       void *data, struct snib_error *reterr)
{
    if (!client || !tell) {
        return snib__fail(
            reterr, SNIB_ERR_USAGE,
            "snib_client_doctor: client and tell must not be NULL");
    }
    inspect_op_init(&o->d, client, &doctor_rules, SNIB__DOCTOR);
    o->tell = tell;
    o->data = data;
    return SNIB_ERR_OK;
}

snib_err snib_client_doctor(struct snib_client *client,
                            void (*tell)(void *data,
                                         const struct snib_finding *),
                            void *data, struct snib_error *reterr)
{
    struct doctor_op o;
    snib_err err = inspect_prepare_doctor(&o, client, tell, data, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib_client_doctor_start(struct snib_client *client,
                                  void (*tell)(void *data,
                                               const struct snib_finding *),
                                  void *data, void *user, uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    struct doctor_op o;
    snib__no_ticket(ret_ticket);
    snib_err err = inspect_prepare_doctor(&o, client, tell, data, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
}
