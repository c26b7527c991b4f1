#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A guest that writes and verifies moves from one QEMU to another, and back, under live migration: each has
an agent of its own, and the disk is one volume."""
import json
import os
import re
import signal
import socket
import tempfile

from libdisk import Agent, Cluster, Daemon, check, guest_kernel, main, need, run_argv, skip

need("qemu-system-x86_64", "nbdinfo")
if os.geteuid() != 0:
    skip("the kernel's package is unpacked with root's files: needs root")

GUEST_S = 180


class Host(Agent):
    """An agent at a socket of its own."""

    def __init__(self, c, name):
        super().__init__(c, "--volume", "v", "--when-held", "take")
        self.socket = os.path.join(c.folder, f"{name}.sock")
        self.argv = [word if not word.startswith("unix:") else f"unix:{self.socket}"
                     for word in self.argv]


class Qemu(Daemon):
    """A QEMU, its console in `lines`. `incoming`: it waits for a guest."""

    def __init__(self, folder, name, agent, kernel, initramfs, incoming=False):
        self.path = os.path.join(folder, name)
        self.qmp, self.replies = None, None
        super().__init__(name, [
            "bash", "-c", 'exec "$0" "$@" >&2',
            "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "192M", "-nodefaults",
            "-display", "none", "-no-reboot", "-serial", "stdio", "-monitor", "none",
            "-qmp", f"unix:{self.path}.qmp,server=on,wait=on",
            "-kernel", kernel, "-initrd", initramfs, "-append", "console=ttyS0 panic=-1 quiet",
            "-blockdev", "driver=nbd,node-name=disk,server.type=unix,"
            f"server.path={agent.socket},export=v,cache.direct=on,discard=unmap",
            "-device", "virtio-blk-pci,drive=disk",
            *(["-incoming", f"unix:{self.path}.in"] if incoming else [])])

    def __enter__(self):
        self.start(wait=False)
        self.wait_line("QEMU waiting for connection")
        self.qmp = socket.socket(socket.AF_UNIX)
        self.qmp.settimeout(GUEST_S)
        self.qmp.connect(self.path + ".qmp")
        self.replies = self.qmp.makefile("r", encoding="utf-8")
        self.replies.readline()
        self.command("qmp_capabilities")
        return self

    def __exit__(self, kind, value, trace):
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()
        if kind is not None:
            print(f"---- the console of {self.name}\n" + "\n".join(self.lines[-30:]))
        return False

    def command(self, name, **arguments):
        self.qmp.sendall(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        while True:
            reply = json.loads(self.replies.readline())
            if "event" not in reply:
                check("return" in reply, f"{name}: {reply}")
                return reply["return"]

    def wait_event(self, wanted):
        while True:
            line = self.replies.readline()
            check(line != "", f"{self.name} has ended")
            event = json.loads(line)
            if wanted(event):
                return

    def migrate_to(self, other):
        self.command("migrate-set-capabilities", capabilities=[
            {"capability": "events", "state": True}])
        self.command("migrate", uri=f"unix:{other.path}.in")

        def is_over(event):
            status = event.get("data", {}).get("status")
            check(status not in ("failed", "cancelled"), f"the migration: {status}")
            return event.get("event") == "MIGRATION" and status == "completed"
        self.wait_event(is_over)

    def rounds(self):
        """The last one that the guest said here; 0: none."""
        said = [int(found.group(1)) for found in
                (re.search(r"guest: round (\d+)", line) for line in list(self.lines)) if found]
        return max(said, default=0)

    def wait_rounds(self, count):
        """So many more."""
        for _ in range(count):
            self.wait_line(f"guest: (round {self.rounds() + 1}|WRONG)\\b", timeout_s=GUEST_S)
            check(self.count_lines("guest: WRONG") == 0, "the guest read something else")


def size_of(agent):
    return int(run_argv(["nbdinfo", "--size", agent.uri()]).stdout)


def there_and_back():
    with tempfile.TemporaryDirectory(prefix="cleave-test-migration-") as folder:
        kernel, initramfs = guest_kernel(folder, "migrant")
        with Cluster(nodes=3) as c:
            c.volume_create("v", "64M")
            with Host(c, "a") as a, Host(c, "b") as b:
                with Qemu(folder, "first", a, kernel, initramfs) as first:
                    first.wait_rounds(3)
                    # Who looks takes nothing.
                    check(size_of(b) == 64 << 20, "the size, at the other host")
                    with Qemu(folder, "second", b, kernel, initramfs, incoming=True) as second:
                        first.wait_rounds(2)
                        check(a.count_lines("export: lost") == 0, "it was taken too early")
                        before = first.rounds()
                        first.migrate_to(second)
                        second.wait_line(r"guest: (round \d+|WRONG)", timeout_s=GUEST_S)
                        check(second.rounds() > before, "another guest")
                        second.wait_rounds(3)
                        a.wait_line("export: lost, .*taken by")
                        back(folder, a, b, second, first, kernel, initramfs)


def back(folder, a, b, second, first, kernel, initramfs):
    """The first one is still there, paused, with its disk open."""
    first.command("quit")
    first.process.wait()
    with Qemu(folder, "third", a, kernel, initramfs, incoming=True) as third:
        second.wait_rounds(2)
        before = second.rounds()
        second.migrate_to(third)
        third.wait_line(r"guest: (round \d+|WRONG)", timeout_s=GUEST_S)
        check(third.rounds() > before, "another guest")
        third.wait_rounds(3)
        b.wait_line("export: lost, .*taken by")


if __name__ == "__main__":
    main(there_and_back)
