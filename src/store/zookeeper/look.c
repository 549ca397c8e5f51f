/* store/zookeeper/look.c — inspect and list. They change nothing.
 *
 *   sync -> of a list: the names -> of each name: its nodes -> of each that stands: its
 *   data, and of a holder its record, which was changed when it was last renewed
 *
 * Each is a call of its own, so what is shown was true one after the other, not at
 * one instant. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/glob.h"
#include "core/about.h"
#include "core/rules/rules.h"
#include "store/zookeeper/zookeeper_i.h"

enum { LOOK_MOST = 256 }; /* of so many of a lock it is shown who they are */

static void look_next(struct snib__zoo *z, snib_instant now,
                      struct zoo_step *k);

/* -- where it is -------------------------------------------------------------- */

static bool look_lists(const struct zoo_step *k)
{
    return k->r->verb == SNIB__LIST;
}

/* Of a list: the name that is being looked at, as its node is called. */
static const char *look_node(struct zoo_step *k)
{
    return (const char *)snib__buf_bytes(&k->names);
}

static void look_path(const struct snib__zoo *z, struct zoo_step *k,
                      const char *child, struct zoo_path *ret)
{
    if (look_lists(k)) {
        snprintf(ret->text, sizeof ret->text, "%s/%s%s%s", z->base,
                 look_node(k), *child ? "/" : "", child);
    } else if (*child) {
        snib__zoo_path_child(z, k->r->name, child, ret);
    } else {
        snib__zoo_path_lock(z, k->r->name, ret);
    }
}

static void look_failed(struct snib__zoo *z, snib_instant now,
                        struct zoo_step *k, struct zoo_reply *reply,
                        const char *path)
{
    snib__buf_clear(k->r->said.result);
    snib__buf_clear(&k->names);
    snib__zoo_step_failed(z, now, k, reply, path);
}

static void look_over(struct snib__zoo *z, struct zoo_step *k)
{
    bool failed = k->r->said.result->failed || k->names.failed;
    snib__zoo_step_answer(z, k, failed ? SNIB__NOT_APPLIED : SNIB__DONE,
                          failed ? SNIB_ERR_NOMEM : SNIB_ERR_OK, NULL);
}

static bool look_gone(const struct zoo_reply *reply)
{
    return reply->end == ZOO_SAYS && reply->zk == SNIB__ZK_NO_NODE;
}

/* -- one that stands ---------------------------------------------------------- */

/* The rest of a text that begins so; NULL: it does not. */
static const char *look_behind(const char *text, size_t size, const char *head)
{
    size_t n = strlen(head);
    return size >= n && !memcmp(text, head, n) ? text + n : NULL;
}

static uint64_t look_hex(const char *text)
{
    char digits[17] = {0};
    memcpy(digits, text, 16);
    return strtoull(digits, NULL, 16);
}

/* "token=12&", if it begins so; the rest. */
static const char *look_token(const char *text, const char *end,
                              struct zoo_seen *ret)
{
    const char *p = look_behind(text, (size_t)(end - text), "token=");
    int64_t token = 0;
    while (p && p < end && *p >= '0' && *p <= '9' &&
           snib__is_token(token + 1)) {
        token = token * 10 + (*p++ - '0');
    }
    if (!p || p >= end || *p != '&' || !snib__is_token(token)) {
        return text;
    }
    ret->token = token;
    return p + 1;
}

/* What acquire.c has written; of others nothing is known but that they are no
 * snib's. */
static void look_data(struct snib__jute_bytes data, struct zoo_seen *ret)
{
    enum { ID = 32, KIND = 6 };
    static const char stranger[] = "program=not%20snib";
    const char *end = data.bytes ? data.bytes + data.size : NULL;
    const char *p =
        data.bytes ? look_behind(data.bytes, data.size, "client=") : NULL;
    const char *about = stranger;
    size_t size = sizeof stranger - 1;
    *ret = (struct zoo_seen){.kind = SNIB_KIND_MUTEX, .stranger = true};
    if (p && end - p > ID + KIND &&
        look_behind(p + ID, (size_t)(end - p - ID), "&kind=")) {
        ret->stranger = false;
        ret->client[0] = look_hex(p);
        ret->client[1] = look_hex(p + 16);
        p += ID + KIND;
        ret->kind =
            *p == '0' + SNIB_KIND_WRITE ? SNIB_KIND_WRITE : SNIB_KIND_MUTEX;
        about = p + (p + 1 < end && p[1] == '&' ? 2 : 1);
        about = look_token(about, end, ret);
        size = (size_t)(end - about);
    }
    ret->about_size = size < sizeof ret->about ? size : sizeof ret->about;
    memcpy(ret->about, about, ret->about_size);
}

