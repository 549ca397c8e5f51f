/* cli/holder/control.c: asking a background thread that drops askers. */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/holder/control.h"
#include "cli/holder/grantfile.h"
#include "cli/supervisor/proc.h"

struct holder {
    int listener;
    int drops; /* so many askers are dropped, unread, before one is answered */
    int seen;
};

static void *keep(void *arg)
{
    struct holder *k = arg;
    for (bool over = false; !over; k->seen++) {
        struct pollfd p = {.fd = k->listener, .events = POLLIN};
        struct control_request request;
        struct control_reply reply = {
            .magic = CONTROL_MAGIC, .token = 7, .slot = -1};
        assert_int_equal(poll(&p, 1, 20000), 1);
        int fd = control_accept(k->listener);
        assert_true(fd >= 0);
        p.fd = fd;
        over = k->seen >= k->drops;
        if (over) {
            assert_int_equal(poll(&p, 1, 20000), 1);
            assert_true(control_receive(fd, &request));
            control_send(fd, &reply);
        }
        close(fd);
    }
    return NULL;
}

static bool ask(struct holder *k, int timeout_ms, struct control_reply *ret)
{
    char address[CONTROL_ADDRESS_MAX];
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    pthread_t thread;
    k->listener = control_listen(address);
    assert_true(k->listener >= 0);
    assert_true(control_address_valid(address));
    assert_int_equal(pthread_create(&thread, NULL, keep, k), 0);
    bool ok = control_ask(address, &request, timeout_ms, ret);
    pthread_join(thread, NULL);
    close(k->listener);
    return ok;
}

static void a_holder_answers(void **state)
{
    (void)state;
    struct holder k = {0};
    struct control_reply reply = {0};
    assert_true(ask(&k, 20000, &reply));
    assert_int_equal(reply.token, 7);
    assert_int_equal(k.seen, 1);
}

static void one_that_was_dropped_asks_again(void **state)
{
    (void)state;
    struct holder k = {.drops = 3};
    struct control_reply reply = {0};
    assert_true(ask(&k, 20000, &reply));
    assert_int_equal(reply.token, 7);
    assert_int_equal(k.seen, 4);
}

static void a_holder_that_is_gone_is_not_waited_for(void **state)
{
    (void)state;
    char address[CONTROL_ADDRESS_MAX];
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    struct control_reply reply;
    close(control_listen(address));
    assert_false(control_ask(address, &request, 20000, &reply));
    assert_int_equal(errno, ECONNREFUSED);
}

/* One that keeps its askers from an end: it drops all of them, or drops one
 * and says nothing to the next. It gives up when they have not after so long:
 * they did not end by their own limit. */
struct hinderer {
    int listener;
    bool silent;
    atomic_bool left, gave_up;
};

static void *hinder(void *arg)
{
    struct hinderer *h = arg;
    int64_t until = proc_now() + 20 * INT64_C(1000000000);
    int kept = -1, seen = 0;
    while (!atomic_load(&h->left) && proc_now() < until) {
        struct pollfd p = {.fd = h->listener, .events = POLLIN};
        int fd = poll(&p, 1, 10) == 1 ? control_accept(h->listener) : -1;
        if (fd >= 0 && h->silent && seen++ > 0) {
            kept = fd;
        } else if (fd >= 0) {
            close(fd);
        }
    }
    atomic_store(&h->gave_up, !atomic_load(&h->left));
    close(h->listener);
    if (kept >= 0) {
        close(kept);
    }
    return NULL;
}

static bool ends_by_its_limit(struct hinderer *h)
{
    char address[CONTROL_ADDRESS_MAX];
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    struct control_reply reply;
    pthread_t thread;
    h->listener = control_listen(address);
    assert_true(h->listener >= 0);
    assert_int_equal(pthread_create(&thread, NULL, hinder, h), 0);
    assert_false(control_ask(address, &request, 200, &reply));
    atomic_store(&h->left, true);
    pthread_join(thread, NULL);
    return !atomic_load(&h->gave_up);
}

