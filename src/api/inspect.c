/* api/inspect.c — inspecting locks without holding them: inspect, list, doctor;
 * and the one way to end another owner's grant. What is shown of the store's
 * rows: views.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/client.h"
#include "api/views.h"
#include "base/error.h"
#include "core/engine.h"

/* The most a store may answer: 100 000 busy locks fit. */
enum { ANSWER_MAX = 256 * 1024 * 1024 };

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
                *ret = snib__field_count(snib__rec_value_i64(&at));
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
