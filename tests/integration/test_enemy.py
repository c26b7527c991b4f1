#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An enemy in the middle of connections with keys: what it does to one message ends that connection, and nothing more."""
import concurrent.futures
import itertools
import re

from libcluster import WAIT_S, binary, check, main, run_argv
from libkeys import Authority, Keyed
from libload import Load
from libmiddle import ACCEPTOR, CLEAR, CONNECTOR, Deed, Middle

# cleave/status.h: statuses that make a gateway give up, were they believed.
STATUSES = (4, 11, 17)
# Messages: two of the handshake and a sealed hello of the connector, then requests; one, a hello, then replies of the acceptor.
MESSAGES = [(CONNECTOR, 0), (CONNECTOR, 1), (CONNECTOR, 2), (CONNECTOR, 3),
            (ACCEPTOR, 0), (ACCEPTOR, 1), (ACCEPTOR, 2)]
# magic, opcode, payload_bytes, epoch, flags, status of a header; a record's type and length; within, and the last one
CLEAR_BYTES = (0, 5, 36, 40, 48, 50, 64, 68, 200, -1)
# header, content key, its tag, the payload's tag, and the payload
SEALED_BYTES = (0, 40, 70, 85, 100, 112, -1)
# What the peer waits for in vain, and then ends: the others end at once.
WAITS = ("drop", "swap", "truncate")


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
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for result in [pool.submit(client_through, c, shown, deed) for deed in every_deed()]:
                result.result()
        c.gateway.wait_line("refused a connection .*it came without a key")
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


main(a_client_is_told_nothing_wrong, a_gateway_goes_on_beside_an_enemy)
