/* tests/unit/file_strangers.h — what happens around the clients of unit.file_same:
 * others write into the file, put another in its place, change rights, take
 * slots; and crowds. See file_world.h. */
#ifndef SNIB_TESTS_FILE_STRANGERS_H
#define SNIB_TESTS_FILE_STRANGERS_H

#include "file_moves.h"

static int64_t some_number(void)
{
    static const int64_t numbers[] = {0,
                                      1,
                                      -1,
                                      2,
                                      7,
                                      8,
                                      512,
                                      1000,
                                      2001,
                                      65536,
                                      INT32_MAX,
                                      INT64_C(1) << 31,
                                      UINT32_MAX,
                                      INT64_C(1) << 32,
                                      SNIB__TOKEN_END - 33,
                                      SNIB__TOKEN_END - 32,
                                      SNIB__TOKEN_END,
                                      INT64_C(1790000000000) * 1024,
                                      INT64_MAX / 4,
                                      INT64_MAX / 4 + 1,
                                      INT64_MAX,
                                      INT64_MIN,
                                      INT64_C(0x0101010101010101)};
    return numbers[pick("number", COUNT_OF(numbers))];
}

/* The map of one who has the file open; NULL: nobody has. */
static struct snib__map *some_map(void)
{
    int i = any_client_with(false);
    return i == NOBODY ? NULL : &clients[i].inst->map;
}

/* -- words of the head, of roots, of slots ------------------------------------------ */

static void strange_head(struct snib__map *m)
{
    struct snib__file_head *h = m->head;
    snib__file_word *const words[] = {&h->top,
                                      &h->floor,
                                      &h->floor,
                                      &h->mark,
                                      &h->version_floor,
                                      &h->version_least,
                                      &h->sync_begun,
                                      &h->synced_from,
                                      &h->waiting,
                                      &h->owners,
                                      &h->opened,
                                      &h->closed,
                                      &h->cursor,
                                      &h->stack[pick("stack", 6)],
                                      &h->reserve[pick("reserve", 6)],
                                      &h->retired,
                                      &h->kept};
    size_t i = pick("word", COUNT_OF(words));
    int64_t n = chance("near", 3) ? (int64_t)atomic_load(words[i]) +
                                        (int64_t)pick("by", 9) - 4
                                  : some_number();
    tell("word %zu of the head becomes %lld", i, (long long)n);
    atomic_store(words[i], (uint64_t)n);
}

static snib__file_word *some_root(struct snib__map *m)
{
    bool values = chance("of values", 3);
    uint32_t count = values ? m->value_root_count : m->root_count;
    snib__file_word *roots = values ? m->value_roots : m->roots;
    uint32_t first = (uint32_t)pick("root", count);
    for (uint32_t i = 0; i < count; i++) {
        if ((uint32_t)atomic_load(&roots[(first + i) % count])) {
            return &roots[(first + i) % count];
        }
    }
    return &roots[first];
}

static void strange_root(struct snib__map *m)
{
    snib__file_word *root = some_root(m);
    uint64_t word = atomic_load(root);
    switch (pick("root becomes", 4)) {
    case 0:
        word = atomic_load(some_root(m));
        break;
    case 1:
        word += 8 * (1 + pick("further", 3));
        break;
    case 2:
        word = (uint64_t)some_number();
        break;
    default:
        word += UINT64_C(1) << 32;
    }
    tell("a root becomes %llx", (unsigned long long)word);
    atomic_store(root, word);
}

/* Taken by those who live, who have ended, or by nobody. */
static void strange_slots(struct snib__map *m)
{
    bool all = chance("all slots", 2);
    const struct process *p =
        &w.processes[pick("process", (uint64_t)w.process_count)];
    for (uint32_t i = 0; i < m->slot_count; i++) {
        struct snib__file_slot *s = &m->slots[i];
        if ((all || chance("this slot", 3)) &&
            (!atomic_load(&s->owner) || chance("taken away", 9))) {
            atomic_store(&s->owner,
                         chance("free", 6) ? 0 : 900000 + (uint64_t)i);
            s->pid = chance("no pid", 4) ? 0 : p->pid;
            s->start = p->start;
            s->pidns = w.pidns;
            atomic_store(&s->told, pick("told", 20));
        }
    }
    tell("slots are taken");
}

