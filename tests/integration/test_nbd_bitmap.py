#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dirty bitmaps over NBD: what has changed since a snapshot, for others' tools, by hand, and for rude clients."""
import json
import os
import struct

from libagent import EINVAL, ERR_UNKNOWN, Agent, Client, need
from libcluster import Cluster, check, main, run_argv, wait_for

need("nbdinfo", "qemu-img")

MIB = 1 << 20
BLOCK = 4096
STRUCTURED, LIST_META, SET_META, EXTENDED = 8, 9, 10, 11
ACK, META = 1, 4
ERR_TOO_BIG = 2**31 + 9
EIO = 5
PREFIX = b"qemu:dirty-bitmap:"


def text(data):
    return struct.pack(">I", len(data)) + data


def meta(name, *queries):
    return text(name) + struct.pack(">I", len(queries)) + b"".join(text(q) for q in queries)


class Asker(Client):
    """A client that agrees upon contexts, and asks about them."""

    def __init__(self, agent, style=STRUCTURED):
        super().__init__(agent)
        self.is_extended = style == EXTENDED
        self.option(style)
        check(self.reply()[1] == ACK, "structured replies")

    def contexts(self, option, name, *queries):
        """{name: id} of the answer, or the error."""
        self.option(option, meta(name, *queries))
        found = {}
        while True:
            got, kind, data = self.reply()
            check(got == option, f"an answer to option {got}")
            if kind == META:
                found[data[4:]] = struct.unpack(">I", data[:4])[0]
            else:
                return found if kind == ACK else kind

    def chunk(self):
        """(is it the last, type, payload)"""
        if self.is_extended:
            magic, flags, kind, cookie, _, length = struct.unpack(">IHHQQQ", self.get(32))
            check(magic == 0x6E8A278C, f"chunk magic {magic:x}")
        else:
            magic, flags, kind, cookie, length = struct.unpack(">IHHQI", self.get(20))
            check(magic == 0x668E33EF, f"chunk magic {magic:x}")
        check(cookie == 7, f"cookie {cookie}")
        return flags & 1, kind, self.get(length)

    def ask(self, offset, length, flags=0):
        """{id: [(length, flags)]}, or the error."""
        if self.is_extended:
            self.s.sendall(struct.pack(">IHHQQQ", 0x21E41C71, flags, 7, 7, offset, length))
        else:
            self.command(7, offset, length, flags)
        answer, is_last = {}, 0
        while not is_last:
            is_last, kind, data = self.chunk()
            if kind & 0x8000:
                check(is_last, "an error ends the answer")
                return struct.unpack(">I", data[:4])[0]
            context, form, data = (
                (struct.unpack(">I", data[:4])[0], ">QQ", data[8:]) if self.is_extended else
                (struct.unpack(">I", data[:4])[0], ">II", data[4:]))
            check(context not in answer, "a context is answered about once")
            answer[context] = list(struct.iter_unpack(form, data))
        return answer

    def dirty(self, context, size):
        """The ranges that have changed, of all of the disk; or the error."""
        at, ranges = 0, []
        while at < size:
            answer = self.ask(at, min(size - at, 1 << 30))
            if isinstance(answer, int):
                return answer
            for length, flags in answer[context]:
                check(length > 0 and flags in (0, 1), answer)
                if flags and ranges and ranges[-1][1] == at:
                    ranges[-1] = (ranges[-1][0], at + length)
                elif flags:
                    ranges.append((at, at + length))
                at += length
        return ranges


def write(c, name, at, length, letter="x"):
    """Whole blocks, by an agent that is none of the test's."""
    disk = f"driver=nbd,server.type=unix,server.path={c.writer.socket},export={name}"
    run_argv(["qemu-io", "--image-opts", "-c", f"write -P {ord(letter)} {at} {length}", disk])


def discard(c, name, at, length):
    disk = f"driver=nbd,server.type=unix,server.path={c.writer.socket},export={name},discard=unmap"
    run_argv(["qemu-io", "-d", "unmap", "--image-opts", "-c", f"discard {at} {length}", disk])


def snapshot(c, name):
    c.cleave("snapshot", "create", name)


def of_nbdinfo(agent, name, since):
    out = run_argv(["nbdinfo", "--json", f"--map={(PREFIX + since.encode()).decode()}",
                    agent.uri(name)]).stdout
    return merge((e["offset"], e["offset"] + e["length"]) for e in json.loads(out)
                 if e["type"] == 1)


