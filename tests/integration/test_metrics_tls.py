#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--metrics of daemons that have keys: where other hosts reach it, it speaks TLS, to monitors and admins alone."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import urllib.request

from libagent import Agent
from libcluster import BUILD, CLUSTER_ID, Daemon, binary, check, expect_error, free_port, main, run, run_argv, skip, wait_for
from libkeys import Authority, Keyed

HOSTS = ("localhost", "127.0.0.1")
REACHED = ("--metrics", "0.0.0.0:0")  # by other hosts, too
GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def port_of(daemon):
    return int(re.search(r"metrics listen=tcp://[\d.]+:(\d+)", daemon.wait_line("metrics listen=")).group(1))


class Asker:
    """A connection of somebody who shows @key, if any, believes @authority, and takes the daemon for @name."""

    def __init__(self, port, authority, key=None, name="localhost", newest=None):
        context = ssl.create_default_context(cafile=f"{authority.ca}/ca.pem")
        if newest is not None:
            context.maximum_version = newest
        if key is not None:
            context.load_cert_chain(key)
        plain = socket.create_connection(("127.0.0.1", port), timeout=60)
        try:
            self.tls = context.wrap_socket(plain, server_hostname=name)
        except BaseException:
            plain.close()
            raise
        self.http = http.client.HTTPConnection("localhost", port)
        self.http.sock = self.tls

    def ask(self, path="/metrics"):
        self.http.request("GET", path)
        reply = self.http.getresponse()
        return reply.status, reply.read().decode()

    def serial(self):
        return self.tls.getpeercert()["serialNumber"]

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.http.close()
        return False


def ask(port, authority, key=None, path="/metrics"):
    with Asker(port, authority, key) as asker:
        return asker.ask(path)


def fails(kind, words, fn):
    try:
        fn()
    except kind as error:
        check(re.search(words, str(error)) is not None, f"{error}: {words}")
        return
    check(False, f"nothing fails: {words}")


def is_told_to_monitors_alone(a, other, port, kind):
    for key in (a.issue("monitor/m"), a.issue("admin/test")):
        status, text = ask(port, a, key)
        check(status == 200 and f"\ncleave_{kind}_" in text, f"{key}: {status} {text[:200]}")
        wait_for(lambda key=key: ask(port, a, key, "/healthz") == (200, "ok\n"), f"{key}: health")
    # The first one's are in the log, whose lines are limited.
    for key, words in ((a.issue("client/x"), "client/x is no admin or monitor"), (None, "there is no certificate"),
                       (a.issue("node/1"), "node/1 is no admin or monitor"),
                       (a.issue("gateway/1"), "gateway/1 is no admin or monitor"),
                       (other.issue("monitor/m"), "monitor/m is of another authority")):
        for path in ("/metrics", "/healthz", "/", "/api/cluster", "/nothing"):
            status, text = ask(port, a, key, path)
            check(status == 403 and words in text and "cleave_" not in text, f"{key} {path}: {status} {text[:200]}")


def is_known_by_its_host(a, other, port):
    """Who asks finds out that it speaks with somebody else; and nothing is told in the clear, or over an older TLS."""
    fails(ssl.SSLCertVerificationError, "Hostname mismatch", lambda: Asker(port, a, name="gw2.example"))
    fails(ssl.SSLCertVerificationError, "certificate verify failed", lambda: Asker(port, other))
    fails(OSError, "protocol version|PROTOCOL|alert|EOF|reset", lambda: Asker(port, a, newest=ssl.TLSVersion.TLSv1_2))
    Asker(port, a, name="127.0.0.1").http.close()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
        plain.sendall(GET)
        told = b""
        with contextlib.suppress(ConnectionResetError):
            while data := plain.recv(4096):
                told += data
        check(b"HTTP/" not in told and b"cleave_" not in told, f"{told}")


