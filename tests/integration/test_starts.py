#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A start that cannot succeed says why, once, and what to do; and ends, where nothing can change that."""
import os
import re
import socket
import subprocess
import time

import libcluster
from libagent import Agent
from libkeys import Authority
from libcluster import (CLUSTER_ID, Cluster, Daemon, Nodes, binary, check, expect_error, main, run,
                        run_argv, small_disks, wait_for)


def words(option, values):
    return [word for value in values for word in (option, value)]


def gateway_words(c, nodes, *extra, meta="meta"):
    return [binary("cleave-gateway"), "--meta", os.path.join(c.folder, meta), "--cluster-id",
            CLUSTER_ID, *words("--node", nodes), *extra]


def serve_words(c, nodes, *extra, meta="meta"):
    return gateway_words(c, nodes, "--port", "tcp://127.0.0.1:0", *extra, meta=meta)


def addresses_that_make_no_sense_are_refused_at_once():
    """Of every option that takes an address, by every program, with what is accepted."""
    what = "with HOST a name, an IPv4 address, or an IPv6 address in brackets"
    with Cluster(nodes=1, gateway_args=("--min-replicas", "1")) as c:
        good = c.addresses[0]
        for name in ("tcp://no..such:7201", "tcp://nosuch", "verbs://no/such:1", "tcp://1.2.3:4"):
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
                              env={**os.environ, "CLEAVE_GATEWAY": "tcp://nosuch"}),
                     "CLEAVE_GATEWAY", "nosuch", what, codes=(2,))
        expect_error(run_argv(gateway_words(c, [good], "--port",
                                            "tcp://0.0.0.0:0,advertise=0.0.0.0:0"),
                              check_rc=False), "--port", "advertise", "every machine", codes=(2,))
        expect_error(run("cleave-agent", "--all", "--listen", "tcp://nosuch:1", check_rc=False),
                     "--listen tcp://nosuch:1", "no such host", codes=(1,))


