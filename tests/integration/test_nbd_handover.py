#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cleave-agent is replaced while clients are attached."""
import json
import os
import signal
import socket
import struct
import subprocess

from libagent import EINVAL, Agent, Client, Fio, Steady, control, make_certificates, need
from libcluster import Cluster, Daemon, check, main, run_argv

need("fio", "psktool", "certtool", "libnbd")

HANDOVER_S = 5  # NBD_HANDOVER_S
FSX = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libnbdfsx.py")
# Writes each byte that comes to a block, and says what it reads there, or that it cannot.
READER = """
import nbd, sys
h = nbd.NBD()
h.set_uri_allow_local_file(True)
h.connect_uri(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    try:
        h.pwrite(line[:1].encode() * 4096, 4096)
        print(h.pread(4096, 4096)[:1].decode(), flush=True)
    except nbd.Error as error:
        print("error", flush=True)
if h.aio_is_ready():
    h.shutdown()
"""


def replaced_by_a_successor_under_load():
    """Clients stay attached: those that pause, those in the middle of a write, a busy fio."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        c.volume_create("w", "4M")
        path = os.path.join(c.folder, "control")
        words = ("--volume", "v", "--volume", "w", "--control", path)
        agent = Agent(c, *words).start()
        try:
            idle, half = Client(agent), Client(agent)
            for client in (idle, half):
                check(client.go(b"w") == 1, "GO")
            with Fio(c, agent) as fio:
                for _ in range(3):
                    fio.goes_on("writes", 2000)
                    half.command(1, 0, 8192, data=b"x" * 5000)
                    half.s.sendall(b"y" * 3192)
                    successor = Agent(c, *words, "--replace").start()
                    check(agent.wait_exit() == 0, "the old agent's exit status")
                    check(agent.count_lines("handed over$") == 1, "it was not handed over")
                    agent = successor
                    check(half.error() == 0, "the write that was under way")
                    idle.command(0, 0, 8192)
                    check(idle.error() == 0 and idle.get(8192) == b"x" * 5000 + b"y" * 3192,
                          "a client that was idle")
                fio.end()
            # One that asks and goes again: the agent goes on.
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                s.connect(path)
                s.send(b'{"op":"give"}')
                s.recv(65536)
            agent.wait_line("not handed over, going on")
            idle.command(0, 0, 4096)
            check(idle.error() == 0 and len(idle.get(4096)) == 4096, "after a failed hand-over")
            check(agent.stop() == 0, "the agent's exit status")
        finally:
            if agent.process is not None:
                agent.kill()
                print("\n".join(agent.lines[-40:]))

def ask_to_give(path, carries=False):
    """What the agent gives a successor, with the clients' sockets; it has not been taken yet."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(60)
    s.connect(path)
    s.send(json.dumps({"op": "give", "carries": carries}).encode())
    given = []
    while True:
        data, fds, _, _ = socket.recv_fds(s, 1 << 18, 2)
        words, unread = data.split(b"\0", 1)
        packet = json.loads(words)
        if "end" in packet:
            return s, given
        check(len(fds) >= 1, f"no descriptor: {packet}")
        for fd in fds[1:]:
            os.close(fd)
        if "connection" in packet:
            given.append((socket.socket(fileno=fds[0]), unread))
        else:
            os.close(fds[0])


def what_was_given_is_read_by_nobody_else():
    """The old agent's hands are off a client's bytes from the moment on that it gives it away."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "control")
        with Agent(c, "--volume", "v", "--control", path) as agent:
            s = Client(agent)
            check(s.go() == 1, "GO")
            successor, ((given, unread),) = ask_to_give(path)
            check(unread == b"", "bytes that nobody has sent")
            s.command(0, 0, 4096)
            for _ in range(3):  # turns of its loop, in which it could read the request
                control(path, op="list")
            given.setblocking(False)
            check(len(given.recv(100, socket.MSG_PEEK)) == 28, "the request is not all there")
            given.close()
            successor.close()
            agent.wait_line("not handed over, going on")
            check(s.error() == 0 and s.get(4096) == bytes(4096), "the agent does not go on")


def refused_while_the_gateway_is_slow():
    """Its clients have done nothing wrong: the agent keeps them."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "control")
        words = ("--volume", "v", "--control", path)
        with Agent(c, *words) as agent:
            s = Client(agent)
            check(s.go() == 1, "GO")
            c.gateway.signal(signal.SIGSTOP)
            try:
                s.command(1, 0, 4096, data=b"x" * 4096)
                successor = Agent(c, *words, "--replace").start(wait=False)
                check(successor.wait_exit() != 0, "the hand-over was not refused")
                check(successor.count_lines("keeps its clients") == 1, "the reason")
            finally:
                c.gateway.signal(signal.SIGCONT)
            agent.wait_line("not handed over, going on")
            check(s.error() == 0, "the write that was under way")
            s = Client(agent)  # the socket's path is still the agent's
            check(s.go() == 1, "GO")


