/* redis_none.c — in a build without the simulator there is no server. */
#include "redis.h"

#include "sched.h"

bool redis_is_there(void)
{
    return false;
}

void redis_begin(bool narrow)
{
    sched_fail("this build has no model of a %sserver", narrow ? "far " : "");
}

void redis_end(void)
{
}

void redis_cut(void)
{
}

void redis_hang(int64_t ns)
{
    (void)ns;
}

int redis_connect(int fd)
{
    sched_fail("descriptor %d is to be connected, and there is no server", fd);
}
