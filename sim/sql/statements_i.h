/* sim/sql/statements_i.h — what the files share that carry statements out; no other
 * file includes this. */
#ifndef SIM_SQL_STATEMENTS_I_H
#define SIM_SQL_STATEMENTS_I_H

#include "sim/sql/sql.h"

/* Instead of a state: it waits for a row (sim_sql_statement). */
#define SIM_SQL_WAITS ""

/* A statement that is being carried out. */
struct sim_sql_st {
    struct sim_sql_session *s;
    const struct sim_sql_param *p; /* from 0 on: $1 is p[0] */
    struct snib__buf *out;         /* rows: their count, then values */
};

/* -- parameters and values (rows.c) -------------------------------------------- */

int sim_sql_name_of(const struct sim_sql_param *);
void sim_sql_id_of(const struct sim_sql_param *, uint64_t ret[2]);
void sim_sql_put_int(struct sim_sql_st *, int64_t n);
/* One row of numbers. */
void sim_sql_answer(struct sim_sql_st *, const int64_t v[], int columns);

/* -- rows (rows.c) ------------------------------------------------------------- */

struct sim_key sim_sql_key_of(snib__key_kind, int name);
/* Of the claim whose request is that parameter, from 0 on. */
struct sim_key sim_sql_claim_key(const struct sim_sql_st *, int name,
                                 int request);
/* The name's row in the table "lock"; NULL: there is none. */
const struct sim_row *sim_sql_lock_row(const struct sim_sql_st *, int name);
/* Who holds exclusively; NULL: nobody. */
const struct sim_row *sim_sql_holder_row(const struct sim_sql_st *, int name);
/* Is it a row of the table "claim", and of this name? */
bool sim_sql_is_in_claim(const struct sim_row *, int name);
int sim_sql_claims_of(const struct sim_sql_st *, int name);
/* What the row says; 0 without one. */
int64_t sim_sql_arrivals_of(const struct sim_row *);
void sim_sql_put_claim(struct sim_sql_st *, const struct snib__stored_claim *,
                       const void *about, size_t size, uint64_t stamp,
                       int name);
void sim_sql_put_lock(struct sim_sql_st *, const struct snib__lock_row *,
                      uint64_t stamp, int name);
/* A row of the table "lock" is one, whatever of it is looked at. False: another
 * session has it, and this one waits. */
bool sim_sql_lock_name(struct sim_sql_st *, int name);

/* -- the short way (quick.c) --------------------------------------------------- */

/* As sim_sql_statement. No row: it is not to be had that way. */
const char *sim_sql_acquire(struct sim_sql_st *);
const char *sim_sql_renew(struct sim_sql_st *, bool share);
const char *sim_sql_release(struct sim_sql_st *);

#endif
