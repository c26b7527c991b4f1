# SPDX-License-Identifier: Apache-2.0
"""8: the whole path, beside three fio writers on the same disk."""
import statistics

from .common import (BenchCluster, answer, children_cpu_ns, cpu_ns, data_words, fio, fio_words, load_json)

WRITES = 20000
SEQUENTIAL_WRITES = 700  # of 128 KiB
FILLED_MIB = 512


def path(args, data):
    answers = []
    for cache in ("volatile", "protected"):
        for engine in ("lz4", "none"):
            answers += path_of(args, data, cache, engine)
    return answers


def three_fio(args, folder, *words):
    """Three writers at once, each on a file of its own; their jobs."""
    return fio(*[word for i in range(3) for word in fio_words(
        folder, f"writer{i}", f"--runtime={args.seconds}", "--rw=write", *words, size="256M")])


def fio_latency_us(jobs):
    """Of a write, and the flush behind it if there is one: the median of the slowest writer."""
    def p50(part):
        return part.get("percentile", {}).get("50.000000", 0) / 1e3
    return max(p50(job["write"]["clat_ns"]) + p50(job.get("sync", {}).get("lat_ns", {}))
               for job in jobs)


def path_of(args, data, cache, engine):
    cpu, latency, bandwidth, rows = [], [], [], []
    name = f"{cache} cache, {engine}"
    sync = ["--fdatasync=1"] if cache == "volatile" else []
    for _ in range(args.repeat):
        with BenchCluster(FILLED_MIB, node_args=["--write-cache", cache]) as c:
            c.volume_create("v", "512M", "--engine", engine)
            c.volume_create("l", "256M", "--engine", engine, "--service-class", "latency")
            c.settle()
            row = cpu_round(c, data)
            jobs = three_fio(args, c.folder, "--ioengine=psync", "--bs=4k", *sync)
            ours = load_json(c, "--volume", "l", "--pattern", "random", "--in-flight", "1",
                             "--operations", "3000", *data_words(data))
            row["one_in_flight_us_p50"] = ours["write_latency_us_p50"]
            if jobs is not None:
                row["fio_us_p50"] = fio_latency_us(jobs)
                latency.append(row["one_in_flight_us_p50"] / row["fio_us_p50"])
            cpu.append(row["cpu_us"])
            rows.append(row)
        if jobs is not None and (cache, engine) == ("protected", "none"):
            bandwidth.append(sequential_round(args, cache, row))
    answers = [answer(f"path: CPU a write, {name}", cpu, rows, at_most=60, unit="us")]
    if latency:
        answers.append(answer(f"path: one in flight of fio's, {name}", latency, [], at_most=1.5))
    if bandwidth:
        answers.append(answer("path: 128 KiB sequential of fio's bandwidth", bandwidth, [], at_least=0.6))
    return answers


def cpu_round(c, data):
    daemons, children = cpu_ns(c.gateway, *c.nodes), children_cpu_ns()
    gateway, writes = cpu_ns(c.gateway), c.metric("writes")
    report = load_json(c, "--volume", "v", "--pattern", "random", "--in-flight", "128", "--operations",
                       str(WRITES), *data_words(data))
    gateway, children = cpu_ns(c.gateway) - gateway, children_cpu_ns() - children
    daemons = cpu_ns(c.gateway, *c.nodes) - daemons
    writes = c.metric("writes") - writes
    return {"cpu_us": (daemons + children) / writes / 1e3, "gateway_us": gateway / writes / 1e3,
            "nodes_us": (daemons - gateway) / writes / 1e3, "client_us": children / writes / 1e3,
            "writes_per_s": report["writes_per_s"]}


def sequential_round(args, cache, row):
    """128 KiB writes, 8 in flight, uncompressed, against the mean of the three writers. A sequence goes to
    one shard, chunk after chunk; it has the whole disk to itself, or the log would be flushed meanwhile."""
    with BenchCluster(FILLED_MIB, shards=1, node_args=["--write-cache", cache]) as c:
        c.volume_create("v", "512M", "--engine", "none")
        c.settle()
        jobs = three_fio(args, c.folder, "--ioengine=io_uring", "--iodepth=8", "--bs=128k")
        report = load_json(c, "--volume", "v", "--pattern", "sequential", "--in-flight", "8",
                           "--block-size", "128K", "--operations", str(SEQUENTIAL_WRITES))
        row["sequential_flushed_mib"] = c.metric("flushed_bytes") / 2**20
    theirs = statistics.mean(job["write"]["bw_bytes"] for job in jobs)
    ours = report["writes_per_s"] * 131072
    row |= {"sequential_mb_per_s": ours / 1e6, "fio_mb_per_s": theirs / 1e6}
    return ours / theirs
