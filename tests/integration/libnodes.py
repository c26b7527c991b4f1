# SPDX-License-Identifier: Apache-2.0
"""Storage nodes that come and go while a test's cluster runs."""
import json
import os
import re

from libcluster import CLUSTER_ID, Daemon, binary, run, wait_for


def nodes_of(c, address=None):
    words = ["--gateway", address] if address else c.gateway_words()
    out = run("cleave", *words, "--json", "node", "list").stdout
    return {node["id"]: node for node in json.loads(out)["nodes"]}


def wait_imported(c):
    """The first gateway that has heard all of its nodes writes them into the store."""
    wait_for(lambda: all(node["member"] == "in" for node in nodes_of(c).values()),
             "the nodes are not imported")


def new_node(c, name, node_id, cluster_id=CLUSTER_ID, disk_size=None):
    """A node on a disk of its own, which nobody knows yet: (daemon, address)."""
    disk = os.path.join(c.folder, name)
    run("cleave-storage", "format", "--disk", disk, "--size", disk_size or c.disk_size,
        "--slot-size", c.slot_size, "--node-id", str(node_id), "--cluster-id", cluster_id)
    daemon = Daemon(name, [binary("cleave-storage"), "--disk", disk, "--listen",
                           "tcp://127.0.0.1:0"])
    c.nodes.append(daemon)
    line = daemon.start().wait_ready()
    address = re.search(r"listen=(tcp://\S+)", line).group(1)
    daemon.argv[daemon.argv.index("--listen") + 1] = address
    return daemon, address
