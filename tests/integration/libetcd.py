# SPDX-License-Identifier: Apache-2.0
"""A real etcd of as many members as a test wants: skipped where this machine has none.

    with Etcd(3) as etcd:                   # on loopback; with net=net each member is a host of that network
        etcd.place                          # what --meta wants
        etcd.kill(0); etcd.run(0)           # kill -9, and the same member again
        etcd.leader()                       # its index

On loopback its ports are such as were free a moment ago: where another program has taken one meanwhile, it begins anew
with others. A member that ends by itself is a Failure for whoever waits, with what it said last.

With has_disks each member writes to a file system of its own, in a file, that freeze() stops; where files cannot be
mounted `mounted` stays empty.
"""
import json
import os
import shutil
import signal
import subprocess
import urllib.request

from libcluster import Failure, check, free_port, new_folder, skip, wait_for

STARTS_MAX = 5  # with other ports each time
DISK_BYTES = 512 << 20  # two files of 64 MiB for its log, written ahead, and the database: sparse


class Etcd:
    def __init__(self, members=1, args=(), net=None, has_disks=False, tls=None):
        if shutil.which("etcd") is None or shutil.which("etcdctl") is None:
            skip("there is no etcd")
        self.count, self.args, self.net, self.has_disks = members, list(args), net, has_disks
        self.tls = tls  # libtls.Certificates: members and clients show one
        self.processes = [None] * members
        self.mounted = []
        self.make_folder()
        if net is None:
            self.hosts = ["127.0.0.1"] * members
            self.find_ports()
        else:
            self.hosts = [net.add(self.host(i)) for i in range(members)]
            self.ports, self.peer_ports = [2379] * members, [2380] * members
            net.add("operator")  # where etcdctl runs: nobody cuts it off

    def make_folder(self):
        self.folder = new_folder("cleave-etcd-")
        self.data = [os.path.join(self.folder, f"m{i}", "data") for i in range(self.count)]

    def find_ports(self):
        self.ports = [free_port() for _ in range(self.count)]
        self.peer_ports = [free_port() for _ in range(self.count)]

    def host(self, index):
        """Its name in the network."""
        return f"etcd{index + 1}"

    @property
    def place(self):
        return ("etcds://" if self.tls else "etcd://") + ",".join(self.addresses())

    def addresses(self):
        return [f"{host}:{port}" for host, port in zip(self.hosts, self.ports)]

    def peers(self):
        return ",".join(f"m{i}=http://{host}:{port}" for i, (host, port) in
                        enumerate(zip(self.hosts, self.peer_ports)))

    def at(self, host, argv):
        return argv if self.net is None else self.net.exec_argv(host, argv)

    def run(self, index):
        scheme = "https" if self.tls else "http"
        url = f"{scheme}://{self.addresses()[index]}"
        peer = f"http://{self.hosts[index]}:{self.peer_ports[index]}"
        tls = self.tls.server_args() if self.tls else []
        log = open(self.log_file(index), "ab")
        self.processes[index] = subprocess.Popen(self.at(
            self.host(index),
            ["etcd", "--name", f"m{index}", "--data-dir", self.data[index],
             "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer,
             "--initial-advertise-peer-urls", peer, "--initial-cluster", self.peers(), *tls,
             *self.args]), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        log.close()

    def log_file(self, index):
        return os.path.join(self.folder, f"m{index}.log")

    def log(self, index):
        with open(self.log_file(index), encoding="utf-8", errors="replace") as file:
            return file.read()

    def ended(self):
        """The members that have ended, and nobody had them end."""
        return [index for index, process in enumerate(self.processes)
                if process is not None and process.poll() is not None]

    def is_listening(self, index):
        """Is it this member that has its port? Another program may be what answers there."""
        if self.net is not None:
            return True  # the host is its own
        pid, ours = self.processes[index].pid, set()
        try:
            for fd in os.listdir(f"/proc/{pid}/fd"):
                ours.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
            with open(f"/proc/{pid}/net/tcp", encoding="ascii") as file:
                rows = [line.split() for line in file]
        except OSError:
            return False  # it ends, or has closed one just now
        return any(row[1].endswith(f":{self.ports[index]:04X}") and row[3] == "0A" and
                   f"socket:[{row[9]}]" in ours for row in rows)

    def ask(self, index, path, body=None):
        """A member's answer over HTTP, or None."""
        def fetch():
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            try:
                with opener.open(f"http://{self.addresses()[index]}{path}", data=body,
                                 timeout=2) as answer:
                    return answer.read()
            except OSError:
                return None

        return fetch() if self.net is None else self.net.run_at("operator", fetch)

    def is_healthy(self, index):
        if self.tls:
            return self.ctl("endpoint", "health", endpoints=[index], check_rc=False) is not None
        return b'"true"' in (self.ask(index, "/health") or b"")

    def wait_healthy(self, index):
        def look():
            for ended in self.ended():
                last = "\n".join(self.log(ended).splitlines()[-5:])
                raise Failure(f"member {ended} of the etcd has ended: {last}")
            return self.is_listening(index) and self.is_healthy(index)

        wait_for(look, f"member {index} of the etcd does not answer")

    def wait_all(self):
        for index in range(self.count):
            self.wait_healthy(index)

    def leader(self):
        """The index of the member that says that it leads; None: none does."""
        for index, process in enumerate(self.processes):
            status = json.loads(process and self.ask(index, "/v3/maintenance/status", b"{}") or "{}")
            if status.get("leader", "0") != "0" and \
                    status["leader"] == status["header"]["member_id"]:
                return index
        return None

    def wait_leader(self, but=None):
        """The index of a leader that is not `but`."""
        found = []

        def look():
            found[:] = [self.leader()]
            return found[0] is not None and found[0] != but

        wait_for(look, "the etcd has no leader")
        return found[0]

    def kill(self, index):
        self.processes[index].send_signal(signal.SIGKILL)
        self.processes[index].wait()
        self.processes[index] = None

    def signal(self, index, number):
        self.processes[index].send_signal(number)

    def ctl(self, *words, check_rc=True, endpoints=None, stdin=None):
        """What etcdctl prints; None: it failed, which check_rc makes a Failure."""
        chosen = [self.addresses()[i] for i in (range(self.count) if endpoints is None else endpoints)]
        tls = self.tls.etcdctl_args() if self.tls else []
        done = subprocess.run(
            self.at("operator", ["etcdctl", "--endpoints", ",".join(chosen), *tls, *words]),
            env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, text=True, timeout=30,
            stdin=stdin or subprocess.DEVNULL, check=False)
        check(done.returncode == 0 or not check_rc, f"etcdctl {words}: {done.stderr}")
        return done.stdout if done.returncode == 0 else None

    def revision(self):
        return int(json.loads(self.ctl("get", "--write-out", "json", "none"))["header"]["revision"])

    # ---- backups ----

    def snapshot(self, name):
        """A backup; its file."""
        file = os.path.join(self.folder, name)
        self.ctl("snapshot", "save", file, endpoints=[0])
        return file

    def restore(self, file, token=None):
        """Stops all members, and starts them again on the backup, as operators do; with a `token` it is another etcd."""
        more = [] if token is None else ["--initial-cluster-token", token]
        for index in range(self.count):
            self.kill(index)
        for index in range(self.count):
            shutil.rmtree(self.data[index])
            self.ctl("snapshot", "restore", file, "--name", f"m{index}", "--data-dir",
                     self.data[index], "--initial-cluster", self.peers(),
                     "--initial-advertise-peer-urls",
                     f"http://{self.hosts[index]}:{self.peer_ports[index]}", *more)
            self.run(index)
        self.wait_all()

    # ---- disks ----

    def mount(self, index):
        image = os.path.join(self.folder, f"m{index}.img")
        target = os.path.dirname(self.data[index])
        os.mkdir(target)
        with open(image, "wb") as file:
            file.truncate(DISK_BYTES)
        for argv in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, target]):
            if shutil.which(argv[0]) is None or subprocess.run(
                    argv, capture_output=True, check=False).returncode != 0:
                return  # the data is beside it, and cannot be frozen
        self.mounted.append(target)

    def freeze(self, index):
        """Whatever it writes waits, from now on."""
        subprocess.run(["fsfreeze", "--freeze", os.path.dirname(self.data[index])], check=True)

    def thaw(self, index):
        subprocess.run(["fsfreeze", "--unfreeze", os.path.dirname(self.data[index])], check=True)

    # ---- beginning and end ----

    def start_all(self):
        for index in range(self.count):
            if self.has_disks:
                self.mount(index)
            self.run(index)
        self.wait_all()

    def has_lost_a_port(self):
        return self.net is None and any("address already in use" in self.log(index)
                                        for index in self.ended())

    def __enter__(self):
        for start in range(1, STARTS_MAX + 1):
            try:
                self.start_all()
                return self
            except Failure:
                is_last = start == STARTS_MAX or not self.has_lost_a_port()
                self.__exit__(None, None, None)
                if is_last:
                    raise
                self.make_folder()
                self.find_ports()
            except BaseException:
                self.__exit__(None, None, None)
                raise
        return self

    def __exit__(self, kind, value, trace):
        for target in self.mounted:  # what waits for a frozen disk cannot be killed
            subprocess.run(["fsfreeze", "--unfreeze", target], capture_output=True, check=False)
        for index, process in enumerate(self.processes):
            if process is not None:
                self.kill(index)
        for target in self.mounted:
            subprocess.run(["umount", target], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
        return False
