/* model.c — all states of `snib run`'s processes, breadth first.
 *
 *  model                what ctest runs: each setup with as many disturbances
 *                       (stops, kills, signals, a force-release), at any
 *                       moments, as its line in the table says
 *  --more N             with so many more
 *  --most N             with at most so many
 *  --only TEXT          setups whose name contains it
 *  --states N           visit no more than so many states of a setup
 *  --first              end with the first setup that fails
 *  --list               the setups
 *  --same FILE          compare all that supervisor_step() was given and
 *                       answered with the numbers of the file (same.c)
 *  --record FILE        write these numbers
 *
 * Everything else that may happen costs nothing, and happens in any order and
 * number: renewals that are confirmed, refused, late or lost; ends of the
 * command; time. All of it is visited to the last state, as times are relative
 * to now.
 *
 * judge.c checks each state. From each state an end has to be reachable by
 * steps of the processes alone that are there (continued, if they are stopped),
 * without an answer of the store, and without the help of a command that was
 * told to end. And no process may run in circles while time stands still. A
 * finding is printed with a shortest way to it; the exit status is 1. A setup
 * that --states cuts short was checked in the states that were visited. Whether
 * an end is reachable is not known of it, and it does not count as one that
 * holds. */
#include "seen.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct {
    int more, most;
    size_t states;
    const char *only;
    bool first;
} option = {.most = FAR_OUT, .states = 20 * 1000 * 1000, .only = ""};

/* -- words ----------------------------------------------------------------- */

static const char *const move_text[] = {
#define MOVE_TEXT_(name, text) text,
    MOVES(MOVE_TEXT_)
#undef MOVE_TEXT_
};

const char *const mind_text[] = {"waiting", "leaving", "running", "stopping",
                                 "ending",  "holding", "gone",    "done"};
static const char *const at_text[] = {"poll", "clock", "socket", "signals",
                                      "a signal"};
static const char *const runs_text[] = {"runs", "is stopped", "is killed",
                                        "has exited"};
static const char *const leader_text[] = {"not born", "at the gate", "runs",
                                          "zombie", "reaped"};
static const char *const lock_text[] = {"free", "another's", "ours"};

static void print_world(const struct world *w)
{
    printf("      supervisor %s, %s, at %s, deadline %d timer %d exit %d; "
           "holder %s phase %d.%d, page %d offer %d; command %s%s; lock %s "
           "%d; facts %x, term %d, age %d\n",
           runs_text[w->sup], mind_text[w->mind.state], at_text[w->at],
           w->mind.deadline, w->mind.timer, w->mind.exit, runs_text[w->holder],
           w->phase, w->holder_at, w->page_deadline, w->page_offer,
           leader_text[w->leader], w->leader_stopped ? ", stopped" : "",
           lock_text[w->lock], w->lock_end, w->facts, w->term_age, w->age);
}

/* Print a finding: the state, and the move out of it that is wrong (MOVE_COUNT:
 * none is). */
static void failed(uint32_t at, enum move by, const char *why)
{
    uint32_t way[4096];
    size_t length = 0;

    printf("FAILED %s: %s\n", setup.name, why);
    if (exit_status >= 0) {
        printf("    exit status %d\n", exit_status);
    }
    for (uint32_t i = at; i != 0 && length < 4096; i = seen.from[i]) {
        way[length++] = i;
    }
    while (length-- > 0) {
        if (seen.by[way[length]] == TICK) {
            print_world(&seen.worlds[seen.from[way[length]]]);
        }
        printf("    %s\n", move_text[seen.by[way[length]]]);
    }
    print_world(&seen.worlds[at]);
    if (by != MOVE_COUNT) {
        printf("    %s\n", move_text[by]);
    }
    seen.failed = true;
}

/* -- exploring ------------------------------------------------------------- */

static void settle_sup(struct world *w)
{
    if (w->sup >= KILLED) { /* its exit has been judged */
        w->mind = (struct mind){.state = SUPERVISOR_DONE};
        w->asked_to_end = w->sent = w->code = 0;
        w->facts &= F_BOTH_OUT | F_FORCED | F_SILENT;
    }
    if (w->mind.state != SUPERVISOR_STOPPING &&
        w->mind.state != SUPERVISOR_ENDING) {
        w->mind.kill_at = NONE;
    }
    if (!setup.hold_min && !setup.max_run) {
        w->age = w->page_offer == OFFERED ? w->age : 0;
        w->mind.granted = NONE;
    }
}

