"""Ports for servers that tests start."""

import collections
import random
import socket

_random = random.SystemRandom()  # not by a seed of the test's
# A server listens long before so many others are begun.
_taken = collections.deque(maxlen=200)


def free_port():
    """One that nobody takes before its server does: it is below those that the
    kernel gives to whoever connects, and no other test process is given it, since
    a name is taken with it that goes with this process."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        end = int(file.read().split()[0])
    for port in _random.sample(range(10000, max(end, 20000)), 1000):
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0snib-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            name.close()
            continue
        _taken.append(name)
        return port
    raise OSError("none of 1000 ports is free")
