#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node that stops, is stopped for a while, or dies beside load costs a pause, not an error (fault 12)."""
import json
import signal
import time

from libcluster import WAIT_S, Cluster, check, main
from libload import Load
from libnodes import new_node, nodes_of, wait_imported

# Longer than a load waits for its next writes: one that waited for a node's time-out would fail.
ARGS = ("--min-replicas", "2", "--repair-after", "2s", "--node-timeout", f"{int(2 * WAIT_S)}s")


def wait_for(what, text):
    until = time.monotonic() + WAIT_S
    while not what():
        check(time.monotonic() < until, text)


def healed(c):
    status = c.status()
    shards = status["shards"]
    return all(s["state"] == "serving" and s["extents_lacking"] == 0 for s in shards)


def runs_of(c, volume):
    """Bytes of a volume that have left the log."""
    return json.loads(c.cleave("--json", "volume", "show", volume).stdout)["usage"]["run_bytes"]


def stopped_node_is_left_out():
    with Cluster(nodes=4, gateway_args=ARGS) as c:
        with Load(c) as load:
            load.wait_writes(500)
            c.nodes[2].signal(signal.SIGSTOP)
            print(f"  500 writes after the stop took {load.wait_writes(500):.2f} s")
            # Perhaps nothing that was open was there: then it is noticed with what comes next.
            wait_for(lambda: c.metric("nodes_slow") >= 1, "the node was not left out as slow")
            wait_for(lambda: any(obj == "node 3" and code in ("node-down", "node-slow")
                                 for code, obj, _ in c.health()[1]), "its health does not say so")
            load.wait_writes(500)
            c.nodes[2].signal(signal.SIGCONT)
            load.wait_writes(500)
        wait_for(lambda: healed(c), "copies are lacking still")


def node_that_stops_as_extents_begin_is_left_out():
    """A node that has just joined, and so has no copy of anything, is first for each new extent: it answers none."""
    with Cluster(nodes=3, shards=1, slot_size="1M", gateway_args=ARGS) as c:
        wait_imported(c)
        daemon, address = new_node(c, "disk4", 4)
        c.cleave("node", "add", address)
        wait_for(lambda: nodes_of(c)[4]["state"] == "up", "the new node is not reached")
        daemon.signal(signal.SIGSTOP)
        with Load(c, "--block-size", "64K", "--compressibility", "0") as load:
            load.wait_writes(500)
            wait_for(lambda: c.metric("nodes_slow") >= 1 or nodes_of(c)[4]["state"] != "up",
                     "the node was not left out")
            daemon.signal(signal.SIGCONT)
            load.wait_writes(500)
        wait_for(lambda: healed(c), "copies are lacking still")


def dead_node_costs_a_pause():
    with Cluster(nodes=4, gateway_args=ARGS) as c:
        # Copies that stay: what the load writes may be merged, and gone, before it is copied.
        c.volume_create("still", "64M", "--engine", "none")
        c.load("--volume", "still", "--pattern", "sequential", "--bytes", "64M", "--block-size", "64K",
               "--compressibility", "0")
        with Load(c) as load:
            wait_for(lambda: runs_of(c, "still") > 32 << 20, "it is not flushed")
            c.nodes[1].kill()
            print(f"  500 writes after the death took {load.wait_writes(500):.2f} s")
            wait_for(lambda: c.metric("copies_made") > 0, "nothing is repaired")
        # While writes go on there is always one more to repair, where nodes are as slow as the machine.
        wait_for(lambda: healed(c), "not all is repaired")
        with load:
            # The second one, once the first repair is done.
            c.nodes[3].kill()
            load.wait_writes(500)
            c.start_node(1, listen=c.addresses[1])
            load.wait_writes(500)
        wait_for(lambda: healed(c), "copies are lacking still")


def without_enough_nodes_it_waits_and_says_so():
    with Cluster(nodes=3, gateway_args=["--min-replicas", "3"]) as c:
        with Load(c) as load:
            load.wait_writes(500)
            from_line = len(c.gateway.lines)
            c.nodes[0].kill()
            c.gateway.wait_line(r"waits for \d storage nodes", from_line=from_line)
            c.nodes[0].start()
            load.wait_writes(500)


if __name__ == "__main__":
    main(stopped_node_is_left_out, node_that_stops_as_extents_begin_is_left_out, dead_node_costs_a_pause,
         without_enough_nodes_it_waits_and_says_so)
