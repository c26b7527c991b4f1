# SPDX-License-Identifier: Apache-2.0
"""A world to break: three members of an etcd, three gateways, nodes, a client that writes and one that reads.

    with world(lease_ms=3000, nodes=5) as w, w.load:
        longest_s, silent_s = strike(w, KINDS[0])   # a Failure, if a read was stale

Each of them is a host of its own in a network of this test. What may happen to one is a Kind: a process, a fault, and a
context manager that lets the fault happen, yields while it lasts, and mends it. Kinds that may happen to several
processes take them in turn.
"""
import collections
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time

from libagent import Agent
from libcluster import Cluster, Failure, run_argv, wait_for
from libetcd import Etcd
from libhistory import History, Reader
from libload import Load
from libnet import Network

MEMBERS = 3
GATEWAYS = 3
READERS = 2
QUOTA_BYTES = 24 << 20
FILLING_BYTES = 1 << 20  # of a value: a request takes 1.5 MiB
WITHOUT_LEASE = "lost its lease|no lease yet"  # it may have lost it to the fault before
RATE = 1000
SHARDS = 6
SECONDS = 86400  # the load is ended before
STEADY = 500  # writes, after each change
LEASES = 1.5  # so many of them, what is to outlast a lease lasts

Kind = collections.namedtuple("Kind", "name process fault strike")
KINDS = []


def kind(process, fault):
    """The generator that follows is one of KINDS."""
    def declare(fn):
        KINDS.append(Kind(fn.__name__, process, fault, contextlib.contextmanager(fn)))
        return fn

    return declare


class World:
    def __init__(self, net, etcd, c, load, lease_s):
        self.net, self.etcd, self.c, self.load, self.lease_s = net, etcd, c, load, lease_s
        self.history, self.agent = History(load.journal), None
        self.turns = {}  # of each kind: how often it has struck

    def turn(self, kind_name, count):
        """Each of `count` in turn."""
        self.turns[kind_name] = self.turns.get(kind_name, -1) + 1
        return self.turns[kind_name] % count

    def member(self, kind_name):
        return self.turn(kind_name, MEMBERS)

    def gateway(self, kind_name):
        return self.c.gateways[self.turn(kind_name, GATEWAYS)]

    def node(self, kind_name):
        return self.c.nodes[self.turn(kind_name, len(self.c.nodes))]

    def owners(self):
        """Which gateway serves each shard."""
        return {shard["shard"]: address for address in self.c.gateway_addresses
                for shard in self.c.status(address)["shards"] if shard["state"] == "serving"}

    def settle(self):
        """Until no shard moves from gateway to gateway any more."""
        def is_settled():
            before = self.owners()
            self.load.wait_writes(STEADY)
            return len(before) == SHARDS and before == self.owners()

        wait_for(is_settled, "shards move from gateway to gateway without end")

    def outlast_leases(self):
        """A fault that lasts: leases end, and behind them the load goes on."""
        over = time.monotonic() + LEASES * self.lease_s
        while time.monotonic() < over:
            self.load.wait_writes(1)

    def others(self, name):
        return [host for host in self.net.hosts if host not in (name, "operator")]

    def fill(self):
        """Every block of the volume is in the journal."""
        self.c.load("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--bytes",
                    self.load.size, "--journal", self.load.journal, "--quiet")

    @contextlib.contextmanager
    def watched(self):
        """Others than the writer read, through an agent, and all that is seen is compared."""
        words = [word for address in self.c.gateway_addresses[1:] for word in ("--gateway", address)]
        self.net.add("agent")
        self.agent = Agent(self.c, "--volume", "v", "--read-only", *words)
        self.agent.net = self.net
        with self.agent, self.history, contextlib.ExitStack() as readers:
            for index in range(READERS):
                readers.enter_context(Reader(self.history, self.agent, f"reader {index + 1}", index))
            yield

    def keep(self, folder):
        """For people who look why it failed: all logs, the journal, the disks, the etcd's keys."""
        os.makedirs(folder)
        with contextlib.suppress(Failure, OSError, subprocess.SubprocessError):
            self.etcd.ctl("snapshot", "save", os.path.join(folder, "etcd.snapshot"), endpoints=[0])
        for daemon in filter(None, [*self.c.gateways, *self.c.nodes, self.agent]):
            if daemon.process is not None:
                daemon.kill()  # its disk is kept as it is now
            with open(os.path.join(folder, f"{daemon.name}.log"), "w", encoding="utf-8") as file:
                file.write("\n".join(daemon.lines) + "\n")
        with open(os.path.join(folder, "load.log"), "w", encoding="utf-8") as file:
            file.write(self.load.report or "")
        for index in range(self.etcd.count):
            shutil.copy(os.path.join(self.etcd.folder, f"m{index}.log"),
                        os.path.join(folder, f"{self.etcd.host(index)}.log"))
        shutil.move(self.c.folder, os.path.join(folder, "cluster"))


