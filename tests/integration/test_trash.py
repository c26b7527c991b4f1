#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deleted volumes: in the trash, restored with all that was on them, purged; whatever is killed in between."""
import json
import os
import shutil
import subprocess

from libcluster import CLUSTER_ID, Cluster, binary, check, expect_error, main, run_argv, wait_for


def trash(c):
    return json.loads(c.cleave("--json", "trash", "list").stdout)["volumes"]


def slots_free(c):
    return sum(node["slots_free"] for node in json.loads(
        c.cleave("--json", "node", "list").stdout)["nodes"])


def orphans(c):
    """Copies that no manifest names: a gateway that dies leaves what its merges were making, and they stay for
    --orphan-grace, for a store that forgot them would look the same."""
    return json.loads(c.cleave("--json", "sweep").stdout)["total"]


def write(c, path, seed=1):
    c.load("--volume", "v", "--pattern", "random", "--operations", "2000", "--in-flight", "16", "--seed", str(seed),
           "--journal", path)


def verify(c, path, volume="v", *words):
    c.load("--verify-journal", path, "--volume", volume, *words)


def events(c):
    lines = c.cleave("events", "--json").stdout.splitlines()
    return [(e["code"], e["object"]) for e in map(json.loads, lines) if e["code"].startswith("volume-")]


def a_deleted_volume_comes_back_with_its_data():
    """The gateway is killed right behind the deletion, and right behind the restoration."""
    with Cluster(nodes=3, shards=4) as c:
        c.volume_create("v", "128M")
        before, later = os.path.join(c.folder, "before"), os.path.join(c.folder, "later")
        write(c, before)
        c.cleave("snapshot", "create", "v@s")
        write(c, later, seed=2)
        expect_error(c.cleave("volume", "delete", "v", check_rc=False), "1 snapshots", "--snapshots", codes=(1,))
        text = c.cleave("volume", "delete", "v", "--snapshots").stdout
        check("in the trash for 1d 00h 00m 00s" in text, text)
        c.gateway.kill()
        c.gateway.start()
        check([v["name"] for v in trash(c)] == ["v"], "it is in the trash")
        check(trash(c)[0]["snapshots"] == 1, "with its snapshot")
        expect_error(c.load("--volume", "v", "--operations", "1", check_rc=False), "'v'")
        expect_error(c.load("--volume", "v@s", "--operations", "1", "--read-percent", "100", check_rc=False),
                     "v")
        c.volume_create("v", "1M")
        expect_error(c.cleave("trash", "restore", "v", check_rc=False), "there is a volume 'v'", codes=(1,))
        c.cleave("volume", "delete", "v", "--purge")
        check(c.cleave("trash", "restore", "v").stdout == "v: restored\n", "said")
        c.gateway.kill()
        c.gateway.start()
        verify(c, later)
        verify(c, before, "v@s", "--written-as", "1")
        write(c, later, seed=3)
        verify(c, later)
        check(trash(c) == [], "the trash is empty")


def a_session_of_before_does_not_write_again():
    with Cluster(nodes=3, shards=2, gateways=2) as c:
        c.volume_create("v", "64M")
        user = subprocess.Popen(c.load_argv("--volume", "v", "--seconds", "600", "--quiet"),
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: "cleave-load" in c.cleave("volume", "show", "v").stdout, "it writes")
            expect_error(c.cleave("volume", "delete", "v", check_rc=False), "in use by", "--force", codes=(1,))
            c.cleave("volume", "delete", "v", "--force")
            c.cleave("trash", "restore", "v")
            wait_for(lambda: user.poll() is not None, "the writer of before has ended")
            check(user.returncode == 1, f"{user.returncode}")
        finally:
            user.kill()
            user.wait()


def a_purge_gives_the_room_back():
    with Cluster(nodes=3, shards=2, slot_size="1M") as c:
        c.volume_create("v", "128M")
        before = slots_free(c)
        c.load("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--operations", "800",
               "--in-flight", "32")
        c.cleave("snapshot", "create", "v@s")
        used = before - slots_free(c)
        check(used > 60, f"{used} slots")
        c.cleave("volume", "delete", "v", "--snapshots")
        c.gateway.kill()
        c.gateway.start()
        check(before - slots_free(c) > used / 2, "its room is not free")
        expect_error(c.cleave("trash", "purge", check_rc=False), "--all", codes=(1, 2))
        text = c.cleave("trash", "purge", "--all").stdout
        check("v, id 1: purged" in text, f"said {text!r}")
        check(c.cleave("trash", "purge", "--all").stdout == "the trash is empty\n", "again")
        wait_for(lambda: before - slots_free(c) - orphans(c) < used / 4, "its room comes back")
        # Where there are orphans, an operator's word gives their room back, too: of those that sweeps have met so far.
        wait_for(lambda: c.cleave("sweep", "--confirm") and orphans(c) == 0 and before - slots_free(c) < used / 4,
                 "and that of what no manifest names")


