#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Logs of daemons: as the journal reads them, as JSON, first and last lines, what changes while they run; and that
nothing normal is an alarm."""
import json
import os
import re
import signal
import subprocess

from libagent import Agent, Client
from libcluster import (BUILD, CLUSTER_ID, Cluster, Daemon, binary, check, expect_error, main,
                        run_argv, small_disks)

ALARM = r"\b(WARN|ERROR)\b"
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"


def agent_binary():
    return os.path.join(BUILD, "vm-client", "cleave-agent")


def as_journal(argv, until=None):
    """All that a program writes to a standard error that says it is the journal; ended when `until` was read."""
    read, write = os.pipe()
    info = os.fstat(write)
    env = dict(os.environ, JOURNAL_STREAM=f"{info.st_dev}:{info.st_ino}")
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=write, env=env)
    os.close(write)
    lines = []
    with os.fdopen(read) as errors:
        for line in errors:
            lines.append(line.rstrip("\n"))
            if until is not None and re.search(until, line):
                process.send_signal(signal.SIGTERM)
    return process.wait(), lines


def the_journal_gets_priorities_and_no_time():
    with Cluster() as c:
        disk, address = c.disk(0), c.addresses[0]
        c.nodes[0].stop()
        code, lines = as_journal([binary("cleave-storage"), "--disk", disk, "--listen", address], r"\bready\b")
        check(code == 0 and len(lines) >= 4, f"{code}: {lines}")
        for line in lines:
            check(re.match(r"<6>INFO \S", line) and not re.search(STAMP, line), f"for the journal: {line}")
        # What keeps it from starting is an error there, also what is wrong with the command line.
        code, lines = as_journal([binary("cleave-storage"), "--disk", disk + "x", "--listen", address])
        check(code == 1 and lines[-1].startswith("<3>cleave-storage: ") and "no such file" in lines[-1], f"{lines}")
        code, lines = as_journal(c.create_argv(os.path.join(c.folder, "meta")))
        check(code == 1 and any(line.startswith("<3>ERROR ") for line in lines), f"{lines}")
        code, lines = as_journal([agent_binary(), "--all", "--stdio", "--listen", "unix:/x"])
        check(code == 2 and lines == ["<3>cleave-agent: --stdio and --listen exclude each other"], f"{lines}")
        c.nodes[0].start()


def json_is_an_object_a_line():
    words = ("--log-format", "json")
    with Cluster(gateway_args=words, node_args=words) as c:
        c.volume_create("v", "64M")
        c.nodes[1].stop()
        c.gateway.wait_line("node-lost")
        c.nodes[1].start()
        c.gateway.stop()
        entries = [json.loads(line) for line in c.gateway.lines if line.startswith("{")]
        check(len(entries) == len(c.gateway.lines) - 1, "a line is no object")
        for entry in entries:
            check(re.fullmatch(STAMP + r"\.\d{3}Z", entry["time"]) and entry["who"] == "cleave-gateway" and
                  entry["level"] in ("INFO", "WARN", "ERROR") and entry["message"], f"{entry}")
        events = [entry for entry in entries if "code" in entry]
        check(("node-lost", "node 2") in [(e["code"], e["object"]) for e in events], f"{events}")
        check(("volume-created", "v") in [(e["code"], e["object"]) for e in events], f"{events}")
        check(all("object" in e for e in events) and len(events) < len(entries), f"{entries}")
        for line in c.nodes[0].lines:
            check(json.loads(line)["who"] == "cleave-storage", line)


def first_and_last_lines_say_what_and_why():
    version = run_argv([binary("cleave-gateway"), "--version"]).stdout.strip()
    commit = re.search(r"\((\w+)\)", version).group(1)
    with Cluster() as c:
        c.volume_create("v", "64M")
        agent = Agent(c).start()
        check(agent.stop() == 0, "the agent's exit status")
        c.gateway.stop()
        c.nodes[2].stop()
        for daemon, noun, option in ((c.gateway, "gateway", f"--meta={c.meta}"),
                                     (c.nodes[2], "storage", f"--disk={c.disk(2)}"),
                                     (agent, "agent", "--volume=v")):
            first, last = daemon.lines[0], daemon.lines[-2]
            check(f" {noun}: starting cleave-" in first and f"({commit})" in first and option in first, first)
            check("--log-level" not in first and "--repair-rate" not in first, f"defaults: {first}")
            check(re.search(rf" {noun}: stopped after_s=\d+: SIGTERM from pid={os.getpid()} uid=\d+$", last), last)
        # As many lines as the options take.
        volumes = [f"--volume={'n' * 60}{i}" for i in range(40)]
        agent = Daemon("agent", [agent_binary(), "--gateway", "tcp://127.0.0.1:1", "--listen",
                                 f"unix:{c.folder}/many", *volumes]).start()
        agent.stop()
        said = " ".join(line for line in agent.lines if "agent: starting" in line)
        check(all(volume in said.split() for volume in volumes) and "--listen=unix:" in said, said)
        check(agent.count_lines("starting, further options") > 1, said)
        c.nodes[2].start()


def what_is_logged_changes_from_afar():
    with Cluster(gateways=2, gateway_args=("--slow-op", "0s")) as c:
        c.volume_create("v", "64M")
        c.load("--volume", "v", "--operations", "200")
        check("no slow request" in c.cleave("slow").stdout, "one was kept")
        said = c.cleave("gateway", "set", "all", "--slow-op", "1us").stdout.splitlines()
        check(len(said) == 2 and all(re.fullmatch(r"gateway 000000000000000[12]: log level info, slow-op 0\.0 ms|"
                                                  r"gateway 000000000000000[12]: log level info, slow-op off",
                                                  line) for line in said), f"{said}")
        c.load("--volume", "v", "--operations", "200")
        check("write of 'v'" in c.cleave("slow").stdout, "none was kept")
        c.cleave("gateway", "set", "all", "--slow-op", "0s")
        kept = len(c.cleave("--json", "slow").stdout.splitlines())
        c.load("--volume", "v", "--operations", "200")
        check(len(c.cleave("--json", "slow").stdout.splitlines()) == kept, "more were kept")
        # One of them alone; who did it is an event.
        answer = json.loads(c.cleave("--json", "gateway", "set", "2", "--log-level", "error").stdout)
        check(answer == {"gateway": "0000000000000002", "log_level": "error", "slow_op_ns": 0}, f"{answer}")
        line = c.gateways[1].wait_line("log level error, was info")
        check(re.search(r'INFO gateway: .*: cleave gateway set by="cleave\[\d+\]@[^"]+" from=tcp://127.0.0.1:\d+$', line), line)
        check(c.gateways[0].count_lines("log level") == 0, "the other one was told, too")
        events = [json.loads(each) for each in c.cleave("--json", "events").stdout.splitlines()]
        codes = [e["gateway"] for e in events if e["code"] == "gateway-set" and "log level" in e["text"]]
        check(codes == ["0000000000000002"], f"{events}")
        # It goes quiet, and SIGHUP has its own options count again.
        c.volume_create("w", "64M")
        check(c.gateways[1].count_lines("volume: created name=w") == 0, "it is not quiet")
        c.gateways[1].signal(signal.SIGHUP)
        c.gateways[1].wait_line(r"INFO gateway: log level info, was error: SIGHUP from pid=\d+")
        for words, text in ((("7", "--slow-op", "1s"), "no gateway '7' lives"),
                            (("1", "--slow-op", "soon"), "--slow-op: 'soon' is not a time"),
                            (("1", "--log-level", "loud"), "--log-level: 'loud' is not one of"),
                            (("1",), "what is to be changed")):
            expect_error(c.cleave("gateway", "set", *words, check_rc=False), text, codes=(1,))


def sighup_has_the_configuration_read_again():
    with Cluster() as c:
        path = os.path.join(c.folder, "storage.conf")

        def write(*lines):
            with open(path, "w") as f:
                f.write("\n".join([f"disk = {c.disk(0)}", f"listen = {c.addresses[0]}", *lines, ""]))
        c.nodes[0].stop()
        write()
        node = Daemon("node", [binary("cleave-storage"), "--config", path]).start()
        check(f"--config={path}" in node.lines[0], node.lines[0])
        write("log-level = debug", "verify-rate = 32M", "engine-threads = 2")
        node.signal(signal.SIGHUP)
        node.wait_line("storage: log level debug, was info: SIGHUP")
        node.wait_line("WARN storage: options have changed that want a restart: --engine-threads --verify-rate")
        write("log-level = loud")
        node.signal(signal.SIGHUP)
        node.wait_line(f"cleave-storage: {path}:3: log-level: 'loud' is not one of")
        node.wait_line("ERROR storage: options were not read again, and stay as they are")
        write("log-level = info")
        node.signal(signal.SIGHUP)
        node.wait_line("storage: log level info, was debug")
        check(node.stop() == 0, "it ended badly")
        c.nodes[0].start()
        agent = Daemon("agent", [agent_binary(), "--gateway", c.address, "--all", "--listen",
                                 f"unix:{c.folder}/nbd"]).start()
        agent.signal(signal.SIGHUP)
        agent.wait_line("agent: options read again: SIGHUP")
        check(agent.stop() == 0, "it ended badly")


def check_config(*argv):
    result = run_argv([*argv, "--check-config"], check_rc=False)
    return result.returncode, result.stderr.splitlines()


def configurations_are_checked_to_their_end():
    with Cluster() as c:
        path = os.path.join(c.folder, "wrong.conf")

        def expect(name, text, *wanted):
            with open(path, "w") as f:
                f.write(text)
            program = agent_binary() if name == "cleave-agent" else binary(name)
            code, lines = check_config(program, "--config", path)
            check(code == 1 and len(lines) == len(wanted), f"{code}: {lines}")
            for line, want in zip(lines, wanted):
                check(line.startswith(f"{name}: ") and want in line, f"not '{want}': {line}")

        expect("cleave-storage", f"disk = {c.folder}/none\nlisten = nowhere\nrubbish\nsize = 3\nverify-rate = fast\n"
               "cluster-id = xyz\nmetrics = here\n",
               f"{path}:3: not of the form", f"{path}:4: no option is called 'size'",
               f"{path}:5: verify-rate: 'fast' is not a size", "--cluster-id: 'xyz'", "--listen: 'nowhere'",
               f"--disk: {c.folder}/none: No such file", "--metrics: 'here'")
        expect("cleave-storage", "log-level = loud\n", f"{path}:1: log-level: 'loud'", "--disk PATH is required",
               "--listen tcp://HOST:PORT is required")
        expect("cleave-gateway", f"meta = {c.folder}/none\ncluster-id = {CLUSTER_ID}\nport = tcp://127.0.0.1:x\n"
               "node = 10.0.0.1:1\nnode = tcp://10.0.0.1:1,rack=a\nframe-bytes = 12K\nmin-replicas = 4\n",
               f"{path}:7: min-replicas: '4' is out of range", "--port: 'tcp://127.0.0.1:x'", "--node: '10.0.0.1:1'",
               "--node: 'tcp://10.0.0.1:1,rack=a'", "--frame-bytes: 12288", f"--meta: {c.folder}/none")
        expect("cleave-gateway", f"meta = etcds://h:1\nmeta-ca = {c.folder}/ca\nmeta-cert = {c.folder}/cert\n"
               f"meta-key = {c.folder}/key\nport = tcp://0.0.0.0:1\ncluster-id = {CLUSTER_ID}\nsecurity = open\n",
               "--port: 'tcp://0.0.0.0:1': gateways that share an etcd", "--gateway-id is required with an etcd",
               f"--meta-ca: {c.folder}/ca", f"--meta-cert: {c.folder}/cert", f"--meta-key: {c.folder}/key")
        expect("cleave-agent", f"gateway = tcp://x\nlisten = unix:{c.folder}/none/nbd\nlisten = udp://h:1\n"
               f"tls-psk = {c.folder}/psk\ntls-verify-peer = yes\nreplace = yes\n",
               "--gateway: 'tcp://x'", "--replace: needs --control", "nothing to export", "--tls-verify-peer: needs",
               f"--listen: {c.folder}/none: No such", "--listen: 'udp://h:1'", f"--tls-psk: {c.folder}/psk")
        listen = f"unix:{c.folder}/nbd"
        expect("cleave-agent", f'listen = {listen}\nvolume = "v"\nvolume = v w\nvolume =\nvolume = v@\nvolume = v@s\nvolume = v\n',
               """--volume: '"v"' is no name""", "--volume: 'v w' is no name", "--volume: '' is no name", "--volume: 'v@' is no name")
        # Nothing of it is touched, nobody is in its way: each daemon's own options, while it runs.
        for daemon in (c.gateway, c.nodes[0]):
            check(check_config(*daemon.argv) == (0, []), f"{check_config(*daemon.argv)}")
        check(check_config(agent_binary(), "--all", "--listen", f"unix:{c.folder}/nbd") == (0, []), "the agent's")
        check(not os.path.exists(f"{c.folder}/nbd"), "it was made")
        code, lines = check_config(binary("cleave-gateway"), "--colour")
        check(code == 1 and "there is no option --colour" in lines[0], f"{lines}")


def nothing_normal_is_an_alarm():
    """A life as operators have it; a node and a gateway that end are told of, once each, and nothing else is."""
    with Cluster(gateways=2) as c:
        for name in ("v", "w"):
            c.volume_create(name, "64M")
        with Agent(c) as agent:
            client = Client(agent)
            c.load("--volume", "w", "--operations", "1000")
            c.cleave("snapshot", "create", "w@s")
            c.cleave("clone", "w@s", "x")
            c.cleave("volume", "resize", "x", "--size", "128M")
            c.cleave("volume", "delete", "x", "--purge")
            c.cleave("snapshot", "rollback", "w@s", "--force")
            c.cleave("snapshot", "delete", "w@s")
            c.cleave("node", "set", "1", "--note", "n")
            c.cleave("gateway", "drain", "2", "--wait")
            c.cleave("gateway", "undrain", "2")
            c.cleave("scrub")
            c.cleave("sweep")
            c.cleave("cluster", "rebalance")
            c.cleave("cluster", "rebalance", "--stop")
            c.cleave("volume", "delete", "w")
            client.s.close()
        for daemon in (*c.gateways, *c.nodes, agent):
            alarms = [line for line in daemon.lines if re.search(ALARM, line)]
            check(alarms == [], f"{daemon.name}: {alarms}")
        first = len(c.gateway.lines)
        c.nodes[1].stop()
        c.gateway.wait_line("WARN node 2: lost")
        c.nodes[1].start()
        c.gateway.wait_line("node 2: link up", from_line=first)
        c.gateways[1].stop()
        c.gateway.wait_line("WARN gateway: gateway 0000000000000002 .* is gone .*, and had shards")
        c.gateway.stop()
        for daemon in (*c.nodes, *c.gateways):
            alarms = [line for line in daemon.lines if re.search(ALARM, line) and
                      not re.search(r"WARN (node 2: lost|node: cannot be reached|health: |"
                                    r"gateway: gateway 0000000000000002 .* is gone|"
                                    r"shard \d: manifest waits for storage nodes)", line)]
            check(alarms == [], f"{daemon.name}: {alarms}")
        check(c.gateway.count_lines("node 2: lost") == 1, "said more than once")


small_disks()
main(the_journal_gets_priorities_and_no_time, json_is_an_object_a_line, first_and_last_lines_say_what_and_why,
     what_is_logged_changes_from_afar, sighup_has_the_configuration_read_again,
     configurations_are_checked_to_their_end, nothing_normal_is_an_alarm)
