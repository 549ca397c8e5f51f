/* Names: any bytes go there and back; only canonical spellings come in. */
#include "fuzz.h"

#include "base/mem.h"
#include "core/name.h"

static void there_and_back(const uint8_t *data, size_t size)
{
    struct snib__name *n;
    char back[SNIB_NAME_MAX];
    if (!size || size > SNIB_NAME_MAX) {
        return;
    }
    MUST(snib__name_new((const char *)data, size, &n, NULL) == SNIB_ERR_OK);
    MUST(snib__name_decode(n->safe, n->safe_size, back) == size);
    MUST(memcmp(back, data, size) == 0);
    MUST(!strpbrk(n->safe, "{}\r\n"));
    snib__free(n);
}

static void back_and_there(const uint8_t *data, size_t size)
{
    struct snib__name *n;
    char raw[SNIB_NAME_MAX];
    size_t raw_size = snib__name_decode((const char *)data, size, raw);
    if (raw_size) {
        MUST(snib__name_new(raw, raw_size, &n, NULL) == SNIB_ERR_OK);
        MUST(n->safe_size == size && memcmp(n->safe, data, size) == 0);
        snib__free(n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    there_and_back(data, size);
    back_and_there(data, size);
    return 0;
}
