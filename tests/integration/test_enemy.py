#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An enemy in the middle of connections with keys: what it does to one message ends that connection, and nothing more."""
import concurrent.futures
import itertools
import re
import selectors
import socket
import struct
import threading

from libcluster import WAIT_S, binary, check, main, run_argv, small_disks
from libkeys import Authority, Keyed
from libload import Load
from libmiddle import ACCEPTOR, CLEAR, CONNECTOR, Deed, Middle
from libwire import HEADER_BYTES, get

# cleave/status.h: statuses that make a gateway give up, were they believed.
STATUSES = (4, 11, 17)
# Messages: two of the handshake and a sealed hello of the connector, then requests; one, a hello, then replies of the acceptor.
MESSAGES = [(CONNECTOR, 0), (CONNECTOR, 1), (CONNECTOR, 2), (CONNECTOR, 3),
            (ACCEPTOR, 0), (ACCEPTOR, 1), (ACCEPTOR, 2)]
# magic, opcode, payload_bytes, epoch, flags, status of a header; a record's type and length; within, and the last one
CLEAR_BYTES = (0, 5, 36, 40, 48, 50, 64, 68, 200, -1)
# header, content key, its tag, the payload's tag, and the payload
SEALED_BYTES = (0, 40, 70, 85, 95, 96, -1)
HALF_COUNT = 500  # a port has places for 64
ELSEWHERE = "127.0.0.2"  # a host of the enemy's own


def every_deed():
    """All that is done to the messages of a client's connection."""
    for side, nth in MESSAGES:
        for at in CLEAR_BYTES if nth < CLEAR[side] else SEALED_BYTES:
            yield Deed(side, nth, "flip", at)
        for verb in ("drop", "repeat", "truncate", "half"):
            yield Deed(side, nth, verb)
    yield Deed(CONNECTOR, 1, "swap")
    yield from downgrades()


def few_deeds():
    """One of each kind to each message, for the links of a gateway."""
    for side, nth in MESSAGES:
        yield Deed(side, nth, "flip", 200 if nth < CLEAR[side] else 85)
        for verb in ("repeat", "truncate", "half"):
            yield Deed(side, nth, verb)
    for side, nth in MESSAGES[2:]:
        yield Deed(side, nth, "drop")
    yield from downgrades()


def downgrades():
    for level in (0, 1, 2):  # nothing, open, sign
        yield Deed(CONNECTOR, 0, "level", level)
        yield Deed(ACCEPTOR, 0, "level", level)
    yield Deed(CONNECTOR, 1, "level", 2)
    yield Deed(CONNECTOR, 0, "plain")
    yield Deed(ACCEPTOR, 0, "plain")
    for status in STATUSES:
        yield Deed(ACCEPTOR, 0, "refuse", status)


def client_through(c, shown, deed):
    middle = Middle(c.address)
    try:
        middle.arm(deed)
        result = run_argv([binary("cleave"), "--gateway", middle.address, "--key", c.client_key,
                           "volume", "show", "known"], check_rc=False)
        check(deed.is_done.is_set(), f"{deed}: it was never done")
        check(deed.has_ended.wait(WAIT_S), f"{deed}: the connection goes on")
        # It comes again, or says why not; what it shows is what there is.
        check(result.stdout == shown if result.returncode == 0 else
              result.stdout == "" and re.search(r"^cleave: tcp://\S+: \w+", result.stderr),
              f"{deed}: {result.returncode} {result.stdout} {result.stderr}")
    finally:
        middle.close()


def a_client_is_told_nothing_wrong():
    with Authority() as a, Keyed(a) as c:
        c.volume_create("known", "64M")
        shown = c.cleave("volume", "show", "known").stdout
        # First, and alone: of the many lines about those that come together the log leaves most out.
        check(c.cleave_as(None, "volume", "show", "known").returncode != 0, "who has no key is let in")
        c.gateway.wait_line("refused a connection .*it came without a key")
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for result in [pool.submit(client_through, c, shown, deed) for deed in every_deed()]:
                result.result()
        c.gateway.wait_line("refused a connection .*the handshake failed")
        check(c.metric("auths_refused") >= 5, f"{c.metric('auths_refused')} are counted as refused")
        check(c.metric("protocol_errors") >= 10, f"{c.metric('protocol_errors')} are counted as protocol errors")
        c.load("--volume", "known", "--operations", "100")


