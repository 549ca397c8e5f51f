/* net/resolve.c — see resolve.h. */
#include "net/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A resolver that finds no descriptor to open says that there is no such host.
 * What cannot be opened behind it could not be before. */
static int resolve_lacks(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int e = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return e == EMFILE || e == ENFILE ? e : 0;
}

void snib__net_resolve(const char *text, struct snib__addresses *ret)
{
    char host[256], port[8];
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    ret->count = ret->next = 0;
    ret->why[0] = 0;
    ret->no_such = false;
    ret->lacks = 0;
    if (!snib__net_split(text, host, sizeof host, port, sizeof port)) {
        snprintf(ret->why, sizeof ret->why, "not an address");
        return;
    }
    int err = getaddrinfo(host, port, &hints, &found);
    if (err) {
        int why = errno;
        ret->lacks = resolve_lacks();
        ret->no_such = !ret->lacks && (err == EAI_NONAME || err == EAI_NODATA);
        bool name = err != EAI_SYSTEM && err != EAI_MEMORY;
        snprintf(ret->why, sizeof ret->why, "%s%s",
                 err == EAI_SYSTEM ? strerror(why) : gai_strerror(err),
                 name ? "; expected a host name that DNS or /etc/hosts knows: "
                        "check the URL"
                      : "");
        return;
    }
    for (struct addrinfo *a = found; a && ret->count < SNIB__ADDRESSES;
         a = a->ai_next) {
        if (a->ai_addrlen <= sizeof ret->v[0].u.inet) {
            struct snib__address *to = &ret->v[ret->count++];
            memset(to, 0, sizeof *to);
            memcpy(&to->u.inet, a->ai_addr, a->ai_addrlen);
            to->size = a->ai_addrlen;
        }
    }
    freeaddrinfo(found);
}
