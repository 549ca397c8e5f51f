/* sim/redis_seen.c — what the Redis model has executed, in the words of
 * sim/seen.h.
 *
 * This and redis_packets.c (of free mutexes, which are taken without a script)
 * are the only places of the simulator that know the scripts' arguments and
 * replies. A script is recognised by how many arguments the event has: EVALSHA,
 * the script, the number of keys, the keys, then those at the head of the .lua
 * file. A message is said before the script that publishes it.
 *
 * A batch (several.lua) is said as what it does to each of its locks, as if
 * acquire.lua had been asked for each. A grant that the script gave and took
 * back is said as an acquire that was not granted. */
#include <stdlib.h>
#include <string.h>

#include "sim/redis_reply.h"
#include "sim/same.h"

enum { KEYS = 7, ARG_KEY = HEAD };

/* What acquire.lua and several.lua answer. */
enum {
    CODE_FAILED,
    CODE_GRANTED,
    CODE_QUEUED,
    CODE_HELD,
    CODE_LATE,
    CODE_CANCELLED,
    CODE_OVER = 10
};

/* How many arguments events have. */
enum {
    GET_ARGS = HEAD + 1,
    PUT_ARGS = HEAD + 2 + 8,
    INSPECT_KEYS = 6, /* without the mark, as KEYS is */
    KEEP_KEYS = 8,
    INSPECT_ARGS = 2, /* behind the keys, from here on */
    KEEP_ARGS = 9,
    ACQUIRE_ARGS = 16,
    RELEASE_ARGS = 5,
    CANCEL_ARGS = 4,
    PARAMS_ARGS = 5,
    FORCE_ARGS = 1
};

const char *const sim_names[SIM_NAMES] = {"stock", "a}b{c", "%7B", "d"};

const char *const sim_keys[SIM_NAMES] = {"snib:{stock}", "snib:{a%7Db%7Bc}",
                                         "snib:{%257B}", "snib:{d}"};

/* -- requests for one lock ------------------------------------------------- */

/* v: the arguments behind the keys. */
static void acquire(struct sim_seen *s, const struct sim_redis_arg *v,
                    struct reply r)
{
    static const enum sim_said said[] = {SIM_SAID_FAILED, SIM_SAID_GRANTED,
                                         SIM_SAID_QUEUED, SIM_SAID_HELD,
                                         SIM_SAID_LATE,   SIM_SAID_ENDED};
    int64_t code = number_at(r, 0);
    s->deed = SIM_DID_ACQUIRE;
    copy_id(s->client, v[0].ptr);
    copy_id(s->request, v[1].ptr);
    s->prior = number(&v[8]);
    s->class = (int)number(&v[15]);
    if (!is_array(r)) {
        return;
    }
    s->said = code == CODE_OVER        ? SIM_SAID_OVER
              : code <= CODE_CANCELLED ? said[code]
                                       : SIM_SAID_NO;
    s->given = code == CODE_GRANTED ? number_at(r, 2) : 0;
    s->left_ms = code == CODE_HELD ? number_at(r, 2) : 0;
}

static void release(struct sim_seen *s, const struct sim_redis_arg *v,
                    struct reply r)
{
    int64_t code = number_at(r, 0);
    s->deed = SIM_DID_RELEASE;
    copy_id(s->client, v[0].ptr);
    copy_id(s->request, v[1].ptr);
    s->token = number(&v[2]);
    s->resent = v[3].ptr[0] == '1';
    if (is_array(r)) {
        s->said = code == 1   ? SIM_SAID_ENDED
                  : code == 2 ? SIM_SAID_REVOKED
                              : SIM_SAID_NO;
    }
}

static void cancel(struct sim_seen *s, const struct sim_redis_arg *v,
                   struct reply r)
{
    s->deed = SIM_DID_CANCEL;
    copy_id(s->client, v[0].ptr);
    copy_id(s->request, v[1].ptr);
    s->prior = number(&v[2]);
    if (is_array(r)) {
        s->said = number_at(r, 0) == 2 ? SIM_SAID_ENDED : SIM_SAID_DONE;
    }
}

