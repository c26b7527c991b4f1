# SPDX-License-Identifier: Apache-2.0
"""Random requests at byte offsets through libnbd, several connections, checked against a mirror.

    /usr/bin/python3 libnbdfsx.py URI SEED OPERATIONS [CONNECTIONS]

No operations: until SIGTERM, and then all of it is read and compared, as at any end.
Requests in flight at a time do not overlap in bytes, but they share blocks: that is what partial
writes must get right. Run by the python that Debian's python3-libnbd belongs to.
"""
import itertools
import random
import signal
import sys

import nbd

IN_FLIGHT = 64
LENGTH_MAX = 70000


class Exerciser:
    def __init__(self, uri, seed, connections):
        self.random = random.Random(seed)
        self.handles = []
        for _ in range(connections):
            h = nbd.NBD()
            h.set_uri_allow_local_file(True)
            h.connect_uri(uri)
            self.handles.append(h)
        self.size = self.handles[0].get_size()
        self.mirror = bytearray(self.size)
        self.handles[0].pwrite(bytes(self.size), 0) if self.size <= 1 << 25 else None
        self.in_flight = []  # [handle, cookie, kind, offset, length, data]
        self.is_over = False

    def is_free(self, offset, length):
        return all(offset + length <= o or o + l <= offset
                   for _, _, _, o, l, _ in self.in_flight)

    def start(self, number):
        length = self.random.choice([1, 7, 512, 4096, self.random.randint(1, LENGTH_MAX)])
        offset = self.random.randrange(self.size - length)
        if self.random.random() < 0.3:
            offset &= ~4095
        if not self.is_free(offset, length):
            return
        h = self.random.choice(self.handles)
        kind = self.random.choice(["read", "read", "write", "write", "write", "zero", "trim"])
        data = None
        if kind == "read":
            data = nbd.Buffer(length)
            cookie = h.aio_pread(data, offset)
        elif kind == "write":
            data = bytes([number % 251]) * length if length > 64 else self.random.randbytes(length)
            cookie = h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(data)), offset)
        elif kind == "zero":
            flags = self.random.choice([0, nbd.CMD_FLAG_NO_HOLE])
            cookie = h.aio_zero(length, offset, flags=flags)
        else:
            # What a trim leaves is only known of whole blocks, so it is of whole blocks here.
            offset, length = offset & ~4095, 4096
            if not self.is_free(offset, length):
                return
            cookie = h.aio_trim(length, offset)
        self.in_flight.append((h, cookie, kind, offset, length, data))

    def finish(self, entry):
        h, cookie, kind, offset, length, data = entry
        while not h.aio_command_completed(cookie):
            h.poll(-1)
        self.in_flight.remove(entry)
        if kind == "read":
            got = bytes(data.to_bytearray())
            want = bytes(self.mirror[offset:offset + length])
            if got != want:
                at = next(i for i in range(length) if got[i] != want[i])
                sys.exit(f"read at {offset} of {length}: byte {at} is {got[at]}, not {want[at]}")
        elif kind == "write":
            self.mirror[offset:offset + length] = data
        else:
            self.mirror[offset:offset + length] = bytes(length)

    def run(self, operations):
        for number in range(operations) if operations > 0 else itertools.count():
            if self.is_over:
                break
            self.start(number)
            while len(self.in_flight) >= IN_FLIGHT:
                self.finish(self.random.choice(self.in_flight))
        while self.in_flight:
            self.finish(self.in_flight[0])
        at = 0
        while at < self.size:
            length = min(1 << 20, self.size - at)
            if self.handles[0].pread(length, at) != self.mirror[at:at + length]:
                sys.exit(f"the end: {length} bytes at {at} differ")
            at += length
        for h in self.handles:
            h.shutdown()


if __name__ == "__main__":
    uri, seed, operations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    exerciser = Exerciser(uri, seed, int(sys.argv[4]) if len(sys.argv) > 4 else 1)

    def end(number, frame):
        exerciser.is_over = True

    signal.signal(signal.SIGTERM, end)
    exerciser.run(operations)
    print(f"seed {seed}: {operations} operations")