def of_qemu(agent, name, since):
    """qemu-img shows what a bitmap has as a hole."""
    out = run_argv(["qemu-img", "map", "--output=json", "--image-opts",
                    f"driver=nbd,server.type=unix,server.path={agent.socket},export={name},"
                    f"x-dirty-bitmap=qemu:dirty-bitmap:{since}"]).stdout
    return merge((e["start"], e["start"] + e["length"]) for e in json.loads(out)
                 if not e["data"])


def merge(ranges):
    out = []
    for begin, end in ranges:
        if out and out[-1][1] == begin:
            out[-1] = (out[-1][0], end)
        else:
            out.append((begin, end))
    return out


class Bed:
    """A cluster, an agent that tests ask, and another one by which volumes are written."""

    def __init__(self, size="200M", **options):
        self.size, self.options = size, options

    def __enter__(self):
        self.cluster = Cluster(nodes=3, shards=4, **self.options)
        c = self.cluster.__enter__()
        c.volume_create("v", self.size)
        self.agent = Agent(c, "--all", "--volume", "v", "--control",
                           os.path.join(c.folder, "agent.control")).start()
        c.writer = Agent(c, "--all")
        c.writer.socket = os.path.join(c.folder, "writer.sock")
        c.writer.argv = [w if not w.startswith("unix:") else f"unix:{c.writer.socket}"
                         for w in c.writer.argv]
        c.writer.start()
        return c, self.agent

    def __exit__(self, kind, value, trace):
        for agent in (self.agent, self.cluster.writer):
            if kind is None:
                check(agent.stop() == 0, "the agent's exit status")
            else:
                agent.kill()
                print("---- log of agent\n" + "\n".join(agent.lines[-40:]))
        return self.cluster.__exit__(kind, value, trace)


def tools_see_what_has_changed():
    with Bed() as (c, agent):
        write(c, "v", 0, 2 * MIB)
        snapshot(c, "v@a")
        write(c, "v", 70 * MIB, 64 << 10)
        snapshot(c, "v@b")
        write(c, "v", 199 * MIB, BLOCK)
        discard(c, "v", 0, MIB)
        first, second, third = (70 * MIB, 70 * MIB + (64 << 10)), \
            (199 * MIB, 199 * MIB + BLOCK), (0, MIB)
        for name, since, expected in (("v@b", "a", [first]), ("v", "b", [third, second]),
                                      ("v", "a", [third, first, second])):
            for tool in (of_nbdinfo, of_qemu):
                check(tool(agent, name, since) == expected,
                      f"{tool.__name__} of {name} since {since}: {tool(agent, name, since)}")
        # A write is seen by who asks behind it, also through a context that was agreed upon before.
        s = Asker(agent)
        check(s.contexts(SET_META, b"v", PREFIX + b"b") == {PREFIX + b"b": 2}, "SET")
        check(s.go() == ACK and s.dirty(2, 200 * MIB) == [third, second], "before")
        write(c, "v", 10 * MIB, BLOCK)
        check(s.dirty(2, 200 * MIB) == [third, (10 * MIB, 10 * MIB + BLOCK), second], "behind it")
        contexts = json.loads(run_argv(["nbdinfo", "--json", agent.uri("v")]).stdout)
        check({"qemu:dirty-bitmap:a", "qemu:dirty-bitmap:b", "base:allocation"} ==
              set(contexts["exports"][0]["contexts"]), f"what nbdinfo lists: {contexts}")
        s.s.close()