static void params(struct sim_seen *s, const struct sim_redis_arg *v,
                   struct reply r)
{
    s->deed = SIM_DID_PARAMS;
    copy_id(s->client, v[0].ptr);
    copy_id(s->request, v[1].ptr);
    s->said = is_array(r) ? SIM_SAID_DONE : SIM_SAID_ERROR;
}

static void force(struct sim_seen *s, struct reply r)
{
    s->deed = SIM_DID_FORCE;
    s->said = is_array(r) ? SIM_SAID_DONE : SIM_SAID_ERROR;
    s->count = number_at(r, 0);
}

/* A renewal of one lock of many: a code, or a text. */
static void renew(struct sim_seen *s, const struct sim_redis_arg *client,
                  const struct sim_redis_arg *v, struct reply r)
{
    const char *text = next_line(r);
    s->deed = SIM_DID_RENEW;
    copy_id(s->client, client->ptr);
    copy_id(s->request, v[0].ptr);
    s->token = number(&v[1]);
    s->lease_ms = number(&v[2]);
    if (r.at < r.end && *r.at == ':') {
        s->said = strtol(r.at + 1, NULL, 10) ? SIM_SAID_DONE : SIM_SAID_NO;
    } else if (r.at < r.end && *r.at == '$' && r.end - text > 8 &&
               !memcmp(text, "REVOKED ", 8)) {
        s->said = SIM_SAID_REVOKED;
    }
}

/* EVALSHA script 2n (holders, forced releases)… client (request, token,
 * lease)… */
static bool renewals(const struct sim_world *w,
                     const struct sim_redis_event *ev, struct reply r,
                     struct sim_act *a)
{
    int keys = atoi(ev->argv[2].ptr), first = HEAD + keys + 1;
    if (keys < 2 || keys % 2 || ev->argc != first + keys / 2 * 3) {
        return false;
    }
    bool any = is_array(r) && ev->reply_len >= 4;
    r.at = next_line(r);
    r.at = skip(r); /* now */
    for (int i = 0; i < keys / 2; i++) {
        struct sim_seen *s = &a->part[a->count++];
        *s = (struct sim_seen){.name =
                                   name_of(w, ev->argv[HEAD + 2 * i].ptr, ""),
                               .conn = ev->conn,
                               .at = w->t};
        renew(s, &ev->argv[first - 1], &ev->argv[first + 3 * i],
              any ? r : (struct reply){0});
        r.at = skip(r);
    }
    a->everywhere = true;
    return true;
}

/* -- several locks as one -------------------------------------------------- */

static int several_of(const struct sim_redis_event *ev)
{
    int keys = atoi(ev->argv[2].ptr), own = keys - marks(ev, keys);
    int n = own / KEYS;
    bool ok = own > 0 && own % KEYS == 0 && n >= 2 && n <= SIM_BATCH &&
              behind(ev, keys) == 1 + n * ACQUIRE_ARGS;
    return ok ? n : 0;
}

static bool several(const struct sim_world *w, const struct sim_redis_event *ev,
                    struct reply r, struct sim_act *a)
{
    int n = w->opt.many_pct ? several_of(ev) : 0;
    if (!n || !is_array(r)) { /* an error: nothing was done */
        return false;
    }
    int keys = atoi(ev->argv[2].ptr);
    a->several = true;
    a->all = ev->argv[HEAD + keys].ptr[0] == '1';
    r.at = next_line(r);
    for (int k = 0; k < n; k++) {
        struct sim_seen *s = &a->part[a->count++];
        const char *next = skip(r);
        *s = (struct sim_seen){
            .name = name_of(w, ev->argv[HEAD + k * KEYS].ptr, ""),
            .conn = ev->conn,
            .at = w->t};
        acquire(s, ev->argv + HEAD + keys + 1 + k * ACQUIRE_ARGS,
                (struct reply){r.at, next});
        if (a->missed < 0 && s->said != SIM_SAID_GRANTED &&
            s->said != SIM_SAID_OVER) {
            a->missed = k;
        }
        r.at = next;
    }
    return true;
}

/* -- which script is it ---------------------------------------------------- */

