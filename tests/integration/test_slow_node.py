#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A node that stops, is stopped for a while, or dies beside load costs a pause, not an error (fault 12)."""
import signal
import time

from libcluster import WAIT_S, Cluster, check, main
from libload import Load

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


def stopped_node_is_left_out():
    with Cluster(nodes=4, gateway_args=ARGS) as c:
        with Load(c) as load:
            load.wait_writes(500)
            c.nodes[2].signal(signal.SIGSTOP)
            print(f"  500 writes after the stop took {load.wait_writes(500):.2f} s")
            check(c.metric("nodes_slow") >= 1, "the node was not left out as slow")
            level, reasons = c.health()
            check(level == "WARN" and any(obj == "node 3" and code in ("node-down", "node-slow")
                                          for code, obj, _ in reasons), f"{level} {reasons}")
            load.wait_writes(500)
            c.nodes[2].signal(signal.SIGCONT)
            load.wait_writes(500)
        wait_for(lambda: healed(c), "copies are lacking still")


def dead_node_costs_a_pause():
    with Cluster(nodes=4, gateway_args=ARGS) as c:
        with Load(c) as load:
            # Copies that stay: what is only in the log may be flushed before it is copied.
            wait_for(lambda: c.metric("flushed_bytes") > 16 << 20, "nothing is flushed")
            c.nodes[1].kill()
            print(f"  500 writes after the death took {load.wait_writes(500):.2f} s")
            wait_for(lambda: healed(c) and c.metric("copies_made") > 0, "nothing is repaired")
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
            c.nodes[0].kill()
            c.gateway.wait_line(r"waits for \d storage nodes")
            c.nodes[0].start()
            load.wait_writes(500)


if __name__ == "__main__":
    main(stopped_node_is_left_out, dead_node_costs_a_pause,
         without_enough_nodes_it_waits_and_says_so)
