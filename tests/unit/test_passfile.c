/* tests/unit/test_passfile.c — driver/passfile.c: which bytes of a file are the
 * password of a URL's password_file=, and what is told where there is none.
 * labels: oom */
#define _GNU_SOURCE
#include "unit.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

enum { PASSWORD_MAX = sizeof((struct snib_login *)0)->password - 1 };

static struct snib_error e;
static struct snib_login login;

/* -- a client with such a URL ------------------------------------------------------ */

static snib_err open_with(const char *user, const char *path,
                          struct snib_client **ret)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    char url[1000];
    snprintf(url, sizeof url, "redis://%s%sh?password_file=%s", user,
             *user ? "@" : "", path);
    o.url = url;
    o.pull = true;
    return snib_client_open(&o, ret, &e);
}

/* What it gives, asked once. */
static snib_err asked(const char *user, const char *path)
{
    struct snib_client *c;
    assert_int_equal(open_with(user, path, &c), SNIB_ERR_OK);
    memset(&login, 0, sizeof login);
    snib_err err = c->logins.ask(c->logins.data, &login);
    snib_client_free(c);
    return err;
}

/* A file of these bytes, and then `more` times an x. */
static void put(char ret_path[40], int *ret_fd, const char *text, size_t more)
{
    *ret_fd = memfd_create("password", MFD_CLOEXEC);
    assert_return_code(*ret_fd, 0);
    snprintf(ret_path, 40, "/proc/self/fd/%d", *ret_fd);
    for (size_t i = 0; i < more; i++) {
        assert_int_equal(write(*ret_fd, "x", 1), 1);
    }
    assert_int_equal(write(*ret_fd, text, strlen(text)), strlen(text));
}

static bool is_zero_from(const char *p, size_t from, size_t size)
{
    while (from < size && !p[from]) {
        from++;
    }
    return from == size;
}

/* -- cases ------------------------------------------------------------------------- */

/* And nothing else of the file stays. */
static void the_first_line_is_the_password(void **state)
{
    static const struct {
        const char *text, *password;
    } t[] = {
        {"abc", "abc"},       {"abc\n", "abc"},     {"abc\r\n", "abc"},
        {"abc\r", "abc"},     {"abc\nrest", "abc"}, {"abc\r\nrest\n", "abc"},
        {" a b \n", " a b "}, {"\rabc\n", "\rabc"}, {"a\r\r\n", "a\r"},
        {"x", "x"},           {"x\n", "x"},         {"\xc3\xa9\n", "\xc3\xa9"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char path[40];
        int fd;
        put(path, &fd, t[i].text, 0);
        assert_int_equal(asked(i % 2 ? "anna" : "", path), SNIB_ERR_OK);
        assert_string_equal(login.password, t[i].password);
        assert_string_equal(login.user, i % 2 ? "anna" : "");
        assert_string_equal(login.text, "");
        assert_int_equal(login.valid_ms, 0);
        assert_true(is_zero_from(login.password, strlen(t[i].password),
                                 sizeof login.password));
        close(fd);
    }
}

static void is_none(const char *path, const char *why)
{
    char text[sizeof login.text];
    snprintf(text, sizeof text, "password_file=%s: %s", path, why);
    assert_int_equal(asked("anna", path), SNIB_ERR_CONFIG);
    assert_string_equal(login.text, text);
    assert_true(is_zero_from(login.password, 0, sizeof login.password));
    assert_string_equal(login.user, "");
}

static void a_password_fits_or_is_none(void **state)
{
    static const struct {
        size_t length; /* and then */
        const char *text;
        bool fits;
    } t[] = {{PASSWORD_MAX, "", true},       {PASSWORD_MAX, "\n", true},
             {PASSWORD_MAX, "\nrest", true}, {PASSWORD_MAX, "\r\n", true},
             {PASSWORD_MAX + 1, "", false},  {PASSWORD_MAX + 1, "\n", false},
             {3 * PASSWORD_MAX, "\n", false}};
    (void)state;
    assert_int_equal(PASSWORD_MAX, 8191);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char path[40];
        int fd;
        put(path, &fd, t[i].text, t[i].length);
        if (t[i].fits) {
            assert_int_equal(asked("", path), SNIB_ERR_OK);
            assert_int_equal(strlen(login.password), PASSWORD_MAX);
            assert_int_equal(strspn(login.password, "x"), PASSWORD_MAX);
        } else {
            is_none(path, "its first line is longer than any password");
        }
        close(fd);
    }
}

