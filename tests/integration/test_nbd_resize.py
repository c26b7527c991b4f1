#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NBD_CMD_RESIZE, which no program sends yet, by hand; and what clients see of a volume's new size.

The new size is in the request's offset, its length is 0; NBD_FLAG_SEND_RESIZE says that it is understood.
"""
import json
import os
import struct

from libagent import EINVAL, ENOSPC, EPERM, Agent, Client, need
from libcluster import Cluster, Daemon, check, expect_error, main, run_argv

need("fio", "nbdinfo", "qemu-img")

MIB = 1 << 20
READ, WRITE, RESIZE = 0, 1, 8
FLAG_READ_ONLY, FLAG_SEND_RESIZE = 1 << 1, 1 << 9


def client(agent, name=b"v"):
    """In transmission, by EXPORT_NAME: it has size and flags."""
    s = Client(agent)
    s.option(1, name)
    s.size, s.flags = struct.unpack(">QH", s.get(10))
    return s


def resize(s, size, length=0, flags=0):
    s.command(RESIZE, size, length, flags)
    return s.error()


def write(s, offset, data):
    s.command(WRITE, offset, len(data), data=data)
    return s.error()


def read(s, offset, count):
    s.command(READ, offset, count)
    error = s.error()
    return error if error != 0 else s.get(count)


def volume_bytes(c):
    return json.loads(c.cleave("--json", "volume", "show", "v").stdout)["volume"]["size_bytes"]


def size_of(agent, name="v"):
    return int(run_argv(["nbdinfo", "--size", agent.uri(name)]).stdout)


def grows():
    """By RESIZE, for all clients of the export; what is new is zeros, and what was there stays."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c) as agent:
            s, other = client(agent), client(agent)
            check(s.size == 4 * MIB and s.flags & FLAG_SEND_RESIZE, f"flags {s.flags:x}")
            check(write(s, 4 * MIB - 4096, b"x" * 4096) == 0, "a write")
            check(write(s, 4 * MIB, b"y") == ENOSPC, "a write beyond the end")
            check(resize(s, 40 * MIB) == 0, "RESIZE")
            check(write(s, 40 * MIB - 5, b"12345") == 0, "a write at the new end")
            check(read(other, 40 * MIB - 6, 6) == b"\0" + b"12345", "another connection")
            check(read(s, 4 * MIB - 1, 2) == b"x\0", "where the end was")
            check(write(s, 40 * MIB, b"y") == ENOSPC, "a write beyond the new end")
            check(size_of(agent) == 40 * MIB, "who comes anew")
            check(volume_bytes(c) == 40 * MIB, "the gateway")
            check(resize(s, 40 * MIB) == 0, "to what it is")
            # A second segment of the volume, and in extended headers.
            check(resize(s, 33 << 30) == 0, "33 GiB")
            check(write(s, (33 << 30) - 3, b"abc") == 0, "a write in another segment")
            check(read(other, (33 << 30) - 4, 4) == b"\0abc", "a read of it")
        with Agent(c) as agent:
            s = client(agent)
            check(s.size == 33 << 30, "a new agent")
            check(read(s, 40 * MIB - 5, 5) == b"12345", "after all that")


def in_structured_and_extended_headers():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c) as agent:
            s = Client(agent)
            s.option(8)
            check(s.reply()[1] == 1 and s.go() == 1, "GO")
            s.command(RESIZE, 8 * MIB, 0)
            check(struct.unpack(">IHHQI", s.get(20)) == (0x668E33EF, 1, 0, 7, 0), "the reply")
            s.command(RESIZE, 4 * MIB, 0)
            head = struct.unpack(">IHHQI", s.get(20))
            check(head[2] == 0x8001 and struct.unpack(">IH", s.get(head[4]))[0] == EPERM, "error")
            s = Client(agent)
            s.option(11)
            check(s.reply()[1] == 1 and s.go() == 1, "GO")
            s.s.sendall(struct.pack(">IHHQQQ", 0x21E41C71, 0, RESIZE, 7, 12 * MIB, 0))
            check(struct.unpack(">IHHQQQ", s.get(32)) ==
                  (0x6E8A278C, 1, 0, 7, 12 * MIB, 0), "the reply")
            # A payload is refused, and skipped.
            s.s.sendall(struct.pack(">IHHQQQ", 0x21E41C71, 1 << 5, RESIZE, 7, 16 * MIB, 9) + b"!" * 9)
            check(struct.unpack(">IH", s.get(32 + 6)[32:])[0] == EINVAL, "a payload")
            check(size_of(agent) == 12 * MIB, "its size")


