#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --json prints is what vm-client/command/json.md says: no member more, none less, each of its type."""
import json
import os
import re
import shutil

from libagent import Agent
from libcluster import Cluster, check, main, small_disks
from libkeys import Authority, Keyed
from libload import Load
from libnodes import new_node, wait_imported

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "vm-client",
                        "command", "json.md")
PLAIN = {"string": (str,), "integer": (int,), "boolean": (bool,), "number": (int, float)}
LINES = ("events", "slow", "top")  # an object a line


def documented():
    """{name of a command or a thing: ({member: (type, is_optional)}, type of others)}"""
    found = {}
    with open(DOCUMENT, encoding="utf-8") as f:
        for line in f:
            row = re.match(r"\| (`[^`]+`|[\w ]+) \| (.*)\|$", line.rstrip())
            if row is None or row.group(1) in ("command", "thing"):
                continue
            members = {name: (kind, optional == "?") for name, kind, optional in
                       re.findall(r"`(\w+)` ([\w\[\]{}]+)(\??)", row.group(2))}
            others = re.search(r"others: (\w+)", row.group(2))
            found[row.group(1).strip("`")] = (members, others and others.group(1))
    return found


def compare(book, kind, value, where):
    """Fails where @value is not of @kind."""
    if kind in PLAIN:
        check(type(value) in PLAIN[kind], f"{where}: {value!r} is no {kind}")
    elif kind.startswith("["):
        check(isinstance(value, list), f"{where}: {value!r} is no array")
        for i, item in enumerate(value):
            compare(book, kind[1:-1], item, f"{where}[{i}]")
    elif kind.startswith("{"):
        check(isinstance(value, dict), f"{where}: {value!r} is no object")
        for name, item in value.items():
            compare(book, kind[1:-1], item, f"{where}.{name}")
    else:
        compare_members(book, kind, value, where)


def compare_members(book, thing, value, where):
    check(thing in book, f"{where}: {thing} is not documented")
    members, others = book[thing]
    check(isinstance(value, dict), f"{where}: {value!r} is no object")
    for name, item in value.items():
        kind = members[name][0] if name in members else others
        check(kind is not None, f"{where}: '{name}' is not documented: {item!r}")
        compare(book, kind, item, f"{where}.{name}")
    for name, (_, is_optional) in members.items():
        check(is_optional or name in value, f"{where}: '{name}' is documented, and is not there")


def a_word_more_or_less_is_found():
    """The judge itself."""
    book = documented()
    clone = {"name": "c", "snapshot": "s", "trash": False}
    compare(book, "[Clone]", [clone], "a list")
    for wrong in ([{**clone, "x": 1}], [{"name": "c"}], [{**clone, "snapshot": 1}], clone):
        try:
            compare(book, "[Clone]", wrong, "a list")
        except Exception:  # libcluster's Failure
            continue
        check(False, f"{wrong} passes")


