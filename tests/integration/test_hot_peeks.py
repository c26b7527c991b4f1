#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients read hot blocks out of real gateways' memory, one-sidedly over TCP, and never what is old."""
import contextlib
import json
import os
import re
import signal
import subprocess

from libcluster import WAIT_S, Cluster, check, expect_error, main, owner_and_heir, wait_for
from libkeys import Authority, Keyed
from libload import Load

HOT = ["--hot-bytes", "16M"]
SIZE = "8M"


def hot_count(load):
    """What a load says that it has read past its gateways until now."""
    return max(map(int, re.findall(r"  hot (\d+)$", load.output(), re.M)), default=0)


def wait_hot(load, count=200):
    """Until it has read so many further blocks there."""
    before = hot_count(load)
    wait_for(lambda: hot_count(load) >= before + count or load.process.poll() is not None, "nothing is hot")
    check(load.process.poll() is None, f"the load has ended\n{load.output()}")


def load_of(c):
    """Of few writes, or nothing is left in the table: what was written lately is in memory anyway."""
    return Load(c, "--progress", "100ms", "--rate", "4000", size=None, in_flight=16, read_percent=99)


def fill(c, reads="hot"):
    """A volume of which nothing is in gateways' memory any more: what is read is on the nodes."""
    c.volume_create("v", SIZE)
    c.cleave("volume", "set", "v", "--reads", reads)
    c.load("--volume", "v", "--operations", "2048", "--pattern", "sequential")
    for gateway in c.gateways:
        gateway.kill()
    for gateway in c.gateways:
        gateway.start()


def shown(c):
    return re.search(r"^reads +(.*)$", c.cleave("volume", "show", "v").stdout, re.M).group(1)


def reads_of(c):
    """Of a short load, each block checked: how many were read past the gateway."""
    path = os.path.join(c.folder, "report")
    c.load("--volume", "v", "--operations", "8000", "--in-flight", "16", "--read-percent", "100", "--writer",
           "--pattern", "zipf", "--json", path)
    with open(path) as f:
        return json.load(f)["client"]["hot_reads"]


@contextlib.contextmanager
def reader(c, *words):
    """A load that somebody else will put out; and the file that it talks to."""
    argv = c.load_argv("--volume", "v", "--seconds", "600", "--read-percent", "99", "--progress", "100ms", "--rate",
                       "4000", *words)
    said = os.path.join(c.folder, "reader")
    with open(said, "w", encoding="utf-8") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)

    class Reader:
        def __init__(self):
            self.process = process

        def output(self):
            with open(said, encoding="utf-8") as text:
                return text.read()

        def is_put_out(self):
            check(process.wait(timeout=WAIT_S) == 1 and " 0 mismatches" in self.output(),
                  f"exit {process.returncode}\n{self.output()}")

    try:
        yield Reader()
    finally:
        process.kill()
        process.wait()


def top(c):
    return json.loads(c.cleave("--json", "top", "--once", "--interval", "100ms").stdout)["gateways"][0]


def it_is_set_read_so_and_shown():
    with Cluster(gateway_args=HOT) as c:
        fill(c)
        check(shown(c) == "hot", shown(c))
        with load_of(c) as load:
            wait_hot(load)
            wait_for(lambda: c.metric("hot_peeks") > 0, "the gateway hears of none")
            wait_for(lambda: top(c).get("hot_percent", 0) > 0, "top shows no hot blocks")
            expect_error(c.cleave("volume", "set", "v", "--reads", "gateway", check_rc=False), "in use by")
        # A volume with limits is read at its gateway, and says so.
        c.cleave("volume", "set", "v", "--iops", "100000")
        check(shown(c) == "hot, but at gateways now: it has limits", shown(c))
        check(reads_of(c) == 0, "one with limits is read past its gateway")
        c.cleave("volume", "set", "v", "--iops", "off", "--reads", "gateway")
        check(reads_of(c) == 0, "it is read past its gateway all the same")


