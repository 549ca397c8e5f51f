/* text.h — foreign bytes made fit to show.
 *
 * Lock names, reasons, host and user names come from other people. A terminal
 * would obey an escape sequence in them, a newline would forge a line of a log,
 * a separator would forge an entry of an environment variable. So foreign text
 * is shown only through one of these functions.
 */
#ifndef SNIB_CLI_TEXT_H
#define SNIB_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A bounded text under construction: what does not fit is cut, the NUL always
 * fits. No allocation. */
struct text {
    char *bytes;
    size_t size; /* bytes there, NUL included; > 0 */
    size_t used;
    bool cut;
};

#define TEXT_IN(array)                                                         \
    {                                                                          \
        .bytes = (array), .size = sizeof(array)                                \
    }

void text_add(struct text *, const char *);
void text_addf(struct text *, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Controls (C0, DEL, C1), invalid UTF-8 and bidi overrides as \xNN. */
void text_add_shown(struct text *, const char *bytes, size_t size);

/* Everything but letters, digits and _ - . / + as %NN. */
void text_add_percent(struct text *, const char *bytes, size_t size);

/* Undo percent; false: malformed, or it does not fit. *ret_size without NUL. */
bool text_unpercent(const char *from, size_t from_size, char *to,
                    size_t to_size, size_t *ret_size);

/* Write all of it, in as many pieces as it takes; 0 or errno. */
int text_write(int fd, const char *bytes, size_t size);

/* Length of the valid UTF-8 sequence at s (1 to 4), 0: not valid. */
size_t text_utf8(const char *s, size_t size);

#endif
