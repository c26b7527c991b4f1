#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits of volumes: reached, kept, changed while a load runs; by libcleave, and by gateways where a client keeps none."""
import json
import os
import re
import shutil
import time

from libcluster import Cluster, check, counted, expect_error, main, wait_for
from libload import Load
from test_recover import recover
from test_slow import scrape, value

METRICS = ("--metrics", "127.0.0.1:0")


def shown(c, name="v"):
    return json.loads(c.cleave("--json", "volume", "show", name).stdout)["volume"].get("qos", {})


def count(c, name):
    return c.metric_of_all(name)


def rate(c, seconds, names=("writes", "reads")):
    """Messages a second that the gateways answer, each by its own clock: how long a question takes does not count."""
    def look():
        told = [c.whole_status(at) for at in c.gateway_addresses]
        return [(each["uptime_ns"], sum(counted(each, name) for name in names)) for each in told]

    before = look()
    time.sleep(seconds)  # what is measured is a rate
    return sum((count - count0) * 1e9 / (ns - ns0) for (ns0, count0), (ns, count) in zip(before, look()))


def reached(c, limit, seconds, low, high, names=("writes", "reads")):
    """reached / set, of the first stretch of time in which it is between the two. Where a machine stands still, what is made up
    for then is more than the limit for a while; where none is kept, it is more in each."""
    got = []
    wait_for(lambda: got.append(rate(c, seconds, names) / limit) or low < got[-1] < high,
             f"no {seconds} s had between {low} and {high} of the limit")
    return got[-1]


def limited_load(c, words, limit, low, high, unpaced=False, seconds=5, **options):
    """reached / set, of a load that has run for a while; the limit is lifted before its journal is verified."""
    os.environ["CLEAVE_PACE"] = "off" if unpaced else "on"
    try:
        with Load(c, *words, size=None, **options) as load:
            load.wait_writes(1)
            if unpaced:  # the deeper bucket of a gateway is used up first
                wait_for(lambda: count(c, "requests_held") > 0, "nothing is held")
            got = reached(c, limit, seconds, low, high)
            c.cleave("volume", "set", "v", "--iops", "off")
    finally:
        del os.environ["CLEAVE_PACE"]
    return got


def a_limit_is_reached_and_kept():
    """CLEAVE_LIMITS_S=10: for the figures of ten seconds."""
    seconds = float(os.environ.get("CLEAVE_LIMITS_S", "3"))
    with Cluster(ports=2) as c:
        c.volume_create("v", "256M")
        for pattern in ("random", "sequential"):
            for in_flight in (1, 64):
                c.cleave("volume", "set", "v", "--iops", "400")
                check(shown(c) == {"iops": 400}, f"{shown(c)}")
                # One at a time reaches as much as a busy machine has answers.
                got = limited_load(c, ["--pattern", pattern], 400, 0.5 if in_flight > 1 else 0, 1.15, seconds=seconds,
                                   in_flight=in_flight)
                print(f"  {pattern}, {in_flight} in flight: reached / set {got:.3f}")
        check(count(c, "requests_held") == 0, "a client that keeps its limits is not held")


def limits_change_while_a_load_runs():
    with Cluster(ports=2) as c:
        c.volume_create("v", "256M")
        with Load(c, size=None, in_flight=16) as load:
            load.wait_writes(1000)
            c.cleave("volume", "set", "v", "--write-iops", "50", "--burst", "100ms")
            # It is learnt within about a second; what is answered in the next three is no more than it allows.
            got = reached(c, 50, 3, 0, 1.5, names=("writes",))
            print(f"  writes alone, set while it ran: reached / set {got:.3f}")
            c.cleave("volume", "set", "v", "--write-iops", "0")
            load.wait_writes(2000)  # at 50 a second that would take 40 s
        check(shown(c) == {"burst_ms": 100}, f"{shown(c)}")
        check("volume-limited v" in [f"{e['code']} {e['object']}" for e in events(c)], "the event")


def events(c):
    return [json.loads(line) for line in c.cleave("--json", "events").stdout.splitlines()]


def a_client_that_keeps_none_is_held():
    with Cluster(ports=1, gateway_args=METRICS) as c:
        c.volume_create("v", "256M")
        c.cleave("volume", "set", "v", "--iops", "400")
        got = limited_load(c, [], 400, 0.3, 1.15, unpaced=True, in_flight=64)
        print(f"  without pacing: reached / set {got:.3f}")
        check(count(c, "requests_held") > 100, "held")
        told = c.status()["ports"][0]["limits"]
        check([each["volume"] for each in told] == ["v"] and told[0]["waited"] > 100, f"{told}")
        text = scrape(c.gateway)
        check(value(text, "cleave_gateway_qos_wait_seconds_count") > 100, "the histogram")
        check(value(text, "cleave_gateway_volume_qos_waited_total", volume="v") > 100, "by volume")


