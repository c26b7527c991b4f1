# SPDX-License-Identifier: Apache-2.0
"""What keys cost: sealed links, and an encrypted volume on them, beside open ones; 1,024 clients that come back at once."""
import glob
import os

from libcluster import run
from libkeys import Authority, Keyed

from .common import BenchCluster, answer, bench_program, children_cpu_ns, cpu_ns, data_words, load_json

WRITES = 15000
LONE_WRITES = 2000  # one in flight
RECONNECTS = 1024
MOVED = ("host_bytes_in", "host_bytes_out", "device_bytes_in", "device_bytes_out")


class SealedCluster(Keyed, BenchCluster):
    """The same, and everybody has a key."""


def moved_bytes(c):
    return {name: c.metric(name) for name in MOVED}


def write_round(c, volume, data):
    """CPU a write, of the gateway and of all processes; what went through host memory; latency of one in flight."""
    gateway, daemons, children = cpu_ns(c.gateway), cpu_ns(c.gateway, *c.nodes), children_cpu_ns()
    writes, moved = c.metric("writes"), moved_bytes(c)
    load_json(c, "--volume", volume, "--pattern", "random", "--in-flight", "64", "--operations", str(WRITES),
              *data_words(data))
    writes = c.metric("writes") - writes
    row = {"gateway_us": (cpu_ns(c.gateway) - gateway) / writes / 1e3,
           "all_us": (cpu_ns(c.gateway, *c.nodes) - daemons + children_cpu_ns() - children) / writes / 1e3}
    moved = {name: value - moved[name] for name, value in moved_bytes(c).items()}
    row["host_share"] = (moved["host_bytes_in"] + moved["host_bytes_out"]) / sum(moved.values())
    lone = load_json(c, "--volume", volume, "--pattern", "random", "--in-flight", "1", "--operations",
                     str(LONE_WRITES), *data_words(data))
    row["lone_us_p50"] = lone["write_latency_us_p50"]
    return row


def port_cpu_ns(daemon):
    """Of the thread of each of its ports."""
    total = 0
    for task in glob.glob(f"/proc/{daemon.pid}/task/*"):
        with open(os.path.join(task, "comm")) as f:
            if not f.read().startswith("port"):
                continue
        with open(os.path.join(task, "schedstat")) as f:
            total += int(f.read().split()[0])
    return total


def sealed(args, data):
    """4 KiB writes over sealed links, to a volume that is open and to one that is encrypted, beside an open cluster."""
    rows = []
    with BenchCluster() as plain, Authority() as a:
        kek = os.path.join(a.folder, "kek")
        run("cleave", "key", "kek", kek)
        with SealedCluster(a, gateway_args=["--kek", f"file:{kek}"]) as keyed:
            keyed.volume_create("e", "1G", "--engine", "lz4", "--encrypt")
            places = {"open": (plain, "v"), "sealed": (keyed, "v"), "encrypted": (keyed, "e")}
            for c in (plain, keyed):
                c.volume_create("v", "1G", "--engine", "lz4")
            for c, volume in places.values():
                write_round(c, volume, data)  # what is first in everything
                c.settle()
            for _ in range(args.repeat):
                rows.append({f"{place}_{name}": value for place, (c, volume) in places.items()
                             for name, value in write_round(c, volume, data).items()})
    answers = []
    for place, what in (("sealed", "links"), ("encrypted", "links and volume")):
        for name, text, at_most in (("gateway_us", "the gateway's CPU a write", 1.25), ("all_us", "CPU of all processes", 1.25),
                                    ("lone_us_p50", "one in flight, p50", 1.05)):
            ratios = [row[f"{place}_{name}"] / row[f"open_{name}"] for row in rows]
            answers.append(answer(f"sealed {what}: {text}, of open", ratios, [] if answers else rows, at_most=at_most))
        answers.append(answer(f"sealed {what}: host bytes of all bytes moved", [row[f"{place}_host_share"] for row in rows],
                              [], at_most=0.05))
    return answers


def reconnect(args, data):
    """CPU of a port for 1,024 handshakes at once; the same of open connections beside it."""
    del data
    keyed_s, rows = [], []
    with BenchCluster() as plain, Authority() as a, SealedCluster(a) as keyed:
        for _ in range(args.repeat):
            row = {}
            for name, c, words in (("open", plain, ()), ("sealed", keyed, (a.issue("client/back"),))):
                before = port_cpu_ns(c.gateway)
                report = bench_program("bench_reconnect", c.address, str(RECONNECTS), *words)
                row[f"{name}_port_s"] = (port_cpu_ns(c.gateway) - before) / 1e9
                row[f"{name}_wall_s"] = report["wall_ms"] / 1e3
                row[f"{name}_came_again"] = report["failed"]
            keyed_s.append(row["sealed_port_s"])
            rows.append(row)
    return [answer("reconnect: CPU of a port, 1,024 handshakes at once", keyed_s, rows, at_most=2.0, unit="s")]