/* The script of one request for one lock. */
static bool of_one_lock(const struct sim_redis_event *ev, struct reply r,
                        struct sim_seen *s)
{
    int keys = atoi(ev->argv[2].ptr), own = keys - marks(ev, keys);
    const struct sim_redis_arg *v = ev->argv + HEAD + keys;
    if (own == KEYS + 1 && behind(ev, keys) == RELEASE_ARGS) {
        release(s, v, r); /* with a tombstone. (No renewal: 3 + 8 + 13.) */
        return true;
    }
    if (own != KEYS) { /* a renewal has an even number of keys */
        return false;
    }
    _Static_assert((int)RELEASE_ARGS == (int)PARAMS_ARGS, "told apart below");
    switch (behind(ev, keys)) {
    case ACQUIRE_ARGS:
        acquire(s, v, r);
        return true;
    case RELEASE_ARGS: /* the third argument is a token, or a word */
        (v[2].ptr[0] <= '9' ? release : params)(s, v, r);
        return true;
    case CANCEL_ARGS:
        cancel(s, v, r);
        return true;
    case FORCE_ARGS:
        force(s, r);
        return true;
    default:
        return false;
    }
}

/* A read or a change of a value: the reply is {version, bytes}, or {code, now,
 * version}. */
static bool of_a_value(const struct sim_world *w,
                       const struct sim_redis_event *ev, struct reply r,
                       struct sim_seen *s)
{
    static const enum sim_said said[] = {SIM_SAID_NO,    SIM_SAID_DONE,
                                         SIM_SAID_ERROR, SIM_SAID_ERROR,
                                         SIM_SAID_LATE,  SIM_SAID_FORGOTTEN};
    int name = ev->argc > HEAD ? name_of(w, ev->argv[ARG_KEY].ptr, ":v") : -1;
    bool put = ev->argc == PUT_ARGS;
    if (name < 0 || (!put && ev->argc != GET_ARGS)) {
        return false;
    }
    s->name = name;
    s->deed = put ? SIM_DID_VALUE_PUT : SIM_DID_VALUE_GET;
    int64_t code = number_at(r, 0);
    if (put) {
        copy_id(s->request, ev->argv[HEAD + 2].ptr);
        s->resent = strcmp(ev->argv[HEAD + 5].ptr, "1") == 0;
        s->said =
            is_array(r) && code >= 0 && code <= 5 ? said[code] : SIM_SAID_ERROR;
        s->given = number_at(r, 2);
    } else if (is_array(r)) {
        s->said = SIM_SAID_DONE;
        s->given = code;
    }
    return true;
}

static void of_a_script(const struct sim_world *w,
                        const struct sim_redis_event *ev, struct sim_act *a)
{
    struct reply r = {ev->reply, (const char *)ev->reply + ev->reply_len};
    if (ev->argc < HEAD || several(w, ev, r, a)) {
        return;
    }
    struct sim_seen *s = &a->part[0];
    *s = (struct sim_seen){.name = -1, .conn = ev->conn, .at = w->t};
    if (of_one_lock(ev, r, s)) {
        a->count = 1;
        s->name = name_of(w, ev->argv[ARG_KEY].ptr, "");
        return;
    }
    if (sim_redis_drops(w, ev, r, a)) {
        return;
    }
    a->everywhere = true;
    int keys = atoi(ev->argv[2].ptr);
    int own = keys - marks(ev, keys), args = behind(ev, keys);
    if (own == KEEP_KEYS && args == KEEP_ARGS) {
        s->deed = SIM_DID_KEEP;
        copy_id(s->client, ev->argv[HEAD + keys].ptr);
        copy_id(s->request, ev->argv[HEAD + keys + 1].ptr);
    } else if (own == INSPECT_KEYS && args == INSPECT_ARGS) {
        s->deed = SIM_DID_INSPECT;
        s->name = name_of(w, ev->argv[ARG_KEY].ptr, "");
    } else if (!of_a_value(w, ev, r, s) && renewals(w, ev, r, a)) {
        return;
    }
    a->count = 1;
}

