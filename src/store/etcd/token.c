/* store/etcd/token.c — tokens by clocks that nobody vouches for.
 *
 * etcd tells no wall clock, so a token is given the time of the client that draws
 * it: that is what makes it rise when the keys were restored from a backup, or
 * were forgotten. It rises without any clock, by the last one of the name. So a
 * clock that is wrong must not do more harm than that a token is a little high:
 *
 *   - it is read as it is set now, not as it was when the client was opened
 *   - it carries a token no further than a year past the last one: a backup is
 *     hardly older than that
 *   - what is later than the year 2109 is taken for no clock, so that the half of
 *     all tokens that is above it is left for counting
 *   - a token that is a day ahead of the own clock is `far`: no token of another
 *     name is made higher by it */
#include "store/etcd/etcd_i.h"

#define TOKEN_MS   INT64_C(1024)
#define TOKEN_DAY  (INT64_C(86400000) * TOKEN_MS)
#define TOKEN_YEAR (366 * TOKEN_DAY)
#define TOKEN_HALF (SNIB__TOKEN_END / 2)

int64_t snib__etcd_token_clock(int64_t clock, int64_t last)
{
    bool known = snib__is_token(last) && last > 0;
    if (clock >= TOKEN_HALF) {
        return 0;
    }
    return known && clock > last + TOKEN_YEAR ? last + TOKEN_YEAR : clock;
}

bool snib__etcd_token_far(const struct snib__etcd *e, snib_instant now,
                          int64_t token)
{
    int64_t ms = snib__etcd_wall(e, now).ns / 1000000;
    return token / TOKEN_MS > ms + TOKEN_DAY / TOKEN_MS;
}