def monitors_are_told_and_nobody_else():
    with Authority() as a, Authority() as other:
        for subject in ("gateway/1", "node/1", "client/vm"):
            a.issue(subject, *HOSTS)
        revoked = a.revoke(*[subject for subject in ("client/gone",) if a.issue(subject)])
        with Keyed(a, gateway_args=REACHED, node_args=REACHED) as c, \
                Agent(c, "--volume", "v", *REACHED, "--key", a.issue("client/vm"), "--revoked", revoked) as agent:
            daemons = ((c.gateway, "gateway"), (c.nodes[0], "storage"), (agent, "agent"))
            for daemon, kind in daemons:
                is_told_to_monitors_alone(a, other, port_of(daemon), kind)
                daemon.wait_line(r"WARN audit: \w+: refused at its metrics by=client/x peer=tcp://127\.0\.0\.1:\d+: "
                                 "client/x is no admin or monitor")
                is_known_by_its_host(a, other, port_of(daemon))
                check(daemon.count_lines("its key names no host") == 0, f"{kind}: it names some")
            c.nodes[1].wait_line("WARN storage: its key names no host")
            # Revoked, on connections that stand, too.
            standing = [(daemon, Asker(port_of(daemon), a, a.issue("monitor/m"))) for daemon, _ in daemons]
            check([each.ask()[0] for _, each in standing] == [200, 200, 200], "not yet")
            c.cleave("key", "publish", a.revoke("monitor/m"))
            agent.signal(signal.SIGHUP)
            for daemon, each in standing:
                wait_for(lambda each=each: each.ask()[0] == 403, f"{daemon.name} tells who was revoked")
                check("the key of monitor/m was revoked" in each.ask()[1], "why")
                check(ask(port_of(daemon), a, a.issue("monitor/m"))[0] == 403, "a new connection")
                check(ask(port_of(daemon), a, a.issue("admin/test"))[0] == 200, "somebody else")
                each.http.close()
            # A gateway that starts does not know it yet, and tells nobody until it does.
            c.gateway.stop()
            c.gateway.start(wait=False)
            port, seen = port_of(c.gateway), []
            wait_for(lambda: seen.append(ask(port, a, a.issue("monitor/m"))[0]) or seen[-1] != 503, "it never starts")
            check(set(seen) <= {503, 403}, f"{seen}")
            c.gateway.wait_ready()


def a_renewed_key_is_shown():
    with Authority() as a, node(a, *REACHED) as (daemon, _):
        port, key = port_of(daemon), a.issue("node/1")
        with Asker(port, a, a.issue("monitor/m")) as before:
            check(before.ask()[0] == 200, "before")
            a.key("renew", key)
            daemon.signal(signal.SIGHUP)
            daemon.wait_line("its key was read again")
            check(before.ask()[0] == 200, "it goes on")
            with Asker(port, a, a.issue("monitor/m")) as after:
                check(after.ask()[0] == 200 and after.serial() != before.serial(), "the new one, with its hosts")
                check(not after.tls.session.has_ticket, "each connection is a whole handshake")


@contextlib.contextmanager
def node(a, *words, key="node/1"):
    """A storage node, which serves nobody yet, and its command line; with its key if @key says whose."""
    with tempfile.TemporaryDirectory(prefix="cleave-test-") as folder:
        disk = os.path.join(folder, "disk")
        run("cleave-storage", "format", "--disk", disk, "--size", "256M", "--slot-size", "4M", "--cluster-id",
            CLUSTER_ID, "--node-id", "1")
        argv = [binary("cleave-storage"), "--disk", disk, "--listen", "tcp://127.0.0.1:0", *words]
        daemon = Daemon("node", argv if key is None else [*argv, "--key", a.issue(key, *HOSTS)])
        try:
            yield daemon.start(), argv
            check(daemon.stop() == 0, "its end")
        finally:
            if daemon.process is not None:
                daemon.kill()