static void an_empty_line_is_no_password(void **state)
{
    static const char *const texts[] = {"", "\n", "\r\n", "\r", "\nrest"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        char path[40];
        int fd;
        put(path, &fd, texts[i], 0);
        is_none(path, "its first line is empty");
        close(fd);
    }
}

static void a_file_that_cannot_be_read_is_told(void **state)
{
    (void)state;
    is_none("/is/not/there", "No such file or directory");
    is_none("/", "Is a directory");
}

/* Nobody may ever write to it: it is not waited for. */
static void a_pipe_by_name_is_not_waited_for(void **state)
{
    char folder[] = "/tmp/snib-passfile-XXXXXX", path[60];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/p", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    is_none(path, "its first line is empty");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* It is asked again later: no server has refused anything. */
static void a_lack_of_descriptors_is_no_refusal(void **state)
{
    struct rlimit before, few;
    struct snib_client *c;
    (void)state;
    assert_int_equal(open_with("", "/is/not/there", &c), SNIB_ERR_OK);
    memset(&login, 0, sizeof login);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    snib_err err = c->logins.ask(c->logins.data, &login);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(err, SNIB_ERR_LIMIT);
    assert_string_equal(login.text,
                        "the password_file cannot be opened: no descriptor is "
                        "left of the 0 that this process may have (ulimit -n); "
                        "raise that limit, or close some");
    assert_string_equal(login.password, "");
    snib_client_free(c);
}

static snib_err no_login(void *data, struct snib_login *l)
{
    (void)data;
    (void)l;
    return SNIB_ERR_DENIED;
}

static void a_second_login_is_refused(void **state)
{
    static const char *const urls[] = {
        "redis://:s3cret@h?password_file=/x",
        "redis://anna:s3cret@h?password_file=/x",
        "redis://h?password_file=/x",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        struct snib_client_options o = SNIB_INIT(snib_client_options);
        struct snib_client *c;
        o.url = urls[i];
        o.login = i == 2 ? no_login : NULL;
        assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_USAGE);
        assert_null(c);
        assert_non_null(
            strstr(e.text, ": password_file= and another login, in the URL or "
                           "by the option login; leave one of them out"));
        assert_null(strstr(e.text, "s3cret"));
    }
}

static void a_user_has_255_bytes_at_most(void **state)
{
    char user[257], path[40];
    struct snib_client *c;
    int fd;
    (void)state;
    memset(user, 'u', sizeof user);
    user[256] = '\0';
    assert_int_equal(open_with(user, "/x", &c), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, ": a user has at most 255 bytes"));
    user[255] = '\0';
    put(path, &fd, "abc\n", 0);
    assert_int_equal(asked(user, path), SNIB_ERR_OK);
    assert_string_equal(login.user, user);
    close(fd);
}

static void without_memory_nothing_is_opened(void **state)
{
    struct snib_client *c;
    snib_err err;
    int nth = 0;
    (void)state;
    do {
        snib__mem_fail_at(++nth, false);
        err = open_with("anna", "/x", &c);
        snib__mem_fail_at(0, false);
        assert_true(err == SNIB_ERR_NOMEM || err == SNIB_ERR_OK);
    } while (err);
    assert_true(nth > 5);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest passwords[] = {
        cmocka_unit_test(the_first_line_is_the_password),
        cmocka_unit_test(a_password_fits_or_is_none),
        cmocka_unit_test(an_empty_line_is_no_password),
        cmocka_unit_test(a_file_that_cannot_be_read_is_told),
        cmocka_unit_test(a_pipe_by_name_is_not_waited_for),
        cmocka_unit_test(a_lack_of_descriptors_is_no_refusal),
        cmocka_unit_test(a_second_login_is_refused),
        cmocka_unit_test(a_user_has_255_bytes_at_most),
        cmocka_unit_test(without_memory_nothing_is_opened),
    };
    return RUN(passwords);
}

#endif
