#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The judge of tests/rounds finds what it is there for, in journals and reads that are made up (libhistory.py)."""
import contextlib
import tempfile

from libcluster import Failure, check, main
from libhistory import ACKNOWLEDGED, MAGIC, RECORD, STAMP, History

ISSUED = 1
BLOCK = 7
WRITER, NEXT_WRITER = 0xA1, 0xB2
ZEROS = bytes(STAMP.size)


def stamp(sequence, writer=WRITER, block=BLOCK, magic=MAGIC):
    return STAMP.pack(magic, 1, block, writer, sequence)


class Journal:
    def __init__(self):
        self.file = tempfile.NamedTemporaryFile(buffering=0)
        self.history = History(self.file.name)

    def put(self, kind, sequence, writer=WRITER, count=1):
        self.file.write(RECORD.pack(kind, 1, count, 0, BLOCK, sequence, writer))

    def write(self, sequence, writer=WRITER, count=1):
        self.put(ISSUED, sequence, writer, count)
        self.put(ACKNOWLEDGED, sequence, writer, count)

    @contextlib.contextmanager
    def read(self, data, block=BLOCK):
        """What happens meanwhile is in the body."""
        oldest = self.history.read_begins(block, "a reader")
        yield
        self.history.read_ended(block, "a reader", oldest, data)

    def expect(self, data, is_good, block=BLOCK):
        with self.read(data, block):
            pass
        self.verdict(is_good)

    def verdict(self, is_good):
        check((self.history.violation is None) == is_good,
              f"is_good={is_good}, and found was: {self.history.violation}")
        if is_good:
            self.history.check()
            return
        try:
            self.history.check()
        except Failure:
            return
        raise Failure("a violation is no failure")


def what_was_acknowledged_last_is_read():
    journal = Journal()
    journal.expect(ZEROS, True)
    journal.write(1)
    journal.write(2)
    journal.expect(stamp(2), True)
    check(journal.history.read_count == 2, "it was not counted")


def a_read_beside_writes_may_return_each_of_them():
    for sequence in (1, 2, 3):
        journal = Journal()
        journal.write(1)
        journal.put(ISSUED, 2)
        with journal.read(stamp(sequence)):
            journal.put(ACKNOWLEDGED, 2)
            journal.put(ISSUED, 3)
        journal.verdict(True)


def a_stale_read_is_found():
    journal = Journal()
    journal.write(1)
    journal.write(2)
    journal.expect(stamp(1), False)


def a_read_older_than_what_another_one_saw_is_found():
    """Neither write is acknowledged: each of both reads could be, and not one after the other."""
    journal = Journal()
    journal.write(1)
    journal.put(ISSUED, 2)
    journal.expect(stamp(2), True)
    journal.expect(stamp(1), False)


def a_lost_block_is_found():
    journal = Journal()
    journal.write(1, count=2)
    journal.expect(ZEROS, False, block=BLOCK + 1)


def what_nobody_wrote_is_found():
    for data in (stamp(2), stamp(1, writer=NEXT_WRITER), stamp(1, block=BLOCK + 1), stamp(1, magic=b"somebody")):
        journal = Journal()
        journal.write(1)
        journal.expect(data, False)


def a_later_run_of_the_load_is_newer():
    journal = Journal()
    journal.write(9)
    journal.write(1, NEXT_WRITER)
    journal.expect(stamp(1, NEXT_WRITER), True)
    journal.expect(stamp(9), False)


def a_torn_record_is_read_when_it_is_whole():
    journal = Journal()
    record = RECORD.pack(ISSUED, 1, 1, 0, BLOCK, 1, WRITER)
    journal.file.write(record[:10])
    journal.expect(ZEROS, True)
    journal.file.write(record[10:])
    journal.expect(stamp(1), True)


def pauses_count_what_still_waits():
    journal = Journal()
    journal.history.read_begins(BLOCK, "a reader")
    journal.put(ISSUED, 1)
    journal.history.catch_up()
    longest_s, silent_s = journal.history.end()
    check(longest_s > 0 and silent_s > 0, f"{longest_s} s, {silent_s} s")
    journal.history.begin()
    check(journal.history.end()[0] >= longest_s, "what waits has begun anew")


main(what_was_acknowledged_last_is_read, a_read_beside_writes_may_return_each_of_them, a_stale_read_is_found,
     a_read_older_than_what_another_one_saw_is_found, a_lost_block_is_found, what_nobody_wrote_is_found,
     a_later_run_of_the_load_is_newer, a_torn_record_is_read_when_it_is_whole, pauses_count_what_still_waits)
