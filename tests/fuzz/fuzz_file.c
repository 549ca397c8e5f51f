/* A mapped lock file in which another program has written: any bytes in its head,
 * its slots, its roots and its blocks. Two clients of the store ask for
 * everything, and one opens it anew, also behind another boot: each call returns
 * and says what it means, nothing outside the file is touched, and nobody is
 * given what the other was given just before. */
#include "fuzz.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "store/file/internal.h"

enum { CALLS_MAX = 40, CLIENTS = 2 };

static struct {
    const uint8_t *p, *end;
} dice;

static uint32_t roll(void)
{
    return dice.p < dice.end ? *dice.p++ : 0;
}

static char dir[40], path[64];
static struct snib__host host;
static struct snib__file *client[CLIENTS];
static uint64_t ids;

static const char *const names[] = {"a", "b", "c", "d"};
static const struct snib__file_shape shape = {
    .slots = 4, .roots = 2, .value_roots = 1}; /* names meet in a bucket */

/* -- asking ----------------------------------------------------------------------- */

static struct snib__name name_of(uint32_t i)
{
    const char *text = names[i % 4];
    return (struct snib__name){.raw = text,
                               .safe = text,
                               .raw_size = 1,
                               .safe_size = 1,
                               .hash = (uint64_t)text[0] * 1099511628211u};
}

static struct snib__request request(snib__verb verb,
                                    const struct snib__name *name)
{
    static struct snib_error error;
    error = (struct snib_error){0};
    return (struct snib__request){
        .name = name,
        .id = {++ids, 77},
        .verb = verb,
        .acquire.permits = 1,
        .lease = snib__ms(60000),
        .limit = SNIB__NEVER,
        .exec.patience = SNIB__NEVER,
        .text = "host=h&pid=1&program=f",
        .text_size = 22,
        .said.reterr = &error,
    };
}

static snib__answer ask(struct snib__file *who, struct snib__request *r)
{
    struct snib__list chain;
    const struct snib_error *e = r->said.reterr;
    snib__list_init(&chain);
    snib__link_init(&r->link);
    snib__list_push(&chain, &r->link);
    snib__file_ops.exec(who, (snib_instant){0}, &chain);
    MUST(snib__list_pop(&chain) == &r->link);
    MUST(r->said.answer != SNIB__PENDING && r->said.answer != SNIB__UNKNOWN);
    MUST(memchr(e->text, 0, sizeof e->text));
    if (r->said.answer == SNIB__NOT_APPLIED) {
        MUST(r->said.err && (e->text[0] || snib_err_text(r->said.err)[0]));
    }
    return r->said.answer;
}

static struct snib__request ask_for(uint32_t who, snib__verb verb,
                                    const struct snib__name *name)
{
    struct snib__request r = request(verb, name);
    r.acquire.may_queue = true;
    ask(client[who], &r);
    return r;
}

static void listen(uint32_t who)
{
    uint64_t told[8][2];
    uint32_t value;
    (void)snib__file_ops.notifier_word(client[who], &value);
    (void)snib__file_ops.notified(client[who], told, 8);
}

/* Whoever was given it has it: the other is refused, and after the release the
 * token is higher. No stranger writes meanwhile. */
static void take(uint32_t one, const struct snib__name *name)
{
    struct snib__request a = request(SNIB__ACQUIRE, name);
    if (ask(client[one], &a) != SNIB__DONE) {
        return;
    }
    MUST(snib__is_token(a.token) && a.token > 0);
    struct snib__request b = request(SNIB__ACQUIRE, name);
    MUST(ask(client[!one], &b) != SNIB__DONE);
    struct snib__request r = a;
    r.verb = SNIB__RELEASE;
    r.said.answer = SNIB__PENDING;
    /* The file's size, of which a stranger has lied, is looked at now and then. */
    MUST(ask(client[one], &r) == SNIB__DONE || client[one]->map.cut);
    struct snib__request c = request(SNIB__ACQUIRE, name);
    if (ask(client[!one], &c) == SNIB__DONE) {
        MUST(c.token > a.token);
    }
}

