#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A start that cannot succeed says why, once, and what to do; and ends, where nothing can change that."""
import os

from libcluster import CLUSTER_ID, Cluster, Daemon, binary, check, expect_error, main, run, run_argv


class Nodes(Cluster):
    """Formatted and started nodes, and no cluster over them yet."""

    def start(self):
        for i in range(len(self.nodes)):
            self.format(i)
            self.addresses.append(self.start_node(i))
        return self


def words(option, values):
    return [word for value in values for word in (option, value)]


def gateway_words(c, nodes, *extra, meta="meta"):
    return [binary("cleave-gateway"), "--meta", os.path.join(c.folder, meta), "--cluster-id",
            CLUSTER_ID, *words("--node", nodes), *extra]


def serve_words(c, nodes, *extra, meta="meta"):
    return gateway_words(c, nodes, "--port", "tcp://127.0.0.1:0", *extra, meta=meta)


def names_are_refused_at_once():
    """Of every option that takes an address, by every program, with what is accepted."""
    what = "names are not looked up"
    with Cluster(nodes=1, gateway_args=("--min-replicas", "1")) as c:
        good = c.addresses[0]
        for name in ("tcp://nosuch:7201", "tcp://nosuch", "verbs://nosuch:1", "tcp://1.2.3:4"):
            for argv in (serve_words(c, [good, name]), gateway_words(c, [good, name], "--create"),
                         gateway_words(c, [name], "--recover")):
                expect_error(run_argv(argv, check_rc=False), "--node", name, what, codes=(2,))
            expect_error(run_argv(gateway_words(c, [good], "--port", name), check_rc=False),
                         "--port", name, what, codes=(2,))
            expect_error(run("cleave-storage", "--disk", c.disk(0), "--listen", name,
                             check_rc=False), "--listen", name, what, codes=(2,))
            agent = ("--all", "--listen", "unix:" + os.path.join(c.folder, "nbd"))
            for argv in (("cleave-agent", "--gateway", name, *agent),
                         ("cleave-load", "--gateway", name, "--volume", "v"),
                         ("cleave", "--gateway", name, "status")):
                expect_error(run(*argv, check_rc=False), "--gateway", name, what, codes=(2,))
        expect_error(run_argv(serve_words(c, ["tcp://127.0.0.1:0"]), check_rc=False), "--node",
                     "port 0", codes=(2,))
        expect_error(run_argv([binary("cleave"), "status"], check_rc=False,
                              env={**os.environ, "CLEAVE_GATEWAY": "tcp://nosuch:1"}),
                     "CLEAVE_GATEWAY", "nosuch", what, codes=(2,))
        expect_error(run("cleave-agent", "--all", "--listen", "tcp://nosuch:1", check_rc=False),
                     "--listen tcp://nosuch:1", "no such host", codes=(1,))


main(names_are_refused_at_once)
