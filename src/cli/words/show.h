/* show.h — views of locks, as JSON or for people. */
#ifndef SNIB_CLI_SHOW_H
#define SNIB_CLI_SHOW_H

#include <jansson.h>

#include "cli/words/kinds.h"
#include "snib.h"
#include "snib/inspect.h"

/* Call before the others: from here on it is noticed when JSON runs out of
 * memory. */
void show_begin(void);
/* {"schema":1}, to be filled and printed. */
json_t *show_json_answer(void);
/* A JSON string for any bytes: what is not valid UTF-8 becomes U+FFFD. */
json_t *show_json_text(const char *bytes, size_t size);
/* Sets "name", and "name_hex" where the text cannot show the bytes. */
void show_json_name(json_t *object, const char *name, size_t size);
json_t *show_json_party(const struct snib_party *, bool holder);
/* Add the lock's fields to an object. */
void show_json_view(json_t *object, const struct snib_view *,
                    const struct kind_params *);
/* Print it and give up the reference. Prints nothing when a part of it found no
 * memory (show_end tells). */
void show_json_print(json_t *);
/* A block of lines for people. */
void show_view(const struct snib_view *, const struct kind_params *);
/* HOST/PID (USER) running PROGRAM, and what it shares; no newline. */
void show_party(struct text *, const struct snib_party *);
/* Flush stdout. CLI_OK, or CLI_INTERNAL after saying, once, that it failed or
 * that there was no memory for the JSON. */
int show_end(void);
/* Is this party this user on this host? (For root, who may be several people:
 * also of the same session.) */
bool show_is_me(const struct snib_party *);

#endif
