# SPDX-License-Identifier: Apache-2.0
"""4: one write in flight, and the latency class beside a load that takes all there is."""
import subprocess

from .common import BenchCluster, answer, bench_program, data_words, load_json, use_slots

RATE = 400       # a second
RATE_OPERATIONS = 2000
USED_BYTES = 1536 << 20  # more than log and runs of all rounds take


def latency(args, data):
    """One 4 KiB write in flight / three processes that append it at once, and two ping-pongs."""
    ratios, rows = [], []
    with BenchCluster(filled_mib=512) as c:
        c.volume_create("v", "256M", "--service-class", "latency")
        load_json(c, "--volume", "v", "--in-flight", "1", "--operations", "2000")
        c.settle()
        for _ in range(args.repeat):
            disk = bench_program("bench_append_sync", c.folder, "2000")["latency_us_p50"]
            ping = bench_program("bench_bare", "pingpong")["latency_us_p50"]
            ours = load_json(c, "--volume", "v", "--pattern", "random", "--in-flight", "1",
                             "--operations", "4000")["write_latency_us_p50"]
            ratios.append(ours / (disk + 2 * ping))
            rows.append({"write_us_p50": ours, "three_appends_us_p50": disk, "ping_pong_us_p50": ping})
    return [answer("latency: one write in flight", ratios, rows, at_most=1.4)]


def beside(args, data):
    """p99 of the latency class at a fixed rate beside a saturating compressed load / alone.

    The load brings the log to its limits, and merges with it: those are part of what it costs others.
    Alone is alone: a round begins when nothing is left to merge, and no slot is used for the first time,
    which only the round that came to it would pay for."""
    ratios, rows = [], []
    words = ["--volume", "fast", "--pattern", "random", "--in-flight", "64", "--rate", str(RATE),
             "--operations", str(RATE_OPERATIONS)]
    with BenchCluster() as c:
        use_slots(c, USED_BYTES, 2)
        c.volume_create("fast", "256M", "--service-class", "latency")
        c.volume_create("bulk", "1G", "--engine", "lz4")
        for _ in range(args.repeat):
            c.settle()  # nothing is merged any more of the round before
            alone = load_json(c, *words)["write_latency_us_p99"]
            bulk = subprocess.Popen(
                c.load_argv("--volume", "bulk", "--pattern", "random", "--in-flight", "64", "--quiet",
                            "--seconds", str(RATE_OPERATIONS // RATE + 4), *data_words(data)),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                both = load_json(c, *words)["write_latency_us_p99"]
            finally:
                bulk.terminate()
                bulk.wait()
            ratios.append(both / alone)
            rows.append({"alone_us_p99": alone, "beside_us_p99": both})
    return [answer("beside: latency class beside a full load", ratios, rows, at_most=1.5)]
