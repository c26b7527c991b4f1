#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One writer a volume: who is refused, who may take it, who comes after one that died, who only reads."""
import json
import os
import re
import subprocess
import time

from libcluster import WAIT_S, Cluster, check, expect_error, main, wait_for
from libload import Load


def show(c, name="v"):
    return json.loads(c.cleave("--json", "volume", "show", name).stdout)["volume"]


def write(c, *words, **options):
    return c.load("--volume", "v", "--operations", "50", *words, **options)


def a_second_writer_is_refused_and_told_by_whom():
    with Cluster(nodes=3, gateways=2) as c:
        with Load(c) as load:
            load.wait_writes(200)
            refused = write(c, check_rc=False)
            expect_error(refused, r"volume 'v': in use by cleave-load\[\d+\]@\S+ at \S+ since "
                         r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \(gateway tcp://", "--take")
            holder = show(c)["holder"]
            check(holder["client"].startswith(f"cleave-load[{load.process.pid}]@"), f"{holder}")
            check(holder["since_s"] > 0 and holder["address"] and holder["gateway"], f"{holder}")
            check("cleave-load[" in c.cleave("volume", "list").stdout, "the list names no writer")
            load.wait_writes(200)
        check(c.metric_of_all("sessions_held") > 0, "nobody was refused")
        check(c.metric_of_all("sessions_taken") == 0, "it was taken")
        # A session that was closed lets the next one in at once. Its program has waited three seconds for that at most.
        wait_for(lambda: "holder" not in show(c), "it was closed")
        for _ in range(5):
            write(c)
        check(sum(d.count_lines("volume: taken") for d in c.gateways) == 0, "it was taken")


def who_says_take_takes_it():
    with Cluster(nodes=3, gateways=2) as c:
        c.volume_create("v", "64M")
        first = subprocess.Popen(c.load_argv("--volume", "v", "--seconds", "600", "--quiet",
                                             "--read-percent", "10"),
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            end = time.monotonic() + WAIT_S
            while "holder" not in show(c):
                check(first.poll() is None and time.monotonic() < end, "it never opens the volume")
            write(c, "--take")
            text, _ = first.communicate(timeout=WAIT_S)
        finally:
            first.kill()
        check(first.returncode == 1, f"exit {first.returncode}\n{text}")
        check("session" in text, text)
        lines = [line for d in c.gateways for line in d.lines if "volume: taken" in line]
        check(len(lines) == 1, f"{lines}")
        check(re.search(rf'name=v attach=2 of="cleave-load\[{first.pid}\]@.*why=asked '
                        r'by="cleave-load\[\d+\]@\S+" from=\S+$', lines[0]), lines[0])
        check(c.metric_of_all("sessions_taken") == 1, "sessions_taken")
        write(c)


def one_that_died_keeps_it_for_the_session_time_alone():
    """kill -9; the next writer waits, and is let in without a word."""
    # Longer than it takes to start the next one, on any machine.
    with Cluster(nodes=3, gateways=2, gateway_args=("--session-timeout", "8s")) as c:
        c.volume_create("v", "64M")
        first = subprocess.Popen(c.load_argv("--volume", "v", "--seconds", "600", "--quiet"),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + WAIT_S
        while "holder" not in show(c):
            check(first.poll() is None and time.monotonic() < end, "it never opens the volume")
        first.kill()
        first.wait()
        write(c)
        check(sum(d.count_lines("volume: taken.*why=silent") for d in c.gateways) == 1,
              "it was not taken from one who was silent")
        check(c.metric_of_all("sessions_held") > 0, "nobody waited")


def a_writer_outlives_its_gateways():
    """Its session is its own through kills of every gateway, and nobody else gets in meanwhile."""
    with Cluster(nodes=3, gateways=2, gateway_args=("--session-timeout", "30s")) as c:
        with Load(c) as load:
            load.wait_writes(200)
            for gateway in c.gateways:
                gateway.kill()
                gateway.start()
                expect_error(write(c, check_rc=False), "in use by")
                load.wait_writes(200)
        check(c.metric_of_all("sessions_taken") == 0, "it was taken")


def who_only_reads_takes_nothing():
    with Cluster(nodes=3, gateways=2) as c:
        c.volume_create("w", "64M")
        c.load("--volume", "w", "--operations", "500", "--journal", os.path.join(c.folder, "w"))
        with Load(c) as load:
            load.wait_writes(200)
            c.cleave("volume", "map", "v")
            c.cleave("volume", "show", "v")
            c.load("--volume", "v", "--read-percent", "100", "--operations", "2000",
                   "--in-flight", "16")
            load.wait_writes(200)
        check(c.metric_of_all("sessions_taken") == 0, "it was taken")
        check(show(c)["attach"] == 1, "somebody attached it")
        # Beside a reader as well: what was written is what is read.
        c.load("--volume", "w", "--verify-journal", os.path.join(c.folder, "w"))
        check(show(c, "w")["attach"] == 1, "a verification attached it")


def a_volume_in_use_is_not_deleted():
    with Cluster(nodes=3, gateways=2) as c:
        with Load(c) as load:
            load.wait_writes(200)
            expect_error(c.cleave("volume", "delete", "v", check_rc=False),
                         r"in use by cleave-load\[", "--force")
            c.cleave("snapshot", "create", "v@s")
            expect_error(c.cleave("snapshot", "rollback", "v@s", check_rc=False),
                         r"in use by cleave-load\[", "--force")
            load.wait_writes(200)
        expect_error(c.cleave("volume", "delete", "v", check_rc=False), "1 snapshots",
                     "--snapshots")
        c.cleave("volume", "resize", "v", "--size", "512M")
        expect_error(c.cleave("snapshot", "rollback", "v@s", check_rc=False), "smaller",
                     "--shrink")
        check(show(c)["size_bytes"] == 512 << 20, "it was rolled back")
        c.cleave("snapshot", "rollback", "v@s", "--shrink")
        check(show(c)["size_bytes"] == 256 << 20, "it was not rolled back")
        c.cleave("volume", "delete", "v", "--snapshots", "--purge")
        check(json.loads(c.cleave("--json", "snapshot", "list").stdout)["snapshots"] == [],
              "a snapshot is left")
        expect_error(c.cleave("volume", "show", "v", check_rc=False), "no such")


def a_volume_in_use_is_deleted_by_force():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        first = subprocess.Popen(c.load_argv("--volume", "v", "--seconds", "600", "--quiet"),
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            end = time.monotonic() + WAIT_S
            while "holder" not in show(c):
                check(first.poll() is None and time.monotonic() < end, "it never opens it")
            c.cleave("volume", "delete", "v", "--force")
            text, _ = first.communicate(timeout=WAIT_S)
        finally:
            first.kill()
        check(first.returncode == 1, f"exit {first.returncode}\n{text}")


main(a_second_writer_is_refused_and_told_by_whom, who_says_take_takes_it,
     one_that_died_keeps_it_for_the_session_time_alone, a_writer_outlives_its_gateways,
     who_only_reads_takes_nothing, a_volume_in_use_is_not_deleted,
     a_volume_in_use_is_deleted_by_force)
