"""A counter to which our drivers and others add one by reading, a pause and
writing, under one lock: whatever is lost, two were inside at once."""

import threading
import time


class Counter:
    """A file with a number, 0 at first."""

    def __init__(self, folder):
        self.path = str(folder / "counter")
        self.tokens = []  # that our drivers were given, in this order
        self.threads = []
        self._write(0)

    def _write(self, number):
        with open(self.path, "w", encoding="ascii") as file:
            file.write(f"{number}\n")

    def number(self):
        with open(self.path, encoding="ascii") as file:
            return int(file.read())

    def add_one(self):
        number = self.number()
        time.sleep(0.002)
        self._write(number + 1)

    def start(self, what, *args):
        """In a thread of its own, until join()."""
        self.threads.append(threading.Thread(target=what, args=args))
        self.threads[-1].start()

    def start_ours(self, drivers, name, times):
        """Each of these drivers adds so often, under the lock of this name."""
        for driver in drivers:
            driver.lock(name, lease_ms=10000)
            self.start(self._add_ours, driver, name, times)

    def _add_ours(self, driver, name, times):
        for _ in range(times):
            grant = driver.acquire(name, wait_ms=60000, timeout=70)
            self.tokens.append(grant.token)
            self.add_one()
            grant.release()

    def join(self):
        for thread in self.threads:
            thread.join()