/* States that differ only in what can no longer matter are made the same. */
static void settle(struct world *w)
{
    settle_sup(w);
    if (!(w->facts & F_TERM) || w->leader != RUNNING) {
        w->term_age = 0;
    }
    if (w->page_offer == TAKEN) { /* neither has any effect now */
        w->limit_at = w->offer_at = NEVER;
    }
    if (w->facts & F_LOST_MUST) {
        w->facts |= F_LOST_MAY;
    }
    if (w->holder == KILLED && w->leader == REAPED && !anybody(w)) {
        w->lock = FREE;
    }
    if (w->lock != OURS) {
        w->lock_end = 0;
    }
}

/* Does a process that is there, and continued if need be, make this move by
 * itself? */
static bool is_fair(const struct world *w, enum move m)
{
    switch (m) {
    case COMMAND_ENDS_0:
        return !(w->facts & F_TERM);
    case CHILD_EXEC:
    case RELEASE_DROPPED:
    case CONT_SUP:
    case CONT_HOLDER:
    case CONT_COMMAND:
    case TICK:
    case SUP_STEP:
        return true;
    default:
        return m >= HOLDER_HEARS && m <= HOLDER_GIVES_UP && m != HOLDER_GRANT;
    }
}

static bool is_quick(enum move m)
{
    return m != TICK && m != COMMAND_ENDS_0 && m != CONT_SUP &&
           m != CONT_HOLDER && m != CONT_COMMAND;
}

static void explore_from(uint32_t at)
{
    if (is_end(&seen.worlds[at]) && !anybody(&seen.worlds[at])) {
        return;
    }
    for (int m = 0; m < MOVE_COUNT && !seen.failed; m++) {
        struct world w = seen.worlds[at];
        uint32_t to;

        if (!world_can(&w, (enum move)m)) {
            continue;
        }
        world_do(&w, (enum move)m);
        settle(&w);
        seen.moves++;
        if (wrong != NULL) {
            failed(at, (enum move)m, wrong);
            wrong = NULL;
            return;
        }
        to = note(&w, at, (enum move)m);
        if (to != at && is_fair(&seen.worlds[at], (enum move)m)) {
            note_fair(is_quick((enum move)m) ? at | QUICK : at, to);
        }
    }
}

/* It waits for the lock without a limit, as it was asked to. */
static bool waits_for_ever(const struct world *w)
{
    return !setup.limit && w->sup == RUNS &&
           w->mind.state == SUPERVISOR_WAITING && w->holder == RUNS;
}

/* The edges the other way round: those to state i come from back[first[i]] to
 * back[first[i + 1] - 1]. */
struct backwards {
    size_t *first;
    uint32_t *back;
};

static struct backwards turn_round(bool only_quick)
{
    struct backwards b = {.first = zeroed(seen.count + 2, sizeof *b.first),
                          .back = zeroed(seen.fair + 1, sizeof *b.back)};

    for (size_t i = 0; i < seen.fair; i++) {
        if (!only_quick || seen.edges[2 * i] & QUICK) {
            b.first[seen.edges[2 * i + 1] + 2]++;
        }
    }
    for (size_t i = 2; i < seen.count + 2; i++) {
        b.first[i] += b.first[i - 1];
    }
    for (size_t i = 0; i < seen.fair; i++) {
        if (!only_quick || seen.edges[2 * i] & QUICK) {
            b.back[b.first[seen.edges[2 * i + 1] + 1]++] =
                seen.edges[2 * i] & ~QUICK;
        }
    }
    return b;
}

static bool good_end(const struct world *w)
{
    return is_end(w) || waits_for_ever(w);
}

static bool lets_time_pass(const struct world *w)
{
    return is_end(w) || !urgent(w);
}

/* Go backwards from the states where `arrived` is true. A state that is not
 * reached fails: its moves do not lead there. */
