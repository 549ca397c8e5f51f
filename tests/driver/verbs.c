/* verbs.c — clients, locks, grants; see driver.c. */
#define _GNU_SOURCE
#include "driver.h"
#include "snib/event.h"
#include "snib/inspect.h"

#include <poll.h>
#include <string.h>

/* -- verbs: clients and locks --------------------------------------------- */

snib_err do_open(struct command *command, struct line *line,
                 struct snib_error *error)
{
    struct object *object = object_new('c', word_of(command, "id"));
    struct snib_client_options options = SNIB_INIT(snib_client_options);
    options.url = text_of(command, "url", NULL, NULL);
    options.program = text_of(command, "program", NULL, NULL);
    options.reason = text_of(command, "reason", NULL, NULL);
    options.request_ms = int_of(command, "request_ms", 0);
    options.no_deadlock_check = flag_of(command, "no_deadlock_check");
    options.log = on_log;
    options.store_events = flag_of(command, "store_events");
    options.witness_program = text_of(command, "witness", NULL, NULL);
    options.witness = options.witness_program != NULL;
    const char *login = text_of(command, "login", NULL, NULL);
    if (login) { /* kept to the end */
        options.login = on_login;
        options.login_data = must(strdup(login));
    }
    snib_err err = snib_client_open(&options, &object->client, error);
    if (err == SNIB_ERR_OK) {
        line_text(line, "url", snib_client_url(object->client));
    }
    if (err == SNIB_ERR_OK && options.store_events) {
        need_listener(object->client);
    }
    return err;
}

snib_err do_witness(struct command *command, struct line *line,
                    struct snib_error *error)
{
    static const char *const words[] = {"none", "needless", "watches", "ended"};
    (void)error;
    line_text(
        line, "witness",
        words[snib_client_witness(object_of(command, 'c', "client")->client)]);
    return SNIB_ERR_OK;
}

static snib_kind kind_of(const struct command *command)
{
    static const char *const words[] = {"mutex", "read", "write", "permits",
                                        "barrier"};
    const char *word = text_of(command, "kind", "mutex", NULL);
    for (int i = 0; i < 5; i++) {
        if (strcmp(word, words[i]) == 0) {
            return (snib_kind)i;
        }
    }
    die("unknown kind %s", word);
}

snib_err do_lock(struct command *command, struct line *line,
                 struct snib_error *error)
{
    struct object *client = object_of(command, 'c', "client");
    struct object *object = object_new('l', word_of(command, "id"));
    struct snib_lock_options options = SNIB_INIT(snib_lock_options);
    const char *name = text_of(command, "name", object->id, &options.name_size);
    (void)line;
    options.kind = kind_of(command);
    options.permits = (uint32_t)int_of(command, "permits", 0);
    options.capacity = (uint32_t)int_of(command, "capacity", 0);
    options.lock_delay_ms = int_of(command, "lock_delay_ms", 0);
    options.priority = (int)int_of(command, "priority", 0);
    options.lease_ms = int_of(command, "lease_ms", 0);
    options.hold_max_ms = int_of(command, "hold_max_ms", 0);
    options.fixed_lease = flag_of(command, "fixed");
    options.aggressive = flag_of(command, "aggressive");
    options.confirm = flag_of(command, "confirm");
    options.no_reentry = flag_of(command, "no_reentry");
    options.no_local_hand_over = flag_of(command, "no_local_pass");
    options.keep_ms = int_of(command, "keep_ms", 0);
    options.on_change = on_change;
    options.data = object;
    object->client = client->client;
    return snib_lock_new(client->client, name, &options, &object->lock, error);
}

snib_err do_lock_free(struct command *command, struct line *line,
                      struct snib_error *error)
{
    struct object *object = object_of(command, 'l', "id");
    (void)line, (void)error;
    snib_lock_free(object->lock);
    object->lock = NULL;
    return SNIB_ERR_OK;
}

snib_err do_close(struct command *command, struct line *line,
                  struct snib_error *error)
{
    (void)line, (void)error;
    snib_client_close(object_of(command, 'c', "id")->client);
    return SNIB_ERR_OK;
}

snib_err do_stop(struct command *command, struct line *line,
                 struct snib_error *error)
{
    (void)line, (void)error;
    snib_client_stop(object_of(command, 'c', "id")->client);
    return SNIB_ERR_OK;
}

snib_err do_store_status(struct command *command, struct line *line,
                         struct snib_error *error)
{
    struct snib_store_status is;
    (void)error;
    snib_client_store_status(object_of(command, 'c', "id")->client, &is);
    line_bool(line, "reachable", is.reachable);
    line_text(line, "why", snib_err_name(is.error));
    line_int(line, "for_ms", is.for_ms);
    line_int(line, "nodes", is.nodes);
    line_int(line, "nodes_reachable", is.nodes_reachable);
    line_text(line, "said", is.text);
    return SNIB_ERR_OK;
}

