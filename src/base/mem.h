/* base/mem.h — all allocation of the library goes through here.
 *
 * Tests make the n-th allocation fail (once, or it and all later ones) and
 * count what is alive. The switches are process-wide, meant for test programs
 * linked with the static library; without them the cost is one relaxed load.
 * hiredis' own growth of its read buffer is the one allocation outside. */
#ifndef SNIB__MEM_H
#define SNIB__MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *snib__alloc(size_t size);                 /* zeroed; NULL: no memory */
void *snib__realloc(void *p, size_t size);      /* NULL: p is still good */
void snib__free(void *p);                       /* NULL allowed */
char *snib__strdup(const char *s);              /* s may be NULL: NULL */
void *snib__memdup(const void *p, size_t size); /* a NUL byte is added */
/* A text that is secret: overwritten and freed; then it is NULL. It may be
 * before. */
void snib__wipe(char **secret);

/* The nth allocation from now (1: the next) fails; 0: none. for_ever: all
 * after it too. */
void snib__mem_fail_at(int64_t nth, bool for_ever);
int64_t snib__mem_alive(void); /* blocks not yet freed */

#endif
