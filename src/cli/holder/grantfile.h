/* grantfile.h — what snib acquire hands out.
 *
 * GRANT is one word: snib1:ADDRESS:PID.START:TOKEN:BOOT:TTL:NAME — where the
 * holder listens, which process it is, the fencing token, and the first half of
 * the boot id, so that a grant kept over a reboot is known to be dead. Then
 * come the lease in ms and the name, percent-encoded, with which the store can
 * be asked when the holder does not answer (grants of 0.1.0 lack these two).
 * TOKENFILE holds the same as KEY=VALUE lines for people and scripts; its first
 * line is grant=GRANT.
 *
 * With --detached GRANT is
 * snib1:nokeeper:NAME:CLIENT:REQUEST:TOKEN:TTL:DEADLINE:BOOT — the name
 * percent-encoded, what the store compares (snib_grant_export), the lease in
 * ms, and when the lease ends if nobody renews it: ns of CLOCK_BOOTTIME in the
 * boot of that id. The store is asked all the same; only the store knows of
 * renewals. A grant of a shared lock says so, since the store keeps those
 * apart: snib1:nokeeper.read:… and snib1:nokeeper.semaphore.PERMITS:….
 */
#ifndef SNIB_CLI_GRANTFILE_H
#define SNIB_CLI_GRANTFILE_H

#include "cli/holder/control.h"
#include "cli/store/storeurl.h"
#include "cli/supervisor/plan.h"
#include "snib/sys.h"

/* A name of 512 bytes may take three times as many, percent-encoded. */
enum { GRANT_TEXT_MAX = 2048 };

struct grantfile {
    char address[CONTROL_ADDRESS_MAX];
    int64_t holder_process_pid;
    int64_t holder_start;
    int64_t token;
    char boot[40];
    char name[SNIB_NAME_MAX + 1];
    size_t name_size;
    int64_t ttl_ms; /* 0: not known */
    /* From a TOKENFILE, as shown to people; "": not known. */
    char store[STOREURL_MAX];
    /* Of --detached: the fields from here on instead of address and holder. */
    bool no_holder;
    char detached_grant[SNIB_GRANT_TEXT];
    char identity[SNIB_IDENTITY_TEXT];
    snib_kind kind; /* MUTEX stands for WRITE, too */
    uint32_t permits;
    int64_t deadline_ns;
};

void grantfile_of(const struct plan *, const struct plan_page *,
                  struct grantfile *ret);
/* The same for --detached. */
void grantfile_of_detached(const struct plan *, const struct plan_page *,
                           struct grantfile *ret);
void grantfile_text(const struct grantfile *, char ret[GRANT_TEXT_MAX]);
/* Not an errno: PATH exists and is no regular file. */
#define GRANTFILE_OCCUPIED (-1)
/* Could a file be put at PATH? The directory must be there and writable, and
 * only nothing or a regular file may stand at PATH: the new file replaces it,
 * and a device, a pipe or a link would be gone. 0, errno or
 * GRANTFILE_OCCUPIED. */
int grantfile_place(const char *path);
/* The text of such an error. */
const char *grantfile_error(int error);
/* Write PATH, as a new file of mode 600 that replaces the old one. Returns such
 * an error, or 0. */
int grantfile_write(const char *path, const struct grantfile *,
                    const struct plan *, const struct plan_page *);
/* The exit status for such an error: 78 where another PATH is needed, 70 where
 * the disk is full or broken. */
int grantfile_exit(int error);
/* Remove PATH again, since the grant in it was given back. Only a regular file
 * that begins with this very grant is removed. */
void grantfile_remove(const char *path, const struct grantfile *);
/* Read GRANT or TOKENFILE. False: it said why. */
bool grantfile_read(const struct cli_args *, const char *operand,
                    struct grantfile *ret);

/* The caller's options for cli_open. If they name no store, the one that a
 * TOKENFILE names is added; g must live as long. */
struct cli_args grantfile_args(const struct cli_args *,
                               const struct grantfile *g);
/* "NAME: ", as it is shown; "": the grant does not tell it. The same buffer each
 * time. */
const char *grantfile_named(const struct grantfile *);
/* Say "NAME: WHAT, says STORE", and why another store may know better. */
void grantfile_say_ended(const struct cli_args *, const struct grantfile *,
                         const char *what, const struct snib_client *);

/* Who answered that the grant is no more? */
enum grantfile_answer {
    GRANTFILE_ANSWERED, /* the holder */
    GRANTFILE_GONE,     /* nobody: the holder has ended */
    GRANTFILE_SILENT,   /* nobody: the holder does not answer */
    GRANTFILE_SQUATTED, /* nobody: another user has the holder's address */
    GRANTFILE_FOREIGN   /* nobody: it answers only another user */
};

/* Ask the holder. CLI_OK; CLI_LOST when the holder or its grant is no more, or
 * the holder does not answer (nothing is said); or the exit status of the
 * holder's own refusal (said). */
int grantfile_ask(const struct grantfile *, const struct control_request *,
                  struct control_reply *ret, enum grantfile_answer *ret_by);
/* False: the holder answers, and is of another pid namespace than this process:
 * a pid given here would be another process there. */
bool grantfile_counts_pids_alike(const struct grantfile *);
/* Why control_ask failed. lives: a process exists that may be the holder. (It
 * may live for a moment after it stopped listening.) */
enum grantfile_answer grantfile_no_answer(int error, bool lives);
/* Say to which user the grant belongs; name: as it is shown. */
void grantfile_say_foreign(const char *name, const char *address);
/* After CLI_LOST: say what has become of the grant. The store is asked where
 * the holder did not answer. why: the holder's words, or "". */
void grantfile_say_lost(const struct cli_args *, const struct grantfile *,
                        enum grantfile_answer, const char *why);

#endif