static void one_that_is_dropped_again_and_again_ends_by_its_limit(void **state)
{
    (void)state;
    struct hinderer h = {0};
    assert_true(ends_by_its_limit(&h));
}

static void who_asks_again_has_what_was_left_of_its_limit(void **state)
{
    (void)state;
    struct hinderer h = {.silent = true};
    assert_true(ends_by_its_limit(&h));
}

/* A background thread of another version: what it says has another size, or begins with
 * another number. */
struct foreigner {
    int listener;
    size_t size; /* of what it says                                        */
    uint32_t magic;
    const void *says; /* or NULL: zeroes behind the magic                  */
};

static void *say_that(void *arg)
{
    struct foreigner *f = arg;
    static char bytes[4096];
    struct pollfd p = {.fd = f->listener, .events = POLLIN};
    struct control_request request;
    assert_int_equal(poll(&p, 1, 20000), 1);
    int fd = control_accept(f->listener);
    assert_true(fd >= 0);
    p.fd = fd;
    assert_int_equal(poll(&p, 1, 20000), 1);
    assert_true(control_receive(fd, &request));
    memset(bytes, 0, sizeof bytes);
    if (f->says) {
        memcpy(bytes, f->says, f->size);
    }
    memcpy(bytes, &f->magic, sizeof f->magic);
    assert_int_equal(send(fd, bytes, f->size, MSG_NOSIGNAL), (int)f->size);
    close(fd);
    return NULL;
}

static int error_of_hearing(size_t size, uint32_t magic, bool above)
{
    char address[CONTROL_ADDRESS_MAX];
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    struct control_reply reply;
    struct control_above outer;
    struct foreigner f = {.size = size, .magic = magic};
    pthread_t thread;
    f.listener = control_listen(address);
    assert_true(f.listener >= 0);
    assert_int_equal(pthread_create(&thread, NULL, say_that, &f), 0);
    errno = 0;
    bool ok = above ? control_ask_above(address, &request, 20000, &outer)
                    : control_ask(address, &request, 20000, &reply);
    int error = ok ? 0 : errno;
    pthread_join(thread, NULL);
    close(f.listener);
    return error;
}

static void an_answer_of_another_size_or_version_is_nonsense(void **state)
{
    (void)state;
    for (int above = 0; above < 2; above++) {
        size_t size =
            above ? sizeof(struct control_above) : sizeof(struct control_reply);
        assert_int_equal(error_of_hearing(size, CONTROL_MAGIC, above), 0);
        assert_int_equal(error_of_hearing(size + 1, CONTROL_MAGIC, above),
                         EPROTO);
        assert_int_equal(error_of_hearing(size - 1, CONTROL_MAGIC, above),
                         EPROTO);
        assert_int_equal(error_of_hearing(size, CONTROL_MAGIC + 1, above),
                         EPROTO);
        assert_int_equal(error_of_hearing(4, CONTROL_MAGIC, above), EPROTO);
    }
}

/* As it was before `cause` was taken from the end of its text. */
struct older_reply {
    uint32_t magic;
    int32_t code;
    int64_t deadline_ns, token;
    char store[CONTROL_STORE_MAX], text[184];
    int64_t ttl_ns;
    int32_t kind;
    uint32_t permits;
    int64_t slot;
};

static const struct older_reply older = {.magic = CONTROL_MAGIC,
                                         .code = 76,
                                         .deadline_ns = 5,
                                         .token = 7,
                                         .store = "file:a.db",
                                         .text = "revoked",
                                         .ttl_ns = 30000000000,
                                         .kind = SNIB_KIND_READ,
                                         .permits = 2,
                                         .slot = 3};

