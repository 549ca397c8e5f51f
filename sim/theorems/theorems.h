/* sim/theorems/theorems.h — what is promised, and when it is checked. Each
 * theorem is a file here; it reports by sim_fail that it does not hold.
 * Included by sim/world.h, whose types these are about. */
#ifndef SIM_THEOREMS_H
#define SIM_THEOREMS_H

#include "sim/world.h"

/* Checked after every event, after a command, now and then, or at the end. */
void theorem_exclusion(struct sim_world *);
void theorem_token_rises(struct sim_world *, int name, int64_t token);
void theorem_token_given(struct sim_world *, const struct sim_seen *);
void theorem_loss_is_told(struct sim_world *);
void theorem_told_stands(struct sim_world *);
void theorem_no_waiter_beside_a_free_lock(struct sim_world *);
void theorem_call_ends_by_its_limit(struct sim_world *);
void theorem_granted_hear_of_it(struct sim_world *);
void theorem_fence_loses_nothing(struct sim_world *);
void theorem_nothing_left_behind(struct sim_world *);
/* The key of the holders has a time to live after every step. */
void theorem_holders_expire(struct sim_world *, int name);
void theorem_first_come_first_served(struct sim_world *,
                                     const struct sim_seen *);
/* After every step on a name: before it, and after it. */
void theorem_nobody_is_passed(struct sim_world *, int name,
                              const struct sim_book *was,
                              const struct sim_book *is);
/* A position in the queue is cancelled only when no local thread wants it. */
void theorem_no_needless_cancel(struct sim_world *, const struct sim_seen *);
/* After every step on a name. held: what it leaves behind. */
void theorem_served_promptly(struct sim_world *, int name, bool held);
void theorem_refusal_is_true(struct sim_world *, int client, int owner,
                             snib_err);
void theorem_unwanted_pushed(struct sim_world *, const struct sim_seen *);
void theorem_unwanted_ended(struct sim_world *, const struct sim_seen *);
void theorem_unwanted_is_given_back(struct sim_world *);
/* After each step of a client. */
void theorem_another_server_is_a_risk(struct sim_world *, int client);
/* Just after the client was told of a jump. */
void theorem_jump_puts_at_risk(struct sim_world *, int client);
void theorem_no_needless_loss(struct sim_world *, int name,
                              const struct snib__acquisition *);

/* Worlds of recovery. A script's answer, or a message; when it is over, of one
 * epoch; a loss is told. */
void theorem_nobody_new(struct sim_world *, const struct sim_seen *);
void theorem_recovery_ends(struct sim_world *, int64_t was, int64_t is);
void theorem_holders_reclaim(struct sim_world *, int name,
                             const struct snib__acquisition *);
/* Asked when a call of this owner is refused with LOST. */
bool theorem_has_lost(const struct sim_world *, int client, int owner);

/* Mutexes that are taken without a script: an id that the mark gives; a
 * tombstone is written, for so long; at the end; BUSY was told to who tries. */
void theorem_mark_is_near(struct sim_world *, int64_t ms, int64_t now_ms);
void theorem_tombstones_end(struct sim_world *, int64_t ms);
void theorem_packets_go_on(struct sim_world *);
void theorem_busy_ends(struct sim_world *, int name);

/* Worlds of a quorum. After every script at one of its servers: */
void theorem_own_grant_only(struct sim_world *, int node, int name,
                            const struct sim_stand *was,
                            const struct sim_seen *);
/* Has a majority forgotten that grant, so that the fence alone protects? */
bool theorem_is_forgotten(const struct sim_world *, int name,
                          const struct snib__acquisition *);
/* Does that grant stand on a majority of sound servers, so that faults at the
 * others cannot hurt it? */
bool theorem_stands_firm(const struct sim_world *, int name,
                         const struct snib__acquisition *);
void theorem_quorum_token(struct sim_world *, int client, int owner);
void theorem_quorum_now_and_then(struct sim_world *);

/* Worlds of other kinds. At the server after every script: */
void theorem_readers_and_writers(struct sim_world *, const struct sim_step *);
void theorem_permits_fit(struct sim_world *, const struct sim_step *);
void theorem_slots(struct sim_world *, const struct sim_step *);
void theorem_served_in_order(struct sim_world *, const struct sim_step *);
void theorem_tokens_of_kinds(struct sim_world *, const struct sim_step *);
void theorem_who_fits_is_served(struct sim_world *, const struct sim_step *);
void theorem_nothing_ends_early(struct sim_world *, const struct sim_step *);
void theorem_dead_are_dropped(struct sim_world *, const struct sim_step *);
void theorem_parties_meet(struct sim_world *, const struct sim_step *);
void theorem_parties_counted(struct sim_world *, const struct sim_step *);
void theorem_gate_is_closed(struct sim_world *, const struct sim_step *);
void theorem_counts_down_once(struct sim_world *, const struct sim_step *);
void theorem_one_upgrade(struct sim_world *, const struct sim_step *);
/* At the clients: */
void theorem_permits_held(struct sim_world *);
void theorem_slots_told(struct sim_world *);
void theorem_slots_held(struct sim_world *);
void theorem_token_entered(struct sim_world *, int name, int kind,
                           int64_t token);