def gateways_and_the_client_are_killed():
    with Cluster(gateways=2, gateway_args=HOT) as c:
        fill(c)
        with load_of(c) as load:
            wait_hot(load)
            for gateway in c.gateways:
                gateway.kill()
                load.wait_writes(20)
                wait_hot(load)
                gateway.start()
                load.wait_writes(20)
                wait_hot(load)
        journal = os.path.join(c.folder, "killed")
        with reader(c, "--journal", journal) as process:
            wait_hot(process)
            process.process.kill()
            process.process.wait()
        c.load("--verify-journal", journal, "--volume", "v")
        check(reads_of(c) > 0, "who comes behind it reads nothing past gateways")


def a_gateway_stands_still_for_longer_than_its_lease():
    """What it shows is old by then; awake again it must not be believed."""
    with Cluster(gateways=2, gateway_args=[*HOT, "--lease-ms", "3000"]) as c:
        fill(c)
        with load_of(c) as load:
            for _ in range(2):
                wait_hot(load)
                sleeper, heir, line = owner_and_heir(c)
                sleeper.signal(signal.SIGSTOP)
                try:
                    heir.wait_line("shard 0: serving", line)
                    load.wait_writes(20)
                finally:
                    sleeper.signal(signal.SIGCONT)
                load.wait_writes(20)
            wait_hot(load)


def the_volume_changes_under_its_reader():
    with Cluster(gateway_args=HOT) as c:
        fill(c)
        with load_of(c) as load:
            wait_hot(load)
            c.cleave("snapshot", "create", "v@s")
            load.wait_writes(20)
            c.cleave("volume", "resize", "v", "--size", "16M")
            wait_hot(load)
            c.cleave("snapshot", "delete", "v@s")
            load.wait_writes(20)
            wait_hot(load)
        # What is there now comes back, whatever is written behind it; who reads meanwhile is put out.
        c.cleave("snapshot", "create", "v@t")
        with reader(c) as process:
            wait_hot(process)
            expect_error(c.cleave("snapshot", "rollback", "v@t", check_rc=False), "in use by")
            c.cleave("snapshot", "rollback", "v@t", "--force")
            process.is_put_out()
        c.load("--verify-journal", load.journal, "--volume", "v")
        for _ in range(2):
            c.cleave("volume", "set", "v", "--reads", "hot")
            with reader(c) as process:
                wait_hot(process)
                c.cleave("volume", "set", "v", "--reads", "gateway", "--force")
                process.is_put_out()
            check(reads_of(c) == 0, "it is read past its gateway all the same")


def another_client_takes_the_volume():
    with Cluster(gateways=2, gateway_args=HOT) as c:
        fill(c)
        with reader(c) as process:
            wait_hot(process)
            journal = os.path.join(c.folder, "taken")
            c.load("--volume", "v", "--take", "--operations", "2000", "--read-percent", "50", "--journal", journal)
            process.is_put_out()
        c.load("--verify-journal", journal, "--volume", "v")


def where_it_comes_to_nothing_that_is_said():
    nothing = "hot, but at gateways now: connections have keys, or a port has less than 2 MiB of --hot-bytes"
    with Cluster(gateway_args=["--hot-bytes", "1M"]) as c:
        c.volume_create("v", SIZE)
        said = c.cleave("volume", "set", "v", "--reads", "hot")
        check(nothing in said.stderr and shown(c) == nothing, f"{said.stderr}{shown(c)}")
    with Authority() as a, Keyed(a, gateway_args=HOT) as c:
        fill(c)
        check(shown(c) == nothing, shown(c))
        check(reads_of(c) == 0, "who has a key reads past its gateway")


if __name__ == "__main__":
    main(it_is_set_read_so_and_shown, gateways_and_the_client_are_killed,
         a_gateway_stands_still_for_longer_than_its_lease, the_volume_changes_under_its_reader,
         another_client_takes_the_volume, where_it_comes_to_nothing_that_is_said)
