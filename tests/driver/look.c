/* look.c — verbs that look; see driver.c. */
#define _GNU_SOURCE
#include "driver.h"
#include "snib/event.h"
#include "snib/inspect.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

/* -- verbs: looking ------------------------------------------------------- */

static void say_party(FILE *file, const struct snib_party *party)
{
    struct line line = {.file = file, .first = true};
    fputc('{', file);
    line_text(&line, "owner", party->client_id);
    line_text(&line, "host", party->host);
    line_text(&line, "user", party->user);
    line_text(&line, "program", party->program);
    line_text(&line, "reason", party->reason);
    line_int(&line, "pid", party->pid);
    line_int(&line, "since_ms", party->since_ms);
    line_int(&line, "left_ms", party->left_ms);
    line_int(&line, "token", party->token);
    line_int(&line, "holds", party->holds);
    line_int(&line, "slot", party->slot);
    line_bool(&line, "self", party->self);
    fputc('}', file);
}

static void say_parties(struct line *line, const char *key,
                        const struct snib_party *const *parties, size_t count)
{
    line_key(line, key);
    fputc('[', line->file);
    for (size_t i = 0; i < count; i++) {
        fputs(i == 0 ? "" : ",", line->file);
        say_party(line->file, parties[i]);
    }
    fputc(']', line->file);
}

static void say_view(struct line *line, const struct snib_view *view)
{
    line_key(line, "name");
    put_bytes(line->file, view->name, view->name_size);
    line_int(line, "token", view->token);
    say_parties(line, "holders", view->holders, view->holder_count);
    say_parties(line, "waiters", view->waiters, view->waiter_count);
    say_parties(line, "closed_by", view->closed_by, view->closed_count);
    line_int(line, "closed_ms", view->closed_ms);
    if (view->damage) {
        line_text(line, "damage", view->damage);
    }
}

snib_err do_inspect(struct command *command, struct line *line,
                    struct snib_error *error)
{
    struct object *client = object_of(command, 'c', "client");
    size_t size;
    const char *name = text_of(command, "name", "", &size);
    struct snib_view *view;
    snib_err err =
        snib_client_inspect(client->client, name, size, &view, error);
    if (err == SNIB_ERR_OK) {
        say_view(line, view);
        snib_view_free(view);
    }
    return err;
}

/* Of a client without other events. */
static snib_err list_started(struct snib_client *client, const char *glob,
                             struct snib_view ***views, size_t *count,
                             struct snib_error *error)
{
    struct snib_event event = {.error = {.code = SNIB_ERR_OK}};
    uint64_t ticket;
    snib_err err = snib_client_list_start(client, glob, views, count, NULL,
                                          &ticket, error);
    while (err == SNIB_ERR_OK &&
           !snib_client_next(client, &event, sizeof event)) {
        struct pollfd fd = {snib_client_fd(client), POLLIN, 0};
        if (poll(&fd, 1, -1) < 0 && errno != EINTR) {
            die("poll");
        }
    }
    if (event.error.code != SNIB_ERR_OK) {
        *error = event.error;
    }
    return err != SNIB_ERR_OK ? err : event.error.code;
}

snib_err do_list(struct command *command, struct line *line,
                 struct snib_error *error)
{
    struct object *client = object_of(command, 'c', "client");
    const char *glob = text_of(command, "glob", NULL, NULL);
    struct snib_view **views;
    size_t count;
    snib_err err =
        flag_of(command, "started")
            ? list_started(client->client, glob, &views, &count, error)
            : snib_client_list(client->client, glob, &views, &count, error);
    if (err != SNIB_ERR_OK) {
        return err;
    }
    line_key(line, "locks");
    fputc('[', line->file);
    for (size_t i = 0; i < count; i++) {
        struct line view = {.file = line->file, .first = true};
        fputs(i == 0 ? "{" : ",{", line->file);
        say_view(&view, views[i]);
        fputc('}', line->file);
    }
    fputc(']', line->file);
    snib_views_free(views, count);
    return err;
}

snib_err do_force_release(struct command *command, struct line *line,
                          struct snib_error *error)
{
    struct object *client = object_of(command, 'c', "client");
    size_t size;
    const char *name = text_of(command, "name", "", &size);
    uint32_t released = 0;
    snib_err err = snib_client_force_release(
        client->client, name, size, text_of(command, "reason", NULL, NULL),
        &released, error);
    line_int(line, "released", released);
    return err;
}

static void on_finding(void *data, const struct snib_finding *finding)
{
    struct line *line = data;
    struct line inner = {.file = line->file, .first = true};
    char last = line->first ? '[' : ',';
    line->first = false;
    fputc(last, line->file);
    fputc('{', line->file);
    line_int(&inner, "level", finding->level);
    line_text(&inner, "check", finding->check);
    line_text(&inner, "text", finding->text);
    line_text(&inner, "remedy", finding->remedy);
    fputc('}', line->file);
}

snib_err do_doctor(struct command *command, struct line *line,
                   struct snib_error *error)
{
    struct object *client = object_of(command, 'c', "client");
    line_key(line, "findings");
    struct line list = {.file = line->file, .first = true};
    snib_err err = snib_client_doctor(client->client, on_finding, &list, error);
    fputs(list.first ? "[]" : "]", line->file);
    return err;
}

static void say_counts(struct line *line, struct snib_client *client)
{
    struct snib__counts counts;
    uint32_t awaited[SNIB__CONNS_MAX] = {0};
    int reader[SNIB__CONNS_MAX] = {0};
    uint32_t all = 0;
    int64_t readers = 0;
    snib__client_counts(client, &counts, awaited, reader);
    for (int i = 0; i < SNIB__CONNS_MAX; i++) {
        all += awaited[i];
        readers += reader[i] == 2;
    }
    line_int(line, "awaited", all);
    line_int(line, "calls_reading", readers);
    line_int(line, "sites", (int64_t)counts.local_locks);
    line_int(line, "turns", (int64_t)counts.claims);
    line_int(line, "seats", (int64_t)counts.acquisitions);
    line_int(line, "waiting", (int64_t)counts.waiting);
    line_int(line, "held", (int64_t)counts.held);
    line_int(line, "leaving", (int64_t)counts.leaving);
    line_int(line, "requests", (int64_t)counts.requests);
    line_int(line, "passes", (int64_t)counts.passes);
    line_int(line, "yields", (int64_t)counts.yields);
    line_int(line, "renewals", (int64_t)counts.renewals);
    line_int(line, "acquires", (int64_t)counts.acquires);
}

snib_err do_counters(struct command *command, struct line *line,
                     struct snib_error *error)
{
    (void)error;
    say_counts(line, object_of(command, 'c', "client")->client);
    return SNIB_ERR_OK;
}