static void look_request(const struct zoo_view *v, uint32_t at,
                         struct zoo_request *ret)
{
    *ret = (struct zoo_request){.id = {v->child[at].id[0], v->child[at].id[1]},
                                .reads = v->child[at].reads};
}

/* It is next, but for a record whose node is gone: it waits until nobody can believe
 * in that (acquire_outlived). Others than snib's look at no record. */
static bool look_is_barred(const struct zoo_view *v, uint32_t at)
{
    struct zoo_request request;
    uint64_t hash;
    look_request(v, at, &request);
    return !snib__zoo_view_record(v, v->child[at].id) &&
           snib__zoo_view_dead(v, &request, &hash) > 0;
}

/* Without a record the first one has it, and those readers that nobody is before;
 * of another's the lease is not known. */
static bool look_holds(const struct zoo_view *v, uint32_t at)
{
    struct zoo_request request;
    look_request(v, at, &request);
    return snib__zoo_view_record(v, v->child[at].id) ||
           snib__zoo_view_ahead(v, &request, (int)at) < 0;
}

static void look_lock_row(struct snib__zoo *z, struct zoo_step *k,
                          int64_t token)
{
    struct snib__buf *out = k->r->said.result;
    char name[SNIB_NAME_MAX];
    size_t size = k->r->name ? k->r->name->raw_size : 0;
    snib__rec_row(out, SNIB__ROW_LOCK);
    if (look_lists(k)) {
        size = snib__zoo_path_name(z, look_node(k), strlen(look_node(k)), name);
    }
    snib__rec_bytes(out, SNIB__F_NAME, look_lists(k) ? name : k->r->name->raw,
                    size);
    snib__rec_i64(out, SNIB__F_TOKEN, token);
}

static int64_t look_wall_ms(const struct snib__zoo *z, snib_instant now)
{
    return (now.ns + z->out->wall_offset_ns) / 1000000;
}

/* How much is left of a lease that began then, by the hosts' clocks: never more than
 * all of it. One that is over is shown as such (0 ms, and not yet ended) as long as
 * its node stands. */
static snib_duration look_left(const struct snib__zoo *z, snib_instant now,
                               int64_t lease_ms, int64_t begun_ms)
{
    int64_t ms = lease_ms - (look_wall_ms(z, now) - begun_ms);
    ms = !z->out->wall_offset_ns || ms > lease_ms ? lease_ms : ms;
    return ms > 0 ? snib__ms(ms) : (snib_duration){1};
}

/* since_ms: when it was granted, or came, by the ensemble. */
static void look_show(struct snib__zoo *z, snib_instant now, struct zoo_step *k,
                      const struct zoo_seen *seen)
{
    const struct zoo_child *c = &k->view.child[k->at];
    const struct zoo_child *record = snib__zoo_view_record(&k->view, c->id);
    bool holds = look_holds(&k->view, k->at) &&
                 (seen->stranger || !look_is_barred(&k->view, k->at));
    struct snib__stored_claim row = {
        .request = {c->id[0], c->id[1]},
        .client = {seen->client[0], seen->client[1]},
        .state = !holds     ? SNIB__WAITS
                 : c->reads ? SNIB__SHARES
                            : SNIB__HOLDS,
        .kind = c->reads ? SNIB_KIND_READ : seen->kind,
        .permits = 1,
        .token = !holds        ? 0
                 : seen->token ? seen->token
                               : seen->czxid};
    int64_t age_ms = look_wall_ms(z, now) - seen->since_ms;
    row.since = snib__before(now, snib__ms(age_ms > 0 ? age_ms : 0));
    if (!z->out->wall_offset_ns || row.since.ns < 2) {
        row.since.ns = 0;
    }
    row.until = snib__after(
        now, record ? look_left(z, now, record->lease_ms, seen->renewed_ms)
                    : snib__ms(z->session.zk.timeout_ms));
    snib__rules_row(k->r->said.result, now, &row, seen->about,
                    seen->about_size);
}

static void look_shown(struct snib__zoo *z, snib_instant now,
                       struct zoo_step *k)
{
    look_show(z, now, k, &k->seen);
    k->at++;
    look_next(z, now, k);
}

