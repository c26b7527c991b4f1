#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node on a file whose blocks are written does not write them once more before their first use."""
import sys
import tempfile

from libcluster import Cluster, check, main, run_argv

MIB = 1 << 20
KNOWN_FILE_SYSTEMS = ("ext2/ext3", "ext4", "xfs")


class Reserved(Cluster):
    """With three disks as `format` makes them, or with what @words say."""

    words = ()

    def format(self, index, extra=(), check_rc=True):
        return super().format(index, (*extra, *self.words), check_rc)


class Filled(Reserved):
    words = ("--fill",)


def written_bytes(daemon):
    with open(f"/proc/{daemon.pid}/io") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("write_bytes:"))


def write_and_count(c):
    """What a node wrote before there was data, and for six slots of it: too little to be flushed from the log."""
    for node in c.nodes:
        node.wait_idle()
    before = written_bytes(c.nodes[0])
    c.volume_create("v", "64M", "--engine", "none")
    c.load("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--in-flight", "8",
           "--bytes", str(6 * MIB), "--compressibility", "0", "--quiet")
    for node in c.nodes:
        node.wait_idle()
    return before, written_bytes(c.nodes[0]) - before


def only_reserved():
    with Reserved(disk_size="256M", slot_size="1M", shards=1) as c:
        before, _ = write_and_count(c)
        check(before >= MIB // 2, f"no slot was zeroed ahead: {before}")


def filled():
    with Filled(disk_size="256M", slot_size="1M", shards=1) as c:
        before, after = write_and_count(c)
        check(before < MIB // 4, f"{before} bytes were written before there was any data")
        check(6 * MIB <= after < 8 * MIB, f"{after} bytes for 6 MiB of data")
        # Nor does one that knows nothing of what the one before has done.
        c.nodes[0].stop()
        c.nodes[0].start()
        c.nodes[0].wait_idle()
        check(written_bytes(c.nodes[0]) < MIB // 4, f"{written_bytes(c.nodes[0])} after a start")


if __name__ == "__main__":
    kind = run_argv(["stat", "-f", "-c", "%T", tempfile.gettempdir()]).stdout.strip()
    if kind not in KNOWN_FILE_SYSTEMS:
        print(f"skipped: files are on {kind}, of which nodes believe nothing")
        sys.exit(77)
    main(only_reserved, filled)
