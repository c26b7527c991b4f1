# SPDX-License-Identifier: Apache-2.0
"""cleave-load beside what a test breaks: started, watched making progress, ended, verified."""
import os
import re
import signal
import subprocess
import time

from libcluster import WAIT_S, Failure, check


class Load:
    """A load with a journal on volume v, or `volume`, which the constructor makes; no size: it is there.

        with Load(c) as load:
            load.wait_writes(500)
            c.nodes[0].kill()
            load.wait_writes(500)       # goes on, or a Failure
        # here it was stopped, ended with 0, and its journal verified; it may begin again
    """

    def __init__(self, c, *words, size="256M", in_flight=32, read_percent=20, seconds=600,
                 volume="v"):
        self.c, self.volume, self.size = c, volume, size
        if size is not None:
            c.volume_create(volume, size)
        self.journal = os.path.join(c.folder, f"journal-{volume}")
        self.argv = c.load_argv("--volume", volume, "--pattern", "random", "--read-percent",
                                str(read_percent), "--in-flight", str(in_flight), "--seconds",
                                str(seconds), "--journal", self.journal, *words)
        self.said = os.path.join(c.folder, f"load-{volume}")
        self.process, self.report = None, None

    def __enter__(self):
        # To a file: it says a line a second, and a pipe that nobody reads holds it up after twenty minutes.
        with open(self.said, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT)
        return self

    def output(self):
        with open(self.said, encoding="utf-8") as said:
            return said.read()

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
                self.report = self.output()
                raise Failure(f"cleave-load ended\n{self.report}")
            check(time.monotonic() - started < timeout_s,
                  f"the load stands still: {count} operations in {timeout_s:.0f} s")
            time.sleep(0.001)  # between looks: the machine is the load's
        return time.monotonic() - started

    def longest_s(self):
        """The longest write or read, once the load has ended: what a pause was for its clients."""
        return max(float(us) for us in re.findall(r"\bmax ([0-9.]+)$", self.report, re.M)) / 1e6

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM if kind is None else signal.SIGKILL)
        try:
            self.process.wait(timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failure(f"cleave-load did not stop\n{self.output()}")
        out = self.report = self.output()
        if kind is not None:
            print(self.report)
            return False
        check(self.process.returncode == 0, f"cleave-load: exit {self.process.returncode}\n{out}")
        check(self.journal_bytes() > 0, "the journal is empty")
        self.c.load("--verify-journal", self.journal, "--volume", self.volume)
        return False
