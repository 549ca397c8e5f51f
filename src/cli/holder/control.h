/* control.h — the holder's private socket.
 *
 * A process inside the command (snib check, a nested snib run), or one that has
 * the grant of a snib acquire, asks the living holder and never a file: a file
 * cannot know that the holder was killed.
 *
 * The socket is an abstract one: nothing is left on disk, and no environment
 * variable decides where it is. Its name is the uid of the holder and 64 random
 * bits. Both ends compare the other's uid by SO_PEERCRED, and the asker
 * compares it with the uid in the address. So a squatter of another user is
 * neither served nor believed, not by root either. SEQPACKET: one request, one
 * reply, then the asker closes.
 */
#ifndef SNIB_CLI_CONTROL_H
#define SNIB_CLI_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "snib.h"
#include "snib/sys.h"

enum { CONTROL_ADDRESS_MAX = 48, CONTROL_STORE_MAX = 512 };
#define CONTROL_MAGIC 0x736e6231u /* "snb1" */

enum control_verb {
    CONTROL_STATUS = 1,
    CONTROL_RENEW,
    CONTROL_RELEASE,
    CONTROL_ABOVE, /* answered by a struct control_above */
    CONTROL_TIE,   /* release when holder_pid ends; then as RENEW */
    /* End a holder whose lock is lost, if it is tied to holder_pid. */
    CONTROL_FORGET,
    /* As STATUS, from the holder of a snib run --reentrant that runs its command
     * under this lock; lease_ms: a number that the run has drawn. The lock is
     * not released before that run has said LEAVE or ended, or the deadline in
     * the answer is over. Answered by CLI_LOST when the lock is to be
     * released. */
    CONTROL_UNDER,
    CONTROL_LEAVE /* as STATUS: that run's command is gone */
};

struct control_request {
    uint32_t magic;
    uint32_t verb;
    int64_t lease_ms;   /* RENEW; 0: the lock's. UNDER, LEAVE: which run */
    int64_t token;      /* of the grant meant; 0: any */
    int64_t holder_pid; /* TIE, FORGET */
    uint32_t name_size; /* 0: no name in particular */
    char name[SNIB_NAME_MAX];
};

struct control_reply {
    uint32_t magic;
    int32_t code; /* 0, or the exit status */
    /* CLOCK_BOOTTIME; 0: not held. RELEASE with code 0: not 0 if the lock is
     * released later, by then at the latest. Ask again. */
    int64_t deadline_ns;
    int64_t token;
    char store[CONTROL_STORE_MAX]; /* control_set_store() */
    /* The explanation of a code that is not 0. STATUS with code 0: who
     * holds. */
    char text[176];
    /* STATUS with code CLI_LOST: snib_cause; 0: not known. */
    int32_t cause;
    int32_t unused;   /* 0 */
    int64_t ttl_ns;   /* of the lease; 0: not known */
    int32_t kind;     /* of the grant (snib_kind) */
    uint32_t permits; /* of a semaphore: how many */
    int64_t slot;     /* ... and which slot; -1: none */
};

/* Two releases of snib that follow each other may talk through this struct. A
 * new field is therefore cut from the end of `text`, right behind what is left
 * of it, and every other field stays where it is. (An older release takes a new
 * field for text behind the NUL.) */
_Static_assert(offsetof(struct control_reply, code) == 4 &&
                   offsetof(struct control_reply, deadline_ns) == 8 &&
                   offsetof(struct control_reply, token) == 16 &&
                   offsetof(struct control_reply, store) == 24 &&
                   offsetof(struct control_reply, text) == 536 &&
                   offsetof(struct control_reply, ttl_ns) == 720 &&
                   offsetof(struct control_reply, kind) == 728 &&
                   offsetof(struct control_reply, permits) == 732 &&
                   offsetof(struct control_reply, slot) == 736 &&
                   sizeof(struct control_reply) == 744,
               "a release that runs already reads them there");

/* Answer to CONTROL_ABOVE: who holds that name above a command, and which
 * processes those are. */
struct control_above {
    uint32_t magic;
    int32_t code; /* 0, or CLI_LOST */
    /* The holder; its supervisor; the command, which leads its group (0: there
     * is none). */
    int32_t pid, supervisor, group;
    /* Of the grant; "": the lock is itself one held above. */
    char request[SNIB_REQUEST_TEXT];
    char store[CONTROL_STORE_MAX];
};

/* What stands for a store in an answer: its URL, without the password; of a
 * longer one its beginning and a hash. */
void control_set_store(char to[CONTROL_STORE_MAX], const char *url);

/* Listen at a fresh address. The fd, or -1 with errno. */
int control_listen(char ret_address[CONTROL_ADDRESS_MAX]);
/* Accept a connection of the same user or of root; -1: none, or another
 * user's. */
int control_accept(int listener);
/* Read one request, if there is one; false: close the connection. */
bool control_receive(int fd, struct control_request *ret);
void control_send(int fd, const struct control_reply *);
void control_send_above(int fd, const struct control_above *);

/* Ask. False with errno: no holder is there (ECONNREFUSED); the other end
 * belongs to another user, or the holder does not answer this user (EPERM);
 * another user has the address, whose holder would answer this user
 * (EADDRINUSE); no answer within timeout_ms (ETIMEDOUT); a malformed answer
 * (EPROTO). */
bool control_ask(const char *address, const struct control_request *,
                 int timeout_ms, struct control_reply *ret);

/* The same, and which process answered; 0: one that this pid namespace does not
 * see. */
bool control_ask_whom(const char *address, const struct control_request *,
                      int timeout_ms, struct control_reply *ret,
                      pid_t *ret_holder);

/* The same for CONTROL_ABOVE. The answer of an older holder counts as
 * malformed. */
bool control_ask_above(const char *address, const struct control_request *,
                       int timeout_ms, struct control_above *ret);

/* Which process is at the other end; 0: not known. */
pid_t control_peer(int fd);
/* The user whose holder has that address. */
uid_t control_owner(const char *address);
/* "UID.16HEX", and nothing else. */
bool control_address_valid(const char *address);

#endif