def refused():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        c.cleave("snapshot", "create", "v@s")
        with Agent(c, "--volume", "v", "--volume", "v@s") as agent:
            s = client(agent)
            for name, error, words in (
                    ("smaller", EPERM, (4 * MIB - 4096,)),
                    ("nothing", EINVAL, (0,)),
                    ("part of a block", EINVAL, (8 * MIB + 512,)),
                    ("a length", EINVAL, (8 * MIB, 1)),
                    ("a flag", EINVAL, (8 * MIB, 0, 1)),
                    ("more than a volume may have", ENOSPC, ((64 << 40) + 4096,)),
                    ("all that there is", ENOSPC, (2**64 - 4096,))):
                check(resize(s, *words) == error, name)
            snapshot = client(agent, b"v@s")
            check(not snapshot.flags & FLAG_SEND_RESIZE, "a snapshot")
            check(resize(snapshot, 8 * MIB) == EPERM, "a snapshot grows")
            check(write(s, 0, b"1") == 0, "a write after these")
        with Agent(c, "--volume", "v", "--read-only") as agent:
            s = client(agent)
            check(s.flags & FLAG_READ_ONLY and not s.flags & FLAG_SEND_RESIZE, "read-only")
            check(resize(s, 8 * MIB) == EPERM, "a read-only export grows")
        with Agent(c, "--volume", "v", "--resize", "no") as agent:
            s = client(agent)
            check(not s.flags & FLAG_SEND_RESIZE, "--resize no")
            check(resize(s, 8 * MIB) == EINVAL, "a command that is not offered")
        check(volume_bytes(c) == 4 * MIB, "its size")


def shrinks():
    """Where the agent allows it: what was behind the new end does not come back."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "8M")
        with Agent(c, "--volume", "v", "--resize", "any") as agent:
            s, other = client(agent), client(agent)
            check(write(s, 0, b"a" * MIB) == 0 and write(s, 6 * MIB, b"b" * MIB) == 0, "writes")
            # Changes of the tail, whole blocks and parts, come in front of it in one piece.
            def head(kind, offset, length):
                return struct.pack(">IHHQQI", 0x25609513, 0, kind, 7, offset, length)
            s.s.sendall(b"".join(head(WRITE, 5 * MIB + 5000 * i, 3000) + b"c" * 3000
                                 for i in range(50)) + head(RESIZE, 4 * MIB, 0) +
                        head(WRITE, 6 * MIB, 4) + b"late" + head(RESIZE, 8 * MIB, 0))
            errors = sorted(s.error() for _ in range(53))
            check(errors == [0] * 52 + [ENOSPC] or errors == [0] * 53, str(errors))
            check(read(s, 0, MIB) == b"a" * MIB, "in front of the end")
            back = read(other, 4 * MIB, 4 * MIB)
            late = back[2 * MIB:2 * MIB + 4]
            check(late == bytes(4) or (late == b"late" and errors[-1] == 0), "the late write")
            check(back[:2 * MIB] == bytes(2 * MIB) and
                  back[2 * MIB + 4:] == bytes(2 * MIB - 4), "the tail is back")
            check(resize(s, 4096) == 0, "one block")
            check(read(other, 4096, 1) == EINVAL and write(other, 4096, b"x") == ENOSPC,
                  "another connection")
            check(read(other, 0, 2) == b"aa", "what is left")
            check(size_of(agent) == 4096 and volume_bytes(c) == 4096, "its size")


def by_another():
    """`cleave volume resize` while clients are there: new ones see it, the old ones go on."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "control")
        with Agent(c, "--volume", "v", "--control", path) as agent:
            old = client(agent)
            check(write(old, 0, b"1" * 4096) == 0, "a write")
            c.cleave("volume", "resize", "v", "--size", "8M")
            check(write(old, 4096, b"2" * 4096) == 0, "a write of one that was there")
            check(write(old, 4 * MIB, b"x") == ENOSPC, "it keeps its size")
            new = client(agent)
            check(new.size == 8 * MIB, "one that comes anew")
            check(write(new, 8 * MIB - 1, b"e") == 0 and read(old, 0, 1) == b"1", "both")
            check(agent.count_lines("export: open") == 1, "it was opened again")
            expect_error(c.cleave("volume", "resize", "v", "--size", "2M", "--shrink",
                                  check_rc=False), "in use")
            check(read(new, 8 * MIB - 1, 1) == b"e", "a shrink that was refused")
            # By force: that takes the volume from the agent, and from its clients.
            c.cleave("volume", "resize", "v", "--size", "2M", "--shrink", "--force")
            new = client(agent)
            check(new.size == 2 * MIB, "after a shrink by force")
            check(write(new, 2 * MIB - 1, b"e") == 0, "a write at the end")
            check(old.is_closed(), "one that had the other size")
            # Renamed: its session goes on, and does not mean what has its name now.
            c.cleave("volume", "rename", "v", "w")
            c.volume_create("v", "16M")
            check(resize(new, 4 * MIB) != 0, "another volume was meant")
            check(volume_bytes(c) == 16 * MIB, "another volume was resized")
            check(read(new, 2 * MIB - 1, 1) == b"e", "the renamed one")


