/* bench/servers.c — servers that a row starts for itself. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { WORDS_MAX = 32 };

pid_t server_run(const char *const argv[])
{
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    return pid;
}

bool server_comes(int port)
{
    for (int i = 0; i < 500 && !port_answers(port); i++) {
        pause_s(0.01);
    }
    return port_answers(port);
}

void server_stop(pid_t pid)
{
    if (pid > 0) {
        kill(pid, SIGTERM);
        waitpid(pid, NULL, 0);
    }
}

pid_t server_redis(int port, const char *const more[])
{
    char number[16];
    const char *argv[WORDS_MAX] = {"redis-server", "--bind", "127.0.0.1",
                                   "--save",       "",       "--dir",
                                   settings.dir,   "--port", number};
    int n = 9;
    snprintf(number, sizeof number, "%d", port);
    while (*more && n < WORDS_MAX - 1) {
        argv[n++] = *more++;
    }
    pid_t pid = server_run(argv);
    if (pid > 0 && server_comes(port)) {
        return pid;
    }
    server_stop(pid);
    return -1;
}
