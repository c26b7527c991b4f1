#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests that take long: `cleave slow` and the log name the node, status and metrics have the times."""
import json
import re
import shutil
import signal
import urllib.request

from libcluster import Cluster, check, expect_error, main, run_argv, wait_for
from libload import Load

METRICS = ("--metrics", "127.0.0.1:0")


def slow(c, *words):
    lines = c.cleave("--json", "slow", *words).stdout.splitlines()
    return [json.loads(line) for line in lines]


def scrape(daemon):
    address = daemon.wait_line(r"metrics listen=").rsplit("tcp://", 1)[1]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{address}/metrics", timeout=60) as reply:
        return reply.read().decode()


def samples(text, name):
    """[({label: value}, number)] of one name."""
    found = []
    for labels, value in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE):
        found.append((dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)))
    return found


def value(text, name, **labels):
    return sum(number for has, number in samples(text, name) if labels.items() <= has.items())


def a_slow_disk_is_named():
    """Each write of node 2 takes 200 ms longer; without it no write is in the list."""
    words = ["--slow-op", "100ms", "--min-replicas", "3", *METRICS]
    with Cluster(gateway_args=words, node_args=METRICS) as c:
        c.volume_create("v", "64M")
        c.volume_create("w", "64M")
        address = c.addresses[1]
        c.nodes[1].stop()
        c.node_args = [*METRICS, "--fail-point", "slow-write=1"]
        c.start_node(1, listen=address)
        c.load("--volume", "v", "--operations", "8", "--in-flight", "2")

        def named():
            return [each for each in slow(c, "--volume", "v") if each.get("longest_node") == 2]
        wait_for(named, "node 2 is not named")
        entry = named()[-1]
        check(entry["op"] == "write" and entry["volume"] == "v" and entry["rc"] == 0, f"{entry}")
        check(len(entry["trace"]) == 16 and entry["bytes"] == 4096, f"{entry}")
        check(entry["hops_us"]["replicate"] >= 190000, f"{entry}")
        nodes = {each["node"]: each for each in entry["nodes"]}
        check(set(nodes) == {1, 2, 3}, f"{entry}")
        check(nodes[2]["write_us"] >= 190000 and nodes[2]["took_us"] >= 190000, f"{entry}")
        check(all(nodes[i]["took_us"] <= nodes[2]["took_us"] for i in (1, 3)), f"{entry}")
        line = c.gateway.wait_line(r"WARN slow: a write took \d+ ms volume=v .* longest=node2")
        check("replicate_ms=" in line, line)
        check(re.search(r"node2_ms=[\d.]+\(queue_us=\d+,write_us=\d+,flush_us=\d+\)", line), line)
        check([each["number"] for each in slow(c, "--trace", entry["trace"])] == [entry["number"]], "trace")
        check(slow(c, "--volume", "w") == [] and slow(c, "--trace", "0" * 16) == [], "nothing of others")
        text = c.cleave("slow").stdout
        check(re.search(r"write of 'v' took \d+\.\d ms at \d+, 4096 bytes", text), text)
        check(re.search(r"node 2 \d+\.\d ms <- longest \(its queue", text), text)
        ages = [each["age_ms"] for each in slow(c)]
        check(ages == sorted(ages, reverse=True), "oldest first")
        gateway, node = scrape(c.gateway), scrape(c.nodes[1])
        labels = {"op": "write", "class": "standard", "hop": "replicate"}
        bucket = "cleave_gateway_latency_seconds_bucket"
        check(value(gateway, bucket, **labels, le="0.1") < value(gateway, bucket, **labels, le="+Inf") == 8,
              "writes are in its buckets")
        check(value(gateway, "cleave_gateway_latency_seconds_sum", **labels) >= 4 * 0.19, "seconds")
        check(value(gateway, "cleave_gateway_node_latency_seconds_sum", node="2", op="append") >= 4 * 0.19,
              "by node")
        check(value(node, "cleave_storage_latency_seconds_sum", op="append", hop="write") >= 4 * 0.19,
              "the node counts it")


