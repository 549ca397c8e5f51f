/* About lines: anything is read; what was read is written and read again. */
#include "fuzz.h"

#include "core/about.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snib__about a, b;
    struct snib__buf text;
    snib__about_read(data, size, &a);
    MUST(memchr(a.host, 0, sizeof a.host) && memchr(a.user, 0, sizeof a.user));
    MUST(memchr(a.program, 0, sizeof a.program));
    MUST(memchr(a.reason, 0, sizeof a.reason));
    MUST(a.pid >= 0 && a.start >= 0 && a.since_ms >= 0);

    snib__buf_init(&text, SNIB__ABOUT_MAX);
    snib__about_write(&a, &text);
    MUST(!text.failed);
    snib__about_read(snib__buf_bytes(&text), snib__buf_size(&text), &b);
    MUST(a.pid == b.pid && a.start == b.start && a.since_ms == b.since_ms);
    MUST(a.leashed == b.leashed);
    /* Words may be cut, never changed. */
    MUST(strncmp(a.host, b.host, strlen(b.host)) == 0);
    MUST(strncmp(a.user, b.user, strlen(b.user)) == 0);
    MUST(strncmp(a.program, b.program, strlen(b.program)) == 0);
    MUST(strncmp(a.reason, b.reason, strlen(b.reason)) == 0);
    snib__buf_free(&text);
    return 0;
}
