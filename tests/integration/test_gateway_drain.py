#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three gateways under load: each is drained in turn, and nobody who uses the volume sees an error."""
import json
import subprocess

from libcluster import WAIT_S, Cluster, binary, check, expect_error, main, wait_for
from libload import Load

SHARDS = 6
# A shard that is given away waits for no lease.
ARGS = ("--lease-ms", "600000", "--node-timeout", "1s")


def three_gateways(**options):
    return Cluster(gateways=3, shards=SHARDS, gateway_args=ARGS, **options)


def gateways_of(c):
    """Of each id: its state, and how many shards it has."""
    out = json.loads(c.cleave("--json", "gateway", "list").stdout)
    return {int(g["gateway"], 16): (g["state"], g["shards_owned"]) for g in out["gateways"]}


def shares_are(c, shares):
    """Each gateway has as many shards as is said, in order of their ids."""
    wait_for(lambda: [gateways_of(c).get(i + 1, (None, -1))[1] for i in range(len(shares))] ==
             shares, f"shares are not {shares}")


def each_is_drained_in_turn():
    with three_gateways() as c:
        with Load(c) as load:
            shares_are(c, [2, 2, 2])
            for i, gateway in enumerate(c.gateways):
                from_lines = len(gateway.lines)
                load.wait_writes(500)
                out = c.cleave("gateway", "drain", str(i + 1), "--wait").stdout
                check("drained; it may be stopped" in out, out)
                check(gateways_of(c)[i + 1] == ("drained", 0), gateways_of(c))
                given = sum("given away, this gateway is drained" in line
                            for line in gateway.lines[from_lines:])
                check(given == 2, f"{given} shards were given away")
                shares_are(c, [0 if k == i else 3 for k in range(3)])
                load.wait_writes(500)
                c.cleave("gateway", "undrain", str(i + 1))
                shares_are(c, [2, 2, 2])
        print("  longest request while each of three gateways was drained and undrained: "
              f"{load.longest_s():.3f} s")


def stopped_instead_for_comparison():
    """The same clients, and a gateway that stops in good order and comes back."""
    with three_gateways() as c:
        with Load(c) as load:
            shares_are(c, [2, 2, 2])
            load.wait_writes(500)
            c.gateways[0].stop()
            load.wait_writes(500)
            c.gateways[0].start()
            shares_are(c, [2, 2, 2])
        print(f"  longest request while a gateway stopped and came back: {load.longest_s():.3f} s")


def restarted_or_killed_it_is_drained_still():
    with three_gateways() as c, Load(c) as load:
        c.cleave("gateway", "drain", "0000000000000002", "--wait")
        for end in (c.gateways[1].stop, c.gateways[1].kill):
            end()
            wait_for(lambda: "gateway 0000000000000002: drained, and does not live" in
                     c.cleave("gateway", "list").stdout, "it is not told of")
            load.wait_writes(500)
            c.gateways[1].start()
            c.gateways[1].wait_line("gateway 0000000000000002 is drained by an operator")
            shares_are(c, [3, 0, 3])
        # It answers, also about itself.
        out = c.cleave("--gateway", c.gateway_addresses[1], "gateway", "list").stdout
        check("drained" in out, out)
        load.wait_writes(500)


def who_waits_for_a_taker_is_told():
    with Cluster(gateways=2, shards=4, gateway_args=ARGS) as c:
        c.gateways[0].stop()
        shares_are(c, [-1, 4])
        waiting = subprocess.Popen([binary("cleave"), *c.gateway_words(), "gateway", "drain", "2",
                                    "--force", "--wait"], stdout=subprocess.PIPE, text=True)
        try:
            said = ""
            while "no other gateway lives that takes shards" not in said:
                line = waiting.stdout.readline()
                check(line != "", f"it ended: {said}")
                said += line
            check("4 shards left, and no other gateway" in said and "undrain" in said, said)
            c.gateways[0].start()
            check(waiting.wait(WAIT_S) == 0, "the wait failed")
            shares_are(c, [4, 0])
        finally:
            waiting.kill()
            waiting.wait()
            waiting.stdout.close()


def refused_where_nobody_takes_the_shards():
    with three_gateways() as c:
        for words, patterns in (
                (("drain", "7"), ("0000000000000007 is not drained: it does not live", "--force")),
                (("drain", "x"), ("is no gateway's id",)),
                (("undrain", "7"), ("neither lives nor is drained",))):
            expect_error(c.cleave("gateway", *words, check_rc=False), *patterns, codes=(1,))
        c.cleave("gateway", "drain", "1", "--wait")
        c.gateways[1].stop()
        expect_error(c.cleave("gateway", "drain", "3", check_rc=False),
                     "no other gateway lives that could take its shards", "undrain", "--force",
                     codes=(1,))
        # The last that takes shards goes all the same: the drained one serves rather than nobody.
        c.gateways[2].stop()
        c.gateways[0].wait_line("every gateway that lives is drained")
        with Load(c) as load:
            load.wait_writes(500)
            c.gateways[2].start()
            shares_are(c, [0, -1, 6])


main(each_is_drained_in_turn, stopped_instead_for_comparison,
     restarted_or_killed_it_is_drained_still, who_waits_for_a_taker_is_told,
     refused_where_nobody_takes_the_shards)
