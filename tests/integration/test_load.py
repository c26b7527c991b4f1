#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cleave-load itself: what it does with several volumes at once."""
import json
import os

from libcluster import Cluster, check, expect_error, main

VOLUMES = 5


def many_volumes():
    """Each gets its share, from a session of its own, and what one is given another does not have."""
    with Cluster(nodes=3, disk_size="256M", slot_size="4M") as c:
        for i in range(VOLUMES):
            c.volume_create(f"v{i + 1}", "4M")
        before = c.metric("sessions")
        report = os.path.join(c.folder, "report.json")
        c.load("--volume", "v", "--volumes", str(VOLUMES), "--in-flight", str(4 * VOLUMES),
               "--pattern", "sequential", "--operations", str(VOLUMES * 1024), "--json", report)
        check(c.metric("sessions") - before >= VOLUMES, "not a session a volume")
        with open(report) as f:
            check(json.load(f)["writes_count"] == VOLUMES * 1024, "not all was written")
        usages = [json.loads(c.cleave("--json", "volume", "show", f"v{i + 1}").stdout)["usage"]
                  for i in range(VOLUMES)]
        check(all(usage["chunk_count"] == 1 for usage in usages), f"one got nothing: {usages}")
        c.load("--volume", "v", "--volumes", str(VOLUMES), "--in-flight", str(8 * VOLUMES),
               "--read-percent", "50", "--discard-percent", "10", "--operations", "8000")


def ycsb():
    """Each workload has the operations that it is named for, and every block is what it must be."""
    with Cluster(nodes=3, disk_size="256M", slot_size="4M") as c:
        c.volume_create("v", "4M")
        c.load("--volume", "v", "--pattern", "sequential", "--operations", "1024")
        report, journal = os.path.join(c.folder, "report.json"), os.path.join(c.folder, "journal")
        for name, reads, writes, rewrites in (("a", 50, 50, 0), ("b", 95, 5, 0), ("c", 100, 0, 0),
                                              ("d", 95, 5, 0), ("f", 50, 0, 50)):
            c.load("--volume", "v", "--ycsb", name, "--in-flight", "16", "--operations", "2000",
                   "--json", report, "--journal", journal)
            with open(report) as f:
                seen = json.load(f)
            for count, percent in ((seen["reads_count"], reads), (seen["writes_count"], writes),
                                   (seen["rewrites_count"], rewrites)):
                check(abs(count / 20 - percent) < 4 and (count == 0) == (percent == 0),
                      f"{name}: {seen}")
            check(seen["operations_count"] == 2000, f"{name}: {seen}")
        c.load("--volume", "v", "--verify-journal", journal)


def refuses():
    with Cluster(nodes=3, disk_size="256M", slot_size="4M") as c:
        c.volume_create("v1", "4M")
        c.volume_create("v2", "8M")
        words = ("--volume", "v", "--operations", "10", "--in-flight", "6")
        expect_error(c.load(*words, "--volumes", "4", check_rc=False), "--in-flight: 6", codes=(2,))
        expect_error(c.load(*words, "--volumes", "2", "--journal", "/x", check_rc=False),
                     "--volumes: not with journals", codes=(2,))
        expect_error(c.load(*words, "--ycsb", "a", "--read-percent", "5", check_rc=False),
                     "--ycsb: has percents", codes=(2,))
        expect_error(c.load(*words, "--read-percent", "60", "--rewrite-percent", "50", check_rc=False),
                     "--rewrite-percent: more than 100", codes=(2,))
        expect_error(c.load(*words, "--volumes", "2", check_rc=False), "v2: not of the size of v1",
                     codes=(1,))
        expect_error(c.load(*words, "--volumes", "3", check_rc=False), "v2: not of the size", codes=(1,))
        c.cleave("volume", "resize", "v1", "--size", "8M")
        expect_error(c.load(*words, "--volumes", "3", check_rc=False), "v3.*no such volume",
                     codes=(1,))


if __name__ == "__main__":
    main(many_volumes, ycsb, refuses)
