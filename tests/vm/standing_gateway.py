#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/vm/standing_gateway.py GATEWAY COMMAND ARG...: what a gateway shows is read by clients while it stands still.

GATEWAY is the process id of the only gateway, COMMAND the cleave-load that reads hot blocks of a volume whose `reads` is
hot, over RDMA: it checks each block, and its progress says how many were read out of the gateway's memory.

SIGSTOP stops the gateway again and again, each time for less than half of a read lease, until 10,000 blocks were read
there while it stood. A block counts when two lines of progress, both printed while every thread of the gateway was
stopped, say that it came between them. A time that was longer than half of a lease, since this machine had other things to
do, does not count. In the end the gateway stands for longer than a lease: what is read out of its memory then must have
been read before the lease was over.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

HITS = 10000
LEASE_S = 0.4  # WIRE_READ_LEASE_MS
STAND_S = LEASE_S / 2 * 3 / 4  # the rest is for whoever wakes it up late
WARM = 64  # blocks that are read out of its memory before it stands: its leases are new, and tags are known
LIMIT_S = 240
LINES = 20  # of progress, in which nothing more may come when leases are over


class Failure(Exception):
    pass


def check(is_true, what):
    if not is_true:
        raise Failure(what)


def now():
    """By the clock that leases are counted by."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Load:
    """The command, and how many blocks it says that it has read past its gateway."""

    def __init__(self, argv, folder):
        self.path = os.path.join(folder, "load")
        with open(self.path, "wb") as out:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        self.said = open(self.path, "rb")
        self.part = b""

    def text(self):
        with open(self.path, encoding="utf-8") as text:
            return text.read()

    def lines(self):
        """Those that were printed since the last call, and are whole."""
        *lines, self.part = (self.part + self.said.read()).split(b"\n")
        check(self.process.poll() is None, f"the load has ended\n{self.text()}")
        return lines

    def counts(self):
        return [int(found.group(1)) for found in (re.search(rb"  hot (\d+)", line) for line in self.lines()) if found]

    def next_count(self, deadline):
        """Of the first line of progress that is begun from now on."""
        self.lines()
        while self.part != b"" and not self.lines():
            check(now() < deadline, f"a line without an end\n{self.text()}")
        while True:
            found = self.counts()
            if found:
                return found[0]
            check(now() < deadline, f"no line of progress\n{self.text()}")
            time.sleep(0.002)

    def wait_hits(self, count, deadline):
        seen = self.next_count(deadline)
        wanted = seen + count
        while seen < wanted:
            seen = max([seen, *self.counts()])
            check(now() < deadline, f"hot blocks are not read past the gateway: {seen} were\n{self.text()}")
            time.sleep(0.002)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        rc = self.process.wait(timeout=LIMIT_S)
        check(rc == 0 and " 0 errors, 0 mismatches" in self.text(), f"the load ended with {rc}\n{self.text()}")


def is_stopped(gateway):
    for task in os.listdir(f"/proc/{gateway}/task"):
        with open(f"/proc/{gateway}/task/{task}/stat", encoding="ascii") as stat:
            if stat.read().rpartition(")")[2].split()[0] != "T":
                return False
    return True


class Stand:
    """The gateway stands still; all of it, from `since` on."""

    def __init__(self, gateway, deadline):
        self.gateway, self.deadline = gateway, deadline

    def __enter__(self):
        self.began = now()
        os.kill(self.gateway, signal.SIGSTOP)
        while not is_stopped(self.gateway):
            check(now() < self.deadline, "the gateway does not stop")
        self.since = now()
        return self

    def __exit__(self, kind, value, trace):
        stood = is_stopped(self.gateway)
        os.kill(self.gateway, signal.SIGCONT)
        self.seconds = now() - self.began
        if kind is None:
            check(stood, "somebody else let the gateway go on")


def stand_half_a_lease(gateway, load, deadline):
    """How many blocks were read meanwhile; None: it was too long."""
    with Stand(gateway, deadline) as stand:
        first = last = load.next_count(deadline)
        while now() - stand.began < STAND_S:
            last = max([last, *load.counts()])
            time.sleep(0.002)
    return last - first if stand.seconds <= LEASE_S / 2 else None


def stand_longer(gateway, load, deadline):
    with Stand(gateway, deadline) as stand:
        while now() - stand.since < LEASE_S:
            time.sleep(0.002)
        first = load.next_count(deadline)
        for _ in range(LINES):
            count = load.next_count(deadline)
            check(count == first, f"{count - first} blocks were read under leases that were over")


def run(gateway, load):
    deadline = now() + LIMIT_S
    hits = stands = too_long = 0
    while hits < HITS:
        load.wait_hits(WARM, deadline)
        read = stand_half_a_lease(gateway, load, deadline)
        stands += read is not None
        too_long += read is None
        hits += read or 0
        check(now() < deadline, f"{hits} of {HITS} blocks in {stands} times, {too_long} more were too long")
    load.wait_hits(WARM, deadline)
    stand_longer(gateway, load, deadline)
    load.wait_hits(WARM, deadline)
    load.end()
    print(f"== {hits} blocks were read out of the memory of a gateway that stood still, {stands} times, each for half of a "
          f"read lease at most ({too_long} more were too long); none when the lease was over")


def main():
    with tempfile.TemporaryDirectory() as folder:
        load = Load(sys.argv[2:], folder)
        try:
            run(int(sys.argv[1]), load)
        except Failure as failure:
            print(f"standing_gateway: {failure}", file=sys.stderr)
            return 1
        finally:
            load.process.kill()
            load.process.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
