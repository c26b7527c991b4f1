#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `cleave status` says of each fault, and after how long; and that it says nothing where nothing is wrong."""
import json
import os
import re
import signal
import subprocess
import time

from libcluster import Cluster, binary, check, main, run_argv, wait_for
from libetcd import Etcd
from libload import Load

ARGS = ("--lease-ms", "3000", "--node-timeout", "1s", "--repair-after", "600s")


class Said:
    """The seconds from a fault until the status has its reason, printed as rows of the handbook's table."""

    def __init__(self, c):
        self.c, self.health = c, None
        self.told = {}  # (code, object): events of it so far

    def has(self, level, code, obj, *words):
        self.health = self.c.health()
        return self.health[0] == level and any(
            (code, obj) == reason[:2] and all(word in reason[2] for word in words)
            for reason in self.health[1])

    def after(self, fault, level, code, obj, *words):
        begun = time.monotonic()
        try:
            wait_for(lambda: self.has(level, code, obj, *words), f"{level} {code} of {obj}")
        except Exception:
            print(f"  {fault}: it said {self.health}")
            raise
        print(f"  {fault}: {level} {code} after {time.monotonic() - begun:.1f} s", flush=True)
        if code != "gateway-silent":  # no gateway knows that
            wait_for(lambda: self.is_event(level, code, obj), f"an event of {code} of {obj}")
            print(f"  {fault}: its event after {time.monotonic() - begun:.1f} s", flush=True)

    def is_event(self, level, code, obj):
        """One more than the last time."""
        count = sum(e["code"] == f"health-{level.lower()}" and e["object"] == obj and
                    e["text"].startswith(f"health: {code}: ") for e in events(self.c))
        if count <= self.told.get((code, obj), 0):
            return False
        self.told[code, obj] = count
        return True

    def well(self, what):
        begun = time.monotonic()
        wait_for(lambda: self.c.health() == ("OK", []), what)
        print(f"  {what}: OK after {time.monotonic() - begun:.1f} s", flush=True)


def gateway_object(number):
    return f"gateway {number:016x}"


def status(c, *words):
    return c.cleave("status", *words, check_rc=False)


def nodes_that_die_stop_or_are_put_away():
    with Cluster(gateways=2, shards=4, gateway_args=ARGS) as c, Load(c) as load:
        said = Said(c)
        said.well("a cluster that was started")
        load.wait_writes(300)
        result = status(c)
        check(result.stdout.startswith("HEALTH OK\n\n"), result.stdout)
        check(status(c, "--quiet").stdout == "" and result.returncode == 0, "it is well")
        c.nodes[2].kill()
        said.after("a node is killed", "WARN", "node-down", "node 3", "refused")
        # Its gateway begins new extents on two nodes as soon as it has heard of it.
        wait_for(lambda: said.has("WARN", "domains-few", "cluster", "2 of 3"), "domains-few")
        wait_for(lambda: said.has("WARN", "copies-lack", gateway_object(1)), "copies-lack")
        result = status(c, "--quiet")
        check((result.returncode, result.stdout, result.stderr) == (1, "", ""), f"{result}")
        load.wait_writes(300)
        c.nodes[1].kill()
        said.after("a second one is killed", "ERROR", "nodes-few", "cluster", "1 of 3 nodes are up")
        said.after("and writes wait", "ERROR", "nodes-few", gateway_object(1), "volume 'v'")
        result = status(c)
        check(result.returncode == 2 and result.stdout.startswith("HEALTH ERROR\nERROR nodes-few: "),
              result.stdout)
        check(result.stdout.count("-> start the nodes that are down") == 1, result.stdout)
        for index in (1, 2):
            c.start_node(index, listen=c.addresses[index])
        load.wait_writes(300)
        said.well("both are back")
        wait_for(lambda: any(e["code"] == "health-over" and "nodes-few" in e["text"] and
                             e["object"] == "cluster" for e in events(c)), "it is not over")
        c.nodes[0].signal(signal.SIGSTOP)
        said.after("a node is stopped", "WARN", "node-down", "node 1")
        c.nodes[0].signal(signal.SIGCONT)
        said.well("it goes on")
        c.cleave("node", "set", "2", "--maintenance", "1h")
        said.after("a node is in maintenance", "WARN", "node-maintenance", "node 2", "and up")
        c.cleave("node", "set", "2", "--maintenance", "off")
        said.well("it is in none")


