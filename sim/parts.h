/* sim/parts.h — what each file of the simulator does for the others, the lower
 * ones first. Included by sim/world.h, whose types these are about. */
#ifndef SIM_PARTS_H
#define SIM_PARTS_H

#include <string.h>

#include "sim/world.h"

/* -- which world it is ----------------------------------------------------- */

static inline bool sim_quorum(const struct sim_world *w)
{
    return w->nodes > 1;
}
/* Does the URL name several servers of which one is the primary? */
static inline bool sim_list(const struct sim_world *w)
{
    return w->opt.list != 0;
}
/* Is there a replica, which becomes the primary? */
static inline bool sim_failover(const struct sim_world *w)
{
    return w->opt.failover != 0;
}
/* Do clients ask for recovery=? */
static inline bool sim_recovery(const struct sim_world *w)
{
    return w->opt.recovery_ms > 0;
}
static inline bool sim_circles(const struct sim_world *w)
{
    return w->opt.circle_pct > 0;
}
static inline bool sim_force(const struct sim_world *w)
{
    return w->opt.force_pct > 0;
}
static inline bool sim_spin(const struct sim_world *w)
{
    return w->opt.spin || w->opt.spin_pct;
}
/* Is the store a table, worked on by snapshots? */
static inline bool sim_table(const struct sim_world *w)
{
    return w->opt.table != 0;
}
/* … that of a database, worked on by statements? */
static inline bool sim_sql(const struct sim_world *w)
{
    return w->opt.sql != 0;
}
/* … a cluster of etcd? */
static inline bool sim_etcd(const struct sim_world *w)
{
    return w->opt.etcd != 0;
}
/* Are the rules run by its clients, on snapshots? */
static inline bool sim_snapshots(const struct sim_world *w)
{
    return sim_table(w) || sim_etcd(w);
}
/* Are there others than plain mutexes? */
static inline bool sim_kinds(const struct sim_world *w)
{
    return w->opt.flavour != SIM_MUTEX || w->opt.delay_ms || w->opt.prio_pct ||
           w->opt.many_pct || sim_circles(w) || sim_force(w) || sim_spin(w);
}

/* list.c: worlds of a list. The names in the URL. */
#define SIM_LIST_HOSTS "sim0:6379,sim1:6379"
void sim_list_start(struct sim_world *, struct sim_lua *);
void sim_list_draw(struct sim_options *);
/* The server that is reached under one of these names. */
int sim_list_node(const struct sim_world *, const char *address);

/* sections.c: what worlds of a failover and of a recovery begin with: `ops`
 * sections, of which one takes from a tenth of the lease to so many thousandths of
 * it. */
void sim_sections_draw(struct sim_options *, struct snib__rng *, int ops,
                       int thousandths);

/* failover.c: worlds of a primary and its replica */
void sim_failover_start(struct sim_world *, struct sim_lua *);
void sim_failover_draw(struct sim_options *);
/* The replica becomes the primary; the old one hears of it. */
void sim_failover_promote(struct sim_world *, const struct sim_fault *);
void sim_failover_demote(struct sim_world *);
/* Was there an older primary beside the new one since then? */
static inline bool sim_two_primaries_since(const struct sim_world *w,
                                           int64_t since)
{
    return w->two_primaries && (w->node[1].is_old || w->demoted_at >= since);
}
/* The replica gets nothing any more. */
void sim_failover_cut_off(struct sim_world *);

/* recovery.c: worlds in which clients ask for recovery= */
void sim_recovery_draw(struct sim_options *);
/* Is nobody let in anew at the server? */
bool sim_recovery_runs(const struct sim_world *);
/* After each command. */
void sim_recovery_look(struct sim_world *);
/* replicas.c: … and for replicas=, with a primary that goes on */
void sim_replicas_draw(struct sim_options *);

/* events.c */
void sim_push(struct sim_world *, struct sim_event);
/* The event comes later. It keeps its number: streams keep their order, even if
 * a standstill was lengthened meanwhile. */
