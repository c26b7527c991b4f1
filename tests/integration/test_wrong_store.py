#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A gateway whose metadata store is not the cluster's: it is refused, and what the nodes hold stays."""
import os

from libcluster import Cluster, check, expect_error, main, run_argv


def meta(c):
    return os.path.join(c.folder, "meta")


def write(c, name, operations=2000):
    journal = os.path.join(c.folder, name)
    c.load("--volume", "v", "--pattern", "random", "--operations", str(operations), "--in-flight",
           "16", "--journal", journal)
    return journal


def verify(c, journal):
    c.load("--verify-journal", journal, "--volume", "v")


def deleted(c):
    return [line for node in c.nodes for line in node.lines if "deleted" in line] + \
        [line for gateway in c.gateways for line in gateway.lines if "orphan" in line]


def store_that_is_gone_is_not_made_anew():
    with Cluster(nodes=3, gateway_args=("--sweep-interval", "1s")) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        c.gateway.stop()
        os.rename(meta(c), meta(c) + ".gone")
        for _ in range(2):
            result = run_argv(c.gateway.argv, check_rc=False)
            expect_error(result, meta(c), "no cluster", "not mounted", "cleave recover",
                         "--create", codes=(1,))
            check(not os.path.exists(meta(c)), "a directory was made")
        # Mounted, and empty: nothing is left in it.
        os.mkdir(meta(c))
        expect_error(run_argv(c.gateway.argv, check_rc=False), "no cluster", codes=(1,))
        check(os.listdir(meta(c)) == [], f"left behind: {os.listdir(meta(c))}")
        os.rmdir(meta(c))
        os.rename(meta(c) + ".gone", meta(c))
        c.gateway.start()
        verify(c, journal)
        check(not deleted(c), f"{deleted(c)}")


def cluster_is_made_over_empty_nodes_only():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        # Beside the gateway, which does not notice.
        other = os.path.join(c.folder, "other")
        expect_error(run_argv(c.create_argv(other), check_rc=False), "holds a cluster's data",
                     "cleave recover", "format --force", codes=(1,))
        check(not os.path.exists(other), "a directory was made")
        expect_error(run_argv(c.create_argv(), check_rc=False), "holds a cluster already",
                     codes=(1,))
        verify(c, journal)
        c.nodes[2].stop()
        expect_error(run_argv([*c.create_argv(other), "--node-timeout", "1s"], check_rc=False),
                     c.addresses[2], "not reached", codes=(1,))
        c.nodes[2].start()
        verify(c, journal)


if __name__ == "__main__":
    main(store_that_is_gone_is_not_made_anew, cluster_is_made_over_empty_nodes_only)