def a_node_that_stops_is_found_although_nobody_writes():
    with Cluster(gateway_args=ARGS) as c:
        said = Said(c)
        said.well("an idle cluster")
        c.nodes[1].signal(signal.SIGSTOP)
        said.after("a node is stopped", "WARN", "node-down", "node 2")
        c.nodes[1].signal(signal.SIGCONT)
        said.well("it goes on")


def gateways_that_die_or_stop():
    """On an etcd: in a directory the other one takes the shards of a dead process over at once."""
    with Etcd(1) as etcd, Cluster(gateways=2, shards=4, meta=etcd.place, gateway_args=ARGS) as c:
        said = Said(c)
        said.well("two gateways")
        c.gateways[1].signal(signal.SIGSTOP)
        said.after("a gateway is stopped", "ERROR", "gateway-silent", gateway_object(2),
                   "no answer in time")
        c.gateways[1].signal(signal.SIGCONT)
        said.well("it goes on")
        c.gateways[1].kill()
        said.after("a gateway is killed", "ERROR", "gateway-silent", gateway_object(2), "refused")
        said.after("its lease is over, and the other one has its shards", "WARN", "gateway-lost",
                   gateway_object(2), "had shards and is gone (it has ended, stands still or is cut off)")
        lines = [e for e in events(c) if e["code"] == "gateway-lost"]
        check(len(lines) == 1 and lines[0]["object"] == gateway_object(2), f"{lines}")
        c.gateways[1].start()
        c.gateways[1].wait_ready()
        said.well("it is back")
        c.cleave("gateway", "drain", "2", "--wait")
        check(c.gateways[1].stop() == 0, "it did not stop well")
        said.well("it has left")
        check(any(e["code"] == "gateway-left" for e in events(c)), "nobody says that it has left")
        c.gateways[0].kill()
        for words in ((), ("--json",)):
            result = status(c, *words)
            check(result.returncode == 2, f"{result}")
            check("no-gateway" in result.stdout, result.stdout)
            check("refused" in result.stderr, result.stderr)
        result = status(c, "--quiet")
        check((result.returncode, result.stdout, result.stderr) == (2, "", ""), f"{result}")


def a_store_that_is_moved_away():
    """Under a gateway that runs: it serves, and nobody could start it again."""
    with Cluster(gateway_args=ARGS) as c:
        said = Said(c)
        said.well("a store in a directory")
        os.rename(c.meta, c.meta + ".moved")
        said.after("its directory is moved", "ERROR", "store-displaced", "metadata store",
                   f"it was moved or deleted: {c.meta}/data.mdb")
        os.rename(c.meta + ".moved", c.meta)
        said.well("it is put back")


def a_disk_that_is_moved_away():
    """Under a node that runs: it serves, and could not start again."""
    with Cluster(gateway_args=ARGS) as c:
        said = Said(c)
        said.well("disks in files")
        # Nobody uses the cluster: its gateway looks at its nodes all the same.
        os.rename(c.disk(1), c.disk(1) + ".moved")
        c.nodes[1].wait_line("no longer found by its path")
        c.gateway.wait_line("health: node-displaced: node 2")
        check(said.has("ERROR", "node-displaced", "node 2", "its path"), "node-displaced")
        os.rename(c.disk(1) + ".moved", c.disk(1))
        c.nodes[1].wait_line("it is found by its path again")
        said.well("it is put back")


