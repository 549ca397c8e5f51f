/* tests/unit/mysql_library.h — a libmariadb that answers what the test says: a
 * statement by words in it has numbers or an error; after so many results the
 * connection is cut, or no more come. */
#ifndef SNIB_TESTS_UNIT_MYSQL_LIBRARY_H
#define SNIB_TESTS_UNIT_MYSQL_LIBRARY_H

#include "unit.h"

#include <errmsg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "store/mysql/mysql_i.h"

enum { ANSWERS = 12, NUMBERS = 4, ASKED = 20000 };

struct answer {
    const char *has; /* words of the statement */
    int numbers;     /* 0: it has no rows */
    int64_t number[NUMBERS];
    int code; /* 0: no error */
};

static struct {
    int fd[2];
    const char *info; /* the server's version */
    unsigned long version, id;
    const char *refusal; /* of a login; NULL: it is taken */
    int code;            /* of that, and of the last error */
    bool silent, no_memory;
    struct answer answer[ANSWERS];
    const char *rest; /* of the query: statements not executed yet */
    struct answer now;
    bool more;
    int taken, cut_at, ends_at; /* results; 0: never */
    int options, option_fails;  /* the n-th; 0: none */
    const char *stalls;         /* words of what is not answered at once */
    const char *nulls;          /* the `has` of what is answered NULL */
    const char *methods;        /* by which it may log in; NULL: all */
    size_t stack;               /* of its calls; 0: as it likes */
    char asked[ASKED];          /* all queries */
    char text[NUMBERS][24];
    char *row[NUMBERS];
    unsigned long length[NUMBERS];
    int closed;
} lib;

static MYSQL *lib_it(void)
{
    return (MYSQL *)(void *)&lib;
}

/* How the server answers the statement that begins at `rest`. */
static struct answer lib_find(const char *text, size_t size)
{
    for (int i = 0; i < ANSWERS && lib.answer[i].has; i++) {
        if (memmem(text, size, lib.answer[i].has, strlen(lib.answer[i].has))) {
            return lib.answer[i];
        }
    }
    return (struct answer){0};
}

/* Execute the next statement. False: it failed. */
static bool lib_execute(void)
{
    size_t size = strcspn(lib.rest, ";");
    lib.now = lib_find(lib.rest, size);
    lib.rest += size;
    lib.more = *lib.rest == ';';
    lib.rest += lib.more;
    lib.code = lib.now.code;
    if (lib.cut_at && lib.taken >= lib.cut_at) {
        lib.code = CR_SERVER_LOST;
    }
    lib.taken++;
    lib.more = lib.more && !lib.code && lib.taken != lib.ends_at;
    return !lib.code;
}

static MYSQL *fake_init(MYSQL *c)
{
    (void)c;
    return lib.no_memory ? NULL : lib_it();
}

static int fake_options(MYSQL *c, enum mysql_option option, const void *value)
{
    (void)c;
    if (option == MARIADB_OPT_RESTRICTED_AUTH) {
        lib.methods = value;
    } else if (option == MYSQL_OPT_NONBLOCK) {
        lib.stack = value ? *(const size_t *)value : 0;
    }
    return ++lib.options == lib.option_fails;
}

static int fake_connect(MYSQL **ret, MYSQL *c, const char *host,
                        const char *user, const char *password, const char *db,
                        unsigned port, const char *socket, unsigned long flags)
{
    (void)host;
    (void)user;
    (void)password;
    (void)db;
    (void)port;
    (void)socket;
    (void)flags;
    *ret = lib.refusal ? NULL : c;
    return lib.silent ? MYSQL_WAIT_READ : 0;
}

static int fake_connect_on(MYSQL **ret, MYSQL *c, int status)
{
    (void)c;
    *ret = NULL;
    lib.code = CR_SERVER_LOST;
    return status & MYSQL_WAIT_TIMEOUT ? 0 : MYSQL_WAIT_READ;
}

static int fake_query(int *ret, MYSQL *c, const char *text, unsigned long size)
{
    static char query[ASKED];
    (void)c;
    size_t used = strlen(lib.asked);
    assert_true(size + used + 2 < ASKED);
    memcpy(query, text, size);
    query[size] = 0;
    snprintf(lib.asked + used, ASKED - used, "%s\n", query);
    lib.rest = query;
    *ret = !lib_execute();
    return 0;
}

/* An answer comes. */
static void lib_answers(void)
{
    assert_int_equal(write(lib.fd[1], "x", 1), 1);
}

/* The first half of it: it is executed when its answer is read. */
static int fake_send(int *ret, MYSQL *c, const char *text, unsigned long size)
{
    static char sent[ASKED];
    (void)c;
    size_t used = strlen(lib.asked);
    assert_true(size + used + 2 < ASKED);
    memcpy(sent, text, size);
    sent[size] = 0;
    snprintf(lib.asked + used, ASKED - used, "%s\n", sent);
    lib.rest = sent;
    if (!lib.silent && !(lib.stalls && strstr(sent, lib.stalls))) {
        lib_answers();
    }
    *ret = 0;
    return 0;
}

