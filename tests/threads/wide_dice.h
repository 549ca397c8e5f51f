/* wide_dice.h — a store that is a memory: and, now and then, is not. */
#ifndef THREADS_WIDE_DICE_H
#define THREADS_WIDE_DICE_H

#include "api/api.h"

const struct snib__registered *
dice_store(const struct snib__registered *memory);

#endif