def while_gateways_change():
    """A RESIZE waits for a gateway as a write does; two clients that both ask get both done."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c, "--volume", "v", "--resize", "any") as agent:
            s, other = client(agent), client(agent)
            c.gateway.kill()
            s.command(RESIZE, 8 * MIB, 0)
            other.command(RESIZE, 12 * MIB, 0)
            c.gateway.start()
            check(s.error() == 0 and other.error() == 0, "RESIZE over a restart")
            check(volume_bytes(c) in (8 * MIB, 12 * MIB), "its size")
            check(write(s, 8 * MIB - 1, b"x") == 0, "a write")
            # One that goes while its request is under way.
            c.gateway.kill()
            s.command(RESIZE, 16 * MIB, 0)
            s.s.close()
            c.gateway.start()
            check(resize(other, 20 * MIB) == 0 and client(agent).size == 20 * MIB, "another one")


def of_two_gateways():
    """One of them is asked; ports of both serve what is new."""
    with Cluster(nodes=3, gateways=2) as c:
        c.volume_create("v", "4M")
        with Agent(c, *c.gateway_words()[2:], "--volume", "v") as agent:
            s = client(agent)
            for size in (1 << 30, 40 << 30):
                check(resize(s, size) == 0, "RESIZE")
                at = [size - 4096 - i * (size // 16) for i in range(16)]  # chunks of many shards
                for i, offset in enumerate(at):
                    check(write(s, offset, bytes([i + 1]) * 4096) == 0, f"a write at {offset}")
                for i, offset in enumerate(at):
                    check(read(s, offset, 1) == bytes([i + 1]), f"a read at {offset}")
            c.cleave("volume", "resize", "v", "--size", "50G")
            new = client(agent)
            check(new.size == 50 << 30, "who comes anew")
            for i in range(16):
                check(write(new, (50 << 30) - (i + 1) * (64 << 20), b"n") == 0, f"write {i}")


def clients_see_it_by_their_tools():
    """QEMU and libnbd do not know RESIZE: they ignore its flag, and see a new size when they come."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c) as agent:
            load = Daemon("fio", ["fio", "--name=t", "--ioengine=nbd", f"--uri={agent.uri()}",
                                  "--rw=randwrite", "--bs=4k", "--iodepth=16", "--size=4m",
                                  "--verify=crc32c", "--verify_state_save=0", "--do_verify=1",
                                  "--minimal", "--loops=10"]).start(wait=False)
            try:
                s = client(agent)
                for size in (8, 64, 100):
                    before = c.metric("writes")
                    while c.metric("writes") < before + 200 and load.process.poll() is None:
                        pass
                    check(resize(s, size * MIB) == 0, f"{size} MiB")
                    check(size_of(agent) == size * MIB, "nbdinfo")
                check("100 MiB" in run_argv(["qemu-img", "info", "-f", "raw",
                                             agent.uri()]).stdout, "qemu-img")
                check(load.wait_exit() == 0, "fio failed\n" + "\n".join(load.lines))
            finally:
                if load.process is not None:
                    load.kill()


if __name__ == "__main__":
    main(grows, in_structured_and_extended_headers, refused, shrinks, by_another,
         while_gateways_change, of_two_gateways, clients_see_it_by_their_tools)
