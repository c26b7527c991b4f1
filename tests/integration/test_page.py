#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What daemons serve at their metrics address besides metrics: /healthz, and a gateway's page with what it reads."""
import base64
import hashlib
import http.client
import json
import os
import re

from libcluster import CLUSTER_ID, Cluster, Daemon, binary, check, expect_error, main, run, run_argv, wait_for
from libload import Load

METRICS = ["--metrics", "127.0.0.1:0"]
PAGE_BYTES_MAX = 30 * 1024
VOLUMES_MAX = 100  # in an answer
PROGRAMS = ("cleave-gateway", "cleave-storage", "cleave-agent", "cleave-load", "cleave")


def address_of(daemon):
    return daemon.wait_line(r"metrics listen=").rsplit("tcp://", 1)[1]


def ask(address, path, method="GET"):
    """The status, the headers, the text."""
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request(method, path)
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read().decode()
    finally:
        connection.close()


def cluster_of(address):
    status, headers, text = ask(address, "/api/cluster")
    check(status == 200, f"/api/cluster: {status} {text}")
    check(headers["Content-Type"] == "application/json", headers["Content-Type"])
    return json.loads(text)


def refuses_what_it_does_not_serve(address, paths):
    for path in paths:
        status, headers, text = ask(address, path)
        check(status == 200, f"{path}: {status} {text}")
        check(headers["X-Content-Type-Options"] == "nosniff", f"{path}: {headers}")
        check(headers["Cache-Control"] == "no-store", f"{path}: {headers}")
        check(headers["Set-Cookie"] is None and headers["Access-Control-Allow-Origin"] is None, f"{path}: {headers}")
        status, there, text = ask(address, path, "HEAD")
        check((status, text, there["Content-Type"]) == (200, "", headers["Content-Type"]), f"HEAD {path}: {status}")
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            status, there, _ = ask(address, path, method)
            check((status, there["Allow"]) == (405, "GET, HEAD"), f"{method} {path}: {status}")
    for path in ("/nothing", "/api", "/api/", "/api/cluster/", "/metrics/x", "//", "/../etc/passwd", "/healthz%2f"):
        status, headers, text = ask(address, path)
        check(status == 404 and "there is" in text, f"{path}: {status} {text}")
        check(headers["X-Content-Type-Options"] == "nosniff", f"{path}: {headers}")


