#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots of several volumes at one point in time, of real daemons: a log and data, while gateways are killed.

That it holds across volumes whatever happens is proved in tests/sim/grouper.c; each refusal is in
tests/unit/middletier/cluster/test_snapshot_group.c."""
import json
import os
import subprocess
import time

from libcluster import BUILD, Cluster, binary, check, expect_error, main, run_argv, skip, wait_for

CLIENT = os.path.join(BUILD, "tests", "pair_client")
GROUPS, KILLS = 6, 3


class Pair:
    """The program that writes to log, and then to data; `acked` is the number that both have."""

    def __init__(self, c):
        self.gateways = ",".join(c.gateway_words()[1::2])
        self.process = subprocess.Popen([CLIENT, "write", self.gateways], stdout=subprocess.PIPE,
                                        text=True)
        self.acked = 0

    def wait(self, count):
        """Until so many more are acknowledged."""
        for _ in range(count):
            line = self.process.stdout.readline()
            check(line, f"pair_client ended: {self.process.poll()}")
            self.acked = int(line)

    def newest(self, snapshot):
        """Of log and data, in the snapshots."""
        done = run_argv([CLIENT, "check", self.gateways, snapshot], check_rc=False)
        check(done.returncode == 0, f"{snapshot}: {done.stdout} {done.stderr}")
        return [int(word) for word in done.stdout.split()]

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.kill()
        self.process.communicate()


def listed(c):
    """By name without the volume's: the groups of log's and data's snapshots."""
    found = {}
    for entry in json.loads(c.cleave("--json", "snapshot", "list").stdout)["snapshots"]:
        found.setdefault(entry["name"], {})[entry["volume"]] = entry.get("group")
    return found


def data_is_never_ahead_of_its_log():
    if not os.path.exists(CLIENT):
        skip(f"{CLIENT} has not been built")
    with Cluster(nodes=3, shards=8, gateways=3) as c:
        for name in ("log", "data"):
            c.volume_create(name, "512M")
        with Pair(c) as pair:
            pair.wait(50)
            for i in range(GROUPS):
                before = pair.acked
                out = c.cleave("snapshot", "create", f"log@g{i}", f"data@g{i}").stdout
                check(out == f"log@g{i}: taken\ndata@g{i}: taken\n", out)
                log, data = pair.newest(f"g{i}")
                check(data >= before, f"g{i}: {before} was acknowledged, and data has {data}")
                pair.wait(20)
        for name, volumes in listed(c).items():
            check(len(volumes) == 2 and volumes["log"] is not None and
                  volumes["log"] == volumes["data"], f"{name}: {volumes}")
        # Each goes by itself.
        group = listed(c)["g1"]["data"]
        c.cleave("snapshot", "delete", "log@g1")
        check(listed(c)["g1"] == {"data": group}, listed(c))
        shown = c.cleave("volume", "show", "data@g1").stdout
        check(f"group, of one point in time  {group}" in shown, shown)
        events = c.cleave("events").stdout
        check(f"taken: g1 of volume log group={group}" in events, events)


def all_of_them_or_none_when_the_gateway_dies():
    """The gateway that was asked is killed at some moment while it takes them."""
    if not os.path.exists(CLIENT):
        skip(f"{CLIENT} has not been built")
    with Cluster(nodes=3, shards=8, gateways=3) as c:
        for name in ("log", "data"):
            c.volume_create(name, "512M")
        with Pair(c) as pair:
            pair.wait(20)
            for i in range(KILLS):
                process = subprocess.Popen(
                    c.at_client([binary("cleave"), "--gateway", c.gateway_addresses[i],
                                 "snapshot", "create", f"log@k{i}", f"data@k{i}"]),
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                pair.wait(i)  # some more each time: other moments
                c.gateways[i].kill()
                process.communicate()
                c.gateways[i].start()
                pair.wait(20)  # whatever was held is answered
            # A shard may be on its way to another owner still.
            wait_for(lambda: c.cleave("snapshot", "create", "log@z", "data@z",
                                      check_rc=False).returncode == 0, "no snapshot again")
        for name, volumes in listed(c).items():
            check(len(volumes) == 2 and volumes["log"] == volumes["data"], f"{name}: {volumes}")
            pair.newest(name)


def one_that_cannot_be_is_in_the_way_of_all():
    with Cluster(nodes=3, gateways=1) as c:
        for name in ("a", "b"):
            c.volume_create(name, "64M")
        c.cleave("snapshot", "create", "b@s")
        expect_error(c.cleave("snapshot", "create", "a@s", "b@s", check_rc=False),
                     "volume 'b' has a snapshot 's' already", codes=(1,))
        expect_error(c.cleave("snapshot", "create", "a@t", "nope@t", check_rc=False),
                     "volume 'nope': no such volume", codes=(1,))
        expect_error(c.cleave("snapshot", "create", "a@t", "a@u", check_rc=False), "twice", codes=(1,))
        expect_error(c.cleave("snapshot", "create", "a@t", "b", check_rc=False),
                     "VOLUME@SNAPSHOT", codes=(1,))
        expect_error(c.cleave("snapshot", "create", *[f"v{i}@s" for i in range(33)], check_rc=False),
                     "at most 32 volumes", codes=(2,))
        check(set(listed(c)) == {"s"}, listed(c))


def several_are_rotated_together():
    with Cluster(nodes=3, gateways=1) as c:
        for name in ("a", "b"):
            c.volume_create(name, "64M")
            c.cleave("snapshot", "create", f"{name}@auto-2020-11-01T0100Z")
        told = json.loads(c.cleave("--json", "snapshot", "rotate", "a", "b", "--hourly", "1",
                                   "--dry-run").stdout)
        old = ["a@auto-2020-11-01T0100Z", "b@auto-2020-11-01T0100Z"]
        check(told["deleted"] == old and len(listed(c)) == 1, f"{told}")
        told = json.loads(c.cleave("--json", "snapshot", "rotate", "a", "b", "--hourly", "1").stdout)
        check(told["deleted"] == old and told["kept"] == [f"{name}@{told['taken']}" for name in "ab"],
              f"{told}")
        check(list(listed(c)) == [told["taken"]], listed(c))
        volumes = listed(c)[told["taken"]]
        check(volumes["a"] is not None and volumes["a"] == volumes["b"], volumes)
        # One of them has this minute's already, by itself: the other's would be of another moment.
        c.volume_create("c", "64M")
        now = time.time()
        for later in (0, 60):
            name = time.strftime("auto-%Y-%m-%dT%H%MZ", time.gmtime(now + later))
            c.cleave("snapshot", "create", f"c@{name}")
            c.cleave("snapshot", "delete", f"a@{name}", check_rc=False)
        expect_error(c.cleave("snapshot", "rotate", "a", "c", "--hourly", "1", check_rc=False),
                     "was not taken", codes=(1,))
        expect_error(c.cleave("snapshot", "rotate", *(f"v{i}" for i in range(33)), "--hourly", "1",
                              check_rc=False), "at most 32 volumes", codes=(2,))


if __name__ == "__main__":
    main(data_is_never_ahead_of_its_log, all_of_them_or_none_when_the_gateway_dies,
         one_that_cannot_be_is_in_the_way_of_all, several_are_rotated_together)
