# SPDX-License-Identifier: Apache-2.0
"""5 and 6: one storage node against fio on a file of the same disk."""
import shutil
import tempfile

from .common import answer, bench_program, fio, fio_words

DEPTH = 128


def node(args, data):
    """Appends of 2 KiB records, 4 KiB with their heads, and 4 KiB reads, 128 in flight."""
    appends, cpu, reads, rows = {}, {}, [], []
    for _ in range(args.repeat):
        folder = tempfile.mkdtemp(prefix="cleave-bench-")
        try:
            for cache in ("volatile", "protected"):
                row = node_round(args, folder, cache)
                if row is None:
                    return []
                appends.setdefault(cache, []).append(row["appends_per_s"] / row["fio_writes_per_s"])
                cpu.setdefault(cache, []).append(row["append_cpu_us"])
                if "fio_reads_per_s" in row:
                    reads.append(row["reads_per_s"] / row["fio_reads_per_s"])
                rows.append({"protected": cache == "protected"} | row)
        finally:
            shutil.rmtree(folder)
    answers = []
    for cache in appends:
        answers.append(answer(f"node: appends of fio's writes, {cache} cache", appends[cache],
                              rows if cache == "volatile" else [], at_least=0.7))
        answers.append(answer(f"node: CPU an append, {cache} cache", cpu[cache], [], at_most=6,
                              unit="us"))
    answers.append(answer("node: reads of fio's", reads, [], at_least=0.7))
    return answers


def node_round(args, folder, cache):
    ours = {run["request"]: run for run in bench_program(
        "bench_node_append", folder, str(args.seconds), cache, "2048", str(DEPTH))["runs"]}
    words = ["--ioengine=io_uring", f"--iodepth={DEPTH}", "--bs=4k", f"--runtime={args.seconds}"]
    sync = ["--fdatasync=1"] if cache == "volatile" else []
    writes = fio(*fio_words(folder, "file", "--rw=write", *words, *sync, size="1G"))
    if writes is None:
        print("node: there is no fio to compare with")
        return None
    row = {"appends_per_s": ours["append"]["per_s"], "fio_writes_per_s": writes[0]["write"]["iops"],
           "append_cpu_us": ours["append"]["node_cpu_us"],
           "appends_per_write": ours["append"]["appends_per_write"]}
    if cache == "volatile":
        reads = fio(*fio_words(folder, "file", "--rw=randread", *words, size="1G"))
        row |= {"reads_per_s": ours["read"]["per_s"], "fio_reads_per_s": reads[0]["read"]["iops"],
                "read_cpu_us": ours["read"]["node_cpu_us"]}
    return row
