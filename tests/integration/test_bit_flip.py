#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A flipped byte on one replica is detected and another replica answers (faults 9, 10, 11)."""
import os

from libcluster import Cluster, check, main


def find_payload(path, needle):
    """The file offset of @needle, read in pieces."""
    with open(path, "rb") as f:
        base, tail = 0, b""
        while True:
            piece = f.read(1 << 20)
            if not piece:
                return -1
            at = (tail + piece).find(needle)
            if at >= 0:
                return base - len(tail) + at
            tail = (tail + piece)[-len(needle):]
            base += len(piece)


def flip(path, offset):
    with open(path, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)
        f.seek(offset)
        f.write(bytes([byte[0] ^ 0x40]))


def write_pattern(c):
    """One file of incompressible, recognisable blocks, copied to the volume; returns its bytes."""
    data = b"".join(os.urandom(4096) for _ in range(256))
    path = os.path.join(c.folder, "data")
    with open(path, "wb") as f:
        f.write(data)
    c.load("--volume", "v", "--file-copy", path)
    return path, data


def restart_gateway(c):
    """So that nothing is served from the gateway's memory."""
    check(c.gateway.stop() == 0, "the gateway's exit status")
    c.gateway.start()


def one_copy_flipped():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        path, data = write_pattern(c)
        for block in range(0, 256, 16):
            disk = c.disk(block // 16 % 3)
            at = find_payload(disk, data[block * 4096:block * 4096 + 64])
            check(at >= 0, f"block {block} is not on {disk}")
            flip(disk, at + 1000)
        restart_gateway(c)
        # Reads rotate over replicas: read often enough to meet each flipped copy.
        for _ in range(6):
            c.load("--volume", "v", "--file-verify", path)
        check(c.metric("replica_read_errors") > 0, "no bad replica was counted")
        check(c.metric("repairs_queued") > 0, "no repair was queued")
        check(c.gateway.count_lines(r"WARN read: .*node=") > 0, "no WARN line names the node")
        check(c.metric("unreadable_blocks") == 0, "a block was unreadable")


def all_copies_flipped():
    """EIO for that block alone; an overwrite heals it."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        path, data = write_pattern(c)
        for i in range(3):
            at = find_payload(c.disk(i), data[40960:41024])
            check(at >= 0, f"block 10 is not on disk {i + 1}")
            flip(c.disk(i), at + 7)
        restart_gateway(c)
        result = c.load("--volume", "v", "--file-verify", path, check_rc=False)
        check(result.returncode == 1, "a block that is bad on all replicas was read")
        check(c.metric("unreadable_blocks") > 0, "the unreadable block was not counted")
        c.load("--volume", "v", "--file-copy", path)


if __name__ == "__main__":
    main(one_copy_flipped, all_copies_flipped)
