"""The recovery of a Redis server, for tests of ?recovery= and ?replicas=."""

from harness.wait import wait_until


def is_open(server, ahead=0):
    """It is over for the server's life of now, or will be in so many s."""
    epoch = (server.command("GET", "snib:epoch") or b"none 0").split()
    seconds, micros = server.command("TIME")
    now = int(seconds) * 1000 + int(micros) / 1000 + 1000 * ahead
    return (b"master_replid:" + epoch[0] in server.command(
        "INFO", "replication") and int(epoch[1]) <= now)


def begin(server, driver, lease_ms, timeout):
    """The first use of a server is a recovery, too; wait until that is over."""
    driver.try_acquire(driver.lock("begin", lease_ms=lease_ms))
    wait_until(lambda: is_open(server), timeout, "the first recovery is over")
