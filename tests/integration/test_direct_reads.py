#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A volume is read at its nodes, past the gateway, by a real client: counted there, right whatever dies or changes."""
import contextlib
import json
import os
import re
import subprocess
import urllib.request

from libcluster import WAIT_S, Cluster, check, expect_error, lacking, main, wait_for
from libkeys import Authority, Keyed
from libload import Load
from libmetrics import metrics_address
from test_bit_flip import flip

METRICS = ("--metrics", "127.0.0.1:0")
STAMP_BYTES = 64  # or fewer
TRUSTED = {"node_args": ("--direct", "trusted", *METRICS), "gateway_args": ["--log-bytes", "2M"],
           "disk_size": "512M"}


def node_reads(node):
    """Reads of clients that it has served, since it was started; 0: it is away."""
    if node.process is None:
        return 0
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{metrics_address(node)}/metrics", timeout=WAIT_S) as reply:
        return int(re.search(r"^cleave_storage_direct_reads_total\S* (\d+)", reply.read().decode(), re.M).group(1))


def wait_reads(c, count=100, nodes=None):
    """Until so many further reads were made at nodes, or at these."""
    nodes = nodes or c.nodes
    before = sum(node_reads(node) for node in nodes)
    wait_for(lambda: sum(node_reads(node) for node in nodes) >= before + count, "nothing is read at nodes")


def shown(c, name="v"):
    return re.search(r"^reads +(.*)$", c.cleave("volume", "show", name).stdout, re.M).group(1)


def fill(c, name="v", reads="direct"):
    """A volume whose blocks lie in runs, most of them."""
    c.volume_create(name, "32M")
    c.load("--volume", name, "--operations", "8192", "--pattern", "sequential")
    if reads is not None:
        c.cleave("volume", "set", name, "--reads", reads)
    flushes = c.metric_of_all if len(c.gateways) > 1 else c.metric
    wait_for(lambda: flushes("flushes") > 0, "nothing is flushed")


def load_of(c, **options):
    return Load(c, size=None, **{"read_percent": 90, "in_flight": 16, **options})


