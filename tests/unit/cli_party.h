/* tests/unit/cli_party.h — somebody at a lock, as commands are shown him. */
#ifndef SNIB_TESTS_CLI_PARTY_H
#define SNIB_TESTS_CLI_PARTY_H

#include "snib.h"
#include "snib/inspect.h"

static inline struct snib_party party_since(const char *host, int64_t since_ms)
{
    return (struct snib_party){.client_id = "0a",
                               .host = host,
                               .user = "",
                               .program = "",
                               .reason = "",
                               .since_ms = since_ms,
                               .left_ms = 5000,
                               .permits = 1,
                               .request = "",
                               .holding = "",
                               .slot = -1};
}

#endif
