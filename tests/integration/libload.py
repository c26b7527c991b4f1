# SPDX-License-Identifier: Apache-2.0
"""cleave-load beside what a test breaks: started, watched making progress, ended, verified."""
import os
import signal
import subprocess
import time

from libcluster import WAIT_S, Failure, check


class Load:
    """A load with a journal on volume v, which the constructor makes.

        with Load(c) as load:
            load.wait_writes(500)
            c.nodes[0].kill()
            load.wait_writes(500)       # goes on, or a Failure
        # here it was stopped, ended with 0, and its journal verified
    """

    def __init__(self, c, *words, size="256M", in_flight=32, read_percent=20):
        self.c = c
        c.volume_create("v", size)
        self.journal = os.path.join(c.folder, "journal")
        self.argv = c.load_argv("--volume", "v", "--pattern", "random", "--read-percent",
                                str(read_percent), "--in-flight", str(in_flight), "--seconds",
                                "600", "--journal", self.journal, *words)
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)
        return self

    def journal_bytes(self):
        try:
            return os.path.getsize(self.journal)
        except FileNotFoundError:
            return 0

    def wait_writes(self, count, timeout_s=WAIT_S):
        """Until so many further writes are in the journal; the seconds that took."""
        started = time.monotonic()
        wanted = self.journal_bytes() + count * 64  # two records: issued, acknowledged
        while self.journal_bytes() < wanted:
            if self.process.poll() is not None:
                raise Failure(f"cleave-load ended\n{self.process.communicate()[0]}")
            check(time.monotonic() - started < timeout_s,
                  f"the load stands still: {count} operations in {timeout_s:.0f} s")
            os.sched_yield()
        return time.monotonic() - started

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM if kind is None else signal.SIGKILL)
        try:
            out, _ = self.process.communicate(timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failure(f"cleave-load did not stop\n{self.process.communicate()[0]}")
        if kind is not None:
            print(out)
            return False
        check(self.process.returncode == 0, f"cleave-load: exit {self.process.returncode}\n{out}")
        check(self.journal_bytes() > 0, "the journal is empty")
        self.c.load("--verify-journal", self.journal, "--volume", "v")
        return False
