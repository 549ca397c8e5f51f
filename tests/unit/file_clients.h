/* tests/unit/file_clients.h — the clients of unit.file_same: how one is let into
 * the file, what happens to it there, and what holds whatever was drawn. See
 * file_world.h.
 *
 * Each client is a process of its own. Before any access to the file it may
 * stand for a while, meet another one, or be killed. */
#ifndef SNIB_TESTS_FILE_CLIENTS_H
#define SNIB_TESTS_FILE_CLIENTS_H

#include "file_threads.h"

enum { CLIENTS = 5, NAMES = 12 };

/* What a run has more of than others. */
enum theme { ALL, VALUES, DAMAGE, QUEUES, FILES, ROOM, THEMES };

static enum theme theme;

#include "store_asks.h"

static struct client {
    struct snib__file *inst;
    struct snib__out out;
    uint64_t id[2];
    struct process *process;
    bool inside;
} clients[CLIENTS];

static int name_count; /* so many of the names are used                     */

static bool client_is_open(int client)
{
    return client >= 0 && clients[client].inst && !clients[client].inside;
}

static int some_name(void)
{
    return (int)pick("name", (uint64_t)name_count);
}

static bool may_be_pending(const struct snib__request *r)
{
    (void)r;
    return false; /* who waits for a disk or for others is told so          */
}

static int64_t pid_of(int client)
{
    return client == NOBODY || !clients[client].process
               ? SELF
               : clients[client].process->pid;
}

/* -- a visit to the file -------------------------------------------------------- */

struct visit {
    struct visit *outer; /* whom this client meets                          */
    jmp_buf back;
    int who;
    int accesses, dies_at, meets_at, stands_at; /* 0: never                 */
    int lost; /* so many of its swaps come too late                         */
    uint64_t kinds; /* of its accesses                                      */
};

static struct visit *visit; /* NULL: nobody is inside                       */
static bool deadly;         /* there are kills in this run                  */
static int deaths;          /* so many there were                           */

static void visit_begin(struct visit *v, int who)
{
    v->outer = visit;
    v->who = who;
    v->accesses = v->dies_at = v->meets_at = v->stands_at = v->lost = 0;
    v->kinds = 1;
    if (deadly && chance("dies", 20)) {
        v->dies_at = 1 + (int)pick("dies at", 70);
    }
    if (!v->outer && chance("meets", 4)) {
        v->meets_at = 1 + (int)pick("meets at", 40);
    }
    if (chance("stands", 15)) {
        v->stands_at = 1 + (int)pick("stands at", 60);
    }
    if (!v->outer && chance("is slow", 50)) {
        v->lost = 1 + (int)pick("lost", 20);
    }
    clients[who].inside = true;
    w.who = who;
    visit = v;
}

static void visit_end(struct visit *v)
{
    tell("%d accesses, %016llx", v->accesses, (unsigned long long)v->kinds);
    visit = v->outer;
    w.who = visit ? visit->who : NOBODY;
    clients[v->who].inside = false;
}

static void ask_something(void); /* one that is not inside: test_file_same.c */

static void before_access(void *data, const char *what)
{
    static const int64_t pauses[] = {MS, 500 * MS, 9 * S, 60 * S, 60 * S + 1};
    struct visit *v = visit;
    (void)data;
    if (!v || running) {
        return;
    }
    for (const char *c = what; *c; c++) {
        v->kinds = (v->kinds ^ (uint8_t)*c) * 1099511628211u;
    }
    v->accesses++;
    if (v->accesses == v->stands_at) {
        w.now += pauses[pick("pause", COUNT_OF(pauses))];
    }
    if (v->accesses == v->meets_at || (v->lost && strcmp(what, "swap") == 0)) {
        v->lost -= v->lost > 0;
        tell("before %s comes", what);
        ask_something();
    }
    if (v->accesses == v->dies_at) {
        longjmp(v->back, 1);
    }
}

/* False: it was killed. */
static bool survives(struct visit *v, void (*go)(void *), void *data)
{
    if (setjmp(v->back)) {
        return false;
    }
    go(data);
    return true;
}

/* -- the end of one ----------------------------------------------------------------- */

static void forget_mine(int client)
{
    for (int k = 0; k < MINE; k++) {
        mine[k].used = mine[k].used && mine[k].client != client;
    }
}

/* Its descriptors, mappings and threads go with the process. */
static void client_dies(int i)
{
    tell("client %d is killed", i);
    deaths++; /* what it had allocated is not freed                         */
    for (int fd = FIRST_FD; fd < FIRST_FD + FDS; fd++) {
        if (FD(fd).is != FD_CLOSED && FD(fd).who == i) {
            fd_close(fd);
        }
    }
    for (int k = 0; k < MAPPINGS; k++) {
        if (w.mappings[k].base && w.mappings[k].who == i) {
            assert_return_code(
                __real_munmap(w.mappings[k].base, w.mappings[k].size), 0);
            w.mappings[k].base = NULL;
        }
    }
    for (int k = 0; k < THREADS; k++) {
        if (threads[k].state != NONE && threads[k].who == i) {
            thread_forget(&threads[k]);
        }
    }
    sleepers[i].word = NULL;
    clients[i].inst = NULL;
    clients[i].process->ended = true;
    clients[i].process->gone = chance("reaped", 2);
    forget_mine(i);
}