static void hear(const struct older_reply *said, struct control_reply *ret)
{
    char address[CONTROL_ADDRESS_MAX];
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    struct foreigner f = {
        .size = sizeof *said, .magic = CONTROL_MAGIC, .says = said};
    pthread_t thread;
    f.listener = control_listen(address);
    assert_true(f.listener >= 0);
    assert_int_equal(pthread_create(&thread, NULL, say_that, &f), 0);
    assert_true(control_ask(address, &request, 20000, ret));
    pthread_join(thread, NULL);
    close(f.listener);
}

static void the_answer_of_the_release_before_means_what_it_says(void **state)
{
    (void)state;
    struct older_reply of_long_text = older;
    struct control_reply reply;
    hear(&older, &reply);
    assert_int_equal(reply.code, 76);
    assert_int_equal(reply.deadline_ns, 5);
    assert_int_equal(reply.token, 7);
    assert_string_equal(reply.store, "file:a.db");
    assert_string_equal(reply.text, "revoked");
    assert_int_equal(reply.ttl_ns, 30000000000);
    assert_int_equal(reply.kind, SNIB_KIND_READ);
    assert_int_equal(reply.permits, 2);
    assert_int_equal(reply.slot, 3);
    assert_int_equal(reply.cause, SNIB_CAUSE_NONE);
    /* Where its text was longer than ours, its end is no cause. */
    memset(of_long_text.text, 'x', sizeof of_long_text.text - 1);
    hear(&of_long_text, &reply);
    assert_int_equal(strlen(reply.text), sizeof reply.text - 1);
    assert_int_equal(reply.cause, SNIB_CAUSE_NONE);
    assert_int_equal(reply.slot, 3);
}

static void the_release_before_understands_our_answer(void **state)
{
    (void)state;
    struct control_reply ours = {.magic = CONTROL_MAGIC,
                                 .code = 76,
                                 .deadline_ns = 5,
                                 .token = 7,
                                 .store = "file:a.db",
                                 .text = "revoked",
                                 .ttl_ns = 30000000000,
                                 .kind = SNIB_KIND_READ,
                                 .permits = 2,
                                 .slot = 3};
    assert_int_equal(sizeof ours, sizeof older);
    assert_memory_equal(&ours, &older, sizeof older);
    /* The longest text ends before what is new behind it. */
    memset(ours.text, 'x', sizeof ours.text - 1);
    ours.cause = SNIB_CAUSE_REVOKED;
    struct older_reply heard;
    memcpy(&heard, &ours, sizeof heard);
    assert_int_equal(strlen(heard.text), sizeof ours.text - 1);
}

