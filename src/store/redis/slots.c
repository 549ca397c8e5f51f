/* store/redis/slots.c — see slots.h.
 *
 * A map is the answer to CLUSTER NODES: a line for each node,
 *
 *   <id> <ip:port@cport[,hostname[,…]]> <flags> <primary> <ping> <pong>
 *   <epoch> <link> <slot> <from-to> [slot->-id] …
 *
 * It is read twice. The first time shows whether it is one, and not behind; the
 * second takes it over. So nothing of a strange answer stays. */
#include "store/redis/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/topology_i.h"

/* -- homes ------------------------------------------------------------------- */

static int slots_find(const struct snib__slots *s, const char *address)
{
    for (int k = 0; k < SNIB__HOMES_MAX; k++) {
        const struct snib__home *h = &s->home[k];
        if (*address && (!strcmp(h->address, address) ||
                         (h->slots && !strcmp(h->other, address)))) {
            return k;
        }
    }
    return -1;
}

int snib__slots_home(struct snib__slots *s, const char *address)
{
    int k = slots_find(s, address);
    for (int i = 0; i < SNIB__HOMES_MAX && k < 0; i++) {
        if (!s->home[i].address[0]) {
            k = i;
            s->home[k] = (struct snib__home){.slots = 0};
            snprintf(s->home[k].address, sizeof s->home[k].address, "%s",
                     address);
        }
    }
    s->crowded = s->crowded || k < 0;
    return k;
}

int snib__slots_seed(struct snib__slots *s, const char *host, uint16_t port)
{
    char address[SNIB__HOME_ADDRESS];
    if (!snib__topology_address(address, host, strlen(host),
                                port ? port : REDIS_PORT)) {
        return -1;
    }
    int k = snib__slots_home(s, address);
    s->home[k].seed = true; /* there is room for more than a URL has         */
    return k;
}

void snib__slots_forget(struct snib__slots *s, uint32_t home)
{
    struct snib__home *h = &s->home[home];
    if (!h->address[0] || h->slots || h->seed || h->used) {
        return;
    }
    *h = (struct snib__home){.slots = 0};
    for (uint32_t i = 0; i < SNIB__SLOTS; i++) {
        s->said[i] = s->said[i] == home + 1 ? s->home_of[i] : s->said[i];
    }
}

static void slots_sweep(struct snib__slots *s)
{
    for (uint32_t k = 0; k < SNIB__HOMES_MAX; k++) {
        snib__slots_forget(s, k);
    }
    s->crowded = false;
}

/* -- pieces of text ---------------------------------------------------------- */

struct piece {
    const char *p;
    size_t size;
};

/* What stands before the next `stop`; *s moves behind it. */
static struct piece slots_split(struct piece *s, char stop)
{
    struct piece head = *s;
    const char *at = s->size ? memchr(s->p, stop, s->size) : NULL;
    if (at) {
        head.size = (size_t)(at - s->p);
        s->p = at + 1;
        s->size -= head.size + 1;
    } else {
        s->p += s->size;
        s->size = 0;
    }
    return head;
}

static bool slots_number(struct piece s, int64_t most, int64_t *ret)
{
    int64_t v = 0;
    if (!s.size || s.size > 18) {
        return false;
    }
    for (size_t i = 0; i < s.size; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') {
            return false;
        }
        v = v * 10 + (s.p[i] - '0');
    }
    *ret = v;
    return v <= most;
}

static bool slots_has(struct piece flags, const char *word)
{
    while (flags.size) {
        struct piece one = slots_split(&flags, ',');
        if (one.size == strlen(word) && !memcmp(one.p, word, one.size)) {
            return true;
        }
    }
    return false;
}

/* "7", or "0-5460". One that is being moved ("[93-<-id]") is none: from = to +
 * 1. */