struct leaving {
    struct snib__file *inst;
};

static void go_away(void *data)
{
    snib__file_ops.free(((struct leaving *)data)->inst);
}

static void client_goes(int i)
{
    struct leaving l = {clients[i].inst};
    struct visit v;
    if (!client_is_open(i)) {
        return;
    }
    tell("client %d goes", i);
    sleeper_wakes(i);
    visit_begin(&v, i);
    bool whole = survives(&v, go_away, &l);
    visit_end(&v);
    if (!whole) {
        client_dies(i);
    }
    clients[i].inst = NULL;
    forget_mine(i);
}

/* Somebody inside waits: others go on. */
static void meanwhile(void)
{
    for (int i = 0; i < w.node_count; i++) {
        if (w.nodes[i].stranger && chance("stranger goes", 3)) {
            w.nodes[i].stranger = 0;
        }
    }
    if (chance("one goes meanwhile", 6)) {
        client_goes((int)pick("goes meanwhile", CLIENTS));
    }
}

/* -- what holds whatever was drawn ------------------------------------------------------ */

static bool forced[NAMES]; /* somebody ended grants of it by force           */
enum { GRANTS = 40 };
static struct {
    int64_t highest; /* reserve included                                    */
    int count;
    struct {
        int64_t token;
        uint64_t id[2];
    } v[GRANTS]; /* the latest ones                                         */
} grants[NAMES]; /* exclusive ones, at home                                 */

/* Has it the file that most have? */
static bool is_at_home(int client)
{
    return strcmp(clients[client].inst->place.path, "/v/locks") == 0;
}

static bool excludes(const struct snib__request *r)
{
    return r->acquire.kind == SNIB_KIND_MUTEX ||
           r->acquire.kind == SNIB_KIND_WRITE;
}

/* As its owner knows, at least so long. */
static bool holds_now(const struct mine *m)
{
    return m->used && m->holds && client_is_open(m->client) &&
           is_at_home(m->client) && m->r.said.answer == SNIB__DONE &&
           m->r.said.valid_from.ns + m->r.said.left.ns >
               snib__host_lease_now(&clients[m->client].inst->host).ns;
}

/* Nobody beside an exclusive grant of another client. */
static void check_exclusion(void)
{
    for (int i = 0; i < MINE && !w.damaged; i++) {
        for (int k = 0; k < MINE; k++) {
            const struct mine *a = &mine[i], *b = &mine[k];
            if (a->name == b->name && a->client != b->client &&
                excludes(&a->r) && !forced[a->name] && holds_now(a) &&
                holds_now(b)) {
                fail_msg("clients %d and %d hold %s", a->client, b->client,
                         names[a->name].safe);
            }
        }
    }
}

static void check_token(int client, const struct snib__request *r)
{
    if (!is_at_home(client)) {
        return;
    }
    if (r->verb == SNIB__FORCE && r->said.answer != SNIB__NO) {
        forced[r->name - names] = true;
    }
    if (r->verb != SNIB__ACQUIRE || r->said.answer != SNIB__DONE ||
        !excludes(r) || w.damaged) {
        return;
    }
    size_t i = (size_t)(r->name - names);
    for (int k = 0; k < GRANTS; k++) {
        if (r->id[0] == grants[i].v[k].id[0] &&
            r->id[1] == grants[i].v[k].id[1]) {
            assert_true(r->token >= grants[i].v[k].token); /* a repeat       */
            return;
        }
    }
    int64_t last = r->token + r->acquire.reserve;
    int k = grants[i].count++ % GRANTS;
    assert_true(r->token > grants[i].highest);
    grants[i].highest = last;
    grants[i].v[k].token = r->token;
    memcpy(grants[i].v[k].id, r->id, sizeof r->id);
}

/* -- asking ---------------------------------------------------------------------------- */

struct asking {
    struct snib__file *inst;
    struct snib__list chain;
};

static void go_in(void *data)
{
    struct asking *a = data;
    snib__file_ops.exec(a->inst, (snib_instant){0}, &a->chain);
}

static void exec(int client, struct snib__request **r, int count)
{
    struct asked asked[CHAIN_MAX];
    struct asking in = {.inst = clients[client].inst};
    struct visit v;
    if (!in.inst) { /* it was killed, and others ask on                     */
        return;
    }
    snib__list_init(&in.chain);
    for (int i = 0; i < count; i++) {
        prepare(&asked[i], r[i]);
        snib__link_init(&r[i]->link);
        snib__list_push(&in.chain, &r[i]->link);
    }
    tell("client %d asks %d", client, count);
    if (lacks_memory()) {
        snib__mem_fail_at(1 + (int64_t)pick("allocation", 3),
                          chance("for ever", 3));
    }
    errno = 0;
    visit_begin(&v, client);
    bool whole = survives(&v, go_in, &in);
    visit_end(&v);
    snib__mem_fail_at(0, false);
    for (int i = 0; i < count; i++) {
        snib__unlink(&r[i]->link);
        if (whole) {
            finish(&asked[i]);
            check_token(client, r[i]);
        } else {
            r[i]->said.answer = SNIB__PENDING;
            r[i]->said.err = SNIB_ERR_OK;
            snib__buf_free(&asked[i].rows);
        }
    }
    if (!whole) {
        client_dies(client);
    }
    check_exclusion();
}

#endif
