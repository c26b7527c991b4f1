#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gateways execute each other's merges: it goes on while one of them, or a node, goes in the middle of it."""
import json

from libcluster import Cluster, check, main, wait_for
from libkeys import Authority, Keyed
from libload import Load

WRITES = 2000


# Logs so short that merges go on all the while.
SHARED = {"gateways": 2, "shards": 4, "nodes": 4, "slot_size": "4M",
          "gateway_args": ("--lease-ms", "3000", "--node-timeout", "1s", "--log-bytes", "8M",
                           "--offload", "on", "--worker-jobs", "2")}


def two_gateways():
    return Cluster(**SHARED)


def away(c):
    """Parts of merges that another gateway has executed, of the gateways that run."""
    return sum(c.metric("merges_away", address)
               for gateway, address in zip(c.gateways, c.gateway_addresses) if gateway.process is not None)


def wait_away(c, load, count):
    """Until so many more were; the load goes on."""
    wanted = away(c) + count
    while away(c) < wanted:
        load.wait_writes(WRITES)


def top(c):
    """What each gateway merges, has merged by others, and merges for them, in a second of the load."""
    return json.loads(c.cleave("top", "--once", "--json", "--interval", "300ms").stdout)["gateways"]


def merges_are_executed_by_the_other_one():
    with two_gateways() as c, Load(c) as load:
        wait_away(c, load, 4)
        check(c.metric_of_all("jobs_done") >= 4, "nobody says that it has executed a merge")
        check(c.metric_of_all("merges_refused") == 0, "what was made was not what was asked for")
        check(c.metric_of_all("jobs_bytes") > 0, "nobody says how much it has made for others")
        wait_for(lambda: any(g.get("away_bytes_s", 0) > 0 for g in top(c)), "top shows whose merges others execute")
        wait_for(lambda: any(g.get("jobs_bytes_s", 0) > 0 for g in top(c)), "top shows who executes them")


def gateways_are_killed_in_the_middle_of_it():
    """Each is a worker of the other, and an owner."""
    with two_gateways() as c, Load(c) as load:
        for index in (0, 1, 0):
            wait_away(c, load, 1)
            c.gateways[index].kill()
            load.wait_writes(2 * WRITES)
            c.gateways[index].start()
            load.wait_writes(WRITES)
        wait_away(c, load, 1)


def a_gateway_that_leaves_gives_its_jobs_back():
    with two_gateways() as c, Load(c) as load:
        wait_away(c, load, 1)
        c.gateways[1].stop()
        load.wait_writes(2 * WRITES)
        c.gateways[1].start()
        wait_away(c, load, 1)


def nodes_are_killed_in_the_middle_of_it():
    with two_gateways() as c, Load(c) as load:
        for node in c.nodes[:2]:
            wait_away(c, load, 1)
            node.kill()
            load.wait_writes(2 * WRITES)
            node.start()
            load.wait_writes(WRITES)
        wait_away(c, load, 1)


def without_it_nothing_goes_away():
    with Cluster(gateways=2, shards=4, gateway_args=("--log-bytes", "8M", "--worker-jobs", "2")) as c, \
            Load(c) as load:
        wait_for(lambda: c.metric_of_all("flushes") > 4, "merges go on")
        load.wait_writes(WRITES)
        check(away(c) == 0 and c.metric_of_all("jobs_done") == 0, "a merge went away")


def with_keys():
    """A node lets in whom a shard's owner has lent an extent to: by its key, and nobody else."""
    with Authority() as a, Keyed(a, **SHARED) as c, Load(c) as load:
        wait_away(c, load, 2)
        check(c.metric_of_all("jobs_done") >= 2, "nobody says that it has executed a merge")
        check(c.metric_of_all("merges_refused") == 0, "what was made was not what was asked for")


if __name__ == "__main__":
    main(merges_are_executed_by_the_other_one, gateways_are_killed_in_the_middle_of_it,
         a_gateway_that_leaves_gives_its_jobs_back, nodes_are_killed_in_the_middle_of_it,
         without_it_nothing_goes_away, with_keys)
