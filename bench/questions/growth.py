# SPDX-License-Identifier: Apache-2.0
"""Does the gateway's CPU a write grow with what it holds: connections, volumes, blocks?

The gateway's CPU time is looked at all the while, so that what counts is what it used between the first
request and the last answer: volumes are opened before and closed after. All but a stamp of each block
compresses away: then compression, which is the same for all, hides little, and what a round writes fits
into the log, so that nothing is flushed meanwhile."""
import bisect
import concurrent.futures
import json
import os
import statistics
import subprocess
import threading
import time

from libcluster import BUILD, run_argv

from .common import BenchCluster, answer, cpu_ns, load_json

DISK = "2G"
WRITES = 24000
WRITES_ALONE = 3000          # with few in flight: each takes 4 KiB of the log, and an eternity
VOLUMES = 1024               # what one cleave-load opens at most
FEW_EACH = 4                 # in flight on a connection, beside one: 4,096 altogether is its most
DEVICE_MEMORY = "1G"         # of which a quarter takes messages in: a credit for each of 1,024 connections
FEW, MORE = 1000 * 1000, 10 * 1000 * 1000
FILL_BYTES = 65536
LOOK_S = 0.004


class CpuOverTime:
    """A process's CPU time at any moment while it was looked at."""

    def __init__(self, daemon):
        self.daemon, self.at_ns, self.cpu_ns = daemon, [], []
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def _look(self):
        while True:
            is_last = self.is_over.is_set()
            before = time.monotonic_ns()
            cpu = cpu_ns(self.daemon)
            self.at_ns.append((before + time.monotonic_ns()) // 2)
            self.cpu_ns.append(cpu)
            if is_last:
                return
            self.is_over.wait(LOOK_S)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.is_over.set()
        self.thread.join()

    def at(self, moment_ns):
        i = min(max(bisect.bisect(self.at_ns, moment_ns), 1), len(self.at_ns) - 1)
        part = (moment_ns - self.at_ns[i - 1]) / (self.at_ns[i] - self.at_ns[i - 1])
        return self.cpu_ns[i - 1] + part * (self.cpu_ns[i] - self.cpu_ns[i - 1])


def cost_us(c, name, in_flight, volumes=None):
    """The gateway's CPU a write."""
    words = ["--volume", name, "--in-flight", str(in_flight), "--pattern", "random", "--compressibility",
             "100", "--quiet", "--operations", str(WRITES if in_flight >= 64 else WRITES_ALONE)]
    if volumes is not None:
        words += ["--volumes", str(volumes)]
    with CpuOverTime(c.gateway) as cpu:
        report = load_json(c, *words)
    return (cpu.at(report["ended_ns"]) - cpu.at(report["started_ns"])) / report["writes_count"] / 1e3


def create_volumes(c):
    """v1 to v1024, each written."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: c.volume_create(f"v{i + 1}", "16M", "--engine", "lz4"), range(VOLUMES)))
    cost_us(c, "v", VOLUMES, volumes=VOLUMES)


def ratio(rounds, name, to):
    return [row[name] / row[to] for row in rounds]


def connections(args, data):
    """A volume has one writing session, that one connection to a port: so many connections, so many volumes."""
    rounds = []
    pairs = [(count, each) for each in (1, FEW_EACH) for count in (1, 64, VOLUMES)]
    pairs += [(64, VOLUMES // 64), (1, VOLUMES)]
    with BenchCluster(disk_size=DISK, device_memory=DEVICE_MEMORY) as c:
        create_volumes(c)
        for _ in range(args.repeat):
            rounds.append({f"us_{count}x{each}": cost_us(c, "v", count * each, volumes=count)
                           for count, each in pairs})

    def of(pair, to, at_most):
        text = f"connections: {pair[1]} in flight on each of {pair[0]}, / {to[1]} on each of {to[0]}"
        return answer(text, ratio(rounds, f"us_{pair[0]}x{pair[1]}", f"us_{to[0]}x{to[1]}"), [], at_most=at_most)
    # Of 1,024 clients each comes with one message in a turn, however many it has in flight: the answers to
    # these leave with other batches.
    answers = [of((64, 1), (1, 1), 1.7), of((VOLUMES, 1), (1, 1), 1.7), of((VOLUMES, 1), (64, 1), 1.7),
               of((64, FEW_EACH), (1, FEW_EACH), 1.3), of((VOLUMES, FEW_EACH), (64, 1), 1.7)]
    answers[0]["rounds"] = rounds
    return answers


def volumes(args, data):
    """64 writes in flight on one volume: alone, beside 1,024 others, beside these and their sessions."""
    rounds = []
    with (BenchCluster(disk_size=DISK, device_memory=DEVICE_MEMORY) as alone,
          BenchCluster(disk_size=DISK, device_memory=DEVICE_MEMORY) as many):
        create_volumes(many)
        for c in (alone, many):
            c.volume_create("w", "16M", "--engine", "lz4")
            cost_us(c, "w", 64)
        for _ in range(args.repeat):
            rounds.append({"us_alone": cost_us(alone, "w", 64), "us_beside": cost_us(many, "w", 64)})
        idle = subprocess.Popen(
            many.load_argv("--volume", "v", "--volumes", str(VOLUMES), "--in-flight", str(VOLUMES), "--rate",
                           "1", "--seconds", "600", "--quiet"),
            stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            while many.status()["ports"][0]["sessions_open"] < VOLUMES and idle.poll() is None:
                many.gateway.wait_idle(0.1)
            for row in rounds:
                row |= {"us_alone_2": cost_us(alone, "w", 64), "us_sessions": cost_us(many, "w", 64)}
        finally:
            idle.terminate()
            idle.wait()
    return [answer(f"volumes: one beside {VOLUMES} others / alone", ratio(rounds, "us_beside", "us_alone"),
                   rounds, at_most=1.3),
            answer(f"volumes: one beside {VOLUMES} others with sessions / alone",
                   ratio(rounds, "us_sessions", "us_alone_2"), [], at_most=1.3)]


def fill(c, name, blocks):
    """Each block once, in large writes of nothing much; until all is flushed that will be."""
    count = blocks * 4096 // FILL_BYTES
    c.volume_create(name, str(count * FILL_BYTES), "--engine", "lz4")
    c.load("--volume", name, "--pattern", "sequential", "--block-size", str(FILL_BYTES), "--in-flight", "32",
           "--operations", str(count), "--data-exact", "--compressibility", "100", "--quiet", timeout_s=600)
    for daemon in [c.gateway, *c.nodes]:
        daemon.wait_idle(0.5, timeout_s=300)


def index_alone(keys):
    """What a shard's index by itself takes for a block: {} of that many."""
    lines = run_argv([os.path.join(BUILD, "bench", "bench_memtable"), str(keys)], timeout_s=600).stdout
    rows = {row["name"]: row for row in map(json.loads, lines.splitlines())}
    return {"million_keys": keys / 1e6, "first_put_ns": rows["put, random"]["ns_per_block"],
            "put_ns": rows["put again, prefetched"]["ns_per_block"],
            "bytes_per_key": rows["put again"]["bytes_per_key"]}


def index(args, data):
    """Random writes over a million stored blocks and over ten; what more of them cost in the index alone."""
    rounds, keys = [], [index_alone(count) for count in (FEW, MORE, args.index_keys)]
    with BenchCluster(disk_size=DISK) as few, BenchCluster(disk_size=DISK) as more:
        for c, blocks in ((few, FEW), (more, MORE)):
            fill(c, "v", blocks)
            cost_us(c, "v", 64)  # a chunk's first write since the flush makes it a layer
        for _ in range(args.repeat):
            rounds.append({"us_1m": cost_us(few, "v", 64), "us_10m": cost_us(more, "v", 64)})
        rounds[-1] |= {"mib_1m": few.gateway.rss_bytes() / 2**20, "mib_10m": more.gateway.rss_bytes() / 2**20}
    write_us = statistics.median(row["us_1m"] for row in rounds)
    more_us = (keys[-1]["first_put_ns"] - keys[0]["first_put_ns"]) / 1e3
    return [answer("index: writes over 10 million blocks / over 1", ratio(rounds, "us_10m", "us_1m"), rounds,
                   at_most=1.3),
            answer(f"index: with what {keys[-1]['million_keys']:.0f} million keys add / 1 million",
                   [(write_us + more_us) / write_us], keys, at_most=1.3)]