class Between(Keyed):
    """Whose gateway reaches each node through somebody."""

    def start_node(self, index, listen=None):
        self.middles = [*getattr(self, "middles", []), Middle(super().start_node(index, listen))]
        return self.middles[-1].address

    def __exit__(self, *reason):
        for middle in self.middles:
            middle.close()
        return super().__exit__(*reason)


def a_gateway_goes_on_beside_an_enemy():
    with Authority() as a, Between(a, nodes=5) as c, Load(c, size="64M") as load:
        load.wait_writes(50)
        deeds = few_deeds()
        while batch := list(itertools.islice(deeds, len(c.middles))):
            for middle, deed in zip(c.middles, batch):
                middle.arm(deed)
                middle.cut()
            for deed in batch:
                check(deed.is_done.wait(WAIT_S), f"{deed}: it was never done")
                check(deed.has_ended.wait(WAIT_S), f"{deed}: the connection goes on")
            load.wait_writes(20)
        c.gateway.wait_line("the peer answered without a handshake")
        c.nodes[0].wait_line("refused")
        check(c.gateway.process.poll() is None, "a refusal in the clear has ended the gateway")
        check(c.metric("protocol_errors") >= 5, "not counted as protocol errors")


def first_flight(c):
    """What a client with a key says first."""
    with socket.create_server(("127.0.0.1", 0)) as listener, concurrent.futures.ThreadPoolExecutor(1) as pool:
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        client = pool.submit(run_argv, [binary("cleave"), "--gateway", address, "--key", c.client_key, "status"],
                             check_rc=False)
        with listener.accept()[0] as s:
            head = get(s, HEADER_BYTES)
            flight = head + get(s, struct.unpack_from("<I", head, 36)[0])
        client.result()
    return flight


class HalfHandshakes:
    """So many connections from another host, with a first flight each and nothing behind it; who is thrown out comes again at
    once."""

    def __init__(self, address, flight, count):
        host, port = address.removeprefix("tcp://").split(":")
        self.target, self.flight = (host, int(port)), flight
        self.again_count, self.is_over = 0, False
        self.selector = selectors.DefaultSelector()
        for _ in range(count):
            self._come()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _come(self):
        s = socket.create_connection(self.target, source_address=(ELSEWHERE, 0))
        s.sendall(self.flight)
        s.setblocking(False)
        self.selector.register(s, selectors.EVENT_READ)

    def _run(self):
        while not self.is_over:
            for key, _ in self.selector.select(0.1):
                try:
                    if key.fileobj.recv(1 << 16):
                        continue  # the acceptor's flight: it waits for ours
                except BlockingIOError:
                    continue
                except OSError:
                    pass
                self.selector.unregister(key.fileobj)
                key.fileobj.close()
                self.again_count += 1
                self._come()

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        self.is_over = True
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()


def half_handshakes_keep_nobody_out():
    with Authority() as a, Keyed(a) as c:
        c.volume_create("v", "64M")
        with Load(c, volume="w", size="64M") as load, \
                HalfHandshakes(c.address, first_flight(c), HALF_COUNT) as half:
            load.wait_writes(100)  # who is in stays in
            for _ in range(3):  # who comes gets in, beside those who come again and again
                check("v" in c.cleave("volume", "list").stdout, "no v in the list")
            c.load("--volume", "v", "--operations", "100")
            load.wait_writes(100)
            check(half.again_count > 0, "nobody had to give way")
        c.gateway.wait_line("the handshake was not finished, and others waited")


small_disks()
main(a_client_is_told_nothing_wrong, a_gateway_goes_on_beside_an_enemy, half_handshakes_keep_nobody_out)
