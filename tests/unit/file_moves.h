/* tests/unit/file_moves.h — the clients of unit.file_same come, hear and fork; the
 * host is booted anew, with or without what was on its way to the disk. See
 * file_world.h. */
#ifndef SNIB_TESTS_FILE_MOVES_H
#define SNIB_TESTS_FILE_MOVES_H

#include "file_clients.h"

static const char *main_path; /* as most ask for it                         */
static const char *real_path; /* where that is                              */
static struct snib__file_shape shape;
static int64_t skew_ns; /* of all clients' leases                           */

/* -- coming ------------------------------------------------------------------------ */

static const char *some_path(void)
{
    static char far[3][PATH_MAX + 8];
    static const char *const paths[] = {
        "/v/locks", "/l/locks", "/v/other", "/v/",  "/v/.",
        "/v/..",    "/none/x",  "locks",    "/top", ".",
        "..",       "/u/locks", "./locks",  "/v"};
    static const int lengths[] = {251, 252, PATH_MAX};
    size_t i = pick("path", COUNT_OF(paths) + 3);
    if (i >= COUNT_OF(paths)) {
        i -= COUNT_OF(paths);
        snprintf(far[i], sizeof far[i], "/v/%0*d", 4 + lengths[i], 7);
        return far[i];
    }
    return paths[i];
}

static struct snib__host some_host(const struct process *p)
{
    static const uint32_t magics[] = {0xef53, 0x6969,     0x65735546,
                                      0x9fa0, 0x01021994, 0x12345678};
    struct snib__host h = {.proc = true, .pid = p->pid, .skew_ns = skew_ns};
    snprintf(h.boot, sizeof h.boot, "%s",
             chance("no boot id", 60)      ? ""
             : chance("other boot id", 16) ? "b007z"
                                           : w.boot);
    h.timens = chance("time namespace", 60);
    h.start = chance("no start", 8) ? (int64_t)pick("start", 2) - 1 : p->start;
    h.pidns = chance("no pid namespace", 10)      ? 0
              : chance("other pid namespace", 10) ? 78
                                                  : w.pidns;
    h.fs_magic = chance("magic", 25) ? magics[pick("magic", 6)] : 0;
    h.wall_skew_ms = chance("wall skew", 10) ? -90000 : 0;
    return h;
}

struct coming {
    struct snib__store_config config;
    struct snib__host host;
    struct snib__file_shape shape;
    bool reads; /* the host, as it is shipped                               */
    void *inst;
    struct snib_error e, *reterr;
    snib_err err;
};

static void come_in(void *data)
{
    struct coming *c = data;
    c->err = c->reads ? snib__file_ops.open(&c->config, &c->inst, c->reterr)
                      : snib__file_open_on(&c->config, &c->host, &c->shape,
                                           &c->inst, c->reterr);
}

static void draw_url(struct snib__url *url)
{
    static char host[] = "h", key[] = "k";
    url->path =
        (char *)(uintptr_t)(chance("elsewhere", 9) ? some_path() : main_path);
    url->host = chance("a host", 60) ? host : NULL;
    url->user = chance("a user", 60) ? host : NULL;
    url->queries = chance("queries", 60);
    url->query[0].key = key;
}

static void draw_shape(struct snib__file_shape *ret)
{
    static const struct snib__file_shape shapes[] = {
        {16, 4, 2}, {2, 1, 1}, {3, 2, 1}, {70, 512, 4}, {1, 1, 2}, {16, 2, 16}};
    *ret = shapes[pick("shape", COUNT_OF(shapes))];
}

static void tell_instance(const struct snib__file *f)
{
    struct snib__server server = {0};
    snib__file_ops.server((void *)(uintptr_t)f, &server);
    tell("at %s, given %s, on %s, %s, %s", f->place.path,
         f->place.given ? f->place.given : "(as it is)", f->place.fs,
         f->host.boot, server.version);
    assert_true(f->client[0] || f->client[1]);
}

static void client_comes(void)
{
    int i = (int)pick("comes", CLIENTS);
    struct client *c = &clients[i];
    struct snib__url url = {0};
    struct coming in = {.config.url = &url, .config.out = &c->out};
    struct visit v;
    if (c->inst || c->inside || w.process_count == PROCESSES) {
        return;
    }
    draw_id(c->id);
    c->id[0] = 64 * c->id[0] + (chance("cleans", 8) ? 0 : 7);
    c->process = process_new();
    draw_url(&url);
    in.config.request = snib__ms(chance("patient", 3) ? 9000 : 300);
    memcpy(in.config.client, c->id, sizeof c->id);
    in.host = some_host(c->process);
    in.shape = shape;
    if (chance("another shape", 9)) {
        draw_shape(&in.shape);
    }
    in.reads = chance("reads the host", 60);
    in.reterr = chance("no words", 20) ? NULL : &in.e;
    tell("client %d comes to %s", i, url.path ? url.path : "(none)");
    if (lacks_memory()) {
        snib__mem_fail_at(1 + (int64_t)pick("allocation", 8), false);
    }
    errno = 0;
    visit_begin(&v, i);
    bool whole = survives(&v, come_in, &in);
    visit_end(&v);
    snib__mem_fail_at(0, false);
    if (!whole) {
        client_dies(i);
        return;
    }
    assert_true((in.err == SNIB_ERR_OK) == (in.inst != NULL));
    c->inst = in.inst;
    tell("open: %d %d %s", (int)in.err, (int)in.e.code, in.e.text);
    if (c->inst) {
        tell_instance(c->inst);
    }
}