def page_is_whole_and_strict(address):
    _, headers, html = ask(address, "/")
    check(headers["Content-Type"] == "text/html; charset=utf-8", headers["Content-Type"])
    check(0 < len(html.encode()) <= PAGE_BYTES_MAX, f"the page has {len(html)} bytes")
    check(not re.search(r"""(src|href)=["']?(https?:|//)""", html) and "innerHTML" not in html, "it loads from elsewhere")
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    check(policy["default-src"] == "'none'" and policy["connect-src"] == "'self'", f"{policy}")
    check(policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'", f"{policy}")
    for tag, name in (("style", "style-src"), ("script", "script-src")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        sha = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        check(policy[name] == f"'sha256-{sha}'", f"{name} is {policy[name]}, of what is there {sha}")


def daemons_serve_their_paths_and_no_others():
    with Cluster(nodes=3, shards=4, ports=2, gateway_args=METRICS, node_args=METRICS) as c:
        gateway, node = address_of(c.gateway), address_of(c.nodes[0])
        refuses_what_it_does_not_serve(gateway, ["/", "/api/cluster", "/metrics", "/healthz"])
        refuses_what_it_does_not_serve(node, ["/metrics", "/healthz"])
        check(ask(node, "/")[0] == ask(node, "/api/cluster")[0] == 404, "a node has no page")
        wait_for(lambda: ask(gateway, "/healthz")[2] == ask(node, "/healthz")[2] == "ok\n", "both are well")
        page_is_whole_and_strict(gateway)
        # Room is told in bytes, and a node's by its cluster and number.
        text = ask(node, "/metrics")[2]
        labels = f'{{cluster="{CLUSTER_ID}",node="1"}}'
        disk = {name: int(value) for name, value in
                re.findall(rf"^cleave_storage_(disk\w*bytes){re.escape(labels)} (\d+)$", text, re.M)}
        check(set(disk) == {"disk_bytes", "disk_used_bytes", "disk_reserved_bytes"}, f"{disk}")
        check(disk["disk_bytes"] == 255 << 22 and 0 < disk["disk_used_bytes"] < 1 << 28, f"{disk}")
        text = whole_metrics(gateway)
        room = dict(re.findall(r"^cleave_gateway_room_(\w+)_bytes (\d+)$", text, re.M))
        told = c.status()["health"]["room"]
        check(int(room["raw"]) == told["raw_total"] == 3 * disk["disk_bytes"], f"{room} {told}")
        check(int(room["data"]) == told["data_total"] and int(room["usable"]) <= int(room["data"]), f"{room} {told}")
        check(0 < int(room["stored"]) < int(room["raw"]), f"{room}")
        at = f'cleave_gateway_node_disk_bytes{{cluster="{CLUSTER_ID}",node="2",domain="rack2"}} {disk["disk_bytes"]}\n'
        check(at in text, "bytes of each node")


def whole_metrics(address):
    """As all ports tell: one that has much to do is left out."""
    texts = []
    wait_for(lambda: texts.append(ask(address, "/metrics")[2]) or "\ncleave_gateway_scrape_partial 0\n" in texts[-1],
             "a port is silent")
    return texts[-1]


def told_once(address, condition, what):
    """What is told when that is so."""
    answers = []
    wait_for(lambda: answers.append(cluster_of(address)) or condition(answers[-1]), what)
    return answers[-1]


def page_reads_what_status_says():
    with Cluster(nodes=3, shards=4, gateways=2, gateway_args=METRICS) as c:
        c.volume_create("a-disk", "64M", "--service-class", "capacity")
        c.load("--volume", "a-disk", "--operations", "500")
        gateways = [address_of(g) for g in c.gateways]
        wait_for(lambda: cluster_of(gateways[0])["counters"]["writes"] + cluster_of(gateways[1])["counters"]["writes"] == 500,
                 "writes are not counted")
        told = told_once(gateways[0], lambda told: told["health"]["level"] == "OK" and not told["partial"], "all is not well")
        check(told["schema"] == 1 and told["cluster"] == CLUSTER_ID and told["shards"] == {"count": 4}, f"{told}")
        check(told["silent_ports"] == [], f"{told}")
        check([v["name"] for v in told["volumes"]] == ["a-disk"] and told["volume_count"] == 1, f"{told['volumes']}")
        check(sorted(n["domain"] for n in told["nodes"]) == ["rack1", "rack2", "rack3"], f"{told['nodes']}")
        check(sum(g["shards_owned"] for g in told["gateways"]["gateways"]) == 4, f"{told['gateways']}")
        # It judges for itself alone, and says so.
        other = cluster_of(gateways[1])["gateway"]
        check(told["unknown"]["gateways"] == [other] and "cleave status" in told["unknown"]["text"], f"{told['unknown']}")
        check(told["events"] == sorted(told["events"], key=lambda e: -e["number"]), "the newest first")
        check("volume-created" in {e["code"] for at in gateways for e in cluster_of(at)["events"]}, "events")
        c.nodes[1].kill()
        told = told_once(gateways[0], lambda told: told["health"]["level"] == "WARN" and [
            r["object"] for r in told["health"]["reasons"] if r["code"] == "node-down"] == ["node 2"], "node-down")
        (reason,) = [r for r in told["health"]["reasons"] if r["code"] == "node-down"]
        check(reason["means"] and "cleave node remove" in reason["helps"], f"{reason}")
        wait_for(lambda: c.health()[0] == "WARN", "status says so, too")
        check(ask(gateways[0], "/healthz")[0] == 200, "WARN serves still")


def answer_is_bounded():
    """A hundred volumes are listed, more are counted; what is asked at once is answered from one look."""
    with Cluster(nodes=3, gateway_args=METRICS) as c:
        for i in range(VOLUMES_MAX + 3):
            c.volume_create(f"v{i:03}", "4K")
        address = address_of(c.gateway)
        wait_for(lambda: cluster_of(address)["volume_count"] == VOLUMES_MAX + 3, "volumes are not counted")
        told = cluster_of(address)
        check([v["name"] for v in told["volumes"]] == [f"v{i:03}" for i in range(VOLUMES_MAX)], "the first by name")
        check(len(told["events"]) == 50, "the last events")
        # The clock in it stands while an answer is given again: for a second, in which a slow machine may not ask twice.
        wait_for(lambda: cluster_of(address)["time_ms"] == cluster_of(address)["time_ms"], "none is given again")
        # Its counters stand likewise, while clients write: who asks without a pause costs the ports nothing more.
        with Load(c, size="64M", in_flight=4) as load:
            load.wait_writes(100)
            wait_for(lambda: ask(address, "/metrics")[2] == ask(address, "/metrics")[2] != "", "none is given again")


def limits_and_the_trash_are_told():
    """What is set, what waited for it at this gateway, and what was deleted, until when."""
    with Cluster(nodes=3, ports=2, gateway_args=METRICS) as c:
        c.volume_create("v", "64M")
        c.volume_create("gone", "64M")
        c.volume_create("later", "64M")
        c.cleave("volume", "set", "v", "--write-iops", "100", "--weight", "300")
        c.cleave("snapshot", "create", "gone@s")
        c.cleave("volume", "delete", "later", "--keep", "48h")
        c.cleave("volume", "delete", "gone", "--snapshots", "--keep", "1h")
        address = address_of(c.gateway)
        wait_for(lambda: cluster_of(address)["trash_count"] == 2, "the trash")
        told = cluster_of(address)
        check([v["name"] for v in told["volumes"]] == ["v"] and told["volume_count"] == 1, f"{told['volumes']}")
        check(told["volumes"][0]["qos"] == {"write_iops": 100, "weight": 300}, f"{told['volumes']}")
        check([v["name"] for v in told["trash"]] == ["gone", "later"], f"the first to go is first: {told['trash']}")
        check(told["trash"][0]["snapshots"] == 1 and 3500 < told["trash"][0]["left_s"] <= 3600, f"{told['trash']}")
        check(told["waits"] == [], f"{told['waits']}")
        os.environ["CLEAVE_PACE"] = "off"
        try:
            with Load(c, size=None, in_flight=16):
                told = told_once(address, lambda told: [w for w in told["waits"] if w["waited"] > 0], "nothing is held")
                (row,) = told["waits"]
                check(row["volume"] == "v", f"{row}")
                c.cleave("volume", "set", "v", "--write-iops", "off")
        finally:
            del os.environ["CLEAVE_PACE"]


def health_is_refused_where_it_is_an_error():
    with Cluster(nodes=3, gateway_args=METRICS) as c:
        address = address_of(c.gateway)
        check(ask(address, "/healthz")[0] == 200, "it is well")
        for node in c.nodes[1:]:
            node.kill()
        wait_for(lambda: ask(address, "/healthz")[0] == 503, "two nodes are gone, and it is called well")
        _, headers, text = ask(address, "/healthz")
        check(re.search(r"^nodes-few: 1 of 3 nodes are up", text, re.M), text)
        check(headers["Content-Type"].startswith("text/plain"), headers["Content-Type"])
        check(ask(address, "/healthz", "HEAD")[0] == 503, "HEAD says the same")
        check(cluster_of(address)["health"]["level"] == "ERROR" and ask(address, "/metrics")[0] == 200, "others go on")
        for node in c.nodes[1:]:
            node.start()
        wait_for(lambda: ask(address, "/healthz")[0] == 200, "they are back, and it is called ill")


def node_whose_disk_takes_no_writes_says_so():
    with Cluster(nodes=3, gateway_args=METRICS) as c:
        check(c.nodes[2].stop() == 0, "it ends well")
        c.nodes[2].argv += [*METRICS, "--fail-point", "failall-flush=1"]
        c.nodes[2].start()
        node, gateway = address_of(c.nodes[2]), address_of(c.gateway)
        c.volume_create("v", "64M")
        c.load("--volume", "v", "--operations", "200")
        wait_for(lambda: ask(node, "/healthz")[0] == 503, "its flush failed, and it is called well")
        check(ask(node, "/healthz")[2].startswith("node-read-only: A node's disk takes no more writes"), "why")
        check("\ncleave_storage_read_only 1\n" in ask(node, "/metrics")[2], "the metric")
        wait_for(lambda: "node-read-only" in {r["code"] for r in cluster_of(gateway)["health"]["reasons"]},
                 "the gateway's page does not say it")
        check(ask(gateway, "/healthz")[0] == 200, "two nodes are enough to serve")


def gateway_without_its_store_has_a_page_and_nothing_to_tell():
    gateway = Daemon("gateway", [
        binary("cleave-gateway"), "--meta", "etcd://127.0.0.1:1", "--gateway-id", "1",
        "--cluster-id", CLUSTER_ID, "--port", "tcp://127.0.0.1:0", "--metrics", "localhost:0"])
    gateway.start(wait=False)
    try:
        address = address_of(gateway)
        check(ask(address, "/")[0] == 200, "the page itself is there")
        for path in ("/api/cluster", "/healthz", "/metrics"):
            status, _, text = ask(address, path)
            check(status == 503 and "starting" in text, f"{path}: {status} {text}")
        check(gateway.stop() == 1, "it waits still, and ends when it is told to")
    finally:
        if gateway.process is not None:
            gateway.kill()


def address_may_be_a_name_and_programs_say_what_they_are():
    result = run("cleave-gateway", "--meta", "/nowhere", "--cluster-id", CLUSTER_ID, "--port", "tcp://127.0.0.1:0",
                 "--node", "tcp://127.0.0.1:1", "--min-replicas", "1", "--metrics", "no-such-host.invalid:0",
                 check_rc=False)
    expect_error(result, "--metrics: 'no-such-host.invalid'", codes=(1,))
    said = [run(name, "--version").stdout for name in PROGRAMS]
    for name, text in zip(PROGRAMS, said):
        check(re.fullmatch(rf"{name} [\d.]+ \([0-9A-Za-z.+-]+\)\n", text), text)
    check(len({text.split(" ", 1)[1] for text in said}) == 1, f"{said}")
    check(run("cleave", "version").stdout == said[-1], "cleave version says the same")
    told = json.loads(run_argv([binary("cleave"), "--json", "version"]).stdout)
    check(said[-1] == f"cleave {told['version']} ({told['commit']})\n", f"{told}")
    with Cluster(nodes=3, gateway_args=METRICS) as c:
        text = ask(address_of(c.gateway), "/metrics")[2]
        check(f'\ncleave_build_info{{version="{told["version"]}",commit="{told["commit"]}"}} 1\n' in text, "build_info")


main(daemons_serve_their_paths_and_no_others, page_reads_what_status_says, answer_is_bounded,
     limits_and_the_trash_are_told,
     health_is_refused_where_it_is_an_error, node_whose_disk_takes_no_writes_says_so,
     gateway_without_its_store_has_a_page_and_nothing_to_tell, address_may_be_a_name_and_programs_say_what_they_are)
