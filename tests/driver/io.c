/* io.c — commands in, JSON out; see driver.c. */
#define _GNU_SOURCE
#include "driver.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2))) _Noreturn void die(const char *format,
                                                         ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "driver: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    _exit(3);
}

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void *must(void *memory)
{
    if (memory == NULL) {
        die("out of memory");
    }
    return memory;
}

/* -- JSON out ------------------------------------------------------------- */

static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;

void line_begin(struct line *line)
{
    *line = (struct line){.first = true};
    line->file = must(open_memstream(&line->text, &line->size));
    fputc('{', line->file);
}

void line_end(struct line *line)
{
    fputs("}\n", line->file);
    fclose(line->file);
    pthread_mutex_lock(&out_lock);
    fwrite(line->text, 1, line->size, stdout);
    fflush(stdout);
    pthread_mutex_unlock(&out_lock);
    free(line->text);
}

/* The test has seen every answer written so far, and what it asks now builds
 * on them: says so to ThreadSanitizer, which sees no pipes. */
void answers_are_seen(void)
{
    pthread_mutex_lock(&out_lock);
    pthread_mutex_unlock(&out_lock);
}

void put_bytes(FILE *file, const char *bytes, size_t size)
{
    fputc('"', file);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') {
            fprintf(file, "\\u%04x", c);
        } else {
            fputc(c, file);
        }
    }
    fputc('"', file);
}

void line_key(struct line *line, const char *key)
{
    fprintf(line->file, "%s\"%s\":", line->first ? "" : ",", key);
    line->first = false;
}

void line_int(struct line *line, const char *key, int64_t value)
{
    line_key(line, key);
    fprintf(line->file, "%" PRId64, value);
}

void line_bool(struct line *line, const char *key, bool value)
{
    line_key(line, key);
    fputs(value ? "true" : "false", line->file);
}

void line_text(struct line *line, const char *key, const char *value)
{
    line_key(line, key);
    put_bytes(line->file, value, strlen(value));
}

/* -- commands in ---------------------------------------------------------- */

static int hex(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c == '\0' ? NULL : strchr(digits, c | 0x20);
    return at == NULL ? -1 : (int)(at - digits);
}

/* Percent-decoding in place; the result is NUL-terminated as well. */
static size_t decode(char *text)
{
    char *to = text;
    for (char *from = text; *from != '\0'; to++) {
        if (*from == '%' && hex(from[1]) >= 0 && hex(from[2]) >= 0) {
            *to = (char)(hex(from[1]) * 16 + hex(from[2]));
            from += 3;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
    return (size_t)(to - text);
}

struct command *parse(const char *text)
{
    struct command *command = must(calloc(1, sizeof(*command)));
    command->text = must(strdup(text));
    char *rest = NULL;
    command->tag = strtok_r(command->text, " \n", &rest);
    command->verb = strtok_r(NULL, " \n", &rest);
    if (command->tag == NULL || command->verb == NULL) {
        die("no command: %s", text);
    }
    char *word;
    while ((word = strtok_r(NULL, " \n", &rest)) != NULL) {
        char *equals = strchr(word, '=');
        if (equals == NULL || command->count == ARGS_MAX) {
            die("bad argument: %s", word);
        }
        *equals = '\0';
        int i = command->count++;
        command->arg[i].key = word;
        command->arg[i].value = equals + 1;
        command->arg[i].size = decode(equals + 1);
    }
    return command;
}

void command_free(struct command *command)
{
    free(command->text);
    free(command);
}

const char *text_of(const struct command *command, const char *key,
                    const char *missing, size_t *ret_size)
{
    for (int i = 0; i < command->count; i++) {
        if (strcmp(command->arg[i].key, key) == 0) {
            if (ret_size != NULL) {
                *ret_size = command->arg[i].size;
            }
            return command->arg[i].value;
        }
    }
    if (ret_size != NULL) {
        *ret_size = missing == NULL ? 0 : strlen(missing);
    }
    return missing;
}

const char *word_of(const struct command *command, const char *key)
{
    const char *word = text_of(command, key, NULL, NULL);
    if (word == NULL) {
        die("%s: %s is missing", command->verb, key);
    }
    return word;
}

int64_t int_of(const struct command *command, const char *key, int64_t missing)
{
    const char *text = text_of(command, key, NULL, NULL);
    return text == NULL ? missing : strtoll(text, NULL, 10);
}

bool flag_of(const struct command *command, const char *key)
{
    return int_of(command, key, 0) != 0;
}
