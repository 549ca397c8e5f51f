/* Names: any bytes go there and back; only canonical spellings come in. */
#include "fuzz.h"

#include "base/mem.h"
#include "core/name.h"

static void there_and_back(const uint8_t *data, size_t size)
{
    struct snib__name *n;
    struct snib__buf back;
    if (!size || size > SNIB_NAME_MAX) {
        return;
    }
    MUST(snib__name_new((const char *)data, size, &n, NULL) == SNIB_ERR_OK);
    snib__buf_init(&back, SNIB_NAME_MAX);
    MUST(snib__name_decode(n->safe, n->safe_size, &back));
    MUST(snib__buf_size(&back) == size);
    MUST(memcmp(snib__buf_bytes(&back), data, size) == 0);
    MUST(!strpbrk(n->safe, "{}\r\n"));
    snib__buf_free(&back);
    snib__free(n);
}

static void back_and_there(const uint8_t *data, size_t size)
{
    struct snib__name *n;
    struct snib__buf raw;
    snib__buf_init(&raw, SNIB_NAME_MAX);
    if (snib__name_decode((const char *)data, size, &raw)) {
        MUST(snib__name_new((const char *)snib__buf_bytes(&raw),
                            snib__buf_size(&raw), &n, NULL) == SNIB_ERR_OK);
        MUST(n->safe_size == size && memcmp(n->safe, data, size) == 0);
        snib__free(n);
    }
    snib__buf_free(&raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    there_and_back(data, size);
    back_and_there(data, size);
    return 0;
}
