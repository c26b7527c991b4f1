#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two gateways and one cluster: when one goes, the other serves its shards (faults 1, 15, 17, 19)."""
import signal
import time

from libcluster import Cluster, check, main, owner, owner_and_heir, wait_for
from libload import Load
from libnet import Network

LEASE_S = 3


def two_gateways(**options):
    options.setdefault("gateway_args", ("--lease-ms", str(1000 * LEASE_S), "--node-timeout", "1s"))
    return Cluster(gateways=2, shards=4, **options)


def either_gateway_is_killed_and_comes_back():
    with two_gateways() as c, Load(c) as load:
        load.wait_writes(2000)
        for index in (0, 1, 0):
            c.gateways[index].kill()
            load.wait_writes(2000)
            c.gateways[index].start()
            load.wait_writes(2000)


def a_killed_gateway_is_taken_over_before_its_lease_ends():
    """Its lease would be ten minutes: it is the kernel that says that it is dead."""
    with two_gateways(gateway_args=("--lease-ms", "600000", "--node-timeout", "1s")) as c, \
            Load(c) as load:
        load.wait_writes(2000)
        for _ in range(3):
            gone, heir, from_line = owner_and_heir(c)
            gone.kill()
            heir.wait_line(r"shard 0: serving", from_line=from_line)
            took_s = load.wait_writes(1)
            print(f"  first write {took_s:.2f} s after another gateway served")
            load.wait_writes(1000)
            gone.start()
            load.wait_writes(1000)


def a_gateway_leaves_in_good_order():
    """SIGTERM hands the shards over: no lease is waited for."""
    with two_gateways() as c, Load(c) as load:
        load.wait_writes(2000)
        c.gateways[0].stop()
        took_s = load.wait_writes(1)
        print(f"  writes went on {took_s:.2f} s after SIGTERM had ended")
        load.wait_writes(2000)
        c.gateways[0].start()
        load.wait_writes(2000)


def a_gateway_pauses_for_longer_than_its_lease():
    """SIGSTOP: the other one takes over; what the sleeper had queued is refused when it wakes."""
    with two_gateways() as c, Load(c) as load:
        load.wait_writes(2000)
        sleeper, heir, from_line = owner_and_heir(c)
        sleeper.signal(signal.SIGSTOP)
        try:
            heir.wait_line(r"shard 0: serving", from_line=from_line)
            load.wait_writes(2000)
        finally:
            sleeper.signal(signal.SIGCONT)
        load.wait_writes(4000)


def a_gateway_is_cut_off_from_its_clients():
    """It keeps its lease and its shards; when the link is back, the load goes on."""
    with Network() as net, two_gateways(net=net) as c, Load(c) as load:
        load.wait_writes(2000)
        net.link_down(owner(c).name)
        c.nodes[0].wait_idle(0.5)
        net.heal()
        load.wait_writes(2000)


def everything_is_killed():
    with two_gateways() as c, Load(c) as load:
        load.wait_writes(2000)
        for daemon in (*c.gateways, *c.nodes):
            daemon.kill()
        for daemon in (*c.nodes, *c.gateways):
            daemon.start(wait=False)
        for daemon in (*c.nodes, *c.gateways):
            daemon.wait_ready()
        load.wait_writes(2000)


def take_over_with_a_gibibyte_of_log():
    """From kill -9 of the owner to the first write that another gateway serves: no lease is waited for."""
    with Cluster(gateways=2, shards=1, nodes=3, disk_size="3G", slot_size="16M",
                 gateway_args=("--lease-ms", str(1000 * LEASE_S))) as c:
        c.volume_create("big", "1G", "--engine", "none")
        c.load("--volume", "big", "--pattern", "sequential", "--bytes", "1G", "--block-size",
               "64K", "--in-flight", "16", timeout_s=300)
        with Load(c, "--rate", "200", size="64M", in_flight=4) as load:
            load.wait_writes(200)
            gone, heir, from_line = owner_and_heir(c)
            gone.kill()
            started = time.monotonic()
            heir.wait_line(r"shard 0: serving", from_line=from_line)
            served_s = time.monotonic() - started
            load.wait_writes(1)
            took_s = time.monotonic() - started
            print(f"  lease {LEASE_S} s; serving after {served_s:.2f} s, first write after "
                  f"{took_s:.2f} s")
            load.wait_writes(200)


def a_killed_gateways_heads_are_in_its_heirs_memory():
    """The load compares what it reads with what it wrote, through three owners of each shard, and all of it at the end."""
    with two_gateways(gateway_args=("--lease-ms", str(1000 * LEASE_S), "--node-timeout", "1s",
                                    "--mirror-heads", "16M")) as c, Load(c) as load:
        load.wait_writes(4000)
        for index in (0, 1, 0):
            gone, heir = c.gateways[index], c.gateways[1 - index]
            address = c.gateway_addresses[1 - index]
            wait_for(lambda: c.metric("heads_kept", address) > 0, "the heir keeps heads")
            load.wait_writes(2000)  # of each shard that is there; heads go some at a time
            taken, from_line = c.metric("heads_taken", address), len(heir.lines)
            gone.kill()
            heir.wait_line(r"shard \d+: serving", from_line=from_line)
            load.wait_writes(2000)
            check(c.metric("heads_taken", address) > taken, "no head came from memory")
            check(c.metric("heads_refused", address) == 0, "a head in memory was wrong")
            gone.start()
            load.wait_writes(2000)


if __name__ == "__main__":
    main(either_gateway_is_killed_and_comes_back,
         a_killed_gateway_is_taken_over_before_its_lease_ends, a_gateway_leaves_in_good_order,
         a_gateway_pauses_for_longer_than_its_lease, a_gateway_is_cut_off_from_its_clients,
         everything_is_killed, take_over_with_a_gibibyte_of_log,
         a_killed_gateways_heads_are_in_its_heirs_memory)
