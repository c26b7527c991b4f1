#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A flipped byte on one replica is detected and another replica answers (faults 9, 10, 11)."""
import os

from libcluster import Cluster, check, main


def find_payloads(path, needles):
    """The file offset of each of the @needles, of 64 bytes at most, -1 if it is not there: the file is read once."""
    found, overlap, piece = {}, 64, bytearray((1 << 20) + 64)
    with open(path, "rb", buffering=0) as f:
        base = kept = 0
        while count := f.readinto(memoryview(piece)[kept:]):
            end = kept + count
            if piece.count(0, 0, end) < end:  # most of a disk is zeros
                for needle in needles:
                    at = -1 if needle in found else piece.find(needle, 0, end)
                    if at >= 0:
                        found[needle] = base + at
            kept = min(overlap, end)
            base += end - kept
            piece[:kept] = piece[end - kept:end]
    return [found.get(needle, -1) for needle in needles]


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
        for i in range(3):
            blocks = range(i * 16, 256, 48)
            for block, at in zip(blocks, find_payloads(c.disk(i), [data[b * 4096:b * 4096 + 64] for b in blocks])):
                check(at >= 0, f"block {block} is not on disk {i + 1}")
                flip(c.disk(i), at + 1000)
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
            at = find_payloads(c.disk(i), [data[40960:41024]])[0]
            check(at >= 0, f"block 10 is not on disk {i + 1}")
            flip(c.disk(i), at + 7)
        restart_gateway(c)
        result = c.load("--volume", "v", "--file-verify", path, check_rc=False)
        check(result.returncode == 1, "a block that is bad on all replicas was read")
        check(c.metric("unreadable_blocks") > 0, "the unreadable block was not counted")
        c.load("--volume", "v", "--file-copy", path)


if __name__ == "__main__":
    main(one_copy_flipped, all_copies_flipped)