def an_agent_serves_nobody_else_whom_it_does_not_know():
    """By an address or a socket of systemd's, which is judged when it is opened; a word says that it may."""
    what = ("other hosts reach it", "--tls-certificates", "--listen-open")
    with Cluster(nodes=1, gateway_args=("--min-replicas", "1")) as c, socket.socket() as open_one:
        agent = ("cleave-agent", "--gateway", c.address, "--all")
        psk = os.path.join(c.folder, "psk")
        with open(psk, "w") as f:
            f.write("alice:" + "5a" * 32 + "\n")
        open_one.bind(("0.0.0.0", 0))
        open_one.listen()
        # TLS that asks nobody for a certificate, or is left to clients, keeps nobody out.
        for words in ((), ("--tls-certificates", c.folder), ("--tls-psk", psk, "--tls-optional"),
                      ("--tls-certificates", c.folder, "--tls-verify-peer", "--tls-optional")):
            for listen in ("tcp://0.0.0.0:0", "tcp://[::]:0"):
                expect_error(run(*agent, *words, "--listen", listen, check_rc=False), "--listen", re.escape(listen), *what,
                             codes=(2,))
        expect_error(run(*agent, "--listen", "tcp://:0", check_rc=False), "--listen", *what)
        expect_error(run(*agent, "--tls-psk", psk, "--tls-optional", "--listen", "tcp://:0", check_rc=False), "--listen",
                     *what)
        argv = ["bash", "-c", f'LISTEN_FDS=1 LISTEN_PID=$$ exec "$@" 3<&{open_one.fileno()}', "bash",
                binary(agent[0]), *agent[1:]]
        result = subprocess.run(argv, pass_fds=[open_one.fileno()], stdin=subprocess.DEVNULL, text=True, timeout=60,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        expect_error(result, "LISTEN_FDS", *what, codes=(1,))
        with Agent(c, "--all", "--listen", "tcp://0.0.0.0:0", "--listen-open") as told:
            told.wait_line("ready listen=tcp://0.0.0.0")
        with Agent(c, "--all", "--listen", "tcp://0.0.0.0:0", "--tls-psk", psk) as known:
            known.wait_line("ready listen=tcp://0.0.0.0")


def an_etcd_in_the_clear_is_told():
    """Of a gateway with a key alone, for which whoever writes the store is a hole; and not of its own host."""
    told = "the metadata store is open: .* address=tcp://192.0.2.1:2379: .*etcds://"
    with Authority() as authority:
        for place, is_told in (("etcd://127.0.0.1:1,192.0.2.1:2379", True), ("etcds://192.0.2.1:2379", False),
                               ("etcd://127.0.0.1:1,localhost:1", False)):
            gateway = Daemon("gateway", [binary("cleave-gateway"), "--meta", place, "--cluster-id", CLUSTER_ID, "--port",
                                         "tcp://127.0.0.1:0", "--key", authority.issue("gateway/1")]).start(wait=False)
            try:
                gateway.wait_line("has a key")
                check(gateway.count_lines(told) == int(is_told), f"{place}: {gateway.lines}")
            finally:
                gateway.kill()


def too_few_domains_are_refused_at_once():
    with Nodes(nodes=3) as c:
        one, two = [f"{a},domain=a" for a in c.addresses], c.addresses[0]
        run_argv(gateway_words(c, c.addresses, "--create"))
        # Three nodes that fail together, and one alone: the default wants two that fail apart.
        for nodes in (one, [two]):
            result = run_argv(serve_words(c, nodes), check_rc=False)
            expect_error(result, "--node", "are of 1,", "--min-replicas 2", "domain=NAME",
                         codes=(2,))
            check(len(result.stderr.splitlines()) == 1, f"said more than once:\n{result.stderr}")
        # Two domains serve, and the gateway says once what is missing.
        gateway = Daemon("gateway", serve_words(c, [one[0], one[1], c.addresses[2]])).start()
        gateway.stop()
        check(gateway.count_lines("2 failure domains hold 2 copies") == 1, "not said once")


def node_of_another_cluster_is_named_by_both():
    other = "c1ea7e0000000002"
    with Nodes(nodes=3) as c:
        c.nodes[2].stop()
        run("cleave-storage", "format", "--disk", c.disk(2), "--force", "--size", c.disk_size,
            "--slot-size", c.slot_size, "--cluster-id", other, "--node-id", "3")
        c.nodes[2].start()
        wrong = c.addresses[2]
        result = run_argv(gateway_words(c, c.addresses, "--create", "--node-timeout", "5s"),
                          check_rc=False)
        expect_error(result, wrong, f"of cluster {other}, not {CLUSTER_ID}", codes=(1,))
        run_argv(gateway_words(c, c.addresses[:2], "--create"))
        gateway = Daemon("gateway", serve_words(c, c.addresses)).start(wait=False)
        try:
            line = gateway.wait_line("is of another cluster")
            for word in (wrong, f"of cluster {other}, not {CLUSTER_ID}", "--cluster-id",
                         "formatted anew"):
                check(word in line, f"no '{word}' in {line}")
            c.nodes[2].wait_line(f"refused, it is of another cluster .*cluster_id={CLUSTER_ID} "
                                 f"ours={other}")
            address = gateway.wait_ready().split("port=")[1].split()[0]
            told = f"node at {wrong}: the peer refused: it is of cluster {other}"
            wait_for(lambda: told in run("cleave", "--gateway", address, "status", check_rc=False).stdout,
                     f"no status says '{told}'")  # one leaves a port out that has not answered within a second
            # It has knocked some more times since then.
            refused = [line for line in c.nodes[2].lines if "refused" in line]
            check(len(refused) == 1, f"the node says it again and again: {refused}")
            check(gateway.count_lines("another cluster") == 1, "said again and again")
        finally:
            gateway.stop()


def two_nodes_with_one_number_are_named():
    with Nodes(nodes=4) as c:
        c.nodes[3].stop()
        run("cleave-storage", "format", "--disk", c.disk(3), "--force", "--size", c.disk_size,
            "--slot-size", c.slot_size, "--cluster-id", CLUSTER_ID, "--node-id", "2")
        c.nodes[3].start()
        wrong = ("node 2: found at two addresses", c.addresses[1], c.addresses[3], "--node-id")
        expect_error(run_argv(gateway_words(c, c.addresses, "--create"), check_rc=False), *wrong, codes=(1,))
        run_argv(gateway_words(c, c.addresses[:3], "--create"))
        # With fewer nodes than --min-replicas it cannot serve before it has heard both.
        for i in (0, 2):
            c.nodes[i].stop()
        result = run_argv(serve_words(c, c.addresses, "--port", "tcp://127.0.0.1:0"),
                          check_rc=False)
        expect_error(result, *wrong, codes=(1,))
        check(result.stderr.count("two addresses") == 1, f"not said once:\n{result.stderr}")
        for i in (0, 2):
            c.nodes[i].start()
        # While it serves, the one that was there first stays.
        c.nodes[3].stop()
        gateway = Daemon("gateway", serve_words(c, c.addresses)).start()
        c.nodes[3].start()
        line = gateway.wait_line("node 2: found at two addresses")
        check(c.addresses[3] in line, line)
        check(gateway.stop() == 0, "it has ended")


def disks_that_are_too_small_are_named():
    with Nodes(nodes=3, disk_size="60M") as c:  # 14 slots of 4M
        disk = os.path.join(c.folder, "small")
        words = ("format", "--disk", disk, "--cluster-id", CLUSTER_ID, "--node-id", "9")
        large = ("--slot-size", "64M")
        expect_error(run("cleave-storage", *words, *large, "--size", "256M", check_rc=False),
                     "3 slots of 67108864 bytes are too few", "one shard takes 6", "--slot-size",
                     codes=(1,))
        check(not os.path.exists(disk), "it is left behind")
        result = run("cleave-storage", *words, *large, "--size", "512M")
        for word in ("7 slots are too few for the 8 shards", "48 slots", "--shards 1 or less"):
            check(word in result.stderr, f"no '{word}' in {result.stderr}")
        result = run("cleave-storage", *words, "--size", "512M", "--slot-size", "4M", "--force")
        check(result.stderr == "", result.stderr)
        for word in ("127 slots", "8 shards", "48 of them", "201326592", "15 are kept",
                     "268435456 bytes remain for data, 50 %"):
            check(word in result.stdout, f"no '{word}' in {result.stdout}")
        # Where nobody says another slot size, little of a small disk is no data's: at most a quarter from 1G on.
        for size in ("1G", "2G", "4G", "8G", "10G"):
            os.remove(disk)
            said = run("cleave-storage", *words, "--size", size).stdout
            percent = int(re.search(r"remain for data, (\d+) %", said).group(1))
            check(75 <= percent < 100, f"{size}: {said}")
        numbers = ("have 42 slots in all", "8 shards in 3 copies take 144", "larger disks",
                   "--slot-size", "--shards")
        expect_error(run_argv(gateway_words(c, c.addresses, "--create"), check_rc=False),
                     *numbers, codes=(1,))
        check(not os.path.exists(os.path.join(c.folder, "meta")), "a cluster was made")
        made = run_argv(gateway_words(c, c.addresses, "--create", "--shards", "2"))
        check("data_bytes=" in made.stderr + made.stdout, f"what remains is not said: {made.stderr}")
        gateway = Daemon("gateway", serve_words(c, c.addresses)).start()
        gateway.stop()
        # A cluster whose disks were replaced by smaller ones.
        for i in range(3):
            c.nodes[i].stop()
            c.disk_size = "30M"
            c.format(i, extra=("--force",))
            c.nodes[i].start()
        result = run_argv(serve_words(c, c.addresses), check_rc=False)
        expect_error(result, "have 21 slots in all", "2 shards in 3 copies take 36", codes=(1,))
        check(result.stderr.count("slots in all") == 1, f"not said once:\n{result.stderr}")



class Manager:
    """A service manager's socket; what daemons tell it, in order."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(libcluster.WAIT_S)

    def start(self, name, argv):
        os.environ["NOTIFY_SOCKET"] = self.path
        try:
            return Daemon(name, argv).start(wait=False)
        finally:
            del os.environ["NOTIFY_SOCKET"]

    def wait(self, pattern):
        """All that was told until something matches; the last one does."""
        told, end = [], time.monotonic() + libcluster.WAIT_S
        while not told or not re.search(pattern, told[-1], re.S):
            check(time.monotonic() < end, f"never told '{pattern}': {told[-5:]}")
            told.append(self.socket.recv(4096).decode())
        return told


def a_start_that_waits_tells_what_for():
    with Nodes(nodes=3) as c:
        run_argv(gateway_words(c, c.addresses, "--create"))
        for node in c.nodes[1:]:
            node.stop()
        manager, argv = Manager(c.folder), serve_words(c, c.addresses, "--node-timeout", "1s")
        wanted = "nodes that are not up: .*" + c.addresses[1] + ".*" + c.addresses[2]
        gateway = manager.start("gateway", argv)
        told = manager.wait("^STATUS=.*" + wanted)
        check(not any("READY=1" in text for text in told), f"ready without nodes: {told}")
        # No more time is asked for once nothing goes on, and the log says once what is waited for.
        gateway.wait_line("gateway: waits: .*" + wanted)
        manager.wait("^STATUS=.*" + wanted)
        # As systemd does when its patience is over; and then it starts the daemon again.
        check(gateway.stop() == 0, "it ended badly")
        check(gateway.count_lines("ended before it served all its shards: .*" + wanted) == 1,
              "the log does not say what it waited for")
        check(gateway.count_lines("gateway: waits:") == 1, "said more than once")
        gateway = manager.start("gateway", argv)
        manager.wait("^STATUS=.*" + wanted)
        for node in c.nodes[1:]:
            node.start()
        manager.wait("^READY=1$")
        manager.wait("^STATUS=serves$")
        gateway.wait_ready()
        check(gateway.stop() == 0, "it ended badly")
        check(gateway.count_lines("ended before") == 0, "it has served")


small_disks()
main(addresses_that_make_no_sense_are_refused_at_once, an_agent_serves_nobody_else_whom_it_does_not_know, an_etcd_in_the_clear_is_told, too_few_domains_are_refused_at_once,
     node_of_another_cluster_is_named_by_both, two_nodes_with_one_number_are_named,
     disks_that_are_too_small_are_named, a_start_that_waits_tells_what_for)
