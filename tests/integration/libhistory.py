# SPDX-License-Identifier: Apache-2.0
"""What the clients of one volume saw, checked while they run: a write, its acknowledgement, a read by somebody else.

    with History(load.journal) as history:
        history.begin()
        ...                                 # something breaks, and is mended
        longest_s, silent_s = history.end() # the longest request; for how long nothing was acknowledged
        history.check()                     # a Failure, if a read was not linearizable

The history follows the journal of cleave-load, the one writer, which has a write before it is sent, and its
acknowledgement before the next one is. So a read by anybody that begins and ends while both are read may return what
was written with the sequence

    max(acknowledged, read by anybody) before it began  <=  sequence  <=  issued when it ended

of that block; overlapping writes of one session take effect in their order. Reader is such an anybody: a client of an
agent that only reads. Contents are compared by cleave-load itself, in its own reads and at the end; a reader looks at
the stamp (vm-client/load/stamp.h).
"""
import collections
import random
import struct
import threading
import time

from libagent import Client
from libcluster import Failure, check

BLOCK_BYTES = 4096
RECORD = struct.Struct("<BBHIQQQ")  # vm-client/load/journal.h
ACKNOWLEDGED = 3  # a record; the others are issues
STAMP = struct.Struct("<8sQQQQ")  # magic, volume, block, writer, sequence
MAGIC = b"LvBLOCK1"
LOOK_S = 0.01
RECENT = 256  # blocks, of which readers choose one half of the time
NOTHING = (0, 0)  # a version: the how-manieth run of the load, and its sequence
REPLY_MAGIC = 0x67446698


class History(threading.Thread):
    def __init__(self, journal):
        super().__init__(daemon=True)
        self.journal, self.at_bytes = journal, 0
        self.lock, self.is_over = threading.Lock(), False
        self.runs = {}  # of each writer, the how-manieth it is
        self.issued, self.acknowledged, self.seen = {}, {}, {}  # of each block, the newest version
        self.recent = collections.deque(maxlen=RECENT)  # blocks that were issued or acknowledged last
        self.pending = {}  # writes without an acknowledgement, reads by a reader: since when
        self.violation = None
        self.read_count = 0
        self.begin()

    def begin(self):
        """Pauses are counted from here on."""
        with self.lock:
            self.longest_s, self.silent_s, self.heard = 0.0, 0.0, time.monotonic()

    def end(self):
        """(the longest request, for how long nothing was acknowledged), in seconds, since begin()."""
        self.catch_up()
        with self.lock:
            now = time.monotonic()
            waiting = [now - since for since in self.pending.values()]
            return max([self.longest_s, *waiting]), max(self.silent_s, now - self.heard)

    def check(self):
        check(self.violation is None, f"not linearizable: {self.violation}")

    # ---- the journal ----

    def catch_up(self):
        """All that is in the journal now is known."""
        with self.lock:
            try:
                with open(self.journal, "rb") as file:
                    file.seek(self.at_bytes)
                    data = file.read()
            except FileNotFoundError:
                return
            now = time.monotonic()
            whole = len(data) - len(data) % RECORD.size
            self.at_bytes += whole
            for kind, _, count, _, block, sequence, writer in RECORD.iter_unpack(data[:whole]):
                version = (self.runs.setdefault(writer, len(self.runs) + 1), sequence)
                self._take(kind, range(block, block + count), version, now)

    def _take(self, kind, blocks, version, now):
        to = self.acknowledged if kind == ACKNOWLEDGED else self.issued
        for block in blocks:
            to[block] = max(to.get(block, NOTHING), version)
        self.recent.append(blocks[0])
        if kind == ACKNOWLEDGED:
            since = self.pending.pop((blocks[0], version), now)
            self.longest_s = max(self.longest_s, now - since)
            self.silent_s, self.heard = max(self.silent_s, now - self.heard), now
        else:
            self.pending[(blocks[0], version)] = now

    def run(self):
        while not self.is_over:
            self.catch_up()
            time.sleep(LOOK_S)  # between looks

    # ---- reads ----

    def choose(self, dice):
        """A block to read; None: there is none yet."""
        with self.lock:
            if not self.recent:
                return None
            if dice.random() < 0.5:
                return dice.choice(self.recent)
            block = dice.randrange(max(self.recent) + 1)
            return block if block in self.issued else self.recent[-1]

    def read_begins(self, block, reader):
        """The oldest version that a read of the block that begins now may return."""
        self.catch_up()
        with self.lock:
            self.pending[reader] = time.monotonic()
            return max(self.acknowledged.get(block, NOTHING), self.seen.get(block, NOTHING))

    def read_ended(self, block, reader, oldest, data):
        self.catch_up()
        magic, _, stamped, writer, sequence = STAMP.unpack_from(data)
        with self.lock:
            took_s = time.monotonic() - self.pending.pop(reader)
            self.longest_s = max(self.longest_s, took_s)
            self.read_count += 1
            version = (self.runs.get(writer, 0), sequence) if any(data) else NOTHING
            newest = self.issued.get(block, NOTHING)
            is_whole = version == NOTHING or (magic == MAGIC and writer in self.runs and stamped == block)
            if not is_whole or not oldest <= version <= newest:
                self.violation = self.violation or (
                    f"{reader} read block {block} in {took_s:.2f} s until {time.strftime('%H:%M:%SZ', time.gmtime())}: "
                    f"{magic} of block {stamped}, writer {writer:x} (run {version[0]}), sequence {sequence}; possible "
                    f"were {oldest} to {newest} (run, sequence)")
            self.seen[block] = max(self.seen.get(block, NOTHING), version)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.join()
        return False


class Reader(threading.Thread):
    """Reads a block at a time through an agent, as long as it lives, at most one a look."""

    def __init__(self, history, agent, name, seed):
        super().__init__(daemon=True, name=name)
        self.history, self.dice, self.is_over = history, random.Random(seed), False
        self.client = Client(agent)
        self.client.s.settimeout(None)
        check(self.client.go() == 1, "the agent does not export the volume")

    def run(self):
        try:
            while not self.is_over and self.history.violation is None:
                block = self.history.choose(self.dice)
                if block is not None:
                    self._read(block)
                time.sleep(LOOK_S)  # the machine is the load's
        except (OSError, Failure, struct.error) as failure:
            if not self.is_over:
                self.history.violation = f"{self.name} reads no more: {failure}"

    def _read(self, block):
        oldest = self.history.read_begins(block, self.name)
        self.client.command(0, block * BLOCK_BYTES, BLOCK_BYTES)
        magic, error, _ = struct.unpack(">IIQ", self.client.get(16))
        check(magic == REPLY_MAGIC and error == 0, f"block {block}: error {error}")
        self.history.read_ended(block, self.name, oldest, self.client.get(BLOCK_BYTES))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.client.s.shutdown(2)
        self.join()
        return False