static bool slots_range(struct piece s, int64_t *ret_from, int64_t *ret_to)
{
    if (s.size && s.p[0] == '[') {
        *ret_from = 1;
        *ret_to = 0;
        return true;
    }
    struct piece to = s, from = slots_split(&to, '-');
    to = to.size ? to : from;
    return slots_number(from, SNIB__SLOTS - 1, ret_from) &&
           slots_number(to, SNIB__SLOTS - 1, ret_to) && *ret_from <= *ret_to;
}

/* HOST:PORT as an address. An empty host is the one of whoever says so. */
static bool slots_address(const char *asked, struct piece host_port,
                          char ret[SNIB__HOME_ADDRESS])
{
    const char *colon =
        host_port.size ? memrchr(host_port.p, ':', host_port.size) : NULL;
    int64_t port;
    if (!colon) {
        return false;
    }
    struct piece host = {host_port.p, (size_t)(colon - host_port.p)};
    struct piece digits = {colon + 1, host_port.size - host.size - 1};
    if (!host.size) {
        const char *end = strrchr(asked, ':');
        host.p = asked;
        host.size = end ? (size_t)(end - asked) : 0;
    }
    if (host.size > 2 && host.p[0] == '[' && host.p[host.size - 1] == ']') {
        host.p++;
        host.size -= 2;
    }
    return slots_number(digits, 65535, &port) &&
           snib__topology_address(ret, host.p, host.size, port);
}

/* -- a map ------------------------------------------------------------------- */

struct line {
    bool primary, myself;
    int64_t epoch;
    struct piece where, slots;
};

static bool slots_line(struct piece s, struct line *ret)
{
    struct piece field[8];
    for (int i = 0; i < 8; i++) {
        field[i] = slots_split(&s, ' ');
        if (!field[i].size) {
            return false;
        }
    }
    ret->primary = slots_has(field[2], "master") &&
                   !slots_has(field[2], "handshake") &&
                   !slots_has(field[2], "noaddr");
    ret->myself = slots_has(field[2], "myself");
    ret->where = field[1];
    ret->slots = s;
    return field[0].size == SNIB__NODE_ID &&
           slots_number(field[6], INT64_MAX, &ret->epoch);
}

/* Does the text make sense to its end? No slot is served twice. ret_epoch: the
 * highest in it. */
static bool slots_judge(struct piece text, int64_t *ret_epoch)
{
    struct line one;
    uint32_t lines = 0;
    int64_t slots = 0;
    *ret_epoch = 0;
    while (text.size) {
        struct piece line = slots_split(&text, '\n');
        int64_t from, to;
        line.size -= line.size && line.p[line.size - 1] == '\r';
        if (!line.size) {
            continue;
        }
        if (!slots_line(line, &one)) {
            return false;
        }
        while (one.slots.size) {
            if (!slots_range(slots_split(&one.slots, ' '), &from, &to) ||
                (slots += to - from + 1) > SNIB__SLOTS) {
                return false;
            }
        }
        lines++;
        *ret_epoch = one.epoch > *ret_epoch ? one.epoch : *ret_epoch;
    }
    return lines > 0;
}

/* The home that a MOVED has made by this name, before the map told its address;
 * -1: there is none. Nodes that call themselves by one name stay several. */
static int slots_named(const struct snib__slots *s, const char *name)
{
    for (int k = 0; k < SNIB__HOMES_MAX; k++) {
        const struct snib__home *h = &s->home[k];
        if (*name && !h->seed && !strcmp(h->address, name) &&
            !memchr(s->next, k + 1, sizeof s->next)) {
            return k;
        }
    }
    return -1;
}

/* The number of the home of that line; -1: it has no usable address, or there
 * is no room. make: where there is none, there will be. */
