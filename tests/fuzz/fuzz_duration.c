/* Durations of the command line: parsed or refused with a reason. */
#include "fuzz.h"

#include "cli/words/duration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = string_of(data, size);
    for (unsigned allowed = 0; allowed < 4; allowed++) {
        int64_t ms = -7;
        const char *why = NULL;
        if (duration_parse(text, allowed, &ms, &why)) {
            char shown[DURATION_TEXT_MAX];
            MUST(ms != 0 || (allowed & DURATION_ZERO_OK));
            MUST(ms != DURATION_FOREVER || (allowed & DURATION_FOREVER_OK));
            MUST(ms >= DURATION_FOREVER && ms <= DURATION_MAX_MS);
            if (ms >= 0) {
                duration_text(ms, shown);
                MUST(memchr(shown, 0, sizeof shown) && shown[0]);
            }
        } else {
            MUST(why && why[0]);
        }
    }
    free(text);
    return 0;
}
