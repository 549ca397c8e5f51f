/*
 * test_script_steps.c — what each script does, kept as text
 *
 * scripts.txt has scenes of steps (lines that begin with ">") and behind each
 * step all that came of it: the reply, how many commands the script needed,
 * what listeners heard, each key that is another now with its time to live.
 * So a constant, a code, a limit or an order that changes in a script changes
 * a line there. It says nothing of right and wrong: docs/REDIS.md and the
 * scripts' heads do. Who meant a change writes the outcomes anew:
 *
 *     test_script_steps --record tests/sim_model/scripts.txt
 *
 * and reads the difference before it is committed.
 *
 *     == TITLE             an empty server, at the first instant
 *     > at +5000.250       so many ms (and us) after that
 *     > ear a, unresponsive a      ~a listens, or no longer
 *     > fault oom          the server is in that state; "none"
 *     > redis SET k v      somebody else's command
 *     > acquire a1 …       a script, see script_rig.h
 *     > sum LINE           of what comes of the line the first line, and a
 *                          number of the rest
 *     > many 9 10 LINE     so for nine lines; %d in them is 10, 11, …
 */
#include <stdlib.h>
#include <string.h>

#include "script_rig.h"

static void listen(struct rig *r, const char *who, bool on)
{
    char text[40], *channel;
    snprintf(text, sizeof text, "snib:~%s", who);
    channel = rig_value(text, 0);
    (on ? rig_listen : rig_leave)(r, channel);
    free(channel);
}

static void script(struct rig *r, char *const word[], int words, FILE *out)
{
    struct rig_call c;
    struct rig_keys *before = rig_keys_now(r), *after;
    rig_call_init(&c, word, words, rig_now(r));
    fputs("  ", out);
    rig_send(r, &c, out);
    fprintf(out, " by %d\n", rig_commands(r));
    rig_heard(r, out);
    after = rig_keys_now(r);
    (void)rig_keys_differ(before, after, out);
    rig_keys_free(before);
    rig_keys_free(after);
    rig_call_free(&c);
}

static bool step(struct rig *r, const char *line, FILE *out);

/* What comes of the line, or of so many, as its first line and a number. */
static bool sum(struct rig *r, const char *line, int count, int from, FILE *out)
{
    char *told = NULL, now[1000];
    size_t size, sessions = 0;
    uint64_t n = UINT64_C(14695981039346656037);
    FILE *tell = open_memstream(&told, &size);
    bool good = true;
    for (int i = 0; good && i < count; i++) {
        const char *at = strstr(line, "%d");
        int before = at ? (int)(at - line) : (int)strlen(line);
        snprintf(now, sizeof now, "%.*s", before, line);
        if (at) {
            snprintf(now + before, sizeof now - (size_t)before, "%d%s",
                     from + i, at + 2);
        }
        good = step(r, now, tell);
    }
    (void)fclose(tell);
    for (const char *p = told; *p; p++) {
        n = (n ^ (uint8_t)*p) * UINT64_C(1099511628211);
        sessions += *p == '\n';
    }
    if (sessions) {
        fprintf(out, "%.*s\n  %zu lines, %016llx\n", (int)strcspn(told, "\n"),
                told, sessions, (unsigned long long)n);
    }
    free(told);
    return good;
}

static bool sum_line(struct rig *r, const char *line, FILE *out)
{
    int count, from, at = 0;
    if (strncmp(line, "sum ", 4) == 0) {
        return sum(r, line + 4, 1, 0, out);
    }
    return sscanf(line, "many %d %d %n", &count, &from, &at) == 2 && at &&
           sum(r, line + at, count, from, out);
}

static bool is(const char *word, const char *other)
{
    return strcmp(word, other) == 0;
}

