#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cleave recover`: a lost metadata store, or an old copy of it, is made anew; nothing acknowledged is lost."""
import os
import re
import shutil

from libagent import Agent, Steady
from libcluster import (CLUSTER_ID, Cluster, binary, check, expect_error, main, run_argv,
                        small_disks, wait_for)


def meta(c):
    return os.path.join(c.folder, "meta")


def recover(c, *words, check_rc=True, folder=None, addresses=None):
    argv = [binary("cleave"), "recover", "--meta", folder or meta(c), "--cluster-id", CLUSTER_ID,
            "--node-timeout", "5s", *words]
    for address in addresses or c.addresses:
        argv += ["--node", address]
    return run_argv(argv, check_rc=check_rc)


CONNECTED = r"a gateway is connected to node \d+ at tcp://\S+, from \S*127\.0\.0\.1"


def recover_alone(c):
    """Behind a gateway that was killed it is refused until the nodes have noticed."""
    wait_for(lambda: not re.search(CONNECTED, (result := recover(c, check_rc=False)).stderr) and
             result.returncode == 0, "the store is not recovered")


def write(c, journal, operations):
    c.load("--volume", "v", "--pattern", "random", "--operations", str(operations), "--in-flight",
           "16", "--journal", journal)


def verify(c, journal):
    c.load("--verify-journal", journal, "--volume", "v")


def volume_id(c, name):
    import json

    return json.loads(c.cleave("--json", "volume", "show", name).stdout)["volume"]["id"]


def lost_store_is_made_anew():
    with Cluster(nodes=4, shards=4) as c:
        c.volume_create("v", "256M")
        c.volume_create("empty", "1G")
        first, second = os.path.join(c.folder, "first"), os.path.join(c.folder, "second")
        write(c, first, 5000)
        old_id = volume_id(c, "v")
        for _ in range(2):
            c.gateway.stop()
            shutil.rmtree(meta(c))
            # One node away: the others hold a copy of everything.
            c.nodes[3].stop()
            result = recover(c)
            text = result.stdout + result.stderr
            check("was not reached" in text, text)
            for shard in range(4):
                check(f"recover: shard {shard}: manifest=" in text, text)
            c.nodes[3].start()
            c.gateway.start()
            verify(c, first)
            check(volume_id(c, "v") == old_id, "another id")
        check(c.cleave("volume", "show", "empty").returncode == 0, "a volume is missing")
        c.load("--volume", "v", "--pattern", "random", "--operations", "5000", "--in-flight", "16",
               "--journal", second)
        verify(c, second)
        c.volume_create("new", "1G")
        check(volume_id(c, "new") > old_id + 1000, "an id that may have been given before")


def node_that_nobody_names_is_missed():
    """It has copies: without it they would lack, and it would be none of the cluster's nodes any more."""
    with Cluster(nodes=4, shards=4) as c:
        c.volume_create("v", "64M")
        journal = os.path.join(c.folder, "journal")
        write(c, journal, 2000)
        c.gateway.stop()
        shutil.rmtree(meta(c))
        result = recover(c, check_rc=False, addresses=c.addresses[:3])
        expect_error(result, r"node 4 has copies of \d+ extents, and is at none of the addresses of "
                     "--node", "name its address, too", "--force", codes=(1,))
        check(not os.path.exists(meta(c)), "a refused recovery has left a store")
        # Named, it need not run; and who says that it is gone for good is believed.
        c.nodes[3].stop()
        recover(c)
        c.nodes[3].start()
        c.gateway.start()
        verify(c, journal)
        c.gateway.stop()
        shutil.rmtree(meta(c))
        text = recover(c, "--force", addresses=c.addresses[:3]).stderr
        check("node 4 has copies" in text and "forced" in text, text)


def two_gateways_find_everything_again():
    with Cluster(nodes=3, shards=4, gateways=2) as c:
        c.volume_create("v", "256M")
        journal = os.path.join(c.folder, "journal")
        write(c, journal, 3000)
        for gateway in c.gateways:
            gateway.kill()
        shutil.rmtree(meta(c))
        recover_alone(c)
        for gateway in c.gateways:
            gateway.start()
        verify(c, journal)
        write(c, os.path.join(c.folder, "second"), 1000)


def running_gateways_are_left_alone():
    with Cluster(nodes=3) as c:
        expect_error(recover(c, check_rc=False), "a gateway is registered", codes=(1,))
        expect_error(recover(c, "--force", check_rc=False), "a gateway is registered", codes=(1,))


def store_ids(c):
    """Which store each node obeyed last, as it said when it began to."""
    texts = ["\n".join(node.lines) for node in c.nodes]
    return [re.findall(r"store: obeys store_id=(\S+)", text)[-1] for text in texts]


def gateway_of_another_store_goes_on():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        journal = os.path.join(c.folder, "journal")
        before = store_ids(c)
        wrong = os.path.join(c.folder, "wrong")
        for words in (), ("--force",):
            result = recover(c, *words, check_rc=False, folder=wrong)
            expect_error(result, CONNECTED, "--take", codes=(1,))
            check(not os.path.exists(wrong), f"a refused recovery has left {wrong}")
        # Connected again, and idle: it has asked for nothing yet.
        line = len(c.gateway.lines)
        c.nodes[0].stop()
        c.nodes[0].start()
        c.gateway.wait_line("node 1: link up", from_line=line)
        os.mkdir(wrong)
        expect_error(recover(c, check_rc=False, folder=wrong), CONNECTED, codes=(1,))
        check(not os.listdir(wrong), f"a refused recovery has left {os.listdir(wrong)}")
        write(c, journal, 1000)
        verify(c, journal)
        check(store_ids(c) == before, "a node obeys another store")
        check(c.gateway.count_lines("another metadata store") == 0, "the gateway was disturbed")