static void judge_ways(bool only_quick, bool (*arrived)(const struct world *),
                       const char *why)
{
    struct backwards b = turn_round(only_quick);
    uint32_t *list = zeroed(seen.count + 1, sizeof *list);
    bool *good = zeroed(seen.count + 1, sizeof *good);
    size_t tail = 0;

    for (uint32_t i = 0; i < seen.count; i++) {
        if (arrived(&seen.worlds[i])) {
            good[i] = true;
            list[tail++] = i;
        }
    }
    for (size_t head = 0; head < tail; head++) {
        for (size_t i = b.first[list[head]]; i < b.first[list[head] + 1]; i++) {
            if (!good[b.back[i]]) {
                good[b.back[i]] = true;
                list[tail++] = b.back[i];
            }
        }
    }
    for (uint32_t i = 0; i < seen.count && !seen.failed; i++) {
        if (!good[i]) {
            failed(i, MOVE_COUNT, why);
        }
    }
    free(b.first);
    free(b.back);
    free(list);
    free(good);
}

static void judge_ends(void)
{
    judge_ways(true, lets_time_pass,
               "it goes in circles, and time stands still");
    judge_ways(false, good_end, "no end can be reached from here");
}

static struct {
    size_t states;
    uint64_t moves;
    int hold, cut, fail;
} total;

static double processor_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int disturbances(const struct setup *s)
{
    int left = s->left + option.more;

    return left < option.most ? left : option.most;
}

/* Visit the states of a setup. True: their number reached the limit. */
static bool visit(const struct setup *s)
{
    bool cut = false;
    struct world w;

    memset(&w, 0, sizeof w);
    w.lock = ANOTHERS;
    w.left = (uint8_t)disturbances(s);
    sup_begin(&w);
    holder_begin(&w);
    settle(&w);
    note(&w, 0, TICK);
    for (uint32_t at = 0; at < seen.count && !seen.failed && !cut; at++) {
        explore_from(at);
        cut = seen.count >= option.states;
    }
    return cut && !seen.failed;
}

static void explore(const struct setup *s)
{
    double begin = processor_s();
    bool cut;

    set_up(s);
    same_begin();
    cut = visit(s);
    if (!seen.failed && !cut) {
        same_end(setup.name, disturbances(s));
        judge_ends();
    }
    printf("%s: %zu states, %" PRIu64 " moves, %d disturbances, %.1f s%s\n",
           setup.name, seen.count, seen.moves, disturbances(s),
           processor_s() - begin, cut ? ", cut short" : "");
    fflush(stdout);
    total.states += seen.count;
    total.moves += seen.moves;
    total.fail += seen.failed;
    total.cut += cut;
    total.hold += !seen.failed && !cut;
    forget_all();
}

static void usage(void)
{
    fprintf(stderr,
            "usage: model [--more N] [--most N] [--only TEXT] [--states N] "
            "[--first] [--list] [--same FILE] [--record FILE]\n");
    exit(64);
}

static void read_options(int argc, char **argv)
{
    static const struct option options[] = {{"more", 1, NULL, 'm'},
                                            {"most", 1, NULL, 'M'},
                                            {"only", 1, NULL, 'o'},
                                            {"states", 1, NULL, 's'},
                                            {"first", 0, NULL, 'f'},
                                            {"list", 0, NULL, 'L'},
                                            {"same", 1, NULL, 'k'},
                                            {"record", 1, NULL, 'R'},
                                            {0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'm':
            option.more = atoi(optarg);
            break;
        case 'M':
            option.most = atoi(optarg);
            break;
        case 'o':
            option.only = optarg;
            break;
        case 's':
            option.states = strtoull(optarg, NULL, 10);
            break;
        case 'f':
            option.first = true;
            break;
        case 'k':
            same_compare(optarg);
            break;
        case 'R':
            same_record(optarg);
            break;
        case 'L':
            for (size_t i = 0; i < setup_count; i++) {
                puts(setups[i].name);
            }
            exit(0);
        default:
            usage();
        }
    }
    if (option.more < 0 || option.most < 0 || optind != argc) {
        usage();
    }
}

static void say_sum(void)
{
    printf("%d hold, %d cut short", total.hold, total.cut);
    if (total.fail > 0) {
        printf(", %d FAIL", total.fail);
    }
    printf(": %zu states, %" PRIu64 " moves, %.1f s\n", total.states,
           total.moves, processor_s());
}

int main(int argc, char **argv)
{
    bool same;

    read_options(argc, argv);
    for (size_t i = 0; i < setup_count; i++) {
        if (strstr(setups[i].name, option.only) != NULL &&
            !(option.first && total.fail > 0)) {
            explore(&setups[i]);
        }
    }
    same = same_close(option.only[0] == '\0');
    say_sum();
    return total.fail > 0 || !same ? 1 : 0;
}