def the_predecessor_has_the_last_word():
    """One that dies after all was taken has given it; one that changes its mind has not."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "control")
        for last, is_given in ((b'{"yours":true}\0', True), (None, True),
                               (b'{"kept":true}\0', False)):
            agent = Agent(c, "--volume", "v", "--control", path, "--replace")
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as old, \
                    socket.socket(socket.AF_UNIX) as listener:
                old.bind(path)
                old.listen()
                listener.bind(agent.socket)
                listener.listen()
                agent.start(wait=False)
                s, _ = old.accept()
                check(s.recv(1000).startswith(b'{"op":"give"'), "it did not ask")
                socket.send_fds(s, [json.dumps({"listener": {"path": agent.socket}}).encode() +
                                    b"\0"], [listener.fileno()])
                s.send(b'{"end":true}\0')
                check(s.recv(1000).startswith(b'{"taken":true}'), "it did not take it")
                check(agent.count_lines("ready") == 0, "it serves what is not its own yet")
                if last is not None:
                    s.send(last)
                s.close()
            if is_given:
                agent.wait_ready()
                check(Client(agent).go() == 1, "GO")
                check(agent.stop() == 0, "the agent's exit status")
            else:
                check(agent.wait_exit() != 0, "it serves what it was refused")
                os.unlink(path)
                check(os.path.exists(agent.socket), "the other agent's socket is gone")
                os.unlink(agent.socket)


def block(s, letter=None):
    """The client's first block: written, or read."""
    if letter is not None:
        s.command(1, 0, 4096, data=letter * 4096)
        check(s.error() == 0, f"a write of {letter}")
        return None
    s.command(0, 0, 4096)
    check(s.error() == 0, "a read")
    return s.get(4096)


def first_block_of(c, name):
    """As a reader of its own sees it, who takes nothing."""
    agent = Agent(c, "--volume", name)
    agent.socket += ".reader"
    agent.argv[agent.argv.index("--listen") + 1] = f"unix:{agent.socket}"
    with agent:
        s = Client(agent)
        check(s.go(name.encode()) == 1, "GO")
        return block(s)


def a_name_that_is_another_volume_s_now():
    """A client goes on with the volume that it had, or not at all."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        c.volume_create("w", "8M")
        words = ("--volume", "v", "--control", os.path.join(c.folder, "control"))
        old = Agent(c, *words).start()
        try:
            writer, reader = Client(old), Client(old)
            check(writer.go() == 1 and reader.go() == 1, "GO")
            block(writer, b"1")
            c.cleave("volume", "rename", "v", "x")
            c.cleave("volume", "rename", "w", "v")
            with Agent(c, *words, "--replace") as new:
                check(old.wait_exit() == 0, "the old agent's exit status")
                check(writer.is_closed() and reader.is_closed(), "they are not cut off")
                new.wait_line("not handed over name=v: that is volume 2 now, the clients' is "
                              "volume 1")
                check(new.count_lines("export: writing") == 0, "it took the other volume")
                late = Client(new)  # whoever comes asks for the name
                check(late.go() == 1 and block(late) == bytes(4096), "one that comes later")
            check(first_block_of(c, "v") == bytes(4096), "the other volume was written")
            check(first_block_of(c, "x") == b"1" * 4096, "what was written before")
        finally:
            if old.process is not None:
                old.kill()


def a_name_that_nobody_has_any_more():
    """Clients go on with the volume that they had, once and again; new ones are refused, as before."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        words = ("--volume", "v", "--control", os.path.join(c.folder, "control"))
        agents = [Agent(c, *words).start()]
        try:
            writer, reader = Client(agents[0]), Client(agents[0])
            check(writer.go() == 1 and reader.go() == 1, "GO")
            block(writer, b"1")
            c.cleave("volume", "rename", "v", "x")
            for letter in (b"2", b"3"):
                agents.append(Agent(c, *words, "--replace").start())
                check(agents[-2].wait_exit() == 0, "the old agent's exit status")
                check(block(reader) == first_block_of(c, "x"), "what a reader has")
                block(writer, letter)
                check(block(reader) == letter * 4096, "what the writer wrote")
                check(Client(agents[-1]).go() != 1, "a new client of a name that nobody has")
            c.volume_create("v", "8M")
            check(Client(agents[-1]).go() != 1, "a new client of another volume")
            check(first_block_of(c, "x") == b"3" * 4096, "what was written")
            for s in (writer, reader):
                s.s.close()
            agents[-1].wait_line("export: closed")
            late = Client(agents[-1])
            check(late.go() == 1 and block(late) == bytes(4096), "the volume of the name")
        finally:
            for agent in agents:
                if agent.process is not None:
                    agent.kill()


