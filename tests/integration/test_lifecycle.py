#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starting, stopping, idling, restarting with a long log, and memory under overload."""
import os
import time

from libcluster import Cluster, binary, check, main, wait_for


def stops_on_sigterm():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        c.load("--volume", "v", "--operations", "2000", "--in-flight", "32")
        for daemon in [c.gateway, *c.nodes]:
            started = time.monotonic()
            check(daemon.stop() == 0, f"{daemon.name}: exit status after SIGTERM")
            print(f"  {daemon.name} stopped in {time.monotonic() - started:.2f} s")
            # A health that is not OK, and what was said before, may be of a machine that stands still.
            said = daemon.lines[daemon.lines.index(daemon.wait_line("stopping: SIGTERM")):]
            check(not any("ERROR" in line and "ERROR health:" not in line for line in said),
                  f"a clean stop logged an ERROR: {said}")


def sleeps(daemon):
    """In a second or more of the clock it has used the twentieth part of that at most."""
    ticks, began = daemon.cpu_ticks(), time.monotonic()
    while (left := began + 1 - time.monotonic()) > 0:
        with daemon.changed:
            daemon.changed.wait(left)  # what is looked at is a stretch of time
    return daemon.cpu_ticks() - ticks <= (time.monotonic() - began) * os.sysconf("SC_CLK_TCK") / 20


def idle_daemons_sleep():
    """I12: some time after a load each comes to use hardly any CPU time. A busy loop uses all that it gets, always."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        c.load("--volume", "v", "--operations", "1000")
        for daemon in (c.gateway, *c.nodes):
            wait_for(lambda d=daemon: sleeps(d), f"{daemon.name} is never idle")


def restarts_with_a_long_log():
    """1 GiB of log is replayed, with progress in the log; everything reads back."""
    size = os.environ.get("CLEAVE_TEST_LOG", "1G")
    with Cluster(nodes=3, disk_size="1800M", slot_size="16M", shards=2,
                 device_memory="128M") as c:
        c.volume_create("v", size, "--engine", "none")
        journal = os.path.join(c.folder, "journal")
        c.load("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--in-flight",
               "32", "--bytes", size, "--journal", journal, timeout_s=600)
        for d in [c.gateway, *c.nodes]:
            d.signal(9)
        for d in [c.gateway, *c.nodes]:
            d.wait_exit()
        started = time.monotonic()
        for d in [*c.nodes, c.gateway]:
            d.start()
        print(f"  ready {time.monotonic() - started:.1f} s after kill -9 of all")
        check(c.gateway.count_lines("replayed .* of .* MiB") > 0, "no progress in the log")
        c.load("--verify-journal", journal, "--volume", "v", timeout_s=600)


def is_sanitized():
    with open(binary("cleave-gateway"), "rb") as f:
        return b"__asan_init" in f.read()


HOT_BYTES = 64 << 20  # --hot-bytes, unless it is said


def memory_stays_bounded():
    """More load than the disks can take: resident memory is the budget, the hot table's, and 64 MiB at most."""
    if is_sanitized():
        print("  not judged: a sanitizer keeps what was freed")
        return
    # By count: a fast machine does the same as a slow one.
    operations = os.environ.get("CLEAVE_TEST_OVERLOAD_OPERATIONS", "300000")
    budget = 64 << 20
    with Cluster(nodes=3, disk_size="3G", slot_size="16M", device_memory="64M") as c:
        c.volume_create("v", "1G")
        c.load("--volume", "v", "--pattern", "random", "--in-flight", "1024", "--operations",
               operations, timeout_s=600)
        peak = c.gateway.rss_bytes()
        index = c.metric("index_bytes") + c.metric("run_index_bytes")
        budget += HOT_BYTES
        print(f"  gateway {peak >> 20} MiB, of which index {index >> 20} MiB")
        check(peak <= budget + (64 << 20) + index, f"gateway uses {peak >> 20} MiB")


def full_disk_is_enospc():
    """Writes are refused with a clear error, reads go on (fault 8)."""
    with Cluster(nodes=3, disk_size="64M", slot_size="1M") as c:
        c.volume_create("v", "1G", "--engine", "none")
        journal = os.path.join(c.folder, "journal")
        result = c.load("--volume", "v", "--pattern", "sequential", "--bytes", "256M",
                        "--in-flight", "32", "--journal", journal, check_rc=False)
        check(result.returncode == 1, f"exit {result.returncode}: {result.stdout}")
        check("space" in (result.stdout + result.stderr).lower(), "no word about space")
        c.load("--verify-journal", journal, "--volume", "v")


if __name__ == "__main__":
    main(stops_on_sigterm, idle_daemons_sleep, restarts_with_a_long_log, memory_stays_bounded,
         full_disk_is_enospc)
