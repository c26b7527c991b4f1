# SPDX-License-Identifier: Apache-2.0
"""What keys cost: sealed links, and an encrypted volume on them, beside open ones; 1,024 clients that come back at once."""
import contextlib
import os
import statistics

from libcluster import run
from libkeys import Authority, Keyed

from .common import BenchCluster, answer, bench_program, children_cpu_ns, cpu_ns, data_words, failure, load_json, port_cpu_ns

TURNS = 3  # a round: short ones, so that what else the machine does falls on all places alike
WRITES = 7000  # a turn
COMES_WRITES = 64  # of a client whose coming and going is measured
LONE_WRITES = 700  # one in flight
RECONNECTS = 1024
MOVED = ("host_bytes_in", "host_bytes_out", "device_bytes_in", "device_bytes_out")


class SealedCluster(Keyed, BenchCluster):
    """The same, and everybody has a key."""


def moved_bytes(c):
    return {name: c.metric(name) for name in MOVED}


def load_cost(c, data, operations):
    """What a client that comes, writes so much and goes costs: the gateway's CPU, that of all processes, and writes."""
    gateway, daemons, children = cpu_ns(c.gateway), cpu_ns(c.gateway, *c.nodes), children_cpu_ns()
    writes = c.metric("writes")
    load_json(c, "--volume", "v", "--pattern", "random", "--in-flight", "64", "--operations", str(operations),
              *data_words(data))
    return (cpu_ns(c.gateway) - gateway, cpu_ns(c.gateway, *c.nodes) - daemons + children_cpu_ns() - children,
            c.metric("writes") - writes)


def write_turn(c, data):
    """CPU a write, of the gateway and of all processes, without what coming and going costs, which `reconnect` measures;
    what went through host memory; latency of one in flight."""
    comes, moved = load_cost(c, data, COMES_WRITES), moved_bytes(c)
    gateway, everybody, writes = (more - less for more, less in zip(load_cost(c, data, WRITES), comes))
    row = {"gateway_us": gateway / writes / 1e3, "all_us": everybody / writes / 1e3}
    moved = {name: value - moved[name] for name, value in moved_bytes(c).items()}
    row["host_share"] = (moved["host_bytes_in"] + moved["host_bytes_out"]) / sum(moved.values())
    lone = load_json(c, "--volume", "v", "--pattern", "random", "--in-flight", "1", "--operations",
                     str(LONE_WRITES), *data_words(data))
    row["lone_us_p50"] = lone["write_latency_us_p50"]
    return row


def sealed_round(number, data):
    """Clusters of its own, so that none has a log to flush yet; in turns."""
    with contextlib.ExitStack() as stack:
        a = stack.enter_context(Authority())
        kek = os.path.join(a.folder, "kek")
        run("cleave", "key", "kek", kek)
        places = {"open": BenchCluster(), "sealed": SealedCluster(a),
                  "encrypted": SealedCluster(a, gateway_args=["--kek", f"file:{kek}"])}
        for place, c in places.items():
            stack.enter_context(c)
            c.volume_create("v", "1G", "--engine", "lz4", *(["--encrypt"] if place == "encrypted" else []))
            write_turn(c, data)  # what is first in everything
        for c in places.values():
            c.settle()
        turns = {place: [] for place in places}
        for turn in range(TURNS):
            first = (number + turn) % len(places)
            for place in [*places, *places][first:first + len(places)]:
                turns[place].append(write_turn(places[place], data))
        for place, c in places.items():
            if c.metric("flushes"):
                raise failure(f"{place}: a flush was measured, too")
    return {f"{place}_{name}": statistics.median(row[name] for row in rows)
            for place, rows in turns.items() for name in rows[0]}


def sealed(args, data):
    """4 KiB writes over sealed links, to a volume that is open and to one that is encrypted, beside an open cluster."""
    rows = [sealed_round(n, data) for n in range(args.repeat)]
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