static void strange_byte(struct snib__map *m)
{
    uint64_t from =
        chance("in a slot", 3) ? SNIB__FILE_HEAD : (uint64_t)m->first * 64;
    uint64_t end = chance("of a slot", 3) ? (uint64_t)m->first * 64
                                          : atomic_load(&m->head->top) * 64;
    uint64_t size = atomic_load(&m->head->size);
    end = end < size ? end : size;
    if (from < end) {
        uint64_t at = from + pick("byte", end - from);
        m->base[at] ^= (uint8_t)(1u << pick("bit", 8));
        tell("byte %llu is another", (unsigned long long)at);
    }
}

/* -- records ----------------------------------------------------------------------------- */

static struct snib__file_block *block_of(struct snib__map *m,
                                         const snib__file_word *root)
{
    uint32_t unit = (uint32_t)atomic_load(root);
    struct snib__file_block *b = unit ? snib__block_at(m, unit, 0) : NULL;
    return b && snib__block_at(m, unit, b->class) &&
                   b->used <= snib__block_room(b->class)
               ? b
               : NULL;
}

/* Of a claim, or of what stands before it. */
static void strange_claim(struct snib__map *m)
{
    snib__file_word *root = &m->roots[pick("root", m->root_count)];
    struct snib__file_block *b = block_of(m, root);
    if (b && b->use == SNIB__FILE_LOCKS && b->used >= 64) {
        uint32_t at = (uint32_t)pick("field", b->used / 4) * 4;
        int64_t n = some_number();
        memcpy((uint8_t *)(b + 1) + at, &n, at + 8 <= b->used ? 8 : 4);
        tell("at %u of a bucket is %lld", at, (long long)n);
    }
}

/* What stands in the place of a token, with a sum that is right or not. */
static void strange_token(struct snib__map *m)
{
    struct snib__file_block *b =
        block_of(m, &m->roots[pick("root", m->root_count)]);
    if (b && b->use == SNIB__FILE_LOCKS && b->used >= 64) {
        struct snib__file_lock *l = (void *)(b + 1);
        int64_t *const fields[] = {&l->token, &l->token, &l->permits,
                                   &l->latch};
        *fields[pick("of the lock", 4)] = some_number();
        if (l->name_size <= SNIB_NAME_MAX && !chance("wrong sum", 3)) {
            l->sum = snib__bucket_sum(l);
        }
        tell("a lock has %lld %lld %lld", (long long)l->token,
             (long long)l->permits, (long long)l->latch);
    }
}

static void change_value(struct snib__map *m, uint32_t unit,
                         struct snib__file_block *b)
{
    struct snib__file_value *v = (void *)(b + 1);
    switch (pick("of the value", 8)) {
    case 0:
    case 1:
    case 2:
        v->until_ms = chance("long ago", 2) ? 1000 : some_number();
        break;
    case 3:
        v->record[pick("of the record", sizeof v->record)] ^= 1;
        break;
    case 4:
        v->bytes += chance("more", 2) ? 1u : (uint32_t)-1;
        break;
    case 5:
        v->name_size = (uint32_t)some_number();
        break;
    case 6:
        b->used += chance("more", 2) ? 8u : (uint32_t)-8;
        break;
    default:
        b->use = chance("free", 2) ? SNIB__FILE_FREE : SNIB__FILE_LOCKS;
    }
    if (v->name_size <= SNIB_NAME_MAX &&
        snib__keep_size(v->name_size, v->bytes) <= b->used &&
        !chance("wrong sum", 4)) {
        v->sum = snib__keep_sum(m, unit, v);
    }
}

