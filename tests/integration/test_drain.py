#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes are drained under a verified load, and removed: nothing is lost, and a drain that waits says for what."""
import json
import os
import re
import time

from libcluster import Cluster, check, expect_error, main, wait_for
from libload import Load
from libnodes import Drain, new_node, nodes_of, take_out, wait_imported, write_first

REPAIR_RATE_MIB = 8
LOAD_WORDS = ["--rate", "400"]  # fewer writes in flight than make a copy give way to clients


def write_p99_us(c, name):
    """Of two seconds of writes, few at a time."""
    path = os.path.join(c.folder, f"report-{name}")
    c.volume_create(name, "64M")
    c.load("--volume", name, "--rate", "400", "--in-flight", "4", "--seconds", "2", "--json", path)
    with open(path) as f:
        return json.load(f)["write_latency_us_p99"]


def replaced_under_load_with_one_killed():
    """Three nodes give way to three others; one of the new ones is killed while copies come."""
    with Cluster(disk_size="256M", slot_size="1M", gateway_args=[
            "--repair-rate", f"{REPAIR_RATE_MIB}M", "--repair-after", "1h"]) as c:
        wait_imported(c)
        journal = write_first(c, "first", 16)
        with Load(c, *LOAD_WORDS, size="64M", in_flight=8) as load:
            load.wait_writes(300)
            for i in range(4, 7):
                _, address = new_node(c, f"disk{i}", i)
                c.cleave("node", "add", address, "--domain", f"rack{i}")
            before_us = write_p99_us(c, "before")
            drain = Drain(c, 1)
            wait_for(lambda: c.metric("copied_bytes") > 0, "nothing is copied")
            copied, started = c.metric("copied_bytes"), time.monotonic()
            during_us = write_p99_us(c, "during")
            copied, seconds = c.metric("copied_bytes") - copied, time.monotonic() - started
            is_whole = drain.process.poll() is None
            drain.wait()
            print(f"moved {copied / seconds / 1e6:.1f} MB/s, "
                  f"{copied / seconds / (REPAIR_RATE_MIB << 20):.2f} of --repair-rate"
                  f"{'' if is_whole else ' (it ended meanwhile)'}; write p99 {before_us:.0f} us, "
                  f"while it drains {during_us:.0f} us: {during_us / before_us:.2f}")
            take_out(c, 1)
            drains = [Drain(c, i) for i in (2, 3)]
            moved = c.metric("copies_made")
            wait_for(lambda: c.metric("copies_made") > moved, "no copy is made")
            c.nodes[4].kill()
            load.wait_writes(300)
            c.nodes[4].start()
            for drain in drains:
                drain.wait()
            load.wait_writes(300)
            for node_id in (2, 3):
                take_out(c, node_id)
            load.wait_writes(300)
        check(sorted(nodes_of(c)) == [4, 5, 6], f"the nodes are {sorted(nodes_of(c))}")
        c.load("--verify-journal", journal, "--volume", "first")
        wait_for(lambda: sum(s["extents_lacking"] for s in c.status()["shards"]) == 0,
                 "extents lack copies")


def a_drain_goes_past_a_node_of_small_slots():
    """Extents longer than the slots of a new, empty node go to another, at the first try; new data goes to both."""
    with Cluster(disk_size="256M", slot_size="1M") as c:
        wait_imported(c)
        journal = write_first(c, "first", 24)
        for i, slot_size in ((4, "64K"), (5, "1M")):
            _, address = new_node(c, f"disk{i}", i, slot_size=slot_size)
            c.cleave("node", "add", address, "--domain", f"rack{i}")
        wait_for(lambda: all(nodes_of(c)[i]["state"] == "up" for i in (4, 5)),
                 "the new nodes do not come up")
        Drain(c, 1).wait()
        take_out(c, 1)
        check(c.metric("copies_failed") == 0, "a copy was sent to where it does not fit")
        c.load("--verify-journal", journal, "--volume", "first")


def a_drain_says_what_it_waits_for():
    """The nodes that could take the copies are full, or down: that is said, and the drain goes on when one is back."""
    with Cluster(disk_size="256M", slot_size="1M") as c:
        wait_imported(c)
        journal = write_first(c, "first", 24)
        _, address = new_node(c, "disk4", 4, disk_size="12M")
        c.cleave("node", "add", address, "--domain", "rack4")
        expect_error(c.cleave("node", "drain", "3", check_rc=False),
                     "node 3 is not drained: it holds .* of room", "--force")
        daemon, address = new_node(c, "disk5", 5)
        c.cleave("node", "add", address, "--domain", "rack5")
        wait_for(lambda: nodes_of(c)[5]["state"] == "up", "node 5 does not come up")
        daemon.kill()
        wait_for(lambda: nodes_of(c)[5]["state"] != "up", "node 5 is up still")
        drain = Drain(c, 3)
        drain.wait_text(r"cannot move: no other domain has room \(node 4 is full, node 5 is down;")
        # What node 4 has no room for is tried again from time to time: then the list says what is under way.
        wait_for(lambda: re.search(r"node 3: \d+ copies left.*node 5 is down", c.cleave("node", "list").stdout, re.DOTALL),
                 "node list does not say what the drain waits for")
        expect_error(c.cleave("node", "remove", "3", check_rc=False), "is not empty")
        daemon.start()
        drain.wait()
        take_out(c, 3)
        with Load(c, *LOAD_WORDS, size="64M", in_flight=8) as load:
            load.wait_writes(300)
        c.load("--verify-journal", journal, "--volume", "first")


if __name__ == "__main__":
    main(replaced_under_load_with_one_killed, a_drain_goes_past_a_node_of_small_slots,
         a_drain_says_what_it_waits_for)
