#ifndef SNIB_SYS_H
#define SNIB_SYS_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

SNIB_API int snib_err_exit(snib_err);

#define SNIB_REQUEST_TEXT 33

SNIB_API SNIB_CHECK snib_err snib_grant_request(struct snib_lock *,
                                                struct snib_grant,
                                                char *ret_text, size_t size,
                                                struct snib_error *reterr);

#define SNIB_GRANT_TEXT    96
#define SNIB_IDENTITY_TEXT 33

SNIB_API SNIB_CHECK snib_err snib_grant_export(struct snib_lock *,
                                               struct snib_grant,
                                               char *ret_text, size_t size,
                                               struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_grant_identity(const char *text,
                                                 char *ret_identity,
                                                 size_t size,
                                                 struct snib_error *reterr);

SNIB_API snib_err snib_grant_abandon(struct snib_lock *, struct snib_grant,
                                     struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_grant_adopt(struct snib_lock *,
                                              const char *text,
                                              int64_t lease_ms,
                                              struct snib_grant *ret,
                                              struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
