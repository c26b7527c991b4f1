#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Storage nodes are members of the cluster: imported, added, drained, removed, replaced; and what is refused."""
import os
import re
import shutil

from libcluster import (Cluster, Daemon, binary, check, expect_error, main, run, small_disks,
                        wait_for)
from libload import Load
from libnodes import new_node, nodes_of, wait_imported

ALIEN_ID = "00000000000a11e4"


def restart(gateway, argv):
    check(gateway.stop() == 0, "it did not stop well")
    gateway.argv = argv
    gateway.start()


def imported_once_and_needed_no_more():
    with Cluster(gateways=2, shards=4) as c:
        wait_imported(c)

        def imports():
            return sum(g.count_lines("are the cluster's now nodes=3") for g in c.gateways)

        wait_for(lambda: imports() > 0, "nobody says that they are imported")  # it hears of it last
        check(imports() == 1, f"imported {imports()} times")
        for i, address in enumerate(c.gateway_addresses):
            wait_for(lambda: all(n["member"] == "in" and n["state"] == "up"
                                 for n in nodes_of(c, address).values()),
                     f"gateway {i + 1} does not know the members")
        # No list any more; then one that differs, which does not count.
        argv = list(c.gateways[1].argv)
        while "--node" in argv:
            at = argv.index("--node")
            del argv[at:at + 2]
        restart(c.gateways[1], argv)
        check(len(nodes_of(c, c.gateway_addresses[1])) == 3, "nodes are missing without --node")
        restart(c.gateways[1], argv + ["--node", c.addresses[0], "--node", "tcp://127.0.0.1:1",
                                       "--min-replicas", "1"])
        c.gateways[1].wait_line(r"--node differs from the cluster's nodes.*"
                                r"\+tcp://127\.0\.0\.1:1 -" + re.escape(c.addresses[1]))
        check(len(nodes_of(c, c.gateway_addresses[1])) == 3, "the list counts")
        with Load(c) as load:
            load.wait_writes(500)


def added_drained_removed():
    with Cluster(gateways=2, shards=4) as c:
        wait_imported(c)
        expect_error(c.cleave("node", "drain", "3", check_rc=False),
                     "node 3 is not drained: 2 failure domains would be left", "--force")
        expect_error(c.cleave("node", "remove", "3", check_rc=False), "node 3 is in use: drain it")
        expect_error(c.cleave("node", "drain", "9", check_rc=False), "node 9: no such node")
        daemon, address = new_node(c, "disk4", 4)
        expect_error(c.cleave("node", "set", "1", "--domain", "d e", check_rc=False), "without blanks")
        # The usual scheme may be left out, as a gateway's is.
        out = c.cleave("node", "add", address.removeprefix("tcp://"), "--domain", "dc1/rack4", "--weight", "50", "--note",
                       "shelf 4").stdout
        check("node 4" in out and "added" in out, out)
        for at in c.gateway_addresses:
            wait_for(lambda: nodes_of(c, at).get(4, {}).get("state") == "up", f"{at} lacks node 4")
        node = nodes_of(c)[4]
        check((node["domain"], node["weight"], node["note"]) == ("dc1/rack4", 50, "shelf 4"), node)
        # Nothing has been written since it came.
        c.cleave("node", "drain", "4", "--wait")
        wait_for(lambda: nodes_of(c)[4]["member"] == "draining", "it does not drain")
        check("in use again" in c.cleave("node", "undrain", "4").stdout, "undrained")
        check("was not drained" in c.cleave("node", "undrain", "4").stdout, "it did not drain")
        check("nothing to change" in c.cleave("node", "set", "4", "--address", address.removeprefix("tcp://")).stdout,
              "its address")
        check(nodes_of(c)[4]["address"] == address, f"{nodes_of(c)[4]}")
        expect_error(c.cleave("node", "remove", "4", check_rc=False), "in use")
        c.cleave("node", "drain", "4")
        check("removed" in c.cleave("node", "remove", "4").stdout, "it is not removed")
        for gateway in c.gateways:
            gateway.wait_line("node 4: is out now")
        wait_for(lambda: 4 not in nodes_of(c), "it is listed still")
        # Its disk does not come back before it is formatted, and its number never.
        expect_error(c.cleave("node", "add", address, check_rc=False),
                     "has left the cluster", "--node-id 5")
        daemon.stop()
        run("cleave-storage", "format", "--disk", os.path.join(c.folder, "disk4"), "--size",
            c.disk_size, "--slot-size", c.slot_size, "--cluster-id",
            "".join(re.findall(r"--cluster-id (\S+)", " ".join(c.gateway.argv))), "--node-id",
            "4", "--force")
        daemon.start()
        expect_error(c.cleave("node", "add", address, check_rc=False), "has left the cluster")


