/* store/sql/address.h — what the stores in SQL databases share above their tables:
 * where the database is, by the URL, and the words of a check-up. */
#ifndef SNIB__SQL_ADDRESS_H
#define SNIB__SQL_ADDRESS_H

#include "snib/inspect.h"
#include "store/sql/tables.h"

struct snib__sql_recipe;

/* -- the URL (address.c) --------------------------------------------------- */

/* How a scheme's URLs are read. */
struct snib__sql_scheme {
    const char *what;        /* "postgres" */
    unsigned port;           /* where none is said */
    const char *form;        /* words: how a URL is written */
    const char *const *keys; /* that it knows, up to a NULL */
    bool needs_database;
};

/* From the URL; NULL: not said. */
struct snib__sql_address {
    char *host; /* or what ?socket= names */
    char *port, *database, *user, *password, *ca;
    bool socket;     /* it is ?socket= */
    bool here;       /* the server is this host */
    bool verify;     /* TLS, and whose it is */
    char where[264]; /* for texts */
};

/* Errors: USAGE (with the words that are wanted), NOMEM. On an error, too, the
 * address is to be freed. */
snib_err snib__sql_address_read(struct snib__sql_address *,
                                const struct snib__sql_scheme *,
                                const struct snib__url *, struct snib_error *);
void snib__sql_address_free(struct snib__sql_address *);
/* At each opening: it is far away and without TLS. */
void snib__sql_address_warn(const struct snib__sql_address *,
                            struct snib__out *);
/* Is a switch of the URL `yes` or `no`? value NULL: otherwise. False: neither. */
bool snib__sql_is_yes(const char *value, const char *yes, const char *no,
                      bool otherwise, bool *ret);
/* Is it a name that needs no quotes, whoever writes it? */
bool snib__sql_is_plain(const char *name);

/* The first line of a text, without controls, and without the password. */
void snib__sql_clean(const struct snib__sql_address *, const char *text,
                     char *ret, size_t size);

/* -- a check-up (doctor.c) ------------------------------------------------- */

struct snib__sql_doctor {
    struct snib__buf *out;
    struct snib__sql_session *session;
    const struct snib__sql_address *address;
    const char *page; /* of the documentation that lists the rights */
    const struct snib__sql_recipe *recipe;
    int64_t wall_offset_ns; /* of this host; 0: not known */
    snib_instant sent;      /* the question */
    bool lacks;             /* a table is not there */
};

struct snib__sql_question {
    int statement;
    snib__sql_row *see; /* its data: the struct snib__sql_doctor */
    const char *check;
};

/* Add a finding. */
void snib__sql_doctor_tell(struct snib__sql_doctor *, snib_level,
                           const char *check, const char *text,
                           const char *remedy);
/* OK without a remedy, else `bad` with it. */
void snib__sql_doctor_judge(struct snib__sql_doctor *, bool good,
                            snib_level bad, const char *check, const char *text,
                            const char *remedy);
/* These tables are not there, though others are. The list is for people. */
void snib__sql_doctor_lacks(struct snib__sql_doctor *, const char *tables);
/* The server's clock, as an answer has just told it. */
void snib__sql_doctor_clock(struct snib__sql_doctor *, int64_t us);
/* How long the question took that has just been answered. */
void snib__sql_doctor_latency(struct snib__sql_doctor *);
/* Ask each question; what cannot be looked at is a finding, too. Not OK: the
 * server was not reached, which is one as well. */
snib__sql_end snib__sql_doctor_ask(struct snib__sql_doctor *,
                                   const struct snib__sql_question *,
                                   size_t count);

#endif
