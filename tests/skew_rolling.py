#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster of two gateways and three nodes is rolled to the new release, back, and forward again, and upgraded.

tests/skew runs this: CLEAVE_BUILD_DIR has the programs of the older release (and makes the cluster, its clients and
their load), CLEAVE_NEW_BUILD_DIR those of the newer. The load goes on all the time, without an error, and is verified
at the end. Told is what it does a second while daemons are rolled, as a share of what it does in stretches before,
between and behind, so that a machine that changes its pace counts less; with CLEAVE_TEST_RATIO_MIN less is a failure.
"""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "integration"))

from libcluster import Cluster, binary, check, expect_error, main, run_argv, wait_for
from libload import Load

NEW = os.environ.get("CLEAVE_NEW_BUILD_DIR", "")
RATIO_MIN = float(os.environ.get("CLEAVE_TEST_RATIO_MIN", "0"))
# Whose rate is the measure: merges come and go every few seconds, so that a short stretch tells little.
STEADY_WRITES = 200000 if RATIO_MIN > 0 else 30000


def program(daemon, is_new):
    """`daemon` runs this release when it starts next."""
    folder, name = daemon.argv[0].rsplit("/", 2)[-2:]
    daemon.argv[0] = os.path.join(NEW, folder, name) if is_new else binary(name)


def new_cleave(c, *words, check_rc=True):
    return run_argv([os.path.join(NEW, "vm-client", "cleave"), *c.gateway_words(), *words],
                    check_rc=check_rc)


def restart(c, load, daemon, is_new):
    """One daemon, as an operator does it: stopped, started, and the next only when no copy is missing."""
    check(daemon.stop() == 0, f"{daemon.name} did not end well")
    program(daemon, is_new)
    daemon.start()
    load.wait_writes(500)
    wait_for(lambda: lacking_of_all(c) == 0, f"copies are missing after {daemon.name} was restarted")


def lacking_of_all(c):
    return sum(s["extents_lacking"] for at in c.gateway_addresses for s in c.status(at)["shards"]
               if s["state"] == "serving")


def roll(c, load, is_new):
    """Every daemon; the writes a second meanwhile."""
    before, started = load.journal_bytes(), time.monotonic()
    for daemon in [*c.nodes, *c.gateways]:
        restart(c, load, daemon, is_new)
    return (load.journal_bytes() - before) / 64 / (time.monotonic() - started)


def steady(load):
    """The writes a second while nothing happens."""
    return STEADY_WRITES / load.wait_writes(STEADY_WRITES)


def roll_all(c, load):
    """Forward, back, and forward; the share of the steady rate that was left meanwhile."""
    rates, steady_rates = [], [steady(load)]
    for what, is_new in (("rolled forward", True), ("rolled back", False), ("rolled forward again", True)):
        started = time.monotonic()
        rates.append(roll(c, load, is_new))
        took_s = time.monotonic() - started
        steady_rates.append(steady(load))
        print(f"  {what}: {rates[-1]:.0f} writes/s for {took_s:.1f} s, {steady_rates[-2]:.0f} right before, "
              f"{steady_rates[-1]:.0f} right behind", flush=True)
    ratio = statistics.mean(rates) / statistics.mean(steady_rates)
    print(f"  all three: ratio {ratio:.2f}", flush=True)
    return ratio


def expect_level(c, level, *lines):
    out = new_cleave(c, "status", "--counters", check_rc=False).stdout
    check(f"level        {level}\n" in out, out)
    for line in lines:
        check(line in out, f"no '{line}' in\n{out}")


def old_gateway_is_refused(c):
    """It knows no levels; what it says is that it does not know the member that tells of one."""
    gateway = c.gateways[1]
    check(gateway.stop() == 0, "the gateway did not end well")
    program(gateway, False)
    at = len(gateway.lines)
    gateway.start(wait=False)
    gateway.wait_line("key=cluster field=\"level", at)
    check(gateway.wait_exit() != 0, "an old gateway serves an upgraded cluster")
    program(gateway, True)
    gateway.start()


def old_node_is_refused(c, load):
    node = c.nodes[2]
    check(node.stop() == 0, "the node did not end well")
    program(node, False)
    node.start()
    wait_for(lambda: "its release is too old since the cluster was upgraded" in
             new_cleave(c, "node", "list").stdout, "the old node is not refused")
    load.wait_writes(500)
    check(node.stop() == 0, "the node did not end well")
    program(node, True)
    node.start()
    load.wait_writes(500)
    wait_for(lambda: lacking_of_all(c) == 0, "copies are missing")
    expect_level(c, 2)


def rolled_forward_back_forward_and_upgraded():
    check(NEW != "", "CLEAVE_NEW_BUILD_DIR is not set: run tests/skew")
    with Cluster(nodes=3, gateways=2) as c, Load(c) as load:
        load.wait_writes(2000)
        for gateway in c.gateways[:1]:
            restart(c, load, gateway, True)
        expect_level(c, 1, "gateway 2 speaks 1 to 1")
        wait_for(lambda: new_cleave(c, "node", "list").stdout.count(" up ") == len(c.nodes),
                 "the new gateway does not reach all nodes")
        expect_error(new_cleave(c, "cluster", "upgrade", check_rc=False), "gateway 2 speaks 1 to 1",
                     r"node \d at tcp:\S+ speaks 1")
        restart(c, load, c.gateways[0], False)
        ratio = roll_all(c, load)
        expect_level(c, 1, "level 1: everybody speaks 2, next: cleave cluster upgrade")
        lines = [len(gateway.lines) for gateway in c.gateways]
        out = new_cleave(c, "cluster", "upgrade", "--check").stdout
        check("everybody speaks 2" in out, out)
        out = new_cleave(c, "cluster", "upgrade").stdout
        check("upgraded from level 1 to 2" in out, out)
        out = new_cleave(c, "cluster", "upgrade").stdout
        check("already at level 2" in out, out)
        for gateway, line in zip(c.gateways, lines):
            gateway.wait_line("gateway: the cluster was upgraded from_level=1 level=2", line)
        load.wait_writes(2000)
        expect_level(c, 2, "level 2: nobody speaks more")
        old_gateway_is_refused(c)
        old_node_is_refused(c, load)
        for daemon in [*c.gateways, *c.nodes]:
            restart(c, load, daemon, True)
    check(ratio >= RATIO_MIN, f"{ratio:.2f} of the writes a second was left while daemons were rolled, not {RATIO_MIN}")


if __name__ == "__main__":
    main(rolled_forward_back_forward_and_upgraded)
