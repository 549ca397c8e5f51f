/* bench/report.c — medians, the table, JSON. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { FINDINGS_MAX = 128, NOTES_MAX = 96 };

static struct finding findings[FINDINGS_MAX];
static int finding_count;
static char notes[NOTES_MAX][240];
static int note_count;
static struct {
    const char *row, *why;
} skips[FINDINGS_MAX];
static int skip_count;

void sample_add(struct sample *s, double v)
{
    if (s->n < ROUNDS_MAX) {
        s->v[s->n++] = v;
    }
}

static double sample_part(const struct sample *s, double part)
{
    struct sample sorted = *s;
    qsort(sorted.v, (size_t)sorted.n, sizeof *sorted.v, by_double);
    return at_part(sorted.v, (size_t)sorted.n, part);
}

double sample_median(const struct sample *s)
{
    return sample_part(s, 0.5);
}

double sample_low(const struct sample *s)
{
    return sample_part(s, 0);
}

double sample_high(const struct sample *s)
{
    return sample_part(s, 1);
}

void finding_pair(struct finding *f, double ours, double base)
{
    sample_add(&f->ours, ours);
    sample_add(&f->base, base);
    sample_add(&f->ratio, base > 0 ? ours / base : 0);
}

void report(const struct finding *f)
{
    if (finding_count < FINDINGS_MAX) {
        findings[finding_count++] = *f;
    }
    progress("  %s: %s: %.4g %s", f->row, f->what, sample_median(&f->ours),
             f->unit);
}

void report_skip(const char *row, const char *why)
{
    skips[skip_count].row = row;
    skips[skip_count++].why = why;
}

void report_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (note_count < NOTES_MAX) {
        vsnprintf(notes[note_count++], sizeof *notes, fmt, ap);
    }
    va_end(ap);
}

void progress(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

/* -- the verdict ------------------------------------------------------------ */

static const struct sample *judged(const struct finding *f)
{
    return f->per_ratio ? &f->ratio : &f->ours;
}

static const char *verdict(const struct finding *f)
{
    double v = sample_median(judged(f));
    switch (f->kind) {
    case GOAL_NONE:
        break;
    case GOAL_AT_MOST:
        return v <= f->goal ? "met" : "MISSED";
    case GOAL_AT_LEAST:
        return v >= f->goal ? "met" : "MISSED";
    }
    return "-";
}

static void print_goal(const struct finding *f)
{
    char text[32] = "-";
    if (f->kind != GOAL_NONE) {
        snprintf(text, sizeof text, "%s %.4g%s",
                 f->kind == GOAL_AT_MOST ? "<=" : ">=", f->goal,
                 f->per_ratio ? " x" : "");
    }
    printf(" %-12s %s\n", text, verdict(f));
}

static void print_finding(const struct finding *f)
{
    char base[32] = "-", ratio[48] = "-";
    if (f->base.n) {
        snprintf(base, sizeof base, "%.4g", sample_median(&f->base));
        snprintf(ratio, sizeof ratio, "%.2f (%.2f-%.2f)",
                 sample_median(&f->ratio), sample_low(&f->ratio),
                 sample_high(&f->ratio));
    } else if (f->ours.n > 1) {
        snprintf(ratio, sizeof ratio, "(%.4g-%.4g)", sample_low(&f->ours),
                 sample_high(&f->ours));
    }
    printf("%-13s %-38.38s %9.4g %9s %-12s %-18s", f->row, f->what,
           sample_median(&f->ours), base, f->unit, ratio);
    print_goal(f);
}

static void print_table(void)
{
    printf("\n%-13s %-38s %9s %9s %-12s %-18s %-12s %s\n", "row", "what",
           "snib", "baseline", "unit", "ratio (spread)", "goal", "verdict");
    for (int i = 0; i < finding_count; i++) {
        print_finding(&findings[i]);
    }
    for (int i = 0; i < skip_count; i++) {
        printf("%-13s SKIPPED: %s\n", skips[i].row, skips[i].why);
    }
    for (int i = 0; i < note_count; i++) {
        printf("note: %s\n", notes[i]);
    }
}

/* -- JSON --------------------------------------------------------------------- */

static void json_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            fputc('\\', f);
        }
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, f);
    }
    fputc('"', f);
}

static void json_sample(FILE *f, const char *key, const struct sample *s)
{
    fprintf(f, ",\"%s\":", key);
    if (!s->n) {
        fputs("null", f);
        return;
    }
    fprintf(f, "{\"median\":%.6g,\"low\":%.6g,\"high\":%.6g,\"rounds\":%d}",
            sample_median(s), sample_low(s), sample_high(s), s->n);
}

static void json_finding(FILE *f, const struct finding *x)
{
    fputs("{\"row\":", f);
    json_text(f, x->row);
    fputs(",\"what\":", f);
    json_text(f, x->what);
    fputs(",\"unit\":", f);
    json_text(f, x->unit);
    json_sample(f, "snib", &x->ours);
    json_sample(f, "baseline", &x->base);
    json_sample(f, "ratio", &x->ratio);
    if (x->kind == GOAL_NONE) {
        fputs(",\"goal\":null,\"verdict\":null}", f);
        return;
    }
    fprintf(f, ",\"goal\":{\"on\":\"%s\",\"%s\":%g},\"verdict\":\"%s\"}",
            x->per_ratio ? "ratio" : "snib",
            x->kind == GOAL_AT_MOST ? "at_most" : "at_least", x->goal,
            strcmp(verdict(x), "met") == 0 ? "met" : "missed");
}

static void print_json(FILE *f)
{
    fprintf(f,
            "{\"schema\":1,\"version\":\"%s\",\"rounds\":%d,"
            "\"seconds\":%g,\"findings\":[",
            snib_version(), settings.rounds, settings.seconds);
    for (int i = 0; i < finding_count; i++) {
        fputs(i ? ",\n" : "\n", f);
        json_finding(f, &findings[i]);
    }
    fputs("\n],\"skipped\":[", f);
    for (int i = 0; i < skip_count; i++) {
        fputs(i ? "," : "", f);
        json_text(f, skips[i].row);
    }
    fputs("],\"notes\":[", f);
    for (int i = 0; i < note_count; i++) {
        fputs(i ? ",\n" : "\n", f);
        json_text(f, notes[i]);
    }
    fputs("\n]}\n", f);
}

bool report_all(const char *json_path)
{
    bool all = true;
    if (!json_path || strcmp(json_path, "-") != 0) {
        print_table();
    }
    if (json_path) {
        FILE *f = strcmp(json_path, "-") == 0 ? stdout : fopen(json_path, "we");
        if (!f) {
            die("%s cannot be written", json_path);
        }
        print_json(f);
        if (f != stdout) {
            fclose(f);
        }
    }
    for (int i = 0; i < finding_count; i++) {
        all = all && strcmp(verdict(&findings[i]), "MISSED") != 0;
    }
    return all;
}
