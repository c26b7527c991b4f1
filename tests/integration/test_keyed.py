#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster whose daemons have keys: who is let in, who is not and is told why, and what the network sees."""
import os
import signal
import socket
import threading

from libagent import pid_of_agent
from libcluster import (Cluster, Daemon, binary, check, expect_error, free_port, main, run_argv,
                        small_disks, wait_for)
from libkeys import Authority, Keyed
from libload import Load
from test_faults_told import words_ahead

KNOWN = b"the known words of a block that nobody may read on the network "


class Tap:
    """A TCP proxy in a thread that keeps what passes, and flips one bit of the next write if it is told to."""

    def __init__(self, address):
        host, port = address.removeprefix("tcp://").split(":")
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        self.seen, self.flips, self.ended_count = bytearray(), 0, 0
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.target)
            except OSError:
                return
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink, source is client), daemon=True).start()

    def _pump(self, source, sink, is_request):
        try:
            while data := bytearray(source.recv(1 << 16)):
                with self.lock:
                    self.seen += data
                    if self.flips > 0 and is_request and len(data) > 1000:  # in a write, not in a greeting
                        self.flips -= 1
                        data[len(data) // 2] ^= 4
                sink.sendall(data)
        except OSError:
            pass
        with self.lock:
            self.ended_count += 1
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # gone already

    def close(self):
        self.listener.close()


def nobody_comes_in_without_the_right_key():
    with Authority() as a, Authority() as other, Authority("00000000000a11e4") as alien, Keyed(a) as c:
        c.volume_create("v", "64M")
        c.load("--volume", "v", "--operations", "200")
        for key, text in ((None, "this cluster wants a key: --key"),
                          (other.issue("admin/test"), "of another authority"),
                          (alien.issue("admin/test"), "of another authority"),
                          (a.issue("node/1"), "node/1 is no gateway or client")):
            expect_error(c.cleave_as(key, "status"), text)
        check(c.cleave_as(a.issue("monitor/m"), "status").returncode == 0, "a monitor")
        # Refusals are in the log and in the counters.
        c.gateway.wait_line("refused a connection .*it came without a key")
        c.gateway.wait_line("hello refused .*node/1 is no gateway or client")
        check(c.metric("auths_refused") >= 3, "not counted")
        # An operator's key is no key for a file that others may read; and there may be no file at all.
        os.chmod(a.issue("monitor/m"), 0o644)
        expect_error(c.cleave_as(a.issue("monitor/m"), "status"), "--key: .*chmod 600")
        expect_error(c.cleave_as(a.at("none"), "status"), "--key: .*none: No such file")
        # Gateways alone come to nodes, and nodes alone are nodes.
        expect_error(run_argv([binary("cleave"), "--gateway", c.addresses[0], "--key", c.client_key, "status"],
                              check_rc=False), "node/1 is no gateway")


def keys_belong_to_daemons():
    with Authority() as a, Keyed(a) as c:
        node, gateway = c.nodes[0], c.gateway
        node.kill()
        expect_error(run_argv([*node.argv[:-1], a.issue("node/2")], check_rc=False),
                     "--key: .*node/2 is not node 1", codes=(1,))
        expect_error(run_argv([*node.argv[:-1], a.issue("gateway/1")], check_rc=False),
                     "--key: gateway/1 is no node", codes=(2,))
        gateway.kill()
        expect_error(run_argv([*gateway.argv, "--gateway-id", "2"], check_rc=False),
                     "--key: gateway/1 is not gateway 2", codes=(2,))
        expect_error(run_argv([*gateway.argv[:-1], a.issue("client/x")], check_rc=False),
                     "--key: client/x is no gateway", codes=(2,))
        # Who has $CLEAVE_KEY for the command, and types no --key, is told which of them is meant; a dump needs none.
        admin = {**os.environ, "CLEAVE_KEY": c.client_key}
        expect_error(run_argv(gateway.argv[:-2], check_rc=False, env=admin),
                     r"cleave-gateway: \$CLEAVE_KEY: admin/test is no gateway", codes=(2,))
        dump = run_argv([binary("cleave"), "meta", "dump", "--meta", c.meta], env=admin).stdout
        check('{"end":' in dump, f"no dump: {dump}")
        expect_error(run_argv([*gateway.argv, "--security", "shut"], check_rc=False),
                     "--security: 'shut': seal, sign or open is wanted", codes=(2,))
        # What others reach wants a key, or the word.
        open_node = [*node.argv[:-2]]
        open_node[open_node.index("--listen") + 1] = "tcp://0.0.0.0:0"
        expect_error(run_argv(open_node, check_rc=False), "--listen: 'tcp://0.0.0.0:0': other hosts reach it",
                     codes=(2,))
        expect_error(run_argv([*open_node, "--security", "seal"], check_rc=False), "seal and sign need a key",
                     codes=(2,))
        opened = Daemon("open", [*open_node, "--security", "open"]).start()
        opened.wait_line("WARN storage: connections are open")
        check(opened.stop() == 0, "its end")


def a_command_hands_its_key_to_the_agent_that_it_starts():
    with Authority() as a, Keyed(a) as c:
        c.volume_create("v", "64M")
        path = os.path.join(c.folder, "image")
        with open(path, "wb") as f:
            f.write(os.urandom(64 << 20))
        # The key is in the command line alone.
        c.cleave("import", "--force", path, "v")
        c.cleave("export", "v", path + ".out")
        with open(path, "rb") as wanted, open(path + ".out", "rb") as got:
            check(wanted.read() == got.read(), "other data")
        control = os.path.join(c.folder, "agent")
        uri = c.cleave("attach", "v", "--agent", control).stdout.strip()
        pid = pid_of_agent(control)
        try:
            check(run_argv(["nbdinfo", "--size", uri]).stdout.strip() == str(64 << 20), f"the size at {uri}")
            c.cleave("detach", "v", "--agent", control)
        finally:
            os.kill(pid, signal.SIGTERM)


def a_gateway_whose_clock_is_before_its_authority_takes_no_shards():
    """It would believe no node, and have shards that nobody else takes: so it ends, and the other one has all."""
    with Authority() as a, Keyed(a, gateways=2) as c:
        c.volume_create("v", "4M")
        argv = words_ahead(c.gateways[1], c.folder, -86400)
        c.gateways[1].kill()
        expect_error(run_argv(argv, check_rc=False), r"its authority \(CA\) is valid from .*, and here it is", "clock",
                     codes=(1,))
        c.load("--volume", "v", "--pattern", "sequential", "--operations", "200")
        c.gateways[1].start()


def tapped(kind, *args):
    """A cluster of that kind whose nodes and gateway are reached through taps, c.taps."""

    class Tapped(kind):
        def tap(self, address):
            self.taps = [*getattr(self, "taps", []), Tap(address)]
            return self.taps[-1].address

        def start_node(self, index, listen=None):
            return self.tap(super().start_node(index, listen))

        def start_gateway(self, index):
            number = free_port()
            address = self.tap(f"tcp://127.0.0.1:{number}")
            gateway = self.gateways[index]
            gateway.argv = self.gateway_argv(
                [f"tcp://127.0.0.1:{number},advertise={address.removeprefix('tcp://')}"], index)
            gateway.start()
            self.gateway_addresses.append(address)

        def __exit__(self, *reason):
            for tap in self.taps:
                tap.close()
            return super().__exit__(*reason)

    return Tapped(*args)


def write_known(c):
    path = os.path.join(c.folder, "known")
    with open(path, "wb") as f:
        f.write((KNOWN * 5000)[:256 * 1024])
    c.volume_create("v", "64M", "--engine", "none")
    c.load("--volume", "v", "--pattern", "sequential", "--read-percent", "30", "--operations", "300",
           "--data", path, "--data-exact")


def the_network_sees_no_data():
    with tapped(Cluster) as c:  # what an open cluster shows: the taps do see
        write_known(c)
        check(sum(KNOWN in tap.seen for tap in c.taps) == 4, "an open cluster's data is not seen")
    with Authority() as a, tapped(Keyed, a) as c:
        write_known(c)
        for tap in c.taps:
            check(len(tap.seen) > 256 * 1024, f"only {len(tap.seen)} bytes went through it")
            check(KNOWN[:16] not in tap.seen, "known words of a block are seen")
            check(b"volume.create" not in tap.seen, "a control request is seen")


def what_is_altered_ends_a_connection_and_loses_nothing():
    with Authority() as a, tapped(Keyed, a) as c:
        with Load(c, size="64M") as load:
            load.wait_writes(300)
            for tap in (c.taps[-1], c.taps[0], c.taps[-1], c.taps[1]):
                ended = tap.ended_count
                tap.flips = 1
                wait_for(lambda: tap.ended_count >= ended + 2, "the connection goes on")
                load.wait_writes(300)
        check(c.metric("protocol_errors") >= 1, "no message was refused by the gateway")


small_disks()
main(nobody_comes_in_without_the_right_key, a_gateway_whose_clock_is_before_its_authority_takes_no_shards, keys_belong_to_daemons,
     a_command_hands_its_key_to_the_agent_that_it_starts, the_network_sees_no_data,
     what_is_altered_ends_a_connection_and_loses_nothing)
