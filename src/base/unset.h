/* base/unset.h — a large local variable that is written before it is read.
 *
 * Builds as shipped set each local variable to zero where it comes into being,
 * so that a forgotten one holds nothing that was there before. Of a few hundred
 * bytes in a function that each acquire calls several times that takes more time
 * than what the function does. Where another function fills the whole of it
 * first, it is marked. */
#ifndef SNIB__BASE_UNSET_H
#define SNIB__BASE_UNSET_H

#if defined __has_attribute
#if __has_attribute(uninitialized)
#define SNIB__UNSET __attribute__((uninitialized))
#endif
#endif
#ifndef SNIB__UNSET
#define SNIB__UNSET
#endif

#endif