def a_new_client_while_what_was_renamed_is_opened():
    """The volume is opened by its id for who had it alone: who comes meanwhile asks for the name, which nobody has."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        words = ("--volume", "v", "--control", os.path.join(c.folder, "control"))
        agents = [Agent(c, *words).start()]
        try:
            writer = Client(agents[0])
            check(writer.go() == 1, "GO")
            block(writer, b"1")
            c.cleave("volume", "rename", "v", "x")
            c.gateway.signal(signal.SIGSTOP)
            try:
                agents.append(Agent(c, *words, "--replace").start())
                check(agents[0].wait_exit() == 0, "the old agent's exit status")
                late = Client(agents[1])
                late.option(7, struct.pack(">I", 1) + b"v" + struct.pack(">H", 0))
                agents[1].wait_idle(0.3)  # it is read, and waits
            finally:
                c.gateway.signal(signal.SIGCONT)
            check(late.reply()[1] > 1 << 31, "a new client has a volume of another name")
            check(block(writer) == b"1" * 4096, "what was there")
            block(writer, b"2")
            check(first_block_of(c, "x") == b"2" * 4096, "what was written")
        finally:
            for agent in agents:
                if agent.process is not None:
                    agent.kill()


def exports_that_were_attached_at_run_time():
    """They go along, with their clients, once and again; what a successor does not export is kept."""
    with Cluster(nodes=3) as c:
        for name in "vwxy":
            c.volume_create(name, "4M")
        path = os.path.join(c.folder, "control")
        words = ("--volume", "v", "--control", path)
        agents = [Agent(c, *words, "--all").start()]
        try:
            for name, read_only in (("w", False), ("x", True), ("y", False)):
                check("error" not in control(path, op="attach", name=name, read_only=read_only),
                      f"attach {name}")
            check("error" not in control(path, op="detach", name="y"), "detach y")
            s, passing = Client(agents[0]), Client(agents[0])
            check(s.go(b"w") == 1 and passing.go(b"y") == 1, "GO")
            block(s, b"1")
            for letter in (b"2", b"3"):
                agents.append(Agent(c, *words, "--replace").start())
                check(agents[-2].wait_exit() == 0, "the old agent's exit status")
                block(s, letter)
                check(block(s) == letter * 4096, "what the client wrote")
                exports = control(path, op="list")["exports"]
                check([(e["name"], e["read_only"]) for e in exports] ==
                      [("v", False), ("w", False), ("x", True), ("y", False)], exports)
                block(passing, letter)
            passing.s.close()  # its export came with it, by --all
            agents[-1].wait_line("export: closed name=y")
            check([e["name"] for e in control(path, op="list")["exports"]] == ["v", "w", "x"],
                  "an export that its last client has left")
            check("error" not in control(path, op="detach", name="w", force=True), "detach w")
            check(s.is_closed(), "its client is not cut off")
            s = Client(agents[-1])
            check(s.go() == 1, "GO")
            block(s, b"4")
            other = Agent(c, "--volume", "w", "--control", path, "--replace").start(wait=False)
            check(other.wait_exit() == 1, "its exit status")
            other.wait_line("not handed over, it is not exported here name=v")
            agents[-1].wait_line("not handed over, going on")
            block(s, b"5")
        finally:
            for agent in agents:
                if agent.process is not None:
                    agent.kill()
                    print("\n".join(agent.lines[-20:]))


def what_could_not_be_taken_is_taken_no_more():
    """A volume that the successor could not open is another's afterwards: who looks at it takes nothing."""
    with Cluster(nodes=3) as c:
        path = os.path.join(c.folder, "control")
        for name, given in (("v", {}), ("w", {"volume_id": 9})):
            agent = Agent(c, "--volume", name, "--control", path, "--replace")
            other = Agent(c, "--volume", name)
            other.socket += ".other"
            other.argv[other.argv.index("--listen") + 1] = f"unix:{other.socket}"
            ours, theirs = socket.socketpair()
            packet = {"export": name, "writing": True, "peer": "p", "style": 0,
                      "has_context": False, **given}
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as old, \
                    socket.socket(socket.AF_UNIX) as listener:
                old.bind(path)
                old.listen()
                listener.bind(agent.socket)
                listener.listen()
                agent.start(wait=False)
                s, _ = old.accept()
                socket.send_fds(s, [json.dumps({"listener": {"path": agent.socket}}).encode() +
                                    b"\0"], [listener.fileno()])
                socket.send_fds(s, [json.dumps({"connection": packet}).encode() + b"\0"],
                                [theirs.fileno()])
                s.send(b'{"end":true}\0')
                s.send(b'{"yours":true}\0')
                agent.wait_line("export: cannot be opened")
                s.close()
            theirs.close()
            check(ours.recv(1) == b"", "the client is not cut off")
            ours.close()
            c.volume_create(name, "4M")
            with other:
                writer, reader = Client(other), Client(agent)
                check(writer.go(name.encode()) == 1, "GO")
                block(writer, b"1")
                check(reader.go(name.encode()) == 1 and block(reader) == b"1" * 4096, "a reader")
                block(writer, b"2")
            check(agent.stop() == 0, "the agent's exit status")


