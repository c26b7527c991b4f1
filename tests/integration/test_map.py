#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a volume holds: cleave volume map and show, over one gateway and over two."""
import json
import signal

from libcluster import Cluster, check, expect_error, main, wait_for

MIB = 1 << 20


def extents(c, *words):
    reply = json.loads(c.cleave("--json", "volume", "map", *words).stdout)
    at = 0
    for extent in reply["extents"]:
        check(extent["offset_bytes"] == at, f"a gap or an overlap at {at}")
        at += extent["length_bytes"]
    check(at == reply["size_bytes"], f"the map ends at {at}")
    return [(e["length_bytes"], e["kind"]) for e in reply["extents"]]


def usage(c, name):
    """As every shard tells: one whose port has much to do is left out now and then."""
    found = {}

    def is_whole():
        found.update(json.loads(c.cleave("--json", "volume", "show", name).stdout)["usage"])
        return found["shard_count"] == found["shard_total"]

    wait_for(is_whole, "a shard never answers")
    return found


def maps_and_figures():
    with Cluster(nodes=3, shards=4, gateways=2) as c:
        c.volume_create("v", "200M", "--engine", "none")
        check(extents(c, "v") == [(200 * MIB, "hole")], "a new volume is one hole")
        check(usage(c, "v")["layer_bytes"] == 0, "nothing is stored yet")
        c.load("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--bytes",
               "100M", "--in-flight", "16")
        check(extents(c, "v") == [(100 * MIB, "data"), (100 * MIB, "hole")],
              "what was written, then a hole")
        figures = usage(c, "v")
        check(figures["shard_total"] == 4, f"{figures}")
        check(figures["chunk_count"] == 2, "two chunks of 64 MiB")
        stored = figures["layer_bytes"] + figures["run_bytes"]
        # A flush compresses, whatever the volume's engine.
        check(10 * MIB <= stored < 102 * MIB, f"stored {stored}")
        shown = c.cleave("volume", "show", "v").stdout
        for word in ("stored", "ratio", "runs per chunk", "garbage"):
            check(word in shown, f"{word} is not shown")
        table = c.cleave("volume", "map", "v").stdout
        check(table.split() == ["OFFSET", "LENGTH", "KIND", "0", str(100 * MIB), "data", "100",
                                "MiB", str(100 * MIB), str(100 * MIB), "hole", "100", "MiB"],
              f"the table: {table}")
        expect_error(c.cleave("volume", "map", "w", check_rc=False), "'w'")


def figures_of_shards_that_nobody_serves_are_missing():
    with Cluster(nodes=3, shards=2, gateway_args=["--lease-ms", "60000"], gateways=2) as c:
        c.volume_create("v", "8M")
        # A gateway that stops while it takes a shard over stops with the metadata store's lock.
        c.gateways[1].wait_line(r"shard \d+: serving")
        # Not killed: who is dead is taken over at once.
        c.gateways[1].signal(signal.SIGSTOP)
        try:
            shown = c.cleave("volume", "show", "v").stdout
        finally:
            c.gateways[1].signal(signal.SIGCONT)
        check("1 of 2 answer" in shown, f"half of the shards: {shown}")


def snapshots_and_clones_have_maps_of_their_own():
    with Cluster(nodes=3, shards=4, gateways=2, gateway_args=["--log-bytes", "8M"]) as c:
        c.volume_create("v", "128M")
        sequential = ["--pattern", "sequential", "--block-size", "64K", "--in-flight", "16"]
        c.load("--volume", "v", "--bytes", "20M", *sequential)
        c.cleave("snapshot", "create", "v@s")
        c.load("--volume", "v", "--bytes", "40M", *sequential)
        before = [(20 * MIB, "data"), (108 * MIB, "hole")]
        check(extents(c, "v@s") == before, "the snapshot is as the volume was")
        check(extents(c, "v") == [(40 * MIB, "data"), (88 * MIB, "hole")], "the volume goes on")
        c.cleave("clone", "v@s", "c")
        check(extents(c, "c") == before, "a clone begins as its snapshot")
        check(usage(c, "c")["chunk_count"] == 0, "and shares its space")


main(snapshots_and_clones_have_maps_of_their_own, maps_and_figures,
     figures_of_shards_that_nobody_serves_are_missing)
