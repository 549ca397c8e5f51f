// The header means the same to a C++ compiler.
#include <snib.h>
#include <snib/test.h>

#include <cstring>

int main()
{
    snib_acquire_options options{};
    options.size = sizeof options;
    options.permits = 0;
    return std::strcmp(snib_version(), SNIB_VERSION) == 0 &&
                   snib_err_exit(SNIB_ERR_LOST) == 76
               ? 0
               : 1;
}