def a_predecessor_that_was_stopped_for_a_while():
    """It hears "taken" though its time is over; but a successor that has gone meanwhile gets nothing."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "control")
        agent = Agent(c, "--volume", "v", "--control", path).start()
        try:
            s = Client(agent)
            check(s.go() == 1, "GO")
            for has_gone in (True, False):
                successor, ((given, _),) = ask_to_give(path)
                control(path, op="list")  # it waits for "taken" from now on
                agent.signal(signal.SIGSTOP)
                successor.send(b'{"taken":true}')
                if has_gone:
                    successor.close()
                    agent.signal(signal.SIGCONT)
                    agent.wait_line("not handed over, going on")
                    given.close()
                    block(s, b"1")
                    continue
                successor.settimeout(HANDOVER_S + 0.5)
                try:
                    check(False, f"an answer: {successor.recv(100)}")
                except TimeoutError:
                    agent.signal(signal.SIGCONT)
                successor.settimeout(60)
                check(successor.recv(100) == b'{"yours":true}\0', "what the successor is told")
                check(agent.wait_exit() == 0, "the old agent's exit status")
                given.close()
                successor.close()
        finally:
            if agent.process is not None:
                agent.kill()
                print("\n".join(agent.lines[-20:]))


def the_pause_that_clients_see():
    """32 writes in flight of each of two clients; how long nothing is answered is printed."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        c.volume_create("w", "16M")
        words = ("--volume", "v", "--volume", "w", "--control", os.path.join(c.folder, "control"))
        agent = Agent(c, *words).start()
        small = Steady(agent)
        large = Steady(agent, name=b"w", block=256 << 10, blocks=64, depth=4)
        pauses = []
        try:
            for _ in range(5):
                small.more(1000)
                small.take_longest_s()
                successor = Agent(c, *words, "--replace").start()
                check(agent.wait_exit() == 0, "the old agent's exit status")
                agent = successor
                small.more(1000)
                pauses.append(small.take_longest_s())
            large.stop()
            small.stop()
            print("longest time without an answer, ms: " +
                  " ".join(f"{1000 * p:.0f}" for p in pauses))
            check(agent.stop() == 0, "the agent's exit status")
        finally:
            if agent.process is not None:
                agent.kill()
                print("\n".join(agent.lines[-40:]))