@contextlib.contextmanager
def world(lease_ms, nodes, keep=None):
    """The load is not begun yet. After a failure all that tells of it is in `keep`, a folder to be made."""
    with Network() as net, Etcd(MEMBERS, ["--quota-backend-bytes", str(QUOTA_BYTES)], net=net,
                                has_disks=True) as etcd:
        args = ("--lease-ms", str(lease_ms), "--node-timeout", "1s")
        with Cluster(nodes=nodes, gateways=GATEWAYS, shards=SHARDS, meta=etcd.place, net=net,
                     gateway_args=args) as c:
            load = Load(c, "--rate", str(RATE), "--io-timeout", "0", in_flight=16, seconds=SECONDS)
            w = World(net, etcd, c, load, lease_ms / 1000)
            try:
                with w.watched():
                    yield w
            except Exception:
                if keep is not None:
                    w.keep(keep)
                    print(f"kept in {keep}: logs, journal, disks, the etcd's keys")
                raise


def strike(w, a_kind):
    """What clients have felt, in seconds: (the longest request, for how long nothing was acknowledged)."""
    w.history.begin()
    with a_kind.strike(w):
        w.load.wait_writes(STEADY)
        w.history.check()
    w.settle()
    w.history.check()
    return w.history.end()


# ---- each process is killed, stopped, cut off ----

@kind("etcd leader", "killed")
def leader_killed(w):
    index = w.etcd.wait_leader()
    w.etcd.kill(index)
    w.etcd.wait_leader(but=index)
    yield
    w.etcd.run(index)
    w.etcd.wait_healthy(index)


@kind("etcd leader", "stopped")
def leader_stopped(w):
    """SIGSTOP: its kernel still accepts what it is asked."""
    index = w.etcd.wait_leader()
    w.etcd.signal(index, signal.SIGSTOP)
    try:
        w.etcd.wait_leader(but=index)
        w.outlast_leases()
        yield
    finally:
        w.etcd.signal(index, signal.SIGCONT)
    w.etcd.wait_healthy(index)


@kind("etcd leader", "cut off")
def leader_cut_off(w):
    index = w.etcd.wait_leader()
    name = w.etcd.host(index)
    w.net.link_down(name)
    w.etcd.wait_leader(but=index)
    w.outlast_leases()
    yield
    w.net.heal()
    w.etcd.wait_all()


@kind("etcd leader", "disk frozen")
def leader_disk_frozen(w):
    """What it has to write waits; what it is asked it still hears."""
    index = w.etcd.wait_leader()
    w.etcd.freeze(index)
    try:
        w.outlast_leases()
        yield
    finally:
        w.etcd.thaw(index)
    w.etcd.wait_healthy(index)


@kind("etcd member", "killed")
def member_killed(w):
    index = w.member("member_killed")
    w.etcd.kill(index)
    yield
    w.etcd.run(index)
    w.etcd.wait_healthy(index)


@kind("etcd member", "stopped")
def member_stopped(w):
    """SIGSTOP: its kernel still accepts what it is asked."""
    index = w.member("member_stopped")
    w.etcd.signal(index, signal.SIGSTOP)
    try:
        w.outlast_leases()
        yield
    finally:
        w.etcd.signal(index, signal.SIGCONT)
    w.etcd.wait_healthy(index)


@kind("etcd member", "cut off")
def member_cut_off(w):
    w.net.link_down(w.etcd.host(w.member("member_cut_off")))
    w.outlast_leases()
    yield
    w.net.heal()
    w.etcd.wait_all()


@kind("gateway", "killed")
def gateway_killed(w):
    gateway = w.gateway("gateway_killed")
    gateway.kill()
    yield
    gateway.start()


@kind("gateway", "stopped")
def gateway_stopped(w):
    """It believes in its lease when it goes on, and its shards are others'."""
    gateway = w.gateway("gateway_stopped")
    gateway.signal(signal.SIGSTOP)
    try:
        w.outlast_leases()
        yield
    finally:
        gateway.signal(signal.SIGCONT)


@kind("gateway", "cut off")
def gateway_cut_off(w):
    """From everybody, and no connection ends."""
    w.net.link_down(w.gateway("gateway_cut_off").name)
    w.outlast_leases()
    yield
    w.net.heal()


