#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each fault that a test can make, and after how long it is told: by status, events, metrics, the page, the alert.

The rows that this prints, of options as they are by default, are HANDBOOK's table "How soon it is told". The codes are
checked as they stand; the times by a bound that only a machine in trouble reaches. The alert's expression is given what
the gateway tells, by promtool, and has to fire after its `for:`.
"""
import datetime
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

from libcluster import BUILD, Cluster, binary, check, main, run_argv, wait_for
from libetcd import Etcd
from libload import Load
from test_bit_flip import find_payloads, flip

BOUND_S = 20  # far above what is promised: 3 s
METRICS = ("--metrics", "127.0.0.1:0")
CHANNELS = ("status", "event", "metrics", "page")
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
fired = {}  # code: a series as the gateway told it, for promtool


def fetch(address, path, timeout=5):
    with OPENER.open(f"http://{address}{path}", timeout=timeout) as reply:
        return reply.read().decode()


class Watcher:
    """Looks at all that may tell, each in a thread of its own, from a fault on."""

    def __init__(self, c, gateway=0):
        self.c = c
        self.page = c.gateways[gateway].wait_line("metrics listen=").rsplit("tcp://", 1)[1]
        self.before = 0  # events of the code that there have been

    def events(self):
        lines = self.c.cleave("--json", "events", check_rc=False).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def events_of(self, code, event, obj):
        """When those of the event's code, or of the health's code where there is none, about the object were."""
        return [datetime.datetime.fromisoformat(e["time"].replace("Z", "+00:00")).timestamp() for e in self.events()
                if e["object"] == obj and (e["code"] == event if event else
                                           e["text"].startswith(f"health: {code}: "))]

    def look(self, channel, code, event, obj):
        """False, or when it was told: an event has its own time, since asking a gateway that is away takes a second."""
        try:
            if channel == "status":
                level, reasons = self.c.health()
                return any(r[:2] == (code, obj) for r in reasons) and level != "OK" and time.time()
            if channel == "event":
                times = self.events_of(code, event, obj)
                return len(times) > self.before and max(times)
            if channel == "page":
                told = json.loads(fetch(self.page, "/api/cluster"))["health"]["reasons"]
                return any((r["code"], r["object"]) == (code, obj) for r in told) and time.time()
            name = f'cleave_gateway_health_reasons{{code="{code}"'
            for line in fetch(self.page, "/metrics").splitlines():
                if line.startswith(name) and float(line.split()[-1]) > 0:
                    fired[code] = line.rsplit(" ", 1)[0]
                    return time.time()
        except (OSError, ValueError):
            pass  # it does not answer now
        return False

    def after(self, fault, act, code, obj, event=None, event_obj=None):
        """A row of the table. `act` makes the fault. `event`, `event_obj`: of another code, and another object."""
        channels = CHANNELS
        event_obj = event_obj or obj
        self.before = len(self.events_of(code, event, event_obj))
        act()
        begun, took = time.time(), {}

        def watch(channel):
            while time.time() - begun < BOUND_S:
                told = self.look(channel, code, event, event_obj if channel == "event" else obj)
                if told:
                    took[channel] = max(told - begun, 0)
                    return
                time.sleep(0.05)  # between looks

        threads = [threading.Thread(target=watch, args=(channel,)) for channel in channels]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said = self.c.health()[1]
        row = [f"{took[c]:.1f} s" if c in took else "-" for c in CHANNELS]
        print(f"| {fault} | `{code}` | {' | '.join(row)} |", flush=True)
        missing = [c for c in channels if c not in took]
        check(not missing, f"{fault}: {missing} did not say {code} of {obj} in {BOUND_S} s; status: {said}")

    def spread(self):
        """Each gateway has shards, and is known to the others."""
        def is_so():
            found = json.loads(self.c.cleave("--json", "gateway", "list").stdout)["gateways"]
            return [g["shards_owned"] for g in found] == [2, 2]

        wait_for(is_so, "shards are not shared")

    def open_events(self):
        """Reasons that were told as events, and are not over yet."""
        found = set()
        for event in self.events():
            words = event["text"].split()
            if event["code"] in ("health-warn", "health-error"):
                found.add((event["gateway"], words[1].rstrip(":"), event["object"]))
            elif event["code"] == "health-over":
                found.discard((event["gateway"], words[1], event["object"]))
        return found

    def well(self, what):
        """Nothing is wrong, and the events say so, too: the next one of a code is another one."""
        wait_for(lambda: self.c.health() == ("OK", []) and not self.open_events(),
                 f"{what}: it is not well: {self.c.health()}")


def gateway_object(number):
    return f"gateway {number:016x}"


def restart_node(c, index, *words):
    """The same node, with other words; the moment when its disk begins to fail is the fault's."""
    if c.nodes[index].process is not None:
        c.nodes[index].kill()
    kept = c.node_args
    c.node_args = [*kept, *words]
    c.start_node(index, listen=c.addresses[index])
    c.node_args = kept
    if words:
        c.nodes[index].wait_line("the fail point is reached")