static void go_and_come(void)
{
    if (chance("all go", 3)) {
        for (int i = 0; i < CLIENTS; i++) {
            client_goes(i);
        }
    } else {
        client_goes((int)pick("goer", CLIENTS));
    }
    client_comes();
}

/* A child of all of them, which leaves what is its parents'. */
static void process_forks(void)
{
    tell("forks");
    w.child = true;
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i].inst && clients[i].inst->host.pid == pid_of(i)) {
            FD(clients[i].inst->place.fd).node->stranger = LOCK_SH;
            for (int k = 0; k < THREADS; k++) {
                if (threads[k].state != NONE && threads[k].who == i) {
                    thread_forget(&threads[k]);
                }
            }
            client_goes(i);
        }
    }
    w.child = false;
}

/* -- hearing -------------------------------------------------------------------------- */

static int any_client_with(bool ear)
{
    int first = (int)pick("hears", CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        int k = (first + i) % CLIENTS;
        if (client_is_open(k) &&
            (!ear || snib__file_ops.notifier_fd(clients[k].inst) >= 0)) {
            return k;
        }
    }
    return NOBODY;
}

/* A thread polls the descriptor from now on, or a call goes to sleep. */
static void hear_on(int client)
{
    struct sleeper *s = &sleepers[client];
    switch (pick("hears on", 4)) {
    case 0:
        snib__file_ops.notifier_polled(clients[client].inst);
        break;
    case 1:
        s->word = snib__file_ops.notifier_word(clients[client].inst, &s->value);
        s->woken = s->word && *s->word != s->value;
        tell("client %d sleeps, %d %d", client, s->word != NULL, s->woken);
        break;
    default:
        break;
    }
}

static void hear(void)
{
    static const uint32_t rooms[] = {0, 1, 2, 16, 16};
    uint64_t ids[16][2];
    struct visit v;
    int i = any_client_with(!chance("has none", 6));
    if (i == NOBODY) {
        return;
    }
    if (chance("threads run first", 2)) {
        threads_run();
    }
    uint32_t most = rooms[pick("room", COUNT_OF(rooms))];
    bool kills = deadly;
    deadly = false;
    sleeper_wakes(i);
    visit_begin(&v, i);
    int fd = snib__file_ops.notifier_fd(clients[i].inst);
    uint32_t n = snib__file_ops.notified(clients[i].inst, ids, most);
    hear_on(i);
    visit_end(&v);
    deadly = kills;
    tell("client %d hears %d at %s", i, (int)n, fd_text(fd));
    assert_true(n == UINT32_MAX || n <= most);
    same_stir((const char *)ids, n <= most ? n * sizeof *ids : 0);
}

/* -- time --------------------------------------------------------------------------------- */

static void time_passes(void)
{
    static const int64_t ms[] = {1, 10, 400, 1000, 3000, 9000, 61000, 400000};
    w.now += ms[pick("passes", COUNT_OF(ms))] * MS;
    if (chance("clock is set", 6)) {
        static const int64_t days[] = {-2, 2, 40, 1, -1};
        w.wall_ms += days[pick("days", COUNT_OF(days))] * INT64_C(86400000);
    } else if (chance("clock is mad", 60)) { /* beyond what tokens can be */
        w.wall_ms = w.wall_ms > INT64_C(8000000000000) ? INT64_C(1790000000000)
                                                       : INT64_C(9000000000000);
    }
}

/* Each sector of the file is as it was at the last fdatasync, or later. */
static void power_fails(struct node *n)
{
    enum { SECTOR = 512 };
    uint64_t rate = 2 + pick("sectors", 4);
    tell("the power fails");
    w.damaged = true; /* far tokens may never have reached the disk         */
    for (uint64_t at = 0; at < n->size; at += SECTOR) {
        if (at >= n->disk_size) {
            if (chance("new sector", rate)) {
                memset(n->bytes + at, 0, SECTOR);
            }
        } else if (memcmp(n->bytes + at, n->disk + at, SECTOR) != 0 &&
                   chance("sector", rate)) {
            memcpy(n->bytes + at, n->disk + at, SECTOR);
        }
    }
    if (chance("is shorter", 6) && n->disk_size) {
        node_cut(n, n->disk_size);
    }
}

static void boot_anew(void)
{
    struct node *n = node_at(real_path);
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i].inst && chance("in order", 3)) {
            client_goes(i);
        } else if (clients[i].inst) {
            client_dies(i);
        }
    }
    for (int i = 0; i < w.node_count; i++) {
        w.nodes[i].stranger = 0;
    }
    for (int i = 0; i < w.process_count; i++) {
        w.processes[i].ended = w.processes[i].gone = true;
    }
    if (n && n->memory >= 0 && chance("power", 2)) {
        power_fails(n);
    }
    if (n && n->memory >= 0) {
        node_sync(n);
    }
    w.wall_ms += w.now / MS;
    w.now = 40 * S;
    snprintf(w.boot, sizeof w.boot, "b007-%d", (int)pick("boot id", 100000));
    tell("boots anew");
}

#endif
