#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shards take device memory while a port owns them: many on few ports, and more than there is room for."""
import re

from libcluster import Cluster, check, main, wait_for
from libload import Load

MIB = 1 << 20
RINGS_OF_16M = 10


def ports_of(c, address=None):
    return c.status(address)["ports"]


def states(c, address):
    return [s["state"] for s in c.status(address)["shards"]]


def sixteen_ports_take_64_shards_in_256_mib():
    """16 MiB a port; and as many megabytes again for everything else."""
    with Cluster(shards=64, ports=16, device_memory="16M", slot_size="1M") as c:
        ports = ports_of(c)
        check(len(ports) == 16, "16 ports")
        check(all(p["rings"] == p["rings_max"] == 4 for p in ports), f"four rings each: {ports}")
        check(all(p["shards_short"] == 0 for p in ports), "all have room")
        check(states(c, c.address) == ["serving"] * 64, "all serve")
        rss = c.gateway.rss_bytes()
        print(f"  resident: {rss // MIB} MiB, of them 256 of device memory")
        check(rss < 640 * MIB, f"{rss} bytes are resident")
        with Load(c, size="4G") as load:
            load.wait_writes(3000)


def one_port_takes_256_shards():
    with Cluster(shards=256, device_memory="512M", slot_size="1M", disk_size="2G") as c:
        port = ports_of(c)[0]
        check(port["rings"] == port["rings_max"] == 256, f"256 rings: {port}")
        check(c.gateway.count_lines("waits for room") == 0, "it has room")
        with Load(c, size="16G") as load:
            load.wait_writes(3000)


class LateCluster(Cluster):
    """Its gateways start together: none is ready alone."""

    def start_gateway(self, index):
        gateway = self.gateways[index]
        gateway.argv = self.gateway_argv(index=index)
        gateway.start(wait=False)
        if index + 1 < len(self.gateways):
            return
        for i, each in enumerate(self.gateways):
            ports = re.findall(r"tcp://[0-9.:\[\]a-f]+", each.wait_ready())
            each.argv = self.gateway_argv(ports, i)
            self.gateway_addresses.append(ports[0])


def shards_of_a_dead_gateway_wait_for_room():
    """Nine shards each, and ten rings: eight of the dead one's wait, and say for what, until it is back."""
    with LateCluster(gateways=2, shards=18, device_memory="16M", slot_size="1M") as c, \
            Load(c, size="4G") as load:
        load.wait_writes(2000)
        check(all(p["rings_max"] == RINGS_OF_16M for at in c.gateway_addresses
                  for p in ports_of(c, at)), "ten rings a port")
        check(c.metric_of_all("rings") == 18, "all are owned")
        heir, at = c.gateways[0], c.gateway_addresses[0]
        c.gateways[1].kill()
        # Perhaps said at the start already, when both took shards at once; not more than five times then.
        line = heir.wait_line("waits for room: .* full with 10 shards: --device-memory")
        wait_for(lambda: c.metric("shards_short", at) == 8, "eight are short")
        wait_for(lambda: states(c, at).count("serving") == RINGS_OF_16M, "ten serve")
        check(states(c, at).count("short") == 8, f"{states(c, at)}")
        check(c.metric("rings", at) == RINGS_OF_16M, "no more than there are")
        enough = int(re.search(r"--device-memory (\d+)M", line).group(1))
        check(18 < enough < 64, f"it proposes {enough} MiB")
        c.gateways[1].start()
        load.wait_writes(2000)
        wait_for(lambda: c.metric("shards_short", at) == 0, "none is short")
        # With what was proposed it has room for all, alone.
        heir.stop()
        heir.argv[heir.argv.index("--device-memory") + 1] = f"{enough}M"
        heir.start()
        c.gateways[1].stop()
        wait_for(lambda: states(c, at).count("serving") == 18, "it serves all")
        load.wait_writes(2000)
        c.gateways[1].start()


main(sixteen_ports_take_64_shards_in_256_mib, one_port_takes_256_shards,
     shards_of_a_dead_gateway_wait_for_room)
