#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gateways that tell clients the address of another one, or one where nobody is: they say so, and how to mend it."""
import json

from libcluster import Cluster, binary, check, free_port, main, run_argv, small_disks, wait_for
from libkeys import Authority, Keyed


def name_of(number):
    return f"gateway {number:016x}"


def told(c, index, address):
    """The next start of the gateway tells clients that address."""
    c.gateways[index].argv = c.gateway_argv(
        [f"{c.gateway_addresses[index]},advertise={address.removeprefix('tcp://')}"], index)


def mended(c):
    """All start again, and tell their own addresses."""
    for index, gateway in enumerate(c.gateways):
        if gateway.process is not None:
            check(gateway.stop() == 0, f"{gateway.name} did not stop well")
        told(c, index, c.gateway_addresses[index])
    for gateway in c.gateways:
        gateway.start().wait_ready()
    wait_for(lambda: c.health() == ("OK", []), f"it is not well again: {c.health()}")
    c.load("--volume", "v", "--operations", "200")


def reason_of(c, code, obj, *words, at=0):
    """Does `cleave status`, asked at that gateway, say that?"""
    result = run_argv([binary("cleave"), "--gateway", c.gateway_addresses[at], *c.key_words, "--json", "status"],
                      check_rc=False)
    health = json.loads(result.stdout)["health"] if result.stdout else {"level": "", "reasons": []}
    return any((code, obj) == (r["code"], r["object"]) and all(word in r["text"] for word in words)
               for r in health["reasons"]) and health["level"]


def says(c, level, code, obj, *words, at=0):
    wait_for(lambda: reason_of(c, code, obj, *words, at=at) == level, f"no {level} {code} of {obj}: {c.health()}")


def stopped(c):
    """All gateways; what the second one serves from now on is noted."""
    c.volume_create("v", "64M")
    for gateway in c.gateways:
        check(gateway.stop() == 0, f"{gateway.name} did not stop well")
    c.served_count = c.gateways[-1].count_lines("shard .: serving")


def took_none(c):
    check(c.gateways[-1].count_lines("shard .: serving") == c.served_count, "it took a shard")


def swapped(c):
    """The first one finds nobody, and serves; the second one finds the first one, and takes no shards."""
    stopped(c)
    first, second = c.gateway_addresses
    told(c, 0, second)
    told(c, 1, first)
    c.gateways[0].start().wait_ready()
    c.gateways[0].wait_line(rf"WARN gateway: port 0 tells clients that it is at {second}, where nobody answers")
    c.gateways[1].start(wait=False)
    c.gateways[1].wait_line(rf"ERROR gateway: port 0 tells clients that it is at {first}, where {name_of(1)} answers: "
                            r"this gateway takes no shards\. .*advertise=")
    c.gateways[0].wait_line(rf"ERROR gateway: port 0 tells .* at {second}, where {name_of(2)} answers: clients do not")
    for at in (0, 1):
        says(c, "ERROR", "address-wrong", name_of(1), second, name_of(2), at=at)
        says(c, "ERROR", "address-wrong", name_of(2), first, name_of(1), at=at)
    took_none(c)
    mended(c)


def two_that_are_swapped_say_so():
    with Cluster(gateways=2) as c:
        c.key_words = []
        swapped(c)


def two_that_are_swapped_say_so_with_keys():
    with Authority() as a, Keyed(a, gateways=2) as c:
        c.key_words = c.gateway_words()[-2:]
        swapped(c)


def a_copied_address_is_told_and_its_gateway_takes_no_shards():
    with Cluster(gateways=2) as c:
        c.key_words = []
        stopped(c)
        first = c.gateway_addresses[0]
        told(c, 1, first)
        c.gateways[0].start().wait_ready()
        c.gateways[1].start(wait=False)
        c.gateways[1].wait_line(rf"ERROR gateway: port 0 tells clients that it is at {first}, where {name_of(1)} answers")
        says(c, "ERROR", "address-wrong", name_of(2), first, name_of(1))
        wait_for(lambda: any(e["code"] == "health-error" and e["object"] == name_of(2) and "address-wrong" in e["text"]
                             for e in map(json.loads, c.cleave("--json", "events").stdout.splitlines())),
                 "there is no event")
        c.load("--volume", "v", "--operations", "200")  # the first one serves all of it
        took_none(c)
        # The first one restarts while the other one waits: nobody takes its place.
        c.gateways[0].kill()
        c.gateways[0].start().wait_ready()
        c.load("--volume", "v", "--operations", "200")
        mended(c)


def a_copy_that_was_first_is_found_by_the_gateway_that_is_there():
    """It found nobody, and is a member when the rightful one comes."""
    with Cluster(gateways=2) as c:
        c.key_words = []
        stopped(c)
        first = c.gateway_addresses[0]
        told(c, 1, first)
        c.gateways[1].start().wait_ready()
        c.gateways[0].start(wait=False)
        says(c, "ERROR", "address-wrong", name_of(2), first, name_of(1))
        c.gateways[1].wait_line(rf"ERROR gateway: port 0 tells .* at {first}, where {name_of(1)} answers: clients do not")
        mended(c)


def an_address_where_nobody_is_stops_no_start():
    with Cluster() as c:
        c.key_words = []
        c.volume_create("v", "64M")
        check(c.gateway.stop() == 0, "it did not stop well")
        nowhere = f"tcp://127.0.0.1:{free_port()}"
        told(c, 0, nowhere)
        c.gateway.start().wait_ready()
        c.gateway.wait_line(rf"WARN gateway: port 0 tells clients that it is at {nowhere}, where nobody answers")
        c.gateway.wait_line(rf"WARN health: address-silent: .* at {nowhere}, where nobody answers it")
        # Behind a router without hairpin NAT it is known.
        check(c.gateway.stop() == 0, "it did not stop well")
        at = len(c.gateway.argv)
        c.gateway.argv.append("--advertise-outside")
        c.gateway.start().wait_ready()
        c.gateway.wait_line(rf"INFO gateway: port 0 tells clients that it is at {nowhere}, where nobody answers")
        c.gateway.argv.pop(at)
        mended(c)


small_disks()
main(two_that_are_swapped_say_so, two_that_are_swapped_say_so_with_keys,
     a_copied_address_is_told_and_its_gateway_takes_no_shards,
     a_copy_that_was_first_is_found_by_the_gateway_that_is_there, an_address_where_nobody_is_stops_no_start)
