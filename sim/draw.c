/* sim/draw.c — see sim/draw.h. */
#include "sim/draw.h"

const char *const sim_worlds_names[SIM_WORLDS] = {
    [SIM_OF_MUTEXES] = "--mutex",      [SIM_OF_A_QUORUM] = "--quorum",
    [SIM_OF_MANY] = "--many",          [SIM_OF_CIRCLES] = "--circles",
    [SIM_OF_FORCE] = "--force",        [SIM_OF_VALUES] = "--values",
    [SIM_OF_LEASES] = "--leases",      [SIM_OF_THIN] = "--thin",
    [SIM_OF_SNAPSHOTS] = "--snapshot", [SIM_OF_LISTS] = "--list",
    [SIM_OF_RARE] = "--rare",          [SIM_OF_WITNESSES] = "--witness",
    [SIM_OF_FAILOVERS] = "--failover", [SIM_OF_RECOVERY] = "--recovery",
    [SIM_OF_REPLICAS] = "--replicas",  [SIM_OF_KEEPERS] = "--keepers",
    [SIM_OF_ETCD] = "--etcd",          [SIM_OF_SQL] = "--sql"};

void sim_worlds_draw(enum sim_worlds kind, struct sim_options *o, uint64_t seed)
{
    sim_options_draw(o, seed);
    if (kind == SIM_OF_MUTEXES) {
        o->flavour = SIM_MUTEX;
        o->delay_ms = o->prio_pct = 0;
    } else if (kind == SIM_OF_SNAPSHOTS) {
        sim_force_draw(o);
        sim_many_draw(o, false);
        sim_lease_draw(o);
        sim_table_draw(o);
    } else if (kind == SIM_OF_SQL) {
        sim_force_draw(o);
        sim_many_draw(o, false);
        sim_lease_draw(o);
        sim_sql_draw(o);
    } else if (kind == SIM_OF_ETCD) {
        sim_force_draw(o);
        sim_many_draw(o, false);
        sim_lease_draw(o);
        sim_etcd_draw(o);
    } else if (kind == SIM_OF_LISTS) {
        sim_circles_draw(o);
        sim_force_draw(o);
        sim_many_draw(o, false);
        sim_lease_draw(o);
        sim_list_draw(o);
    } else if (kind == SIM_OF_RARE) {
        sim_rare_draw(o);
    } else if (kind == SIM_OF_WITNESSES) {
        if (seed % 4 == 3) {
            sim_quorum_draw(o);
        } else {
            sim_lease_draw(o);
        }
        sim_witness_draw(o);
    } else if (kind == SIM_OF_FAILOVERS) {
        sim_failover_draw(o);
    } else if (kind == SIM_OF_RECOVERY) {
        sim_recovery_draw(o);
    } else if (kind == SIM_OF_REPLICAS) {
        sim_replicas_draw(o);
    } else if (kind == SIM_OF_KEEPERS) {
        sim_keep_draw(o);
        sim_many_draw(o, false);
        sim_lease_draw(o);
        if (seed % 8 == 5) {
            sim_list_draw(o);
        }
    } else if (kind == SIM_OF_A_QUORUM ||
               (kind != SIM_OF_MANY && sim_quorum_drawn(seed))) {
        sim_quorum_draw(o);
    } else if (kind == SIM_OF_MANY) {
        sim_many_draw(o, true);
    } else { /* one of these kinds at most */
        sim_circles_draw(o);
        sim_force_draw(o);
        sim_many_draw(o, false);
        sim_directs_draw(o);
        sim_lease_draw(o);
    }
}

bool sim_worlds_wanted(enum sim_worlds kind, const struct sim_options *o)
{
    return kind == SIM_OF_CIRCLES  ? o->circle_pct > 0
           : kind == SIM_OF_FORCE  ? o->force_pct || o->spin || o->spin_pct
           : kind == SIM_OF_VALUES ? o->value_pct || o->look_pct
           : kind == SIM_OF_LEASES ? o->lease2_ms > 0
           : kind == SIM_OF_THIN   ? sim_calm(o) && o->nodes <= 1
                                   : true;
}
