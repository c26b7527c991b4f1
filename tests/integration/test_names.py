#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names wherever an address is, and gateways that are found again when those that a client was told of have gone.

LOCALHOST in these letters is a name: the system's resolver knows it, on every machine, and it may have two addresses.
"""
import json
import os
import re
import shutil

from libcluster import (CLUSTER_ID, Cluster, Daemon, binary, check, expect_error, free_port, main,
                        run, run_argv, small_disks, wait_for)
from libload import Load

NAME = "LOCALHOST"
os.environ["CLEAVE_SECURITY"] = "open"  # gateways listen everywhere


class Named(Cluster):
    """All addresses are names, but those that a socket is bound to."""

    def start_node(self, index, listen=None):
        return super().start_node(index, listen).replace("127.0.0.1", NAME)

    def start_gateway(self, index):
        gateway = self.gateways[index]
        ports = [str(free_port()) for _ in range(self.port_count)]
        gateway.argv = self.gateway_argv(
            [f"tcp://0.0.0.0:{port},advertise={NAME}:0" for port in ports], index)
        line = gateway.start().wait_ready()
        check(re.findall(rf"tcp://{NAME}:(\d+)", line) == ports, f"what it advertises is not in: {line}")
        # The next time at the same ports.
        gateway.argv = self.gateway_argv(
            [f"tcp://0.0.0.0:{port},advertise={NAME}:{port}" for port in ports], index)
        self.gateway_addresses.append(f"tcp://{NAME}:{ports[0]}")


def a_cluster_of_names():
    """Nodes, ports, the map and the calls between gateways, through kills of a node and of a gateway."""
    with Named(gateways=2, ports=2) as c:
        wait_for(lambda: c.cleave("gateway", "list").stdout.count(f"tcp://{NAME}:") == 2,
                 "the gateways are not listed by their names")
        listed = c.cleave("gateway", "list").stdout
        check("127.0.0.1" not in listed and "0.0.0.0" not in listed, f"addresses in\n{listed}")
        with Load(c) as load:
            load.wait_writes(300)
            c.cleave("snapshot", "create", "v@s")  # a call to the other gateway
            c.nodes[0].kill()
            load.wait_writes(300)
            c.nodes[0].start().wait_ready()
            c.gateways[1].kill()
            load.wait_writes(300)
            c.gateways[1].start().wait_ready()
            load.wait_writes(300)


def a_name_is_enough_and_a_list_is_tried_in_turn():
    with Named(nodes=1, gateway_args=("--min-replicas", "1")) as c:
        c.volume_create("v", "4M")
        where = c.address.removeprefix("tcp://")
        # The first is no name of anybody (RFC 2606), the second one's port is nobody's.
        for gateways in (where, f"nobody.invalid:1,{where}", f"127.0.0.1:1,{where},127.0.0.1:2"):
            out = run("cleave", "--gateway", gateways, "volume", "list").stdout
            check(" v " in f" {out} ".replace("\n", " "), out)
            env = {**os.environ, "CLEAVE_GATEWAY": gateways}
            run_argv([binary("cleave"), "volume", "show", "v"], env=env)
        run("cleave-load", "--gateway", f"127.0.0.1:1,{where}", "--volume", "v", "--operations",
            "100")


def what_is_wrong_with_a_name_is_one_line():
    for words, what in (
            (("nobody.invalid:1",), r"nobody\.invalid: (Name or service not known|Temporary "
                                       r"failure|No address|the name was not looked up)"),
            (("gw1:1,,gw2:1",), "'': an address like"),
            (("gw1:1,gw2",), "'gw2': HOST:PORT is wanted"),
            (("gw1:1,gw2:0",), "'gw2:0': nobody listens at port 0"),
            (("http://gw1:1",), "neither tcp:// nor verbs://"),
            (("a" * 128 + ":1",), "at most 127 characters"),
            ((",".join(f"gw{i}:1" for i in range(17)),), "at most 16 of them")):
        result = run("cleave", "--gateway", *words, "status", check_rc=False)
        expect_error(result, what, codes=(2,))
        check(len(result.stderr.splitlines()) == 1, f"more than a line:\n{result.stderr}")
    # A node and a port of nobody: the gateway goes on asking for the one, and ends for the other.
    with Cluster(nodes=1, gateway_args=("--min-replicas", "1")) as c:
        argv = [binary("cleave-gateway"), "--meta", c.meta, "--cluster-id", CLUSTER_ID,
                "--min-replicas", "1", "--gateway-id", "2"]
        result = run_argv([*argv, "--node", c.addresses[0], "--port", "tcp://nobody.invalid:0"],
                          check_rc=False)
        expect_error(result, "tcp://nobody.invalid:0: cannot listen there: nobody.invalid: ",
                     codes=(1,))
    # Nodes of --node are the cluster's once all have been heard: until then a gateway asks for each.
    c = Cluster(nodes=1)
    try:
        c.format(0)
        c.addresses.append(c.start_node(0))
        run_argv(c.create_argv())
        c.gateway.argv = [*c.gateway_argv(), "--min-replicas", "1", "--node",
                          "tcp://nobody.invalid:7201"]
        c.gateway.start(wait=False)
        c.gateway.wait_line(r"tcp://nobody\.invalid:7201.*nobody\.invalid: ")
    finally:
        c.__exit__(None, None, None)


def everywhere_is_advertised_to_nobody():
    """With an etcd; a directory's gateways are all of one host, and are only told."""
    with Cluster(nodes=1, gateway_args=("--min-replicas", "1")) as c:
        argv = [binary("cleave-gateway"), "--cluster-id", CLUSTER_ID, "--node", c.addresses[0],
                "--min-replicas", "1", "--gateway-id", "2", "--port", "tcp://0.0.0.0:0"]
        result = run_argv([*argv, "--meta", "etcd://127.0.0.1:1"], check_rc=False)
        expect_error(result, "--port: 'tcp://0.0.0.0:0'", "add ',advertise=HOST:PORT'", codes=(2,))
        gateway = Daemon("gateway2", [*argv, "--meta", c.meta]).start(wait=False)
        try:
            gateway.wait_line("advertise=HOST:PORT")
            gateway.wait_ready()
        finally:
            gateway.kill()


