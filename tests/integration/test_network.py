#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links that are cut, lossy or slow, one way or both, in network namespaces (faults 12 to 18).

Each test breaks something under load, sees the load go on, heals it, sees it go on again; at the end
the journal of what was acknowledged must be what the volume holds.
"""
import json
import re
import signal

from libcluster import Cluster, check, main, wait_for
from libload import Load
from libnet import Network

ARGS = ("--node-timeout", "1s")


def with_cluster(fault, nodes=4, **options):
    with Network() as net, Cluster(nodes=nodes, net=net, gateway_args=ARGS, **options) as c:
        with Load(c) as load:
            load.wait_writes(2000)
            fault(c, net, load)
            net.heal()
            load.wait_writes(2000)


def node_cut_off():
    def fault(c, net, load):
        net.link_down("node1")
        load.wait_writes(2000)

    with_cluster(fault)


def node_hears_but_is_not_heard():
    def fault(c, net, load):
        net.drop("node1", "gateway")
        load.wait_writes(2000)

    with_cluster(fault)


def node_is_heard_but_does_not_hear():
    def fault(c, net, load):
        net.drop("gateway", "node1")
        load.wait_writes(2000)

    with_cluster(fault)


def client_cut_off():
    """Nothing moves meanwhile; when the link is back the load goes on by itself."""
    def fault(c, net, load):
        net.link_down("client")
        before = c.nodes[0].cpu_ticks()
        c.nodes[0].wait_idle()
        check(c.nodes[0].cpu_ticks() >= before, "time runs backwards")

    with_cluster(fault, nodes=3)


def lossy_link():
    def fault(c, net, load):
        net.drop_some("node1", 5)
        net.drop_some("gateway", 2)
        load.wait_writes(1000)

    with_cluster(fault)


def slow_link():
    """A token bucket on one node's link: it is left out, and the load keeps its pace."""
    def fault(c, net, load):
        net.rate("node1", "256kbit")
        load.wait_writes(4000)

    with_cluster(fault)


def node_stopped_and_continued():
    """SIGSTOP: no FIN, no RST, and the kernel still acknowledges what is sent (fault 17)."""
    def fault(c, net, load):
        c.nodes[0].signal(signal.SIGSTOP)
        try:
            load.wait_writes(2000)
        finally:
            c.nodes[0].signal(signal.SIGCONT)

    with_cluster(fault)


def node_dies_without_a_word():
    """kill -9, and no FIN or RST reaches the gateway: found by its silence alone (fault 17)."""
    def fault(c, net, load):
        net.drop_resets("node1")
        c.nodes[0].kill()
        load.wait_writes(2000)
        net.heal()
        c.nodes[0].start()

    with_cluster(fault)


def all_nodes_but_one_cut_off():
    """Below two nodes writes wait, and none is lost; they go on when one is back (fault 14)."""
    def fault(c, net, load):
        from_line = len(c.gateway.lines)
        for name in ("node1", "node2", "node3"):
            net.link_down(name)
        for number in (1, 2, 3):
            c.gateway.wait_line(f"node {number}: lost", from_line=from_line)
        c.gateway.wait_line(r"too few|waits? for", from_line=from_line)

    with_cluster(fault)


def gateway_cut_off_from_nodes():
    """It has its lease: status says which gateway it is, and that draining it helps, at once."""
    with Network() as net, Cluster(nodes=3, gateways=2, net=net, gateway_args=ARGS, shards=4) as c:
        with Load(c, size="1G") as load:
            load.wait_writes(2000)
            for node in c.nodes:
                net.drop("gateway2", node.name)
                net.drop(node.name, "gateway2")
            wait_for(lambda: re.search(r"nodes-few: 0 of 3 nodes.* \(say 1 of 2 gateways: 0{15}2\)",
                                       c.cleave("status", check_rc=False).stdout), "nobody says which one")
            check("cleave gateway drain" in c.cleave("status", check_rc=False).stdout, "what helps is not said")
            c.cleave("gateway", "drain", "2", "--wait")
            load.wait_writes(2000)
            net.heal()
            c.cleave("gateway", "undrain", "2")
            load.wait_writes(2000)