def a_node_that_stops_is_named_and_then_nothing_is_slow():
    with Cluster(nodes=4, gateway_args=["--slow-op", "250ms"]) as c, Load(c) as load:
        load.wait_writes(300)
        c.nodes[2].signal(signal.SIGSTOP)

        def is_lost(entry):
            """It did not answer; what was slow before has been answered, whoever was to blame."""
            return entry.get("longest_node") == 3 and any(
                each["node"] == 3 and each["took_us"] >= 250000 and each["lost"] for each in entry["nodes"])
        wait_for(lambda: any(is_lost(each) for each in slow(c)), "node 3 is not named")
        c.gateway.wait_line(r"slow: a write took .*longest=node3")
        c.nodes[2].signal(signal.SIGCONT)

        def lost():
            return {each["number"] for each in slow(c) if is_lost(each)}

        def is_answered_again():
            """A busy machine is slow still, for other reasons."""
            before = lost()
            load.wait_writes(200)
            return lost() <= before
        wait_for(is_answered_again, "it goes on, and writes wait for it still")


def nothing_is_slow_where_nothing_is():
    with Cluster(gateway_args=["--slow-op", "60s", *METRICS], node_args=METRICS, ports=2) as c:
        check(c.cleave("status", check_rc=False).stdout.count("none in the last minute") == 2, "an idle cluster")
        c.volume_create("v", "64M", "--service-class", "latency")
        # So few that they are of the last minute on any machine.
        c.load("--volume", "v", "--operations", "100")
        c.load("--volume", "v", "--operations", "100", "--read-percent", "100")
        check(slow(c) == [] and "no slow request" in c.cleave("slow").stdout, "something is slow")
        latency = c.status()["health"]["latency"]
        for op in ("write", "read"):
            check(latency[op]["count"] == 100, f"{latency}")
            check(0 < latency[op]["p50_us"] <= latency[op]["p99_us"], f"{latency}")
        text = c.cleave("status", check_rc=False).stdout
        check(len(re.findall(r"p50 [\d.]+ ms, p99 [\d.]+ ms, 100 in the last minute", text)) == 2, text)
        for daemon in (c.gateway, *c.nodes):
            check_by_promtool(scrape(daemon))
        told = scrape(c.gateway)
        count = "cleave_gateway_latency_seconds_count"
        for hop in ("park", "engine", "batch", "replicate", "total"):
            check(value(told, count, op="write", hop=hop) == 100, f"each write has {hop}")
        check(value(told, count, op="read", hop="total") == 100, "each read")
        check({has["class"] for has, _ in samples(told, count)} == {"standard", "latency"}, "classes in use")


def check_by_promtool(text):
    """It knows the older text, without the line # EOF, and objects to names: to these it must not."""
    if shutil.which("promtool") is None:
        print("  not by promtool: it is not installed")
        return
    kept = [line for line in text.splitlines(keepends=True) if "_latency_seconds" in line and "# UNIT" not in line]
    check(kept, "no histogram")
    done = run_argv(["promtool", "check", "metrics"], check_rc=False, stdin_text="".join(kept))
    check(done.returncode == 0, done.stdout + done.stderr)


def what_is_off_or_wrong():
    with Cluster(gateway_args=["--slow-op", "0s"]) as c:
        c.volume_create("v", "64M")
        c.load("--volume", "v", "--operations", "100")
        check(slow(c) == [], "it is off")
        expect_error(c.cleave("status", "--volume", "v", check_rc=False), "takes no --volume")
        expect_error(c.cleave("slow", "v", check_rc=False), "did not expect 'v'")
        c.gateway.stop()
        expect_error(c.cleave("slow", check_rc=False), "refused")


if __name__ == "__main__":
    main(a_slow_disk_is_named, a_node_that_stops_is_named_and_then_nothing_is_slow,
         nothing_is_slow_where_nothing_is, what_is_off_or_wrong)
