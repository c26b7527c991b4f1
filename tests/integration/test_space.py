#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small disks: overwritten for ever, full, and empty again."""
import os
import time

from libcluster import Cluster, check, main


def kill_all_and_start(c):
    for d in [c.gateway, *c.nodes]:
        d.signal(9)
    for d in [c.gateway, *c.nodes]:
        d.wait_exit()
    for d in [*c.nodes, c.gateway]:
        d.start()
        d.wait_ready()


def overwritten_many_times_its_size():
    """Five times 64 MiB on disks of 160 MiB; nothing is lost, and a restart finds a short log."""
    with Cluster(nodes=3, disk_size="160M", slot_size="1M") as c:
        c.volume_create("v", "64M", "--engine", "none")
        journal = os.path.join(c.folder, "journal")
        c.load("--volume", "v", "--pattern", "random", "--block-size", "16K", "--in-flight", "64",
               "--bytes", os.environ.get("CLEAVE_TEST_OVERWRITE", "320M"), "--journal", journal,
               timeout_s=600)
        check(c.metric("extents_reclaimed") > 150, "extents are not reclaimed")
        print(f"  {c.metric('extents_reclaimed')} extents reclaimed, "
              f"{c.metric('log_bytes') >> 20} MiB of log")
        c.load("--verify-journal", journal, "--volume", "v", timeout_s=600)
        kill_all_and_start(c)
        c.load("--verify-journal", journal, "--volume", "v", timeout_s=600)


def full_and_empty_again():
    """Writes are refused, reads and discards go on, and then there is room again."""
    with Cluster(nodes=3, disk_size="96M", slot_size="1M") as c:
        c.volume_create("v", "1G", "--engine", "none")
        journal = os.path.join(c.folder, "journal")
        result = c.load("--volume", "v", "--pattern", "sequential", "--bytes", "256M",
                        "--block-size", "64K", "--in-flight", "32", "--journal", journal,
                        check_rc=False, timeout_s=300)
        check(result.returncode == 1, f"exit {result.returncode}: {result.stdout}")
        check("space" in (result.stdout + result.stderr).lower(), "no word about space")
        c.load("--verify-journal", journal, "--volume", "v")
        kill_all_and_start(c)
        c.load("--verify-journal", journal, "--volume", "v")
        for _ in range(2):
            c.load("--volume", "v", "--pattern", "sequential", "--discard-percent", "100",
                   "--block-size", "1M", "--bytes", "1G", timeout_s=300)
            end = time.monotonic() + 60
            while True:
                result = c.load("--volume", "v", "--pattern", "sequential", "--bytes", "24M",
                                "--block-size", "64K", check_rc=False, timeout_s=300)
                if result.returncode == 0:
                    break
                check("space" in (result.stdout + result.stderr).lower(), result.stdout)
                check(time.monotonic() < end, "space does not come back")


if __name__ == "__main__":
    main(overwritten_many_times_its_size, full_and_empty_again)
