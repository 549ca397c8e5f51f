/* store/sqlite/open.c — an instance is opened and freed; the store's table. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/sqlite/internal.h"

static void open_free(void *instance)
{
    struct snib__sqlite *self = instance;
    if (!self) {
        return;
    }
    bool forked = self->host.pid != getpid();
    snib__forked_close(self);
    snib__notifier_free(&self->notifier, &self->lockfile, forked);
    snib__lockfile_close(&self->lockfile);
    snib__free(self);
}

snib_err snib__sqlite_open_on(const struct snib__store_config *config,
                              const struct snib__host *host, void **ret,
                              struct snib_error *reterr)
{
    struct snib__sqlite *self;
    const struct snib__url *url = config->url;
    snib_err err = snib__host_fits(host, reterr);
    *ret = NULL;
    if (!err && url->queries) {
        err = snib__fail(reterr, SNIB_ERR_USAGE,
                         "sqlite: does not know ?%s=", url->query[0].key);
    }
    if (!err && snib__url_has_server(url)) {
        err = snib__fail(reterr, SNIB_ERR_USAGE,
                         "sqlite: has no host; write sqlite:/path/to/file");
    }
    if (err) {
        return err;
    }
    /* The arrays of notifications (50 KB, a page fault for each 4) are not
     * zeroed: they are written before they are read. */
    self = snib__realloc(NULL, sizeof *self);
    if (!self) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    memset(self, 0, offsetof(struct snib__sqlite, notify));
    snib__link_init(&self->link);
    self->host = *host;
    self->patience = config->request;
    memcpy(self->client, config->client, sizeof self->client);
    if (!snib__notifier_init(&self->notifier)) {
        snib__free(self);
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib_duration opening = snib__ms(SNIB__SQLITE_OPEN_MS);
    if (self->patience.ns > opening.ns) {
        opening = self->patience;
    }
    err = snib__lockfile_open(&self->lockfile, url->path ? url->path : "", host,
                              reterr);
    err = err ? err : snib__forked_open(self, reterr);
    if (!err) {
        err = snib__db_open(&self->db, &self->lockfile, host, opening, reterr);
        /* One process in 64 also cleans: enough where all are short-lived. */
        if (!err && self->client[0] % 64 == 0) {
            snib__sqlite_cleaner(self);
        }
        snib__forked_out();
    }
    if (!err && self->lockfile.is_default) {
        err = snib__shared_still(self->lockfile.path, reterr);
    }
    if (err) {
        open_free(self);
        return err;
    }
    *ret = self;
    return SNIB_ERR_OK;
}

static void open_server(void *instance, struct snib__server *ret)
{
    (void)instance;
    snprintf(ret->version, sizeof ret->version, "%s", sqlite3_libversion());
}

static snib_err open_of_url(const struct snib__store_config *config, void **ret,
                            struct snib_error *reterr)
{
    struct snib__host host;
    snib__host_read(&host);
    return snib__sqlite_open_on(config, &host, ret, reterr);
}

const struct snib__blocking_ops snib__sqlite_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "sqlite",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH,
    .open = open_of_url,
    .exec = snib__sqlite_exec,
    .notifier_fd = snib__sqlite_notifier_fd,
    .notified = snib__sqlite_notified,
    .server = open_server,
    .free = open_free,
};