/* What is longer than a request is none, whatever it begins with. */
static void a_request_of_another_size_or_version_is_nonsense(void **state)
{
    (void)state;
    static const struct {
        long size;
        uint32_t magic, name_size;
        bool good;
    } t[] = {{0, CONTROL_MAGIC, 0, true},
             {0, CONTROL_MAGIC, SNIB_NAME_MAX, true},
             {0, CONTROL_MAGIC, SNIB_NAME_MAX + 1, false},
             {0, CONTROL_MAGIC + 1, 0, false},
             {-1, CONTROL_MAGIC, 0, false},
             {1, CONTROL_MAGIC, 0, false},
             {4000, CONTROL_MAGIC, 0, false}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        static char bytes[8192];
        struct control_request said = {.magic = t[i].magic,
                                       .verb = CONTROL_STATUS,
                                       .name_size = t[i].name_size};
        struct control_request heard;
        size_t size = (size_t)((long)sizeof said + t[i].size);
        int fd[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
        memcpy(bytes, &said, sizeof said);
        assert_int_equal(send(fd[0], bytes, size, 0), (ssize_t)size);
        assert_int_equal(control_receive(fd[1], &heard), t[i].good);
        close(fd[0]);
        close(fd[1]);
    }
}

static void one_that_listens_no_more_is_as_good_as_gone(void **state)
{
    (void)state;
    for (int lives = 0; lives < 2; lives++) {
        assert_int_equal(grantfile_no_answer(ECONNREFUSED, lives),
                         GRANTFILE_GONE);
        assert_int_equal(grantfile_no_answer(EPERM, lives), GRANTFILE_FOREIGN);
        assert_int_equal(grantfile_no_answer(EADDRINUSE, lives),
                         GRANTFILE_SQUATTED);
        assert_int_equal(grantfile_no_answer(ETIMEDOUT, lives),
                         GRANTFILE_SILENT); /* somebody listens there */
        assert_int_equal(grantfile_no_answer(EAGAIN, lives), GRANTFILE_SILENT);
        assert_int_equal(grantfile_no_answer(ECONNRESET, lives),
                         lives ? GRANTFILE_SILENT : GRANTFILE_GONE);
    }
}

/* Binds a dead background thread's name and says that all is well, as the user nobody. */
static pid_t squat(const char *address)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        struct control_request request;
        struct control_reply reply = {.magic = CONTROL_MAGIC, .token = 7};
        int size = snprintf(to.sun_path + 1, sizeof to.sun_path - 1, "snib.%s",
                            address);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (setgid(65534) != 0 || setuid(65534) != 0 ||
            bind(fd, (struct sockaddr *)&to,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                             (size_t)size)) != 0 ||
            listen(fd, 1) != 0 || write(ready[1], "r", 1) != 1) {
            _exit(1);
        }
        fd = accept(fd, NULL, NULL);
        if (recv(fd, &request, sizeof request, 0) > 0) {
            control_send(fd, &reply);
        }
        _exit(0);
    }
    char r;
    assert_int_equal(read(ready[0], &r, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

/* Only root could be taken in: an ordinary user's background thread is of that user. */
static void a_squatter_at_a_dead_holders_address_is_not_believed(void **state)
{
    (void)state;
    char address[CONTROL_ADDRESS_MAX];
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    struct control_reply reply;
    int status;
    close(control_listen(address));
    if (geteuid() != 0) {
        assert_false(control_ask(address, &request, 20000, &reply));
        return;
    }
    pid_t pid = squat(address);
    assert_false(control_ask(address, &request, 20000, &reply));
    assert_int_equal(errno, EADDRINUSE);
    waitpid(pid, &status, 0);
}

/* All of them were one store: an answer had "" for each. */
static void stores_with_long_urls_are_told_apart(void **state)
{
    char url[CONTROL_STORE_MAX + 300], one[CONTROL_STORE_MAX],
        two[CONTROL_STORE_MAX];
    (void)state;
    memset(url, 'x', sizeof url - 1);
    url[sizeof url - 1] = '\0';
    control_set_store(one, url);
    assert_int_equal(strlen(one), CONTROL_STORE_MAX - 1);
    url[sizeof url - 2] = 'y';
    control_set_store(two, url);
    assert_string_not_equal(one, two);
    url[sizeof url - 2] = 'x';
    control_set_store(two, url);
    assert_string_equal(one, two);
    url[CONTROL_STORE_MAX - 1] = '\0'; /* the longest that is told whole */
    control_set_store(two, url);
    assert_string_equal(two, url);
    control_set_store(two, "");
    assert_string_equal(two, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_holder_answers),
        cmocka_unit_test(one_that_was_dropped_asks_again),
        cmocka_unit_test(a_holder_that_is_gone_is_not_waited_for),
        cmocka_unit_test(one_that_is_dropped_again_and_again_ends_by_its_limit),
        cmocka_unit_test(who_asks_again_has_what_was_left_of_its_limit),
        cmocka_unit_test(an_answer_of_another_size_or_version_is_nonsense),
        cmocka_unit_test(the_answer_of_the_release_before_means_what_it_says),
        cmocka_unit_test(the_release_before_understands_our_answer),
        cmocka_unit_test(a_request_of_another_size_or_version_is_nonsense),
        cmocka_unit_test(one_that_listens_no_more_is_as_good_as_gone),
        cmocka_unit_test(a_squatter_at_a_dead_holders_address_is_not_believed),
        cmocka_unit_test(stores_with_long_urls_are_told_apart),
    };
    return RUN(tests);
}
