/* core/about.h — who stands behind a claim, as one line of text.
 *
 * "host=ci-7&pid=4312&user=anna&program=backup&reason=release%204.2&since=…":
 * percent-encoded values, at most SNIB__ABOUT_MAX bytes. Stores keep it as
 * opaque bytes and hand it back in inspect. */
#ifndef SNIB__ABOUT_H
#define SNIB__ABOUT_H

#include "base/buf.h"

#define SNIB__ABOUT_MAX  512
#define SNIB__ABOUT_HELD 8

struct snib__about {
    char host[65], user[33], program[65], reason[129];
    int64_t pid, start; /* start: /proc/PID/stat field 22, 0: not known */
    int64_t since_ms;   /* Unix time */
    int64_t owner;      /* within its process; 0: not known */
    /* What the owner held when it began to wait: the first halves of the
     * requests' ids. They show others who waits for whom (core/waits.h). */
    uint64_t held[SNIB__ABOUT_HELD];
    uint32_t held_count;
    /* So many of them, the last ones, belong to other clients: processes above
     * this one hold them and do nothing but wait for it. */
    uint32_t above_count;
    /* The grant outlives its process (a command outlives its holder; a fixed
     * lease was exported): do not take the lock over merely because the pid is
     * gone. */
    bool leashed;
};

void snib__about_write(const struct snib__about *, struct snib__buf *out);

/* The beginning of such a line, host to program, which is the same in all lines
 * of a client. */
struct snib__about_head {
    char text[SNIB__ABOUT_MAX];
    uint32_t size, left; /* what words may still take */
};

void snib__about_head(const struct snib__about *, struct snib__about_head *ret);
/* As snib__about_write, of one with this head: the bytes are the same. */
void snib__about_write_on(const struct snib__about_head *,
                          const struct snib__about *, struct snib__buf *out);
/* Skips unknown keys and leaves bad values empty. */
void snib__about_read(const void *text, size_t size, struct snib__about *ret);

#endif
