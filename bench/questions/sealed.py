# SPDX-License-Identifier: Apache-2.0
"""What keys cost: sealed links beside open ones, and 1,024 clients that come back at once."""
import glob
import os

from libkeys import Authority, Keyed

from .common import BenchCluster, answer, bench_program, children_cpu_ns, cpu_ns, data_words, load_json

WRITES = 15000
RECONNECTS = 1024


class SealedCluster(Keyed, BenchCluster):
    """The same, and everybody has a key."""


def write_round(c, data):
    """CPU a write: of the gateway, and of all processes."""
    gateway, daemons, children = cpu_ns(c.gateway), cpu_ns(c.gateway, *c.nodes), children_cpu_ns()
    writes = c.metric("writes")
    load_json(c, "--volume", "v", "--pattern", "random", "--in-flight", "64", "--operations", str(WRITES),
              *data_words(data))
    writes = c.metric("writes") - writes
    return {"gateway_us": (cpu_ns(c.gateway) - gateway) / writes / 1e3,
            "all_us": (cpu_ns(c.gateway, *c.nodes) - daemons + children_cpu_ns() - children) / writes / 1e3}


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
    """CPU a 4 KiB write over sealed links of that over open ones, both clusters in turns."""
    gateway, whole, rows = [], [], []
    with BenchCluster() as plain, Authority() as a, SealedCluster(a) as keyed:
        for c in (plain, keyed):
            c.volume_create("v", "1G", "--engine", "lz4")
            write_round(c, data)  # what is first in everything
            c.settle()
        for _ in range(args.repeat):
            open_row, sealed_row = write_round(plain, data), write_round(keyed, data)
            rows.append({f"open_{name}": value for name, value in open_row.items()} |
                        {f"sealed_{name}": value for name, value in sealed_row.items()})
            gateway.append(sealed_row["gateway_us"] / open_row["gateway_us"])
            whole.append(sealed_row["all_us"] / open_row["all_us"])
    return [answer("sealed: the gateway's CPU a write, of open", gateway, rows),
            answer("sealed: CPU of all processes a write, of open", whole, [])]


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
