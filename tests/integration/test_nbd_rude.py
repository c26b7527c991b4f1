#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cleave-agent against clients that ask for much, say little, do not listen, and outnumber it."""
import os
import resource
import socket
import struct

from libagent import EINVAL, ERR_UNKNOWN, Agent, Client, control
from libcluster import Cluster, check, main

ESHUTDOWN = 108


def descriptors_max(pid, count):
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, hard))


def more_requests_at_once_than_are_taken():
    """1000 heads in one piece: those beyond the 256 that are taken wait, and are not forgotten."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c) as agent:
            s = Client(agent)
            check(s.go() == 1, "GO")
            s.s.sendall(b"".join(struct.pack(">IHHQQI", 0x25609513, 0, 0, 7, 4096 * (i % 1024), 1)
                                 for i in range(1000)))
            for _ in range(1000):
                check(s.error() == 0 and s.get(1) == b"\0", "a read")
            # A write's payload right behind them, too.
            s.s.sendall(b"".join(struct.pack(">IHHQQI", 0x25609513, 0, 1, 7, 4096 * i + 5, 3) +
                                 b"abc" for i in range(600)))
            for _ in range(600):
                check(s.error() == 0, "a write")
            s.command(0, 599 * 4096, 10)
            check(s.error() == 0 and s.get(10) == b"\0\0\0\0\0abc\0\0", "what was written")


def payloads_of_commands_that_have_none():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c) as agent:
            s = Client(agent)
            s.option(11)
            check(s.reply()[1] == 1, "extended headers")
            check(s.go() == 1, "GO")

            def command(kind, offset, length, flags=0, data=b""):
                s.s.sendall(struct.pack(">IHHQQQ", 0x21E41C71, flags, kind, 7, offset, length) +
                            data)
                magic, _, chunk, cookie, _, bytes_ = struct.unpack(">IHHQQQ", s.get(32))
                check(magic == 0x6E8A278C and cookie == 7, f"reply {magic:x}")
                data = s.get(bytes_)
                return struct.unpack(">I", data[:4])[0] if chunk & 0x8000 else 0

            for kind in (0, 3, 4, 5, 6, 7, 77):
                check(command(kind, 0, 4096, 1 << 5, b"!" * 4096) == EINVAL, f"command {kind}")
            check(command(1, 0, 4096, 1 << 5, b"!" * 4096) == 0, "a write")
            # A status of all that there is and more, and zeroes of all of it at once.
            check(command(7, 0, 5 << 32) == EINVAL, "a status without a context")
            check(command(6, 0, 4 << 20, 1 << 4) == 0, "fast zeroes")
            check(command(6, 0, 5 << 32) == 28, "zeroes beyond the end")


def names_that_are_only_named():
    """A context of a volume that nobody opens leaves nothing behind."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "control")
        with Agent(c, "--all", "--control", path) as agent:
            s = Client(agent)
            s.option(8)
            check(s.reply()[1] == 1, "structured replies")
            for i in range(4200):
                name = b"no-%d" % i
                s.option(10, struct.pack(">I", len(name)) + name + struct.pack(">I", 0))
                check(s.reply()[1] == 1, f"context {i}")
            check(control(path, op="list")["exports"] == [], "exports are left")
            check(s.go(b"nobody") == ERR_UNKNOWN, "a volume that is not there")
            check(s.go() == 1, "GO")
            other = Client(agent)
            check(other.go(b"") == ERR_UNKNOWN, "another client's volume is no default export")


def info_and_then_go():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c) as agent:
            s = Client(agent)
            for _ in range(3):
                s.option(6, struct.pack(">I", 1) + b"v" + struct.pack(">H", 0))
                check(s.reply()[1] == 3 and s.reply()[1] == 1, "INFO")
            check(s.go() == 1, "GO")
            check(agent.count_lines("export: open") == 1, "it was opened more than once")


def handshakes_that_take_for_ever():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c, "--volume", "v", "--handshake-timeout", "5s") as agent:
            through = Client(agent)
            check(through.go() == 1, "GO")
            mute = socket.socket(socket.AF_UNIX)
            mute.connect(agent.socket)
            slow = Client(agent)
            slow.s.sendall(b"IHAVE")
            check(slow.is_closed(), "half an option")
            while mute.recv(100) != b"":
                pass
            through.command(0, 0, 4096)
            check(through.error() == 0 and len(through.get(4096)) == 4096, "one that is through")


