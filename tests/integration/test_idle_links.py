#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Connections that say hello and nothing more: they keep nobody out, and take nothing from who is at work."""
import json
import os
import resource
import struct
import threading

from libagent import Agent, Client
from libcluster import Cluster, check, main, wait_for
from libwire import (GATEWAY_HELLO, answer, connect, control, hello, hello_message, is_open,
                     raise_descriptors, read_block)

PLACES = 4096 - 256  # of a gateway's port, without those kept for its own
NODE_PLACES = 1024


def write(s, letter):
    s.command(1, 0, 4096, data=letter * 4096)
    check(s.error() == 0, "a write of the old client")


def read(s, letter):
    s.command(0, 0, 4096)
    check(s.error() == 0 and s.get(4096) == letter * 4096, "a read of the old client")


def everybody_is_served(c, old):
    """Who comes anew, and who has a session since before."""
    check("v" in c.cleave("volume", "list").stdout, "no v in the list")
    c.load("--volume", "w", "--operations", "1000", "--in-flight", "16")
    write(old, b"2")
    read(old, b"2")


def with_an_old_client(test):
    def run():
        with Cluster(nodes=3) as c:
            c.volume_create("v", "16M")
            c.volume_create("w", "16M")
            with Agent(c) as agent:
                old = Client(agent)
                check(old.go() == 1, "GO")
                write(old, b"1")
                test(c, old)
                old.s.close()
    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def close_all(connections):
    for s in connections:
        s.close()


def receives_that_are_not_given_back():
    """A few hundred hellos hold all receives that there are for requests."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        idle = [hello(c.address) for _ in range(400)]
        check("v" in c.cleave("volume", "list").stdout, "no v in the list")
        c.gateway.wait_line("WARN .*closed a connection that uses no volume, the receives that it was")
        c.load("--volume", "v", "--operations", "1000", "--in-flight", "16")
        check(c.gateway.count_lines("WARN") < 100, "the log is not rate limited")
        close_all(idle)


def half_requests():
    """Each holds a receive with the beginning of a request, and another one for nothing."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        half = [hello(c.address) for _ in range(400)]
        for s in half:
            s.sendall(control('{"op":"status"}')[:70])
        check("v" in c.cleave("volume", "list").stdout, "no v in the list")
        c.load("--volume", "v", "--operations", "1000", "--in-flight", "16")
        close_all(half)


@with_an_old_client
def places_that_nobody_uses(c, old):
    """As many hellos as a port has places, and some more: the oldest of them go."""
    idle = [hello(c.address) for _ in range(PLACES + 100)]
    c.gateway.wait_line(f"WARN .*closed a connection that uses no volume, its place is needed"
                        f".*connections_max={PLACES}")
    everybody_is_served(c, old)
    check(not any(is_open(s) for s in idle[:100]), "the oldest are there")
    # Those that came last have their place, and are served.
    last = idle[-1]
    last.setblocking(True)
    last.sendall(control('{"op":"status"}'))
    status, text, _ = answer(last)
    check(status == 0 and text[:1] == b"{", f"status {status}: {text[:100]}")
    check(c.metric("qps_cut") >= 100, "not counted")
    check(c.metric("qps_refused") == 0, "somebody was refused")
    check(c.gateway.count_lines("WARN") < 100, "the log is not rate limited")
    close_all(idle)
    everybody_is_served(c, old)


@with_an_old_client
def they_come_again(c, old):
    """For each that is closed there is another one at once."""
    idle, is_over = [], threading.Event()

    def flood():
        while not is_over.is_set():
            s = connect(c.address)
            s.sendall(hello_message())
            idle.append(s)
            if len(idle) > PLACES + 500:
                idle.pop(0).close()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        c.gateway.wait_line("WARN .*closed a connection that uses no volume, its place is needed")
        everybody_is_served(c, old)
    finally:
        is_over.set()
        thread.join()
    close_all(idle)


@with_an_old_client
def strangers(c, old):
    """They do not even say hello."""
    idle = [connect(c.address) for _ in range(PLACES + 100)]
    everybody_is_served(c, old)
    close_all(idle)


