#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a node believes of the file system beneath its file: that blocks are written, that writes are direct."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile

from libcluster import CLUSTER_ID, Cluster, Daemon, binary, check, main, run, run_argv, wait_for

MIB = 1 << 20
KNOWN_FILE_SYSTEMS = ("ext2/ext3", "ext4", "xfs")
TRIES = 5


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
        # A node that gets no processor is idle, too.
        wait_for(lambda: written_bytes(c.nodes[0]) >= MIB // 2, "no slot is zeroed ahead")


def check_filled(c, after):
    check(6 * MIB <= after < 8 * MIB, f"{after} bytes for 6 MiB of data")
    # Nor does one that knows nothing of what the one before has done.
    c.nodes[0].stop()
    c.nodes[0].start()
    c.nodes[0].wait_idle()
    check(written_bytes(c.nodes[0]) < MIB // 4, f"{written_bytes(c.nodes[0])} after a start")


def filled():
    """A disk that stalls is left out, and its copies are made anew: what that writes is not what is counted here."""
    for _ in range(TRIES):
        with Filled(disk_size="256M", slot_size="1M", shards=1) as c:
            before, after = write_and_count(c)
            check(before < MIB // 4, f"{before} bytes were written before there was any data")
            if c.gateway.count_lines("a replica has failed") == 0:
                check_filled(c, after)
                return
    print("not shown: a node was left out each time, for its disk stalls")


def is_overlay_mounted(folder):
    """On @folder/on, and only for this process and its children."""
    new_namespace = 0x00020000  # CLONE_NEWNS
    if ctypes.CDLL(None).unshare(new_namespace) != 0:
        return False
    for name in ("lower", "upper", "work", "on"):
        os.mkdir(os.path.join(folder, name))
    options = ",".join(f"{key}dir={folder}/{key}" for key in ("lower", "upper", "work"))
    return subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True).returncode == 0 and \
        subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", f"{folder}/on"],
                       capture_output=True).returncode == 0


def protected_start(disk):
    """What a node says that is started on a new file @disk with a protected write cache."""
    run("cleave-storage", "format", "--disk", disk, "--size", "64M", "--slot-size", "1M", "--cluster-id",
        CLUSTER_ID, "--node-id", "1")
    node = Daemon("node", [binary("cleave-storage"), "--disk", disk, "--listen", "tcp://127.0.0.1:0",
                           "--write-cache", "protected"])
    node.start().wait_ready()
    node.stop()
    return [line for line in node.lines if "page cache" in line]


def protected():
    folder = tempfile.mkdtemp(prefix="cleave-test-")
    try:
        lines = protected_start(os.path.join(folder, "disk"))
        is_told = tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 1)
        check(bool(lines) != is_told, f"of a known file system: {lines}")
        if not is_overlay_mounted(folder):
            print("not shown: an overlay cannot be mounted here")
            return
        lines = protected_start(os.path.join(folder, "on", "disk"))
        check(len(lines) == 1 and "disk=" in lines[0], f"a file on an overlay is believed: {lines}")
    finally:
        subprocess.run(["umount", f"{folder}/on"], capture_output=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    kind = run_argv(["stat", "-f", "-c", "%T", tempfile.gettempdir()]).stdout.strip()
    if kind not in KNOWN_FILE_SYSTEMS:
        print(f"skipped: files are on {kind}, of which nodes believe nothing")
        sys.exit(77)
    main(only_reserved, filled, protected)
