# SPDX-License-Identifier: Apache-2.0
"""A real cluster on loopback for one test: daemons as child processes, each ended by its own pid.

    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        c.load("--volume", "v", "--operations", "1000")
        c.nodes[1].kill()          # kill -9
        c.nodes[1].start()         # the same disk, the same port

Waiting is always for a condition (a line in a log, the end of a process), with a bound that only
turns a hang into a failure. Every daemon's log is printed when a test fails.
"""
import fcntl
import glob
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

BUILD = os.environ.get("CLEAVE_BUILD_DIR") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "dev"
)
CLUSTER_ID = "c1ea7e0000000001"
# What a client remembers of one cluster has nothing to do with the next one at the same port.
os.environ["XDG_STATE_HOME"] = "/dev/null"
WAIT_S = float(os.environ.get("CLEAVE_TEST_WAIT_S", "120"))


def binary(name):
    folder = {"cleave-storage": "storage-node", "cleave-gateway": "middletier"}.get(
        name, "vm-client"
    )
    path = os.path.join(BUILD, folder, name)
    if not os.path.exists(path):
        skip(f"{path} has not been built")
    return path


def skip(why):
    print(f"SKIP: {why}")
    sys.exit(77)


class Failure(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failure(text)


def memory_for_disks():
    """A folder in memory with room for the disks of tests that run beside each other; None: there is none. CI's is of
    huge pages: to fill and to free small ones is a sixth of what tests compute where a page fault is dear."""
    folder = os.path.realpath(os.path.join(BUILD, "..", "memory"))
    if not os.path.ismount(folder):
        folder = "/dev/shm"
    with open("/proc/meminfo") as f:
        available = next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable:"))
    try:
        room = os.statvfs(folder)
    except OSError:
        return None
    return folder if min(available, room.f_bavail * room.f_frsize) >= 12 << 30 else None


# Nothing loses power here, and where virtual machines share a disk a flush takes many times as long as all else.
if os.environ.get("CLEAVE_TEST_DISKS") == "memory" and "TMPDIR" not in os.environ:
    tempfile.tempdir = memory_for_disks()


def new_folder(prefix):
    """A folder for as long as this process lives, which holds a lock in it. What a killed test left is removed first:
    its disks are gigabytes, and the next tests would find no room."""
    pattern = os.path.join(tempfile.gettempdir(), f"{prefix}*", "owner")
    for path in glob.glob(pattern):
        try:
            with open(path) as owner:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(os.path.dirname(path), ignore_errors=True)
        except OSError:
            pass  # its test runs, or has just removed it
    folder = tempfile.mkdtemp(prefix=prefix)
    path = os.path.join(folder, "owner")
    # The file gets its name when it is locked. It stays open.
    owner = os.open(f"{path}.new", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC)
    fcntl.flock(owner, fcntl.LOCK_EX)
    os.rename(f"{path}.new", path)
    return folder


disk_bytes = "1G"  # of a node, unless a cluster says another


def small_disks():
    """For a file whose volumes hold little. Disks lie in memory, each takes all of its own when it is formatted, and a machine
    has that of several tests at a time."""
    global disk_bytes
    disk_bytes = "512M"


class Daemon:
    """A child process whose standard error is read line by line. Whoever looks at `lines` finds all that was written by then:
    what a daemon logged before it answered is there when the answer is."""

    def __init__(self, name, argv, net=None):
        self.name, self.argv, self.net = name, argv, net
        self.process, self.reader = None, None
        self.read_lines, self.rest = [], b""  # under changed, as the pipe itself
        self.changed = threading.Condition()

    def start(self, wait=True, argv=None):
        check(self.process is None, f"{self.name} is running already")
        self.first_line = len(self.lines)
        argv = argv or self.argv
        self.process = subprocess.Popen(
            argv if self.net is None else self.net.exec_argv(self.name, argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        os.set_blocking(self.process.stderr.fileno(), False)
        self.reader = threading.Thread(target=self._read, args=(self.process.stderr.fileno(),), daemon=True)
        self.reader.start()
        if wait:
            self.wait_ready()
        return self

    def _take(self, pipe):
        """What is in the pipe now. False: its end."""
        while True:
            try:
                data = os.read(pipe, 1 << 16)
            except BlockingIOError:
                return True
            *lines, self.rest = (self.rest + data).split(b"\n")
            if data == b"" and self.rest != b"":
                lines, self.rest = [*lines, self.rest], b""
            self.read_lines += [line.decode(errors="replace") for line in lines]
            if lines:
                self.changed.notify_all()
            if data == b"":
                return False

    def _read(self, pipe):
        written = select.poll()
        written.register(pipe, select.POLLIN)
        is_open = True
        while is_open:
            written.poll()
            with self.changed:
                is_open = self._take(pipe)
        with self.changed:
            self.read_lines.append(f"({self.name} ended)")
            self.changed.notify_all()

    @property
    def lines(self):
        with self.changed:
            if self.process is not None:
                self._take(self.process.stderr.fileno())
            return self.read_lines

    def wait_line(self, pattern, from_line=None, timeout_s=WAIT_S):
        """The first line since the last start (or from_line) that matches; a Failure if it ends."""
        regex, at = re.compile(pattern), self.first_line if from_line is None else from_line
        deadline = time.monotonic() + timeout_s
        with self.changed:
            while True:
                while at < len(self.read_lines):
                    if regex.search(self.read_lines[at]):
                        return self.read_lines[at]
                    if self.read_lines[at] == f"({self.name} ended)" and at >= self.first_line:
                        raise Failure(f"{self.name} ended before '{pattern}'")
                    at += 1
                left = deadline - time.monotonic()
                check(left > 0, f"{self.name}: no line '{pattern}' in {timeout_s:.0f} s")
                self.changed.wait(left)

    def wait_ready(self):
        return self.wait_line(r"\bready\b")

    def count_lines(self, pattern):
        return sum(1 for line in list(self.lines) if re.search(pattern, line))

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        self.process.send_signal(number)

    def _reap(self, timeout_s):
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} (pid {self.pid}) is still there after {timeout_s:.0f} s")
        self.reader.join()
        process, self.process = self.process, None
        process.stderr.close()
        return code

    def kill(self):
        self.signal(signal.SIGKILL)
        return self._reap(WAIT_S)

    def stop(self, timeout_s=WAIT_S):
        """SIGTERM; the exit status."""
        self.signal(signal.SIGTERM)
        return self._reap(timeout_s)

    def wait_exit(self, timeout_s=WAIT_S):
        return self._reap(timeout_s)

    def cpu_ticks(self):
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def wait_idle(self, seconds=1.0, timeout_s=WAIT_S):
        """Until it has used no CPU for so long."""
        deadline = time.monotonic() + timeout_s
        ticks, since = self.cpu_ticks(), time.monotonic()
        while time.monotonic() - since < seconds:
            check(time.monotonic() < deadline, f"{self.name} is never idle")
            with self.changed:
                self.changed.wait(0.05)
            if self.cpu_ticks() != ticks:
                ticks, since = self.cpu_ticks(), time.monotonic()

    def rss_bytes(self, field="VmRSS"):
        """Its resident memory; "VmHWM": the most that it ever was."""
        with open(f"/proc/{self.pid}/status") as f:
            for line in f:
                if line.startswith(field + ":"):
                    return int(line.split()[1]) * 1024
        raise Failure(f"no {field} for {self.name}")

    def wait_rss_below(self, limit_bytes, timeout_s=WAIT_S):
        deadline = time.monotonic() + timeout_s
        while self.rss_bytes() >= limit_bytes:
            check(time.monotonic() < deadline, f"{self.name} keeps {self.rss_bytes()} bytes")
            with self.changed:
                self.changed.wait(0.1)


class Cluster:
    """`gateways` share one metadata directory, or what `meta` and `meta_args` say. With `net` every daemon is a host of that network,
    named after itself ("node1", "gateway", "gateway2"), and "client" runs cleave and cleave-load.
    With `is_proxied` gateways reach the nodes through `proxies`, which can hold the first gateway's links alone."""

    def __init__(self, nodes=3, disk_size=None, slot_size="4M", shards=2, device_memory="64M",
                 gateway_args=(), node_args=(), ports=1, gateways=1, net=None,
                 is_proxied=False, meta=None, meta_args=()):
        self.folder = new_folder("cleave-test-")
        self.meta = meta or os.path.join(self.folder, "meta")
        self.meta_args = list(meta_args)
        self.node_args, self.gateway_args = list(node_args), [*meta_args, *gateway_args]
        self.slot_size, self.disk_size, self.shards = slot_size, disk_size or disk_bytes, shards
        self.device_memory, self.port_count = device_memory, ports
        self.net = net
        self.is_proxied, self.proxies = is_proxied, []
        self.nodes = [Daemon(f"node{i + 1}", None, net) for i in range(nodes)]
        self.gateways = [Daemon("gateway" if i == 0 else f"gateway{i + 1}", None, net)
                         for i in range(gateways)]
        self.gateway = self.gateways[0]
        self.addresses, self.gateway_addresses = [], []
        if net is not None:
            for daemon in [*self.nodes, *self.gateways]:
                net.add(daemon.name)
            net.add("client")

    def disk(self, index):
        return os.path.join(self.folder, f"disk{index + 1}")

    def format(self, index, extra=(), check_rc=True):
        return run("cleave-storage", "format", "--disk", self.disk(index), "--size",
                   self.disk_size, "--slot-size", self.slot_size, "--cluster-id", CLUSTER_ID,
                   "--node-id", str(index + 1), *extra, check_rc=check_rc)

    def listen_address(self, daemon):
        """A port that is its own, also while it is down; a host of a network has all of them to itself."""
        return f"tcp://127.0.0.1:{free_port()}" if self.net is None else f"tcp://{self.net.address(daemon.name)}:0"

    def start_node(self, index, listen=None):
        node = self.nodes[index]
        listen = listen or self.listen_address(node)
        node.argv = [binary("cleave-storage"), "--disk", self.disk(index), "--listen", listen,
                     *self.node_args]
        line = node.start().wait_ready()
        address = re.search(r"listen=(tcp://\S+)", line).group(1)
        node.argv[node.argv.index("--listen") + 1] = address
        return address

    def gateway_argv(self, ports=None, index=0):
        argv = [binary("cleave-gateway"), "--meta", self.meta, "--cluster-id", CLUSTER_ID,
                "--shards", str(self.shards), "--device-memory", self.device_memory]
        if len(self.gateways) > 1:
            argv += ["--gateway-id", str(index + 1)]
        for port in ports or [self.listen_address(self.gateways[index]) for _ in range(self.port_count)]:
            argv += ["--port", port]
        addresses = [p.address for p in self.proxies] or self.addresses
        for i, address in enumerate(addresses):
            argv += ["--node", f"{address},domain=rack{i + 1}"]
        return argv + self.gateway_args

    def create_argv(self, meta=None):
        """Of a cluster over these nodes: what an operator runs once."""
        argv = [binary("cleave-gateway"), "--create", "--meta",
                meta or self.meta, *self.meta_args, "--cluster-id", CLUSTER_ID, "--shards",
                str(self.shards)]
        for address in self.addresses:
            argv += ["--node", address]
        return argv if self.net is None else self.net.exec_argv("gateway", argv)

    def start(self):
        for i in range(len(self.nodes)):
            self.format(i)
            self.addresses.append(self.start_node(i))
        run_argv(self.create_argv())
        if self.is_proxied:
            from libproxy import Proxy

            for address in self.addresses:
                host, port = address.removeprefix("tcp://").split(":")
                self.proxies.append(Proxy(host, int(port)))
        for i in range(len(self.gateways)):
            self.start_gateway(i)
            for proxy in self.proxies if i == 0 else []:
                proxy.mark()
        self.address = self.gateway_addresses[0]
        return self

    def start_gateway(self, index):
        gateway = self.gateways[index]
        gateway.argv = self.gateway_argv(index=index)
        line = gateway.start().wait_ready()
        ports = re.findall(r"tcp://[0-9.:\[\]a-f]+", line)
        gateway.argv = self.gateway_argv(ports, index)
        self.gateway_addresses.append(ports[0])

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def __exit__(self, kind, value, trace):
        for daemon in [*self.gateways, *self.nodes]:
            if daemon.process is not None:
                daemon.kill()
        if kind is not None and kind is not SystemExit:
            for daemon in [*self.gateways, *self.nodes]:
                print(f"---- log of {daemon.name}")
                print("\n".join(daemon.lines[-80:]))
        for proxy in self.proxies:
            proxy.close()
        self.remove_leases()
        shutil.rmtree(self.folder, ignore_errors=True)
        return False

    def remove_leases(self):
        """The memory of a metadata store whose last gateway was killed."""
        try:
            with open(os.path.join(self.folder, "meta", "leases.lock")) as f:
                memory = f.read().strip()
        except OSError:
            return
        if memory.startswith("/dev/shm/cleave-leases-"):
            shutil.rmtree(memory, ignore_errors=True)

    def at_client(self, argv):
        return argv if self.net is None else self.net.exec_argv("client", argv)

    def gateway_words(self):
        return [word for address in self.gateway_addresses for word in ("--gateway", address)]

    def cleave(self, *words, check_rc=True):
        return run_argv(self.at_client([binary("cleave"), *self.gateway_words(), *words]),
                        check_rc=check_rc)

    def volume_create(self, name, size, *extra):
        return self.cleave("volume", "create", name, "--size", size, *extra)

    def load_argv(self, *words):
        return self.at_client([binary("cleave-load"), *self.gateway_words(), *words])

    def load(self, *words, check_rc=True, timeout_s=WAIT_S):
        return run_argv(self.load_argv(*words), check_rc=check_rc, timeout_s=timeout_s)

    def status(self, address=None):
        import json

        words = ["--gateway", address] if address else self.gateway_words()
        argv = self.at_client([binary("cleave"), *words, "--json", "status"])
        result = run_argv(argv, check_rc=False)
        check("uptime_ns" in result.stdout, result.stderr)
        return json.loads(result.stdout)

    def health(self):
        """What `cleave status` says: the level, and [(code, object, text)]."""
        import json

        argv = self.at_client([binary("cleave"), *self.gateway_words(), "--json", "status"])
        result = run_argv(argv, check_rc=False)
        health = json.loads(result.stdout)["health"]
        check(("OK", "WARN", "ERROR")[result.returncode] == health["level"], result.stdout)
        return health["level"], [(r["code"], r["object"], r["text"]) for r in health["reasons"]]

    def metric_of_all(self, name):
        """A metric, summed over all gateways."""
        return sum(self.metric(name, at) for at in self.gateway_addresses)

    def whole_status(self, address=None):
        """With every shard: a port that has much to do leaves its own out of an answer now and then."""
        found = []

        def is_whole():
            found[:] = [self.status(address)]
            return len(found[0].get("shards", [])) in (0, found[0]["shard_count"])

        wait_for(is_whole, "a port is silent")
        return found[0]

    def metric(self, name, address=None):
        """A gateway metric, summed over its ports."""
        return counted(self.whole_status(address), name)


class Nodes(Cluster):
    """Formatted and started nodes, and no cluster over them yet."""

    def start(self):
        for i in range(len(self.nodes)):
            self.format(i)
            self.addresses.append(self.start_node(i))
        return self


def counted(status, name):
    """A metric of what a gateway said, summed over its ports."""
    if isinstance(status, dict):
        return sum(v if k == name and isinstance(v, int) else counted(v, name) for k, v in status.items())
    return sum(counted(v, name) for v in status) if isinstance(status, list) else 0


def run_argv(argv, check_rc=True, timeout_s=WAIT_S, env=None, stdin_text=""):
    result = subprocess.run(argv, input=stdin_text, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, errors="replace",
                            timeout=timeout_s, env=env)
    if check_rc and result.returncode != 0:
        raise Failure(f"{' '.join(argv)}: exit {result.returncode}\n{result.stdout}"
                      f"{result.stderr}")
    return result


def run(name, *words, check_rc=True, timeout_s=WAIT_S):
    return run_argv([binary(name), *words], check_rc=check_rc, timeout_s=timeout_s)


def expect_error(result, *patterns, codes=(1, 2)):
    """It failed, with one of the codes, and said each pattern; never a crash."""
    text = result.stdout + result.stderr
    check(result.returncode in codes,
          f"{' '.join(result.args)}: exit {result.returncode}, wanted {codes}\n{text}")
    for pattern in patterns:
        check(re.search(pattern, text, re.I), f"{' '.join(result.args)}: no '{pattern}' in\n{text}")


def wait_for(fn, what, wait_s=WAIT_S):
    deadline = time.monotonic() + wait_s
    while True:
        began = time.monotonic()
        if fn():
            return
        ended = time.monotonic()
        check(ended < deadline, what)
        # Between looks, not instead of them; a look is often a process, and what is waited for needs processors, too.
        time.sleep(min(max(0.05, 2 * (ended - began)), 0.25))


def lacking(c):
    """Extents with fewer than three good copies, as their owners know."""
    return sum(s["extents_lacking"] for s in c.whole_status()["shards"])


def owner(c, shard=0):
    """The gateway that said last that it serves the shard, and runs."""
    best, best_epoch = None, 0
    for gateway in c.gateways:
        for line in gateway.lines:
            found = re.search(rf"shard {shard}: serving epoch=(\d+)", line)
            if found and int(found.group(1)) > best_epoch:
                best, best_epoch = gateway, int(found.group(1))
    check(best is not None, f"nobody serves shard {shard}")
    return best


def other(c, gateway):
    return next(g for g in c.gateways if g is not gateway)


def owner_and_heir(c, shard=0):
    """Of two gateways that which has the shard, the other one, and that one's next line: it says there that it serves the
    shard, also where the shard came to it by itself since this looked."""
    next_lines = {gateway: len(gateway.lines) for gateway in c.gateways}
    gone = owner(c, shard)
    return gone, other(c, gone), next_lines[other(c, gone)]


held_ports = []  # sockets


def free_port():
    """A port number of this host that nobody else is given while this process lives: a socket holds it, and does not
    listen, so that who connects there is refused. Whoever says SO_REUSEADDR, as daemons and an etcd do, may listen there,
    end, and listen again."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    held_ports.append(s)
    return s.getsockname()[1]


def main(*tests):
    """Run the tests of one file, in order; the first failure ends it."""
    wanted = sys.argv[1:]
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        started = time.monotonic()
        try:
            test()
        except Failure as failure:
            print(f"FAIL {test.__name__}: {failure}")
            sys.exit(1)
        print(f"ok {test.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