def bad_input_is_one_line():
    with Cluster() as c:
        wait_imported(c)
        expect_error(c.cleave("node", "add", "tcp://127.0.0.1:1", check_rc=False),
                     "127.0.0.1:1 is no node that can be added", "refused|not reached|connect")
        expect_error(c.cleave("node", "add", "127.0.0.1", check_rc=False), "address")
        expect_error(c.cleave("node", "add", c.addresses[1], check_rc=False),
                     "is the address of node 2")
        expect_error(c.cleave("node", "add", c.gateway_addresses[0], check_rc=False),
                     "is no node that can be added")
        _, alien = new_node(c, "alien", 7, cluster_id=ALIEN_ID)
        expect_error(c.cleave("node", "add", alien, check_rc=False), f"it is of cluster {ALIEN_ID}")
        _, twice = new_node(c, "twice", 2)
        expect_error(c.cleave("node", "add", twice, check_rc=False),
                     f"answers as node 2, which is {c.addresses[1]} already", "--node-id 4 is free")
        expect_error(c.cleave("node", "set", "1", "--domain", "a//b", check_rc=False), "domain")
        expect_error(c.cleave("node", "set", "1", "--maintenance", "soon", check_rc=False),
                     "neither a time")
        expect_error(c.cleave("node", "set", "1", "--address", c.addresses[1], check_rc=False),
                     "is the address of node 2")
        expect_error(c.cleave("node", "set", "1", "--address", "tcp://127.0.0.1:1", check_rc=False),
                     "127.0.0.1:1 is not where node 1 is", "--force")
        expect_error(c.cleave("node", "set", "1", "--address", twice, check_rc=False), f"{twice} answers as node 2")
        expect_error(c.cleave("node", "set", "1", check_rc=False), "what is to be changed")
        expect_error(c.cleave("node", "replace", "1", check_rc=False), "--with")
        expect_error(c.cleave("node", "replace", "1", "--with", c.addresses[0], check_rc=False),
                     "is the node that is to be replaced")
        expect_error(c.cleave("node", "drain", "none", check_rc=False), "no node's number")
        for daemon in (c.gateway, *c.nodes):
            check(daemon.process.poll() is None, f"{daemon.name} ended")


def lacking(c):
    return sum(shard["extents_lacking"] for shard in c.status()["shards"])


def a_lost_node_is_replaced():
    """Its copies are made anew elsewhere, and it is not connected to when it is back."""
    with Cluster(nodes=3, gateway_args=["--repair-after", "1h"]) as c:
        wait_imported(c)
        # A load that went on could overwrite all that lacks a copy before one is made.
        with Load(c, size="64M") as load:
            load.wait_writes(500)
            expect_error(c.cleave("node", "remove", "3", "--lost", check_rc=False),
                         "node 3 answers, so it is not lost", "--force")
        c.nodes[2].kill()
        wait_for(lambda: nodes_of(c)[3]["state"] != "up", "node 3 is up still")
        _, address = new_node(c, "disk4", 4)
        out = c.cleave("node", "replace", "3", "--with", address, "--domain", "rack4",
                       "--lost").stdout
        check("node 4" in out and "node 3" in out and "removed" in out, out)
        # Once more, as after an interruption: the new one is taken as it is.
        again = c.cleave("node", "replace", "3", "--with", address, "--lost", check_rc=False)
        check("added before" in again.stdout, again.stdout)
        wait_for(lambda: c.metric("copies_made") > 0, "no copy is made anew")
        wait_for(lambda: lacking(c) == 0, "copies are lacking still")
        links = c.gateway.count_lines("node 3: link up")
        c.nodes[2].start()
        with load:
            load.wait_writes(500)
        check(3 not in nodes_of(c), "node 3 is listed")
        check(c.gateway.count_lines("node 3: link up") == links, "node 3 was taken back")


