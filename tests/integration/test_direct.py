#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients read at real nodes, by tickets: with keys and without, and nobody where --direct does not say so."""
import os
import re

from libcluster import BUILD, CLUSTER_ID, Cluster, check, expect_error, main, run, run_argv
from libkeys import Authority, Keyed

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


def nobody_where_it_is_off():
    with Cluster(disk_size="256M") as c:
        answers = ask(with_data(c))
        check(answers["key"] == ["Operation not supported"], f"the key: {answers}")
        check(answers["client"] == ["Operation not supported"], f"the client: {answers}")
        c.nodes[0].wait_line(r"this node takes no clients \(--direct\)")


def keys_alone_without_a_key_is_refused():
    expect_error(run("cleave-storage", "--disk", "/none", "--listen", "tcp://127.0.0.1:0", "--direct", "on",
                     check_rc=False), "--direct: on needs --key", codes=(2,))


if __name__ == "__main__":
    main(without_keys, with_keys, nobody_where_it_is_off, keys_alone_without_a_key_is_refused)
