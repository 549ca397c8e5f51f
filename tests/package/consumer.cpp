// The headers mean the same to a C++ compiler, and snib.hpp is there.
#include <snib.h>
#include <snib.hpp>
#include <snib/sys.h>
#include <snib/test.h>

#include <cstring>

int main()
{
    snib::client client("memory:package");
    snib::mutex mutex(client, "name");
    std::lock_guard guard(mutex);
    return std::strcmp(snib_version(), SNIB_VERSION) == 0 &&
                   snib_err_exit(SNIB_ERR_LOST) == 76 && mutex.token() > 0
               ? 0
               : 1;
}
