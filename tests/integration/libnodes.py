# SPDX-License-Identifier: Apache-2.0
"""Storage nodes that come and go while a test's cluster runs."""
import json
import os
import re
import subprocess

from libcluster import CLUSTER_ID, WAIT_S, Daemon, binary, check, free_port, run, wait_for


def nodes_of(c, address=None):
    words = ["--gateway", address] if address else c.gateway_words()
    out = run("cleave", *words, "--json", "node", "list").stdout
    return {node["id"]: node for node in json.loads(out)["nodes"]}


def wait_imported(c):
    """The first gateway that has heard all of its nodes writes them into the store."""
    wait_for(lambda: all(node["member"] == "in" for node in nodes_of(c).values()),
             "the nodes are not imported")


def new_node(c, name, node_id, cluster_id=CLUSTER_ID, disk_size=None, slot_size=None):
    """A node on a disk of its own, which nobody knows yet: (daemon, address)."""
    disk = os.path.join(c.folder, name)
    run("cleave-storage", "format", "--disk", disk, "--size", disk_size or c.disk_size,
        "--slot-size", slot_size or c.slot_size, "--node-id", str(node_id), "--cluster-id", cluster_id)
    address = f"tcp://127.0.0.1:{free_port()}"
    daemon = Daemon(name, [binary("cleave-storage"), "--disk", disk, "--listen", address])
    c.nodes.append(daemon)
    daemon.start()
    return daemon, address


class Drain:
    """`cleave node drain ID --wait` beside the test."""

    def __init__(self, c, node_id, *words):
        self.argv = [binary("cleave"), *c.gateway_words(), "node", "drain", str(node_id),
                     "--wait", *words]
        self.path = os.path.join(c.folder, f"drain{node_id}")
        self.out = open(self.path, "w")
        self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=subprocess.STDOUT)

    def text(self):
        with open(self.path) as f:
            return f.read()

    def wait_text(self, pattern):
        wait_for(lambda: re.search(pattern, self.text()) or self.process.poll() is not None,
                 f"no '{pattern}' in\n{self.text()}")
        check(re.search(pattern, self.text()), f"no '{pattern}' in\n{self.text()}")

    def wait(self):
        try:
            rc = self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            rc = self.process.wait()
        self.out.close()
        check(rc == 0 and "empty" in self.text(), f"the drain ended with {rc}\n{self.text()}")


def write_first(c, name, mib):
    """So many MiB, with a journal to be verified at the end."""
    c.volume_create(name, f"{max(mib, 64)}M")
    journal = os.path.join(c.folder, f"journal-{name}")
    c.load("--volume", name, "--quiet", "--pattern", "sequential", "--bytes", f"{mib}M",
           "--block-size", "64K", "--compressibility", "0", "--journal", journal)
    return journal


def take_out(c, node_id):
    """An empty node leaves, and its process ends."""
    check("removed" in c.cleave("node", "remove", str(node_id)).stdout, "it is not removed")
    check(c.nodes[node_id - 1].stop() == 0, f"node {node_id} did not stop well")