static int slots_home_of_line(struct snib__slots *s, const char *asked,
                              const struct line *one, bool make)
{
    char address[SNIB__HOME_ADDRESS] = "", named[SNIB__HOME_ADDRESS] = "";
    struct piece rest = one->where, where = slots_split(&rest, ',');
    struct piece name = slots_split(&rest, ','), at = slots_split(&where, '@');
    const char *first = address, *second = named;
    if (!slots_address(asked, at, address)) {
        return -1;
    }
    if (name.size) {
        int64_t port = strtol(strrchr(address, ':') + 1, NULL, 10);
        if (!snib__topology_address(named, name.p, name.size, port)) {
            named[0] = 0;
        }
    }
    if (s->secure && named[0]) {
        first = named;
        second = address;
    }
    first = snib__slots_translate(s, first);
    second = snib__slots_translate(s, second);
    int k = slots_find(s, first);
    if (k < 0 && !s->secure) { /* else it is connected to by its name */
        k = slots_named(s, second);
    }
    k = k < 0 && make ? snib__slots_home(s, first) : k;
    if (k >= 0 && make) {
        bool known = !strcmp(s->home[k].address, second);
        snprintf(s->home[k].other, sizeof s->home[k].other, "%s",
                 known ? first : second);
    }
    return k;
}

static void slots_mark(uint8_t *of, struct piece slots, uint8_t what)
{
    int64_t from, to;
    while (slots.size) {
        if (slots_range(slots_split(&slots, ' '), &from, &to)) {
            for (; from <= to; from++) {
                of[from] = what;
            }
        }
    }
}

static void slots_gather(struct snib__slots *s, const char *asked,
                         struct piece text, bool make)
{
    memset(s->next, 0, sizeof s->next);
    while (text.size) {
        struct piece line = slots_split(&text, '\n');
        struct line one;
        line.size -= line.size && line.p[line.size - 1] == '\r';
        if (slots_line(line, &one) && one.primary && one.slots.size) {
            int k = slots_home_of_line(s, asked, &one, make);
            slots_mark(s->next, one.slots, (uint8_t)(k + 1));
        }
    }
}

/* Does a server that served none before serve what another one did? Then it has
 * taken its place, as a rule, and may not have all that was granted there. */
static void slots_replace(struct snib__slots *s)
{
    for (uint32_t i = 0; i < SNIB__SLOTS; i++) {
        uint8_t was = s->home_of[i], is = s->next[i];
        s->moved =
            s->moved || (was && is && was != is && !s->home[is - 1].slots);
    }
    memcpy(s->home_of, s->next, sizeof s->home_of);
    for (int k = 0; k < SNIB__HOMES_MAX; k++) {
        s->home[k].lost = s->home[k].lost || s->home[k].slots;
        s->home[k].slots = 0;
    }
    for (uint32_t i = 0; i < SNIB__SLOTS; i++) {
        if (s->home_of[i]) {
            s->home[s->home_of[i] - 1].slots++;
            s->home[s->home_of[i] - 1].lost = false;
        }
    }
}

/* Does the map contradict a MOVED that came after the last one? Who said it, and
 * who was named, may know better. */
static bool slots_contradict(struct snib__slots *s, const char *asked,
                             struct piece text)
{
    int who = slots_find(s, asked);
    bool does = false;
    slots_gather(s, asked, text, false);
    for (uint32_t i = 0; i < SNIB__SLOTS; i++) {
        does = does || (s->said[i] && s->next[i] != s->home_of[i] &&
                        s->said[i] != who + 1 && s->home_of[i] != who + 1);
    }
    return does;
}

static void slots_take(struct snib__slots *s, const char *asked,
                       struct piece text)
{
    slots_sweep(s);
    slots_gather(s, asked, text, true);
    slots_replace(s);
    if (s->crowded) { /* by those that it has replaced, perhaps */
        slots_sweep(s);
        slots_gather(s, asked, text, true);
        slots_replace(s);
        s->moved = s->moved || !s->crowded;
    }
    memset(s->said, 0, sizeof s->said);
    for (int k = 0; k < SNIB__HOMES_MAX; k++) { /* there will be more room */
        s->stale = s->stale || (s->crowded && s->home[k].lost);
    }
}

