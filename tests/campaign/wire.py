"""The way to a store's server, on which each message of an exchange is lost once.

Connection after connection is cut one message later: the n-th that a client
sends from then on is the last. Of two in a row one is cut before that message
arrives, one behind it, so that its answer is lost.
"""

import collections

from harness.stream_proxy import StreamProxy


class Wire(StreamProxy):
    """url: the server's, by this way."""

    def __init__(self, server, words_of_texts=True):
        super().__init__(server.address, words_of_texts)
        self.url = server.url.replace(f":{server.port}", f":{self.port}")
        self._most = self._connections = 0
        self.cuts = collections.Counter()  # at the n-th message

    def cut_each(self, most):
        """Of each connection one of its first so many messages is lost."""
        with self.lock:
            for pair in self.pairs:
                pair.pop("left", None)
            self.cuts.clear()
            self._most = most

    def cut_no_more(self):
        self._most = 0

    def _look(self, pair, data):
        if self._most and self._is_last(pair):
            if pair["number"] % 2:
                self._cut(pair)
                return
            pair["deaf"] = "rst"
        super()._look(pair, data)

    def _is_last(self, pair):
        """Is this the message at which it is cut?"""
        with self.lock:
            if "left" not in pair:
                pair["number"] = self._connections
                self._connections += 1
                pair["at"] = pair["left"] = 1 + pair["number"] // 2 % self._most
            pair["left"] -= 1
            if pair["left"]:
                return False
            self.cuts[pair["at"]] += 1
            return True