def copy_of_a_store_is_no_excuse():
    """The copy knows the store that the nodes obey, and of no gateway."""
    with Cluster(nodes=3) as c:
        c.gateway.stop()
        copy = os.path.join(c.folder, "copy")
        shutil.copytree(meta(c), copy)
        c.gateway.start()
        c.volume_create("v", "64M")
        journal = os.path.join(c.folder, "journal")
        write(c, journal, 1000)
        expect_error(recover(c, check_rc=False, folder=copy), CONNECTED, codes=(1,))
        verify(c, journal)


def gateway_that_is_gone_is_no_obstacle():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        journal = os.path.join(c.folder, "journal")
        write(c, journal, 1000)
        c.gateway.stop()
        shutil.rmtree(meta(c))
        recover(c)
        c.gateway.start()
        verify(c, journal)
        c.gateway.kill()
        shutil.rmtree(meta(c))
        recover_alone(c)
        c.gateway.start()
        verify(c, journal)


def who_insists_takes_the_nodes():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        c.volume_create("w", "64M")
        journal = os.path.join(c.folder, "journal")
        c.load("--volume", "w", "--pattern", "random", "--operations", "1000", "--in-flight", "16",
               "--journal", journal)
        anew = os.path.join(c.folder, "anew")
        with Agent(c) as agent:
            result = recover(c, "--take", folder=anew)
            check("is taken from a gateway that is connected to it" in result.stderr, result.stderr)
            # The old one says so, once, with what it asks for next, and serves nothing more.
            c.load("--volume", "w", "--pattern", "random", "--operations", "10", "--in-flight", "1",
                   "--io-timeout", "2s", check_rc=False)
            c.gateway.wait_line("serves nothing: . of 3 storage nodes obey another metadata store")
            Steady(agent)
            agent.wait_line("the gateway says: shard . is refused by its storage nodes")
            wait_for(lambda: not any(shard["state"] == "serving" for shard in c.status()["shards"]),
                     "the old gateway serves a shard")
            check(c.gateway.count_lines("serves nothing") == 1, "said more than once")
            c.gateway.kill()
            shutil.rmtree(meta(c))
            shutil.move(anew, meta(c))
            c.gateway.start()
        c.load("--verify-journal", journal, "--volume", "w")


def old_copy_is_refused_then_replaced():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "256M")
        c.cleave("gateway", "drain", "9", "--force")
        c.cleave("user", "add", "eve", "g*:rw")
        journal = os.path.join(c.folder, "journal")
        c.gateway.stop()
        shutil.copytree(meta(c), meta(c) + ".old")
        for _ in range(2):
            c.gateway.start()
            c.gateway.stop()
        c.gateway.start()
        c.volume_create("later", "64M")
        c.cleave("user", "remove", "eve")
        write(c, journal, 5000)
        c.gateway.stop()
        shutil.rmtree(meta(c))
        shutil.move(meta(c) + ".old", meta(c))
        run_argv([*c.gateway.argv, "--accept-copy", "--force"])
        c.gateway.start(wait=False)
        c.gateway.wait_line("the metadata store is stale")
        c.gateway.stop()
        text = recover(c).stderr
        check("user eve of the old store is dropped" in text and "1 users were dropped" in text, text)
        check("key shards/drained is as the old store has it" in text, text)
        c.gateway.start()
        verify(c, journal)
        # A right that was taken is not given back.
        check("eve" not in c.cleave("user", "list").stdout, "a user that was removed has its rights again")
        # What an operator has asked for, no node knows: that of the copy stays.
        wait_for(lambda: "0000000000000009: drained, and does not live" in
                 c.cleave("gateway", "list").stdout, "the drained gateway is forgotten")
        check(c.cleave("volume", "show", "later").returncode == 0, "a volume is missing")


def store_that_is_not_older_is_left_alone():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        journal = os.path.join(c.folder, "journal")
        write(c, journal, 1000)
        c.gateway.stop()
        expect_error(recover(c, check_rc=False), "not older", codes=(1,))
        c.gateway.start()
        verify(c, journal)
        c.gateway.stop()
        for node in c.nodes:
            node.stop()
        expect_error(recover(c, check_rc=False), "no node was reached", codes=(1,))


def what_is_wrong_is_said():
    def gateway(*words):
        return run_argv([binary("cleave-gateway"), *words], check_rc=False)

    common = ["--meta", "/nonexistent/meta", "--cluster-id", CLUSTER_ID, "--node",
              "tcp://127.0.0.1:1"]
    expect_error(gateway("--recover", *common), "/nonexistent/meta", codes=(1,))
    expect_error(gateway(*common), "--port", codes=(2,))
    for word in "--force", "--take":
        expect_error(gateway(*common, "--port", "tcp://127.0.0.1:0", word), "--recover",
                     codes=(2,))


if __name__ == "__main__":
    small_disks()
    main(lost_store_is_made_anew, node_that_nobody_names_is_missed,
         two_gateways_find_everything_again, running_gateways_are_left_alone,
         gateway_of_another_store_goes_on, copy_of_a_store_is_no_excuse,
         gateway_that_is_gone_is_no_obstacle, who_insists_takes_the_nodes, old_copy_is_refused_then_replaced,
         store_that_is_not_older_is_left_alone, what_is_wrong_is_said)