@with_an_old_client
def readers_that_read_nothing(c, old):
    """Anybody can say hello as a reader of a volume."""
    idle = [hello(c.address, volume_id=1) for _ in range(PLACES + 100)]
    c.gateway.wait_line("WARN .*closed a connection that uses no volume, its place is needed")
    everybody_is_served(c, old)
    close_all(idle)


def readers_that_read():
    """Who uses a volume stays, silent or not: when all do there is no room, and who comes is told so."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        volume = json.loads(c.cleave("--json", "volume", "show", "v").stdout)
        volume = volume.get("volume", volume)
        argv = c.gateway.argv
        c.gateway.stop()
        c.gateway.start(argv=["prlimit", "--nofile=256:256", *argv])
        readers = []
        for _ in range(56):
            readers.append(hello(c.address, volume_id=volume["id"]))
            read_block(readers[-1], volume["segment_base"])
        result = c.cleave("status", check_rc=False)
        told = result.stdout + result.stderr
        check("no room for more connections, it has 56" in told, told)
        check(all(is_open(s) for s in readers), "a reader was closed")
        for _ in range(2):  # a command has a connection of its own to each gateway, beside the one that it begins with
            readers.pop().close()
        wait_for(lambda: c.cleave("node", "list", check_rc=False).returncode == 0, "a place")
        check(all(is_open(s) for s in readers), "a reader was closed")
        check(c.metric("qps_cut") == 0, "somebody was cut off")
        close_all(readers)


@with_an_old_client
def no_descriptors_left(c, old):
    """An operator's limit, lowered while the gateway runs."""
    idle = [hello(c.address) for _ in range(50)]
    pid = c.gateway.pid
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    top = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (top + 1, hard))
    late = [hello(c.address) for _ in range(10)]
    check("v" in c.cleave("volume", "list").stdout, "no v in the list")
    write(old, b"2")
    read(old, b"2")
    check(c.metric("qps_cut") > 0, "nobody gave way")
    close_all(idle + late)
    c.gateway.wait_idle()


def gateways_at_full_nodes():
    """Whatever else is connected to a node, its gateways come in, and stay."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        idle = []
        for address in c.addresses:
            first = connect(address)
            first.sendall(hello_message())
            status, ours, _ = answer(first)
            check(status == 0, f"hello: status {status}")
            store = struct.unpack_from("<QQ", ours, 32)
            idle.append(first)
            idle += [hello(address) for _ in range(NODE_PLACES // 2)]
            # These say what the gateway says, and ask for nothing.
            idle += [hello(address, **GATEWAY_HELLO, session_id=store[0], attach=store[1])
                     for _ in range(NODE_PLACES // 2 + 50)]
        c.load("--volume", "v", "--operations", "1000", "--in-flight", "16")
        check(c.gateway.count_lines("lost") == 0, "a link of the gateway was closed")
        for node in c.nodes:
            node.wait_line("WARN node: closed the connection that was used least, its place is needed")
        c.gateway.kill()
        c.gateway.start()
        c.load("--volume", "v", "--operations", "1000", "--in-flight", "16")
        close_all(idle)


def nodes_with_few_descriptors():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        for node in c.nodes:
            node.stop()
            node.start(argv=["prlimit", "--nofile=256:256", *node.argv])
            node.wait_line("WARN storage: .*RLIMIT_NOFILE.*limit=256 ")
        idle = [hello(address) for address in c.addresses for _ in range(200)]
        for node in c.nodes:
            node.wait_line("WARN node: closed .*connections_max=112$")
        c.gateway.kill()
        c.gateway.start()
        c.load("--volume", "v", "--operations", "1000", "--in-flight", "16")
        close_all(idle)


if __name__ == "__main__":
    if not raise_descriptors(PLACES + 1000):
        print("not tested: the hard limit on open files is too low")
    else:
        main(receives_that_are_not_given_back, half_requests, places_that_nobody_uses,
             they_come_again, strangers, readers_that_read_nothing,
             readers_that_read, no_descriptors_left, gateways_at_full_nodes, nodes_with_few_descriptors)