def what_a_predecessor_may_not_give():
    """A successor that is told nonsense says so and ends; it takes nothing."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "control")
        whole = {"export": "v", "peer": "p", "style": 0, "has_context": False}
        for packet, files in (
                (b"nonsense", 0), (b"{}\0", 0), (b'{"connection":{}}\0', 1),
                (b'{"listener":{"path":"/x"}}\0', 0),
                (b'{"export":{}}\0', 0), (b'{"export":{"name":"","read_only":false}}\0', 0),
                ({**whole, "export": "w"}, 1), ({**whole, "volume_id": -1}, 1),
                ({**whole, "style": 3}, 1), ({**whole, "skip_bytes": -1}, 1), (whole, 0),
                ({**whole, "output_bytes": 5}, 1), ({**whole, "input_bytes": 5}, 2),
                ({**whole, "output_bytes": 3, "input_bytes": 3}, 2),
                ({**whole, "output_bytes": 1 << 62, "input_bytes": 4 - (1 << 62)}, 2),
                ({**whole, "output_bytes": 1 << 40}, 2)):
            if isinstance(packet, dict):
                packet = json.dumps({"connection": packet}).encode() + b"\0"
            agent = Agent(c, "--volume", "v", "--control", path, "--replace")
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as old:
                old.bind(path)
                old.listen()
                agent.start(wait=False)
                s, _ = old.accept()
                s.recv(1000)
                ours, theirs = socket.socketpair()
                file = os.memfd_create("t")
                os.write(file, b"4444")
                socket.send_fds(s, [packet], [theirs.fileno(), file][:files])
                check(agent.wait_exit() == 1, f"its exit status after {packet}")
                check(agent.count_lines("--replace:") == 1, f"the reason after {packet}")
                for end in (s, ours, theirs):
                    end.close()
                os.close(file)
            os.unlink(path)


def an_address_that_others_reach_is_not_taken_without_a_word():
    """What wanted a key wants none at a successor without one: the predecessor goes on, and its clients with it."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        keys = os.path.join(c.folder, "keys")
        run_argv(["psktool", "-u", "alice", "-p", keys])
        words = ("--volume", "v", "--control", os.path.join(c.folder, "control"))
        with Agent(c, *words, "--listen", "tcp://0.0.0.0:0", "--tls-psk", keys) as agent:
            port = agent.wait_line("ready listen=tcp").split("tcp://0.0.0.0:")[1].split()[0]
            uri = f"nbds://alice@127.0.0.1:{port}/v?tls-psk-file={keys}"
            run_argv(["nbdinfo", uri])
            for weaker in ((), ("--tls-psk", keys, "--tls-optional")):
                successor = Agent(c, *words, *weaker, "--replace").start(wait=False)
                check(successor.wait_exit() == 1, f"a successor's exit status with {weaker}")
                check(successor.count_lines("--replace:.*other hosts reach it.*--listen-open") == 1, "the reason")
                run_argv(["nbdinfo", uri])


def head(kind, offset, length, cookie=7):
    return struct.pack(">IHHQQI", 0x25609513, 0, kind, cookie, offset, length)


