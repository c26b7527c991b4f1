#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots, clones, roll-backs, resizes of a real cluster; what is deleted gives its space back.

That a snapshot is a point in time is proved in tests/sim/test_snapshots.c."""
import json
import os
import subprocess
import time

from libagent import Agent, need
from libcluster import WAIT_S, Cluster, binary, check, expect_error, main, run_argv, wait_for
from libload import Load

need("qemu-io")


def journal(c, name):
    return os.path.join(c.folder, name)


def verify(c, path, volume, written_as=1):
    c.load("--verify-journal", path, "--volume", volume, "--written-as", str(written_as))


def slots_free(c):
    return sum(node["slots_free"] for node in json.loads(
        c.cleave("--json", "node", "list").stdout)["nodes"])


def qemu_io(c, volume, *commands):
    """What a guest's disk driver would send; a pattern that does not match fails."""
    with Agent(c, "--volume", volume) as agent:
        run_argv(["qemu-io", "-f", "raw", agent.uri(volume)] +
                 [word for command in commands for word in ("-c", command)])


def snapshots_clones_and_roll_backs_keep_what_was():
    with Cluster(nodes=3, shards=4, gateways=2) as c:
        c.volume_create("v", "512M")
        monday = journal(c, "monday")
        c.load("--volume", "v", "--operations", "3000", "--in-flight", "32", "--journal", monday)
        c.cleave("snapshot", "create", "v@monday")
        c.load("--volume", "v", "--operations", "3000", "--in-flight", "32", "--seed", "2")
        verify(c, monday, "v@monday")
        c.cleave("clone", "v@monday", "c")
        verify(c, monday, "c")
        c.load("--volume", "c", "--operations", "1000", "--in-flight", "32", "--seed", "3")
        c.cleave("snapshot", "create", "c@later")
        c.cleave("clone", "c@later", "cc")
        verify(c, monday, "v@monday")
        c.cleave("snapshot", "rollback", "v@monday")
        verify(c, monday, "v")
        # All at once, and again.
        for d in [*c.gateways, *c.nodes]:
            d.signal(9)
        for d in [*c.gateways, *c.nodes]:
            d.wait_exit()
        for d in [*c.nodes, *c.gateways]:
            d.start()
        verify(c, monday, "v")
        verify(c, monday, "v@monday")
        names = [s["name"] for s in json.loads(
            c.cleave("--json", "snapshot", "list").stdout)["snapshots"]]
        check(sorted(names) == ["later", "monday"], f"snapshots: {names}")


def what_must_not_be_is_refused():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        c.volume_create("w", "64M")
        c.cleave("snapshot", "create", "v@s")
        c.cleave("clone", "v@s", "c")
        for words, pattern in [
            (("snapshot", "create", "v@s"), "has a snapshot 's' already"),
            (("snapshot", "create", "v"), "VOLUME@SNAPSHOT"),
            (("snapshot", "create", "v@-x"), "must not start"),
            (("snapshot", "create", "nobody@s"), "volume 'nobody': no such volume"),
            (("snapshot", "delete", "v@t"), "snapshot 'v@t': no such snapshot"),
            (("snapshot", "delete", "v@s"), "1 clones"),
            (("volume", "delete", "v"), "1 snapshots.*--snapshots"),
            (("volume", "delete", "v", "--snapshots"), "1 clones"),
            (("clone", "v@s", "w"), "already"),
            (("clone", "v@t", "x"), "snapshot 'v@t': no such snapshot"),
            (("volume", "rename", "v", "w"), "already"),
            (("volume", "resize", "v", "--size", "32M"), "lose what is behind"),
        ]:
            expect_error(c.cleave(*words, check_rc=False), pattern)
        c.cleave("volume", "rename", "v", "x")
        c.cleave("volume", "resize", "x", "--size", "1G")
        c.cleave("volume", "resize", "x", "--size", "32M", "--shrink")
        shown = json.loads(c.cleave("--json", "volume", "show", "x").stdout)["volume"]
        check(shown["size_bytes"] == 32 << 20, f"size after shrinking: {shown}")
        c.cleave("volume", "delete", "c", "--purge")
        c.cleave("snapshot", "delete", "x@s")


