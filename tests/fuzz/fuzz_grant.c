/* A grant that was handed out, as text and as the file of --token-file; what a
 * keeper hears and answers at its socket. Whatever the bytes: refused, or read
 * as what is written again. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/holder/control.h"
#include "cli/holder/grantfile.h"

/* Why it was refused goes to stderr, for each input: not here. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char quiet[] = "-close_fd_mask=2";
    want_option(argc, argv, quiet);
    return 0;
}

static void lies_in_bounds(const struct grantfile *g)
{
    MUST(memchr(g->address, 0, sizeof g->address));
    MUST(memchr(g->boot, 0, sizeof g->boot));
    MUST(memchr(g->store, 0, sizeof g->store));
    MUST(memchr(g->detached_grant, 0, sizeof g->detached_grant));
    MUST(g->name_size <= SNIB_NAME_MAX && !g->name[g->name_size]);
    if (g->no_holder) {
        MUST(g->name_size && g->identity[0]);
        MUST(g->kind != SNIB_KIND_PERMITS ||
             (g->permits > 0 && g->permits <= SNIB_PERMITS_MAX));
    } else {
        MUST(g->token > 0 && g->holder_process_pid > 0);
        MUST(control_address_valid(g->address));
        MUST(control_owner(g->address) != (uid_t)-1 || g->address[0]);
    }
}

static void same(const struct grantfile *a, const struct grantfile *b)
{
    MUST(a->no_holder == b->no_holder && a->token == b->token);
    MUST(a->holder_process_pid == b->holder_process_pid &&
         a->holder_start == b->holder_start);
    MUST(a->ttl_ms == b->ttl_ms && a->deadline_ns == b->deadline_ns);
    MUST(a->kind == b->kind && a->permits == b->permits);
    MUST(!strcmp(a->address, b->address) && !strcmp(a->boot, b->boot));
    MUST(!strcmp(a->detached_grant, b->detached_grant) &&
         !strcmp(a->identity, b->identity));
    MUST(a->name_size == b->name_size &&
         !memcmp(a->name, b->name, a->name_size));
}

static void read_text(const char *text)
{
    struct cli_args args = {.subcommand = "release"};
    struct grantfile g, again;
    char grant[GRANT_TEXT_MAX];
    if (strncmp(text, "snib1:", 6) != 0 || !grantfile_read(&args, text, &g)) {
        return;
    }
    lies_in_bounds(&g);
    if (!g.no_holder && !g.name_size) {
        return; /* as 0.1.0 wrote it */
    }
    grantfile_text(&g, grant);
    MUST(grantfile_read(&args, grant, &again));
    same(&g, &again);
}

static void read_file(const uint8_t *data, size_t size)
{
    struct cli_args args = {.subcommand = "release"};
    struct grantfile g;
    char path[40];
    int fd = memfd_create("token", MFD_CLOEXEC);
    MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (grantfile_read(&args, path, &g)) {
        lies_in_bounds(&g);
    }
    close(fd);
}

static void hear(const uint8_t *data, size_t size)
{
    struct control_request request;
    int fd[2];
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) == 0);
    MUST(send(fd[0], data, size, 0) == (ssize_t)size);
    if (control_receive(fd[1], &request)) {
        MUST(size == sizeof request && request.name_size <= SNIB_NAME_MAX);
        MUST(!memcmp(&request, data, size));
    }
    close(fd[0]);
    close(fd[1]);
}

/* Somebody at a keeper's address who answers these bytes, whatever he is
 * asked. */
static struct {
    char address[CONTROL_ADDRESS_MAX];
    int listener;
    const uint8_t *data;
    size_t size;
    sem_t said; /* it has done with data                                    */
} liar = {.listener = -1};

static void *lie(void *arg)
{
    (void)arg;
    for (;;) {
        struct control_request request;
        int fd = accept4(liar.listener, NULL, NULL, SOCK_CLOEXEC);
        MUST(fd >= 0);
        MUST(recv(fd, &request, sizeof request, 0) == sizeof request);
        MUST(send(fd, liar.data, liar.size, MSG_NOSIGNAL) ==
             (ssize_t)liar.size);
        close(fd);
        MUST(sem_post(&liar.said) == 0);
    }
    return NULL;
}

static void be_answered(const uint8_t *data, size_t size, bool above)
{
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    if (liar.listener < 0) {
        pthread_t thread;
        liar.listener = control_listen(liar.address);
        MUST(liar.listener >= 0 && control_address_valid(liar.address));
        MUST(sem_init(&liar.said, 0, 0) == 0);
        MUST(fcntl(liar.listener, F_SETFL, 0) == 0);
        MUST(pthread_create(&thread, NULL, lie, NULL) == 0);
    }
    liar.data = data;
    liar.size = size;
    if (above) {
        struct control_above r;
        if (control_ask_above(liar.address, &request, 9000, &r)) {
            MUST(size == sizeof r && r.magic == CONTROL_MAGIC);
            MUST(memchr(r.store, 0, sizeof r.store));
            MUST(memchr(r.request, 0, sizeof r.request));
        } else {
            MUST(errno == EPROTO);
        }
    } else {
        struct control_reply r;
        if (control_ask(liar.address, &request, 9000, &r)) {
            MUST(size == sizeof r && r.magic == CONTROL_MAGIC);
            MUST(memchr(r.store, 0, sizeof r.store));
            MUST(memchr(r.text, 0, sizeof r.text));
        } else {
            MUST(errno == EPROTO);
        }
    }
    MUST(sem_wait(&liar.said) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;
    switch (size ? data[0] : 0) {
    case 1:
        hear(data + 1, size - 1);
        break;
    case 2:
        if (size > 2) {
            be_answered(data + 2, size - 2, data[1] & 1);
        }
        break;
    case 's':
        text = string_of(data, size);
        read_text(text);
        free(text);
        break;
    default:
        read_file(data, size);
    }
    return 0;
}
