#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The metadata store's disk stalls for half a minute (fault 39): I/O goes on, and no lease is lost.

A frozen file system is a disk that finishes nothing: whoever writes to it or syncs it hangs until it is
thawed. Needs root, a loop device and ext4.
"""
import os
import shutil
import subprocess
import time

from libcluster import Cluster, binary, check, main, skip
from libload import Load


class MetaDisk:
    """A file system of its own under the cluster's metadata directory."""

    def __init__(self, c):
        self.image = os.path.join(c.folder, "meta.img")
        self.path = os.path.join(c.folder, "meta")
        self.is_frozen = False

    def _run(self, *argv, why):
        result = subprocess.run(argv, capture_output=True, text=True)
        if result.returncode != 0:
            skip(f"{why}: {result.stderr.strip()}")

    def __enter__(self):
        if os.geteuid() != 0:
            skip("mounting a file system needs root")
        os.mkdir(self.path, 0o700)
        with open(self.image, "wb") as f:
            f.truncate(64 << 20)
        self._run("mkfs.ext4", "-q", "-F", self.image, why="no ext4 can be made")
        self._run("mount", "-o", "loop", self.image, self.path, why="no loop device can be mounted")
        return self

    def freeze(self):
        self._run("fsfreeze", "--freeze", self.path, why="the file system cannot be frozen")
        self.is_frozen = True

    def thaw(self):
        if self.is_frozen:
            subprocess.run(["fsfreeze", "--unfreeze", self.path], check=True)
        self.is_frozen = False

    def __exit__(self, kind, value, trace):
        self.thaw()
        subprocess.run(["umount", self.path], check=True)
        shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)


def shards(c):
    return sorted((s["shard"], s["epoch"]) for s in c.status()["shards"])


def stall_for(seconds, disk, c, load):
    """So many seconds of writes, beside a commit that hangs with the store's lock."""
    disk.freeze()
    try:
        change = subprocess.Popen([binary("cleave"), *c.gateway_words(), "volume", "create", "w",
                                   "--size", "64M"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            load.wait_writes(200)
    finally:
        disk.thaw()
    change.wait()


def stall(gateways, seconds):
    c = Cluster(nodes=3, gateways=gateways, shards=4, slot_size="16M", disk_size="1G")
    with MetaDisk(c) as disk, c, Load(c) as load:
        load.wait_writes(2000)
        before = shards(c)
        stall_for(seconds, disk, c, load)
        load.wait_writes(2000)
        check(shards(c) == before, f"shards changed:\n{before}\n{shards(c)}")
        for gateway in c.gateways:
            check(gateway.count_lines("lost its lease") == 0, f"{gateway.name} lost its lease")
            check(gateway.count_lines("no lease yet") == 0, f"{gateway.name} had no lease")


def one_gateway_keeps_its_lease():
    stall(1, 10)  # three leases


def two_gateways_keep_their_leases():
    stall(2, 30)


if __name__ == "__main__":
    main(one_gateway_keeps_its_lease, two_gateways_keep_their_leases)