def differences_are_listed():
    with Cluster(nodes=3, shards=4) as c:
        c.volume_create("v", "256M")
        c.cleave("snapshot", "create", "v@empty")
        c.load("--volume", "v", "--operations", "10", "--in-flight", "1", "--pattern",
               "sequential", "--block-size", "4K")
        c.cleave("snapshot", "create", "v@ten")
        ranges = json.loads(c.cleave("--json", "snapshot", "diff", "v@empty", "v@ten").stdout)
        check(sum(e["length_bytes"] for e in ranges["extents"]) == 40960, f"{ranges}")
        for words in (("v@ten",), ("v@ten", "v"), ("v@ten", "v@ten")):
            ranges = json.loads(c.cleave("--json", "snapshot", "diff", *words).stdout)
            check(ranges["extents"] == [], f"{words}: {ranges}")
        expect_error(c.cleave("snapshot", "diff", "v@ten", "w@x", check_rc=False), "not of the")
        expect_error(c.cleave("snapshot", "diff", "v@ten", "v@x", check_rc=False),
                     "snapshot 'v@x': no such snapshot")


def a_snapshot_under_load_is_taken_by_any_gateway():
    """Another process dies while it is taken: it is there whole, or not at all."""
    with Cluster(nodes=3, shards=4, gateways=2) as c:
        with Load(c, size="512M", in_flight=16, read_percent=0) as load:
            for i in range(5):
                load.wait_writes(100)
                started = time.monotonic()
                c.cleave("snapshot", "create", f"v@s{i}")
                print(f"  taken under load in {(time.monotonic() - started) * 1000:.0f} ms")
            words = [*c.gateway_words(), "snapshot", "create", "v@last"]
            asked = subprocess.Popen([binary("cleave"), *words], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
            c.gateways[0].signal(9)
            c.gateways[0].wait_exit()
            asked.communicate(timeout=WAIT_S)
            load.wait_writes(100)
            c.gateways[0].start()
            load.wait_writes(100)
        names = [s["name"] for s in json.loads(
            c.cleave("--json", "snapshot", "list", "v").stdout)["snapshots"]]
        check(set(names) >= {f"s{i}" for i in range(5)}, f"snapshots: {names}")
        check(asked.returncode != 0 or "last" in names, "an acknowledged snapshot is gone")
        c.cleave("snapshot", "create", "v@after")


def deleted_volumes_give_their_space_back():
    with Cluster(nodes=3, shards=2, disk_size="1G", gateway_args=["--log-bytes", "16M"]) as c:
        c.volume_create("keep", "64M")
        before = slots_free(c)
        c.volume_create("v", "256M", "--engine", "none")
        c.load("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--bytes",
               "256M", "--in-flight", "16")
        c.cleave("snapshot", "create", "v@s")
        used = before - slots_free(c)
        check(used > 100, f"256 MiB in three copies took {used} slots of 4 MiB")
        c.cleave("volume", "delete", "v", "--snapshots", "--purge")
        # The log has its own share: what it holds of the volume goes when it moves on.
        wait_for(lambda: before - slots_free(c) < used // 3, "space does not come back")
        print(f"  {used} slots in use, {before - slots_free(c)} after the volume was deleted")


def deleted_snapshots_give_their_space_back():
    with Cluster(nodes=3, shards=2, disk_size="1G", gateway_args=["--log-bytes", "16M"]) as c:
        c.volume_create("v", "64M", "--engine", "none")

        def overwrite(seed):
            c.load("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--bytes",
                   "64M", "--in-flight", "16", "--seed", str(seed))

        before = slots_free(c)
        for seed in range(4):
            overwrite(seed)
            c.cleave("snapshot", "create", f"v@s{seed}")
        overwrite(9)
        used = before - slots_free(c)
        for seed in range(4):
            c.cleave("snapshot", "delete", f"v@s{seed}")
        wait_for(lambda: before - slots_free(c) < used * 2 // 3, "space does not come back")
        print(f"  {used} slots in use, {before - slots_free(c)} after the snapshots were deleted")


def what_a_roll_back_hides_gives_its_space_back():
    with Cluster(nodes=3, shards=2, disk_size="1G", gateway_args=["--log-bytes", "16M"]) as c:
        c.volume_create("v", "64M", "--engine", "none")
        monday = journal(c, "monday")

        def overwrite(seed, *more):
            c.load("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--bytes",
                   "64M", "--in-flight", "16", "--seed", str(seed), *more)

        before = slots_free(c)
        overwrite(1, "--journal", monday)
        c.cleave("snapshot", "create", "v@monday")
        for seed in range(2, 5):
            overwrite(seed)
            c.cleave("snapshot", "create", f"v@s{seed}")
        used = before - slots_free(c)
        c.cleave("snapshot", "rollback", "v@monday")
        for seed in range(2, 5):
            verify(c, monday, "v")
            c.cleave("snapshot", "delete", f"v@s{seed}")
        wait_for(lambda: before - slots_free(c) < used * 2 // 5, "space does not come back")
        print(f"  {used} slots in use, {before - slots_free(c)} after the roll-back")
        verify(c, monday, "v")
        c.gateway.kill()
        c.gateway.start()
        verify(c, monday, "v@monday")
        verify(c, monday, "v")


def zeros_behind_a_roll_back_stay():
    """What a roll-back brought back is zeroed: acknowledged, through kill -9, and through a flush."""
    with Cluster(nodes=3, shards=2, gateway_args=["--log-bytes", "4M"]) as c:
        kinds = ("write -P 0 0 64k", "write -z 0 64k", "discard 0 64k")
        for i, zero in enumerate(kinds):
            c.volume_create(f"v{i}", "64M", "--engine", "none")
            qemu_io(c, f"v{i}", "write -P 7 0 64k")
            c.cleave("snapshot", "create", f"v{i}@s")
            c.cleave("clone", f"v{i}@s", f"c{i}")
            c.cleave("snapshot", "create", f"c{i}@s")
            for name in (f"v{i}", f"c{i}"):
                qemu_io(c, name, zero, "read -P 0 0 64k")
                c.cleave("snapshot", "rollback", f"{name}@s")
                qemu_io(c, name, "read -P 7 0 64k", zero, "read -P 0 0 64k")
        names = [f"{letter}{i}" for letter in "vc" for i in range(len(kinds))]

        def verify_zeros():
            for name in names:
                qemu_io(c, name, "read -P 0 0 64k")

        verify_zeros()
        c.gateway.kill()
        c.gateway.start()
        verify_zeros()
        # So much goes through the log that the layers with the zeros are merged into runs.
        c.volume_create("w", "512M", "--engine", "none")
        flushes = c.metric("flushes")
        c.load("--volume", "w", "--pattern", "sequential", "--block-size", "64K", "--bytes", "64M",
               "--in-flight", "16")
        wait_for(lambda: c.metric("flushes") > flushes + 8, "nothing is flushed")
        verify_zeros()


def what_is_cut_off_behind_a_roll_back_does_not_come_back():
    with Cluster(nodes=3, shards=2) as c:
        c.volume_create("v", "64M")
        qemu_io(c, "v", "write -P 7 40M 64k")
        c.cleave("snapshot", "create", "v@s")
        shrink = ("volume", "resize", "v", "--size", "32M", "--shrink")
        c.cleave(*shrink)
        c.cleave("snapshot", "rollback", "v@s")
        c.cleave(*shrink)
        c.cleave("volume", "resize", "v", "--size", "64M")
        qemu_io(c, "v", "read -P 0 40M 64k")


if __name__ == "__main__":
    main(
        snapshots_clones_and_roll_backs_keep_what_was,
        what_must_not_be_is_refused,
        differences_are_listed,
        a_snapshot_under_load_is_taken_by_any_gateway,
        deleted_volumes_give_their_space_back,
        deleted_snapshots_give_their_space_back,
        what_a_roll_back_hides_gives_its_space_back,
        zeros_behind_a_roll_back_stay,
        what_is_cut_off_behind_a_roll_back_does_not_come_back,
    )
