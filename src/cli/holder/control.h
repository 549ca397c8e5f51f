/* control.h — the holder's private socket.
 *
 * Whoever is inside the command (snib check, a nested snib run) or has the
 * grant of a snib acquire asks the living holder, never a file: a file cannot
 * know that the holder was killed. The socket is an abstract one (nothing is
 * left on disk, no environment variable decides where it is); its name is 64
 * random bits behind the uid of the holder; both ends compare the other's uid
 * by SO_PEERCRED, the asker with that of the address, so a squatter of another
 * user is neither served nor believed, not by root either. SEQPACKET: one request, one
 * reply, then the asker closes.
 */
#ifndef SNIB_CLI_CONTROL_H
#define SNIB_CLI_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "snib.h"

enum { CONTROL_ADDRESS_MAX = 48, CONTROL_STORE_MAX = 512 };
#define CONTROL_MAGIC 0x736e6231u /* "snb1" */

enum control_verb {
    CONTROL_STATUS = 1,
    CONTROL_RENEW,
    CONTROL_RELEASE,
    CONTROL_ABOVE, /* answered by a struct control_above                   */
    CONTROL_TIE,   /* release when holder_pid ends; then as RENEW           */
    CONTROL_FORGET /* of what is lost: end, if holder_pid is who it is tied to */
};

struct control_request {
    uint32_t magic;
    uint32_t verb;
    int64_t lease_ms;   /* RENEW; 0: the lock's                            */
    int64_t token;      /* of the grant meant; 0: any                      */
    int64_t holder_pid; /* TIE, FORGET                                     */
    uint32_t name_size; /* 0: all names                                    */
    char name[SNIB_NAME_MAX];
};

struct control_reply {
    uint32_t magic;
    int32_t code;        /* 0, or the exit status                          */
    int64_t deadline_ns; /* CLOCK_BOOTTIME; 0: not held                    */
    int64_t token;
    char store[CONTROL_STORE_MAX]; /* URL without its password             */
    char text[176];   /* why code is not 0; STATUS: who holds, when it is */
    int32_t reason;   /* STATUS, code CLI_LOST: snib_cause; 0: not known  */
    int32_t unused;   /* … 0                                               */
    int64_t ttl_ns;   /* of the lease; 0: not known                       */
    int32_t kind;     /* of the grant (snib_kind)                       */
    uint32_t permits; /* of a semaphore: how many                       */
    int64_t slot;     /* … and which slot; -1: none                     */
};

/* A release and the one before it may ask each other: what is added comes out
 * of the end of `text`, right behind what is left of it, and all else stays
 * where it is. (An older one takes it for text behind the NUL.) */
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

/* Who holds that name above a command, and which processes are that. */
struct control_above {
    uint32_t magic;
    int32_t code; /* 0, or CLI_LOST                          */
    int32_t pid, supervisor,
        group; /* holder; its supervisor; the command, which is
                                   its group's leader; 0: there is none    */
    char request[SNIB_REQUEST_TEXT]; /* of the grant; "": an outer one's   */
    char store[CONTROL_STORE_MAX];
};

/* Listen at a fresh address. The fd, or -1 with errno. */
int control_listen(char ret_address[CONTROL_ADDRESS_MAX]);
/* Take a connection of our own user or root; -1: none (or a stranger). */
int control_accept(int listener);
/* One request, if there is one; false: close the connection. */
bool control_receive(int fd, struct control_request *ret);
void control_send(int fd, const struct control_reply *);
void control_send_above(int fd, const struct control_above *);

/* Ask. false with errno: nobody there (ECONNREFUSED), a stranger, or the
 * holder of another user, to whom we are one (EPERM), no answer within
 * timeout_ms (ETIMEDOUT), nonsense (EPROTO). */
bool control_ask(const char *address, const struct control_request *,
                 int timeout_ms, struct control_reply *ret);

/* The same, and which process answered; 0: one that this pid namespace does not
 * see. */
bool control_ask_whom(const char *address, const struct control_request *,
                      int timeout_ms, struct control_reply *ret,
                      pid_t *ret_holder);

/* The same for CONTROL_ABOVE. An older holder's answer is nonsense. */
bool control_ask_above(const char *address, const struct control_request *,
                       int timeout_ms, struct control_above *ret);

/* The user whose holder has that address. */
uid_t control_owner(const char *address);
/* "UID.16HEX", and nothing else. */
bool control_address_valid(const char *address);

#endif
