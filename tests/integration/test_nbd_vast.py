#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TRIM, WRITE_ZEROES and block status of ranges beyond 4 GiB, in extended headers: up to 64 TiB by one request."""
import json
import struct
import time

from libagent import Agent, Client
from libcluster import Cluster, check, main

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
CHUNK = 64 * MIB
READ, WRITE, TRIM, WRITE_ZEROES, BLOCK_STATUS = 0, 1, 4, 6, 7
FLAG_NO_HOLE, FLAG_PAYLOAD_LEN = 1 << 1, 1 << 5
REPLY_NONE, REPLY_DATA = 0, 1


class Extended(Client):
    """In transmission, with extended headers."""

    def __init__(self, agent, name=b"v"):
        super().__init__(agent)
        self.option(11)
        check(self.reply()[1] == 1, "EXTENDED_HEADERS")
        check(self.go(name) == 1, "GO")

    def ask(self, kind, offset, length, flags=0, data=b""):
        """The error of a request; a READ's data."""
        self.s.sendall(struct.pack(">IHHQQQ", 0x21E41C71, flags, kind, 7, offset, length) + data)
        out, error, is_done = b"", 0, False
        while not is_done:
            magic, reply, what, cookie, _, count = struct.unpack(">IHHQQQ", self.get(32))
            check(magic == 0x6E8A278C and cookie == 7, f"reply {magic:x}, cookie {cookie}")
            payload = self.get(count)
            if what & 0x8000:
                error = struct.unpack(">I", payload[:4])[0]
            elif what == REPLY_DATA:
                out += payload[8:]
            elif what == 2: # a hole
                out += bytes(struct.unpack(">QI", payload)[1])
            is_done = reply & 1 != 0
        return error if kind != READ or error != 0 else out

    def write(self, offset, data):
        check(self.ask(WRITE, offset, len(data), FLAG_PAYLOAD_LEN, data) == 0, f"a write at {offset}")

    def expect(self, offset, data):
        check(self.ask(READ, offset, len(data)) == data, f"what is read at {offset}")


def metric(c, *names):
    return sum(c.metric_of_all(name) for name in names)


def took(what, begin):
    print(f"  {what}: {time.monotonic() - begin:.2f} s")


def extents(c, *words):
    return [(e["length_bytes"], e["kind"]) for e in
            json.loads(c.cleave("--json", "volume", "map", *words).stdout)["extents"]]


def usage(c, name):
    return json.loads(c.cleave("--json", "volume", "show", name).stdout)["usage"]


def all_of_an_empty_volume():
    """No record, no memory for chunks, and few messages: by counts, not by the clock."""
    with Cluster(nodes=3, shards=8, gateways=2, disk_size="512M") as c:
        c.volume_create("v", "64T")
        with Agent(c) as agent:
            s = Extended(agent)
            s.expect(0, bytes(4096)) # connected
            for kind, text in ((TRIM, "TRIM"), (WRITE_ZEROES, "WRITE_ZEROES")):
                begin = time.monotonic()
                check(s.ask(kind, 32 * TIB, 32 * TIB) == 0, f"{text} of 32 TiB")
                check(s.ask(kind, 0, 32 * TIB) == 0, f"{text} of 32 TiB")
                took(f"{text}, twice 32 TiB", begin)
            begin = time.monotonic()
            check(s.ask(TRIM, 4096, 64 * TIB - 8192) == 0, "TRIM of nearly 64 TiB")
            took("TRIM of nearly 64 TiB", begin)
            check(metric(c, "log_bytes") == 0, "records of discards of nothing")
            check(metric(c, "discards") == metric(c, "hole_discards"), "needless ones, all")
            check(metric(c, "chunks") == 0, "chunks in memory")
            check(usage(c, "v")["chunk_count"] == 0, "chunks in memory")
            # A few of them by themselves, if a connection was not there yet.
            messages = metric(c, "discards", "hole_maps")
            print(f"  {messages} messages")
            check(messages <= 2 * 3 * 2048 + 1024, f"{messages} messages")
        begin, before = time.monotonic(), metric(c, "hole_maps", "block_statuses")
        check(extents(c, "v") == [(64 * TIB, "hole")], "the map of 64 TiB")
        took("the map of 64 TiB", begin)
        messages = metric(c, "hole_maps", "block_statuses") - before
        print(f"  {messages} messages")
        check(messages <= 2 * 2048 + 1024, f"{messages} messages")


def what_is_there_goes():
    """Over data, with borders within chunks; a snapshot and a clone keep, and hide, what they should."""
    with Cluster(nodes=3, shards=8, gateways=2, disk_size="512M") as c:
        c.volume_create("v", "40T")
        places = [0, CHUNK - 4096, CHUNK, 3 * CHUNK + 8192, 31 * GIB, 32 * GIB - 4096, 32 * GIB,
                  5 * TIB + 12288, 33 * TIB - 4096, 33 * TIB, 40 * TIB - 4096]
        data = {at: struct.pack(">Q", at + 1) * 512 for at in places}
        with Agent(c) as agent:
            s = Extended(agent)
            for at in places:
                s.write(at, data[at])
            c.cleave("snapshot", "create", "v@s")
            c.cleave("clone", "v@s", "c")
            s.write(5 * TIB + 12288, b"n" * 4096)
            check(s.ask(TRIM, CHUNK, 33 * TIB - CHUNK) == 0, "TRIM of 33 TiB")
            for at in places:
                s.expect(at, data[at] if at < CHUNK or at >= 33 * TIB else bytes(4096))
            s.write(31 * GIB, b"z" * 4096)
            s.expect(31 * GIB, b"z" * 4096)
            check(extents(c, "v@s") != [(40 * TIB, "hole")], "the snapshot keeps what it had")
        with Agent(c, "--volume", "v@s", "--volume", "c") as agent:
            old, clone = Extended(agent, b"v@s"), Extended(agent, b"c")
            for at in places:
                old.expect(at, data[at])
                clone.expect(at, data[at])
            check(clone.ask(WRITE_ZEROES, 4096, 40 * TIB - 8192) == 0, "WRITE_ZEROES of a clone")
            for at in places:
                clone.expect(at, data[at] if at in (0, 40 * TIB - 4096) else bytes(4096))
                old.expect(at, data[at])
        for gateway in c.gateways:
            gateway.kill()
        for gateway in c.gateways:
            gateway.start()
        with Agent(c, "--volume", "v", "--volume", "c") as agent:
            s, clone = Extended(agent), Extended(agent, b"c")
            for at in places:
                clone.expect(at, data[at] if at in (0, 40 * TIB - 4096) else bytes(4096))
                if at != 31 * GIB:
                    s.expect(at, data[at] if at < CHUNK or at >= 33 * TIB else bytes(4096))
            s.expect(31 * GIB, b"z" * 4096)


main(all_of_an_empty_volume, what_is_there_goes)
