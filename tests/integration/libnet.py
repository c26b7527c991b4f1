# SPDX-License-Identifier: Apache-2.0
"""A small network of its own for one test: a namespace a host, veth pairs to a bridge in a hub.

    with Network() as net:
        net.add("node1")                    # 10.77.0.2, in a namespace
        net.exec_argv("node1", argv)        # argv, to be run there
        net.link_down("node1")              # nobody reaches it; neither end is told
        net.drop("node1", "gateway")        # one way: what node1 sends, gateway does not get
        net.rate("node1", "1mbit")          # a token bucket on what is sent to it
        net.heal()

Nothing outside these namespaces is touched. Skips where namespaces cannot be made.
"""
import ctypes
import os
import shutil
import subprocess
import threading

from libcluster import Failure, skip

PREFIX = "10.77.0."
CLONE_NEWNET = 0x40000000


class Network:
    def __init__(self):
        for tool in ("ip", "nft", "tc"):
            if shutil.which(tool) is None:
                skip(f"{tool} is not installed")
        self.name = f"cleave{os.getpid()}"
        self.hub = f"{self.name}-hub"
        self.hosts = {}
        os.environ["CLEAVE_SECURITY"] = "open"  # hosts reach each other here, and nobody else does

    def __enter__(self):
        if subprocess.run(["ip", "netns", "add", self.hub], capture_output=True).returncode != 0:
            skip("network namespaces cannot be made here")
        try:
            self._hub("ip", "link", "add", "br0", "type", "bridge")
            self._hub("ip", "link", "set", "br0", "up")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind, value, trace):
        for namespace in [self.namespace(host) for host in self.hosts] + [self.hub]:
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True)
        return False

    def namespace(self, host):
        return f"{self.name}-{host}"

    def address(self, host):
        return PREFIX + str(self.hosts[host])

    def _run(self, *argv):
        result = subprocess.run(argv, capture_output=True, text=True)
        if result.returncode != 0:
            raise Failure(f"{' '.join(argv)}: {result.stderr.strip()}")

    def _hub(self, *argv):
        self._run("ip", "netns", "exec", self.hub, *argv)

    def _host(self, host, *argv):
        self._run("ip", "netns", "exec", self.namespace(host), *argv)

    def exec_argv(self, host, argv):
        """argv as it runs in the host's namespace; `ip` execs it, so the pid is the program's."""
        return ["ip", "netns", "exec", self.namespace(host), *argv]

    def run_at(self, host, fn):
        """What fn() returns in a thread of its own, whose network is the host's."""
        libc, answer = ctypes.CDLL(None, use_errno=True), []

        def enter():
            with open(f"/run/netns/{self.namespace(host)}", "rb") as namespace:
                if libc.setns(namespace.fileno(), CLONE_NEWNET) == 0:
                    answer.append(fn())

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if not answer:
            raise Failure(f"nothing came from {host}")
        return answer[0]

    def add(self, host):
        self.hosts[host] = len(self.hosts) + 2
        port = f"p{self.hosts[host]}"
        self._run("ip", "netns", "add", self.namespace(host))
        self._run("ip", "link", "add", "eth0", "netns", self.namespace(host), "type", "veth",
                  "peer", "name", port, "netns", self.hub)
        self._hub("ip", "link", "set", port, "master", "br0", "up")
        self._host(host, "ip", "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
        self._host(host, "ip", "link", "set", "eth0", "up")
        self._host(host, "ip", "link", "set", "lo", "up")
        self._host(host, "nft", "add", "table", "inet", "cut")
        self._host(host, "nft", "add", "chain", "inet", "cut", "in",
                   "{ type filter hook input priority 0 ; }")
        return self.address(host)

    def link_down(self, host):
        self._hub("ip", "link", "set", f"p{self.hosts[host]}", "down")

    def link_up(self, host):
        self._hub("ip", "link", "set", f"p{self.hosts[host]}", "up")

    def drop(self, source, target):
        self._host(target, "nft", "add", "rule", "inet", "cut", "in", "ip", "saddr",
                   self.address(source), "drop")

    def partition(self, a, b):
        self.drop(a, b)
        self.drop(b, a)

    def drop_resets(self, host):
        """What the host's kernel answers for processes that are gone does not leave it."""
        self._host(host, "nft", "add", "chain", "inet", "cut", "out",
                   "{ type filter hook output priority 0 ; }")
        self._host(host, "nft", "add", "rule", "inet", "cut", "out", "tcp", "flags", "&",
                   "(rst | fin)", "!=", "0", "drop")

    def drop_some(self, host, percent):
        """Random loss of what arrives at the host."""
        self._host(host, "nft", "add", "rule", "inet", "cut", "in", "numgen", "random", "mod",
                   "100", "<", str(percent), "drop")

    def rate(self, host, rate):
        self._hub("tc", "qdisc", "replace", "dev", f"p{self.hosts[host]}", "root", "tbf", "rate",
                  rate, "burst", "64kbit", "latency", "2s")

    def heal(self):
        for host in self.hosts:
            self.link_up(host)
            self._host(host, "nft", "flush", "table", "inet", "cut")
            subprocess.run(["ip", "netns", "exec", self.hub, "tc", "qdisc", "del", "dev",
                            f"p{self.hosts[host]}", "root"], capture_output=True)