@contextlib.contextmanager
def reader(c, *words, argv=None):
    """A load that somebody else will put out."""
    process = subprocess.Popen(argv or c.load_argv("--volume", "v", "--seconds", "600", "--read-percent", "90", "--quiet",
                                                   *words),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def is_put_out(process):
    text, _ = process.communicate(timeout=WAIT_S)
    check(process.returncode == 1 and " 0 mismatches" in text, f"exit {process.returncode}\n{text}")


def direct_reads_of(c):
    """Of a short load, how many were made at nodes."""
    path = os.path.join(c.folder, "report")
    c.load("--volume", "v", "--operations", "2000", "--read-percent", "100", "--writer", "--json", path)
    with open(path) as f:
        return json.load(f)["client"]["direct_reads"]


def it_is_set_read_so_and_shown():
    with Cluster(**TRUSTED) as c:
        fill(c, reads=None)
        check(shown(c) == "gateway", shown(c))
        c.cleave("volume", "set", "v", "--reads", "hot")
        check(shown(c) == "hot", shown(c))
        expect_error(c.cleave("volume", "set", "v", "--reads", "", check_rc=False), "--reads: '' is not one of gateway, hot, direct")
        expect_error(c.cleave("volume", "set", "v", "--iops", "5", "--force", check_rc=False), "--force: with --reads")
        c.cleave("volume", "set", "v", "--reads", "direct")
        check(shown(c) == "direct, at nodes 1, 2, 3", shown(c))
        listed = [json.loads(line) for line in c.cleave("--json", "events").stdout.splitlines()]
        check("volume-reads v" in [f"{e['code']} {e['object']}" for e in listed], f"{listed}")
        with load_of(c, read_percent=95):
            wait_reads(c)
            wait_for(lambda: c.metric("direct_reads") > 0, "the gateway is not told")
            wait_for(lambda: top(c).get("direct_s", 0) > 0, "top does not show them")
            expect_error(c.cleave("volume", "set", "v", "--reads", "gateway", check_rc=False), "in use by")
        # A volume with limits is read at its gateway, and says so.
        said = c.cleave("volume", "set", "v", "--iops", "100000", "--reads", "direct")
        check("at gateways now: it has limits" in said.stderr, said.stderr)
        check("it has limits" in shown(c), shown(c))
        c.cleave("volume", "set", "v", "--iops", "off", "--reads", "gateway")
        check(shown(c) == "gateway", shown(c))


def top(c):
    volumes = json.loads(c.cleave("--json", "top", "--once", "--interval", "200ms").stdout)["volumes"]
    return next((v for v in volumes if v["volume"] == "v"), {})


def gateways_and_nodes_are_killed():
    with Cluster(gateways=2, **TRUSTED) as c:
        fill(c)
        with load_of(c) as load:
            wait_reads(c)
            for gateway in c.gateways:
                gateway.kill()
                load.wait_writes(100)
                wait_reads(c)
                gateway.start()
                load.wait_writes(100)
            for node in c.nodes[:2]:
                node.kill()
                load.wait_writes(100)
                wait_reads(c)
                node.start()
                load.wait_writes(100)
                wait_reads(c, 1, [node])  # it is asked again, once it has been left out for a while
            wait_reads(c)


def the_volume_changes_under_its_reader():
    with Cluster(**TRUSTED) as c:
        fill(c)
        with load_of(c) as load:
            wait_reads(c)
            c.cleave("snapshot", "create", "v@s")
            load.wait_writes(100)
            c.cleave("volume", "resize", "v", "--size", "48M")
            wait_reads(c)
            c.cleave("snapshot", "delete", "v@s")
            load.wait_writes(100)
            wait_reads(c)
        # What is there now comes back, whatever is written behind it; who reads meanwhile is put out.
        c.cleave("snapshot", "create", "v@t")
        with reader(c) as process:
            wait_reads(c)
            expect_error(c.cleave("snapshot", "rollback", "v@t", check_rc=False), "in use by")
            c.cleave("snapshot", "rollback", "v@t", "--force")
            is_put_out(process)
        c.load("--verify-journal", load.journal, "--volume", "v")
        with reader(c) as process:
            wait_reads(c)
            c.cleave("volume", "set", "v", "--reads", "gateway", "--force")
            is_put_out(process)
        check(direct_reads_of(c) == 0, "it is read at nodes all the same")


def another_client_takes_the_volume():
    with Cluster(gateways=2, **TRUSTED) as c:
        fill(c)
        with reader(c) as process:
            wait_reads(c)
            journal = os.path.join(c.folder, "taken")
            c.load("--volume", "v", "--take", "--operations", "2000", "--read-percent", "50", "--journal", journal)
            is_put_out(process)
        c.load("--verify-journal", journal, "--volume", "v")


def with_keys_and_sealed_connections():
    with Authority() as a, Keyed(a, **{**TRUSTED, "node_args": ("--direct", "on", *METRICS)}) as c:
        fill(c)
        check(shown(c) == "direct, at nodes 1, 2, 3", shown(c))
        with load_of(c):
            wait_reads(c)
        c.cleave("user", "add", "db", "v:rw")
        argv = c.load_argv_as(a.issue("client/db"), "--volume", "v", "--seconds", "600", "--read-percent", "90", "--quiet")
        with reader(c, argv=argv) as process:
            wait_reads(c)
            c.cleave("user", "set", "db", "--disable")
            is_put_out(process)


def where_all_sign_nothing_is_read_there_and_that_is_said():
    signed = {**TRUSTED, "node_args": ("--direct", "on", "--security", "sign", *METRICS),
              "gateway_args": [*TRUSTED["gateway_args"], "--security", "sign"]}
    with Authority() as a, Keyed(a, **signed) as c:
        for node in c.nodes:
            check(node.count_lines("--direct on with --security sign: no client reads here unless gateways run") == 1,
                  "it began silently")
        fill(c, reads=None)
        said = c.cleave("volume", "set", "v", "--reads", "direct")
        check("at gateways now: no node's tickets can be made" in said.stderr, said.stderr)
        c.nodes[0].wait_line("audit: refused, a gateway without a key, or whose connection is signed only")
        check(direct_reads_of(c) == 0, "somebody reads there")


def an_address_that_clients_do_not_reach_is_told():
    """Gateways reach the node at another one, and see nothing of connections that are refused there."""
    with Cluster(**{**TRUSTED, "node_args": (*TRUSTED["node_args"], "--advertise", "tcp://127.0.0.1:1")}) as c:
        fill(c)
        wait_for(lambda: c.health()[0] == "OK", f"{c.health()}")
        with load_of(c, read_percent=95):
            wait_for(lambda: {reason[:2] for reason in c.health()[1]} ==
                     {("address-unreached", f"node {i}") for i in (1, 2, 3)}, "nobody is told")
            said = c.cleave("status", check_rc=False).stdout
            check("is at tcp://127.0.0.1:1, where" in said and "--advertise" in said, said)
            # Mended: over as soon as a node says another address, and not when the word is old.
            for i, node in enumerate(c.nodes, 1):
                node.stop()
                at = node.argv.index("--advertise")
                node.argv[at:at + 2] = []
                node.start()
                wait_for(lambda: not {("address-unreached", f"node {i}"), ("node-down", f"node {i}")} &
                         {reason[:2] for reason in c.health()[1]}, "it is said still")


def nodes_that_take_no_clients_are_missed():
    with Cluster(gateway_args=TRUSTED["gateway_args"], disk_size="512M") as c:
        fill(c, reads=None)
        said = c.cleave("volume", "set", "v", "--reads", "direct")
        check("no node takes clients (cleave-storage --direct)" in said.stderr, said.stderr)
        with load_of(c) as load:
            load.wait_writes(100)


def what_is_read_there_is_stored_for_its_readers():
    with Cluster(**TRUSTED) as c:
        fill(c)
        before = c.metric("hot_merges")
        argv = c.load_argv("--volume", "v", "--seconds", "600", "--read-percent", "100", "--writer", "--quiet")
        with reader(c, argv=argv):
            wait_reads(c)
            wait_for(lambda: c.metric("direct_heated") > 0, "the gateway is not told of what")
            wait_for(lambda: c.metric("hot_merges") > before, "nothing is merged for those who read")
            wait_reads(c)  # and they read on


def marked(number):
    """A block that is found on a disk by what it has behind the load's stamp; it does not compress."""
    mark = b"a block that may go bad %06d " % number
    return bytes(STAMP_BYTES) + mark + os.urandom(4096 - STAMP_BYTES - len(mark))


def places_of_some(path):
    """The file offsets of one block in a hundred, in the log and in runs."""
    with open(path, "rb") as f:
        return [found.start() for found in re.finditer(rb"a block that may go bad \d{4}00 ", f.read())]


def a_bad_copy_is_told_and_made_anew():
    with Cluster(**{**TRUSTED, "disk_size": "256M"}) as c:
        path = os.path.join(c.folder, "data")
        with open(path, "wb") as f:
            f.write(b"".join(map(marked, range(4096))))
        c.volume_create("v", "16M", "--engine", "none")
        c.load("--volume", "v", "--operations", "4096", "--pattern", "sequential", "--data", path)
        c.cleave("volume", "set", "v", "--reads", "direct")
        wait_for(lambda: c.metric("index_blocks") < 1024, "nothing is flushed")
        argv = c.load_argv("--volume", "v", "--seconds", "600", "--read-percent", "100", "--writer", "--quiet",
                           "--data", path)
        with reader(c, argv=argv) as process:
            wait_reads(c, 1000)
            for at in places_of_some(c.disk(0)):
                flip(c.disk(0), at + 1000)
            c.gateway.wait_line("a client says that a copy is bad, which will be verified node=1 ")
            wait_for(lambda: c.metric("copies_damaged") > 0, "it was not verified")
            wait_for(lambda: c.metric("copies_made") > 0 and lacking(c) == 0, "it was not made anew")
            wait_reads(c, 1000)
            process.terminate()
            text, _ = process.communicate(timeout=WAIT_S)
            check(process.returncode == 0, text)


if __name__ == "__main__":
    main(it_is_set_read_so_and_shown, gateways_and_nodes_are_killed, the_volume_changes_under_its_reader,
         another_client_takes_the_volume, with_keys_and_sealed_connections,
         where_all_sign_nothing_is_read_there_and_that_is_said, an_address_that_clients_do_not_reach_is_told,
         nodes_that_take_no_clients_are_missed,
         what_is_read_there_is_stored_for_its_readers, a_bad_copy_is_told_and_made_anew)
