/* store/file/answer.c — what a request is told that could not be done. */
#include "store/file/internal.h"

#include <errno.h>
#include <sched.h>

#include "base/error.h"

static void answer_refuse(struct snib__request *r, snib_err err)
{
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err = err;
}

void snib__file_no_token(const struct snib__file *self, struct snib__request *r)
{
    answer_refuse(r, snib__fail(r->said.reterr, SNIB_ERR_CORRUPT,
                                "in %s the last token of this lock, or what a "
                                "waiter has seen, is not a token; snib "
                                "force-release begins it anew",
                                self->place.path));
}

static snib_err answer_full(const struct snib__file *self,
                            struct snib_error *reterr)
{
    const char *path = self->place.path;
    int e = self->map.full;
    if (e == EFBIG) {
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "lock file %s is as large as it may become "
                          "(ulimit -f, or %zu MiB); nothing was changed",
                          path, self->map.limit >> 20);
    }
    if (e == ENOSPC || e == EDQUOT || !e) {
        return snib__fail(reterr, SNIB_ERR_STORE,
                          "no space left for lock file %s; nothing was "
                          "changed",
                          path);
    }
    return snib__fail(reterr, SNIB_ERR_STORE,
                      "lock file %s: no room can be made: %s; nothing was "
                      "changed",
                      path, strerror(e));
}

void snib__file_fail(struct snib__file *self, struct snib__request *r,
                     snib_err err)
{
    switch ((int)err) {
    case SNIB_ERR_OK:
        answer_refuse(r, answer_full(self, r->said.reterr));
        break;
    case SNIB_ERR_CORRUPT:
        answer_refuse(r,
                      snib__fail(r->said.reterr, err,
                                 "lock file %s is damaged; move it away when "
                                 "nobody holds a lock",
                                 self->place.path));
        break;
    case SNIB_ERR_CONFIG:
        answer_refuse(r, snib__fail(r->said.reterr, err,
                                    "this host's clock is beyond the range of "
                                    "tokens"));
        break;
    default:
        answer_refuse(r, snib__fail_plain(r->said.reterr, err));
        break;
    }
}

/* Others wait for who gives back: it does not look at the path first. What it
 * must not touch it asks the file. */
static void answer_look(struct snib__file *self, const struct snib__request *r)
{
    uint64_t size = 0;
    bool back = r->verb == SNIB__RELEASE || r->verb == SNIB__CANCEL;
    if (!back) {
        self->looked = self->begun;
        self->moved = snib__place_moved(&self->place, &size);
    }
    if (back || self->moved) {
        size = snib__map_size(&self->map);
    }
    (void)snib__map_is_cut(&self->map, size);
}

bool snib__file_moved(struct snib__file *self, struct snib__request *r)
{
    self->begun = snib__host_coarse();
    if (snib__between(self->looked, self->begun).ns >= SNIB__FILE_LOOK_NS) {
        answer_look(self, r);
    }
    if (self->map.cut) {
        answer_refuse(r, snib__fail(r->said.reterr, SNIB_ERR_STORE,
                                    "lock file %s was cut off while in use; "
                                    "stop all programs that use it, and remove "
                                    "it",
                                    self->place.path));
        return true;
    }
    bool there =
        !self->moved || snib__host_leads_to(self->place.given, self->place.dir);
    if (!there) {
        answer_refuse(r,
                      snib__fail(r->said.reterr, SNIB_ERR_STORE,
                                 "%s leads elsewhere by now (a link in it was "
                                 "switched or removed): others do not see lock "
                                 "file %s; start this program anew",
                                 self->place.given, self->place.path));
    } else if (self->moved) {
        answer_refuse(r,
                      snib__fail(r->said.reterr, SNIB_ERR_STORE,
                                 "lock file %s was removed or replaced while "
                                 "in use; start this program anew",
                                 self->place.path));
    }
    return self->moved;
}

bool snib__file_again(struct snib__file *self, struct snib__request *r,
                      uint32_t n)
{
    if (n % SNIB__FILE_LOST_MANY) {
        return true;
    }
    sched_yield();
    if (!snib__reached(snib__host_now(), r->exec.patience)) {
        return true;
    }
    answer_refuse(r, snib__fail(r->said.reterr, SNIB_ERR_STORE,
                                "lock file %s: others change this lock without "
                                "end",
                                self->place.path));
    return false;
}
