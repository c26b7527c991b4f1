#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What monitors are told: a gateway and its nodes over HTTP, read by Prometheus' own parser."""
import json
import os
import re
import socket
import tempfile
import time
import urllib.error
import urllib.request

from libagent import Agent
from libcluster import (BUILD, CLUSTER_ID, WAIT_S, Cluster, Daemon, Failure, binary, check, expect_error,
                        main, run, run_argv, skip, wait_for)
from libetcd import Etcd
from libmetrics import has_parser, metrics_address, scrape, total


def monitors_are_told_what_status_tells():
    if not has_parser():
        skip("no python3-prometheus-client")
    words = ["--metrics", "127.0.0.1:0"]
    with Cluster(nodes=3, shards=4, ports=2, gateway_args=words, node_args=words) as c:
        c.volume_create("v", "64M")
        c.load("--volume", "v", "--operations", "2000")
        gateway = metrics_address(c.gateway)
        found = scrape(gateway)
        check(total(found, "cleave_gateway_writes_total") == c.metric("writes") == 2000,
              "writes of both ports")
        check(len(found["cleave_gateway_writes_total"]) == 2, "a value a port")
        check(total(found, "cleave_gateway_volumes") == 1, "volumes")
        check(total(found, "cleave_gateway_shard_serving") == 4, "each shard serves")
        check(total(found, "cleave_gateway_shard_log_bytes") > 0, "what was written is in the log")
        check({has["domain"] for has, _ in found["cleave_gateway_node_up"]} ==
              {"rack1", "rack2", "rack3"}, "each node")
        check(total(found, "cleave_gateway_node_up") == 6, "two ports, three nodes")
        wait_for(lambda: total(scrape(gateway), "cleave_gateway_health_reasons") == 0, "all is not well")
        check({"node-down", "writes-wait"} <= {has["code"] for has, _ in
                                               found["cleave_gateway_health_reasons"]}, "codes")
        check(total(found, "cleave_gateway_events_total", code="gateway-ready") == 1, "events")
        for node in c.nodes:
            told = scrape(metrics_address(node))
            check(total(told, "cleave_storage_ready") == 1, "it is ready")
            check(total(told, "cleave_storage_appends_total") > 0, "it has appended")
            check(total(told, "cleave_storage_extents", kind="manifest") == 4, "of each shard")
        c.nodes[1].kill()
        c.gateway.wait_line("node 2: lost")
        deadline = time.monotonic() + WAIT_S
        while total(found, "cleave_gateway_node_up", domain="rack2") > 0:
            check(time.monotonic() < deadline, "one is gone, for both ports")
            found = scrape(gateway)
        check(total(found, "cleave_gateway_node_up") == 4, "the others are there")


def etcd_is_measured():
    """How long it takes and how full it is; for how long it does not answer."""
    if not has_parser():
        skip("no python3-prometheus-client")
    words = ["--gateway-id", "1", "--metrics", "127.0.0.1:0"]
    with Etcd(1, ["--quota-backend-bytes", "50000000"]) as etcd, \
            Cluster(nodes=3, meta=etcd.place, gateway_args=words) as c:
        gateway = metrics_address(c.gateway)

        def told(name):
            return total(scrape(gateway), f"cleave_gateway_meta_{name}")

        wait_for(lambda: told("database_bytes") > 0, "the database is never measured")
        wait_for(lambda: told("quota_bytes") == 50000000, "the quota is never known")

        def is_told_how_long():
            found = scrape(gateway)  # one answer, for the last request is another one in the next
            last, most = (total(found, f"cleave_gateway_meta_request_{name}_ns") for name in ("last", "p99"))
            return 0 < last <= most

        wait_for(is_told_how_long, "how long requests take")
        wait_for(lambda: told("unreachable_seconds") == 0, "it answers")
        etcd.kill(0)
        wait_for(lambda: told("unreachable_seconds") > 0, "nobody says that it is gone")
        etcd.run(0)
        wait_for(lambda: told("unreachable_seconds") == 0, "nobody says that it is back")


def dashboard_names_what_there_is():
    """Grafana's dashboard is made of the tables of metrics; each name in it is in what daemons tell."""
    if not has_parser():
        skip("no python3-prometheus-client")
    with open(os.path.join(BUILD, "middletier", "cleave.dashboard.json"), encoding="utf-8") as f:
        panels = [p for p in json.load(f)["panels"] if p["type"] != "row"]
    wanted = {name for p in panels for name in re.findall(r"cleave_\w+", p["targets"][0]["expr"])}
    check(len(wanted) == len(panels) > 20, f"{len(panels)} panels of {len(wanted)} metrics")
    check(all(p["title"] and p["description"] for p in panels), "each says what it is")
    words = ["--metrics", "127.0.0.1:0"]
    with Cluster(nodes=3, gateway_args=words, node_args=words) as c, \
            Agent(c, "--volume", "v", *words) as agent:
        there = {**scrape(metrics_address(c.gateway)), **scrape(metrics_address(c.nodes[0])),
                 **scrape(metrics_address(agent))}
        check(wanted <= set(there), f"nobody tells {wanted - set(there)}")
        # The labels that its lines are told apart by.
        for panel in panels:
            expr = panel["targets"][0]["expr"]
            (by,), (name,) = re.findall(r" by \(([^)]*)\)", expr), re.findall(r"cleave_\w+", expr)
            missing = set(by.split(", ")) - {"instance"} - set(there[name][0][0])
            check(not missing, f"{name} has no label {missing}")


