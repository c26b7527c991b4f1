# SPDX-License-Identifier: Apache-2.0
"""cleave-agent as a child process, and a client that speaks its protocols by hand."""
import json
import os
import shutil
import socket
import ssl
import struct
import threading
import time

from libcluster import BUILD, Daemon, check, run_argv, skip


def need(*tools):
    """Skip the file's tests where one is missing; "libnbd" is its Python module."""
    for tool in tools:
        if tool == "libnbd":
            if run_argv(["/usr/bin/python3", "-c", "import nbd"], check_rc=False).returncode != 0:
                skip("python3-libnbd is not installed")
        elif shutil.which(tool) is None:
            skip(f"{tool} is not installed")


def pid_of_agent(control_path):
    """Of whoever listens at the control socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(control_path)
        return struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


FIO = ("fio", "--name=t", "--ioengine=nbd", "--verify_state_save=0")
FIO_BLOCKS = 2048
FIO_STOPPED = 128  # by a signal, without an error
IHAVEOPT = 0x49484156454F5054
REPLY = 0x0003E889045565A9
ERR_UNSUP, ERR_INVALID, ERR_UNKNOWN = 2**31 + 1, 2**31 + 3, 2**31 + 6
EINVAL, ENOSPC, EPERM = 22, 28, 1


class Agent(Daemon):
    def __init__(self, c, *words):
        self.socket = os.path.join(c.folder, "nbd.sock")
        super().__init__("agent", [
            os.path.join(BUILD, "vm-client", "cleave-agent"), "--gateway", c.address, "--listen",
            f"unix:{self.socket}", *(words or ("--volume", "v"))])

    def uri(self, name="v"):
        return f"nbd+unix:///{name}?socket={self.socket}"

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        if kind is None:
            check(self.stop() == 0, "the agent's exit status")
        else:
            self.kill()
            print("---- log of agent\n" + "\n".join(self.lines[-60:]))
        return False


class Client:
    """The protocol by hand, for what no well-behaved program sends."""

    def __init__(self, agent, flags=3):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.settimeout(60)
        self.s.connect(agent.socket)
        magic, opt, self.server_flags = struct.unpack(">QQH", self.get(18))
        check(magic == 0x4E42444D41474943 and opt == IHAVEOPT, "greeting")
        self.s.sendall(struct.pack(">I", flags))

    def get(self, count):
        data = b""
        while len(data) < count:
            piece = self.s.recv(count - len(data))
            check(piece != b"", "the agent closed the connection")
            data += piece
        return data

    def is_closed(self):
        try:
            while self.s.recv(4096) != b"":
                pass
        except ConnectionResetError:
            pass
        return True

    def start_tls(self):
        """Whoever it is who answers: what is said is what matters here."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.option(5)
        check(self.reply()[1] == 1, "STARTTLS")
        self.s = context.wrap_socket(self.s)

    def option(self, option, data=b"", length=None):
        self.s.sendall(struct.pack(">QII", IHAVEOPT, option,
                                   len(data) if length is None else length) + data)

    def reply(self):
        magic, option, kind, length = struct.unpack(">QIII", self.get(20))
        check(magic == REPLY, f"option reply magic {magic:x}")
        return option, kind, self.get(length)

    def go(self, name=b"v"):
        self.option(7, struct.pack(">I", len(name)) + name + struct.pack(">H", 0))
        while True:
            _, kind, _ = self.reply()
            if kind != 3:
                return kind

    def command(self, kind, offset=0, length=0, flags=0, data=b"", magic=0x25609513, cookie=7):
        self.s.sendall(struct.pack(">IHHQQI", magic, flags, kind, cookie, offset, length) + data)

    def error(self):
        magic, error, cookie = struct.unpack(">IIQ", self.get(16))
        check(magic == 0x67446698 and cookie == 7, f"reply {magic:x}, cookie {cookie}")
        return error