def one_limit_is_over_all_ports():
    """Two gateways with two ports each: a client that keeps no limit has it once, not four times; one that does is not held."""
    with Cluster(gateways=2, ports=2, shards=8) as c:
        c.volume_create("v", "512M")
        c.cleave("volume", "set", "v", "--iops", "300", "--burst", "100ms")
        got = limited_load(c, [], 300, 0, 1.3, in_flight=64)
        check(count(c, "requests_held") == 0, f"a client that keeps its limit is not held: {got}")
        c.cleave("volume", "set", "v", "--iops", "300")
        os.environ["CLEAVE_PACE"] = "off"
        try:
            with Load(c, size=None, in_flight=64) as load:
                load.wait_writes(1)
                got = reached(c, 300, 10, 0.3, 1.1)  # at first the ports have given too much, and then too little
                print(f"  without pacing, through four ports: reached / set {got:.3f}")
                c.cleave("volume", "set", "v", "--iops", "off")
        finally:
            del os.environ["CLEAVE_PACE"]


def what_is_wrong_is_refused():
    with Cluster() as c:
        c.volume_create("v", "64M")
        expect_error(c.cleave("volume", "set", "v", check_rc=False), "what is to be set")
        expect_error(c.cleave("volume", "set", "v", "--iops", "many", check_rc=False), "--iops: 'many'")
        expect_error(c.cleave("volume", "set", "v", "--bandwidth", "1K", check_rc=False),
                     "--bandwidth: '1K' is out of range, give 64 KiB to 1 TiB, or off")
        for option, value in (("--burst", "2h"), ("--weight", "5"), ("--min-iops", "99999999999"),
                              ("--iops", str(2**64 - 1)), ("--write-bandwidth", "2T")):
            expect_error(c.cleave("volume", "set", "v", option, value, check_rc=False),
                         f"{option}: '{value}' is out of range")
        check(shown(c, "v") == {}, "one of them counts")
        expect_error(c.cleave("volume", "set", "x", "--iops", "5", check_rc=False), "x")
        expect_error(c.cleave("volume", "list", "--iops", "5", check_rc=False), "takes no --iops")
        c.cleave("volume", "set", "v", "--bandwidth", "20M", "--read-iops", "7", "--burst", "2s")
        text = c.cleave("volume", "show", "v").stdout
        check(re.search(r"limits\s+bandwidth 20 MiB/s, read-iops 7, burst 2000 ms", text), text)
        check("bandwidth 20 MiB/s" in c.cleave("volume", "list").stdout, "in the list")
        c.cleave("snapshot", "create", "v@s")
        c.cleave("clone", "v@s", "w")
        check(shown(c, "w") == {}, "a clone has none")


def shares_are_set_shown_and_recovered():
    with Cluster() as c:
        for name in ("v", "w"):
            c.volume_create(name, "64M")
        c.cleave("volume", "set", "v", "--min-iops", "500", "--weight", "200", "--iops", "9000")
        check(shown(c) == {"iops": 9000, "min_iops": 500, "weight": 200}, f"{shown(c)}")
        check(re.search(r"limits\s+iops 9000, min-iops 500, weight 200", c.cleave("volume", "show", "v").stdout), "show")
        expect_error(c.cleave("volume", "set", "w", "--weight", "5", check_rc=False),
                     "--weight: '5' is out of range")
        with Load(c, size=None) as load, Load(c, size=None, volume="w") as other:
            load.wait_writes(100)
            other.wait_writes(100)
            volumes = json.loads(c.cleave("--json", "top", "--once", "--interval", "200ms").stdout)["volumes"]
            top = next(each for each in volumes if each["volume"] == "v")
            check(top["qos"]["min_iops"] == 500 and "held_s" in top and "qos_wait_mean_us" in top, f"{top}")
            check("min-iops 500" in c.cleave("top", "--once", "--interval", "200ms").stdout, "top")
        c.cleave("volume", "set", "v", "--min-iops", "off")
        check(shown(c) == {"iops": 9000, "weight": 200}, f"{shown(c)}")
        c.gateway.stop()
        shutil.rmtree(c.meta)
        recover(c)
        c.gateway.start()
        check(shown(c) == {"iops": 9000, "weight": 200}, f"recovered: {shown(c)}")


if __name__ == "__main__":
    main(a_limit_is_reached_and_kept, limits_change_while_a_load_runs, a_client_that_keeps_none_is_held, one_limit_is_over_all_ports,
         what_is_wrong_is_refused, shares_are_set_shown_and_recovered)