def words_say_who_and_how():
    def plain(port):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(f"http://127.0.0.1:{port}/metrics", timeout=60).read().decode()

    with Authority() as a:
        # On loopback, and where the word says that everybody may: as without a key.
        for words in (("--metrics", "127.0.0.1:0"), (*REACHED, "--metrics-open")):
            with node(a, *words) as (daemon, _):
                check("cleave_storage_" in plain(port_of(daemon)), f"{words}")
                check("tls=" not in daemon.wait_line("metrics listen="), "it says so")
        with node(a, "--metrics", "localhost:0", "--metrics-tls") as (daemon, _):
            daemon.wait_line("metrics listen=.* tls=monitors")
            check(ask(port_of(daemon), a)[0] == 403, "on loopback, too")
            check(ask(port_of(daemon), a, a.issue("monitor/m"))[0] == 200, "on loopback, too")
        with node(a, *REACHED, "--metrics-tls", "--metrics-open") as (daemon, _):
            daemon.wait_line("metrics listen=.* tls=anybody")
            status, text = ask(port_of(daemon), a)
            check(status == 200 and "cleave_storage_" in text, f"{status} {text}")
        # Without a key there is no TLS.
        with node(a, *REACHED, "--metrics-open", key=None) as (daemon, argv):
            check("cleave_storage_" in plain(port_of(daemon)), "as before")
            daemon.kill()
            folder = os.path.dirname(argv[argv.index("--disk") + 1])
            gateway = [binary("cleave-gateway"), "--meta", f"{folder}/meta", "--cluster-id", CLUSTER_ID, "--port",
                       "tcp://127.0.0.1:0", "--node", "tcp://127.0.0.1:1", "--min-replicas", "1"]
            agent = [os.path.join(BUILD, "vm-client", "cleave-agent"), "--gateway", "127.0.0.1:1", "--volume", "v",
                     "--listen", f"unix:{folder}/nbd"]
            for daemon_argv in (argv[:-3], gateway, agent):
                for more in ((), ("--check-config",)):
                    for words, wrong in (((*REACHED, "--metrics-open", "--metrics-tls"), "--metrics-tls: TLS wants a key"),
                                         (REACHED, "other hosts reach it.*give the daemon a key.*add --metrics-open")):
                        result = run_argv([*daemon_argv, *words, *more], check_rc=False)
                        expect_error(result, wrong, codes=(1,) if more else (2,))
            daemon.start()


def what_the_handbook_says_of_curl_and_prometheus():
    if shutil.which("curl") is None or shutil.which("prometheus") is None:
        skip("there is no curl, or no prometheus")
    with Authority() as a, node(a, *REACHED) as (daemon, _), tempfile.TemporaryDirectory() as folder:
        port, key, web = port_of(daemon), a.issue("monitor/prometheus"), free_port()
        curl = ("curl", "--silent", "--show-error", "--noproxy", "*", "--cacert", key)
        done = run_argv([*curl, "--cert", key, f"https://localhost:{port}/metrics"])
        check("cleave_storage_" in done.stdout, done.stdout)
        done = run_argv([*curl, f"https://localhost:{port}/metrics"])
        check("refused: there is no certificate" in done.stdout, done.stdout)
        # The same file three times: a certificate, its key, and the authority.
        with open(f"{folder}/prometheus.yml", "w", encoding="ascii") as f:
            f.write(f"""
scrape_configs:
  - job_name: cleave-storage
    scrape_interval: 1s
    scheme: https
    tls_config: {{ca_file: {key}, cert_file: {key}, key_file: {key}}}
    static_configs: [{{targets: ["localhost:{port}"]}}]
""")
        with subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml",
                               f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{web}"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as prometheus:
            try:
                opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
                found = []

                def is_scraped():
                    with contextlib.suppress(OSError):
                        text = opener.open(f"http://127.0.0.1:{web}/api/v1/targets", timeout=60).read()
                        found[:] = json.loads(text)["data"]["activeTargets"]
                    # It gives a scrape a second, and tries again.
                    return found and found[0]["health"] == "up"

                wait_for(is_scraped, f"Prometheus does not scrape: {found}")
            finally:
                prometheus.kill()


main(monitors_are_told_and_nobody_else, a_renewed_key_is_shown, words_say_who_and_how,
     what_the_handbook_says_of_curl_and_prometheus)