def a_number_that_is_two_volumes_is_refused():
    """The id of one, and what another was called: a slip would purge the wrong one."""
    with Cluster(nodes=3, shards=2) as c:
        c.volume_create("2", "1M")
        for name in ("v", "3"):
            c.volume_create(name, "1M")
        for name in ("2", "v"):
            c.cleave("volume", "delete", name)
        for verb in ("purge", "restore"):
            expect_error(c.cleave("trash", verb, "2", check_rc=False), "id of volume 'v'", "another one there, id 1",
                         "--id", codes=(1,))
        check(c.cleave("trash", "restore", "2", "--id").stdout == "v: restored\n", "by its id")
        c.cleave("volume", "delete", "v")
        check(c.cleave("trash", "restore", "2", "w", "--id").stdout == "w: restored\n", "under another name")
        c.cleave("volume", "delete", "w")
        check(c.cleave("trash", "purge", "--id", "2").stdout == "2: purged\n", "the one that was v")
        check([v["id"] for v in trash(c)] == [1], f"{trash(c)}")
        expect_error(c.cleave("trash", "purge", "2", "--id", check_rc=False), "cleave trash list", codes=(1,))
        c.cleave("volume", "delete", "3")
        c.volume_create("1", "1M")
        c.cleave("volume", "delete", "1")
        text = c.cleave("trash", "purge", "--all").stdout
        check(text.count(": purged") == 3 and trash(c) == [], text)


def its_time_is_over():
    """Two gateways: one is killed and comes back, which makes it later."""
    with Cluster(nodes=3, shards=2, gateways=2) as c:
        c.volume_create("v", "64M")
        c.volume_create("w", "64M")
        write(c, os.path.join(c.folder, "journal"))
        c.cleave("snapshot", "create", "w@kept")
        c.cleave("snapshot", "protect", "w@kept")
        expect_error(c.cleave("volume", "delete", "w", "--snapshots", check_rc=False), "'kept' is protected",
                     codes=(1,))
        c.cleave("snapshot", "unprotect", "w@kept")
        c.cleave("volume", "delete", "w", "--snapshots")
        c.cleave("volume", "delete", "v", "--keep", "6s")
        c.gateways[0].kill()
        c.gateways[0].start()
        check([v["name"] for v in trash(c)] in (["v", "w"], ["w"]), f"{trash(c)}")
        wait_for(lambda: [v["name"] for v in trash(c)] == ["w"], "v is purged, w is not")
        told = events(c)
        check(("volume-trashed", "w") in told or ("volume-purged", "v") in told, f"{told}")
        expect_error(c.cleave("trash", "restore", "v", check_rc=False), "cleave trash list", codes=(1,))
        c.cleave("trash", "restore", "w", "x")
        check("x@kept" in c.cleave("snapshot", "list").stdout, "its snapshot is back, too")


def a_recovered_volume_is_in_the_trash_still():
    with Cluster(nodes=3, shards=2) as c:
        c.volume_create("v", "64M")
        c.volume_create("w", "64M")
        journal = os.path.join(c.folder, "journal")
        write(c, journal)
        c.cleave("snapshot", "create", "w@s")
        c.cleave("snapshot", "protect", "w@s")
        c.cleave("volume", "delete", "v")
        before = trash(c)[0]
        # The mirror follows behind the answer: once another change is durable there, this one is.
        c.gateway.stop()
        c.gateway.start()
        c.gateway.stop()
        shutil.rmtree(os.path.join(c.folder, "meta"))
        argv = [binary("cleave"), "recover", "--meta", os.path.join(c.folder, "meta"), "--cluster-id", CLUSTER_ID]
        for address in c.addresses:
            argv += ["--node", address]
        result = run_argv(argv)
        check("volume v in the trash" in result.stdout + result.stderr, "it is said")
        c.gateway.start()
        check("v" not in c.cleave("volume", "list").stdout.split(), "it is not live")
        after = trash(c)[0]
        check(all(before[key] == after[key] for key in ("name", "id", "deleted_s", "keep_s")), f"{after}")
        check(after["left_s"] > 80000, f"{after}")
        expect_error(c.cleave("snapshot", "delete", "w@s", check_rc=False), "protected", codes=(1,))
        c.cleave("trash", "restore", "v")
        verify(c, journal)


def a_full_cluster_says_that_there_is_a_trash():
    with Cluster(nodes=3, shards=2, disk_size="192M", slot_size="4M") as c:
        c.volume_create("v", "256M")
        c.volume_create("old", "1M")
        c.cleave("volume", "delete", "old")
        c.load("--volume", "v", "--pattern", "sequential", "--block-size", "64K", "--operations", "4000",
               "--in-flight", "16", "--compressibility", "0", "--io-timeout", "5s", check_rc=False)
        wait_for(lambda: any("1 deleted volume is in the trash: cleave trash purge" in text
                             for code, _, text in c.health()[1] if code.startswith("room")), "it is said")


main(a_deleted_volume_comes_back_with_its_data, a_session_of_before_does_not_write_again,
     a_purge_gives_the_room_back, a_number_that_is_two_volumes_is_refused, its_time_is_over,
     a_recovered_volume_is_in_the_trash_still, a_full_cluster_says_that_there_is_a_trash)
