/* store/sql/way.c — which way a request may take (sql.h), and with which others
 * in one step; by what is in the requests alone. */
#include "store/sql/sql.h"

bool snib__sql_changes_claims(const struct snib__request *r)
{
    switch (r->verb) {
    case SNIB__ACQUIRE:
    case SNIB__RENEW:
    case SNIB__RELEASE:
    case SNIB__CANCEL:
    case SNIB__FORCE:
    case SNIB__PARAMS:
        return true;
    case SNIB__INSPECT:
    case SNIB__LIST:
    case SNIB__DOCTOR:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY:
        break;
    }
    return false;
}

static bool way_excludes(const struct snib__request *r)
{
    return r->acquire.kind == SNIB_KIND_MUTEX ||
           r->acquire.kind == SNIB_KIND_WRITE;
}

static snib__sql_short way_acquires(const struct snib__request *r)
{
    bool plain = !r->token && !r->resent && !r->batch.number &&
                 !r->acquire.placed && !r->acquire.upgrade_of[0] &&
                 !r->acquire.upgrade_of[1];
    if (!way_excludes(r)) {
        return SNIB__SQL_NONE;
    }
    if (r->said.answer == SNIB__QUEUED) {
        return SNIB__SQL_CONFIRM;
    }
    return plain ? SNIB__SQL_ACQUIRE : SNIB__SQL_NONE;
}

snib__sql_short snib__sql_way_short(const struct snib__request *r)
{
    if (r->verb == SNIB__ACQUIRE) {
        return way_acquires(r);
    }
    if (r->verb == SNIB__RENEW && !r->renew.only_asks && !r->floor) {
        return SNIB__SQL_RENEW;
    }
    return r->verb == SNIB__RELEASE && !r->resent ? SNIB__SQL_RELEASE
                                                  : SNIB__SQL_NONE;
}

bool snib__sql_way_twins(struct snib__request *const r[], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (snib__name_same(r[i]->name, r[j]->name)) {
                return true;
            }
        }
    }
    return false;
}

static uint32_t way_batch_of(const struct snib__request *r)
{
    return r->verb == SNIB__ACQUIRE && !r->resent ? r->batch.number : 0;
}

bool snib__sql_way_joins(struct snib__request *const r[], uint32_t count,
                         const struct snib__request *one)
{
    if (!count) {
        return true;
    }
    const struct snib__request *first = r[0];
    if (first->verb == SNIB__INSPECT && one->verb == SNIB__INSPECT) {
        return count < SNIB__SNAPSHOT_MAX;
    }
    if (count == SNIB__SNAPSHOT_MAX || !snib__sql_changes_claims(first) ||
        !snib__sql_changes_claims(one) ||
        way_batch_of(one) != way_batch_of(first)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (snib__name_same(r[i]->name, one->name) &&
            (snib__sql_way_short(r[i]) != SNIB__SQL_RENEW ||
             snib__sql_way_short(one) != SNIB__SQL_RENEW)) {
            return false;
        }
    }
    return true;
}