static void strange_value(struct snib__map *m)
{
    struct snib__file_block *index =
        block_of(m, &m->value_roots[pick("root", m->value_root_count)]);
    if (!index || index->used < sizeof(struct snib__file_entry)) {
        return;
    }
    struct snib__file_entry *e = (void *)(index + 1);
    e += pick("entry", index->used / sizeof *e);
    struct snib__file_block *b = snib__block_at(m, e->block, e->class);
    if (chance("entry itself", 4) || !b ||
        b->used > snib__block_room(e->class)) {
        if (chance("block", 2)) {
            e->block = (uint32_t)some_number();
        } else {
            e->class = (uint32_t)pick("class", 20);
        }
    } else {
        change_value(m, e->block, b);
    }
    tell("value %x in %u of %u is changed", (unsigned)e->hash, e->block,
         e->class);
}

static void strange_bytes(void)
{
    static void (*const deeds[])(struct snib__map *) = {
        strange_head,  strange_head,  strange_root,  strange_byte,
        strange_claim, strange_claim, strange_token, strange_token,
        strange_value, strange_value, strange_byte};
    struct snib__map *m = some_map();
    if (m && chance("slots", 8)) {
        strange_slots(m);
    } else if (m) {
        w.damaged = true;
        deeds[pick("deed", COUNT_OF(deeds))](m);
    }
}

/* -- files ------------------------------------------------------------------------------------ */

/* While nobody uses it: the head, or all of it. */
static void change_head(struct node *n)
{
    struct snib__file_head *h = (void *)n->bytes;
    switch (pick("head", 9)) {
    case 0:
        h->layout += chance("older", 2) ? 1u : (uint32_t)-1;
        break;
    case 1:
        h->shape.roots = (uint32_t)some_number();
        break;
    case 2:
        h->shape.slots = (uint32_t)some_number();
        break;
    case 3:
        h->shape.value_roots = (uint32_t)some_number();
        break;
    case 4:
        h->magic[pick("magic", 8)] ^= 1;
        break;
    case 5:
        h->key++;
        break;
    case 6:
        h->made_ms++;
        break;
    case 7:
        h->host[3]++;
        break;
    default:
        node_cut(n, n->size / (2 + pick("cut", 3)));
        return;
    }
    if (!chance("wrong sum", 4)) {
        h->sum = snib__map_head_sum(h);
    }
}

static void write_foreign(struct node *n)
{
    static const uint64_t sizes[] = {5000, 4096, 4095, 1, 0, 15, 16, 20000};
    node_cut(n, 0);
    node_cut(n, sizes[pick("size", COUNT_OF(sizes))]);
    switch (pick("foreign", 4)) {
    case 0:
        memset(n->bytes, 'g', n->size);
        break;
    case 1:
        memcpy(n->bytes, "SQLite format 3", n->size < 16 ? n->size : 16);
        break;
    case 2:
        memset(n->bytes + n->size / 2, 'g', n->size - n->size / 2);
        break;
    default: /* blank */
        break;
    }
}

static bool is_in_use(const struct node *n)
{
    for (int i = 0; i < FDS; i++) {
        if (w.fds[i].is == FD_FILE && w.fds[i].node == n) {
            return true;
        }
    }
    return false;
}

static void change_rights(struct node *n)
{
    static const unsigned modes[] = {0600, 0660, 0644, 0622, 0602, 0777, 0755};
    switch (pick("rights", 6)) {
    case 0:
        n->uid = (uid_t)pick("uid", 3) * 500;
        break;
    case 1:
        n->links = n->links == 1 ? 2 : 1;
        break;
    default:
        n->mode = (n->mode & S_IFMT) | modes[pick("mode", COUNT_OF(modes))];
    }
    tell("now %o %d %u", (unsigned)n->mode, (int)n->uid, n->links);
}

static void replace_file(struct node *n, int how)
{
    static const mode_t kinds[] = {S_IFREG | 0600, S_IFLNK | 0777,
                                   S_IFDIR | 0700, S_IFIFO | 0600};
    entry_drop(real_path);
    if (how < (int)COUNT_OF(kinds)) {
        struct node *other = node_new(kinds[how]);
        node_remember(other);
        if (how == 0 && n && n->memory >= 0 && chance("a copy", 2)) {
            node_cut(other, n->size);
            memcpy(other->bytes, n->bytes, n->size);
        }
        entry_put(real_path, other);
    }
}