class Slow:
    """Three clients: in the middle of a write, of one that is refused, and one who reads no replies."""

    def __init__(self, agent, is_secure):
        self.half, self.refused, self.deaf = (Client(agent) for _ in range(3))
        for client in (self.half, self.refused, self.deaf):
            if is_secure:
                client.start_tls()
            if client is self.deaf:  # long reads are answered in parts
                client.option(8)
                check(client.reply()[1] == 1, "structured replies")
            check(client.go() == 1, "GO")
        self.data = os.urandom(8 << 20)
        self.half.s.sendall(head(0, 16 << 20, 1 << 20) * 9 + head(1, 5, len(self.data)) +
                            self.data[:3000000])
        self.refused.s.sendall(head(0, 20 << 20, 1 << 20) * 5 + head(1, 0, 33 << 20) +
                               bytes(10 << 20))
        # More than is taken at a time, and part of one more. What is read was written before.
        self.reads = [head(0, (16 + i % 16) << 20, 1 << 20, i) for i in range(100)]
        self.deaf.s.sendall(b"".join(self.reads)[:-10])

    def finish(self, content):
        for _ in range(9):
            check(self.half.error() == 0, "a read in front of a write")
            check(self.half.get(1 << 20) == content[:1 << 20], "what it reads")
        self.half.s.sendall(self.data[3000000:])
        check(self.half.error() == 0, "the write that was half there")
        self.half.command(0, 5, len(self.data))
        check(self.half.error() == 0 and self.half.get(len(self.data)) == self.data, "its data")
        self.refused.s.sendall(bytes(23 << 20))
        errors = []
        for _ in range(6):  # in any order
            errors.append(self.refused.error())
            check(errors[-1] != 0 or
                  self.refused.get(1 << 20) == content[4 << 20:5 << 20], "what is read")
        check(sorted(errors) == [0] * 5 + [EINVAL], f"a write of 33 MiB: {errors}")
        self.refused.command(0, 16 << 20, 4096)
        check(self.refused.error() == 0 and self.refused.get(4096) == content[:4096], "behind it")
        self.deaf.s.sendall(self.reads[-1][-10:])
        left = {i: 1 << 20 for i in range(100)}
        while left:  # in any order
            magic, flags, kind, cookie, length = struct.unpack(">IHHQI", self.deaf.get(20))
            check(magic == 0x668E33EF and kind in (0, 1), f"a reply {magic:x}, {kind}")
            if kind == 1:
                at = struct.unpack(">Q", self.deaf.get(8))[0] - (16 << 20)
                check(at >> 20 == cookie % 16, f"read {cookie}: its offset")
                check(self.deaf.get(length - 8) == content[at:at + length - 8], f"read {cookie}")
                left[cookie] -= length - 8
            if flags & 1:
                check(left.pop(cookie) == 0, f"read {cookie}: its data")
        for client in (self.half, self.refused, self.deaf):
            client.s.close()


def the_slow_hold_up_nobody():
    """What is half received or not sent goes along, under TLS too; a busy client hardly notices."""
    with Cluster(nodes=3, device_memory="256M") as c:
        c.volume_create("v", "32M")
        c.volume_create("w", "4M")
        make_certificates(c.folder)
        words = ("--volume", "v", "--volume", "w", "--control", os.path.join(c.folder, "control"),
                 "--tls-certificates", c.folder, "--tls-optional")
        agents = [Agent(c, *words).start()]
        try:
            content = os.urandom(16 << 20)
            first = Client(agents[0])
            check(first.go() == 1, "GO")
            first.command(1, 16 << 20, len(content), data=content)
            check(first.error() == 0, "a write")
            busy = Steady(agents[0], name=b"w", blocks=1024)
            for is_secure in (False, True):
                slow = Slow(agents[-1], is_secure)
                busy.more(500)
                # Called off, then done, twice.
                successor, _ = ask_to_give(os.path.join(c.folder, "control"), carries=True)
                successor.close()
                agents[-1].wait_line("not handed over, going on")
                busy.take_longest_s()
                for _ in range(2):
                    agents.append(Agent(c, *words, "--replace").start())
                    busy.more(500)
                print(f"longest time without an answer, ms: {1000 * busy.take_longest_s():.0f}")
                check(agents[-2].count_lines("cannot be") == 0, "cut off")
                slow.finish(content)
            busy.stop()
            for agent in agents[:-1]:
                check(agent.wait_exit() == 0, "an old agent's exit status")
            check(agents[-1].stop() == 0, "the last agent's exit status")
        finally:
            for agent in agents:
                if agent.process is not None:
                    agent.kill()
                    print("\n".join(agent.lines[-20:]))


