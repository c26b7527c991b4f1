#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cleave-storage join: an empty disk becomes a node; killed at each step, several at once, and what is refused."""
import json
import os
import re
import shutil
import signal
import subprocess

from libcluster import (CLUSTER_ID, Cluster, Daemon, binary, check, expect_error, free_port, main,
                        run, run_argv, small_disks, wait_for)
from libkeys import Authority, Keyed

ALIEN_ID = "00000000000a11e4"
STEPS_MAX = 20  # of one run; there are fewer
PAGE, SECOND_SUPER = 4096, 126976  # ONDISK.md


def nodes_of(c):
    return {n["id"]: n for n in json.loads(c.cleave("--json", "node", "list").stdout)["nodes"]}


def wait_imported(c):
    wait_for(lambda: all(node["member"] == "in" for node in nodes_of(c).values()),
             "the nodes are not imported")


def free_address():
    return f"tcp://127.0.0.1:{free_port()}"


def join_argv(c, name, address, *words, gateways=None):
    return [binary("cleave-storage"), "join", "--disk", os.path.join(c.folder, name), "--size",
            c.disk_size, "--slot-size", c.slot_size, "--gateway",
            ",".join(gateways or c.gateway_addresses),
            "--listen", address, *words]


def join(c, name, address, *words, check_rc=True):
    return run_argv(join_argv(c, name, address, *words), check_rc=check_rc)


def add(c, name, address, *words):
    """Of a disk that is served. On a busy machine its node does not answer a gateway within two seconds."""
    return join(c, name, address, "--wait", "60s", *words).stdout


def serve(c, name, address):
    daemon = Daemon(name, [binary("cleave-storage"), "--disk", os.path.join(c.folder, name),
                           "--listen", address])
    c.nodes.append(daemon)
    return daemon.start()


def is_formatted(c, name):
    """Is its first page, which is written last, there?"""
    path = os.path.join(c.folder, name)
    if not os.path.exists(path):
        return False
    with open(path, "rb") as f:
        return any(f.read(4096))


def number(text):
    return int(re.search(r"^formatted .* node=(\d+) ", text, re.M).group(1))


def one_step_a_run():
    with Cluster(gateways=2, disk_size="256M") as c:  # one is copied
        wait_imported(c)
        address = free_address()
        words = ["--domain", "dc1/rack4", "--weight", "50", "--note", "shelf 4"]
        out = join(c, "disk4", address, *words).stdout
        check(number(out) == 4 and f"cluster={CLUSTER_ID}" in out, out)
        disk = os.path.join(c.folder, "disk4")
        start = f"  cleave-storage --disk {disk} --listen {address}\n"
        check("node 4: start it, then run this again" in out and out.endswith(start), out)
        # Nobody serves it: nothing happens, and the next command is said again.
        again = join(c, "disk4", address, *words, check_rc=False)
        expect_error(again, "node 4 is not added: .*is no node that can be added", codes=(1,))
        check(again.stdout == start and 4 not in nodes_of(c), again.stdout)
        daemon = serve(c, "disk4", address)
        out = add(c, "disk4", address, *words)
        check(out.endswith(f"node 4 at {address}: added\n"), out)
        node = nodes_of(c)[4]
        check((node["domain"], node["weight"], node["note"]) == ("dc1/rack4", 50, "shelf 4"), node)
        # A member stays one, whatever is insisted on.
        for more in ([], ["--force"]):
            out = join(c, "disk4", address, *words, *more).stdout
            check(out == f"node 4 at {address}: a member already, in\n", out)
        # What a second run says of it is not done: that is said.
        out = join(c, "disk4", address, "--domain", "dc1/rack5").stdout
        check("its domain stays 'dc1/rack4': cleave node set 4 --domain dc1/rack5 changes it\n" in out, out)
        check(nodes_of(c)[4]["domain"] == "dc1/rack4", "it is of another domain")
        wait_for(lambda: all(json.loads(run("cleave", "--gateway", g, "--json", "node",
                                            "list").stdout)["nodes"][-1]["state"] == "up"
                             for g in c.gateway_addresses), "node 4 is not up everywhere")
        # Its disk, or a copy of that, for another address: nothing is moved while it answers, and nothing that fails advised.
        elsewhere = free_address()
        shutil.copyfile(disk, disk + ".copy")
        for name in ("disk4", "disk4.copy"):
            expect_error(join(c, name, elsewhere, check_rc=False), f"node 4 answers at {address}: ", "a copy of its disk",
                                "join an empty disk", codes=(1,))
        c.cleave("node", "drain", "4", "--wait")
        c.cleave("node", "remove", "4")
        # It has left: with a word more it gets another number, when nobody uses it.
        expect_error(join(c, "disk4", address, check_rc=False),
                     r"node 4 of this cluster, which has left it \(node 4 is out\)", "--force")
        expect_error(join(c, "disk4", address, "--force", check_rc=False), r"in use by (process \d|another)")
        daemon.stop()
        check(number(join(c, "disk4", address, "--force").stdout) == 5, "it has not number 5")
        daemon.start()
        check("node 5" in join(c, "disk4", address, "--wait", "60s", "--force").stdout, "not added")


