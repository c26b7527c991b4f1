# SPDX-License-Identifier: Apache-2.0
"""A real etcd on loopback, of as many members as a test wants: skipped where this machine has none."""
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.request

from libcluster import check, free_port, skip, wait_for


class Etcd:
    """`with Etcd(3) as etcd`: etcd.place is what --meta wants."""

    def __init__(self, members=1, args=()):
        if shutil.which("etcd") is None or shutil.which("etcdctl") is None:
            skip("there is no etcd")
        self.count, self.args = members, list(args)
        self.folder = tempfile.mkdtemp(prefix="cleave-etcd-")
        self.ports = [free_port() for _ in range(members)]
        self.peer_ports = [free_port() for _ in range(members)]
        self.processes = [None] * members

    @property
    def place(self):
        return "etcd://" + ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def run(self, index):
        url, peer = f"http://127.0.0.1:{self.ports[index]}", \
            f"http://127.0.0.1:{self.peer_ports[index]}"
        peers = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(self.peer_ports))
        log = open(os.path.join(self.folder, f"m{index}.log"), "ab")
        self.processes[index] = subprocess.Popen(
            ["etcd", "--name", f"m{index}", "--data-dir", os.path.join(self.folder, f"m{index}"),
             "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer,
             "--initial-advertise-peer-urls", peer, "--initial-cluster", peers, *self.args],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        log.close()

    def is_healthy(self, index):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[index]}/health",
                                        timeout=2) as answer:
                return b'"true"' in answer.read()
        except OSError:
            return False

    def wait_healthy(self, index):
        wait_for(lambda: self.is_healthy(index), f"member {index} of the etcd does not answer")

    def kill(self, index):
        self.processes[index].send_signal(signal.SIGKILL)
        self.processes[index].wait()
        self.processes[index] = None

    def signal(self, index, number):
        self.processes[index].send_signal(number)

    def ctl(self, *words, check_rc=True):
        done = subprocess.run(
            ["etcdctl", "--endpoints", ",".join(f"127.0.0.1:{p}" for p in self.ports), *words],
            env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, text=True, timeout=30,
            check=False)
        check(done.returncode == 0 or not check_rc, f"etcdctl {words}: {done.stderr}")
        return done.stdout

    def __enter__(self):
        for index in range(self.count):
            self.run(index)
        for index in range(self.count):
            self.wait_healthy(index)
        return self

    def __exit__(self, kind, value, trace):
        for index, process in enumerate(self.processes):
            if process is not None:
                self.kill(index)
        shutil.rmtree(self.folder, ignore_errors=True)
        return False