def nothing_is_made_anew_during_maintenance():
    with Cluster(nodes=3, gateway_args=["--repair-after", "1s"]) as c:
        wait_imported(c)
        # A copy on each of the three; a fourth could take one.
        with Load(c, size="64M") as load:
            load.wait_writes(500)
        _, address = new_node(c, "disk4", 4)
        c.cleave("node", "add", address, "--domain", "rack4")
        wait_for(lambda: nodes_of(c).get(4, {}).get("state") == "up", "node 4 does not come up")
        c.cleave("node", "set", "2", "--maintenance", "2h")
        wait_for(lambda: nodes_of(c)[2]["maintenance_s"] > 7000, "it is in no maintenance")
        # What a machine that stood still has cost is mended before.
        wait_for(lambda: lacking(c) == 0, "copies are lacking before")
        from_line, copies = len(c.gateway.lines), c.metric("copies_made")
        c.nodes[1].kill()
        with load:
            load.wait_writes(500)
        # Nothing overwrites what lacks a copy: the time after which it would be made anew passes three times.
        killed_ns = c.status()["uptime_ns"]
        wait_for(lambda: c.status()["uptime_ns"] - killed_ns > 3_000_000_000, "its clock stands still")
        said = c.gateway.lines[from_line:]
        check(not any("node 2: is " in line for line in said), said)
        check(c.metric("copies_made") == copies, "a copy was made anew in maintenance")
        c.cleave("node", "set", "2", "--maintenance", "off")
        wait_for(lambda: c.metric("copies_made") > copies, "no copy is made anew afterwards")
        wait_for(lambda: lacking(c) == 0, "copies are lacking still")


def beside(c, name, disk):
    """A further process that serves a disk: it, and its address."""
    daemon = Daemon(name, [binary("cleave-storage"), "--disk", disk, "--listen", "tcp://127.0.0.1:0"])
    c.nodes.append(daemon)
    return daemon, re.search(r"listen=(tcp://\S+)", daemon.start().wait_ready()).group(1)


def a_copy_of_a_disk_beside_its_node_is_no_move():
    with Cluster() as c:
        wait_imported(c)
        node = c.nodes[1]
        node.stop()
        shutil.copyfile(c.disk(1), f"{c.disk(1)}.copy")
        node.start()
        wait_for(lambda: nodes_of(c)[2]["state"] == "up", "node 2 is not up")
        copy, address = beside(c, "copy", f"{c.disk(1)}.copy")
        expect_error(c.cleave("node", "set", "2", "--address", address, check_rc=False),
                     f"node 2 answers at {c.addresses[1]} still", "has a copy of its disk", codes=(1,))
        check(nodes_of(c)[2]["address"] == c.addresses[1], "the copy was taken")
        copy.stop()
        # The disk itself, served elsewhere: a move.
        node.stop()
        wait_for(lambda: nodes_of(c)[2]["state"] != "up", "node 2 is up still")
        _, address = beside(c, "moved", c.disk(1))
        c.cleave("node", "set", "2", "--address", address)
        wait_for(lambda: nodes_of(c)[2]["state"] == "up" and nodes_of(c)[2]["address"] == address, "it does not move")


if __name__ == "__main__":
    small_disks()
    main(imported_once_and_needed_no_more, added_drained_removed, bad_input_is_one_line,
         a_copy_of_a_disk_beside_its_node_is_no_move, a_lost_node_is_replaced, nothing_is_made_anew_during_maintenance)