bool theorem_refusal_of_kind(const struct sim_world *, const struct sim_owner *,
                             snib_err);
/* … after every event; when an owner's earlier requests are over; when a wait
 * has ended. */
void theorem_parties_ask(struct sim_world *);
void theorem_party_sits_down(struct sim_world *, int client, int owner);
void theorem_who_was_counted_is_told(struct sim_world *, int client, int owner,
                                     const struct snib__acquisition *);
/* Now and then: */
void theorem_nobody_sleeps_beside_room(struct sim_world *);

/* Releases. An owner is about to give back its first grant: */
void theorem_releases(struct sim_world *, int client, int owner);
/* The release has ended with this error. asked: the store was asked. */
void theorem_release_is_true(struct sim_world *, int client, int owner,
                             snib_err, bool asked);
/* … and what the server answered to any release or cancel. */
void theorem_release_seen(struct sim_world *, const struct sim_seen *);

/* Leases. A caller is shown a new deadline: */
void theorem_lease_shown(struct sim_world *, int client, int owner,
                         const struct sim_grant *, int64_t deadline);
/* A renewal has come to the server. */
void theorem_renewal_seen(struct sim_world *, const struct sim_seen *);
/* An owner is about to renew by hand, for ms (0: as before); it is told the
 * outcome; now and then: was it told? */
void theorem_renews(struct sim_world *, int client, int owner, int64_t ms);
void theorem_renewed(struct sim_world *, int client, int owner, snib_err);
void theorem_renewals_are_answered(struct sim_world *);
/* An acquisition's state has changed: do the words for it fit? */
void theorem_words_fit(struct sim_world *, int client,
                       const struct snib__acquisition *);

/* Nothing stays of a refusal. After every event: by which request does each
 * owner wait? */
void theorem_notes_waits(struct sim_world *);
/* A wait was refused with this error. */
void theorem_refused_is_gone(struct sim_world *, int client, int owner,
                             snib_err);
/* Now and then; and at the end, when all cancels have been answered. */
void theorem_refused_leave_nothing(struct sim_world *, bool at_end);

/* Several locks as one. At the server, before the books are brought up to date,
 * and for every other acquire: */
void theorem_all_or_none(struct sim_world *, const struct sim_act *);
void theorem_travel_as_asked(struct sim_world *, const struct sim_act *,
                             const struct sim_seen *);
/* All of a batch are answered: */
void theorem_batch_answered(struct sim_world *, int client, int owner);
/* Worlds of circles. After every event, every command, a refusal: */
void theorem_circles(struct sim_world *);
void theorem_looks_are_few(struct sim_world *, const struct sim_seen *);
void theorem_deadlock_is_true(struct sim_world *, int client, int owner);
/* Worlds with forced releases. At the server after every script: */
void theorem_force_ends_all(struct sim_world *, const struct sim_step *);
void theorem_what_was_forced_stays_ended(struct sim_world *,
                                         const struct sim_step *);
/* … and what a renewal or a release is told. */
void theorem_force_is_said(struct sim_world *, const struct sim_seen *);
/* The entry of that grant, if it was force-released; or NULL. */
struct sim_forced *sim_forced_of(struct sim_world *, int name, const char *id);
/* Is there an owner of that client that does not know yet that its grant was
 * force-released? Other owners wait behind it, at no position of the server's
 * queue. */
bool sim_forced_here(const struct sim_world *, int client, int name);
/* At the clients: */
void theorem_forced_are_told(struct sim_world *);
/* An owner is told that it has lost the lock. */
void theorem_loss_by_force(struct sim_world *, int client, int owner,
                           bool more);
/* An owner released a grant that may have been force-released. */
void theorem_release_after_force(struct sim_world *, int client, int owner,
                                 snib_err, bool asked);
/* Are the callers' and the background thread's connections sound, and the
 * server, and is nothing held up by earlier slowness? */
bool sim_is_sound(const struct sim_world *, int client);

/* Worlds of witnesses: one is through; and now and then. */
void theorem_witness_leaves_nothing(struct sim_world *);

/* Is there a connection that nobody has used since it went dead? */
bool sim_unnoticed(const struct sim_world *);
/* Was every fault over, and noticed, by then? */
bool sim_was_calm(const struct sim_world *, int64_t since);

/* Does the client hear what the server says to it? */
bool sim_listens(const struct sim_world *, int client);

/* Worlds in which clients keep what was released. What the client is about to
 * hear, what the store gave, who entered without a request, and after every
 * event: */
void theorem_keeper_hears(struct sim_world *, int client,
                          const struct snib__input *);
void theorem_keeper_given(struct sim_world *, const struct sim_seen *);
void theorem_keeper_enters(struct sim_world *, int client, int owner);
void theorem_keepers(struct sim_world *);
/* Does the client keep anything that nobody holds? */
bool sim_keeps(const struct sim_world *, int client);

/* Worlds in which callers spin. At the server after every script: */
void theorem_spin_step(struct sim_world *, const struct sim_step *);
/* Now and then: */
void theorem_spin(struct sim_world *);

#endif