def nodes():
    with Cluster(gateways=2, shards=4, gateway_args=METRICS, is_proxied=True) as c, Load(c) as load:
        told = Watcher(c)
        load.wait_writes(300)
        told.well("it was started")
        told.after("a node is killed", c.nodes[2].kill, "node-down", "node 3")
        told.after("two of three nodes are killed", c.nodes[1].kill, "nodes-few", "cluster")
        for index in (1, 2):
            c.start_node(index, listen=c.addresses[index])
        told.well("both are back")
        load.wait_writes(300)
        told.after("a node is stopped", lambda: c.nodes[0].signal(signal.SIGSTOP), "node-down", "node 1")
        c.nodes[0].signal(signal.SIGCONT)
        told.well("it goes on")
        load.wait_writes(300)
        told.after("the link to a node is cut", c.proxies[1].hold, "node-down", "node 2")
        c.proxies[1].release()
        told.well("it is whole")


def disks():
    with Cluster(shards=4, gateway_args=METRICS) as c:
        told = Watcher(c)
        with Load(c) as load:
            load.wait_writes(300)
            told.well("it was started")
            told.after("a disk is slow", lambda: restart_node(c, 1, "--fail-point", "slow-write=20"), "node-slow",
                       "node 2")
            restart_node(c, 1)
            told.well("it is as fast as others")
            load.wait_writes(300)
            told.after("a disk takes no more writes",
                       lambda: restart_node(c, 0, "--fail-point", "failall-flush=10"), "node-read-only", "node 1")


def rot():
    # The copy is made anew in some eight seconds: at the rate that is usual it would be there before anybody looks.
    with Cluster(shards=1, gateway_args=[*METRICS, "--gateway-id", "1", "--repair-rate", "128K"]) as c:
        told = Watcher(c)
        c.volume_create("v", "16M", "--engine", "none")
        data = b"".join(os.urandom(4096) for _ in range(256))
        path = os.path.join(c.folder, "data")
        with open(path, "wb") as f:
            f.write(data)
        c.load("--volume", "v", "--file-copy", path)
        told.well("it was written")

        def act():
            blocks = range(0, 256, 16)
            for block, at in zip(blocks, find_payloads(c.disk(1), [data[b * 4096:b * 4096 + 64] for b in blocks])):
                check(at >= 0, f"block {block} is not on the disk")
                flip(c.disk(1), at + 1000)
            c.cleave("scrub")

        told.after("a block has rotted, and is verified", act, "copies-lack", gateway_object(1), event="copy-damaged",
                   event_obj="shard 0")


def second_opener():
    with Cluster(gateway_args=METRICS) as c:
        told = Watcher(c)
        told.well("it was started")
        argv = [binary("cleave-storage"), "--disk", c.disk(0), "--listen", "tcp://127.0.0.1:0"]
        begun = time.monotonic()
        result = run_argv(argv, check_rc=False)
        took = time.monotonic() - begun
        check(result.returncode != 0 and "in use" in result.stderr, result.stderr)
        print(f"| a second process opens a disk | it ends, and says so: {took:.1f} s | | | | |", flush=True)
        told.well("the first one has it still")


def gateways():
    """In an etcd: in a directory the others know of a death at once."""
    with Etcd(1) as etcd, Cluster(gateways=2, shards=4, meta=etcd.place, gateway_args=METRICS) as c, Load(c) as load:
        told = Watcher(c)
        load.wait_writes(300)
        told.spread()
        told.well("it was started")
        told.after("a gateway is stopped", lambda: c.gateways[1].signal(signal.SIGSTOP), "gateway-silent",
                   gateway_object(2))
        c.gateways[1].signal(signal.SIGCONT)
        told.spread()
        told.well("it goes on")
        load.wait_writes(300)
        told.after("a gateway is killed", c.gateways[1].kill, "gateway-silent", gateway_object(2))
        c.gateways[1].start()
        told.well("it is back")
        told.spread()
        told.after("the metadata store is stopped", lambda: etcd.signal(0, signal.SIGSTOP), "store-slow",
                   gateway_object(1))
        etcd.signal(0, signal.SIGCONT)
        told.well("it goes on")


CLOCK = """
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int
clock_gettime(clockid_t clock, struct timespec *now)
{
	long rc = syscall(SYS_clock_gettime, clock, now);

	if (clock == CLOCK_REALTIME)
		now->tv_sec += AHEAD;
	return (int)rc;
}
"""


def words_ahead(daemon, folder, seconds=5):
    """The same daemon, on a host whose clock on the wall is so far ahead, or behind: the C library is told so."""
    library = os.path.join(folder, f"clock{seconds}.so")
    with open(f"{library}.c", "w") as f:
        f.write(CLOCK.replace("AHEAD", f"({seconds})"))
    run_argv(["cc", "-shared", "-fPIC", "-o", library, f"{library}.c"])
    # What a sanitizer brings may come behind it.
    return ["env", f"LD_PRELOAD={library}", "ASAN_OPTIONS=verify_asan_link_order=0", *daemon.argv]


def restart_ahead(daemon, folder):
    argv = words_ahead(daemon, folder)
    daemon.kill()
    daemon.start(argv=argv)