/* A record that is gone by now was given back. */
static void look_record_came(struct snib__zoo *z, snib_instant now,
                             struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct snib__zk_stat stat;
    struct zoo_path path;
    if (reply->end && !look_gone(reply)) {
        look_path(z, k, "", &path);
        look_failed(z, now, k, reply, path.text);
        return;
    }
    if (!reply->end) {
        snib__zk_read_stat(&reply->body, &stat);
        k->seen.since_ms = stat.ctime;
        k->seen.renewed_ms = stat.mtime;
    }
    look_shown(z, now, k);
}

static void look_record(struct snib__zoo *z, snib_instant now,
                        struct zoo_step *k)
{
    const struct zoo_child *record =
        snib__zoo_view_record(&k->view, k->view.child[k->at].id);
    struct zoo_path path;
    if (!record) {
        look_shown(z, now, k);
        return;
    }
    look_path(z, k, record->name, &path);
    snib__zoo_step_ask(z, k, SNIB__ZK_EXISTS, look_record_came);
    snib__zk_put_read(snib__zoo_out(z), path.text, false);
    snib__zoo_step_send(z, now, k, false);
}

static void look_data_came(struct snib__zoo *z, snib_instant now,
                           struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct snib__zk_stat stat = {.czxid = 0};
    struct zoo_path path;
    if (reply->end && !look_gone(reply)) {
        look_path(z, k, "", &path);
        look_failed(z, now, k, reply, path.text);
        return;
    }
    if (!reply->end) {
        struct snib__jute_bytes data = snib__jute_bytes(&reply->body);
        snib__zk_read_stat(&reply->body, &stat);
        look_data(data, &k->seen);
        k->seen.czxid = stat.czxid;
        k->seen.since_ms = k->seen.renewed_ms = stat.ctime;
    }
    if (k->at == 0) {
        look_lock_row(z, k, stat.czxid);
    }
    if (!reply->end) {
        look_record(z, now, k);
    } else { /* it went meanwhile */
        k->at++;
        look_next(z, now, k);
    }
}

/* -- one lock ----------------------------------------------------------------- */

static bool look_is_shown(struct snib__zoo *z, struct zoo_step *k)
{
    const struct snib__request *r = k->r;
    char name[SNIB_NAME_MAX];
    bool waits = false;
    if (!look_lists(k)) {
        return true;
    }
    size_t size =
        snib__zoo_path_name(z, look_node(k), strlen(look_node(k)), name);
    for (uint32_t i = 0; i < k->view.standing; i++) {
        waits = waits || !look_holds(&k->view, i) ||
                look_is_barred(&k->view, i); /* a stranger's is shown, too */
    }
    return k->view.count && (waits || !r->list.awaited_only) && size &&
           snib__glob(r->text, r->text_size, name, size);
}

/* Grants whose nodes are gone: closed for a lease from when that was, which nobody
 * knows. So it counts from when this client saw it first, as for who waits
 * (acquire_outlived); else whoever looks again and again would see no end. */
static snib_instant look_dead_since(struct snib__zoo *z, snib_instant now,
                                    const struct zoo_step *k)
{
    const struct zoo_request nobody = {.reads = false};
    uint64_t hash;
    if (!snib__zoo_view_dead(&k->view, &nobody, &hash)) {
        return now;
    }
    uint32_t i = hash % ZOO_DEAD;
    if (z->dead[i].hash != hash || !z->dead[i].since.ns) {
        z->dead[i].hash = hash; /* of ids, so it is this lock's */
        z->dead[i].since = now;
    }
    return z->dead[i].since;
}

static void look_dead(struct snib__zoo *z, snib_instant now, struct zoo_step *k)
{
    const struct zoo_request nobody = {.reads = false};
    snib_instant since = look_dead_since(z, now, k);
    for (uint32_t i = k->view.standing; i < k->view.count; i++) {
        const struct zoo_child *c = &k->view.child[i];
        struct snib__stored_claim row = {.request = {c->id[0], c->id[1]},
                                         .state = SNIB__HOLDS,
                                         .kind = c->reads ? SNIB_KIND_READ
                                                          : SNIB_KIND_MUTEX,
                                         .permits = 1,
                                         .delay = snib__ms(c->lease_ms),
                                         .until = since};
        if (snib__zoo_view_is_dead(c, &nobody) &&
            !snib__reached(now, snib__rules_claim_till(&row))) {
            snib__rules_row(k->r->said.result, now, &row, "", 0);
        }
    }
}