def a_client_remembers_where_its_cluster_was():
    """All gateways that it was told of have gone; one that it knows from its last session is there."""
    with Cluster(gateways=2) as c:
        c.volume_create("v", "16M")
        state = os.path.join(c.folder, "state")
        told, other = c.gateway_addresses
        wait_for(lambda: all(gateway["shards_owned"] for gateway in json.loads(
            c.cleave("--json", "gateway", "list").stdout)["gateways"]),
            "a gateway has no shards")
        env = {**os.environ, "XDG_STATE_HOME": state}
        path = os.path.join(state, "cleave", f"{CLUSTER_ID}.gateways")

        def load(*words):
            return run_argv([binary("cleave-load"), "--gateway", told, "--volume", "v",
                             "--operations", "200", *words], env=env)

        def remembered():
            """Of a session that came while a shard was on its way there is one port alone."""
            load()
            if not os.path.exists(path):
                return False
            with open(path, encoding="utf-8") as f:
                text = f.read()
            return told in text and other in text

        wait_for(remembered, "not both ports are remembered")
        check(os.stat(path).st_mode & 0o777 == 0o600, "others may read it")
        c.gateways[0].kill()
        # Who never had a session knows nobody else; who had one does.
        expect_error(run("cleave", "--gateway", told, "status", check_rc=False), told, codes=(2,))
        words = [binary("cleave"), "--gateway", told, "status"]
        result = run_argv(words, env=env, check_rc=False)
        check("serving" in result.stdout, f"{result}")
        load()
        # Nobody turns to it who was told of another cluster's gateway.
        result = run_argv([binary("cleave"), "--gateway", "127.0.0.1:1", "status"], env=env,
                          check_rc=False)
        expect_error(result, "127.0.0.1:1", codes=(2,))
        # A file that is lost, or makes no sense, is nobody's trouble.
        with open(path, "w", encoding="utf-8") as f:
            f.write("{")
        expect_error(run_argv(words, env=env, check_rc=False), told, codes=(2,))
        shutil.rmtree(state)
        expect_error(run_argv(words, env=env, check_rc=False), told, codes=(2,))


small_disks()
main(a_cluster_of_names, a_name_is_enough_and_a_list_is_tried_in_turn,
     what_is_wrong_with_a_name_is_one_line, everywhere_is_advertised_to_nobody,
     a_client_remembers_where_its_cluster_was)
