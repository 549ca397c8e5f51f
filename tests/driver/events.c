/* events.c — objects by their ids, and what comes unasked; see driver.c. */
#define _GNU_SOURCE
#include "driver.h"
#include "snib/event.h"
#include "snib/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- objects -------------------------------------------------------------- */

static pthread_mutex_t objects_lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects;

static struct object *object_find(char kind, const char *id)
{
    pthread_mutex_lock(&objects_lock);
    struct object *object = objects;
    while (object != NULL &&
           (object->kind != kind || strcmp(object->id, id) != 0)) {
        object = object->next;
    }
    pthread_mutex_unlock(&objects_lock);
    return object;
}

struct object *object_of(const struct command *command, char kind,
                         const char *key)
{
    const char *id = word_of(command, key);
    struct object *object = object_find(kind, id);
    if (object == NULL) {
        die("%s: no object %c %s", command->verb, kind, id);
    }
    return object;
}

/* A second object of the same id takes the first one's place in look-ups. */
struct object *object_new(char kind, const char *id)
{
    struct object *object = must(calloc(1, sizeof(*object)));
    object->kind = kind;
    snprintf(object->id, sizeof(object->id), "%s", id);
    pthread_mutex_lock(&objects_lock);
    object->next = objects;
    objects = object;
    pthread_mutex_unlock(&objects_lock);
    return object;
}

/* -- events --------------------------------------------------------------- */

void say_grant(struct line *line, struct snib_grant grant)
{
    line_int(line, "token", grant.token);
    line_key(line, "ticket");
    fprintf(line->file, "%" PRIu64, grant.ticket);
}

void say_error(struct line *line, snib_err err, const struct snib_error *error)
{
    line_text(line, "err", snib_err_name(err));
    line_int(line, "class", snib_err_class(err));
    line_int(line, "exit", snib_err_exit(err));
    line_text(line, "text", err == SNIB_ERR_OK ? "" : error->text);
}

void say_why(struct line *line, struct snib_lock *lock, struct snib_grant grant)
{
    char why[SNIB_EXPLAIN_TEXT];
    snib_grant_explain(lock, grant, why, sizeof why);
    line_text(line, "why", why);
}

void on_change(void *data, struct snib_grant grant, snib_state state,
               snib_cause reason)
{
    const struct object *lock = data;
    struct line line;
    line_begin(&line);
    line_text(&line, "event", "change");
    line_int(&line, "at", now_ns());
    line_text(&line, "lock", lock->id);
    say_grant(&line, grant);
    line_text(&line, "state", snib_state_text(state));
    line_text(&line, "reason", snib_cause_text(reason));
    say_why(&line, lock->lock, grant);
    line_end(&line);
}

void on_log(void *data, int level, const char *text)
{
    struct line line;
    (void)data;
    line_begin(&line);
    line_text(&line, "event", "log");
    line_int(&line, "at", now_ns());
    line_int(&line, "level", level);
    line_text(&line, "line", text);
    line_end(&line);
}

/* The file has one line: USER PASSWORD VALID_MS SLEEP_MS, or: ERROR TEXT. The
 * event says which login was given. */
snib_err on_login(void *path, struct snib_login *login)
{
    struct line line;
    FILE *file = fopen(path, "r");
    char first[sizeof login->user], second[256];
    long long valid_ms, sleep_ms;
    int n = file ? fscanf(file, "%255s %255s %lld %lld", first, second,
                          &valid_ms, &sleep_ms)
                 : 0;
    if (file) {
        fclose(file);
    }
    line_begin(&line);
    line_text(&line, "event", "login");
    line_int(&line, "at", now_ns());
    line_text(&line, "address", login->address);
    line_text(&line, "host", login->host);
    line_int(&line, "port", login->port);
    line_bool(&line, "refused", login->refused);
    line_text(&line, "first", n > 0 ? first : "");
    line_text(&line, "second", n > 1 ? second : "");
    line_end(&line);
    if (n == 4) {
        snprintf(login->user, sizeof login->user, "%s", first);
        snprintf(login->password, sizeof login->password, "%s", second);
        login->valid_ms = valid_ms;
        usleep((useconds_t)sleep_ms * 1000);
        return SNIB_ERR_OK;
    }
    snprintf(login->text, sizeof login->text, "%s", n > 1 ? second : "no file");
    return n > 0 && strcmp(first, "DENIED") == 0 ? SNIB_ERR_DENIED
                                                 : SNIB_ERR_STORE;
}

static const char *event_word(snib_event_kind kind)
{
    switch (kind) {
    case SNIB_EVENT_GRANTED:
        return "granted";
    case SNIB_EVENT_REFUSED:
        return "refused";
    case SNIB_EVENT_RELEASED:
        return "released";
    case SNIB_EVENT_STATE:
        return "state";
    case SNIB_EVENT_PASSED:
        return "passed";
    case SNIB_EVENT_DONE:
        return "done";
    case SNIB_EVENT_STORE_CHANGED:
        return "store changed";
    }
    return "?";
}

static void say_event(const struct snib_event *event)
{
    struct object *grant = event->user;
    struct line line;
    if (event->kind == SNIB_EVENT_GRANTED && grant != NULL) {
        grant->grant = event->grant;
    }
    line_begin(&line);
    line_text(&line, "event", event_word(event->kind));
    line_int(&line, "at", now_ns());
    line_text(&line, "id", grant == NULL ? "" : grant->id);
    say_grant(&line, event->grant);
    line_text(&line, "state", snib_state_text(event->state));
    line_text(&line, "reason", snib_cause_text(event->cause));
    say_error(&line, event->error.code, &event->error);
    line_end(&line);
}

static void *listen_loop(void *data)
{
    struct object *client = data;
    struct snib_event event;
    for (;;) {
        struct pollfd fd = {snib_client_fd(client->client), POLLIN, 0};
        if (poll(&fd, 1, -1) < 0 && errno != EINTR) {
            return NULL;
        }
        while (snib_client_next(client->client, &event, sizeof event)) {
            say_event(&event);
        }
    }
}

void thread_start(void *(*run)(void *), void *data)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, data) != 0) {
        die("no thread");
    }
    pthread_detach(thread);
}

/* Its client is never freed by the test: the thread would meet freed memory. */
void need_listener(struct snib_client *client)
{
    pthread_mutex_lock(&objects_lock);
    struct object *object = objects;
    while (object->kind != 'c' || object->client != client) {
        object = object->next;
    }
    bool had = object->has_listener;
    object->has_listener = true;
    pthread_mutex_unlock(&objects_lock);
    if (!had) {
        thread_start(listen_loop, object);
    }
}