def a_disk_that_was_moved_is_served_elsewhere():
    """What join advises is what works."""
    with Cluster() as c:
        wait_imported(c)
        old = c.addresses[2]
        c.nodes[2].stop()
        wait_for(lambda: nodes_of(c)[3]["state"] != "up", "node 3 is up still")
        address = free_address()
        out = join(c, os.path.basename(c.disk(2)), address).stdout
        advice = re.search(r"^to have it at .*: start it, then cleave (node set 3 --address \S+)$", out, re.M)
        check(f"node 3 at {old}: a member already, in" in out and advice, out)
        check(f"cleave-storage --disk {c.disk(2)} --listen {address}\n" in out, out)
        serve(c, os.path.basename(c.disk(2)), address)
        c.cleave(*advice.group(1).split())
        wait_for(lambda: nodes_of(c)[3]["address"] == address and nodes_of(c)[3]["state"] == "up", "it has not moved")


def with_keys_it_says_which_one_starts_it():
    with Authority() as a, Keyed(a) as c:
        wait_imported(c)
        said = join(c, "disk4", free_address(), "--key", c.client_key).stdout
        check("--key node-4.key\n" in said and "cleave key issue node/4 --out node-4.key" in said, said)
        expect_error(join(c, "disk5", free_address(), "--key", c.client_key, "--domain", "a b", check_rc=False),
                     "--domain: 'a b': one name, or up to 4 with a / between each two, without blanks")


def killed_at_each_step():
    with Cluster(disk_size="256M") as c:  # there are a dozen disks
        wait_imported(c)
        numbers = set()
        for step in range(1, STEPS_MAX):
            name, address = f"killed{step}", free_address()
            died = join(c, name, address, "--kill-at", str(step), check_rc=False)
            if died.returncode != -signal.SIGKILL:
                check(died.returncode == 0, died.stderr)
                break
            # As far as it came it stays; the next run goes on, and no number is given twice.
            if not is_formatted(c, name):
                join(c, name, address)
            serve(c, name, address)
            out = add(c, name, address)
            found = int(re.search(r"^node (\d+) at .*: added$", out, re.M).group(1))
            check(found not in numbers, f"node {found} twice")
            numbers.add(found)
        check(5 <= step < STEPS_MAX, f"{step} steps")
        check(set(nodes_of(c)) == {1, 2, 3} | numbers, nodes_of(c))
        # While the disk is being written: the superblock's copies come last, the first one behind the second.
        address = free_address()
        found = number(join(c, "pages", address).stdout)
        with open(os.path.join(c.folder, "pages"), "r+b") as f:
            f.write(bytes(PAGE))
        expect_error(join(c, "pages", address, check_rc=False), f"node {found} is not added")
        with open(os.path.join(c.folder, "pages"), "r+b") as f:
            f.seek(SECOND_SUPER)
            f.write(bytes(PAGE))
        check(number(join(c, "pages", address).stdout) == found + 1, "it is not formatted anew")
        # While it is being added.
        address = free_address()
        join(c, "last", address)
        serve(c, "last", address)
        wait_for(lambda: join(c, "last", address, "--kill-at", "2", check_rc=False).returncode == -signal.SIGKILL,
                 "it was not killed")
        check("a member already" in join(c, "last", address).stdout, "it is no member")
        check(len(nodes_of(c)) == 4 + len(numbers), nodes_of(c))


def several_at_once():
    with Cluster(gateways=2) as c:
        wait_imported(c)
        names = [f"disk{i}" for i in range(4, 8)]
        addresses = {name: free_address() for name in names}
        # Each twice: of two at one disk one has it locked, or comes too late and finds it formatted.
        started = [(name, subprocess.Popen(join_argv(c, name, addresses[name], gateways=order),
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                           text=True))
                   for name in names for order in (c.gateway_addresses, c.gateway_addresses[::-1])]
        numbers = {}
        for name, process in started:
            out, error = process.communicate()
            if process.returncode == 0:
                check(name not in numbers, f"{name} was formatted twice")
                numbers[name] = number(out)
            else:
                check(re.search(r"in use by (process \d|another)|meanwhile|is not added|formatted already", error),
                      error)
        check(sorted(numbers) == names, numbers)
        check(len(set(numbers.values())) == len(names), numbers)
        for name in names:
            serve(c, name, addresses[name])
        started = [subprocess.Popen(join_argv(c, name, addresses[name], "--wait", "60s"), stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True) for name in names * 2]
        for process in started:
            out, error = process.communicate()
            check(process.returncode == 0 and ("added" in out or "already" in out), out + error)
        check(set(nodes_of(c)) == {1, 2, 3} | set(numbers.values()), nodes_of(c))