static void strange_file(void)
{
    struct node *n = node_at(real_path);
    struct node *link = node_at("/l");
    bool there = n && n->memory >= 0;
    tell("%s is changed", real_path);
    if (w.node_count > NODES - 3) {
        return;
    }
    switch (pick("deed", 8)) {
    case 0:
    case 1:
        w.damaged = true;
        replace_file(n, (int)pick("instead", 6));
        break;
    case 2:
        w.damaged = true;
        link->to = chance("to nowhere", 3)     ? NULL
                   : link->to == node_at("/v") ? node_at("/u")
                                               : node_at("/v");
        break;
    case 3:
    case 4:
        w.damaged = true;
        if (there && !is_in_use(n) && n->size >= SNIB__FILE_HEAD &&
            chance("head", 2)) {
            change_head(n);
        } else if (there && !is_in_use(n)) {
            write_foreign(n);
        }
        break;
    case 5:
        if (there) {
            n->stranger = (int)pick("stranger", 3); /* LOCK_SH, LOCK_EX     */
        }
        break;
    default:
        change_rights(n && chance("the file", 2) ? n : node_at("/v"));
    }
}

/* -- crowds ------------------------------------------------------------------------------------- */

static struct snib__request crowd[SNIB__FILE_TELLS + 12];

/* More wait than one step can tell, or than a slot keeps in mind. */
static void many_wait(void)
{
    static const int counts[] = {6, 7, 8, 9, 30, SNIB__FILE_TELLS + 4};
    int holder = any_client_with(false), waiter = any_client_with(false);
    int count = counts[pick("crowd", COUNT_OF(counts))], name = some_name();
    struct snib__request first = request(SNIB__ACQUIRE, name);
    if (holder == NOBODY) {
        return;
    }
    first.lease = snib__ms(60000);
    exec_one(holder, &first);
    for (int i = 0; i < count && client_is_open(waiter); i++) {
        crowd[i] = request(SNIB__ACQUIRE, name);
        crowd[i].acquire.kind = SNIB_KIND_READ;
        crowd[i].acquire.may_queue = true;
        exec_one(waiter, &crowd[i]);
    }
    if (client_is_open(holder)) {
        struct snib__request end = turn_into(
            &first, chance("by force", 2) ? SNIB__FORCE : SNIB__RELEASE);
        exec_one(holder, &end);
    }
    hear();
    hear();
}

/* One waits behind another at each name: more holders than it can watch. */
static void wait_everywhere(void)
{
    int holder = any_client_with(false), waiter = any_client_with(false);
    for (int i = 0; i < NAMES; i++) {
        struct snib__request r = request(SNIB__ACQUIRE, i);
        r.lease = snib__ms(60000);
        r.acquire.may_queue = true;
        if (client_is_open(holder)) {
            exec_one(holder, &r);
        }
        crowd[i] = request(SNIB__ACQUIRE, i);
        crowd[i].acquire.may_queue = true;
        if (client_is_open(waiter)) {
            exec_one(waiter, &crowd[i]);
        }
    }
    for (int i = 0; i < NAMES && client_is_open(waiter); i++) {
        struct snib__request end = turn_into(&crowd[i], SNIB__CANCEL);
        if (chance("stays", 2)) {
            exec_one(waiter, &crowd[i]);
        } else {
            exec_one(waiter, &end);
        }
    }
}

/* What takes a client long to come to. */
static void grow_old(void)
{
    static const uint64_t steps[] = {4095, 4094, 8191};
    int i = any_client_with(false);
    if (i == NOBODY) {
        return;
    }
    struct snib__file *f = clients[i].inst;
    switch (pick("old", 4)) {
    case 0:
    case 1:
        f->steps = steps[pick("steps", COUNT_OF(steps))];
        break;
    case 2:
        atomic_store(&f->map.head->waiting,
                     (UINT64_C(8) << 20) + pick("of", 2));
        break;
    default: /* a host with little address space */
        f->map.limit =
            (size_t)atomic_load(&f->map.head->size) + 512 * pick("limit", 40);
    }
    tell("client %d grows old", i);
}

#endif
