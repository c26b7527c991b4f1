#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies are evened out between nodes when somebody asks for that, under a verified load."""
import json
import os
import signal
import subprocess

from libcluster import WAIT_S, Cluster, binary, check, expect_error, main, wait_for
from libload import Load
from libnodes import new_node, nodes_of, wait_imported


def used(c, node_id):
    c.cleave("cluster", "rebalance", "--dry-run")  # has the nodes asked how much room they have
    node = nodes_of(c)[node_id]
    return node["slots_total"] - node["slots_free"]


def two_new_nodes_get_their_share():
    with Cluster(gateways=2, disk_size="192M", slot_size="1M", shards=4) as c:
        wait_imported(c)
        c.volume_create("first", "64M")
        journal = os.path.join(c.folder, "journal-first")
        c.load("--volume", "first", "--bytes", "32M", "--block-size", "64K", "--compressibility",
               "0", "--journal", journal)
        for i in (4, 5):
            _, address = new_node(c, f"disk{i}", i)
            c.cleave("node", "add", address, "--domain", f"rack{i}")
        for at in c.gateway_addresses:
            wait_for(lambda: nodes_of(c, at).get(5, {}).get("state") == "up", f"{at} lacks node 5")
        before = c.metric_of_all("copies_made")
        out = c.cleave("cluster", "rebalance", "--dry-run").stdout
        check("SHARE" in out and "would be moved at most" in out, out)
        check(c.metric_of_all("copies_made") == before, "--dry-run moves")
        with Load(c, "--rate", "200", size="64M", in_flight=8) as load:
            load.wait_writes(100)
            out = c.cleave("cluster", "rebalance", "--wait").stdout
            check("moved" in out and "done" in out, out)
            load.wait_writes(100)
        for gateway in c.gateways:
            gateway.wait_line(r'rebalance: begun by an operator by="[^"]+" from=tcp://')
            gateway.wait_line("rebalance: done")
        wait_for(lambda: min(used(c, i) for i in (4, 5)) >= 10, "nothing came to the new nodes")
        # What is even stays, and can be told to stop at any time.
        summary = json.loads(c.cleave("--json", "cluster", "rebalance", "--wait").stdout)
        check(summary["gateways_on"] == 0, summary)
        c.cleave("cluster", "rebalance", "--stop")
        expect_error(c.cleave("cluster", "rebalance", "--stop", "--dry-run", check_rc=False),
                     "goes alone")
        wait_for(lambda: sum(s["extents_lacking"] for at in c.gateway_addresses
                             for s in c.status(at)["shards"]) == 0, "extents lack copies")
        c.load("--verify-journal", journal, "--volume", "first")


def a_node_that_is_down_is_waited_for():
    """A node that is down keeps it from moving anything, and it says which."""
    with Cluster(nodes=4, disk_size="128M", slot_size="1M") as c:
        wait_imported(c)
        c.nodes[3].kill()
        wait_for(lambda: nodes_of(c)[4]["state"] != "up", "node 4 is up still")
        c.cleave("cluster", "rebalance")
        summary = json.loads(c.cleave("--json", "cluster", "rebalance").stdout)
        check(summary["gateways_on"] == 1 and summary["waits"] == "node", summary)
        check(c.metric("copies_made") == 0, "it moves")
        c.cleave("cluster", "rebalance", "--stop")
        check(c.gateway.count_lines("rebalance: stopped by an operator") == 1, "nobody stopped it")
        c.nodes[3].start()
        out = c.cleave("cluster", "rebalance", "--wait").stdout
        check("done" in out, out)


def waiting(c, *options):
    """cleave cluster rebalance --wait, which waits for node 4: the process, and the file of what it says."""
    told = open(os.path.join(c.folder, "told"), "w")
    process = subprocess.Popen([binary("cleave"), "--gateway", c.address, *options, "cluster", "rebalance", "--wait"],
                               stdout=told, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    told.close()
    return process, told.name


def what_is_stopped_is_not_done():
    with Cluster(nodes=4, disk_size="128M", slot_size="1M") as c:
        wait_imported(c)
        c.nodes[3].kill()
        wait_for(lambda: nodes_of(c)[4]["state"] != "up", "node 4 is up still")
        process, told = waiting(c)
        try:
            wait_for(lambda: "waits for node 4" in open(told).read(), "it does not wait")
            c.cleave("cluster", "rebalance", "--stop")
            _, error = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
        check(process.returncode == 1 and "not done: somebody has ended it" in error, f"{process.returncode}: {error}")
        check("done" not in open(told).read(), open(told).read())


def what_is_not_known_is_not_done():
    """A gateway that stands still may go on afterwards: who waits is told of it, and not that all is done."""
    with Cluster(nodes=4, gateways=2, disk_size="128M", slot_size="1M", gateway_args=("--lease-ms", "60000")) as c:
        wait_imported(c)
        c.nodes[3].kill()
        wait_for(lambda: nodes_of(c)[4]["state"] != "up", "node 4 is up still")
        process, told = waiting(c, "--timeout", "5s")
        try:
            wait_for(lambda: "waits for node 4" in open(told).read(), "it does not wait")
            c.gateways[1].signal(signal.SIGSTOP)
            c.cleave("--gateway", c.address, "--timeout", "5s", "cluster", "rebalance", "--stop", check_rc=False)
            _, error = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
            c.gateways[1].signal(signal.SIGCONT)
        text = open(told).read()
        check(process.returncode == 1 and c.gateway_addresses[1] in error, f"{process.returncode}: {error}")
        check("done" not in text, text)


if __name__ == "__main__":
    main(two_new_nodes_get_their_share, a_node_that_is_down_is_waited_for, what_is_stopped_is_not_done,
         what_is_not_known_is_not_done)
