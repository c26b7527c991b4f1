# SPDX-License-Identifier: Apache-2.0
"""What several questions need: clusters that are fit to be measured, CPU times, fio, medians."""
import contextlib
import glob
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import time

import libcluster
from libcluster import BUILD, Cluster, run_argv

PAGE_BYTES = 1 << 20


class BenchCluster(Cluster):
    """With the first @filled_mib of each disk written ahead, which is as much as a question stores: a file
    system's first write to a block that it has only reserved makes the flush behind it commit metadata.
    What is compared with us writes to files that are filled ahead, too. Disks are so large,
    and rounds so short, that nothing is flushed from the log to runs meanwhile: flushes begin at half of
    an eighteenth of a shard's share of a disk."""

    def __init__(self, filled_mib=0, slot_size="16M", disk_size="4G", device_memory="256M", shards=2,
                 **options):
        self.filled_mib = filled_mib
        super().__init__(nodes=3, disk_size=disk_size, slot_size=slot_size, shards=shards,
                         device_memory=device_memory, **options)

    def format(self, index, extra=(), check_rc=True):
        result = super().format(index, extra, check_rc)
        with open(self.disk(index), "r+b") as f:
            for mib in range(self.filled_mib):
                page = f.read(PAGE_BYTES)
                f.seek(mib * PAGE_BYTES)
                f.write(page)
            f.flush()
            os.fsync(f.fileno())
        return result

    def settle(self):
        """Until the daemons are done with what a start leaves to be done."""
        for daemon in [*self.gateways, *self.nodes]:
            daemon.wait_idle(0.3)


# For wait_flushed: what is left of the log is old soon; and for what is to stay in memory as long as it is measured.
FLUSH_SOON = ["--flush-age", "1s"]
FLUSH_NEVER = ["--flush-age", "1d"]


def progress(text):
    """For who waits; the figures go to standard output."""
    print(text, file=sys.stderr, flush=True)


def wait_flushed(cluster):
    """Until all is in runs, and these are as they stay: what was flushed in haste is merged once more, in the background of
    what is measured else. A gateway with FLUSH_SOON needs no minute or two until things are old."""
    told = None
    for _ in range(600):
        count = cluster.metric("index_blocks")
        if count == 0:
            wait_merged(cluster)
            return
        if told is None or count <= told * 3 // 4:
            progress(f"flushing: {count} blocks are in the log")
            told = count
        time.sleep(0.5)
    raise failure("what was written is still in the log after five minutes")


def wait_merged(cluster):
    """Until no merge has read or ended within three looks at what is due, one a second. Returns how many were for readers."""
    names = "flushes", "compactions", "hot_merges", "merge_read_bytes"
    seen, since = None, time.monotonic()
    while time.monotonic() - since < 3:
        now = [cluster.metric(name) for name in names]
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.25)
    return seen[2]


def free_slots(cluster):
    nodes = json.loads(cluster.cleave("--json", "node", "list").stdout)
    nodes = nodes if isinstance(nodes, list) else nodes["nodes"]
    return sum(n["slots_free"] for n in nodes)


def use_slots(cluster, size, shards):
    """Slots that never held an extent are zeroed first: not in what is measured."""
    free, size = free_slots(cluster), str(size // (1 << 20) << 20)
    cluster.volume_create("used", size)
    cluster.load("--volume", "used", "--quiet", "--pattern", "sequential", "--block-size", "64K",
                 "--compressibility", "0", "--bytes", size, timeout_s=1800)
    cluster.cleave("volume", "delete", "used", "--purge")
    for _ in range(240):
        if free_slots(cluster) >= free - 6 * shards:
            return
        time.sleep(0.5)
    raise failure("the slots of a deleted volume do not come back")


def cpu_ns(*daemons):
    """CPU time of all threads of processes, in nanoseconds."""
    total = 0
    for daemon in daemons:
        for task in glob.glob(f"/proc/{daemon.pid}/task/*/schedstat"):
            # A thread may end meanwhile: then its time is gone, too.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(task) as f:
                total += int(f.read().split()[0])
    return total


def thread_cpu_ns(daemon, name):
    """Of its threads whose name begins so, together."""
    total = 0
    for task in glob.glob(f"/proc/{daemon.pid}/task/*"):
        with open(os.path.join(task, "comm")) as f:
            if not f.read().startswith(name):
                continue
        with open(os.path.join(task, "schedstat")) as f:
            total += int(f.read().split()[0])
    return total


def port_cpu_ns(daemon):
    """Of the thread of each of its ports."""
    return thread_cpu_ns(daemon, "port")


def children_cpu_ns():
    """CPU time of the children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((usage.ru_utime + usage.ru_stime) * 1e9)


def bench_program(name, *words):
    result = run_argv([os.path.join(BUILD, "bench", name), *words], timeout_s=600)
    return json.loads(result.stdout)


def load_json(cluster, *words):
    path = os.path.join(cluster.folder, f"load-{time.monotonic_ns()}.json")
    cluster.load("--json", path, *words, timeout_s=600)
    with open(path) as f:
        return json.load(f)


def data_words(data):
    return ["--data-exact"] + [word for path in data for word in ("--data", path)]


def fio(*words):
    """The jobs of its report; None where there is no fio."""
    try:
        result = run_argv(["fio", "--output-format=json", *words], timeout_s=600)
    except FileNotFoundError:
        return None
    return json.loads(result.stdout)["jobs"]


def fio_words(folder, name, *words, size="512M"):
    """A job on a file of its own, filled ahead."""
    path = os.path.join(folder, f"fio-{name}")
    if not os.path.exists(path):
        with open(path, "wb") as f:
            for _ in range(libsize(size) // PAGE_BYTES):
                f.write(bytes(PAGE_BYTES))
            f.flush()
            os.fsync(f.fileno())
    return [f"--name={name}", f"--filename={path}", f"--size={size}", "--direct=1", "--overwrite=1",
            "--time_based", *words]


def libsize(text):
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]]


class SystemCallShare:
    """Which part of a process's CPU time goes by inside readv and sendmsg, by samples of its stacks."""

    CALLS = (" do_readv", " __sys_sendmsg")

    def __init__(self, daemon, folder):
        self.path = os.path.join(folder, "perf.data")
        self.pid, self.process, self.share = daemon.pid, None, None

    def __enter__(self):
        try:
            self.process = subprocess.Popen(
                ["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", "1999", "-o", self.path, "-p",
                 str(self.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            pass
        return self

    def __exit__(self, kind, value, trace):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        text = subprocess.run(["perf", "script", "-i", self.path, "-F", "comm,ip,sym"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              errors="replace").stdout
        stacks = [stack for stack in text.split("\n\n") if stack.strip()]
        inside = sum(any(call in stack for call in self.CALLS) for stack in stacks)
        if len(stacks) > 100 and inside > 0:
            self.share = inside / len(stacks)


def answer(name, values, rows, at_most=None, at_least=None, unit=None):
    """A row of the report: the median of what each round gave, a ratio unless it has a unit."""
    row = {"question": name, "median": statistics.median(values), "rounds": rows}
    if unit is not None:
        row["unit"] = unit
    if at_most is not None:
        row["target_max"] = at_most
    if at_least is not None:
        row["target_min"] = at_least
    return row


def failure(text):
    return libcluster.Failure(text)
