/* store/file/open.c — an instance is opened and freed; the store's table. */
#include "store/file/internal.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/file/shared.h"

struct snib__file_hook snib__file_hook;

static const struct snib__file_shape open_shape = {
    .slots = 4096, .roots = 65536, .value_roots = 4096};

uint32_t snib__file_bucket_of(const struct snib__map *m,
                              const struct snib__name *name)
{
    uint64_t h = name->hash;
    return (uint32_t)(h ^ h >> 32) & (m->root_count - 1);
}

static void open_free(void *instance)
{
    struct snib__file *self = instance;
    if (!self) {
        return;
    }
    bool forked = self->host.pid != getpid();
    bool cut = snib__map_is_cut(&self->map, snib__map_size(&self->map));
    bool stays = cut && self->ear.running; /* nobody can wake that thread */
    if (stays) {                           /* but the kernel, one day */
        atomic_store(&self->ear.stop, true);
    }
    snib__ear_free(&self->ear, forked || stays);
    snib__map_close(&self->map, forked);
    snib__place_close(&self->place, forked);
    snib__free(self->copy.bytes);
    snib__free(self->value.bytes);
    if (!stays) {
        snib__free(self);
    }
}

static snib_err open_check(const struct snib__url *url,
                           const struct snib__host *h,
                           struct snib_error *reterr)
{
    if (url->queries) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "file: does not know ?%s=", url->query[0].key);
    }
    if (snib__url_has_server(url)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "file: has no host; write file:/path/to/file");
    }
    return snib__host_fits(h, reterr);
}

snib_err snib__file_open_on(const struct snib__store_config *config,
                            const struct snib__host *host,
                            const struct snib__file_shape *shape, void **ret,
                            struct snib_error *reterr)
{
    struct snib__file *self;
    snib_err err = open_check(config->url, host, reterr);
    *ret = NULL;
    if (err) {
        return err;
    }
    self = snib__alloc(sizeof *self);
    if (!self) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    self->host = *host;
    self->patience = config->request;
    self->place = (struct snib__place){.dir = -1, .users = -1, .fd = -1};
    self->map = (struct snib__map){.fd = -1};
    memcpy(self->client, config->client, sizeof self->client);
    if (!snib__ear_init(&self->ear)) {
        snib__free(self);
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    uint64_t key = snib__map_hash(config->client[0], config->client,
                                  sizeof config->client);
    const char *path = config->url->path ? config->url->path : "";
    err = snib__place_open(&self->place, path, host, reterr);
    err = err ? err
              : snib__map_open(&self->map, &self->place, host, shape, key,
                               snib__ms(SNIB__FILE_OPEN_MS), reterr);
    if (!err && self->place.is_default) {
        err = snib__file_default_still(self->place.path, reterr);
    }
    if (err) {
        open_free(self);
        return err;
    }
    self->looked = snib__host_coarse();
    /* One process in 64 also cleans: enough where all are short-lived. */
    if (self->client[0] % 64 == 0) {
        snib__file_cleaner(self);
    }
    *ret = self;
    return SNIB_ERR_OK;
}

static snib_err open_of_url(const struct snib__store_config *config, void **ret,
                            struct snib_error *reterr)
{
    struct snib__host host;
    snib__host_read(&host);
    return snib__file_open_on(config, &host, &open_shape, ret, reterr);
}

static int open_notifier_fd(void *instance)
{
    return snib__ear_fd(&((struct snib__file *)instance)->ear);
}

static uint32_t open_notified(void *instance, uint64_t (*ids)[2], uint32_t max)
{
    return snib__ear_take(&((struct snib__file *)instance)->ear, ids, max);
}

static _Atomic uint32_t *open_notifier_word(void *instance, uint32_t *ret_value)
{
    return snib__ear_word(&((struct snib__file *)instance)->ear, ret_value);
}

static void open_notifier_polled(void *instance)
{
    snib__ear_polled(&((struct snib__file *)instance)->ear);
}

static void open_server(void *instance, struct snib__server *ret)
{
    (void)instance;
    snprintf(ret->version, sizeof ret->version, "layout %d", SNIB__FILE_LAYOUT);
}

const struct snib__blocking_ops snib__file_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "file",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH | SNIB__BRIEF,
    .open = open_of_url,
    .exec = snib__file_exec,
    .notifier_fd = open_notifier_fd,
    .notified = open_notified,
    .notifier_word = open_notifier_word,
    .notifier_polled = open_notifier_polled,
    .server = open_server,
    .free = open_free,
};
