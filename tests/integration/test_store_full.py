#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The file system of a metadata store in a directory is full: the cluster says so, and goes on when there is room."""
import contextlib
import os
import shutil
import subprocess

from libcluster import Cluster, check, expect_error, main, skip, wait_for

VOLUMES = 200  # more than a full file system takes


@contextlib.contextmanager
def small(folder):
    """A file system of 4 MiB at that folder."""
    os.makedirs(folder)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4M", "none", folder], capture_output=True, text=True)
    if done.returncode != 0:
        os.rmdir(folder)
        skip(f"no file system of its own can be mounted: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(path):
    """All that is left of it."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        with contextlib.suppress(OSError):
            while True:
                os.write(fd, b"x" * 4096)
    finally:
        os.close(fd)


def reasons(c):
    return {code: text for code, _, text in c.health()[1]}


def it_is_told_and_mended_by_room():
    c = Cluster(nodes=3)
    try:
        with small(c.meta), c:
            c.volume_create("v", "64M")
            journal = os.path.join(c.folder, "journal")
            c.load("--volume", "v", "--operations", "500", "--journal", journal)
            fill(f"{c.meta}/fill")
            refused = next((r for r in (c.cleave("volume", "create", f"w{i}", "--size", "1M", check_rc=False)
                                        for i in range(VOLUMES)) if r.returncode != 0), None)
            check(refused is not None, "whatever is made, the store has room")
            expect_error(refused, "the metadata store takes no changes: no space left", codes=(1,))
            wait_for(lambda: "file system is full" in reasons(c).get("store-fails", ""), f"it is not told: {c.health()}")
            # What fits into pages that it has is taken all the while: it is full still.
            taken = 0
            for i in range(VOLUMES):
                for words in (("set", f"w{i}", "--iops", "100"), ("delete", f"w{i}", "--purge")):
                    done = c.cleave("volume", *words, check_rc=False)
                    check("its disk fails" not in done.stderr, done.stderr)
                    taken += done.returncode == 0
                if taken > 0 or "no such volume" in done.stderr:
                    break
            check("file system is full" in reasons(c).get("store-fails", ""), f"it is told no more, {taken}: {c.health()}")
            os.unlink(f"{c.meta}/fill")
            wait_for(lambda: "store-fails" not in reasons(c), "it is told still")
            c.volume_create("again", "1M")
            wait_for(lambda: c.health()[0] == "OK", f"{c.health()}")
            c.load("--verify-journal", journal, "--volume", "v")
    finally:
        shutil.rmtree(c.folder, ignore_errors=True)


if __name__ == "__main__":
    main(it_is_told_and_mended_by_room)