static bool state(struct rig *r, const char *what, const char *value)
{
    if (is(what, "at")) {
        rig_set_now(r,
                    RIG_T0_MS * 1000 + (int64_t)(strtod(value, NULL) * 1000));
    } else if (is(what, "ear") || is(what, "deaf")) {
        listen(r, value, is(what, "ear"));
    } else {
        return is(what, "fault") && rig_fault(r, value);
    }
    return true;
}

static bool step(struct rig *r, const char *line, FILE *out)
{
    char text[4000], *word[RIG_WORDS];
    snprintf(text, sizeof text, "%s", line);
    int words = rig_words(text, word);
    if (words && rig_shape_named(word[0])) {
        script(r, word, words, out);
    } else if (words > 1 && (is(word[0], "sum") || is(word[0], "many"))) {
        return sum_line(r, line, out);
    } else if (words > 1 && is(word[0], "redis")) {
        fputs("  ", out);
        rig_command(r, word + 1, words - 1, out);
        fputc('\n', out);
        rig_heard(r, out);
    } else {
        return words == 2 && state(r, word[0], word[1]);
    }
    return true;
}

/* The text of a file with its outcomes as they are now. */
static char *played(const char *path)
{
    char *line = NULL, *text = NULL;
    size_t room = 0, size, number = 0;
    FILE *in = fopen(path, "r"), *out = open_memstream(&text, &size);
    struct rig *r = rig_new();
    bool good = in && out;
    while (good && getline(&line, &room, in) >= 0) {
        number++;
        if (strncmp(line, "  ", 2) == 0) {
            continue; /* an outcome */
        }
        fputs(line, out);
        if (strncmp(line, "== ", 3) == 0) {
            rig_reset(r);
        } else if (line[0] == '>') {
            line[strcspn(line, "\n")] = 0;
            good = step(r, line + 2, out);
        }
    }
    if (!good) {
        fprintf(stderr, "%s:%zu: %s\n", path, number,
                in ? "no such step" : "cannot be read");
        exit(64);
    }
    rig_free(r);
    free(line);
    (void)fclose(in);
    (void)fclose(out);
    return text;
}

static char *whole(const char *path)
{
    char *text = NULL;
    size_t size;
    FILE *in = fopen(path, "r"), *out = open_memstream(&text, &size);
    for (int c; in && (c = fgetc(in)) != EOF;) {
        fputc(c, out);
    }
    if (in) {
        (void)fclose(in);
    }
    (void)fclose(out);
    return text;
}

static size_t line_of(const char *p)
{
    return strcspn(p, "\n") + (strchr(p, '\n') != NULL);
}

/* The scene and the step of the first line that is another, and both. */
static int compare(const char *path, const char *is, const char *now)
{
    const char *scene = "", *made = "";
    for (size_t line = 1; *is || *now; line++) {
        size_t n = line_of(is), m = line_of(now);
        scene = strncmp(is, "== ", 3) == 0 ? is : scene;
        made = *is == '>' ? is : made;
        if (n != m || memcmp(is, now, n) != 0) {
            fprintf(stderr,
                    "%s:%zu: it is not as it was.\n%.*s%.*swas:%.*snow:%.*s"
                    "Was it meant? Then test_script_steps --record %s, and "
                    "read the difference.\n",
                    path, line, (int)line_of(scene), scene, (int)line_of(made),
                    made, (int)n, is, (int)m, now, path);
            return 1;
        }
        is += n;
        now += m;
    }
    return 0;
}

int main(int argc, char **argv)
{
    bool record = argc == 3 && strcmp(argv[1], "--record") == 0;
    if (argc != 2 && !record) {
        fprintf(stderr, "usage: %s [--record] FILE\n", argv[0]);
        return 64;
    }
    const char *path = argv[argc - 1];
    char *is = whole(path), *now = played(path);
    int status = 0;
    if (record) {
        FILE *out = fopen(path, "w");
        status = !out || fputs(now, out) < 0 || fclose(out) ? 1 : 0;
    } else {
        status = compare(path, is, now);
    }
    free(is);
    free(now);
    return status;
}