def contexts_are_listed_and_given():
    with Bed(size="8M") as (c, agent):
        for name in ("a", "b", "c"):
            snapshot(c, "v@" + name)
            write(c, "v", MIB, BLOCK, name)
        a, b, cc = (PREFIX + name for name in (b"a", b"b", b"c"))
        allocation = b"base:allocation"
        s = Asker(agent)
        check(s.contexts(LIST_META, b"v") == {allocation: 0, a: 0, b: 0, cc: 0}, "all")
        check(s.contexts(LIST_META, b"v", b"qemu:") == {a: 0, b: 0, cc: 0}, "of a namespace")
        check(s.contexts(LIST_META, b"v", PREFIX) == {a: 0, b: 0, cc: 0}, "of a kind")
        check(s.contexts(LIST_META, b"v", b, PREFIX + b"x") == {b: 0}, "by name")
        check(s.contexts(LIST_META, b"v@b") == {allocation: 0, a: 0}, "those before a snapshot")
        check(s.contexts(LIST_META, b"w", b"qemu:") == ERR_UNKNOWN, "of no volume")
        check(s.contexts(SET_META, b"v", b"qemu:", PREFIX) == {}, "SET takes no namespace")
        for name in (b"x", b"a" * 64, b"a@b", b"a\0", b"a\nb", b"@", b"\xff", b"../a"):
            check(s.contexts(SET_META, b"v", PREFIX + name) == {}, f"no snapshot {name}")
        check(s.contexts(SET_META, b"v", *(PREFIX + bytes([65 + i]) for i in range(4))) ==
              ERR_TOO_BIG, "too many")
        check(s.contexts(SET_META, b"v@a@b", a) == {}, "a difference has none")
        check(s.contexts(SET_META, b"v@b", allocation, cc, b, a) ==
              {allocation: 1, cc: 2, b: 3, a: 4}, "four of them")
        check(s.go(b"v@b") == ACK, "GO")
        changed = [(MIB, 0), (BLOCK, 1), (7 * MIB - BLOCK, 0)]
        check(s.ask(0, 8 * MIB) == {1: s.ask(0, 8 * MIB)[1], 2: changed, 4: changed,
                                    3: [(8 * MIB, 0)]}, f"each of them: {s.ask(0, 8 * MIB)}")
        # Bytes that are no whole blocks, one extent, nothing behind the end.
        answer = s.ask(MIB + 100, BLOCK, flags=1 << 3)
        check(answer[4] == [(BLOCK - 100, 1)], f"a part, one extent: {answer}")
        check(s.ask(8 * MIB, 1) == EINVAL, "behind the end")
        s.s.close()
        # Contexts of one export are not given for another one.
        s = Asker(agent)
        check(s.contexts(SET_META, b"v", a) == {a: 2} and s.go(b"v@c") == ACK, "GO elsewhere")
        check(s.ask(0, BLOCK) == EINVAL, "no context")
        s.s.close()
        s = Asker(agent, EXTENDED)
        check(s.contexts(SET_META, b"v", a, b) == {a: 2, b: 3} and s.go() == ACK, "64 bit")
        check(s.ask(0, 8 * MIB) == {2: changed, 3: changed}, "64 bit")
        s.s.close()


def a_deleted_snapshot_is_an_error():
    with Bed(size="8M") as (c, agent):
        snapshot(c, "v@a")
        write(c, "v", MIB, BLOCK)
        snapshot(c, "v@b")
        write(c, "v", 2 * MIB, BLOCK)
        askers = []
        for name in (b"v", b"v@b"):
            s = Asker(agent)
            check(s.contexts(SET_META, name, b"base:allocation", PREFIX + b"a") ==
                  {b"base:allocation": 1, PREFIX + b"a": 2} and s.go(name) == ACK, "GO")
            askers.append((s, s.dirty(2, 8 * MIB)))
        check(askers[0][1] == [(MIB, MIB + BLOCK), (2 * MIB, 2 * MIB + BLOCK)], askers)
        c.cleave("snapshot", "delete", "v@a")

        def is_over(s, before):
            got = s.dirty(2, 8 * MIB)
            check(got in (before, EIO), f"neither what was so nor an error: {got}")
            return got == EIO
        for s, before in askers:
            wait_for(lambda s=s, before=before: is_over(s, before), "the bitmap is no more")
            agent.wait_line("bitmap: lost, its clients' questions fail")
            s.command(0, 0, BLOCK)
            is_last, kind, data = s.chunk()
            check(is_last and kind == 1 and len(data) == 8 + BLOCK, "the export is still there")
            s.s.close()
        # Another snapshot of that name is another one, for who comes again.
        s = Asker(agent)
        check(s.contexts(SET_META, b"v", PREFIX + b"a") == {}, "it is not given any more")
        snapshot(c, "v@a")
        check(s.contexts(SET_META, b"v", PREFIX + b"a") == {PREFIX + b"a": 2}, "a new one")
        check(s.go() == ACK and s.dirty(2, 8 * MIB) == [], "nothing has changed since")
        s.s.close()