def gateway_cut_off_from_nodes_gives_its_shards():
    """Nobody drains it: it asks the other one, which reaches the nodes, and has its share again when they are back."""
    def second():
        found = json.loads(c.cleave("--json", "gateway", "list").stdout)["gateways"]
        return next(((g["state"], g["shards_owned"]) for g in found if int(g["gateway"], 16) == 2), None)

    with Network() as net, Cluster(nodes=3, gateways=2, net=net, gateway_args=ARGS, shards=4) as c:
        with Load(c, size="1G") as load:
            wait_for(lambda: second() == ("serving", 2), "it has not its share")
            load.wait_writes(2000)
            for node in c.nodes:
                net.drop("gateway2", node.name)
                net.drop(node.name, "gateway2")
            wait_for(lambda: second() == ("severed", 0), "it keeps its shards")
            load.wait_writes(2000)
            wait_for(lambda: "gateway-severed" in c.cleave("events", check_rc=False).stdout, "no event says so")
            net.heal()
            wait_for(lambda: second() == ("serving", 2), "it has not its share again")
            load.wait_writes(2000)


def with_proxies(fault, nodes=4, gateway_args=ARGS, **options):
    with Cluster(nodes=nodes, gateway_args=gateway_args, is_proxied=True, **options) as c:
        with Load(c) as load:
            load.wait_writes(500)
            fault(c, load)
            load.wait_writes(2000)


def every_link_is_far():
    """All nodes are 20 ms away: nobody is left out for it, and the load goes on."""
    def fault(c, load):
        for proxy in c.proxies:
            proxy.delay_s = 0.02
        load.wait_writes(500)
        check(c.gateway.count_lines("node .*: lost") == 0, "a node was given up for being far")
        for proxy in c.proxies:
            proxy.delay_s = 0.0

    # A machine that stands still for a second is no distance.
    with_proxies(fault, gateway_args=("--node-timeout", "30s"))


def one_link_is_far():
    """A node that answers after 0.9 s, within its time-out, is left out on its peers' evidence."""
    def fault(c, load):
        c.proxies[0].delay_s = 0.45
        load.wait_writes(4000)
        c.proxies[0].delay_s = 0.0

    with_proxies(fault)


def late_delivery():
    """What was sent to a node arrives seconds later, behind what was sent to others since."""
    def fault(c, load):
        c.proxies[0].hold()
        load.wait_writes(4000)
        c.proxies[0].release()

    with_proxies(fault)


def appends_arrive_after_the_take_over():
    """A gateway's appends are held while another takes its shards; the fence refuses them (I6)."""
    with Cluster(gateways=2, shards=4, is_proxied=True,
                 gateway_args=(*ARGS, "--lease-ms", "1000")) as c:
        with Load(c) as load:
            load.wait_writes(2000)
            for proxy in c.proxies:
                proxy.hold(marked=True)
            heir = c.gateways[1]
            from_line = len(heir.lines)
            c.gateways[0].signal(signal.SIGSTOP)
            try:
                heir.wait_line(r"shard \d+: serving", from_line=from_line)
                load.wait_writes(2000)
                for proxy in c.proxies:
                    proxy.release()
                load.wait_writes(2000)
            finally:
                c.gateways[0].signal(signal.SIGCONT)
            load.wait_writes(4000)


if __name__ == "__main__":
    main(node_cut_off, node_hears_but_is_not_heard, node_is_heard_but_does_not_hear,
         client_cut_off, lossy_link, slow_link, node_stopped_and_continued,
         node_dies_without_a_word, all_nodes_but_one_cut_off, gateway_cut_off_from_nodes,
         gateway_cut_off_from_nodes_gives_its_shards, every_link_is_far, one_link_is_far,
         late_delivery, appends_arrive_after_the_take_over)
