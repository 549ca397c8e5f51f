/* sim/script.c — the names of locks, and what a script at a server is about. */
#include <string.h>

#include "sim/world.h"

const char *const sim_names[SIM_NAMES] = {"stock", "a}b{c", "%7B", "d"};

const char *const sim_keys[SIM_NAMES] = {"snib:{stock}", "snib:{a%7Db%7Bc}",
                                         "snib:{%257B}", "snib:{d}"};

enum sim_script sim_script(const struct sim_redis_event *ev)
{
    if (!ev->script || ev->argc < SIM_SCRIPT_FORCE) {
        return SIM_SCRIPT_NONE;
    }
    if (strcmp(ev->argv[2].ptr, "8") == 0 &&
        ev->argc == SIM_SCRIPT_RELEASE + 1) { /* no renewal: 3 + 8 + 13 */
        return SIM_SCRIPT_RELEASE;
    }
    if (strcmp(ev->argv[2].ptr, "7") != 0) {
        return SIM_SCRIPT_NONE; /* a renewal has an even number of keys */
    }
    switch (ev->argc) {
    case SIM_SCRIPT_ACQUIRE:
    case SIM_SCRIPT_RELEASE:
    case SIM_SCRIPT_CANCEL:
    case SIM_SCRIPT_PARAMS:
    case SIM_SCRIPT_FORCE:
        return (enum sim_script)ev->argc;
    default:
        return SIM_SCRIPT_NONE;
    }
}

const struct sim_redis_arg *sim_args(const struct sim_redis_event *ev)
{
    return ev->argv + (strcmp(ev->argv[2].ptr, "8") == 0);
}

const char *sim_request_of(const struct sim_redis_event *ev)
{
    enum sim_script script = sim_script(ev);
    return script && script != SIM_SCRIPT_FORCE
               ? sim_args(ev)[SIM_ARG_REQUEST].ptr
               : "                                ";
}

int sim_name_of(const struct sim_world *w, const char *key, const char *tail)
{
    for (int n = 0; n < w->opt.names; n++) {
        size_t size = strlen(sim_keys[n]);
        if (strncmp(key, sim_keys[n], size) == 0 &&
            strcmp(key + size, tail) == 0) {
            return n;
        }
    }
    return -1;
}
