"""What failures of single calls have shown: each case is a group of them, of
which some were not told, noticed though they need not be, or lost something.
(The group, not the one call: its number changes with the code.)"""

import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
BINARY = os.environ.get("SNIB_BIN", "")

FOUND = {
    "interrupted_calls_are_made_again": (
        "run", "--how", "EINTR", "--call", "send.packet", "send.stream",
        "recv.stream", "waitpid", "getrandom", "read.file"),
    "a_thread_wakes_the_holder": (
        "run-several", "--how", "EINTR", "--call", "write.event", "poll"),
    "what_a_process_said_is_heard_before_its_end": (
        "acquire", "--call", "recv.packet", "--how", "ECONNRESET", "ENOMEM"),
    "a_command_runs_with_all_of_its_environment_or_not": (
        "run", "--role", "2", "--call", "malloc", "realloc"),
    "nobody_keeps_the_shell_waiting": (
        "acquire-sh", "--call", "dup2"),
    "a_grant_that_is_written_in_pieces_is_whole": (
        "acquire", "--call", "write.file", "--how", "short", "EINTR"),
    "a_file_that_cannot_be_opened_has_one_error": (
        "library", "--call", "fstat", "lstat", "mmap", "openat", "--most",
        "3"),
    "who_was_counted_passes_without_its_bell": (
        "barrier", "--call", "socket", "sendto", "send", "--how", "ENOBUFS"),
    "a_command_that_hears_no_word_at_its_gate_is_not_waited_for": (
        "run", "--call", "send.stream", "--how", "EPIPE", "--role", "0"),
    "a_list_without_memory_is_no_list": (
        "list", "--call", "malloc", "realloc", "calloc", "--store", "redis"),
}


@pytest.mark.parametrize("what", FOUND)
def test_found(what, shim):
    if not BINARY:
        pytest.skip("SNIB_BIN does not name the program")
    with open(BINARY, "rb") as file:
        text = file.read()
    if b"__asan_init" in text or b"__tsan_init" in text:
        pytest.skip("sanitizers have an allocator of their own")
    workload, *args = FOUND[what]
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "exhaust.py"), "--snib", BINARY,
         "--shim", shim, "--workload", workload, *args], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=300)
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    assert " failures" in done.stdout, done.stdout  # some were made
