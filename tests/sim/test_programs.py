#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sim_run_seeds and sim_mutants say, and with which status they end.

usage: tests/sim/test_programs.py SIM_RUN_SEEDS SIM_MUTANTS (which is not there in some presets)
"""
import atexit
import os
import re
import signal
import subprocess
import sys
import time

SEEDS, MUTANTS = sys.argv[1:]
WAIT_S = 100


def check(condition, text):
    if not condition:
        sys.exit(f"FAIL {text}")


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_S)


def usage(program):
    result = run(program, "--help")
    check(result.returncode == 0, f"{program} --help: {result}")
    check(result.stdout.startswith("usage: sim_") and result.stderr == "", f"{result}")
    for words in (["--nonsense"], ["nonsense"], ["--jobs", "x"]):
        result = run(program, *words)
        check(result.returncode == 2, f"{program} {words}: {result}")
        check("usage: sim_" in result.stderr and result.stdout == "", f"{words}: {result}")


def wrong_words_are_named():
    for words, said in ((["nonsense"], "nonsense"), (["list", "--jobs", "x"], "x"), ([], "command")):
        result = run(MUTANTS, *words)
        first_line = result.stderr.split("\n")[0]
        check(result.returncode == 2 and said in first_line, f"{words}: {result}")


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(word) for word in f.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def end_group(pid):
    """What a failure leaves: it would keep the reader of this test's output waiting."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def start():
    """A search without end, in a session of its own; and the processes of it once seeds are at work."""
    search = subprocess.Popen([SEEDS, "--minutes", "60", "--jobs", "2"], stdout=subprocess.PIPE,
                              text=True, start_new_session=True)
    atexit.register(end_group, search.pid)
    deadline = time.monotonic() + WAIT_S
    while True:
        workers = children(search.pid)
        # One with a seed at work has asked to end with the search.
        if len(workers) == 2 and all(children(worker) for worker in workers):
            return search, workers
        check(search.poll() is None and time.monotonic() < deadline, "no seed at work")
        time.sleep(0.01)


def stopped(number, send):
    """Ends with the sums of what was run, and status 1; nothing stays."""
    search, workers = start()
    send(search.pid, number)
    said, _ = search.communicate(timeout=WAIT_S)
    check(search.returncode == 1, f"signal {number}: status {search.returncode}: {said}")
    last = said.rstrip("\n").split("\n")[-1]
    match = re.match(r"(\d+) seeds, .* 0 seeds failed \(interrupted\)$", last)
    check(match is not None and int(match[1]) > 0, f"signal {number}: {said}")
    check(not any(os.path.exists(f"/proc/{pid}") for pid in workers), "a worker stays")


def stopped_twice():
    """The second one means it: workers end with the search, and what they run with them."""
    search, workers = start()
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)  # they will not come to their end
    os.kill(search.pid, signal.SIGTERM)
    check(search.poll() is None, "ended without its workers")
    deadline = time.monotonic() + WAIT_S
    while search.poll() is None:
        check(time.monotonic() < deadline, "a second signal does not end it")
        os.kill(search.pid, signal.SIGTERM)
        time.sleep(0.01)
    check(search.returncode == 1, f"status {search.returncode}")
    search.stdout.close()
    while any(is_alive(pid) for pid in workers):
        check(time.monotonic() < deadline, "a worker stays")
        time.sleep(0.01)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


usage(SEEDS)
if os.path.exists(MUTANTS):
    usage(MUTANTS)
    wrong_words_are_named()
stopped(signal.SIGTERM, os.kill)
stopped(signal.SIGINT, os.killpg)
stopped_twice()
