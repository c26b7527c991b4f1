#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""systemd's watchdog: it is fed while a daemon's loops turn, and not while one of them stands still."""
import ctypes
import os
import re
import signal
import socket

from libagent import Agent
from libcluster import Cluster, Daemon, WAIT_S, check, main, skip, small_disks, wait_for

PATIENCE_S = 1.0
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


class Manager:
    """systemd's end of $NOTIFY_SOCKET, with a watchdog."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)

    def __enter__(self):
        os.environ.update(NOTIFY_SOCKET=self.path, WATCHDOG_USEC=str(int(PATIENCE_S * 1e6)))
        return self

    def __exit__(self, *_):
        del os.environ["NOTIFY_SOCKET"], os.environ["WATCHDOG_USEC"]
        self.socket.close()

    def wait(self, text, times=1, timeout_s=WAIT_S):
        """Until it was told that often; False when nothing came in the time."""
        self.socket.settimeout(timeout_s)
        try:
            while times > 0:
                times -= self.socket.recv(4096).decode() == text
        except TimeoutError:
            return False
        return True

    def drain(self):
        """How many pings have come so far."""
        count = 0
        self.socket.setblocking(False)
        try:
            while True:
                count += self.socket.recv(4096) == b"WATCHDOG=1"
        except BlockingIOError:
            return count

    def expect_fed(self, daemon):
        check(self.wait("WATCHDOG=1", 4), f"{daemon.name} does not feed the watchdog")

    def expect_fired(self, daemon):
        """Twice the patience, and nothing came: systemd would have ended it."""
        self.drain()
        check(not self.wait("WATCHDOG=1", timeout_s=2 * PATIENCE_S), f"{daemon.name} feeds the watchdog")


def threads(pid):
    """(tid, name) of each; one may end while they are looked at."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/comm") as f:
                yield int(tid), f.read().strip()
        except (FileNotFoundError, ProcessLookupError):
            pass


def states(pid):
    """Of all threads, in one set: "T" of those that stand still."""
    found = set()
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/stat") as f:
            found.add(f.read().rpartition(") ")[2][0])
    return found


class Frozen:
    """A thread that stands still, and the rest of its process does not: what a debugger does."""

    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long

    def __init__(self, daemon, name):
        """@name: None: main's."""
        self.tid = daemon.pid
        if name is None:
            return
        found = [tid for tid, comm in threads(daemon.pid) if comm == name]
        check(len(found) == 1, f"{daemon.name} has {len(found)} threads '{name}'")
        self.tid = found[0]

    def call(self, request):
        if self.libc.ptrace(request, self.tid, None, None) != 0:
            skip(f"ptrace is not allowed here: {os.strerror(ctypes.get_errno())}")

    def __enter__(self):
        self.call(PTRACE_SEIZE)
        self.call(PTRACE_INTERRUPT)
        os.waitpid(self.tid, WALL)
        return self

    def __exit__(self, *_):
        self.call(PTRACE_DETACH)


def a_port_that_stands_still_lets_it_fire():
    with Cluster(ports=2) as c:
        c.gateway.stop()
        with Manager(c.folder) as manager:
            c.gateway.start()
            check(manager.wait("READY=1"), "it is not ready")
            manager.expect_fed(c.gateway)
            with Frozen(c.gateway, "port1"):
                first = len(c.gateway.lines)
                line = c.gateway.wait_line("a thread stands still, the watchdog is not fed", first)
                check(re.search(r"ERROR gateway: .* port=1 for_ms=\d+", line), line)
                check(manager.drain() <= 1, "it was fed behind that")
                manager.expect_fired(c.gateway)
            c.gateway.wait_line("the thread that stood still turns again", first)
            manager.expect_fed(c.gateway)
            said = c.gateway.lines[first:]  # behind that a busy machine may hold it up once more
            ends = next(i for i, line in enumerate(said) if "the thread that stood still turns again" in line)
            check(sum("a thread stands still" in line for line in said[:ends]) == 1, f"said more than once: {said}")
            check(c.gateway.stop() == 0, "it ended badly")
            check(manager.wait("STOPPING=1"), "it has not told that it stops")


def main_that_stands_still_lets_it_fire():
    """Its ports turn, and nobody is told."""
    with Cluster() as c:
        c.gateway.stop()
        with Manager(c.folder) as manager:
            c.gateway.start()
            manager.expect_fed(c.gateway)
            with Frozen(c.gateway, None):
                manager.expect_fired(c.gateway)
            manager.expect_fed(c.gateway)
            check(c.gateway.stop() == 0, "it ended badly")


def a_node_and_an_agent_feed_it():
    with Cluster() as c:
        c.volume_create("v", "64M")
        agent = Agent(c)
        c.nodes[0].stop()
        for daemon in (c.nodes[0], agent):
            with Manager(c.folder) as manager:
                daemon.start()
                check(manager.wait("READY=1"), "it is not ready")
                manager.expect_fed(daemon)
                daemon.signal(signal.SIGSTOP)
                wait_for(lambda: states(daemon.pid) == {"T"}, f"{daemon.name} does not stand still")
                manager.expect_fired(daemon)
                daemon.signal(signal.SIGCONT)
                manager.expect_fed(daemon)
                check(daemon.stop() == 0, "it ended badly")
                check(manager.wait("STOPPING=1"), "it has not told that it stops")
            os.unlink(os.path.join(c.folder, "notify"))


def nobody_is_told_who_does_not_look():
    """The variable of another process, which a daemon has inherited."""
    with Cluster() as c:
        c.nodes[0].stop()
        with Manager(c.folder) as manager:
            os.environ["WATCHDOG_PID"] = "1"
            try:
                c.nodes[0].start()
            finally:
                del os.environ["WATCHDOG_PID"]
            check(manager.wait("READY=1"), "it is not ready")
            manager.expect_fired(c.nodes[0])
            c.nodes[0].stop()
        c.nodes[0].start()


small_disks()
main(a_port_that_stands_still_lets_it_fire, main_that_stands_still_lets_it_fire, a_node_and_an_agent_feed_it,
     nobody_is_told_who_does_not_look)
