/* Rows of fields: whatever the bytes, values lie inside them. */
#include "fuzz.h"

#include "base/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snib__rec r;
    size_t total = 0;
    snib__rec_begin(&r, data, size);
    while (snib__rec_next_row(&r)) {
        while (snib__rec_next_field(&r)) {
            MUST(r.data >= data && r.data <= data + size);
            MUST(r.size <= (size_t)(data + size - r.data));
            total += r.size;
            snib__rec_value_i64(&r);
        }
    }
    MUST(total <= size);
    return 0;
}
