#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The typed calls of libcleave against real gateways and nodes, by a program (managing_client.c) and by `cleave`."""
import os

from libcluster import BUILD, Cluster, check, expect_error, main, run_argv, skip, wait_for


def a_program_manages_its_volumes():
    program = os.path.join(BUILD, "tests", "managing_client")
    if not os.path.exists(program):
        skip(f"{program} has not been built")
    with Cluster(nodes=3, shards=4, gateways=2) as c:
        wait_for(lambda: [s["state"] for s in c.status()["shards"]].count("serving") == 2 and
                 c.status()["gateway_count"] == 2, "the two do not share the shards")
        done = run_argv([program, c.address], check_rc=False)
        check(done.returncode == 0 and done.stdout == "managed\n", f"{done}")


def an_error_names_its_volume_once():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        c.cleave("snapshot", "create", "v@s")
        for words, what in [
            (("volume", "show", "nobody"), "volume 'nobody': no such volume"),
            (("volume", "map", "nobody"), "volume 'nobody': no such volume"),
            (("volume", "map", "v@t"), "snapshot 'v@t': no such snapshot"),
            (("snapshot", "diff", "v@t"), "snapshot 'v@t': no such snapshot"),
            (("volume", "show", "a b"), "'a b': names have 1 to 63 letters, digits"),
            (("volume", "rename", "v", ""), "'v', '': names have 1 to 63 letters, digits"),
        ]:
            result = c.cleave(*words, check_rc=False)
            expect_error(result, what)
            check(result.stderr.count("volume '") <= 1, f"{words}: {result.stderr}")


main(a_program_manages_its_volumes, an_error_names_its_volume_once)
