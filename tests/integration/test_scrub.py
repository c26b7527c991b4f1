#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flips planted on the disks are found by one scrub and repaired (fault 9); a lost node's copies, too."""
import json
import os
import signal
import time

from libcluster import WAIT_S, Cluster, binary, check, main, run_argv
from test_bit_flip import find_payloads, flip, restart_gateway, write_pattern

BLOCKS = 256


def wait_for(what, text):
    """Poll the status: what is waited for has no line in a log."""
    until = time.monotonic() + WAIT_S
    while not what():
        check(time.monotonic() < until, text)


def lacking(c):
    return sum(s["extents_lacking"] for s in c.status()["shards"])


def orphans(c):
    return sum(s["orphans_waiting"] for s in c.status()["shards"])


def nodes_of(c):
    return json.loads(c.cleave("--json", "node", "list").stdout)["nodes"]


def scrub(c):
    """One pass over every shard, to its end."""
    before = c.metric("scrubs_done")
    shards = json.loads(c.cleave("--json", "scrub").stdout)["shards"]
    check(shards == c.shards, f"{shards} shards are scrubbed")
    wait_for(lambda: c.metric("scrubs_done") >= before + shards, "the scrub does not end")


def plant(c, data):
    """Flips in many blocks of two disks: of three copies one is whole. Returns how many."""
    count, blocks = 0, range(0, BLOCKS, 8)
    for disk in (c.disk(0), c.disk(1)):
        for block, at in zip(blocks, find_payloads(disk, [data[b * 4096:b * 4096 + 64] for b in blocks])):
            if at >= 0:
                flip(disk, at + 100 + block)
                count += 1
    return count


def are_replaced(c, count):
    """So many damaged copies have others in their place, or went with their extents: a minute after a
    start the log is flushed, and what it lay in is deleted."""
    return c.metric("copies_made") >= count or c.metric("extents_reclaimed") > 0


