/* driver/parts.c — making and freeing what a client is made of. Whether it may
 * be freed, its caller knows (api/client.c). */
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "driver/driver.h"

/* Keep the engine's log lines until the mutex is free. */
void snib__parts_keep_log(void *data, int level, const char *text)
{
    struct snib_client *c = data;
    size_t n = strlen(text);
    struct snib__log_line *line = snib__alloc(sizeof *line + n + 1);
    if (line) { /* without memory the line is dropped */
        line->level = level;
        memcpy(line->text, text, n + 1);
        snib__list_push(&c->log.lines, &line->link);
    }
}

void snib__parts_init(struct snib_client *c)
{
    pthread_mutex_init(&c->mu, NULL);
    pthread_cond_init(&c->notices.told, NULL);
    pthread_cond_init(&c->work, NULL);
    pthread_cond_init(&c->logins.more, NULL);
    c->loop.epoll = c->loop.timer = c->loop.steps = c->ops.fd = -1;
    c->witness.memory = c->witness.link = c->witness.over = -1;
    c->loop.armed = SNIB__NEVER;
    snib__roles_init(&c->calls.roles);
    snib__list_init(&c->locks);
    snib__list_init(&c->ops.pending);
    snib__list_init(&c->ops.releasing);
    snib__list_init(&c->ops.asking);
    snib__list_init(&c->ops.events);
    snib__link_init(&c->ops.changed.link);
    snib__list_init(&c->notices.due);
    snib__list_init(&c->log.lines);
    snib__list_init(&c->exec.done);
    snib__list_init(&c->jobs);
    for (size_t i = 0; i < SNIB__RETIRED; i++) {
        c->notices.retired[i] = -1;
    }
}

void snib__parts_free(struct snib_client *c)
{
    struct snib__link *l;
    struct snib__step s = {.c = c};
    while ((l = snib__list_pop(&c->locks))) {
        struct snib_lock *lock = SNIB__CONTAINER(l, struct snib_lock, link);
        struct snib__link *h;
        while ((h = snib__list_pop(&lock->holds))) {
            struct snib__hold *hold =
                SNIB__CONTAINER(h, struct snib__hold, link);
            hold->next = NULL; /* each is on the list of its own handle */
            snib__holds_free(&s, hold);
        }
        snib__free(lock);
    }
    snib__unlink(&c->ops.changed.link);
    struct snib__list *ops[] = {&c->ops.pending, &c->ops.releasing,
                                &c->ops.asking, &c->ops.events};
    for (int i = 0; i < 4; i++) {
        while ((l = snib__list_pop(ops[i]))) {
            struct snib__op *op = snib__op_of(l);
            if (op->hold && i == 1) {
                snib__holds_free(&s, op->hold);
            }
            if (!op->batch) { /* else it is a part of a sequence */
                snib__op_free(op);
            }
        }
    }
    snib__heap_free(&c->ops.timers);
    while ((l = snib__list_pop(&c->log.lines))) {
        snib__free(SNIB__CONTAINER(l, struct snib__log_line, link));
    }
    snib__sockets_free(c);
    snib__tls_shared_free(c->tls);
    snib__free(c->plain);
    snib__passfile_free(c);
    snib__witness_free(c);
    snib__loop_close(c);
    snib__retired_close(c);
    if (c->ops.fd >= 0) {
        close(c->ops.fd);
    }
    snib__free(c->url);
    snib__free(c->store_identity);
    if (c->logins.answer) {
        explicit_bzero(c->logins.answer, sizeof *c->logins.answer);
    }
    snib__free(c->logins.answer);
}

void snib__parts_free_last(struct snib_client *c)
{
    snib__engine_free(c->engine);
    if (c->exec.shares) {
        for (int i = 0; i < SNIB__SESSIONS; i++) {
            pthread_cond_destroy(&c->sessions.worker[i].work);
        }
        pthread_cond_destroy(&c->sessions.over);
    }
    pthread_cond_destroy(&c->notices.told);
    pthread_cond_destroy(&c->work);
    pthread_cond_destroy(&c->logins.more);
    pthread_mutex_destroy(&c->mu);
    snib__free(c);
}

void snib__parts_free_in_child(struct snib_client *c)
{
    bool quiet =
        pthread_mutex_trylock(&c->mu) == 0 && !c->exec.running &&
        !c->calls.batches; /* whose operations are on a thread's stack */
    c->in_child = true;
    if (quiet && !c->exec.ops) {
        snib__parts_free(c);
        snib__engine_free(c->engine);
        snib__free(c);
        return;
    }
    for (uint32_t i = 0; i < c->sock.count; i++) {
        const struct snib__socket *l = c->sock.v[i];
        if (l->fd >= 0 && l->conn) {
            close(l->fd);
        }
        if (l->waker >= 0) {
            close(l->waker);
        }
    }
    snib__witness_free(c);
    snib__loop_close(c);
    snib__retired_close(c);
    if (c->ops.fd >= 0) {
        close(c->ops.fd);
    }
}
