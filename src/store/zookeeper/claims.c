/* store/zookeeper/claims.c — what this client has made for its requests, by id,
 * and for which nodes those wait. */
#include <string.h>

#include "base/mem.h"
#include "store/zookeeper/zookeeper_i.h"

static struct zoo_claim *claims_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct zoo_claim, link);
}

static void claims_free(struct zoo_claim *c)
{
    snib__free(c->dir);
    snib__free(c);
}

uint64_t snib__zoo_hash(const char *text, size_t size)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < size; i++) {
        h = (h ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    }
    return h ? h : 1;
}

static struct snib__list *claims_bucket(struct snib__zoo *z,
                                        const uint64_t id[2])
{
    return &z->claim[id[0] % ZOO_BUCKETS];
}

struct zoo_claim *snib__zoo_claim_find(struct snib__zoo *z,
                                       const uint64_t id[2])
{
    SNIB__LIST_EACH (l, claims_bucket(z, id)) {
        struct zoo_claim *c = claims_of(l);
        if (c->id[0] == id[0] && c->id[1] == id[1]) {
            return c;
        }
    }
    return NULL;
}

struct zoo_claim *snib__zoo_claim_make(struct snib__zoo *z,
                                       const uint64_t id[2])
{
    struct zoo_claim *c = snib__zoo_claim_find(z, id);
    if (!c && snib__heap_reserve(&z->leases, z->claims + 1) &&
        (c = snib__alloc(sizeof *c))) {
        z->claims++;
        snib__link_init(&c->link);
        snib__list_push(claims_bucket(z, id), &c->link);
        c->id[0] = id[0];
        c->id[1] = id[1];
        c->number = z->session.number;
        c->version = -1;
    }
    return c;
}

void snib__zoo_claim_forget(struct snib__zoo *z, const uint64_t id[2])
{
    struct zoo_claim *c = snib__zoo_claim_find(z, id);
    if (c) {
        snib__heap_remove(&z->leases, &c->timer);
        snib__unlink(&c->link);
        claims_free(c);
        z->claims--;
    }
}

void snib__zoo_claim_lasts(struct snib__zoo *z, struct zoo_claim *c,
                           snib_instant until)
{
    c->until = snib__later(c->until, until);
    snib__heap_set(&z->leases, &c->timer, c->until);
}

void snib__zoo_claims_over(struct snib__zoo *z)
{
    for (int i = 0; i < ZOO_BUCKETS; i++) {
        SNIB__LIST_EACH_SAFE (l, next, &z->claim[i]) {
            if (!claims_of(l)->until.ns && !claims_of(l)->unproved) {
                snib__zoo_claim_forget(z, claims_of(l)->id);
            }
        }
    }
}

void snib__zoo_claims_free(struct snib__zoo *z)
{
    for (int i = 0; i < ZOO_BUCKETS; i++) {
        struct snib__link *l;
        while ((l = snib__list_pop(&z->claim[i]))) {
            claims_free(claims_of(l));
        }
    }
}

void snib__zoo_claims_heard(struct snib__zoo *z, const char *path, size_t size)
{
    uint64_t hash = snib__zoo_hash(path, size);
    for (int i = 0; i < ZOO_BUCKETS; i++) {
        SNIB__LIST_EACH (l, &z->claim[i]) {
            if (claims_of(l)->watch == hash) {
                claims_of(l)->watch = 0;
                claims_of(l)->gone = claims_of(l)->sole;
                snib__nonblocking_notify(&z->requests, claims_of(l)->id);
            }
        }
    }
}