def clocks():
    with Cluster(gateways=2, shards=4, gateway_args=METRICS) as c, Load(c) as load:
        told = Watcher(c)
        load.wait_writes(300)
        told.spread()
        told.well("it was started")
        told.after("a node's clock is 5 s ahead", lambda: restart_ahead(c.nodes[2], c.folder), "clocks-apart",
                   "node 3")
        c.nodes[2].kill()
        c.nodes[2].start()
        told.well("the clock is right")
        told.after("a gateway's clock is 5 s ahead", lambda: restart_ahead(c.gateways[1], c.folder), "clocks-apart",
                   gateway_object(2))
        c.gateways[1].kill()
        c.gateways[1].start()
        told.well("that one is right, too")


def scrub():
    """Nodes verify too little a second for what is there: no pass over all copies ends in two intervals."""
    with Cluster(gateway_args=(*METRICS, "--scrub-interval", "3s"), node_args=("--verify-rate", "64K")) as c:
        c.volume_create("v", "64M")
        told = Watcher(c)
        told.well("it was started")
        told.after("nodes are too slow to verify what is there", lambda: c.load(
            "--volume", "v", "--pattern", "sequential", "--bytes", "32M", "--block-size", "64K", "--compressibility", "0",
            "--in-flight", "8", "--quiet"), "scrub-late", f"gateway {c.status()['gateway']}")


def etcd_member():
    with Etcd(3) as etcd, Cluster(meta=etcd.place, gateways=2, gateway_args=METRICS) as c, Load(c) as load:
        told = Watcher(c)
        load.wait_writes(300)
        told.well("it was started")
        follower = (etcd.leader() + 1) % 3
        told.after("a member of the etcd is killed", lambda: etcd.kill(follower), "store-member", "metadata store")
        check(etcd.addresses()[follower] in c.health()[1][0][2], f"it is not named: {c.health()}")
        etcd.run(follower)
        told.well("it is back")
        told.after("a member of the etcd is stopped", lambda: etcd.signal(follower, signal.SIGSTOP), "store-member",
                   "metadata store")
        etcd.signal(follower, signal.SIGCONT)
        told.well("it goes on")


def store_replaced():
    with Cluster(gateway_args=METRICS) as c:
        told = Watcher(c)
        told.well("it was started")

        def act():
            os.rename(c.meta, c.meta + ".old")
            shutil.copytree(c.meta + ".old", c.meta)

        told.after("the metadata store is replaced", act, "store-displaced", "metadata store")
        shutil.rmtree(c.meta)
        os.rename(c.meta + ".old", c.meta)
        told.well("it is put back")


def full():
    with Cluster(disk_size="96M", slot_size="1M", gateway_args=METRICS) as c:
        told = Watcher(c)
        told.well("it was started")
        c.volume_create("v", "1G", "--engine", "none")

        def act():
            result = c.load("--volume", "v", "--pattern", "sequential", "--bytes", "256M", "--block-size", "64K",
                            "--in-flight", "32", check_rc=False, timeout_s=300)
            check(result.returncode == 1, "it was not told that there is no room")

        told.after("disks are full: a write is refused", act, "room-end", "cluster")


def alert_of(code):
    return "Cleave" + "".join(word.capitalize() for word in code.split("-"))


def alerts():
    """What the gateways told makes the alert of its code fire, and nothing else does."""
    if shutil.which("promtool") is None or not fired:
        print("  no promtool, or no fault: the alerts are not looked at")
        return
    rules = os.path.join(BUILD, "middletier", "cleave.rules.yml")
    series = {code: f'{line[:-1]},instance="gw"}}' for code, line in fired.items()}
    tests = []
    for code, name in sorted(series.items()):
        others = [alert_of(other) for other in series if other != code]
        tests.append({
            "interval": "15s",
            "input_series": [{"series": name, "values": "1x20"}] +
                            [{"series": 'cleave_gateway_uptime_seconds{instance="gw"}', "values": "1x20"}],
            "promql_expr_test": [],
            "alert_rule_test": [{"eval_time": "2m", "alertname": other, "exp_alerts": []} for other in others]})
        done = run_promtool(rules, [tests[-1]])
        check(done.returncode == 0, done.stdout + done.stderr)
        # One that expects no alert of the code has to fail.
        tests[-1]["alert_rule_test"] = [{"eval_time": "2m", "alertname": alert_of(code), "exp_alerts": []}]
        done = run_promtool(rules, [tests[-1]])
        check(done.returncode != 0 and alert_of(code) in done.stdout + done.stderr, f"{code}: no alert fires")
        print(f"  {alert_of(code)} fires", flush=True)


def run_promtool(rules, tests):
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as f:
        json.dump({"rule_files": [rules], "evaluation_interval": "15s", "tests": tests}, f)  # JSON is YAML
        f.flush()
        return subprocess.run(["promtool", "test", "rules", f.name], capture_output=True, text=True, check=False)


if __name__ == "__main__":
    main(nodes, disks, rot, scrub, second_opener, gateways, clocks, etcd_member, store_replaced, full, alerts)