def lists_that_nobody_reads():
    """400 names and 5000 times LIST: the answers wait in the client's option, not in memory."""
    names = [f"{i:03}-{'n' * 50}" for i in range(400)]
    with Cluster(nodes=3) as c:
        path = os.path.join(c.folder, "control")
        with Agent(c, "--control", path) as agent:
            for name in names:
                check("uri" in control(path, op="attach", name=name), name)
            s = Client(agent)
            count = 5000
            s.s.sendall(struct.pack(">QII", 0x49484156454F5054, 3, 0) * count)
            for _ in range(20):
                for name in names:
                    _, kind, data = s.reply()
                    check(kind == 2 and data[4:] == name.encode(), "a name in its turn")
                check(s.reply()[1] == 1, "the end of a list")
            check(agent.rss_bytes() < 64 << 20, f"{agent.rss_bytes()} bytes")
            s.s.close()


def replies_that_nobody_reads():
    """Each of 40 clients asks for 256 MiB and reads nothing; one more is served all the same."""
    with Cluster(nodes=3, device_memory="256M") as c:
        c.volume_create("v", "32M")
        with Agent(c) as agent:
            deaf = [Client(agent) for _ in range(40)]
            for s in deaf:
                check(s.go() == 1, "GO")
                s.s.sendall(b"".join(struct.pack(">IHHQQI", 0x25609513, 0, 0, 7, (i % 32) << 20,
                                                 1 << 20) for i in range(256)))
            s = Client(agent)
            check(s.go() == 1, "GO")
            s.command(0, 0, 4096)
            check(s.error() == 0 and len(s.get(4096)) == 4096, "a read")
            check(agent.rss_bytes() < 1500 << 20, f"{agent.rss_bytes()} bytes")
            for s in deaf:
                s.s.close()


def long_replies_that_nobody_reads():
    """Each of 64 clients asks for 32 MiB and reads nothing: together they get 1 GiB, and are cut."""
    with Cluster(nodes=3, device_memory="256M") as c:
        c.volume_create("v", "32M")
        with Agent(c, "--volume", "v", "--stall-timeout", "1s") as agent:
            deaf = [Client(agent) for _ in range(64)]
            for s in deaf:
                check(s.go() == 1, "GO")
                s.command(0, 0, 32 << 20)
            # Half a payload is memory, too.
            mute = [Client(agent) for _ in range(8)]
            for s in mute:
                check(s.go() == 1, "GO")
                s.command(1, 0, 32 << 20)
            # A small request of somebody else goes at once, a large one when it is its turn.
            good = Client(agent)
            check(good.go() == 1, "GO")
            good.command(0, 0, 65536)
            check(good.error() == 0 and len(good.get(65536)) == 65536, "a small read")
            good.command(0, 0, 32 << 20)
            check(good.error() == 0 and len(good.get(32 << 20)) == 32 << 20, "a long read")
            agent.wait_line("cut off, it does not read its replies")
            check(agent.rss_bytes("VmHWM") < 1400 << 20, f"{agent.rss_bytes('VmHWM')} bytes")
            for s in deaf + mute:
                s.s.close()
            good.command(0, 0, 4096)
            check(good.error() == 0 and len(good.get(4096)) == 4096, "a read of who reads")
            # What the burst took is given back, though the agent lives on.
            agent.wait_rss_below(192 << 20)


def places_that_nobody_uses():
    """1,024 connections that say nothing: who comes then has a place, and who uses one keeps it."""
    count = 1024
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 256)), hard))
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c, "--volume", "v", "--handshake-timeout", "1h") as agent:
            first = Client(agent)
            check(first.go() == 1, "GO")
            silent = []
            for i in range(count):
                silent.append(socket.socket(socket.AF_UNIX))
                silent[-1].settimeout(60)
                silent[-1].connect(agent.socket)
                check(len(silent[-1].recv(18)) == 18, f"greeting of {i}")
            late = Client(agent)
            check(late.go() == 1, "GO of one who comes late")
            agent.wait_line("its place is needed")
            # The oldest of those who said nothing went, nobody else.
            check(silent[0].recv(1) == b"" and silent[1].recv(1) == b"", "the oldest two")
            silent[2].sendall(struct.pack(">I", 3) + struct.pack(">QII", 0x49484156454F5054, 3, 0))
            check(len(silent[2].recv(20)) == 20, "one that is not so old")
            for s in (first, late):
                s.command(0, 0, 4096)
                check(s.error() == 0 and len(s.get(4096)) == 4096, "a read")
            for s in silent:
                s.close()