class Fio(Daemon):
    """It writes 2048 blocks of 4 KiB, reads and compares them all, and so on until it is told to end: a machine that is busy does
    less of that, not the same in more time than a wait has."""

    def __init__(self, c, agent):
        self.c = c
        super().__init__("fio", [*FIO, f"--uri={agent.uri()}", "--rw=randwrite", "--bs=4k", "--iodepth=16",
                                 f"--size={4096 * FIO_BLOCKS}", "--verify=crc32c", "--minimal", "--loops=1000000",
                                 "--do_verify=1"])

    def __enter__(self):
        return self.start(wait=False)

    def __exit__(self, kind, value, trace):
        if self.process is not None:
            self.kill()
        return False

    def goes_on(self, metric, count):
        """Until the gateway that answers has so many further writes or reads."""
        before = self.c.metric(metric)
        while self.c.metric(metric) < before + count:
            check(self.process.poll() is None, "fio ended\n" + "\n".join(self.lines))

    def end(self):
        """All was read and compared once more, and it found nothing wrong."""
        self.goes_on("reads", 2 * FIO_BLOCKS)
        code = self.stop()
        check(code == FIO_STOPPED and not any("verify" in line for line in self.lines),
              f"fio failed: {code}\n" + "\n".join(self.lines))


def make_certificates(folder):
    """A CA, a server's and a client's certificate, and a stranger's CA, as certtool makes them."""
    for name, lines in {
            "ca": ["cn = test", "ca", "cert_signing_key"],
            "stranger": ["cn = stranger", "ca", "cert_signing_key"],
            "server": ["cn = localhost", "dns_name = localhost", "ip_address = 127.0.0.1",
                       "tls_www_server"],
            "client": ["cn = client", "tls_www_client"]}.items():
        key, cert, template = (os.path.join(folder, name + end)
                               for end in ("-key.pem", "-cert.pem", ".info"))
        with open(template, "w") as f:
            f.write("\n".join([*lines, "expiration_days = 7"]) + "\n")
        run_argv(["certtool", "--generate-privkey", "--key-type", "ecdsa", "--outfile", key])
        by = (["--generate-self-signed"] if name in ("ca", "stranger") else
              ["--generate-certificate", "--load-ca-certificate", f"{folder}/ca-cert.pem",
               "--load-ca-privkey", f"{folder}/ca-key.pem"])
        run_argv(["certtool", *by, "--load-privkey", key, "--template", template, "--outfile",
                  cert])


class Steady(threading.Thread):
    """A client that keeps so many writes in flight, and knows the longest time without an answer."""

    def __init__(self, agent, name=b"v", depth=32, block=4096, blocks=4096, first=0):
        super().__init__(daemon=True)
        self.client = Client(agent)
        check(self.client.go(name) == 1, "GO")
        self.block, self.blocks, self.first, self.depth = block, blocks, first, depth
        self.sent, self.answered, self.failure = 0, 0, None
        self.in_flight, self.last = {}, {}
        self.longest_s, self.is_stopping = 0.0, False
        self.start()

    def data(self, cookie):
        return struct.pack(">Q", cookie) * (self.block // 8)

    def send_one(self):
        self.sent += 1
        cookie, at = self.sent, self.first + (self.sent * 7919) % self.blocks
        self.in_flight[cookie], self.last[at] = at, cookie
        self.client.command(1, at * self.block, self.block, data=self.data(cookie), cookie=cookie)

    def run(self):
        try:
            for _ in range(self.depth):
                self.send_one()
            before = time.monotonic()
            while self.in_flight:
                magic, error, cookie = struct.unpack(">IIQ", self.client.get(16))
                now = time.monotonic()
                self.longest_s, before = max(self.longest_s, now - before), now
                check(magic == 0x67446698 and error == 0, f"reply {magic:x}, error {error}")
                del self.in_flight[cookie]
                self.answered += 1
                if not self.is_stopping:
                    self.send_one()
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def more(self, count):
        """So many more answers."""
        before = self.answered
        while self.answered < before + count:
            check(self.is_alive() and self.failure is None, f"the client ended: {self.failure}")
            self.join(0.001)

    def take_longest_s(self):
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s

    def stop(self):
        """All that was written is there."""
        self.is_stopping = True
        self.join()
        check(self.failure is None, f"the client ended: {self.failure}")
        for at, cookie in self.last.items():
            self.client.command(0, at * self.block, self.block)
            check(self.client.error() == 0 and self.client.get(self.block) == self.data(cookie),
                  f"block {at}")
        self.client.s.close()


def control(path, **request):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(60)
        s.connect(path)
        s.send(json.dumps(request).encode())
        return json.loads(s.recv(65536))
