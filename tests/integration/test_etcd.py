#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gateways that share an etcd: a load goes on whatever is killed; what cannot work is told in one line."""
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from libcluster import CLUSTER_ID, Cluster, Daemon, Failure, binary, check, expect_error, main, run_argv, wait_for
from libetcd import Etcd
from libload import Load

# Shorter than users may have it: the gateways of test builds take it.
LEASE_MS = 3000
FAST = ("--lease-ms", str(LEASE_MS), "--node-timeout", "1s")


def two_gateways(etcd, **options):
    return Cluster(gateways=2, shards=4, meta=etcd.place, gateway_args=FAST, **options)


def gateways_are_killed_in_turn():
    with Etcd(1) as etcd, two_gateways(etcd) as c, Load(c) as load:
        load.wait_writes(2000)
        for index in (0, 1, 0):
            c.gateways[index].kill()
            took_s = load.wait_writes(1)
            print(f"  first write {took_s:.2f} s after kill -9, with a lease of {LEASE_MS / 1000} s")
            load.wait_writes(2000)
            c.gateways[index].start()
            load.wait_writes(2000)


def gateway_that_was_killed_has_its_id_back_at_once():
    """Its claim lies under a lease of ten minutes: it is the host that says that it is dead."""
    with Etcd(1) as etcd, Cluster(gateways=1, meta=etcd.place, gateway_args=(
            "--gateway-id", "1", "--lease-ms", "600000")) as c:
        for _ in range(3):
            c.gateway.kill()
            c.gateway.start().wait_ready()


def gateway_leaves_in_good_order():
    with Etcd(1) as etcd, two_gateways(etcd) as c, Load(c) as load:
        load.wait_writes(2000)
        c.gateways[0].stop()
        load.wait_writes(2000)
        c.gateways[0].start()
        load.wait_writes(2000)


def members_are_killed_and_stopped_in_turn():
    """A lease outlives an election; one that does not is got again, and no write is lost."""
    with Etcd(3) as etcd, two_gateways(etcd) as c, Load(c) as load:
        load.wait_writes(2000)
        for index in range(3):
            etcd.kill(index)
            load.wait_writes(2000)
            etcd.run(index)
            etcd.wait_healthy(index)
        for index in range(3):
            etcd.signal(index, signal.SIGSTOP)
            load.wait_writes(2000)
            etcd.signal(index, signal.SIGCONT)
            etcd.wait_healthy(index)
        load.wait_writes(2000)


def etcd_is_gone_for_longer_than_a_lease():
    """All shards stop, and go on when it is back."""
    with Etcd(1) as etcd, two_gateways(etcd) as c, Load(c) as load:
        load.wait_writes(2000)
        seen = [len(gateway.lines) for gateway in c.gateways]
        etcd.kill(0)
        for gateway, line in zip(c.gateways, seen):
            gateway.wait_line("lost its lease", from_line=line)
        etcd.run(0)
        etcd.wait_healthy(0)
        load.wait_writes(4000)


def recover(c):
    words = [binary("cleave"), "recover", "--meta", c.meta, "--cluster-id", CLUSTER_ID]
    return run_argv(words + [word for address in c.addresses for word in ("--node", address)],
                    check_rc=False)


def recovered(c, journal):
    """The store is made from what nodes know, and all that was acknowledged is there."""
    done = recover(c)
    check(done.returncode == 0, done.stderr)
    for gateway in c.gateways:
        gateway.start(wait=False)
    for gateway in c.gateways:
        gateway.wait_ready()
    c.load("--verify-journal", journal, "--volume", "v")


def backup_from_before_a_take_over_is_recovered_from():
    """Nodes know better than the store: nobody serves what it says, and nothing is lost."""
    with Etcd(1) as etcd, two_gateways(etcd) as c:
        with Load(c) as load:
            load.wait_writes(2000)
            file = etcd.snapshot("backup")
            c.gateways[0].kill()
            load.wait_writes(2000)
        etcd.restore(file)
        c.gateways[1].wait_line("the metadata store is stale.*cleave recover")
        # A backup has the dead as they were; their leases end while somebody sees it.
        wait_for(lambda: "/k/gateways/1\n" not in etcd.ctl("get", "--prefix", "--keys-only", "/"),
                 "the first gateway's lease does not end")
        c.gateways[1].stop()
        recovered(c, load.journal)


def backup_from_before_a_volume_under_gateways_that_run_loses_nothing():
    """HANDBOOK forbids it. The nodes alone know of the volume: the gateways end before they forget it, and it is recovered."""
    with Etcd(1) as etcd, two_gateways(etcd) as c:
        c.volume_create("u", "64M")
        file = etcd.snapshot("backup")
        # Chunks of all shards: both gateways know of it, and a copy for the nodes comes before any that is made later.
        with Load(c, size="2G") as load:
            load.wait_writes(2000)
        etcd.restore(file)
        # Who has shard 0 ends; then who takes it over.
        for gateway in c.gateways:
            gateway.wait_exit()
            check(gateway.count_lines("the metadata store is stale: .*recover") > 0, f"{gateway.name} does not say why")
        recovered(c, load.journal)