def no_descriptors_left():
    """The agent does not spin, cuts nobody who uses a volume, and accepts when others have gone."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c) as agent:
            s = Client(agent)
            check(s.go() == 1, "GO")
            descriptors_max(agent.pid, len(os.listdir(f"/proc/{agent.pid}/fd")) + 4)
            there = [Client(agent) for _ in range(4)]
            for client in there:
                check(client.go() == 1, "GO")
            waiting = []
            for _ in range(10):
                waiting.append(socket.socket(socket.AF_UNIX))
                waiting[-1].settimeout(60)
                waiting[-1].connect(agent.socket)
            agent.wait_line("accept: Too many open files")
            agent.wait_idle()
            for client in there:
                client.s.close()
            # These say nothing: the oldest of them give way to the last one.
            check(len(waiting[-1].recv(18)) == 18, "greeting")
            for client in waiting:
                client.close()
            s.command(0, 0, 4096)
            check(s.error() == 0 and len(s.get(4096)) == 4096, "one that was there before")


def taken_by_another_session():
    """Who had the volume gets errors; who comes anew gets the volume, and what is in it."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c) as agent:
            old, late = Client(agent), Client(agent)
            for s in (old, late):
                check(s.go() == 1, "GO")
            old.command(1, 0, 4096, data=b"1" * 4096)
            check(old.error() == 0, "a write")
            c.load("--volume", "v", "--operations", "10", "--take")
            for s in (old, late):
                for kind, data in ((1, bytes(4096)), (0, b""), (4, b"")):
                    s.command(kind, 2 << 20, 4096, data=data)
                    check(s.error() == ESHUTDOWN, f"command {kind} after the volume was taken")
                s.command(1, 5, 3, data=b"abc")
                check(s.error() == ESHUTDOWN, "a change of part of a block")
            new = Client(agent)
            check(new.go() == 1, "GO of one that comes anew")
            new.command(1, 2 << 20, 4096, data=b"2" * 4096)
            check(new.error() == 0, "its write")
            for s in (old, late):
                check(s.is_closed(), "the old ones are cut off")
            again = Client(agent)
            check(again.go() == 1, "GO")
            again.command(0, (2 << 20) - 1, 2)
            check(again.error() == 0 and again.get(2) == b"\0" + b"2", "a read")


def hundreds_of_clients():
    """Deep queues from many connections at once: all are answered, all blocks are whole."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c) as agent:
            clients = [Client(agent) for _ in range(200)]
            for s in clients:
                check(s.go() == 1, "GO")
            for k, s in enumerate(clients):
                # Whole blocks and parts of the same few, from everybody.
                s.s.sendall(b"".join(
                    struct.pack(">IHHQQI", 0x25609513, 0, 1, 7, 4096 * (i % 8), 4096) +
                    bytes([k]) * 4096 if i % 4 else
                    struct.pack(">IHHQQI", 0x25609513, 0, 1, 7, 65536 + 8 * k + 1600 * (i // 4),
                                8) + b"%04d%04d" % (k, i) for i in range(32)))
            for s in clients:
                for _ in range(32):
                    check(s.error() == 0, "a write")
            s = clients[0]
            s.command(0, 0, 65536 + 1600 * 8)
            check(s.error() == 0, "a read")
            data = s.get(65536 + 1600 * 8)
            for i in range(8):
                block = data[4096 * i:4096 * (i + 1)]
                check(block == block[:1] * 4096, f"block {i} is torn")
            for k in range(200):
                for i in range(0, 32, 4):
                    at = 65536 + 8 * k + 1600 * (i // 4)
                    check(data[at:at + 8] == b"%04d%04d" % (k, i), f"part {k} {i} was undone")
            for s in clients:
                s.s.close()


if __name__ == "__main__":
    main(more_requests_at_once_than_are_taken, payloads_of_commands_that_have_none,
         names_that_are_only_named, info_and_then_go, handshakes_that_take_for_ever,
         lists_that_nobody_reads, replies_that_nobody_reads,
         long_replies_that_nobody_reads, places_that_nobody_uses, no_descriptors_left,
         taken_by_another_session, hundreds_of_clients)