def a_store_that_stops():
    """The lease is long: nothing is lost before the store goes on."""
    with Etcd(1) as etcd, Cluster(meta=etcd.place, gateway_args=("--lease-ms", "12000", "--gateway-id", "1")) as c:
        said = Said(c)
        said.well("a cluster with an etcd")
        etcd.processes[0].send_signal(signal.SIGSTOP)
        try:
            said.after("the metadata store is stopped", "WARN", "store-slow", gateway_object(1))
            said.after("for most of a lease", "ERROR", "lease-low", gateway_object(1))
        finally:
            etcd.processes[0].send_signal(signal.SIGCONT)
        said.well("it goes on")


def disks_that_fill():
    with Cluster(disk_size="96M", slot_size="1M") as c:
        said = Said(c)
        said.well("small disks")
        total = c.cleave("--json", "status")
        room = json.loads(total.stdout)["health"]["room"]
        check(room["data_free"] <= room["data_total"] < room["raw_total"] / 3, f"{room}")
        c.volume_create("v", "1G", "--engine", "none")
        load = subprocess.Popen(c.load_argv("--volume", "v", "--pattern", "sequential", "--bytes",
                                            "256M", "--block-size", "64K", "--in-flight", "32"),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            load.wait(timeout=300)
        finally:
            load.kill()
            load.wait()
        check(load.returncode == 1, "it was not told that there is no room")
        said.after("disks are full", "ERROR", "room-end", "cluster", "of the room for data is in use")
        # The volume is named, and counted; the events have it once.
        told = json.loads(status(c, "--json").stdout)["health"]["no_room"]["v"]
        check(told["refused"] > 0 and told["last_ms"] < 600000, f"{told}")
        check("writes refused" in status(c).stdout, "status does not tell")
        check(told["refused"] == c.metric("writes_refused_room"), f"{told}")
        refused = [e for e in events(c) if e["code"] == "volume-refused"]
        check(len(refused) == 1 and refused[0]["object"] == "v", f"{refused}")
        columns = [line.split() for line in c.cleave("node", "list").stdout.splitlines()]
        check(all(row[6] == "0" for row in columns if row and row[0].isdigit()), f"{columns}")


class Uneven(Cluster):
    """The third disk is smaller than the others."""

    def format(self, index, extra=(), check_rc=True):
        self.disk_size = "96M" if index == 2 else "320M"
        return super().format(index, extra, check_rc)


def one_disk_of_three_that_fills():
    with Uneven(slot_size="1M", gateway_args=ARGS) as c:
        said = Said(c)
        said.well("one disk is small")
        c.volume_create("v", "1G", "--engine", "none")
        argv = ("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--quiet")
        result = c.load(*argv, "--bytes", "256M", "--in-flight", "32", check_rc=False, timeout_s=300)
        check(result.returncode == 1, "it was not told that there is no room")
        said.after("it is full", "ERROR", "room-end", "cluster", "node 3 is full, and others have room")
        check(said.has("ERROR", "node-full", "node 3"), f"{said.health}")
        c.cleave("node", "set", "3", "--maintenance", "4h")
        c.load(*argv, "--bytes", "16M")
        wait_for(lambda: {"node-maintenance", "copies-lack"} <= {r[0] for r in c.health()[1]},
                 "it is told that copies lack")
        c.cleave("node", "set", "3", "--maintenance", "off")
        c.cleave("volume", "delete", "v", "--purge")
        said.well("there is room, and copies are made good")


def events(c):
    result = c.cleave("events", "--json")
    return [json.loads(line) for line in result.stdout.splitlines()]


def what_happened_is_kept():
    with Cluster(gateways=2, shards=4, gateway_args=ARGS) as c:
        Said(c).well("two gateways")
        c.volume_create("v", "64M")
        c.load("--volume", "v", "--operations", "100")
        c.cleave("snapshot", "create", "v@s")
        c.cleave("clone", "v@s", "w")
        c.cleave("volume", "rename", "w", "x")
        c.cleave("volume", "resize", "x", "--size", "128M")
        c.cleave("snapshot", "rollback", "v@s")
        c.cleave("volume", "delete", "x", "--purge")
        c.cleave("snapshot", "delete", "v@s")
        c.cleave("node", "set", "2", "--note", "here")
        follow = subprocess.Popen([binary("cleave"), *c.gateway_words(), "events", "--follow"],
                                  stdout=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: "node-changed" in follow.stdout.readline(), "what was before")
            c.nodes[2].kill()
            wait_for(lambda: "node-lost: node 3: lost " in follow.stdout.readline(), "a node is lost")
            c.start_node(2, listen=c.addresses[2])
            wait_for(lambda: "node-up: node 3: link up " in follow.stdout.readline(), "it is back")
        finally:
            follow.kill()
            follow.wait()
        found = events(c)
        check(any('changed note="here" (was "")' in e["text"] for e in found), "what of the node was changed")
        check([e["age_ms"] for e in found] == sorted((e["age_ms"] for e in found), reverse=True),
              "they are not in order of time")
        # Two gateways' events of the same millisecond may change places.
        again = {(e["gateway"], e["number"]): e["time"] for e in events(c)}
        check(all(again[e["gateway"], e["number"]] == e["time"] for e in found), "times differ from look to look")
        check(all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", e["time"]) for e in found), found[0])
        said = [(e["code"], e["object"]) for e in found]
        acts = ["volume-created v", "volume-opened v", "snapshot-taken v", "volume-created w",
                "volume-renamed x", "volume-resized x", "volume-rolled-back v", "volume-deleted x",
                "snapshot-deleted v", "node-changed node 2"]
        for act in acts:
            lines = [e for e in found if f"{e['code']} {e['object']}" == act]
            check(len(lines) == 1, f"{act}: {lines} of {said}")
            check(re.fullmatch(r"cleave(-load)?\[\d+\]@\S+", lines[0]["by"]), f"{lines}")
            check(lines[0]["from"].startswith("tcp://127.0.0.1:"), f"{lines}")
            check(lines[0]["text"].endswith(f' by="{lines[0]["by"]}" from={lines[0]["from"]}'), f"{lines}")
        for number in (1, 2):
            for code in ("lease-got", "gateway-ready", "shard-served"):
                check(any(e["code"] == code and e["gateway"] == f"{number:016x}" for e in found),
                      f"gateway {number}: no {code}")
        check(("node-lost", "node 3") in said and ("node-up", "node 3") in said, f"{said}")
        lines = c.cleave("events").stdout.splitlines()
        # More may have happened: of health, what ends when the node is back.
        check(len(lines) >= len(found) and " WARN  node-lost: node 3: lost " in "\n".join(lines), lines)
        c.gateways[1].kill()
        result = c.cleave("events")
        check("shard-served" in result.stdout, result.stdout)


def what_is_not_there_and_what_is_older():
    with Cluster() as c:
        result = run_argv([binary("cleave"), *c.gateway_words(), "status", "--check"], check_rc=False)
        check(result.returncode == 2 and "takes no --check" in result.stderr, result.stderr)
        result = run_argv([binary("cleave"), *c.gateway_words(), "volume", "list", "--quiet"],
                          check_rc=False)
        check(result.returncode == 2 and "takes no --quiet" in result.stderr,
              result.stderr)
        counters = status(c, "--counters").stdout
        check("\nstate        serving\n" in counters and "host_bytes_in" in counters, counters)
        check("host_bytes_in" not in status(c).stdout, "counters are not asked for")


if __name__ == "__main__":
    main(nodes_that_die_stop_or_are_put_away, a_node_that_stops_is_found_although_nobody_writes,
         gateways_that_die_or_stop, a_store_that_is_moved_away, a_disk_that_is_moved_away, a_store_that_stops,
         disks_that_fill, one_disk_of_three_that_fills, what_happened_is_kept, what_is_not_there_and_what_is_older)
