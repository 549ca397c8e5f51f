/* sim/etcd/store.c — stands between the engine and the store of etcd: hands on
 * every call, and looks at what the store has sent and answered (said.c). */
#include "core/engine_i.h"
#include "sim/etcd/model.h"
#include "store/etcd/etcd.h"

static _Thread_local struct sim_world *world;

/* -1: it is being opened, or freed. */
static int client_of(const struct snib__store *store)
{
    for (int c = 0; c < world->opt.clients; c++) {
        if (world->client[c].engine &&
            world->client[c].engine->store == store) {
            return c;
        }
    }
    return -1;
}

static void look(const struct snib__store *store)
{
    int client = client_of(store);
    if (client >= 0) {
        sim_etcd_sends(world, client);
        sim_etcd_answers(world, client);
    }
}

static void store_start(struct snib__store *store, snib_instant now,
                        struct snib__list *chain)
{
    snib__etcd_store_ops.start(store, now, chain);
    look(store);
}

static void store_input(struct snib__store *store, snib_instant now,
                        const struct snib__input *in)
{
    snib__etcd_store_ops.input(store, now, in);
    look(store);
}

const struct snib__store_ops *sim_etcd_opens(struct sim_world *w)
{
    static _Thread_local struct snib__store_ops ops;
    world = w;
    ops = snib__etcd_store_ops;
    ops.start = store_start;
    ops.input = store_input;
    return &ops;
}
