#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ext4 and XFS on a volume: stress-ng verifies what it wrote, fsck finds nothing."""
import hashlib
import os
import shutil

from libdisk import Agent, Cluster, Disk, Mount, check, main, need_disks, run_argv

need_disks("mkfs.ext4", "mkfs.xfs", "fsck.ext4", "xfs_repair", "stress-ng", "fstrim")

SOURCE = os.environ.get("CLEAVE_SOURCE_DIR") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDERS = ("include", "splitlib", "engines", "storage-node", "middletier", "vm-client", "tests")

# Counts, not times: the same work on every machine.
STRESSORS = (
    ("--hdd", 6000, "--hdd-bytes", "24m", "--hdd-write-size", "64k", "--hdd-opts",
     "wr-rnd,rd-rnd,fsync"),
    ("--iomix", 3000, "--iomix-bytes", "16m"),
    ("--copy-file", 100, "--copy-file-bytes", "128m"),
    ("--fallocate", 20, "--fallocate-bytes", "32m"),
    ("--sync-file", 20, "--sync-file-bytes", "16m"),
    ("--aio", 5000),
    ("--mmap", 1, "--mmap-bytes", "16m", "--mmap-file"),
    ("--revio", 2000, "--revio-bytes", "16m"),
    ("--filename", 500),
    ("--dir", 2000),
    ("--rename", 4000),
    ("--link", 2),
    ("--seek", 4000, "--seek-size", "32m"),
)


def stress(path):
    for name, operations, *words in STRESSORS:
        result = run_argv(["stress-ng", name, "2", f"{name}-ops", str(operations), *words,
                           "--verify", "--temp-path", path, "--timeout", "60s"],
                          check_rc=False, timeout_s=100)
        text = result.stdout + result.stderr
        # 3: some resource is missing; 4: not implemented here.
        check(result.returncode in (0, 3, 4) and "fail" not in text.lower(),
              f"stress-ng {name}: exit {result.returncode}\n{text}")


def digests(root, folder):
    """Of every file below: what is read, not what the directory says of it."""
    found = {}
    for path, _, names in os.walk(os.path.join(root, folder)):
        for name in names:
            with open(os.path.join(path, name), "rb") as f:
                found[os.path.relpath(os.path.join(path, name), root)] = \
                    hashlib.sha256(f.read()).hexdigest()
    return found


def exercise(make, check_clean):
    with Cluster(nodes=3, disk_size="6G", slot_size="16M") as c:
        copied = {}
        c.volume_create("v", "1G")
        with Agent(c) as agent:
            with Disk(agent, "v") as disk:
                run_argv([*make, disk.device])
                with Mount(disk.device) as fs:
                    for folder in FOLDERS:
                        shutil.copytree(os.path.join(SOURCE, folder), os.path.join(fs.path, folder),
                                        ignore=shutil.ignore_patterns("__pycache__"))
                        copied[folder] = digests(fs.path, folder)
                    stress(fs.path)
                    run_argv(["fstrim", fs.path])
                run_argv([*check_clean, disk.device])
            # Nothing is left of it in this machine's caches: all comes from the cluster now.
            with Disk(agent, "v") as disk:
                run_argv([*check_clean, disk.device])
                with Mount(disk.device) as fs:
                    for folder in FOLDERS:
                        check(digests(fs.path, folder) == copied[folder],
                              f"{folder} is not what was copied")


def ext4():
    exercise(["mkfs.ext4", "-q", "-F"], ["fsck.ext4", "-f", "-n"])


def xfs():
    exercise(["mkfs.xfs", "-q", "-f"], ["xfs_repair", "-n"])


if __name__ == "__main__":
    main(ext4, xfs)