void sim_put_off(struct sim_world *, struct sim_event, int64_t until);
/* Takes the next event out; there is one. */
struct sim_event sim_pop(struct sim_world *);
int64_t sim_local(const struct sim_client *, int64_t t);
int64_t sim_true(const struct sim_client *, int64_t own_time);
/* The time by a client's clock. */
static inline snib_instant sim_now(const struct sim_world *w, int client)
{
    return (snib_instant){sim_local(&w->client[client], w->t)};
}
static inline int sim_upto(struct snib__rng *r, int n)
{
    return (int)snib__rng_below(r, (uint64_t)n);
}
static inline bool sim_chance(struct sim_world *w, int pct)
{
    return sim_upto(&w->work, 100) < pct;
}
int64_t sim_wall_us(const struct sim_world *, int node);
void sim_fail(struct sim_world *, const char *theorem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void sim_note(struct sim_world *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* redis_seen.c: the hook of a Redis; user is its struct sim_server. */
void sim_redis_watch(void *user, const struct sim_redis_event *);
/* The names of the locks, and on Redis the keys of their holders. */
extern const char *const sim_names[SIM_NAMES], *const sim_keys[SIM_NAMES];

/* redis_state.c: what a Redis has, read from its keys, as text, without the
 * scripts' own code. */
void sim_redis_book(const struct sim_world *, int name, struct sim_book *);
/* The semaphore's size there; -1: it has none. */
int64_t sim_redis_size(const struct sim_world *, int node, int name);
bool sim_redis_held(const struct sim_world *, int name);
/* Does the server reach the client of this waiter; a client, by the way that it
 * has for that? */
bool sim_redis_hears(const struct sim_world *, const struct sim_waiter *);
bool sim_redis_reaches(const struct sim_world *, int client);
int64_t sim_redis_last_token(const struct sim_world *, int node, int name);

/* options.c */
/* Is there a fault of that kind in the plan? */
bool sim_planned(const struct sim_world *, int kind);
/* The shortest lease that anybody asks for, and the longest. */
int64_t sim_lease_least(const struct sim_options *);
int64_t sim_lease_most(const struct sim_options *);

/* table_draw.c */
void sim_table_draw(struct sim_options *);

/* table_state.c: the same of a table, read from its rows. */
void sim_table_book(const struct sim_world *, int name, struct sim_book *);
bool sim_table_held(const struct sim_world *, int name);
bool sim_table_reaches(const struct sim_world *, int client);

/* sql/: a database, and its clients */
bool sim_sql_is_built(void);
void sim_sql_draw(struct sim_options *);
const struct snib__blocking_ops *sim_sql_opens(struct sim_world *, int client);
void sim_sql_input(struct sim_world *, int client, const struct snib__input *);
/* The threads of a client go on, as far as they can. True: the engine got
 * something back. */
bool sim_sql_turn(struct sim_world *, int client);
snib_instant sim_sql_due(const struct sim_world *, int client);
/* A session has waited too long. */
void sim_sql_event(struct sim_world *, const struct sim_event *);

/* etcd/: a cluster of etcd */
bool sim_etcd_is_built(void); /* else there is no such world */
void sim_etcd_draw(struct sim_options *);
void sim_etcd_start(struct sim_world *);
void sim_etcd_free(struct sim_world *);
/* The store of the client that is opened next. */
const struct snib__store_ops *sim_etcd_opens(struct sim_world *);
/* What the network does with a member. */
int sim_etcd_connect(struct sim_etcd_member *);
void sim_etcd_disconnect(struct sim_etcd_member *, int conn);
bool sim_etcd_is_open(const struct sim_etcd_member *, int conn);
bool sim_etcd_is_closing(const struct sim_etcd_member *, int conn);
void sim_etcd_input(struct sim_etcd_member *, int conn, const void *, size_t);
size_t sim_etcd_pending(struct sim_etcd_member *, int *ids, size_t most);
const struct snib__buf *sim_etcd_output(const struct sim_etcd_member *,
                                        int conn);
void sim_etcd_consume(struct sim_etcd_member *, int conn, size_t);
/* What faults do. */
void sim_etcd_restart(struct sim_etcd_member *);
void sim_etcd_delete_keys(struct sim_world *, int name); /* -1: all */
void sim_etcd_back_up(struct sim_world *);
bool sim_etcd_has_backup(const struct sim_world *);
void sim_etcd_restore(struct sim_world *, bool renamed);
void sim_etcd_set_fault(struct sim_world *, unsigned faults);
void sim_etcd_fault(struct sim_world *, const struct sim_fault *, int node,
                    int64_t until);
void sim_etcd_heal(struct sim_world *);
void sim_etcd_event(struct sim_world *, const struct sim_event *);
/* What is there: the books, … */
void sim_etcd_book(const struct sim_world *, int name, struct sim_book *);
bool sim_etcd_held(const struct sim_world *, int name);
bool sim_etcd_reaches(const struct sim_world *, int client);
/* When a lease has ended there last, and taken a claim with it; 0: never. */
int64_t sim_etcd_left_at(const struct sim_world *, int name);
/* … and no key stays for ever. */
void sim_etcd_residue(struct sim_world *);
/* At which member a client is; is it greeted there, and served? */
int sim_etcd_at(const struct sim_world *, int client);
bool sim_etcd_is_ready(const struct sim_world *, int client);
bool sim_etcd_serves(const struct sim_world *, int client);

/* The connections of a client by which it asks, renews and hears: three to a Redis
 * or a table, one to etcd. */
enum { SIM_CALLERS, SIM_BACKGROUND, SIM_HEARS };
static inline int sim_wire_at(const struct sim_world *w, int client, int which)
{
    return sim_etcd(w) ? sim_etcd_at(w, client) : which;
}
static inline const struct sim_wire *sim_wire(const struct sim_world *w,
                                              int client, int which)
{
    return &w->client[client].wire[sim_wire_at(w, client, which)];
}
/* The server at which it is, where it knows of one only. */
static inline int sim_node_at(const struct sim_world *w, int client)
{
    return sim_etcd(w) ? sim_etcd_at(w, client) : 0;
}
/* Is nothing wrong with that server, nor with the way to it? */
bool sim_server_is_sound(const struct sim_world *, int client);
/* By so much longer than elsewhere a dead one may be in the way: etcd's leases are
 * whole seconds, two at least, and end up to half a second late. */
static inline int64_t sim_longer_ms(const struct sim_world *w)
{
    return sim_etcd(w) ? 4500 : 0;
}
/* The servers that clients ask: of a quorum, of a cluster, or one. */
static inline int sim_members(const struct sim_world *w)
{
    return sim_etcd(w) ? w->opt.etcd : w->nodes;
}

/* book.c: the store's books */
void sim_book_read(const struct sim_world *, int name, struct sim_book *);
/* Is the name held at the store? */
bool sim_held(const struct sim_world *, int name);
/* Does the store reach this client, to tell it of something unasked? */
bool sim_reaches(const struct sim_world *, int client);
/* The step was done: the name's book before it, and after it (until the next
 * call). */
void sim_book_turn(struct sim_world *, struct sim_step *);
/* This is the name's book from now on. */
void sim_book_keep(struct sim_world *, int name, const struct sim_book *);
/* The store lost or forgot: books begin anew with what is there now. */
void sim_book_again(struct sim_world *);
/* All that stands now is over sooner than was promised. */
void sim_book_lapse(struct sim_world *);
/* … that grant, which was decided on before, and written after. */
void sim_book_lapses(struct sim_world *, int name, const char *id);
/* Did that grant stand when the store lost or forgot? */
bool sim_lapsed(const struct sim_world *, int name, const char *id);
/* Had this request ended, and waits again since the store lost data? */
bool sim_waits_again(const struct sim_world *, int name, const char *id);
/* Was this decided on before the store lost data, or in the very millisecond?
 * At a table it may be applied nevertheless, where it guards only that nothing
 * is there; and the token that it gives counts from the clock of its fetch. */
bool sim_decided_before_loss(const struct sim_world *, const struct sim_seen *);
static inline bool sim_same(const char *id, const char *other)
{
    return memcmp(id, other, SIM_ID) == 0;
}
/* The client with that id; -1: it is no more. */
int sim_client_of(const struct sim_world *, const char *id);
bool sim_alone(int mode); /* exclusive */
bool sim_live(const struct sim_holder *, int64_t now);
const struct sim_holder *sim_holder_of(const struct sim_book *, const char *id);
const struct sim_waiter *sim_waiter_of(const struct sim_book *, const char *id);
/* Is this grant new in this step? (One that was over may be given again.) */
bool sim_is_new(const struct sim_step *, const struct sim_holder *);
/* The first in the queue that is alive, heard of, and would fit; or NULL. */
const struct sim_waiter *sim_book_fits(const struct sim_world *,
                                       const struct sim_book *);

/* quorum.c */
void sim_quorum_draw(struct sim_options *);
/* Does this seed mean a world of a quorum? */
bool sim_quorum_drawn(uint64_t seed);
void sim_quorum_start(struct sim_world *);
/* A script has run at a server: read anew what stands there. Returns what stood
 * there before. */
struct sim_stand sim_quorum_read(struct sim_world *, int node, int name);
/* Call both around a fault at a server. A grant that stood there before and
 * does not stand afterwards is noted as forgotten. */
void sim_quorum_before(struct sim_world *, int node);
void sim_quorum_after(struct sim_world *, int node, const struct sim_fault *);
int sim_majority(const struct sim_world *);
/* The servers at which a grant stands, as bits. */
uint32_t sim_stands(const struct sim_world *, int name, const char *id);
bool sim_stand_live(const struct sim_world *, int node, int name);
/* The servers that have lost it by a fault. */
struct sim_forgotten sim_lost_at(const struct sim_world *, int name,
                                 const char *id);
/* The servers whose token memory has reached this token, but not by the grant
 * itself, as bits. */
uint32_t sim_remember(const struct sim_world *, int name, int64_t token,
                      const char *id);

/* owner.c */
/* At that true time; about so long from now; a length about as long. */
void sim_owner_wake_at(struct sim_world *, int client, int owner, int64_t at);
void sim_owner_wake(struct sim_world *, int client, int owner, int64_t us);
int64_t sim_about(struct sim_world *, int64_t us);
/* It has done one of its operations. */
void sim_owner_done(struct sim_world *, int client, int owner);
/* The write at the end of a section, compared with the mark. */
void sim_owner_write(struct sim_world *, int name, int64_t token,
                     int64_t read_value);
/* It gives back one of several grants; the answer is not waited for. */
void sim_owner_give_back(struct sim_world *, int client, int owner,
                         uint64_t ticket);
/* The name that an owner asks for, if it asks for any. */
int sim_wants(const struct sim_owner *);
/* Does it wait, and has it not given up yet? */
bool sim_still_waits(const struct sim_owner *);
/* All grants that an owner has while it holds or nests; returns how many. */
int sim_grants(const struct sim_owner *, struct sim_grant ret[SIM_GRANTS]);
/* An id as the server shows it; that of the request behind an acquisition
 * (zeros: there is none). */
void sim_id_text(const uint64_t id[2], char ret[33]);
void sim_acquisition_id(const struct snib__acquisition *, char ret[33]);

/* circles.c: the waits and edges that there are; returns how many waits. A wait
 * is in a circle if it reaches itself. ghosts: include waits that are still in
 * the queue but whose owners have given up or died. */
int sim_waits(struct sim_world *, bool ghosts, struct sim_wait ret[SIM_WAITS]);
/* At each event: note who waits by which request, and with what, for the
 * ghosts. */
void sim_waits_note(struct sim_world *);
/* The waits that reach wait i and are reached from it, as bits. */
uint64_t sim_waits_set(const struct sim_wait *, int count, int i);
/* The wait of such a set that is to give up. */
int sim_waits_youngest(const struct sim_wait *, int count, uint64_t set);
uint64_t sim_waits_mark(const struct sim_wait *, int count, uint64_t set);

/* serve.c: a server, of whichever kind, as the network knows it */
int sim_serve_connect(struct sim_server *);
void sim_serve_disconnect(struct sim_server *, int conn);
bool sim_serve_is_open(const struct sim_server *, int conn);
/* It will say nothing more on this connection. */
bool sim_serve_is_closing(const struct sim_server *, int conn);
void sim_serve_input(struct sim_server *, int conn, const void *, size_t,
                     int64_t wall_us);
/* The connections on which it has something to say; returns how many. */
size_t sim_serve_pending(struct sim_server *, int *ids, size_t most);
void sim_serve_output(struct sim_server *, int conn, const void **ret,
                      size_t *ret_size);
void sim_serve_consume(struct sim_server *, int conn, size_t);
/* The ns by which it comes later, but for so many bytes; told once, and only if
 * it is not 0. */
int64_t sim_serve_late(struct sim_server *, int conn, size_t *ret_before);
/* What faults do to it, and what frees it. */
void sim_serve_restart(struct sim_server *, bool keep);
void sim_serve_flush(struct sim_server *);
void sim_serve_evict(struct sim_server *, int name);
void sim_serve_backup(struct sim_server *);
/* False: there is no backup. */
bool sim_serve_has_backup(const struct sim_server *);
void sim_serve_restore(struct sim_server *);
void sim_serve_set_fault(struct sim_server *, enum sim_redis_fault);
/* renamed: the server does not know the command; else it is denied. */
void sim_serve_deny(struct sim_server *, const char *command, bool renamed);
void sim_serve_heal(struct sim_server *);
void sim_serve_free(struct sim_server *);

/* net.c */
/* Takes what the engine wants sent. */
void sim_net_drive(struct sim_world *, int client);
/* keen.c: how keen that client is on asking without a script. */
void sim_keen(const struct sim_world *, int client);
/* True: the event's client hears *ret. */
bool sim_net_event(struct sim_world *, const struct sim_event *,
                   struct snib__input *ret);
/* What servers have to say goes on its way. */
void sim_net_flush(struct sim_world *);
void sim_net_break(struct sim_world *, int client, int conn);
void sim_net_break_all(struct sim_world *, int node);
void sim_net_drop_client(struct sim_world *, int client);

/* work_lease.c: leases of two lengths, and renewals by hand */
void sim_lease_draw(struct sim_options *);
/* The lease that a caller asks for, in ms. */
int64_t sim_lease_ask(struct sim_world *);
/* True: the owner's event was for a renewal. */
bool sim_lease_renew(struct sim_world *, int client, int owner);

/* work_keep.c: clients that keep what their owners release */
void sim_keep_draw(struct sim_options *);
/* For how long the grant of this acquire is to be kept, in ms. */
uint16_t sim_keep_ask(struct sim_world *);

/* work_force.c: forced releases, and callers that spin */
enum sim_spinner { SIM_QUEUES, SIM_SPINS_ALWAYS, SIM_SPINS_OR_QUEUES };
void sim_force_draw(struct sim_options *);
/* A client begins: does it spin? */
void sim_force_begin(struct sim_world *, int client);
/* Deny channels, also when all else is healed. */
void sim_force_deafen(struct sim_world *);
bool sim_spin_ask(struct sim_world *, int client, struct sim_owner *);
/* Something was granted at the server: somebody may force-release it soon. */
void sim_force_soon(struct sim_world *, int name);
void sim_force_now(struct sim_world *, int client, int name);
void sim_force_told(struct sim_world *, int client, struct snib__direct *);
/* An owner has entered: which grant is that, and was it force-released
 * already? */
void sim_force_entered(struct sim_world *, int client, int owner, bool more);

/* rare.c: worlds of rare trouble where no script is needed */
void sim_rare_draw(struct sim_options *);
/* foreign.c: somebody else writes under the locks' keys; and its remedies */
void sim_foreign(struct sim_world *, const struct sim_fault *);
/* A server removes what is over, asked for or not; the model only what is asked
 * for. */
void sim_foreign_expire(struct sim_world *);
/* A forced release of that name by that client was answered. */
void sim_foreign_forced(struct sim_world *, int client, int name, snib_err);
/* May a caller that asked then be told that something there is not ours? */
bool sim_foreign_told(const struct sim_world *, int name, int64_t asked_at);
void sim_foreign_heal(struct sim_world *);

/* witness.c: worlds in which each client has a witness */
void sim_witness_draw(struct sim_options *);
/* A life of a client begins; it has its id. */
void sim_witness_start(struct sim_world *, int client);
void sim_witness_knows(struct sim_world *, int client);
/* Something has happened to the process: its witness looks. */
void sim_witness_looks(struct sim_world *, int client);
/* The process is over, and the client has its next life. */
void sim_witness_crashed(struct sim_world *, int client);
void sim_witness_event(struct sim_world *, const struct sim_event *);
/* Is this client a witness? After a step of one. */
bool sim_is_witness(int client);
void sim_witness_after(struct sim_world *, int client);
/* Has each finished with the lives that are over? */
bool sim_witnesses_idle(const struct sim_world *);
void sim_witnesses_free(struct sim_world *);
/* All that have connections. */
static inline int sim_peers(const struct sim_world *w)
{
    return w->opt.witness ? SIM_CLIENTS : w->opt.clients;
}

/* work_kinds.c: what owners do with other locks than plain mutexes */
void sim_kinds_ask(struct sim_world *, struct sim_owner *,
                   struct snib__acquire_spec *);
bool sim_kinds_reenters(const struct sim_owner *);
/* Change the params, now and then. */
void sim_kinds_start(struct sim_world *, int client);
/* Upgrade, nested read, downgrade. True: the owner's event was for that. */
bool sim_kinds_nest(struct sim_world *, int client, int owner);
void sim_kinds_told(struct sim_world *, int client, int owner, uint8_t news);
void sim_params_told(struct sim_world *, int client, struct snib__direct *);
void sim_kinds_open(struct sim_world *, int client);
void sim_kinds_draw(struct sim_options *);

/* work_circles.c: locks inside locks, in any order */
void sim_circles_draw(struct sim_options *);
/* Is this name a plain mutex, in a world where names differ? */
bool sim_circles_plain(const struct sim_world *, int name);
/* True: the owner's event was for that. */
bool sim_circles_nest(struct sim_world *, int client, int owner);
/* An event of an owner that waits inside. */
void sim_circles_meanwhile(struct sim_world *, int client, int owner);
/* True: the acquisition is not the owner's first. */
bool sim_circles_told(struct sim_world *, int client, int owner,
                      struct snib__acquisition *, uint8_t news);

/* work_many.c, many.c: several names as one */
/* always: in every world, not in some only. */
void sim_many_draw(struct sim_options *, bool always);
/* Begin with several names, by chance. False: the owner takes one name. */
bool sim_many_start(struct sim_world *, int client, int owner);
/* False: it is no longer about several. */
bool sim_many_event(struct sim_world *, int client, int owner);
void sim_many_told(struct sim_world *, int client, int owner,
                   struct snib__acquisition *, uint8_t news);
/* The index of the owner that has the acquisition of its k-th name. */
int sim_part(const struct sim_world *, int owner, int k);

/* direct.c, work_values.c, work_inspect.c: what owners do besides locking */
void sim_directs_draw(struct sim_options *);
void sim_directs_start(struct sim_world *);
void sim_directs_end(struct sim_world *);
void sim_directs_stop(struct sim_world *, int client);
/* An owner has nothing to do. True: it makes a direct request instead of
 * locking. */
bool sim_direct_start(struct sim_world *, int client, int owner);
void sim_direct_event(struct sim_world *, int client, int owner);
void sim_direct_told(struct sim_world *, struct snib__direct *);
void sim_directs_step(struct sim_world *, const struct sim_seen *);
/* Just after a fault: which values it cost. */
void sim_directs_fault(struct sim_world *, const struct sim_fault *);

/* work.c */
void sim_owner_event(struct sim_world *, int client, int owner);
void sim_owner_told(struct sim_world *, int client, struct snib__acquisition *,
                    uint8_t news);
bool sim_work_done(const struct sim_world *);

/* client.c */
void sim_client_start(struct sim_world *, int client);
/* Only opens its engine. False: the world has failed. */
bool sim_client_open(struct sim_world *, int client);
void sim_client_stop(struct sim_world *, int client);
void sim_client_after(struct sim_world *, int client); /* after every step */
void sim_client_input(struct sim_world *, int client,
                      const struct snib__input *);

/* faults.c */
/* The process of a client is over; a new one takes its place. */
void sim_crash(struct sim_world *, int client);
void sim_fault_apply(struct sim_world *, int index);
/* The promotion of that fault comes about. */
void sim_promote(struct sim_world *, int index);
void sim_heal(struct sim_world *);

/* watch.c: a server has done a step. */
void sim_watch(struct sim_world *, const struct sim_act *);
/* Callers may have met a semaphore of this size. */
void sim_grow(struct sim_world *, int64_t size);

/* world.c */
struct sim_lua;
/* Run one world to its end. True: all theorems held. */
bool sim_run(struct sim_world *, const struct sim_options *, struct sim_lua *,
             FILE *trace);

#endif