def scrub_finds_and_heals():
    # Disks on which the log is short.
    with Cluster(nodes=4, slot_size="1M", disk_size="512M") as c:
        c.volume_create("v", "64M")
        path, data = write_pattern(c)
        restart_gateway(c)  # its log is sealed now, and nothing is in its memory
        count = plant(c, data)
        check(count >= BLOCKS // 8, f"only {count} flips were planted")
        scrub(c)
        check(c.metric("copies_damaged") > 0, "no damaged copy was found")
        wait_for(lambda: lacking(c) == 0, "the copies are not made anew")
        check(are_replaced(c, c.metric("copies_damaged")), "a copy was not replaced")
        found = c.metric("copies_damaged")
        scrub(c)
        check(c.metric("copies_damaged") == found, "the first pass has missed some")
        restart_gateway(c)
        errors = c.metric("replica_read_errors")
        for _ in range(6):
            c.load("--volume", "v", "--file-verify", path)
        check(c.metric("replica_read_errors") == errors == 0, "a bad copy was read")
        text = c.cleave("scrub").stdout
        check("scrubbing 2 shards" in text, text)


def scrub_finds_what_is_wrong_in_open_extents():
    with Cluster(disk_size="256M") as c:
        c.volume_create("v", "64M")
        path, data = write_pattern(c)  # into logs that stay open
        count = 0
        for at in find_payloads(c.disk(0), [data[b * 4096:b * 4096 + 64] for b in range(0, BLOCKS, 16)]):
            if at >= 0:
                flip(c.disk(0), at + 100)
                count += 1
        check(count > 0, "no flip was planted")
        scrub(c)
        found = c.metric("copies_damaged")
        check(found > 0, f"{count} bytes were flipped, and the scrub has found nothing")
        # The owner seals them without those copies, and makes these anew.
        wait_for(lambda: are_replaced(c, found) and lacking(c) == 0,
                 "the copies are not made anew")
        scrub(c)
        check(c.metric("copies_damaged") == found, "damage is left")
        restart_gateway(c)
        for _ in range(6):
            c.load("--volume", "v", "--file-verify", path)
        check(c.metric("replica_read_errors") == 0, "a bad copy was read")


def reads_find_and_heal():
    with Cluster(nodes=4, slot_size="1M", disk_size="512M") as c:
        c.volume_create("v", "64M")
        path, data = write_pattern(c)
        restart_gateway(c)
        plant(c, data)
        # Reads rotate over replicas: what they meet is verified, and made anew.
        until = time.monotonic() + WAIT_S
        while True:
            before = c.metric("replica_read_errors")
            for _ in range(6):
                c.load("--volume", "v", "--file-verify", path)
            if c.metric("replica_read_errors") == before and lacking(c) == 0:
                break
            check(time.monotonic() < until, "bad copies are read again and again")
        check(c.metric("repairs_queued") > 0, "no read met a bad copy")
        check(c.metric("copies_made") > 0, "no copy was made anew")


def every_gateway_is_asked():
    """Whichever is asked first; one that stands still is named, and the others' shards are verified all the same."""
    with Cluster(nodes=3, gateways=2, shards=4, gateway_args=("--lease-ms", "60000")) as c:
        def ask(address, *words):
            return run_argv([binary("cleave"), "--gateway", address, *words], check_rc=False)

        c.volume_create("v", "16M")
        c.load("--volume", "v", "--bytes", "4M")
        wait_for(lambda: [g["shards_owned"] for g in json.loads(c.cleave("--json", "gateway", "list").stdout)["gateways"]]
                 == [2, 2], "the shards are not shared out")
        for address in c.gateway_addresses:
            check(json.loads(ask(address, "--json", "scrub").stdout)["shards"] == 4, f"some shards alone, by {address}")
            check(set(json.loads(ask(address, "--json", "sweep").stdout)) == {"orphans", "total", "confirmed"}, "sweep")
        c.gateways[1].signal(signal.SIGSTOP)
        try:
            for words, done in ((("scrub",), "scrubbing 2 shards"), (("sweep", "--confirm"), "0 go now")):
                result = ask(c.gateway_addresses[0], "--timeout", "5s", *words)
                check(result.returncode == 1 and "1 of 2 gateways do not answer" in result.stderr and
                      c.gateway_addresses[1] in result.stderr, f"{words}: {result.stderr}")
                check(done in result.stdout, f"{words}: {result.stdout}")
        finally:
            c.gateways[1].signal(signal.SIGCONT)


def lost_node_is_replaced():
    with Cluster(nodes=4, slot_size="1M", disk_size="2G",
                 gateway_args=["--repair-after", "1s", "--min-replicas", "2"]) as c:
        c.volume_create("v", "64M")
        path, _ = write_pattern(c)
        # So many extents that each node has some, and a log that is not flushed yet.
        c.volume_create("other", "64M")
        c.load("--volume", "other", "--bytes", "16M")
        restart_gateway(c)
        # Else what is open might be on two nodes, and need both.
        wait_for(lambda: all(n["state"] == "up" for n in nodes_of(c)), "a node is missing")
        c.nodes[0].kill()
        wait_for(lambda: c.metric("copies_made") > 0 and lacking(c) == 0,
                 "the lost copies are not made anew")
        # The next one may go as well, and the data is still there.
        c.nodes[1].kill()
        # Nor may a copy be made anew on what comes back: it would be put in the place of the old one there.
        c.gateway_args[c.gateway_args.index("1s")] = "1h"
        c.gateway.argv = c.gateway_argv([c.gateway_addresses[0]])
        restart_gateway(c)
        c.load("--volume", "v", "--file-verify", path)
        # What comes back is nobody's any more. This gateway did not see it being given up, so it waits.
        c.start_node(0, listen=c.addresses[0])
        wait_for(lambda: orphans(c) > 0, "the old copies are not seen")
        check(c.metric("orphans_deleted") == 0, "what no manifest names is deleted at first sight")
        text = c.cleave("sweep").stdout
        check("GOES IN" in text and len(text.splitlines()) > 1, f"not a list: {text}")
        reply = json.loads(c.cleave("--json", "sweep", "--confirm").stdout)
        check(reply["confirmed"] == reply["total"] > 0, f"not confirmed: {reply}")
        check(reply["orphans"][0]["confirmed"], f"not confirmed: {reply}")
        wait_for(lambda: c.metric("orphans_deleted") >= reply["total"], "they are not deleted")
        wait_for(lambda: orphans(c) == 0, "they are still there")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    main(scrub_finds_and_heals, scrub_finds_what_is_wrong_in_open_extents, reads_find_and_heal,
         every_gateway_is_asked, lost_node_is_replaced)