snib_err do_server(struct command *command, struct line *line,
                   struct snib_error *error)
{
    struct snib_server *is;
    snib_err err =
        snib_client_server(object_of(command, 'c', "id")->client, &is, error);
    if (err) {
        return err;
    }
    line_text(line, "address", is->address);
    line_text(line, "product", is->product);
    line_text(line, "version", is->version);
    line_text(line, "role", is->role);
    line_text(line, "run_id", is->run_id);
    line_int(line, "connected_ms", is->connected_ms);
    line_bool(line, "reachable", is->reachable);
    line_text(line, "why", snib_err_name(is->error));
    line_text(line, "said", is->text);
    line_int(line, "servers", (int64_t)is->server_count);
    for (size_t i = 0; i < is->server_count; i++) {
        const struct snib_server *one = is->servers[i];
        char key[16], text[600];
        snprintf(key, sizeof key, "server%zu", i);
        snprintf(text, sizeof text, "%s %s %s %s %d %s", one->address,
                 one->product, one->version, one->role, one->reachable,
                 one->run_id);
        line_text(line, key, text);
    }
    snib_server_free(is);
    return SNIB_ERR_OK;
}

snib_err do_free(struct command *command, struct line *line,
                 struct snib_error *error)
{
    struct object *object = object_of(command, 'c', "id");
    (void)line, (void)error;
    snib_client_free(object->client);
    object->client = NULL;
    return SNIB_ERR_OK;
}

/* -- verbs: grants -------------------------------------------------------- */

/* -1, or nothing: no limit. */
int64_t wait_of(const struct command *command)
{
    int64_t wait_ms = int_of(command, "wait_ms", -1);
    return wait_ms < 0 ? INT64_MAX : wait_ms;
}

struct snib_acquire_options acquire_options(const struct command *command)
{
    struct snib_acquire_options options = SNIB_INIT(snib_acquire_options);
    options.owner = (uint64_t)int_of(command, "owner", 0);
    options.reason = text_of(command, "reason", NULL, NULL);
    return options;
}

static struct object *grant_new(const struct command *command)
{
    struct object *lock = object_of(command, 'l', "lock");
    struct object *object = object_new('g', word_of(command, "id"));
    object->client = lock->client;
    object->lock = lock->lock;
    return object;
}

snib_err do_acquire(struct command *command, struct line *line,
                    struct snib_error *error)
{
    struct object *object = grant_new(command);
    struct snib_acquire_options options = acquire_options(command);
    snib_err err = snib_try_for(object->lock, wait_of(command), &options,
                                &object->grant, error);
    if (err == SNIB_ERR_OK) {
        struct snib_status status;
        snib_grant_status(object->lock, object->grant, &status, sizeof status);
        line_int(line, "left_ms", status.left_ms);
        line_int(line, "holds", status.holds);
        line_text(line, "state", snib_state_text(status.state));
        say_grant(line, object->grant);
    }
    return err;
}

snib_err do_release(struct command *command, struct line *line,
                    struct snib_error *error)
{
    struct object *object = object_of(command, 'g', "id");
    (void)line;
    return snib_release(object->lock, object->grant, error);
}

snib_err do_renew(struct command *command, struct line *line,
                  struct snib_error *error)
{
    struct object *object = object_of(command, 'g', "id");
    (void)line;
    return snib_renew(object->lock, object->grant,
                      int_of(command, "lease_ms", 0), error);
}

static bool fd_readable(const struct object *object)
{
    int fd = snib_grant_fd(object->lock, object->grant);
    struct pollfd look = {fd, POLLIN, 0};
    return fd >= 0 && poll(&look, 1, 0) == 1;
}

/* Two answers to one question, taken in this order: status, held. */
snib_err do_status(struct command *command, struct line *line,
                   struct snib_error *error)
{
    struct object *object = object_of(command, 'g', "id");
    struct snib_status status;
    (void)error;
    snib_grant_status(object->lock, object->grant, &status, sizeof status);
    line_bool(line, "held", snib_grant_held(object->lock, object->grant));
    line_text(line, "state", snib_state_text(status.state));
    line_text(line, "reason", snib_cause_text(status.cause));
    say_why(line, object->lock, object->grant);
    line_int(line, "token", status.token);
    line_int(line, "left_ms", status.left_ms);
    line_int(line, "slot", status.slot);
    line_int(line, "held_ms", status.held_ms);
    line_int(line, "holds", status.holds);
    if (flag_of(command, "fd")) {
        line_bool(line, "fd_readable", fd_readable(object));
    }
    return SNIB_ERR_OK;
}

snib_err do_start(struct command *command, struct line *line,
                  struct snib_error *error)
{
    struct object *object = grant_new(command);
    struct snib_acquire_options options = acquire_options(command);
    need_listener(object->client);
    snib_err err = snib_try_for_start(object->lock, wait_of(command), &options,
                                      object, &object->grant.ticket, error);
    say_grant(line, object->grant);
    return err;
}

snib_err do_finish(struct command *command, struct line *line,
                   struct snib_error *error)
{
    struct object *object = object_of(command, 'g', "id");
    (void)line;
    need_listener(object->client);
    return snib_release_start(object->lock, object->grant, object, error);
}

snib_err do_cancel(struct command *command, struct line *line,
                   struct snib_error *error)
{
    struct object *object = object_of(command, 'g', "id");
    (void)line, (void)error;
    snib_client_cancel(object->client, object->grant.ticket);
    return SNIB_ERR_OK;
}

snib_err do_owner(struct command *command, struct line *line,
                  struct snib_error *error)
{
    (void)command, (void)error;
    line_int(line, "owner", (int64_t)snib_owner_new());
    return SNIB_ERR_OK;
}
