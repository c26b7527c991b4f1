#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A QEMU guest whose disk is a volume: a file system in it, undisturbed, and while the gateway and the
agent are killed."""
import os
import shutil
import signal
import tempfile

from libdisk import Agent, Cluster, Daemon, Failure, check, main, need, skip

need("qemu-system-x86_64", "mkfs.ext4", "fsck.ext4")
if os.geteuid() != 0:
    skip("the guest shows root's files over 9p: needs root")

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("CLEAVE_SOURCE_DIR") or os.path.join(HERE, "..", "..")
GUEST_S = 280


def end_tree(pid):
    """SIGKILL to a process that we started, and to all that it has."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            children = [int(word) for word in f.read().split()]
        os.kill(pid, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        end_tree(child)


class Guest(Daemon):
    """Its console is `lines`."""

    def __init__(self, agent, *words):
        super().__init__("guest", [
            "bash", "-c", 'exec "$0" "$@" >&2', "env", f"CLEAVE_VM_NBD={agent.socket}",
            os.path.join(SOURCE, "tests", "vm", "run"), "-t", str(GUEST_S),
            os.path.join(HERE, "guest_job"), *words])

    def __enter__(self):
        return self.start(wait=False)

    def __exit__(self, kind, value, trace):
        if self.process is not None:
            end_tree(self.pid)
            self.wait_exit()
        if kind is not None:
            print("---- the guest's console\n" + "\n".join(self.lines[-60:]))
        return False

    def wait(self, what):
        try:
            self.wait_line(f"guest: {what}", timeout_s=GUEST_S)
        except Failure:
            self.skip_if_it_did()
            raise

    def skip_if_it_did(self):
        """tests/vm/run says what it lacks where there can be no guest."""
        for line in self.lines:
            if line.startswith("vm: SKIPPED: "):
                skip(line.removeprefix("vm: SKIPPED: "))

    def finish(self):
        code = self.wait_exit(GUEST_S)
        check(code == 0 and self.count_lines("guest: same") == 1, f"the guest: exit {code}")


def source_tree():
    """A copy that nobody changes meanwhile; without what only git and the compiler need."""
    folder = tempfile.mkdtemp(prefix="cleave-test-source-")
    for name in sorted(os.listdir(SOURCE)):
        path = os.path.join(SOURCE, name)
        if os.path.isdir(path) and name not in ("build", ".git"):
            shutil.copytree(path, os.path.join(folder, name), symlinks=True,
                            ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run_guest(count, disturb):
    source = source_tree()
    try:
        with Cluster(nodes=3, disk_size="3G", slot_size="16M") as c:
            c.volume_create("v", "512M")
            with Agent(c) as agent, Guest(agent, source, str(count)) as guest:
                disturb(c, agent, guest)
                guest.finish()
    finally:
        shutil.rmtree(source)


def a_file_system():
    def disturb(c, agent, guest):
        guest.wait("check")
        check(c.metric("write_bytes") > 8 << 20, "it is another disk that it writes to")

    run_guest(2, disturb)


def a_file_system_through_kills():
    """The guest sees pauses."""
    def disturb(c, agent, guest):
        guest.wait("copy 1")
        for victim in (c.gateway, agent) * 3:
            before = c.metric("writes")
            while c.metric("writes") < before + 10:
                check(guest.process.poll() is None, "the guest ended too early")
            victim.kill()
            victim.start()
        check(guest.count_lines("guest: check") == 0, "the guest wrote no more")

    run_guest(10, disturb)


if __name__ == "__main__":
    main(a_file_system, a_file_system_through_kills)
