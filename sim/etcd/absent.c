/* sim/etcd/absent.c — without libnghttp2 there is no store of etcd, and no world of
 * it. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/world.h"

bool sim_etcd_is_built(void)
{
    return false;
}

void sim_etcd_draw(struct sim_options *o)
{
    (void)o;
    fprintf(stderr, "snib-sim: it was built without the store of etcd\n");
    exit(64);
}

void sim_etcd_start(struct sim_world *w)
{
    sim_etcd_draw(&w->opt);
}

void sim_etcd_free(struct sim_world *w)
{
    (void)w;
}

/* None of the rest is called in another world. */

const struct snib__store_ops *sim_etcd_opens(struct sim_world *a)
{
    (void)a;
    abort();
}

int sim_etcd_connect(struct sim_etcd_member *a)
{
    (void)a;
    abort();
}

void sim_etcd_disconnect(struct sim_etcd_member *a, int conn)
{
    (void)a;
    (void)conn;
    abort();
}

bool sim_etcd_is_open(const struct sim_etcd_member *a, int conn)
{
    (void)a;
    (void)conn;
    abort();
}

bool sim_etcd_is_closing(const struct sim_etcd_member *a, int conn)
{
    (void)a;
    (void)conn;
    abort();
}

void sim_etcd_input(struct sim_etcd_member *a, int conn, const void *c,
                    size_t d)
{
    (void)a;
    (void)conn;
    (void)c;
    (void)d;
    abort();
}

size_t sim_etcd_pending(struct sim_etcd_member *a, int *ids, size_t most)
{
    (void)a;
    (void)ids;
    (void)most;
    abort();
}

const struct snib__buf *sim_etcd_output(const struct sim_etcd_member *a,
                                        int conn)
{
    (void)a;
    (void)conn;
    abort();
}

void sim_etcd_consume(struct sim_etcd_member *a, int conn, size_t c)
{
    (void)a;
    (void)conn;
    (void)c;
    abort();
}

void sim_etcd_restart(struct sim_etcd_member *a)
{
    (void)a;
    abort();
}

void sim_etcd_delete_keys(struct sim_world *a, int name)
{
    (void)a;
    (void)name;
    abort();
}

void sim_etcd_back_up(struct sim_world *a)
{
    (void)a;
    abort();
}

bool sim_etcd_has_backup(const struct sim_world *a)
{
    (void)a;
    abort();
}

void sim_etcd_restore(struct sim_world *a, bool renamed)
{
    (void)a;
    (void)renamed;
    abort();
}

void sim_etcd_set_fault(struct sim_world *a, unsigned faults)
{
    (void)a;
    (void)faults;
    abort();
}

void sim_etcd_fault(struct sim_world *a, const struct sim_fault *b, int node,
                    int64_t until)
{
    (void)a;
    (void)b;
    (void)node;
    (void)until;
    abort();
}

void sim_etcd_heal(struct sim_world *a)
{
    (void)a;
    abort();
}

void sim_etcd_event(struct sim_world *a, const struct sim_event *b)
{
    (void)a;
    (void)b;
    abort();
}

void sim_etcd_book(const struct sim_world *a, int name, struct sim_book *c)
{
    (void)a;
    (void)name;
    (void)c;
    abort();
}

bool sim_etcd_held(const struct sim_world *a, int name)
{
    (void)a;
    (void)name;
    abort();
}

bool sim_etcd_reaches(const struct sim_world *a, int client)
{
    (void)a;
    (void)client;
    abort();
}

void sim_etcd_residue(struct sim_world *a)
{
    (void)a;
    abort();
}

int64_t sim_etcd_left_at(const struct sim_world *a, int name)
{
    (void)a;
    (void)name;
    abort();
}

int sim_etcd_at(const struct sim_world *a, int client)
{
    (void)a;
    (void)client;
    abort();
}

bool sim_etcd_is_ready(const struct sim_world *a, int client)
{
    (void)a;
    (void)client;
    abort();
}

bool sim_etcd_serves(const struct sim_world *a, int client)
{
    (void)a;
    (void)client;
    abort();
}
