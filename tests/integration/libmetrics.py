# SPDX-License-Identifier: Apache-2.0
"""What a daemon tells monitors, read by Prometheus' own parser."""
import json
import urllib.request

from libcluster import check, run_argv

# Debian's module is for Debian's interpreter.
PARSER = """
import json, sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = text_string_to_metric_families(sys.stdin.read())
json.dump([[s.name, s.labels, s.value] for f in families for s in f.samples], sys.stdout)
"""


def metrics_address(daemon):
    return daemon.wait_line(r"metrics listen=").rsplit("tcp://", 1)[1]


def scrape(address):
    """{name: [(labels, value), ...]}"""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{address}/metrics", timeout=60) as reply:
        kind, text = reply.headers["Content-Type"], reply.read().decode()
    check(kind.startswith("application/openmetrics-text; version=1.0.0"), kind)
    parsed = run_argv(["/usr/bin/python3", "-c", PARSER], stdin_text=text)
    found = {}
    for name, labels, value in json.loads(parsed.stdout):
        found.setdefault(name, []).append((labels, value))
    return found


def total(found, name, **labels):
    return sum(value for has, value in found[name] if labels.items() <= has.items())


def has_parser():
    return run_argv(["/usr/bin/python3", "-c", "import prometheus_client"],
                    check_rc=False).returncode == 0
