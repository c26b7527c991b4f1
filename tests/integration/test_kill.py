#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of any daemon, or of all at once, under load: nothing acknowledged is lost (fault 1, I4)."""
import os
import signal

from libcluster import Cluster, check, lacking, main, run_argv, wait_for
from libload import Load


def run_with(kill, restart):
    with Cluster(nodes=3) as c, Load(c) as load:
        for _ in range(3):
            load.wait_writes(500)
            kill(c)
            restart(c)
        load.wait_writes(500)


def gateway_killed():
    run_with(lambda c: c.gateway.kill(), lambda c: c.gateway.start())


def one_node_killed():
    run_with(lambda c: c.nodes[1].kill(), lambda c: c.nodes[1].start())


def writes_go_on_without_one_of_three_nodes():
    """Default options: two copies while it is away, three when it is back, all of it verified."""
    with Cluster(nodes=3, gateway_args=["--repair-after", "1s"]) as c, Load(c) as load:
        load.wait_writes(2000)
        wait_for(lambda: lacking(c) == 0, "a fresh cluster lacks copies")
        c.nodes[1].kill()
        took_s = load.wait_writes(500)
        print(f"  500 writes within {took_s:.2f} s after the node was killed")
        load.wait_writes(5000)
        wait_for(lambda: lacking(c) > 0, "nothing lacks a copy while a node is away")
        c.nodes[1].start()
        wait_for(lambda: lacking(c) == 0, "the third copies are not made")
        load.wait_writes(2000)
        # Another one may go now: nothing is on two nodes alone.
        c.nodes[0].kill()
        c.gateway.kill()
        c.gateway.start()
        load.wait_writes(2000)
        c.nodes[0].start()
        load.wait_writes(1000)


def all_killed_at_once():
    def kill(c):
        for d in [*c.nodes, c.gateway]:
            d.signal(signal.SIGKILL)
        for d in [*c.nodes, c.gateway]:
            d.wait_exit()

    def restart(c):
        for d in [*c.nodes, c.gateway]:
            d.start()

    run_with(kill, restart)


def client_killed():
    """The load generator itself dies: what it journalled as acknowledged is there."""
    with Cluster(nodes=3) as c:
        load = Load(c).__enter__()
        try:
            load.wait_writes(1000)
        finally:
            load.process.kill()
            load.process.wait()
        c.load("--verify-journal", load.journal, "--volume", "v")
        # The volume can be attached and written again at once.
        run_argv(c.load_argv("--volume", "v", "--operations", "1000", "--in-flight", "8"))


def a_wrong_journal_is_found():
    """The verifier has teeth: after an overwrite behind the journal's back it fails."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        journal = os.path.join(c.folder, "journal")
        c.load("--volume", "v", "--pattern", "sequential", "--operations", "1024", "--journal",
               journal)
        c.load("--volume", "v", "--pattern", "sequential", "--operations", "16")
        result = c.load("--verify-journal", journal, "--volume", "v", check_rc=False)
        check(result.returncode == 1, f"exit {result.returncode}: {result.stdout}{result.stderr}")


if __name__ == "__main__":
    main(gateway_killed, one_node_killed, writes_go_on_without_one_of_three_nodes, all_killed_at_once, client_killed,
         a_wrong_journal_is_found)
