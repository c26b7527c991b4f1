#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A clone is flattened under a load, the gateway is killed meanwhile, and its origin deleted: no byte changes."""
import json
import os
import subprocess

from libcluster import WAIT_S, Cluster, check, expect_error, main, wait_for


def show(c, name):
    return json.loads(c.cleave("--json", "volume", "show", name).stdout)["volume"]


def events(c):
    return [e["code"] for e in map(json.loads, c.cleave("events", "--json").stdout.splitlines())]


def a_clone_lets_go_of_its_origin():
    with Cluster(nodes=3, shards=8) as c:
        c.volume_create("v", "256M")
        journal, written = os.path.join(c.folder, "journal"), os.path.join(c.folder, "written")
        c.load("--volume", "v", "--pattern", "random", "--operations", "3000", "--in-flight", "16", "--journal", journal)
        c.cleave("snapshot", "create", "v@s")
        c.cleave("clone", "v@s", "w")
        c.cleave("snapshot", "create", "w@before")
        expect_error(c.cleave("volume", "flatten", "v", check_rc=False), "is no clone", codes=(1,))
        expect_error(c.cleave("volume", "flatten", "w", "--cancel", check_rc=False), "not being flattened", codes=(1,))
        expect_error(c.cleave("snapshot", "delete", "v@s", check_rc=False), "has 1 clones", codes=(1,))
        writer = subprocess.Popen(c.load_argv("--volume", "w", "--pattern", "random", "--operations", "3000",
                                              "--in-flight", "4", "--seed", "2", "--journal", written, "--quiet"))
        try:
            c.cleave("volume", "flatten", "w")
            c.gateway.kill()
            c.gateway.start()
            said = c.cleave("volume", "flatten", "w", "--wait", check_rc=False)
            # It may have been done already.
            check("w: flattened" in said.stdout or "is no clone" in said.stderr, f"{said.stdout} {said.stderr}")
            check(writer.wait(timeout=WAIT_S) == 0, "the clone was written meanwhile")
        finally:
            writer.kill()
            writer.wait()
        check("origin" not in show(c, "w") and "flattening" not in show(c, "w"), "it has no origin")
        wait_for(lambda: "volume-flattened" in events(c) or said.returncode != 0, "it was told")
        c.cleave("snapshot", "delete", "v@s")
        c.cleave("volume", "delete", "v", "--purge")
        c.gateway.kill()
        c.gateway.start()
        c.load("--verify-journal", written, "--volume", "w")
        c.load("--verify-journal", journal, "--volume", "w@before", "--written-as", "1")


def in_the_trash_it_waits():
    with Cluster(nodes=3, shards=2) as c:
        c.volume_create("v", "64M")
        journal = os.path.join(c.folder, "journal")
        c.load("--volume", "v", "--pattern", "random", "--operations", "500", "--in-flight", "16", "--journal", journal)
        c.cleave("snapshot", "create", "v@s")
        c.cleave("clone", "v@s", "w")
        c.cleave("volume", "delete", "w")
        expect_error(c.cleave("volume", "flatten", "w", check_rc=False), "'w'", codes=(1,))
        expect_error(c.cleave("volume", "delete", "v", "--snapshots", check_rc=False), "has 1 clones", codes=(1,))
        c.cleave("trash", "restore", "w")
        check("w: flattened" in c.cleave("volume", "flatten", "w", "--wait").stdout, "said")
        c.cleave("volume", "delete", "v", "--snapshots", "--purge")
        c.load("--verify-journal", journal, "--volume", "w", "--written-as", "1")


def it_is_refused_where_there_is_no_room():
    """A second copy of what is shared does not fit; the words have both figures, and --force begins it all the same."""
    with Cluster(nodes=3, shards=2, disk_size="512M") as c:
        c.volume_create("v", "512M")
        c.load("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--compressibility", "0",
               "--bytes", "256M", "--in-flight", "16")
        c.cleave("snapshot", "create", "v@s")
        c.cleave("clone", "v@s", "w")
        shared = {}

        def is_told():
            shared.update(json.loads(c.cleave("--json", "volume", "show", "w").stdout)["usage"]["origin"])
            return shared["bytes"] > 250 << 20  # a shard whose port has much to do is left out

        wait_for(is_told, f"what it shares: {shared}")
        check(shared["copied_bytes"] == 0, f"{shared}")
        said = c.cleave("volume", "flatten", "w", check_rc=False)
        expect_error(said, "have room for", codes=(1,))
        check("--force" in said.stderr and "origin" in show(c, "w"), said.stderr)
        c.cleave("volume", "flatten", "w", "--force")
        wait_for(lambda: "flattening: " in c.cleave("status").stdout, "status says how far")
        said = c.cleave("volume", "show", "w").stdout
        check(" copied" in said, said)
        c.cleave("volume", "flatten", "w", "--cancel")
        wait_for(lambda: "flattening" not in show(c, "w"), "called off")


main(a_clone_lets_go_of_its_origin, in_the_trash_it_waits, it_is_refused_where_there_is_no_room)
