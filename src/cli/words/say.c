/* say.c — the texts of snib itself: stderr only, one write(2) a line, never for
 * long.
 *
 * The supervisor and the holder use this too. A terminal stopped by Ctrl-S, or
 * a pipe that nobody reads, must not keep a lock from being released or a
 * command from being stopped: what stderr does not take within 20 ms is
 * dropped. No stdio: nothing is buffered, nothing is written twice by a fork.
 */
#include "cli/cli.h"
#include "cli/words/text.h"
#include "snib/sys.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void say_raw(const char *line, size_t size)
{
    struct pollfd p = {.fd = 2, .events = POLLOUT};

    while (size > 0 && TEMP_FAILURE_RETRY(poll(&p, 1, 20)) == 1 &&
           (p.revents & POLLOUT) != 0) {
        ssize_t n = TEMP_FAILURE_RETRY(write(2, line, size));

        if (n < 0) {
            return;
        }
        line += n;
        size -= (size_t)n;
    }
}

static void say_line(const char *prefix, const char *format, va_list args,
                     const char *suffix)
{
    char line[1024];
    int used, more;

    used = snprintf(line, sizeof line, "%s", prefix);
    more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    used += more > 0 ? more : 0;
    if (used > (int)sizeof line - 100) {
        used = (int)sizeof line - 100;
        while (((unsigned char)line[used] & 0xC0u) == 0x80u) {
            used--; /* not in the middle of a character */
        }
    }
    used += snprintf(line + used, sizeof line - (size_t)used, "%s\n", suffix);
    say_raw(line, (size_t)used);
}

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_line("snib: ", format, args, "");
    va_end(args);
}

int usage_error(const struct cli_args *args, const char *format, ...)
{
    const char *sub = args->subcommand;
    char prefix[64], suffix[80];
    va_list list;

    snprintf(prefix, sizeof prefix, "snib%s%s: ", sub != NULL ? " " : "",
             sub != NULL ? sub : "");
    snprintf(suffix, sizeof suffix, " (see: snib%s%s --help)",
             sub != NULL ? " " : "", sub != NULL ? sub : "");
    va_start(list, format);
    say_line(prefix, format, list, suffix);
    va_end(list);
    return CLI_USAGE;
}

static char ring[4][3 * SNIB_NAME_MAX];
static unsigned ring_next;

static const char *say_shown_in(struct text t, const char *bytes)
{
    ring_next++;
    t.bytes[0] = '\0';
    t.size -= 4;
    text_add_shown(&t, bytes, strlen(bytes));
    t.size += 4;
    if (t.cut) {
        t.cut = false;
        text_add(&t, "...");
    }
    return t.bytes;
}

const char *shown(const char *bytes)
{
    struct text t = TEXT_IN(ring[ring_next % 4]);

    return say_shown_in(t, bytes);
}

const char *shown_short(const char *bytes)
{
    struct text t = TEXT_IN(ring[ring_next % 4]);

    t.size = 60;
    return say_shown_in(t, bytes);
}

int cli_busy_status(const struct cli_args *args)
{
    return args->busy_ok          ? CLI_OK
           : args->busy_exit >= 0 ? (int)args->busy_exit
                                  : CLI_NOT_ACQUIRED;
}

const char *say_errno(int error)
{
    static char words[160];
    struct rlimit may;

    if (error != EMFILE || getrlimit(RLIMIT_NOFILE, &may) != 0) {
        return strerror(error);
    }
    snprintf(words, sizeof words,
             "%s: this process may have %llu; raise that limit (ulimit -n)",
             strerror(error), (unsigned long long)may.rlim_cur);
    return words;
}

/* The servers run, and the URL is right: the text says so in one of these. */
static bool say_advice_is_known(const char *text)
{
    return strstr(text, " has no connection left") != NULL ||
           strstr(text, " is a replica") != NULL ||
           strstr(text, "no primary is known") != NULL ||
           strstr(text, " servers is the primary") != NULL;
}

static const char *say_advice(const struct snib_error *error)
{
    if (strstr(error->text, "check ") != NULL) {
        return ""; /* it has advice of its own */
    }
    switch (error->code) {
    case SNIB_ERR_UNREACHABLE:
        if (say_advice_is_known(error->text)) {
            return "";
        }
        return "; does the server run, and is the URL right (--store, "
               "SNIB_URL)? (see: snib doctor)";
    case SNIB_ERR_DENIED:
        if (strstr(error->text, "NOAUTH: ") != NULL) {
            return "; put such a URL into SNIB_URL, or into the file of "
                   "--store-file PATH";
        }
        return " (see: snib doctor)";
    case SNIB_ERR_STORE:
        return " (see: snib doctor)";
    case SNIB_ERR_CONFIG:
        return strstr(error->text, "DB index is out of range") != NULL
                   ? ": the server has no database of the number in the URL "
                     "(redis://HOST/N)"
                   : "";
    default:
        return "";
    }
}

const char *cli_words(const struct snib_error *error)
{
    static char words[sizeof error->text + 128];
    struct text t = TEXT_IN(words);

    words[0] = '\0';
    text_add(&t,
             error->text[0] != '\0' ? error->text : snib_err_text(error->code));
    text_add(&t, say_advice(error));
    return words;
}

int cli_fail(const struct snib_error *error)
{
    say("%s", shown(cli_words(error)));
    return snib_err_exit(error->code);
}

int cli_fail_doctor(const struct snib_error *error, bool told)
{
    char words[sizeof error->text + 128];
    char *here;

    if (told && error->code == SNIB_ERR_UNREACHABLE) {
        snprintf(words, sizeof words, "the store could not be looked at%s",
                 say_advice(error));
    } else {
        snprintf(words, sizeof words, "%s", cli_words(error));
    }
    here = strstr(words, " (see: snib doctor)");
    if (here != NULL) {
        *here = '\0';
    }
    say("%s", shown(words));
    return snib_err_exit(error->code);
}
