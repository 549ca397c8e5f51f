// examples/guard.cpp — a lock of snib under a guard of the standard library.
//
//   c++ -std=c++17 guard.cpp $(pkg-config --cflags --libs snib) -o guard
#include <snib.hpp>

#include "snib/sys.h"
#include <iostream>

int main()
try {
    snib::client client; // $SNIB_URL, or a file of yours on this host
    snib::mutex stock(client, "stock:4711");
    std::unique_lock guard(stock, std::chrono::seconds(10));
    if (!guard) {
        std::cerr << "another one sells\n";
        return 75;
    }
    std::cout << "mine, with token " << stock.token() << "\n";
    guard.release()->release().value(); // throws if it was lost meanwhile
} catch (const snib::error &e) {
    std::cerr << snib_err_name(e.code()) << ": " << e.what() << "\n";
    return snib_err_exit(e.code());
}
