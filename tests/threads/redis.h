/* redis.h — the server of programs that begin with "redis:". */
#ifndef THREADS_REDIS_H
#define THREADS_REDIS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define REDIS_URL "redis+unix:///threads"

/* False: this build has none. */
bool redis_is_there(void);
/* The server of a run begins, as one more of its threads; ends, when nobody is
 * connected any more. */
void redis_begin(bool narrow);
void redis_end(void);
/* The server closes all connections, when it is its turn. */
void redis_cut(void);
/* The server does nothing for so long, from its next turn on. */
void redis_hang(int64_t ns);
/* What connect() does in a run: the socket becomes one end of a pair, whose
 * other end is the server's. As over a network: EINPROGRESS. */
int redis_connect(int fd);

#endif