class TlsClient:
    def __init__(self, uri):
        self.process = subprocess.Popen(["/usr/bin/python3", "-c", READER, uri], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        check(self.process.stdout.readline() == "ready\n", "a TLS client cannot come in")

    def write(self, byte):
        self.process.stdin.write(f"{byte}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def leave(self):
        self.process.stdin.close()
        return self.process.wait()


def tls_agent(c, *words):
    keys = os.path.join(c.folder, "keys")
    if not os.path.exists(keys):
        run_argv(["psktool", "-u", "alice", "-p", keys])
    agent = Agent(c, "--volume", "v", "--volume", "w", "--tls-psk", keys, "--tls-optional",
                  "--control", os.path.join(c.folder, "control"), *words)
    agent.tls_uri = (f"nbds+unix://alice@/%s?socket={agent.socket}&tls-psk-file={keys}")
    return agent


def clients_under_tls_stay():
    """The old agents keep the sessions of three generations, until these have gone, and relay."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        c.volume_create("w", "4M")
        agents = [tls_agent(c).start()]
        clients, fsx = [TlsClient(agents[0].tls_uri % "w")], None
        try:
            plain = Client(agents[0])
            check(plain.go(b"w") == 1, "GO")
            fsx = Daemon("fsx", ["/usr/bin/python3", FSX, agents[0].tls_uri % "v", "7", "0", "3"]).start(wait=False)
            for i in range(3):
                before = c.metric("writes")
                while c.metric("writes") < before + 300:
                    check(fsx.process.poll() is None, "fsx has ended")
                agents.append(tls_agent(c, "--replace").start())
                agents[-2].wait_line("relaying TLS clients")
                clients.append(TlsClient(agents[-1].tls_uri % "w"))
                for k, client in enumerate(clients):
                    check(client.write(chr(97 + k)) == chr(97 + k), f"TLS client {k}")
                plain.command(0, 4096, 1)
                check(plain.error() == 0 and plain.get(1) == chr(97 + i + 1).encode(), "plain")
            check(fsx.stop() == 0, "fsx failed\n" + "\n".join(fsx.lines))
            for agent, client in zip(agents[:3], clients):
                check(agent.process.poll() is None, "an agent went before its TLS client")
                check(client.leave() == 0, "a TLS client's exit status")
                check(agent.wait_exit() == 0, "an old agent's exit status")
            check(clients[3].leave() == 0, "a TLS client's exit status")
            check(agents[3].stop() == 0, "the last agent's exit status")
        finally:
            for process in [*agents, *([fsx] if fsx is not None else [])]:
                if process.process is not None:
                    process.kill()
                    print("\n".join(process.lines[-20:]))
            for client in clients:
                client.process.kill()


def ends_of_clients_under_tls():
    """Where the hand-over is called off they stay; where either agent ends, they see that."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        c.volume_create("w", "4M")
        old = tls_agent(c).start()
        client = TlsClient(old.tls_uri % "w")
        new = None
        try:
            successor, given = ask_to_give(os.path.join(c.folder, "control"))
            check(len(given) == 1, "one connection")
            for s, _ in given:
                s.close()
            successor.close()
            old.wait_line("not handed over, going on")
            check(client.write("x") == "x", "after a hand-over that was called off")
            new = tls_agent(c, "--replace").start()
            old.wait_line("relaying TLS clients")
            check(client.write("y") == "y", "relayed twice")
            new.kill()
            check(client.write("z") == "error", "its agent is gone")
            check(old.wait_exit() == 0, "the old agent's exit status")
            client.leave()
            for way in ("the relaying agent is stopped", "is killed"):
                old = tls_agent(c).start()
                client = TlsClient(old.tls_uri % "w")
                new = tls_agent(c, "--replace").start()
                check(client.write("1") == "1", "relayed")
                if way == "is killed":
                    old.kill()
                else:
                    check(old.stop() == 0, "the old agent's exit status")
                check(client.write("2") == "error", way)
                client.leave()
                other = TlsClient(new.tls_uri % "w")
                check(other.write("3") == "3" and other.leave() == 0, "one that comes again")
                check(new.stop() == 0, "the new agent's exit status")
        finally:
            client.process.kill()
            for agent in (old, new):
                if agent is not None and agent.process is not None:
                    agent.kill()
                    print("\n".join(agent.lines[-20:]))


if __name__ == "__main__":
    main(what_a_predecessor_may_not_give, an_address_that_others_reach_is_not_taken_without_a_word, what_was_given_is_read_by_nobody_else, refused_while_the_gateway_is_slow,
         the_predecessor_has_the_last_word, a_name_that_is_another_volume_s_now,
         a_name_that_nobody_has_any_more, a_new_client_while_what_was_renamed_is_opened, exports_that_were_attached_at_run_time, what_could_not_be_taken_is_taken_no_more,
         a_predecessor_that_was_stopped_for_a_while, replaced_by_a_successor_under_load,
         the_pause_that_clients_see, the_slow_hold_up_nobody,
         clients_under_tls_stay, ends_of_clients_under_tls)