/* The first {%nodeN} in a slot that the line "myself" has. */
static int slots_tag(struct snib__slots *s, struct piece text)
{
    enum { TRIES = 200000 };
    char name[24];
    bool any = false;
    memset(s->next, 0, sizeof s->next);
    while (text.size) {
        struct line one;
        struct piece line = slots_split(&text, '\n');
        line.size -= line.size && line.p[line.size - 1] == '\r';
        if (slots_line(line, &one) && one.myself && one.primary) {
            slots_mark(s->next, one.slots, 1);
            any = memchr(s->next, 1, sizeof s->next);
        }
    }
    for (int i = 0; any && i < TRIES; i++) {
        int n = snprintf(name, sizeof name, "%%node%d", i);
        if (s->next[snib__slot_of_key(name, (size_t)n)]) {
            return i;
        }
    }
    return -1;
}

static uint32_t slots_homes(const struct snib__slots *s)
{
    uint32_t n = 0;
    for (int k = 0; k < SNIB__HOMES_MAX; k++) {
        n += s->home[k].address[0] != 0;
    }
    return n;
}

/* Is it of another cluster than the one that is known? *ret_kin: no. */
static bool slots_foreign(struct snib__slots *s, const char *asked,
                          struct piece text, bool *ret_kin)
{
    int k = slots_find(s, asked);
    *ret_kin = snib__kin_has(s, text.p, text.size);
    if (*ret_kin) {
        s->strangers = 0;
        return false;
    }
    return k < 0 || !s->home[k].seed || ++s->strangers < slots_homes(s);
}

snib__slots_said snib__slots_read(struct snib__slots *s, const char *asked,
                                  const char *text, size_t size, int *ret_tag)
{
    struct piece all = {text, size};
    int64_t epoch;
    bool kin;
    *ret_tag = -1;
    if (!slots_judge(all, &epoch)) {
        return SNIB__SLOTS_STRANGE;
    }
    if (slots_foreign(s, asked, all, &kin)) {
        return SNIB__SLOTS_FOREIGN;
    }
    *ret_tag = slots_tag(s, all);
    if (kin &&
        (epoch < s->epoch ||
         (epoch == s->epoch && slots_contradict(s, asked, all))) &&
        ++s->behind < slots_homes(s)) {
        return SNIB__SLOTS_BEHIND;
    }
    s->epoch = epoch;
    s->behind = s->strangers = 0;
    s->stale = false;
    s->heard++;
    slots_take(s, asked, all);
    if (snib__slots_unserved(s) <
        SNIB__SLOTS) { /* else it may be in none yet */
        snib__kin_keep(s, text, size);
    }
    return SNIB__SLOTS_TAKEN;
}

/* -- a redirection ----------------------------------------------------------- */

static void slots_set(struct snib__slots *s, const char *asked, uint32_t slot,
                      int home)
{
    int who = slots_find(s, asked);
    uint8_t was = s->home_of[slot];
    if (was == home + 1) {
        return;
    }
    if (was) {
        s->moved = s->moved || !s->home[home].slots;
        s->home[was - 1].slots--;
    }
    s->home_of[slot] = (uint8_t)(home + 1);
    s->said[slot] = (uint8_t)((who < 0 ? home : who) + 1);
    s->home[home].slots++;
    s->home[home].lost = false;
    s->stale = true;
}

int snib__slots_redirect(struct snib__slots *s, const char *asked,
                         const char *text, size_t size, bool *ret_ask)
{
    struct piece rest = {text, size}, word = slots_split(&rest, ' ');
    struct piece slot = slots_split(&rest, ' ');
    char address[SNIB__HOME_ADDRESS];
    int64_t number;
    bool ask = word.size == 3 && !memcmp(word.p, "ASK", 3);
    if ((!ask && (word.size != 5 || memcmp(word.p, "MOVED", 5) != 0)) ||
        !slots_number(slot, SNIB__SLOTS - 1, &number) ||
        !slots_address(asked, rest, address)) {
        return -1;
    }
    int k = snib__slots_home(s, snib__slots_translate(s, address));
    if (k >= 0 && !ask) {
        slots_set(s, asked, (uint32_t)number, k);
    }
    if (k >= 0) {
        s->home[k].used = true;
    }
    *ret_ask = ask;
    return k;
}
