#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an agent tells monitors: requests of NBD clients by export and op, what is lost and what waits."""
import os
import urllib.error
import urllib.request

from libagent import EPERM, Agent, Client
from libcluster import Cluster, check, main, run_argv, skip, wait_for
from libmetrics import has_parser, metrics_address, scrape, total

BLOCK = 4096
METRICS = ("--metrics", "127.0.0.1:0")
OPS = ("read", "write", "flush", "trim", "zero")


def need_parser():
    if not has_parser():
        skip("no python3-prometheus-client")


def health(address):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{address}/healthz", timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def come(agent, name=b"v"):
    s = Client(agent)
    check(s.go(name) == 1, "GO")
    return s


def ask(s, kind, offset=0, length=0, **words):
    s.command(kind, offset, length, **words)
    error = s.error()
    if kind == 0 and error == 0:
        s.get(length)
    return error


def requests_are_counted_by_export_and_op():
    need_parser()
    with Cluster(nodes=3) as c:
        c.volume_create("v", "8M")
        c.volume_create("w", "8M")
        with Agent(c, "--volume", "v", "--volume", "w", *METRICS) as agent:
            address = metrics_address(agent)
            found = scrape(address)
            check(total(found, "cleave_agent_exports") == 2, "exports, also before anybody came")
            check("cleave_agent_latency_seconds_count" not in found, "nothing was measured")
            check(total(found, "cleave_build_info") == 1, "which build it is")
            s = come(agent)
            for i in range(10):
                check(ask(s, 1, BLOCK * i, BLOCK, data=b"x" * BLOCK) == 0, "WRITE")
            check(ask(s, 0, 100, 1000) == 0 and ask(s, 0, 0, 2 * BLOCK) == 0, "READ")
            check(ask(s, 3) == 0 and ask(s, 4, 0, BLOCK) == 0 and ask(s, 6, 0, BLOCK) == 0, "rest")
            check(ask(s, 0, 8 << 20, 1) != 0 and ask(s, 99) != 0, "two errors")
            other = come(agent, b"w")
            check(ask(other, 0, 0, BLOCK) == 0, "READ")
            found = scrape(address)
            counts = {op: total(found, "cleave_agent_export_latency_seconds_count", export="v",
                                op=op) for op in OPS}
            check(counts == {"read": 2, "write": 10, "flush": 1, "trim": 1, "zero": 1}, counts)
            check(total(found, "cleave_agent_latency_seconds_count", op="read") == 3, "of both")
            check(total(found, "cleave_agent_export_read_bytes_total", export="v") ==
                  1000 + 2 * BLOCK, "bytes that clients asked for")
            check(total(found, "cleave_agent_export_written_bytes_total") == 10 * BLOCK, "written")
            check(total(found, "cleave_agent_errors_total") == 2, "errors")
            check(total(found, "cleave_agent_connections") == 2, "connections")
            check(total(found, "cleave_agent_export_writing", export="v") == 1 and
                  total(found, "cleave_agent_export_writing", export="w") == 0, "who writes")
            check(total(found, "cleave_agent_client_connects_total") >= 2, "to gateways")
            sums = total(found, "cleave_agent_latency_seconds_sum", op="write")
            buckets = [v for has, v in found["cleave_agent_latency_seconds_bucket"]
                       if has["op"] == "write"]
            check(buckets == sorted(buckets) and buckets[-1] == 10 and sums > 0, "the histogram")
            check(health(address) == (200, "ok\n"), health(address))
            s.s.close()
            other.s.close()


def fifty_exports_have_names_and_all_are_counted():
    need_parser()
    with Cluster(nodes=3) as c:
        for i in range(53):
            c.volume_create(f"v{i}", "1M")
        with Agent(c, "--all", *METRICS) as agent:
            address = metrics_address(agent)
            clients = []
            for i in range(53):
                clients.append(come(agent, f"v{i}".encode()))
                for _ in range(2 if i < 50 else 1):
                    check(ask(clients[-1], 0, 0, BLOCK) == 0, "READ")
            found = scrape(address)
            named = {has["export"] for has, _ in found["cleave_agent_export_users"]}
            check(named == {f"v{i}" for i in range(50)}, f"the busiest: {sorted(named)}")
            check(total(found, "cleave_agent_latency_seconds_count", op="read") == 103, "of all")
            for s in clients:
                s.s.close()
            # An export that is no more has no series; what it counted stays in the sum.
            wait_for(lambda: total(scrape(address), "cleave_agent_exports") == 0, "they stay")
            found = scrape(address)
            check("cleave_agent_export_users" not in found, "no export")
            check(total(found, "cleave_agent_read_bytes_total") == 103 * BLOCK, "the sum")


def what_is_lost_or_waits_is_told():
    need_parser()
    with Cluster(nodes=3) as c:
        c.volume_create("v", "8M")
        with Agent(c, "--volume", "v", *METRICS) as agent:
            address = metrics_address(agent)
            s = come(agent)
            check(ask(s, 1, 0, BLOCK, data=b"x" * BLOCK) == 0, "WRITE")
            c.gateway.kill()
            s.command(0, 0, BLOCK)
            wait_for(lambda: health(address)[0] == 503, "nobody says that it waits")
            check(health(address)[1].startswith("export-stalled: v: "), health(address))
            check(total(scrape(address), "cleave_agent_exports_stalled") == 1, "a stall")
            c.gateway.start()
            check(s.error() == 0, "the answer")
            s.get(BLOCK)
            wait_for(lambda: health(address) == (200, "ok\n"), "it never ends")
            c.load("--volume", "v", "--take", "--operations", "1")
            check(ask(s, 1, 0, BLOCK, data=b"x" * BLOCK) not in (0, EPERM), "it was taken")
            check(health(address)[0] == 503 and "export-lost: v: " in health(address)[1], "lost")
            found = scrape(address)
            check(total(found, "cleave_agent_exports_lost") == 1 and
                  total(found, "cleave_agent_export_losses_total", export="v") == 1, "lost")
            s.s.close()


def a_successor_takes_the_address():
    need_parser()
    with Cluster(nodes=3) as c:
        c.volume_create("v", "8M")
        path = os.path.join(c.folder, "control")
        agent = Agent(c, "--volume", "v", "--control", path, *METRICS).start()
        address = metrics_address(agent)
        s = come(agent)
        check(ask(s, 0, 0, BLOCK) == 0, "READ")
        with Agent(c, "--volume", "v", "--control", path, "--replace", "--metrics",
                   address) as successor:
            check(metrics_address(successor) == address, "where the predecessor was")
            check(ask(s, 0, 0, BLOCK) == 0, "READ")
            check(total(scrape(address), "cleave_agent_latency_seconds_count") == 1, "its own")
            s.s.close()
        taken = Agent(c, "--volume", "v", *METRICS).start()
        try:
            done = run_argv([*Agent(c, "--volume", "v", "--metrics",
                                    metrics_address(taken)).argv[:-4], "--listen",
                             f"unix:{c.folder}/other", "--volume", "v", "--metrics",
                             metrics_address(taken)], check_rc=False)
            check(done.returncode != 0 and "--metrics" in done.stderr, done.stderr)
        finally:
            check(taken.stop() == 0, "the agent's exit status")


if __name__ == "__main__":
    main(requests_are_counted_by_export_and_op, fifty_exports_have_names_and_all_are_counted,
         what_is_lost_or_waits_is_told, a_successor_takes_the_address)