def an_etcd_that_was_restored_is_refused_until_it_is_accepted():
    """It is another etcd, with the content of before: as a copy of a directory is."""
    with Etcd(1) as etcd, Cluster(gateways=1, meta=etcd.place,
                                  gateway_args=("--gateway-id", "1", *FAST)) as c:
        c.volume_create("v", "64M")
        journal = os.path.join(c.folder, "journal")
        c.load("--volume", "v", "--operations", "500", "--journal", journal)
        c.gateway.stop()
        etcd.kill(0)
        etcd.run(0)
        etcd.wait_all()
        c.gateway.start().wait_ready()  # the same one
        c.gateway.stop()
        etcd.restore(etcd.snapshot("backup"), token="another")
        for _ in range(2):
            result = run_argv(c.gateway.argv, check_rc=False)
            expect_error(result, f"{etcd.place} is a copy", "restored from a snapshot", "original still runs",
                         "--accept-copy", "cleave recover", codes=(1,))
            check("claimed" not in result.stdout + result.stderr, "it has claimed a shard")
        text = run_argv([*c.gateway.argv, "--accept-copy"]).stderr
        check("WARN" in text and etcd.place in text, text)
        check("nothing to accept" in run_argv([*c.gateway.argv, "--accept-copy"]).stderr, "it is not its place")
        c.gateway.start().wait_ready()
        c.load("--verify-journal", journal, "--volume", "v")


def what_cannot_work_is_told():
    with Etcd(1, ["--bcrypt-cost", "4"]) as etcd, Cluster(gateways=1, meta=etcd.place,
                                  gateway_args=("--gateway-id", "1", *FAST)) as c:
        argv = list(c.gateway.argv)

        def refused(place, *patterns, extra=(), code=1, drop_id=False):
            words = [*argv, *extra]
            words[words.index("--meta") + 1] = place
            words[words.index("--port") + 1] = "tcp://127.0.0.1:0"
            if drop_id:
                at = words.index("--gateway-id")
                del words[at:at + 2]
            expect_error(run_argv(words, check_rc=False), *patterns, codes=(code,))

        def all_refused(*cases):
            """Beside each other: each waits for a while before it gives up."""
            with ThreadPoolExecutor() as pool:
                for done in [pool.submit(refused, *words) for words in cases]:
                    done.result()

        members = etcd.place.removeprefix("etcd://")
        refused("etcd://host", "HOST:PORT", code=2)
        refused("http://host:2379", "etcd://HOST:PORT", code=2)
        refused(etcd.place, "--gateway-id", code=2, drop_id=True)
        refused(etcd.place, "etcds://", extra=("--meta-ca", "/dev/null"), code=2)
        refused(etcd.place, "--meta-password-file", extra=("--meta-user", "me"), code=2)
        with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            all_refused((f"etcd://{members}/elsewhere", "holds no cluster", "--create"),
                        # Another process is this gateway.
                        (etcd.place, "gateway 1 runs already: gateway 1 on ", "--gateway-id of its own"),
                        ("etcd://127.0.0.1:1", "does not answer", "onnect"),
                        (f"etcd://127.0.0.1:{server.server_port}", "this is no etcd", "HTTP 501"))
            server.shutdown()
        # Users: none was named, then a wrong one.
        c.gateway.stop()
        for words in (("user", "add", "root:secret"), ("user", "grant-role", "root", "root"),
                      ("auth", "enable")):
            etcd.ctl(*words)
        refused(etcd.place, "refuses us", "--meta-user")
        password = os.path.join(c.folder, "password")
        with open(password, "w", encoding="ascii") as file:
            file.write("wrong\n")
        refused(etcd.place, "refuses us", "user root",
                extra=("--meta-user", "root", "--meta-password-file", password))
        with open(password, "w", encoding="ascii") as file:
            file.write("secret\n")
        named = Daemon("gateway", [*argv, "--meta-user", "root", "--meta-password-file", password])
        named.start().wait_ready()
        named.stop()
        os.unlink(password)
        refused(etcd.place, password, extra=("--meta-user", "root", "--meta-password-file", password))


def a_member_that_ends_is_told_at_once():
    etcd = Etcd(1, ["--auth-token", "no-such-token"])
    try:
        etcd.__enter__()
    except Failure as failure:
        check("has ended" in str(failure) and "auth" in str(failure), failure)
    else:
        check(False, "it runs")


def a_port_that_was_taken_meanwhile_is_another_one():
    """One that clients ask, or other members."""
    for members, taken in ((1, "ports"), (3, "peer_ports")):
        with socket.create_server(("127.0.0.1", 0)) as other:
            etcd = Etcd(members)
            port = getattr(etcd, taken)[-1] = other.getsockname()[1]
            with etcd:
                check(port not in etcd.ports + etcd.peer_ports, etcd.ports)
                etcd.ctl("put", "key", "value")
                check("value" in etcd.ctl("get", "key"), "it is not there")


def an_etcd_at_the_same_port_is_not_taken_for_its_own():
    with Etcd(1) as other:
        etcd = Etcd(1)
        etcd.ports[0] = other.ports[0]
        with etcd:
            check(etcd.ports[0] != other.ports[0], etcd.ports)


main(a_member_that_ends_is_told_at_once, a_port_that_was_taken_meanwhile_is_another_one,
     an_etcd_at_the_same_port_is_not_taken_for_its_own, gateways_are_killed_in_turn,
     gateway_that_was_killed_has_its_id_back_at_once, gateway_leaves_in_good_order,
     members_are_killed_and_stopped_in_turn, etcd_is_gone_for_longer_than_a_lease,
     backup_from_before_a_take_over_is_recovered_from, backup_from_before_a_volume_under_gateways_that_run_loses_nothing, an_etcd_that_was_restored_is_refused_until_it_is_accepted,
     what_cannot_work_is_told)