def what_is_printed_is_documented():
    book = documented()
    left = set(book) - {"what fails"}

    def ask(name, *words, check_rc=True):
        lines = c.cleave("--json", *words, check_rc=check_rc).stdout
        values = [json.loads(line) for line in lines.splitlines()] if name in LINES else [json.loads(lines)]
        check(values, f"{name}: nothing is printed")
        for value in values:
            compare_members(book, name, value, " ".join(words))
        left.discard(name)

    def in_folder(name):
        return os.path.join(c.folder, name)

    def backups():
        """Two of a chain, and what is made of them."""
        ask("volume set", "volume", "set", "v", "--iops", "100000")
        ask("backup", "backup", "v@s", in_folder("b0"))
        ask("snapshot protect", "snapshot", "protect", "v@s")
        ask("snapshot unprotect", "snapshot", "unprotect", "v@s")
        ask("backup", "backup", "v@t", in_folder("b1"), "--from", "s", "--snapshot")
        ask("backup verify", "backup", "verify", in_folder("b0"), in_folder("b1"))
        check(c.cleave("--json", "backup", "merge", *map(in_folder, ("b0", "b1", "b2"))).stdout == "", "it prints something")
        if shutil.which("qemu-img"):
            ask("import", "import", in_folder("b2"), "i", "--format", "raw")
            ask("export", "export", "i", in_folder("e"))
        else:
            left.difference_update(("import", "export"))
        ask("restore", "restore", in_folder("b2"), "r")
        ask("snapshot rename", "snapshot", "rename", "v@t", "u")
        ask("snapshot rotate", "snapshot", "rotate", "r", "--hourly", "2")

    def trash():
        ask("volume delete", "volume", "delete", "r", "--snapshots")
        ask("trash list", "trash", "list")
        ask("trash restore", "trash", "restore", "r")
        ask("volume delete", "volume", "delete", "r", "--snapshots")
        ask("trash purge", "trash", "purge", "r")
        c.volume_create("x", "4M")
        c.cleave("volume", "delete", "x")
        ask("trash purge --all", "trash", "purge", "--all")
        c.volume_create("x", "4M")
        ask("volume delete", "volume", "delete", "x", "--purge")

    def members():
        wait_imported(c)
        ask("node add", "node", "add", new_node(c, "disk5", 5)[1], "--domain", "rack5")
        ask("node drain", "node", "drain", "4")
        ask("node undrain", "node", "undrain", "4")
        c.cleave("node", "drain", "4", "--wait")
        ask("node remove", "node", "remove", "4")
        ask("node replace", "node", "replace", "5", "--with", new_node(c, "disk6", 6)[1], "--domain", "rack6", "--wait")
        ask("gateway drain", "gateway", "drain", "2")
        ask("gateway undrain", "gateway", "undrain", "2")
        ask("cluster rebalance", "cluster", "rebalance")
        ask("cluster rebalance", "cluster", "rebalance", "--stop")
        ask("cluster rebalance --dry-run", "cluster", "rebalance", "--dry-run")
        ask("sweep", "sweep")

    def exports():
        """Of an agent with a file, and of a line of it that the agent never read."""
        control, file = in_folder("control"), in_folder("exports")
        with Agent(c, "--control", control, "--exports", file) as agent:
            at = ("--agent", control)
            ask("attach", "attach", "v", "--read-only", *at)
            ask("attach", "attach", "w", "--persistent", *at)
            ask("exports", "exports", *at)
            ask("detach", "detach", "w", *at)
            with open(file, "a", encoding="utf-8") as f:
                f.write("nobody\n")
            ask("detach", "detach", "nobody", *at)
            check(agent.process.poll() is None, "the agent goes on")

    with Cluster(nodes=4, shards=4, gateways=2) as c:
        ask("volume create", "volume", "create", "v", "--size", "64M")
        c.load("--volume", "v", "--operations", "100")
        ask("snapshot create", "snapshot", "create", "v@s")
        c.volume_create("w", "64M")
        exports()
        ask("snapshot create A B", "snapshot", "create", "v@g", "w@g")
        ask("snapshot list", "snapshot", "list", "w")
        c.load("--volume", "v", "--operations", "100", "--seed", "2")
        ask("clone", "clone", "v@s", "c")
        c.cleave("gateway", "set", "all", "--slow-op", "1us")
        ask("gateway set", "gateway", "set", "1", "--slow-op", "2us")
        with Load(c, size=None) as load:
            load.wait_writes(100)
            ask("slow", "slow")
            ask("top", "top", "--once", "--interval", "200ms")
            ask("volume list", "volume", "list")
            ask("volume show", "volume", "show", "v")
            ask("status", "status", check_rc=False)
        ask("volume show", "volume", "show", "c")
        ask("volume show V@S", "volume", "show", "v@s")
        ask("volume map", "volume", "map", "v")
        ask("snapshot list", "snapshot", "list")
        ask("snapshot diff", "snapshot", "diff", "v@s")
        ask("volume rename", "volume", "rename", "c", "d")
        ask("volume resize", "volume", "resize", "d", "--size", "128M")
        ask("volume flatten", "volume", "flatten", "d")
        ask("volume show", "volume", "show", "d")
        backups()
        ask("snapshot rollback", "snapshot", "rollback", "v@s")
        trash()
        c.cleave("volume", "delete", "d", "--purge")
        ask("snapshot delete", "snapshot", "delete", "v@s")
        ask("node list", "node", "list")
        ask("node set", "node", "set", "1", "--note", "x")
        ask("gateway list", "gateway", "list")
        ask("events", "events")
        ask("cluster upgrade", "cluster", "upgrade", "--check", check_rc=False)
        ask("user add", "user", "add", "db1", "db-*:rw", "golden:r", "--disable")
        ask("user set", "user", "set", "db1", "--enable")
        ask("user show", "user", "show", "db1")
        ask("user list", "user", "list")
        ask("user remove", "user", "remove", "db1")
        ask("scrub", "scrub")
        ask("version", "version")
        key, ca = os.path.join(c.folder, "key"), ("--ca", os.path.join(c.folder, "ca"))
        ask("key init", "key", "init", "--cluster-id", "7", *ca)
        ask("key issue", "key", "issue", "node/1", "--host", "node1.example", "--out", key, *ca)
        ask("key renew", "key", "renew", key, *ca)
        ask("key revoke", "key", "revoke", "node/1", *ca)
        ask("key adopt", "key", "adopt", os.path.join(c.folder, "ca", "revoked.pem"), *ca)
        ask("key list", "key", "list", *ca)
        ask("key kek", "key", "kek", os.path.join(c.folder, "kek"))
        ask("key show", "key", "show", key, *ca, check_rc=False)
        ask("what fails", "volume", "show", "nope", check_rc=False)
        members()
        c.nodes[0].kill()
        ask("status", "status", check_rc=False)
    with Authority() as a, Keyed(a, gateway_args=["--kek", "file:" + a.kek()]) as c:  # what a gateway without these refuses
        a.issue("client/x")
        ask("key publish", "key", "publish", a.revoke("client/x"))
        ask("volume create", "volume", "create", "v", "--size", "64M", "--encrypt")
        ask("volume rotate-key", "volume", "rotate-key", "v")
    things = {name for name in left if name[0].isupper()}
    check(left == things, f"documented, and not asked for: {left - things}")


small_disks()
main(a_word_more_or_less_is_found, what_is_printed_is_documented)
