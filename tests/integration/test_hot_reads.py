#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hot blocks of real daemons: what is read again and again asks no node, whatever was written or killed meanwhile."""
import json
import re
import subprocess

from libcluster import Cluster, check, main, wait_for

SEEN = ("hot_hits", "hot_misses", "reads_from_node")


def read(c, *words):
    """Reads by Zipf's law, each block checked; what the gateway's counters grew by."""
    before = [c.metric(name) for name in SEEN]
    c.load("--volume", "v", "--operations", "4000", "--in-flight", "16", "--read-percent", "100",
           "--pattern", "zipf", *words)
    return {name: c.metric(name) - b for name, b in zip(SEEN, before)}


def top(c):
    return json.loads(c.cleave("--json", "top", "--once", "--interval", "100ms").stdout)["gateways"][0]


def restart(c):
    """Nothing is in the gateway's memory any more."""
    c.gateway.kill()
    c.start_gateway(0)


def what_is_read_again_asks_no_node():
    with Cluster(gateway_args=["--hot-bytes", "8M"]) as c:
        c.volume_create("v", "4M")
        c.load("--volume", "v", "--operations", "1024", "--pattern", "sequential")
        check(c.metric("hot_bytes_max") == 8 * 248 * 4096 and c.metric("hot_bytes") == 0, "not taken at the start")
        restart(c)
        read(c)
        seen = read(c)
        check(seen["hot_hits"] > 3 * seen["hot_misses"], f"{seen}")
        check(seen["reads_from_node"] < 1000, f"{seen}")
        check(c.metric("hot_bytes") > 0 and c.metric("hot_spoiled") == 0, "nothing is kept")
        status = c.cleave("status", "--counters", check_rc=False).stdout
        check(re.search(r"hot blocks \S+ \S+ of 7\.\d+ MiB", status), status)
        check("hot_percent" not in top(c), "nothing was read meanwhile")
        argv = c.load_argv("--volume", "v", "--seconds", "600", "--read-percent", "100", "--pattern", "zipf")
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as load:
            wait_for(lambda: top(c).get("hot_percent", 0) > 50, "top shows no hot blocks")
            wait_for(lambda: top(c).get("index_percent", 0) > 0, "top does not show that places are in memory")
            load.terminate()
        # What is written is read, and not what was kept; all of it again when it is on the nodes.
        journal = c.folder + "/journal"
        c.load("--volume", "v", "--operations", "2000", "--pattern", "zipf", "--in-flight", "16",
               "--read-percent", "50", "--journal", journal)
        read(c)
        restart(c)
        seen = read(c)
        check(seen["hot_hits"] > 0, f"{seen}")
        c.load("--verify-journal", journal, "--volume", "v")


def none_is_kept_where_there_is_no_room():
    with Cluster(gateway_args=["--hot-bytes", "0"]) as c:
        c.volume_create("v", "4M")
        c.load("--volume", "v", "--operations", "1024", "--pattern", "sequential")
        restart(c)
        read(c)
        seen = read(c)
        check(seen["hot_hits"] == 0 and seen["hot_misses"] == 0 and seen["reads_from_node"] > 0, f"{seen}")
        check("hot blocks" not in c.cleave("status", "--counters", check_rc=False).stdout, "a table")


if __name__ == "__main__":
    main(what_is_read_again_asks_no_node, none_is_kept_where_there_is_no_room)
