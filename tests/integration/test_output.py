#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where what is printed cannot be written, a program says so, once, and its exit status does."""
import os
import subprocess

from libcluster import CLUSTER_ID, WAIT_S, Cluster, binary, check, expect_error, main

LOST = "standard output: No space left on device\n"


def lost(argv, code=1):
    """It ends, with one line, where its output is a full disk."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True, timeout=WAIT_S)
    said = [line for line in done.stderr.splitlines(True) if "standard output" in line]
    check(done.returncode == code, f"{argv}: exit {done.returncode}: {done.stderr}")
    check(len(said) == 1 and said[0].endswith(LOST), f"{argv}: {done.stderr}")


def a_full_disk_is_told():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "8M")
        for words in (("volume", "list"), ("events",), ("events", "--follow"), ("top", "--once"), ("top", "--interval", "100ms"),
                      ("--json", "top", "--interval", "100ms"), ("help",)):
            lost([binary("cleave"), *c.gateway_words(), *words])
        lost([binary("cleave"), *c.gateway_words(), "--json", "status"], code=2)
        lost(c.load_argv("--volume", "v", "--operations", "10"))
        lost(c.load_argv("--help"))
        expect_error(c.load("--volume", "v", "--operations", "10", "--json", "/dev/full", check_rc=False),
                     "/dev/full: No space left on device", codes=(1,))
        lost([binary("cleave-storage"), "format", "--disk", os.path.join(c.folder, "disk9"), "--size", "1G",
              "--cluster-id", CLUSTER_ID, "--node-id", "9"])
        for name in ("cleave-storage", "cleave-gateway", "cleave-agent"):
            lost([binary(name), "--version"])


def what_has_no_end_is_no_journal():
    """Nor is what stands still: a pipe."""
    with Cluster(nodes=3) as c:
        pipe = os.path.join(c.folder, "pipe")
        c.volume_create("v", "8M")
        os.mkfifo(pipe)
        for path in ("/dev/full", pipe):
            for option in ("--journal", "--verify-journal"):
                words = ("--operations", "10") if option == "--journal" else ()
                done = subprocess.run(c.load_argv("--volume", "v", *words, option, path), stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=WAIT_S)
                check(done.returncode == 1 and "no journal" in done.stderr, f"{option} {path}: {done}")


if __name__ == "__main__":
    main(a_full_disk_is_told, what_has_no_end_is_no_journal)
