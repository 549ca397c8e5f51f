#ifndef SNIB_TEST_H
#define SNIB_TEST_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

SNIB_API SNIB_CHECK snib_err snib_test_advance(struct snib_client *,
                                               int64_t ms);

SNIB_API SNIB_CHECK snib_err snib_test_drop_replies(struct snib_client *,
                                                    uint32_t n);

SNIB_API SNIB_CHECK snib_err snib_test_expire(struct snib_client *,
                                              const char *name);

SNIB_API SNIB_CHECK snib_err snib_test_steal(struct snib_client *,
                                             const char *name,
                                             int64_t lease_ms);

#ifdef __cplusplus
}
#endif
#endif
