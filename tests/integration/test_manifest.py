#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A manifest that is longer than a slot: nothing stops for it, and a start reads it back.

How long it may get, and what is pressed back then: bench_manifest, tests/unit/test_flush.c, the simulator."""
import json
import os
import time

from libcluster import Cluster, check, main

RUNS_OF_A_SLOT = 1100  # 64 KiB of edits of 52 bytes, in batches


def kill_all_and_start(c):
    for d in [c.gateway, *c.nodes]:
        d.signal(9)
    for d in [c.gateway, *c.nodes]:
        d.wait_exit()
    for d in [*c.nodes, c.gateway]:
        d.start()
        d.wait_ready()


def expect_not_stopped(c):
    check(c.gateway.count_lines(r"stopped: ") == 0, "a shard has stopped")


def wait_runs(c):
    """A port that has much to do leaves its shards out of an answer now and then."""
    end = time.monotonic() + 120
    while (runs := c.metric("runs")) < RUNS_OF_A_SLOT:
        check(time.monotonic() < end, f"{runs} runs")
        expect_not_stopped(c)
    return runs


def scattered_writes_fill_more_than_a_slot():
    """One block in each of some 1,900 chunks of one shard, each flushed to a run of its own."""
    with Cluster(nodes=3, shards=1, disk_size="512M", slot_size="64K",
                 gateway_args=["--log-bytes", "1M"]) as c:
        c.volume_create("v", "128G")
        journal = os.path.join(c.folder, "journal")
        c.load("--volume", "v", "--pattern", "random", "--block-size", "4K", "--in-flight", "32",
               "--operations", "5000", "--journal", journal, timeout_s=300)
        print(f"  {wait_runs(c)} runs")
        c.load("--verify-journal", journal, "--volume", "v", timeout_s=300)
        kill_all_and_start(c)
        expect_not_stopped(c)
        wait_runs(c)
        c.load("--verify-journal", journal, "--volume", "v", timeout_s=300)


def more_snapshots_than_a_slot_holds():
    with Cluster(nodes=3, shards=1, disk_size="512M", slot_size="64K") as c:
        c.volume_create("v", "64M")
        for i in range(320):
            c.cleave("snapshot", "create", f"v@s{i}")
        expect_not_stopped(c)
        kill_all_and_start(c)
        expect_not_stopped(c)
        names = json.loads(c.cleave("--json", "snapshot", "list").stdout)["snapshots"]
        check(len(names) == 320, f"{len(names)} snapshots")
        c.cleave("snapshot", "delete", "v@s7")
        c.cleave("snapshot", "create", "v@more")


main(scattered_writes_fill_more_than_a_slot, more_snapshots_than_a_slot_holds)
