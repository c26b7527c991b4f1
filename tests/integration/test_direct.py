#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients read at real nodes, by tickets: with keys and without, and nobody where --direct does not say so."""
import os
import re
import subprocess
import urllib.request

from libcluster import BUILD, CLUSTER_ID, WAIT_S, Cluster, check, expect_error, main, run, run_argv, wait_for
from libkeys import Authority, Keyed
from libmetrics import metrics_address
from libnodes import nodes_of

CLIENT = os.path.join(BUILD, "tests", "direct_client")


def ask(c, *keys):
    """What direct_client was answered: "what" -> answers, in their order."""
    store = re.search(r"store_id=([0-9a-f]{32})", c.nodes[0].wait_line("store_id=")).group(1)
    out = run_argv([CLIENT, c.addresses[0], "1", CLUSTER_ID, store, *keys]).stdout
    answers = {}
    for line in out.splitlines():
        what, answer = line.split(": ", 1)
        answers.setdefault(what, []).append(answer)
    return answers


def with_data(c):
    c.volume_create("v", "64M")
    c.load("--volume", "v", "--bytes", "4M")
    return c


def is_served(c, answers):
    check(answers["key"] == ["ok"], f"the key: {answers}")
    check(answers["client"] == ["ok"], f"the client: {answers}")
    check(answers["ticket"] == ["ok", "Key was rejected by service"], f"tickets: {answers}")
    check(answers["read"] == ["ok"], f"a read: {answers}")
    read = bytes.fromhex(answers["bytes"][0])
    with open(c.disk(0), "rb") as f:
        check(len(read) == 4096 and read in f.read(), "what was read is not on the disk")
    for what in ("a byte more", "read by a forged one"):
        check(answers[what] == ["Key has been revoked"], f"{what}: {answers}")
    check(answers["list"] == ["Connection reset by peer"], f"a list: {answers}")
    for line in ("audit: refused, a client reads what its ticket is not for", "audit: refused, a ticket was forged",
                 "audit: refused, a client asks for what gateways alone may"):
        c.nodes[0].wait_line(line)


def without_keys():
    with Cluster(disk_size="256M", node_args=("--direct", "trusted")) as c:
        is_served(with_data(c), ask(c))


def with_keys():
    with Authority() as a, Keyed(a, disk_size="256M", node_args=("--direct", "on")) as c:
        gateway, client = a.issue("gateway/1"), a.issue("client/db")
        is_served(with_data(c), ask(c, gateway, client))
        check(ask(c, gateway, a.issue("monitor/m"))["client"] != ["ok"], "a monitor may read")
        c.nodes[0].wait_line("audit: refused, a client that would read")


def fences(c):
    """Of each node, how often tickets of a volume were ended."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    counts = []
    for node in c.nodes:
        with opener.open(f"http://{metrics_address(node)}/metrics", timeout=WAIT_S) as reply:
            counts.append(int(re.search(r"^cleave_storage_volume_fences_total\S* (\d+)", reply.read().decode(),
                                        re.M).group(1)))
    return counts


def tickets_end_with_the_right_and_with_the_volume():
    with Authority() as a, Keyed(a, disk_size="256M", node_args=("--direct", "on", "--metrics", "127.0.0.1:0")) as c:
        c.volume_create("db-1", "64M")
        c.cleave("user", "add", "db1", "db-*:rw")
        load = subprocess.Popen(c.load_argv_as(a.issue("client/db1"), "--volume", "db-1", "--seconds", "600",
                                               "--quiet", "--io-timeout", "20s"),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: min(fences(c)) >= 1, "no node was told of the attach")
            c.gateway.wait_line("audit: session opened by=client/db1")
            before = fences(c)
            c.cleave("user", "set", "db1", "--disable")
            wait_for(lambda: all(now > then for now, then in zip(fences(c), before)),
                     "a node was not told that the right has gone")
        finally:
            load.kill()
            load.wait()
        before = fences(c)
        c.cleave("volume", "delete", "db-1", "--force")
        wait_for(lambda: all(now > then for now, then in zip(fences(c), before)),
                 "a node was not told that the volume has gone")


def nobody_where_it_is_off():
    with Cluster(disk_size="256M") as c:
        answers = ask(with_data(c))
        check(answers["key"] == ["Operation not supported"], f"the key: {answers}")
        check(answers["client"] == ["Operation not supported"], f"the client: {answers}")
        c.nodes[0].wait_line(r"this node takes no clients \(--direct\)")


def clients_are_told_another_address():
    """Port 0 is the one that the node listens at; gateways go on at the address that they have."""
    with Cluster(disk_size="256M", node_args=("--direct", "trusted", "--advertise", "tcp://localhost:0")) as c:
        at = c.addresses[0].replace("127.0.0.1", "localhost")
        c.nodes[0].wait_line(f"clients are told address={at}")
        wait_for(lambda: nodes_of(c).get(1, {}).get("advertise") == at, "the list of nodes does not have it")
        check(nodes_of(c)[1]["address"] == c.addresses[0], f"{nodes_of(c)[1]}")
        out = c.cleave("node", "list").stdout
        check(f"clients find {c.addresses[0]} at {at}\n" in out, out)
        is_served(with_data(c), ask(c))


def an_address_that_is_none_is_refused():
    words = ("--disk", "/none", "--listen", "tcp://127.0.0.1:0", "--direct", "trusted", "--advertise")
    for address, why in (("here", "begins with neither"), ("tcp://0.0.0.0:7201", "an address of every machine"),
                         ("verbs://10.0.0.1:7201", "of another kind than --listen")):
        expect_error(run("cleave-storage", *words, address, check_rc=False), f"--advertise: '{address}': .*{why}",
                     codes=(2,))
    expect_error(run("cleave-storage", *words, "tcp://n:1", "--direct", "off", check_rc=False),
                 "--advertise: .* needs --direct", codes=(2,))


def keys_alone_without_a_key_is_refused():
    expect_error(run("cleave-storage", "--disk", "/none", "--listen", "tcp://127.0.0.1:0", "--direct", "on",
                     check_rc=False), "--direct: on needs --key", codes=(2,))


if __name__ == "__main__":
    main(without_keys, with_keys, tickets_end_with_the_right_and_with_the_volume, nobody_where_it_is_off,
         keys_alone_without_a_key_is_refused, clients_are_told_another_address, an_address_that_is_none_is_refused)
