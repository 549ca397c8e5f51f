/* bench/ports.c — ports for the servers that a row starts itself. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

static struct sockaddr_in ports_loopback(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

int port_free(void)
{
    struct sockaddr_in a = ports_loopback(0);
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) ||
        getsockname(fd, (struct sockaddr *)&a, &size)) {
        die("no free port");
    }
    close(fd);
    return ntohs(a.sin_port);
}

bool port_answers(int port)
{
    struct sockaddr_in a = ports_loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool well = connect(fd, (struct sockaddr *)&a, sizeof a) == 0;
    close(fd);
    return well;
}