static void look_nodes(struct snib__zoo *z, snib_instant now,
                       struct zoo_step *k)
{
    k->at = 0;
    if (!look_is_shown(z, k)) {
        k->at = LOOK_MOST;
        k->view.standing = 0;
    } else if (!k->view.standing) {
        look_lock_row(z, k, 0);
    }
    look_next(z, now, k);
}

static void look_nodes_came(struct snib__zoo *z, snib_instant now,
                            struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    struct zoo_path path;
    bool bad = false;
    if (look_gone(reply)) {
        snib__zoo_view_clear(&k->view);
        look_nodes(z, now, k);
    } else if (!reply->end &&
               snib__zoo_view_read(&k->view, &reply->body, &bad)) {
        look_nodes(z, now, k);
    } else if (!reply->end && !bad) {
        snib__zoo_step_answer(z, k, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM, NULL);
    } else {
        look_path(z, k, "", &path);
        look_failed(z, now, k, reply, path.text);
    }
}

static void look_ask(struct snib__zoo *z, snib_instant now, struct zoo_step *k)
{
    struct zoo_path path;
    look_path(z, k, "", &path);
    snib__zoo_step_ask(z, k, SNIB__ZK_CHILDREN, look_nodes_came);
    snib__zk_put_read(snib__zoo_out(z), path.text, false);
    snib__zoo_step_send(z, now, k, false);
}

/* The next node of this lock, or the next lock. */
static void look_next(struct snib__zoo *z, snib_instant now, struct zoo_step *k)
{
    static const struct zoo_seen nobody = {.about_size = 0};
    struct zoo_path path;
    if (k->at < k->view.standing && k->at < LOOK_MOST) {
        look_path(z, k, k->view.child[k->at].name, &path);
        snib__zoo_step_ask(z, k, SNIB__ZK_GET_DATA, look_data_came);
        snib__zk_put_read(snib__zoo_out(z), path.text, false);
        snib__zoo_step_send(z, now, k, false);
        return;
    }
    for (; k->at < k->view.standing; k->at++) {
        look_show(z, now, k, &nobody);
    }
    if (k->view.standing || k->at != LOOK_MOST) {
        look_dead(z, now, k);
    }
    if (look_lists(k) && snib__buf_size(&k->names)) {
        snib__buf_consume(&k->names, strlen(look_node(k)) + 1);
    }
    if (look_lists(k) && snib__buf_size(&k->names)) {
        look_ask(z, now, k);
    } else {
        look_over(z, k);
    }
}

/* -- all of them --------------------------------------------------------------- */

static void look_names_came(struct snib__zoo *z, snib_instant now,
                            struct zoo_call *c, struct zoo_reply *reply)
{
    struct zoo_step *k = snib__zoo_step_of(c);
    char name[SNIB_NAME_MAX];
    uint32_t n;
    if (look_gone(reply)) {
        look_over(z, k);
        return;
    }
    if (reply->end) {
        look_failed(z, now, k, reply, z->base);
        return;
    }
    n = snib__jute_count(&reply->body, 4);
    for (uint32_t i = 0; i < n; i++) {
        struct snib__jute_bytes one = snib__jute_bytes(&reply->body);
        if (one.bytes && snib__zoo_path_name(z, one.bytes, one.size, name)) {
            snib__buf_add(&k->names, one.bytes, one.size);
            snib__buf_add(&k->names, "", 1);
        }
    }
    if (reply->body.bad) {
        look_failed(z, now, k, reply, z->base);
    } else if (snib__buf_size(&k->names) && !k->names.failed) {
        look_ask(z, now, k);
    } else {
        look_over(z, k);
    }
}

static void look_synced(struct snib__zoo *z, snib_instant now,
                        struct zoo_step *k)
{
    if (!look_lists(k)) {
        look_ask(z, now, k);
        return;
    }
    snib__zoo_step_ask(z, k, SNIB__ZK_CHILDREN, look_names_came);
    snib__zk_put_read(snib__zoo_out(z), z->base[0] ? z->base : "/", false);
    snib__zoo_step_send(z, now, k, false);
}

static void look_begin(struct snib__zoo *z, snib_instant now,
                       struct zoo_step *k)
{
    snib__buf_clear(k->r->said.result); /* it may be asked for again */
    snib__buf_clear(&k->names);
    k->r->said.valid_from = now;
    k->r->said.left = (snib_duration){0};
    snib__zoo_sync(z, now, k, look_synced);
}

const struct zoo_work snib__zoo_look_work = {.begin = look_begin};
