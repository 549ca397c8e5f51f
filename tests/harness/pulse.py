"""How late the machine is: what a thread that only sleeps sees of it."""

import functools
import os
import threading
import time

BEAT_MS = 5


class Pulse:
    """A thread that wants to run each few milliseconds and notes by how much it
    came too late. A time that is measured beside it may be longer by about as
    much without anybody's fault."""

    def __init__(self):
        self._late = [(time.monotonic(), 0.0)]  # when it was seen, ms
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def _beat(self):
        while not self._end.is_set():
            begun = time.monotonic()
            self._end.wait(BEAT_MS / 1000)
            now = time.monotonic()
            late = (now - begun) * 1000 - BEAT_MS
            if late > 1:
                self._late.append((now, late))

    def worst_ms(self, since=0.0):
        """The longest delay that was seen since then (time.monotonic())."""
        return max((late for at, late in self._late if at >= since),
                   default=0.0)

    def close(self):
        self._end.set()
        self._thread.join()


@functools.cache
def pulse_of_this_process():
    return Pulse()


def late_ms():
    """What the machine may add to a time that is measured from outside: a turn
    of the processor that others have, 40 ms and 40 ms for each runnable process
    beyond one a CPU; and twice what a thread that only sleeps was late within
    the last half a minute, for the load average lags behind and does not show a
    machine that stood still."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    seen = pulse_of_this_process().worst_ms(time.monotonic() - 30)
    return 40 + 40 * min(max(load - 1, 0), 20) + 2 * seen


pulse_of_this_process()  # it looks from now on
