#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A volume is overwritten many times its size on small disks: flush, compaction and reclaim keep up,
whatever is killed meanwhile, and what is discarded comes back."""
import os
import time

from libcluster import WAIT_S, Cluster, check, main
from libload import Load

MIB = 1 << 20
SIZE = 256 * MIB


def slots_taken(c):
    import json

    nodes = json.loads(c.cleave("--json", "node", "list").stdout)
    nodes = nodes if isinstance(nodes, list) else nodes["nodes"]
    return [n["slots_total"] - n["slots_free"] for n in nodes if n["slots_total"]]


def small(**more):
    """Disks of some 240 slots of 1 MiB, logs as short as they may be."""
    return Cluster(nodes=3, disk_size="242M", slot_size="1M", shards=2,
                   gateway_args=["--log-bytes", "2M"], **more)


def overwrite(c, times, seed):
    return c.load("--volume", "v", "--pattern", "random", "--in-flight", "64", "--read-percent", "20",
                  "--compressibility", "70", "--bytes", str(times * SIZE), "--seed", str(seed),
                  "--quiet")


def overwritten_many_times_its_size():
    """Some 80 MiB of content, four times over, on disks three times that."""
    with small() as c:
        c.volume_create("v", "256M")
        overwrite(c, 4, 1)
        stored, taken = c.metric("stored_bytes"), slots_taken(c)
        check(stored > 240 * MIB, f"only {stored >> 20} MiB stored")
        check(c.metric("flushes") > 20, f"{c.metric('flushes')} flushes")
        check(c.metric("extents_reclaimed") > 100, f"{c.metric('extents_reclaimed')} reclaimed")
        check(max(taken) <= 220, f"slots taken: {taken}")


def overwritten_where_a_merge_has_no_room_for_all_it_makes():
    """24 MiB of content in one chunk, on disks of 60: old and new runs and the log would be more."""
    with Cluster(nodes=3, disk_size="60M", slot_size="1M", shards=1, device_memory="64M") as c:
        journal = os.path.join(c.folder, "journal")
        c.volume_create("v", "48M")
        common = ["--volume", "v", "--in-flight", "64", "--compressibility", "50", "--quiet"]
        c.load(*common, "--pattern", "sequential", "--block-size", "64K", "--bytes",
               str(48 * MIB), "--journal", journal)
        for seed in range(2, 6):
            c.load(*common, "--pattern", "random", "--bytes", str(48 * MIB), "--seed", str(seed),
                   "--journal", journal)
        check(c.metric("merge_stages") > 0, "merges were not done in stages")
        c.load("--volume", "v", "--verify-journal", journal)


def gateway_killed_in_the_middle():
    with small() as c:
        with Load(c, "--compressibility", "70", size="256M", in_flight=64) as load:
            for _ in range(3):
                load.wait_writes(15000)
                c.gateway.kill()
                c.gateway.start()
        check(max(slots_taken(c)) <= 235, f"slots taken: {slots_taken(c)}")


def node_killed_in_the_middle():
    with small() as c:
        with Load(c, "--compressibility", "70", size="256M", in_flight=64) as load:
            for i in range(2):
                load.wait_writes(15000)
                c.nodes[i].kill()
                c.nodes[i].start()


def a_restart_reads_little():
    """Most of what was written is in runs, and is not replayed."""
    with small() as c:
        c.volume_create("v", "256M")
        overwrite(c, 2, 1)
        c.gateway.kill()
        c.gateway.start()
        records = sum(int(word.split("=")[1]) for line in c.gateway.lines[c.gateway.first_line:]
                      if ": serving " in line for word in line.split()
                      if word.startswith("records="))
        check(0 < records < 2 * SIZE // 4096 // 4, f"{records} records replayed")


def space_comes_back_after_a_discard():
    with small() as c:
        c.volume_create("v", "256M")
        c.load("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--bytes",
               str(SIZE), "--quiet", "--compressibility", "70")
        before = max(slots_taken(c))
        check(before > 30, f"{before} slots")
        c.load("--volume", "v", "--pattern", "sequential", "--discard-percent", "100",
               "--block-size", "1M", "--bytes", str(SIZE), "--quiet")
        deadline = time.monotonic() + WAIT_S
        while max(slots_taken(c)) > before // 2:
            check(time.monotonic() < deadline, f"{slots_taken(c)} slots are still taken of {before}")


if __name__ == "__main__":
    os.environ.setdefault("CLEAVE_TEST_WAIT_S", "240")
    main(overwritten_many_times_its_size,
         overwritten_where_a_merge_has_no_room_for_all_it_makes,
         gateway_killed_in_the_middle, node_killed_in_the_middle, a_restart_reads_little,
         space_comes_back_after_a_discard)