def who_asks_and_stays_does_not_hold_up_the_end():
    words = ["--metrics", "127.0.0.1:0"]
    with Cluster(nodes=3, gateway_args=words, node_args=words) as c:
        held = []
        for daemon in [c.gateway, *c.nodes]:
            host, port = metrics_address(daemon).split(":")
            held.append(socket.create_connection((host, int(port))))
            held[-1].sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        for daemon in [c.gateway, *c.nodes]:
            check(daemon.stop() == 0, f"{daemon.name} ends well")
        for each in held:
            each.close()


def who_asks_before_the_store_answers_is_refused():
    """A gateway that waits for its etcd has nothing to tell yet, and goes on waiting."""
    gateway = Daemon("gateway", [
        binary("cleave-gateway"), "--meta", "etcd://127.0.0.1:1", "--gateway-id", "1",
        "--cluster-id", CLUSTER_ID, "--port", "tcp://127.0.0.1:0", "--metrics", "127.0.0.1:0"])
    gateway.start(wait=False)
    try:
        address = metrics_address(gateway)
        for _ in range(2):
            try:
                urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
                    f"http://{address}/metrics", timeout=60)
                raise Failure("it tells something without a store")
            except urllib.error.HTTPError as error:
                check(error.code == 503, f"refused: {error.code}")
        check(gateway.stop() == 1, "it waits still, and ends when it is told to")
    finally:
        if gateway.process is not None:
            gateway.kill()


def address_that_is_taken_is_named_and_nothing_starts():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with tempfile.TemporaryDirectory(prefix="cleave-test-") as folder:
            disk = os.path.join(folder, "disk")
            run("cleave-storage", "format", "--disk", disk, "--size", "256M", "--slot-size", "4M",
                "--cluster-id", CLUSTER_ID, "--node-id", "1")
            result = run("cleave-storage", "--disk", disk, "--listen", "tcp://127.0.0.1:0",
                         "--metrics", f"127.0.0.1:{port}", check_rc=False)
            expect_error(result, rf"--metrics: .*127\.0\.0\.1:{port}.*in use", codes=(1,))
            result = run("cleave-gateway", "--meta", os.path.join(folder, "meta"), "--cluster-id",
                         CLUSTER_ID, "--port", "tcp://127.0.0.1:0", "--node",
                         "tcp://127.0.0.1:1", "--min-replicas", "1", "--metrics", "localhost",
                         check_rc=False)
            expect_error(result, "--metrics: 'localhost': HOST:PORT is wanted", codes=(1,))


def address_that_other_hosts_reach_wants_a_word():
    """Each daemon ends with 2, which systemd does not try again, and says which word; --check-config says it, too."""
    with tempfile.TemporaryDirectory(prefix="cleave-test-") as folder:
        disk = os.path.join(folder, "disk")
        run("cleave-storage", "format", "--disk", disk, "--size", "256M", "--slot-size", "4M",
            "--cluster-id", CLUSTER_ID, "--node-id", "1")
        node = ["cleave-storage", "--disk", disk, "--listen", "tcp://127.0.0.1:0"]
        gateway = ["cleave-gateway", "--meta", os.path.join(folder, "meta"), "--cluster-id", CLUSTER_ID, "--port",
                   "tcp://127.0.0.1:0", "--node", "tcp://127.0.0.1:1", "--min-replicas", "1"]
        agent = [os.path.join(BUILD, "vm-client", "cleave-agent"), "--gateway", "127.0.0.1:1", "--volume", "v",
                 "--listen", f"unix:{folder}/nbd"]
        for words in (node, gateway, agent):
            for more in ((), ("--check-config",)):
                argv = [*words, "--metrics", "0.0.0.0:0", *more]
                result = run_argv(argv, check_rc=False) if words is agent else run(*argv, check_rc=False)
                expect_error(result, r"--metrics: 0\.0\.0\.0:0: other hosts reach it.*add --metrics-open", codes=(1, 2))
                check(result.returncode == (1 if more else 2), f"{argv[0]}: {result.returncode}")
        daemon = Daemon("open", [binary(node[0]), *node[1:], "--metrics", "0.0.0.0:0", "--metrics-open"]).start()
        try:
            port = metrics_address(daemon).split(":")[1]
            check("cleave_storage_" in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode(),
                  "it serves")
            check(daemon.stop() == 0, "it ends")
        finally:
            if daemon.process is not None:
                daemon.kill()


main(monitors_are_told_what_status_tells, dashboard_names_what_there_is, etcd_is_measured, who_asks_and_stays_does_not_hold_up_the_end,
     who_asks_before_the_store_answers_is_refused,
     address_that_is_taken_is_named_and_nothing_starts, address_that_other_hosts_reach_wants_a_word)