def slots_as_the_others():
    """Without --slot-size a disk of any size gets what the nodes have; another size is warned of, and told of then."""
    with Cluster() as c:
        wait_imported(c)
        address = free_address()

        def bare(name, size, *words, check_rc=True):
            return run("cleave-storage", "join", "--disk", os.path.join(c.folder, name), "--size", size,
                       "--gateway", c.gateway_addresses[0], "--listen", address, *words, check_rc=check_rc)

        for name, size in (("small", "128M"), ("large", "3G")):  # of 1M and of 4M, by their size
            joined = bare(name, size)
            check("slot_bytes=4194304" in joined.stdout and "cluster's nodes" not in joined.stderr, joined)
        joined = bare("tiny", "60M", check_rc=False)
        expect_error(joined, "tiny: it has room for 14 slots of 4096 KiB, .*or say --slot-size 1024K: ",
                     codes=(1,))
        check(not os.path.exists(os.path.join(c.folder, "tiny")), "the file was left")
        joined = bare("tiny", "60M", "--slot-size", "1M")
        check("slot_bytes=1048576" in joined.stdout, joined.stdout)
        check("warning: slots of 1024 KiB, and the cluster's nodes have 4096 KiB" in joined.stderr, joined.stderr)
        wait_for(lambda: c.health() == ("OK", []), "it is well")
        serve(c, "tiny", address)
        check("added" in bare("tiny", "60M", "--wait", "60s").stdout, "it is not added")
        wait_for(lambda: [reason[:2] for reason in c.health()[1]] == [("slots-differ", f"node {number(joined.stdout)}")],
                 "the slots that differ are not told")


def refused_with_a_line():
    with Cluster() as c:
        address = free_address()
        wait_imported(c)
        for words, pattern in (
                (["--listen", "tcp://0.0.0.0:7201"], "say where, with --advertise"),
                (["--listen", "tcp://127.0.0.1:0"], "say where, with --advertise"),
                (["--advertise", "nowhere"], "--advertise: 'nowhere'"),
                (["--cluster-id", "xyz"], "--cluster-id: 'xyz'"),
                (["--gateway", "nowhere:"], "--gateway: "),
                (["--gateway", "127.0.0.1:1"], "127.0.0.1:1: .*refused.*; the disk is as it was"),
                (["--gateway", c.addresses[0]], "the disk is as it was|cannot be read"),
                (["--cluster-id", ALIEN_ID], f"is of cluster {CLUSTER_ID}, and --cluster-id says"),
                (["--size", "1M"], "too few"),
                (["--domain", "a//b"], "--domain: 'a//b': one name, or up to 4"),
                (["--advertise", c.addresses[1], "--wait", "1s"], "node 4 is not added: ")):
            expect_error(join(c, "disk4", address, *words, check_rc=False), pattern)
            exists = os.path.exists(os.path.join(c.folder, "disk4"))
            check(exists == ("--wait" in words), f"{words}: {exists}")
        # The bytes of another stay, until somebody insists; and so do those of a node.
        other = os.path.join(c.folder, "other")
        for at in (0, 4096, 65536):  # many things, a RAID's member, Btrfs
            with open(other, "wb") as f:
                f.seek(at)
                f.write(b"something")
            expect_error(join(c, "other", address, check_rc=False), "holds something else; --force")
            with open(other, "rb") as f:
                check(f.read()[at:] == b"something", "it was overwritten")
        for cluster_id, node_id, pattern in (
                (ALIEN_ID, "4", f"formatted already, cluster {ALIEN_ID} node 4; --force"),
                (CLUSTER_ID, "2", "formatted as node 2, disk .*the cluster's node 2 at .*--force")):
            run("cleave-storage", "format", "--disk", other, "--size", c.disk_size, "--slot-size",
                c.slot_size, "--cluster-id", cluster_id, "--node-id", node_id, "--force")
            expect_error(join(c, "other", address, check_rc=False), pattern)
        check(number(join(c, "other", address, "--force").stdout) == 5, "no new number")
        # Another disk is served where this one is said to be.
        serve(c, "disk4", address)
        expect_error(join(c, "other", address, check_rc=False), "node 5 is not added",
                     "answers as node 4, disk .*: not the disk")
        check(len(nodes_of(c)) == 3, nodes_of(c))


if __name__ == "__main__":
    small_disks()
    main(one_step_a_run, a_disk_that_was_moved_is_served_elsewhere, with_keys_it_says_which_one_starts_it, killed_at_each_step, several_at_once, slots_as_the_others, refused_with_a_line)