@kind("storage node", "killed")
def node_killed(w):
    node = w.node("node_killed")
    node.kill()
    yield
    node.start()


@kind("storage node", "stopped")
def node_stopped(w):
    node = w.node("node_stopped")
    node.signal(signal.SIGSTOP)
    try:
        w.outlast_leases()
        yield
    finally:
        node.signal(signal.SIGCONT)


@kind("storage node", "cut off")
def node_cut_off(w):
    w.net.link_down(w.node("node_cut_off").name)
    w.outlast_leases()
    yield
    w.net.heal()


# ---- more of what may happen ----

@kind("gateway", "killed, released")
def gateway_released(w):
    """Its service manager says that it is dead (ExecStopPost): no lease is waited for."""
    gateway = w.gateway("gateway_released")
    gateway.kill()
    run_argv(w.net.exec_argv(gateway.name, [*gateway.argv, "--release"]))
    yield
    gateway.start()


@kind("etcd leader", "does not hear")
def leader_does_not_hear(w):
    index = w.etcd.wait_leader()
    name = w.etcd.host(index)
    for other in w.others(name):
        w.net.drop(other, name)
    w.etcd.wait_leader(but=index)
    yield
    w.net.heal()
    w.etcd.wait_all()


@kind("etcd leader", "is not heard")
def leader_is_not_heard(w):
    index = w.etcd.wait_leader()
    name = w.etcd.host(index)
    for other in w.others(name):
        w.net.drop(name, other)
    w.etcd.wait_leader(but=index)
    yield
    w.net.heal()
    w.etcd.wait_all()


@kind("gateway", "cut from etcd")
def gateway_cut_from_etcd(w):
    """Nodes and clients reach it all the same: it alone can tell that its time is over."""
    gateway = w.gateway("gateway_cut_from_etcd")
    from_line = len(gateway.lines)
    for index in range(MEMBERS):
        w.net.partition(gateway.name, w.etcd.host(index))
    gateway.wait_line(WITHOUT_LEASE, from_line=from_line)
    yield
    w.net.heal()


@kind("gateway", "hears no etcd")
def gateway_hears_no_etcd(w):
    """What it asks takes effect, and it is never told."""
    gateway = w.gateway("gateway_hears_no_etcd")
    for index in range(MEMBERS):
        w.net.drop(w.etcd.host(index), gateway.name)
    w.outlast_leases()
    yield
    w.net.heal()


@kind("etcd", "compacted")
def history_compacted(w):
    """Under a gateway that stands, and so is behind."""
    gateway = w.gateway("history_compacted")
    gateway.signal(signal.SIGSTOP)
    try:
        before = w.etcd.revision()
        wait_for(lambda: w.etcd.revision() > before + 3, "nobody renews a lease")
        w.etcd.ctl("compact", str(w.etcd.revision()))
        w.etcd.ctl("defrag")
        yield
    finally:
        gateway.signal(signal.SIGCONT)


@kind("etcd", "backup restored")
def backup_restored(w):
    """Of the same owners: all that is remembered of revisions is void, and none of the data is."""
    w.settle()
    seen = set_back_count(w.c)
    file = w.etcd.snapshot("backup")
    before = w.etcd.revision()
    wait_for(lambda: w.etcd.revision() > before + 3, "nobody renews a lease")
    w.etcd.restore(file)
    wait_for(lambda: set_back_count(w.c) > seen, "nobody notices")
    yield
    os.unlink(file)


def set_back_count(c):
    return sum(gateway.count_lines("set back to a backup") for gateway in c.gateways)


@kind("etcd", "full")
def quota_full(w):
    """Nothing can be put any more, no lease either: all stops, says why, and goes on after what it says."""
    seen = [len(gateway.lines) for gateway in w.c.gateways]
    with tempfile.NamedTemporaryFile() as value:
        value.write(b"x" * FILLING_BYTES)
        value.flush()
        while fill(w.etcd, value.name):
            pass
    for gateway, line in zip(w.c.gateways, seen):
        gateway.wait_line(r"etcd is full: .*etcdctl compact.*etcdctl defrag.*etcdctl alarm disarm",
                          from_line=line)
        gateway.wait_line(WITHOUT_LEASE, from_line=line)
    w.etcd.ctl("compact", str(w.etcd.revision()))
    w.etcd.ctl("defrag")
    w.etcd.ctl("alarm", "disarm")
    yield


def fill(etcd, file):
    """One more of the same key: history takes the room."""
    with open(file, "rb") as value:
        return etcd.ctl("put", "/others/filling", check_rc=False, stdin=value) is not None
