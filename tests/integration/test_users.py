#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Users of a cluster with keys: what a client may and sees, and that a right which is taken ends what is open."""
import json
import subprocess

from libcluster import WAIT_S, check, expect_error, main, run_argv, small_disks, wait_for
from libkeys import Authority, Keyed


def names(c, key):
    return [volume["name"] for volume in json.loads(c.cleave_as(key, "--json", "volume", "list").stdout)["volumes"]]


def a_client_has_what_its_user_says():
    with Authority() as a, Keyed(a, gateways=2) as c:
        key = a.issue("client/db1")
        for name in ("db-1", "golden", "other"):
            c.volume_create(name, "64M")
        check(names(c, key) == [], "a client of whom nobody has said anything sees volumes")
        expect_error(c.cleave_as(key, "volume", "show", "db-1"), "'db-1': no such volume")
        expect_error(c.cleave("user", "add", "db1", "db-*:w", check_rc=False), "user 'db1': rights: 'db-\\*' has w and no r")
        c.cleave("user", "add", "db1", "db-*:rw", "golden:r")
        wait_for(lambda: names(c, key) == ["db-1", "golden"], "the rights are not there")
        run_argv(c.load_argv_as(key, "--volume", "db-1", "--operations", "100"))
        run_argv(c.load_argv_as(key, "--volume", "golden", "--read-percent", "100", "--operations", "100"))
        expect_error(run_argv(c.load_argv_as(key, "--volume", "golden", "--operations", "1"), check_rc=False), "golden",
                     "may not|right")
        # The trash says who has put it there, as keys tell.
        c.volume_create("scrap", "4M")
        c.cleave("volume", "delete", "scrap")
        check("admin/test" in c.cleave("trash", "list").stdout, c.cleave("trash", "list").stdout)
        # What it may not see is told in the words of what is not there.
        hidden, absent = (c.cleave_as(key, "volume", "delete", name, "--purge").stderr
                          for name in ("other", "nothing"))
        check(hidden.replace("other", "nothing") == absent, f"{hidden} and {absent}")
        expect_error(c.cleave_as(key, "snapshot", "create", "db-1@a"), "db-1")
        expect_error(c.cleave_as(key, "volume", "create", "db-2", "--size", "64M"), "db-2")
        expect_error(c.cleave_as(key, "user", "set", "db1", "*:rwsa"), "admin|right|may not")
        expect_error(c.cleave_as(key, "node", "list"), "right|may not")
        # A right that lacks is no gateway that lacks.
        said = c.cleave_as(key, "status")
        check(said.returncode == 2 and "may not ask for health" in said.stderr and "key-refused" in said.stdout, f"{said}")
        check("gateway-silent" not in said.stdout and "no-gateway" not in said.stdout, f"{said}")
        for op in "events", "slow":
            expect_error(c.cleave_as(key, op), f"client/db1 may not ask for {op}", codes=(1,))
            expect_error(c.cleave_as(key, "--json", op), f"client/db1 may not ask for {op}", codes=(1,))
            check("no slow request" not in c.cleave_as(key, op).stdout, "who may not know is told that there is none")
            check("does not answer" not in c.cleave_as(key, op).stderr, "a gateway that answers is said not to")
        check(names(c, c.client_key) == ["db-1", "golden", "other"], "an admin sees all, and all is there")


def a_right_that_is_taken_ends_the_session():
    with Authority() as a, Keyed(a, gateways=2) as c:
        key = a.issue("client/db1")
        c.volume_create("db-1", "64M")
        c.cleave("user", "add", "db1", "db-*:rw")
        wait_for(lambda: names(c, key) == ["db-1"], "the right is not there")
        load = subprocess.Popen(c.load_argv_as(key, "--volume", "db-1", "--seconds", "600", "--quiet"),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            wait_for(lambda: c.metric("writes") > 0, "the load has not come")
            c.cleave("user", "set", "db1", "--disable")
            said, _ = load.communicate(timeout=WAIT_S)
        finally:
            load.kill()
        check(load.returncode == 1, f"the load goes on, or ended well: {load.returncode} {said}")
        events = [json.loads(line) for line in c.cleave("--json", "events").stdout.splitlines()]
        check(any(event["code"] == "session-cut" and "client/db1" in event["text"] for event in events), f"{events}")
        check(names(c, key) == [], "what was taken is seen")
        c.cleave("user", "set", "db1", "--enable")
        wait_for(lambda: names(c, key) == ["db-1"], "the right has not come back")
        run_argv(c.load_argv_as(key, "--volume", "db-1", "--take", "--operations", "10"))


small_disks()
main(a_client_has_what_its_user_says, a_right_that_is_taken_ends_the_session)
