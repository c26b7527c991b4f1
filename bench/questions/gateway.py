# SPDX-License-Identifier: Apache-2.0
"""Questions about the gateway: its CPU a write against bare compression, memory, host bytes."""
from .common import (BenchCluster, SystemCallShare, answer, bench_program, cpu_ns, data_words, load_json)

WRITES = 45000       # of 4 KiB a round: what the log holds before it is flushed
ENGINES = ("lz4", "snappy", "deflate", "auto")


def bare(engine, unit_bytes, data):
    return bench_program("bench_bare", "compress", engine, str(unit_bytes), *data)


def gateway_round(c, volume, data, count, *words):
    """CPU of the gateway a write, and what else is counted of that round."""
    names = ("writes", "write_bytes", "stored_bytes", "batches", "records", "flushed_bytes")
    before, cpu = {name: c.metric(name) for name in names}, cpu_ns(c.gateway)
    report = load_json(c, "--volume", volume, "--pattern", "random", "--operations", str(count),
                       *words, *data_words(data))
    cpu = cpu_ns(c.gateway) - cpu
    delta = {name: c.metric(name) - before[name] for name in names}
    return {"gateway_cpu_us": cpu / delta["writes"] / 1e3,
            "ratio": delta["write_bytes"] / max(delta["stored_bytes"], 1),
            "records_per_batch": delta["records"] / max(delta["batches"], 1),
            "flushed_mib": delta["flushed_bytes"] / 2**20, "writes_per_s": report["writes_per_s"]}


def cpu(args, data):
    """1: bare LZ4's time a block / the gateway's CPU time a write; again without readv and sendmsg."""
    whole, without, rows = [], [], []
    for _ in range(args.repeat):
        with BenchCluster() as c:
            c.volume_create("v", "1G", "--engine", "lz4")
            c.settle()
            lz4 = bare("lz4", 4096, data)
            with SystemCallShare(c.gateway, c.folder) as calls:
                row = gateway_round(c, "v", data, WRITES, "--in-flight", "64")
            moved = {name: c.metric(name) for name in
                     ("host_bytes_in", "host_bytes_out", "device_bytes_in", "device_bytes_out")}
            row |= {"lz4_us": lz4["cpu_ns_per_unit"] / 1e3,
                    "lz4_in_order_us": lz4["cpu_ns_per_unit_in_order"] / 1e3, "host_share":
                    (moved["host_bytes_in"] + moved["host_bytes_out"]) / sum(moved.values())}
            whole.append(row["lz4_us"] / row["gateway_cpu_us"])
            if calls.share is not None:
                row["calls_share"] = calls.share
                without.append(whole[-1] / (1 - calls.share))
            rows.append(row)
    answers = [answer("cpu: of bare LZ4, 4 KiB writes", whole, rows, at_least=0.80)]
    if without:
        answers.append(answer("cpu: the same, readv and sendmsg taken off", without, [], at_least=0.92))
    answers.append(answer("cpu: host bytes of all bytes moved", [row["host_share"] for row in rows], [],
                          at_most=0.04))
    return answers


def engines(args, data):
    """2: each engine's gateway against bare LZ4, and what they save."""
    speed, saving = {e: [] for e in ENGINES}, {e: [] for e in ENGINES}
    rows = {e: [] for e in ENGINES}
    for _ in range(args.repeat):
        with BenchCluster() as c:
            for engine in ENGINES:
                c.volume_create(engine, "1G", "--engine", engine)
            c.settle()
            for engine in ENGINES:
                lz4 = bare("lz4", 4096, data)
                row = gateway_round(c, engine, data, WRITES // 4, "--in-flight", "64")
                row["lz4_us"] = lz4["cpu_ns_per_unit"] / 1e3
                speed[engine].append(row["lz4_us"] / row["gateway_cpu_us"])
                rows[engine].append(row)
                saving[engine].append(row["ratio"] / rows["lz4"][-1]["ratio"])
    answers = []
    for engine in ENGINES:
        answers.append(answer(f"engines: {engine} of bare LZ4", speed[engine], rows[engine],
                              at_least=1.0))
        answers.append(answer(f"engines: {engine}'s ratio of LZ4's", saving[engine], [], at_least=1.0))
    return answers


def large(args, data):
    """3: 64 KiB writes."""
    ratios, rows = [], []
    for _ in range(args.repeat):
        with BenchCluster() as c:
            c.volume_create("v", "1G", "--engine", "lz4")
            c.settle()
            lz4 = bare("lz4", 65536, data)["cpu_ns_per_unit"] / 1e3
            row = gateway_round(c, "v", data, WRITES // 30, "--in-flight", "16", "--block-size", "64K")
            row["lz4_us"] = lz4
            ratios.append(lz4 / row["gateway_cpu_us"])
            rows.append(row)
    return [answer("large: of bare LZ4, 64 KiB writes", ratios, rows, at_least=0.9)]


def memory(args, data):
    """Resident memory of the gateway beyond its budget and its index, under overload."""
    budget = 256 << 20
    with BenchCluster(slot_size="64M") as c:
        c.volume_create("v", "2G")
        load_json(c, "--volume", "v", "--pattern", "random", "--in-flight", "1024", "--seconds",
                  str(args.overload_seconds))
        beyond, index = c.gateway.rss_bytes() - budget, c.metric("index_bytes")
    return [answer("memory: beyond the budget", [beyond / 2**20], [{"index_mib": index / 2**20}],
                   at_most=64, unit="MiB")]