static void change(uint32_t who, const struct snib__name *name)
{
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_WRITE,
                                      SNIB_KIND_READ, SNIB_KIND_PERMITS,
                                      SNIB_KIND_BARRIER};
    static const snib__verb verbs[] = {
        SNIB__ACQUIRE, SNIB__ACQUIRE,   SNIB__RENEW,       SNIB__RELEASE,
        SNIB__CANCEL,  SNIB__FORCE,     SNIB__PARAMS,      SNIB__VALUE_GET,
        SNIB__INSPECT, SNIB__VALUE_PUT, SNIB__VALUE_DELETE};
    struct snib__request r = request(verbs[roll() % 11], name);
    struct snib__buf out;
    uint32_t how = roll();
    snib__buf_init(&out, 1 << 24);
    r.said.result = &out;
    r.id[0] = how & 1 ? 1 + roll() % 8 : r.id[0]; /* an honest one's */
    r.acquire.kind = kinds[roll() % 5];
    r.acquire.capacity = r.acquire.kind == SNIB_KIND_PERMITS ? 3 : 0;
    r.acquire.permits = r.acquire.kind == SNIB_KIND_BARRIER ? 2 : 1;
    r.acquire.may_queue = how & 2;
    r.resent = how & 4;
    r.token = how & 8 ? 1 + roll() : 0;
    r.params.op = roll() % 7;
    r.params.amount = (int64_t)roll() - 128;
    ask(client[who], &r);
    snib__buf_free(&out);
}

static void look(uint32_t who, snib__verb verb, const struct snib__name *name)
{
    struct snib__request r = request(verb, name);
    struct snib__buf out;
    snib__buf_init(&out, 1 << 24);
    r.said.result = &out;
    r.text = "*";
    r.text_size = 1;
    ask(client[who], &r);
    snib__buf_free(&out);
}

/* -- the stranger ------------------------------------------------------------------- */

static uint64_t odd_number(void)
{
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       7,
                                       63,
                                       64,
                                       512,
                                       4096,
                                       INT64_MAX,
                                       1u << 31,
                                       UINT64_MAX,
                                       UINT32_MAX,
                                       (uint64_t)1 << 32,
                                       (uint64_t)1 << 53,
                                       (uint64_t)1 << 62,
                                       INT64_MAX - 1};
    uint32_t what = roll();
    uint64_t few = roll() << 8 | roll();
    return what & 1   ? numbers[what >> 1 & 15]
           : what & 2 ? few
           : what & 4 ? few << 32 | few
                      : few * SNIB__FILE_LEAST / SNIB__FILE_UNIT;
}

static void overwrite(uint8_t *at, size_t size)
{
    uint64_t number = odd_number();
    size_t width = (size_t)1 << (roll() & 3);
    if (width <= size) {
        memcpy(at, &number, width);
    }
}

/* Somewhere in a block that a root names, or in any block. */
static void overwrite_block(const struct snib__map *m)
{
    uint64_t size = snib__file_load(&m->head->size), from, at;
    uint32_t which = roll();
    const snib__file_word *root = which & 1 ? m->roots : m->value_roots;
    from = (uint32_t)root[which & 2 && root == m->roots];
    if (which & 4) {
        from = m->first + roll() * 8;
    }
    at = from * SNIB__FILE_UNIT + (roll() | (roll() & 1) << 8) * 4;
    struct stat st;
    if (!fstat(m->fd, &st) && at + 8 <= size &&
        at + 8 <= (uint64_t)st.st_size) {
        overwrite(m->base + at, 8);
    }
}