def a_volume_that_is_rolled_back_or_grows():
    with Bed(size="8M") as (c, agent):
        write(c, "v", MIB + BLOCK, BLOCK)
        snapshot(c, "v@a")
        write(c, "v", MIB, BLOCK)
        discard(c, "v", MIB + BLOCK, BLOCK)
        snapshot(c, "v@b")
        s = Asker(agent)
        check(s.contexts(SET_META, b"v", PREFIX + b"b") == {PREFIX + b"b": 2} and
              s.go() == ACK and s.dirty(2, 8 * MIB) == [], "nothing has changed since b")
        c.cleave("snapshot", "rollback", "--force", "v@a")
        check(s.dirty(2, 8 * MIB) == [(MIB, MIB + 2 * BLOCK)], "what b has is not there, and what it lacks is")
        c.cleave("volume", "resize", "v", "--size", "16M")
        write(c, "v", 12 * MIB, BLOCK)
        # Who came before knows the old size, and takes what is behind it for changed.
        new = Asker(agent)
        check(new.contexts(SET_META, b"v", PREFIX + b"b") == {PREFIX + b"b": 2} and
              new.go() == ACK, "GO")
        first, second = (MIB, MIB + 2 * BLOCK), (12 * MIB, 12 * MIB + BLOCK)
        check(new.dirty(2, 16 * MIB) in ([first, second], [first, (8 * MIB, 16 * MIB)]),
              f"as large as it is: {new.dirty(2, 16 * MIB)}")
        check(s.dirty(2, 16 * MIB) == [first, (8 * MIB, 16 * MIB)], "the older client")
        third = Asker(agent)
        check(third.contexts(SET_META, b"v", PREFIX + b"b") == {PREFIX + b"b": 2} and
              third.go() == ACK and third.dirty(2, 16 * MIB) == [first, second], "and exactly")
        for client in (s, new, third):
            client.s.close()
        c.cleave("volume", "delete", "--snapshots", "--force", "v", check_rc=False)


def an_agent_that_is_replaced():
    with Bed(size="8M") as (c, agent):
        snapshot(c, "v@a")
        write(c, "v", MIB, BLOCK)
        s = Asker(agent)
        check(s.contexts(SET_META, b"v", PREFIX + b"a") == {PREFIX + b"a": 2} and
              s.go() == ACK, "GO")
        check(s.dirty(2, 8 * MIB) == [(MIB, MIB + BLOCK)], "before")
        successor = Agent(c, "--all", "--volume", "v", "--control",
                          os.path.join(c.folder, "agent.control"), "--replace").start()
        try:
            check(s.dirty(2, 8 * MIB) == [(MIB, MIB + BLOCK)], "behind it")
            write(c, "v", 2 * MIB, BLOCK)
            check(s.dirty(2, 8 * MIB) ==
                  [(MIB, MIB + BLOCK), (2 * MIB, 2 * MIB + BLOCK)], "and it goes on")
            s.s.close()
        finally:
            check(successor.stop() == 0, "the successor's exit status")


def rude_clients():
    with Bed(size="8M") as (c, agent):
        snapshot(c, "v@a")
        for option in (LIST_META, SET_META):
            for _ in range(40):
                s = Asker(agent)
                s.option(option, meta(b"v", PREFIX + b"a"))
                s.s.close()
        s = Asker(agent)
        # Many in a row, unread; each is answered.
        for _ in range(100):
            s.option(SET_META, meta(b"v", PREFIX + b"a", PREFIX + b"x"))
            s.option(LIST_META, meta(b"v"))
        for _ in range(100):
            kinds = []
            while len([k for k in kinds if k == ACK]) < 2:
                kinds.append(s.reply()[1])
            check(kinds == [META, ACK, META, META, ACK], kinds)
        check(s.go() == ACK and s.dirty(2, 8 * MIB) == [], "it serves")
        for _ in range(200):
            s.command(7, 0, 8 * MIB)
        s.s.close()
        s = Asker(agent)
        c.gateways[0].kill()
        s.option(SET_META, meta(b"v", PREFIX + b"a"))
        s.s.close()
        c.gateways[0].start()
        s = Asker(agent)
        check(s.contexts(SET_META, b"v", PREFIX + b"a") == {PREFIX + b"a": 2}, "and goes on")
        s.s.close()


if __name__ == "__main__":
    main(tools_see_what_has_changed, contexts_are_listed_and_given, a_deleted_snapshot_is_an_error,
         a_volume_that_is_rolled_back_or_grows, an_agent_that_is_replaced, rude_clients)
