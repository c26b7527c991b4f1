#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each volume was answered: exact in the metrics, as rates in `cleave top`."""
import json
import os
import pty
import re
import subprocess

from libcluster import Cluster, binary, check, expect_error, main, wait_for
from libload import Load
from test_slow import METRICS, samples, scrape, value


def count(c, volume, op):
    return value(scrape(c.gateway), "cleave_gateway_volume_requests_total", volume=volume, op=op)


def each_request_is_counted_once():
    with Cluster(gateway_args=METRICS) as c:
        for name in ("v", "w"):
            c.volume_create(name, "64M")
        c.load("--volume", "v", "--operations", "3000", "--in-flight", "8")
        c.load("--volume", "w", "--operations", "500", "--in-flight", "2")
        c.load("--volume", "v", "--operations", "700", "--read-percent", "100")
        check(count(c, "v", "write") == 3000 and count(c, "v", "read") == 700, scrape(c.gateway))
        check(count(c, "w", "write") == 500, "w")
        text = scrape(c.gateway)
        check(value(text, "cleave_gateway_volume_bytes_total", volume="v", op="write") == 3000 * 4096, "bytes")
        check(value(text, "cleave_gateway_volume_errors_total", volume="v", op="write") == 0, "errors")
        check(value(text, "cleave_gateway_volume_request_ns_total", volume="v", op="write") > 0, "no time")
        names = {has["volume"] for has, _ in samples(text, "cleave_gateway_volume_requests_total")}
        check(names == {"v", "w", "(others)"}, f"{names}")
        # Names that nothing has any more are not told: of what was deleted, and of what was renamed.
        c.cleave("volume", "rename", "v", "x")
        c.cleave("volume", "delete", "w", "--purge")
        c.load("--volume", "x", "--operations", "10")

        def names_told():
            return {has["volume"] for has, _ in samples(scrape(c.gateway), "cleave_gateway_volume_requests_total")}
        wait_for(lambda: names_told() == {"x", "(others)"}, "old names are told")
        check([each["volume"] for each in top(c, "--once")[0]["volumes"]] == ["x", ""], "top")


def top(c, *words):
    return [json.loads(line) for line in c.cleave("--json", "top", *words).stdout.splitlines()]


def the_busier_stands_first():
    with Cluster(gateway_args=METRICS) as c:
        with Load(c, volume="busy", in_flight=16), Load(c, volume="calm", in_flight=1):
            wait_for(lambda: count(c, "busy", "write") > 0 and count(c, "calm", "write") > 0, "the loads")

            looks = []

            def in_order():
                looks.append(top(c, "--once")[0])
                return [each["volume"] for each in looks[-1]["volumes"]][:2] == ["busy", "calm"]
            wait_for(in_order, "busy does not stand first")
            look = looks[-1]
            busy, gateway = look["volumes"][0], look["gateways"][0]
            check(busy["write_s"] > 0 and busy["write_mean_us"] > 0 and busy["errors_s"] == 0, f"{look}")
            # Each write is 4 KiB.
            check(abs(busy["write_bytes_s"] - 4096 * busy["write_s"]) <= 4096 + busy["write_bytes_s"] / 1000, f"{look}")
            total = sum(volume["write_s"] for volume in look["volumes"])
            check(abs(gateway["write_s"] - total) < 1 + total / 1000, f"{look}")
            check(len(look["nodes"]) == 3 and all(node["state"] == "up" for node in look["nodes"]), f"{look}")

            def status_has_it():
                told = json.loads(c.cleave("--json", "status", check_rc=False).stdout)["health"].get("clients", {})
                return told.get("writes_s", 0) > 0 and told["write_bytes_s"] >= told["writes_s"] and \
                    re.search(r"^clients +\d+ reads/s, .*; [1-9]\d* writes/s, ", c.cleave("status", check_rc=False).stdout, re.M)
            wait_for(status_has_it, "the status has no rates of clients")
            text = c.cleave("top", "--once", "--interval", "200ms").stdout
            check("\033" not in text and text.index("busy ") < text.index("calm "), text)
            a_terminal_is_drawn_anew(c)
        expect_error(c.cleave("status", "--once", check_rc=False), "takes no --once")


def a_terminal_is_drawn_anew(c):
    ours, theirs = pty.openpty()
    with subprocess.Popen([binary("cleave"), "--gateway", c.address, "top", "--interval", "100ms"],
                          stdout=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        said = b""
        while said.count(b"\033[H\033[J") < 2:
            said += os.read(ours, 65536)
        process.terminate()
    os.close(ours)
    check(b"VOLUME" in said, f"{said}")


def a_gateway_that_ends_is_waited_for():
    with Cluster() as c:
        process = subprocess.Popen([binary("cleave"), "--gateway", c.address, "--json", "top", "--interval", "100ms"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            check("volumes" in json.loads(process.stdout.readline()), "the first look")
            c.gateway.kill()
            c.gateway.start()
            # What was in the pipe is of before: the load came after it.
            with Load(c):
                for line in process.stdout:
                    if any(each["write_s"] > 0 for each in json.loads(line)["volumes"]):
                        break
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


if __name__ == "__main__":
    main(each_request_is_counted_once, the_busier_stands_first, a_gateway_that_ends_is_waited_for)