static void be_hostile(void)
{
    const struct snib__map *m = &client[0]->map;
    uint32_t what = roll();
    switch (what % 8) {
    case 0: /* the changing part of the head */
        overwrite((uint8_t *)&m->head->size +
                      (what >> 3) * 8 % (sizeof *m->head - 192),
                  8);
        break;
    case 1: /* any of it */
        overwrite(m->base + (roll() << 2) % SNIB__FILE_HEAD, 8);
        break;
    case 2:
        overwrite((uint8_t *)m->slots + roll() * 4 % (4 * sizeof *m->slots), 8);
        break;
    case 3:
        overwrite((uint8_t *)&m->roots[what >> 3 & 1], 8);
        break;
    case 4:
        overwrite((uint8_t *)&m->value_roots[0], 8);
        break;
    default:
        overwrite_block(m);
    }
}

/* -- clients ------------------------------------------------------------------------ */

static struct snib__file *open_client(uint64_t number)
{
    struct snib__url url = {.path = path};
    struct snib__store_config config = {
        .url = &url, .request = snib__ms(100), .client = {number, 9}};
    struct snib_error e = {0};
    void *inst;
    snib_err err = snib__file_open_on(&config, &host, &shape, &inst, &e);
    MUST(err == e.code && memchr(e.text, 0, sizeof e.text));
    MUST(!err == (inst != NULL) && (!err || e.text[0]));
    return inst;
}

static void close_all(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        snib__file_ops.free(client[i]);
        client[i] = NULL;
    }
}

/* Holders, waiters, params and values; what is asked for later finds them. */
static void begin(void)
{
    close_all();
    unlink(path);
    ids = 0;
    snib__host_read(&host);
    for (int i = 0; i < CLIENTS; i++) {
        client[i] = open_client(64 * ids + 1 + (uint64_t)i);
        MUST(client[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        struct snib__name n = name_of(i);
        ask_for(0, SNIB__ACQUIRE, &n);
        ask_for(1, SNIB__ACQUIRE, &n);
        ask_for(0, SNIB__VALUE_PUT, &n);
        ask_for(1, SNIB__VALUE_PUT, &n);
    }
}

/* The file is opened anew, by one who is alone in it. False: it is refused. */
static bool begin_anew(bool boot)
{
    close_all();
    if (boot) {
        host.boot[0] = host.boot[0] == 'x' ? 'y' : 'x';
    }
    for (int i = 0; i < CLIENTS; i++) {
        client[i] = open_client(64 * ++ids + 1);
        if (!client[i]) {
            return false;
        }
    }
    return true;
}

static void remove_dir(void)
{
    close_all();
    unlink(path);
    rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char length[] = "-max_len=400", at_once[] = "-len_control=0";
    want_option(argc, argv, length);
    want_option(argc, argv, at_once);
    snprintf(dir, sizeof dir, "/dev/shm/snib-file-XXXXXX");
    if (!mkdtemp(dir)) {
        snprintf(dir, sizeof dir, "/tmp/snib-file-XXXXXX");
        MUST(mkdtemp(dir));
    }
    snprintf(path, sizeof path, "%s/locks", dir);
    atexit(remove_dir);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dice.p = data;
    dice.end = data + size;
    begin();
    bool open = true;
    for (int n = 0; n < CALLS_MAX && dice.p < dice.end && open; n++) {
        uint32_t what = roll();
        struct snib__name name = name_of(what >> 4);
        uint32_t who = what >> 6 & 1;
        switch (what % 8) {
        case 0:
        case 1:
        case 2:
            for (uint32_t i = 1 + (what >> 3) % 8; i; i--) {
                be_hostile();
            }
            break;
        case 3:
            take(who, &name);
            break;
        case 4:
        case 5:
            change(who, &name);
            listen(!who);
            break;
        case 6:
            look(who,
                 what & 8    ? SNIB__DOCTOR
                 : what & 16 ? SNIB__LIST
                             : SNIB__INSPECT,
                 &name);
            break;
        default:
            open = begin_anew(what & 8);
        }
    }
    return 0;
}