/* "g <request> <token> … <holders key>", on channel "snib:<client>…" */
static bool of_a_message(const struct sim_world *w,
                         const struct sim_redis_event *ev, struct sim_seen *s)
{
    if (!ev->in_script || strcmp(ev->name, "publish") || ev->argc != 3 ||
        strncmp(ev->argv[2].ptr, "g ", 2) || ev->argv[2].len <= 36) {
        return false;
    }
    const char *text = ev->argv[2].ptr, *key = strstr(text, "snib:{");
    *s = (struct sim_seen){.deed = SIM_DID_TELL,
                           .said = SIM_SAID_GRANTED,
                           .name = key ? name_of(w, key, "") : -1,
                           .conn = ev->conn,
                           .at = w->t,
                           .given = strtoll(text + 35, NULL, 10)};
    copy_id(s->client, ev->argv[1].ptr + 5);
    copy_id(s->request, text + 2);
    return true;
}

/* A scan of all keys lists the locks. */
static bool of_a_scan(const struct sim_world *w,
                      const struct sim_redis_event *ev, struct sim_seen *s)
{
    if (strcmp(ev->name, "scan")) {
        return false;
    }
    bool begins = strcmp(ev->argv[1].ptr, "0") == 0;
    *s = (struct sim_seen){.deed = begins ? SIM_DID_LIST : SIM_DID_LIST_ON,
                           .said = SIM_SAID_DONE,
                           .name = -1,
                           .conn = ev->conn,
                           .at = w->t};
    return true;
}

/* A script as a line of the timeline: whose it is, for which request, its
 * answer. */
static void note(struct sim_world *w, int node,
                 const struct sim_redis_event *ev, const struct sim_seen *s)
{
    char reply[72];
    size_t n = 0;
    const char *r = ev->reply;
    if (!ev->script) {
        if (strcmp(ev->name, "publish") == 0) {
            sim_note(w, "    server: publish %.60s", ev->argv[2].ptr);
        }
        return;
    }
    for (size_t i = 0; i < ev->reply_len && n + 1 < sizeof reply; i++) {
        if (r[i] != '\r') {
            reply[n++] = r[i] == '\n' ? ' ' : r[i];
        }
    }
    reply[n] = 0;
    sim_note(w,
             "    server%.*d: %s of %d args, %s, client %.6s request %.6s: %s",
             w->nodes > 1, node, ev->name, ev->argc,
             ev->argc > 3 ? ev->argv[3].ptr : "", s->client, s->request, reply);
}

/* An id that the mark gives, and a tombstone that is written. */
static void of_the_mark(struct sim_world *w, const struct sim_redis_event *ev)
{
    const char *id = ev->reply;
    if (!strcmp(ev->name, "xadd") && ev->reply_len > 1 && id[0] == '$' &&
        id[1] != '-' && !strcmp(ev->argv[1].ptr, "snib:m")) {
        id = memchr(id, '\n', ev->reply_len);
        theorem_mark_is_near(w, strtoll(id + 1, NULL, 10), ev->wall_us / 1000);
    } else if (ev->in_script && !strcmp(ev->name, "set") && ev->argc == 5 &&
               strstr(ev->argv[1].ptr, "}:x:")) {
        theorem_tombstones_end(w, number(&ev->argv[4]));
    }
}

void sim_redis_watch(void *user, const struct sim_redis_event *ev)
{
    static _Thread_local struct sim_act act;
    struct sim_server *server = user;
    struct sim_world *w = server->world;
    act.node = (int)(server - w->node);
    act.everywhere = act.several = act.all = false;
    act.missed = -1;
    act.count = 0;
    act.part[0] = (struct sim_seen){.name = -1};
    sim_same_step(w, act.node, ev);
    if (sim_failover(w) && act.node) {
        if (w->trace && ev->script) {
            note(w, act.node, ev, &act.part[0]);
        }
        return; /* the old primary: nobody should ask it */
    }
    of_the_mark(w, ev);
    sim_recovery_look(w);
    if (ev->script) {
        of_a_script(w, ev, &act);
        sim_watch(w, &act);
    } else if (sim_redis_packet(w, ev, &server->packet)) {
        /* nothing is known of it yet */
    } else if (!strcmp(ev->name, "exec")) {
        sim_redis_exec(w, ev, &server->packet, &act);
    } else if (of_a_message(w, ev, &act.part[0]) ||
               of_a_scan(w, ev, &act.part[0])) {
        act.count = 1;
        sim_watch(w, &act);
    }
    if (w->trace) {
        note(w, act.node, ev, &act.part[0]);
    }
}
