/* core/ring.h — rendezvous hashing: the arithmetic of snib/ring.h.
 *
 * Every member has a score for a key, and the highest score owns it. So a
 * member that leaves gives away exactly what it owned, and a member that joins
 * takes only what it owns from then on: nothing else moves. (Thaler and
 * Ravishankar, "Using name-based mappings to increase hit rates", 1998.)
 *
 * The numbers are part of the interface: programs in other languages and later
 * releases must agree on owners. docs/RING.md has them as text; tests
 * compare. */
#ifndef SNIB__RING_H
#define SNIB__RING_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a of 64 bits, then snib__ring_mix. */
uint64_t snib__ring_hash(const void *bytes, size_t size);
/* The finaliser of splitmix64: a bijection in which every bit of the input
 * flips half of the output. */
uint64_t snib__ring_mix(uint64_t);
/* The best of the member's `weight` (>= 1) draws for a key. */
uint64_t snib__ring_score(uint64_t member_hash, uint32_t weight,
                          uint64_t key_hash);

#endif