static int fake_read(my_bool *ret, MYSQL *c)
{
    char one;
    (void)c;
    (void)recv(lib.fd[0], &one, 1, MSG_DONTWAIT);
    *ret = !lib_execute();
    return 0;
}

static int fake_read_on(my_bool *ret, MYSQL *c, int status)
{
    (void)c;
    (void)status;
    *ret = 1;
    return 0;
}

static int fake_on(int *ret, MYSQL *c, int status)
{
    (void)c;
    (void)status;
    *ret = 1;
    return 0;
}

static int fake_next(int *ret, MYSQL *c)
{
    (void)c;
    *ret = !lib.more ? -1 : !lib_execute();
    return 0;
}

static int fake_store(MYSQL_RES **ret, MYSQL *c)
{
    (void)c;
    *ret = (MYSQL_RES *)(void *)&lib;
    return 0;
}

static int fake_store_on(MYSQL_RES **ret, MYSQL *c, int status)
{
    (void)c;
    (void)status;
    *ret = NULL;
    return 0;
}

static MYSQL_ROW fake_row(MYSQL_RES *res)
{
    (void)res;
    bool null = lib.nulls && !strcmp(lib.nulls, lib.now.has);
    for (int i = 0; i < lib.now.numbers; i++) {
        lib.length[i] =
            (unsigned long)snprintf(lib.text[i], sizeof lib.text[i], "%lld",
                                    (long long)lib.now.number[i]);
        lib.row[i] = null ? NULL : lib.text[i];
    }
    return lib.row;
}

static unsigned long *fake_lengths(MYSQL_RES *res)
{
    (void)res;
    return lib.length;
}

static void fake_seek(MYSQL_RES *res, unsigned long long row)
{
    (void)res;
    (void)row;
}

static unsigned long long fake_rows(MYSQL_RES *res)
{
    (void)res;
    return 1;
}

static unsigned fake_fields(MYSQL_RES *res)
{
    (void)res;
    return (unsigned)lib.now.numbers;
}

static unsigned fake_count(MYSQL *c)
{
    (void)c;
    return (unsigned)lib.now.numbers;
}

static unsigned long long fake_changed(MYSQL *c)
{
    (void)c;
    return 1;
}

static unsigned long long fake_id(MYSQL *c)
{
    (void)c;
    return 4242;
}

static void fake_free(MYSQL_RES *res)
{
    (void)res;
}

static unsigned fake_errno(MYSQL *c)
{
    (void)c;
    return (unsigned)lib.code;
}

static const char *fake_error(MYSQL *c)
{
    (void)c;
    return lib.refusal ? lib.refusal : "words";
}

static const char *fake_state(MYSQL *c)
{
    (void)c;
    return "HY000";
}

static char *fake_info(MYSQL *c)
{
    (void)c;
    return (char *)(uintptr_t)lib.info;
}

static unsigned long fake_version(MYSQL *c)
{
    (void)c;
    return lib.version;
}

static unsigned long fake_thread(MYSQL *c)
{
    (void)c;
    return lib.id;
}

static my_socket fake_socket(MYSQL *c)
{
    (void)c;
    return lib.fd[0];
}

static void fake_close(MYSQL *c)
{
    (void)c;
    lib.closed++;
}

static unsigned long fake_client(void)
{
    return 30300;
}

static int fake_begin(int count, char **args, char **groups)
{
    (void)count;
    (void)args;
    (void)groups;
    return 0;
}

static const struct snib__mariadb fake_mariadb = {
    .mysql_affected_rows = fake_changed,
    .mysql_close = fake_close,
    .mysql_data_seek = fake_seek,
    .mysql_errno = fake_errno,
    .mysql_error = fake_error,
    .mysql_fetch_lengths = fake_lengths,
    .mysql_fetch_row = fake_row,
    .mysql_field_count = fake_count,
    .mysql_free_result = fake_free,
    .mysql_get_client_version = fake_client,
    .mysql_get_server_info = fake_info,
    .mysql_get_server_version = fake_version,
    .mysql_get_socket = fake_socket,
    .mysql_init = fake_init,
    .mysql_insert_id = fake_id,
    .mysql_next_result_cont = fake_on,
    .mysql_next_result_start = fake_next,
    .mysql_num_fields = fake_fields,
    .mysql_num_rows = fake_rows,
    .mysql_options = fake_options,
    .mysql_read_query_result_cont = fake_read_on,
    .mysql_read_query_result_start = fake_read,
    .mysql_real_connect_cont = fake_connect_on,
    .mysql_real_connect_start = fake_connect,
    .mysql_real_query_cont = fake_on,
    .mysql_real_query_start = fake_query,
    .mysql_send_query_cont = fake_on,
    .mysql_send_query_start = fake_send,
    .mysql_server_init = fake_begin,
    .mysql_sqlstate = fake_state,
    .mysql_store_result_cont = fake_store_on,
    .mysql_store_result_start = fake_store,
    .mysql_thread_id = fake_thread,
};

#endif
