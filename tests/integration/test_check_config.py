#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a daemon's options is said alike by --check-config and by a start, and names the option.

A row: words behind those of a daemon that is well, and what both say. A check ends with 1; a start with 2 where the words
alone show it, so that no service manager tries again, else with 1.
"""
import os
import re
import signal

from libagent import Agent, Client
from libcluster import (BUILD, CLUSTER_ID, Cluster, check, expect_error, main, run_argv,
                        small_disks, wait_for)
from libkeys import Authority

OTHER_ID = "c1ea7e0000000002"


def agree(argv, said, codes):
    for words, wanted in (((*argv, "--check-config"), (1,)), (argv, codes)):
        expect_error(run_argv(list(words), check_rc=False), said, codes=wanted)


def replaced(argv, option, value):
    """The words of a daemon that is well, with another value of one option."""
    argv = list(argv)
    if option not in argv:
        return [*argv, option, value]
    argv[argv.index(option) + 1] = value
    return argv


WORDS = (2,)  # seen before the daemon has begun
BEGUN = (1,)  # seen when it opens what the words name

NUMBERS = {  # option: a value that is none, and one that is out of range
    "cleave-storage": {"--device-memory": ("much", "1M"), "--head-cache": ("x", "1"), "--engine-threads": ("x", "65"),
                       "--verify-rate": ("fast", "1K"), "--node-id": ("x", "4294967296"), "--write-cache": ("safe",),
                       "--direct": ("maybe",), "--log-level": ("loud",), "--log-format": ("xml",)},
    "cleave-gateway": {"--shards": ("x", "100000"), "--device-memory": ("much", "1M"), "--engine-threads": ("x", "65"),
                       "--merge-threads": ("x", "65"), "--min-replicas": ("0", "4"), "--node-timeout": ("5", "1ms"),
                       "--slow-op": ("soon", "2h"), "--gateway-id": ("x",), "--lease-ms": ("x", "1"),
                       "--session-timeout": ("x", "1ms"), "--repair-after": ("x", "1ms"), "--repair-rate": ("x", "1K"),
                       "--scrub-interval": ("x", "1ms"), "--sweep-interval": ("x", "1ms"), "--orphan-grace": ("x",),
                       "--log-bytes": ("x", "1K"), "--flush-age": ("x", "1ms"), "--index-cache": ("x", "1"), "--hot-bytes": ("x", "1T"),
                       "--mirror-heads": ("x", "1T"), "--frame-bytes": ("x", "1"), "--read-frame-bytes": ("x", "1"),
                       "--run-codec": ("zip",), "--balance": ("evenly",), "--balance-interval": ("x", "1ms"),
                       "--meta-compact": ("maybe",), "--log-level": ("loud",), "--log-format": ("xml",)},
    "cleave-agent": {"--volume-id": ("x", "0"), "--resize": ("maybe",), "--attach": ("never",), "--when-held": ("wait",),
                     "--io-timeout": ("x", "2d"), "--handshake-timeout": ("x", "1ms"), "--stall-timeout": ("x", "1ms"),
                     "--log-level": ("loud",), "--log-format": ("xml",)},
}


def daemons(c):
    return {"cleave-storage": c.nodes[0].argv, "cleave-gateway": c.gateway.argv,
            "cleave-agent": [os.path.join(BUILD, "vm-client", "cleave-agent"), "--gateway", c.address, "--listen",
                             f"unix:{c.folder}/nbd", "--all"]}


def values_that_are_none_or_out_of_range():
    with Cluster() as c:
        for name, argv in daemons(c).items():
            for option, values in NUMBERS[name].items():
                for value in values:
                    agree(replaced(argv, option, value), f"{option}: '{value}'", WORDS)


def storage_rows(c, key):
    disk, none = c.disk(0), f"{c.folder}/none"
    empty, text, cut = f"{c.folder}/empty", f"{c.folder}/text", f"{c.folder}/cut"
    with open(disk, "rb") as whole, open(cut, "wb") as f:
        f.write(whole.read(1 << 20))
    with open(empty, "wb") as f:
        f.truncate(64 << 20)
    with open(text, "wb") as f:
        f.write(b"x" * (1 << 20))
    return (
        (("--cluster-id", "xyz"), "--cluster-id: 'xyz'", WORDS),
        (("--cluster-id", OTHER_ID), f"{disk}: superblock: cluster_id is {CLUSTER_ID}, not {OTHER_ID}", BEGUN),
        (("--node-id", "7"), f"{disk}: superblock: node_id is 1, not 7", BEGUN),
        (("--disk", none), f"{none}: .*[Nn]o such file", BEGUN),
        (("--disk", c.folder), f"{c.folder}: ", BEGUN),
        (("--disk", empty), f"{empty}: .*cleave-storage format", BEGUN),
        (("--disk", text), f"{text}: superblock: ", BEGUN),
        (("--disk", cut), f"{cut}: superblock: capacity: the disk has only 1048576 bytes", BEGUN),
        (("--listen", "here"), "--listen: 'here'", WORDS),
        (("--listen", "udp://h:1"), "--listen: 'udp://h:1'", WORDS),
        (("--listen", "tcp://0.0.0.0:0"), "--listen: .*(--key|security)", WORDS),
        (("--metrics", "here"), "--metrics: .*here", BEGUN),
        (("--metrics", "0.0.0.0:0"), "--metrics: 0.0.0.0:0", WORDS),
        (("--metrics-tls",), "--metrics-tls: ", WORDS),
        (("--key", none), f"--key: {none}", WORDS),
        (("--key", key), "--key: .*node/9", BEGUN),
        (("--security", "tight"), "--security: 'tight'", WORDS),
        (("--security", "seal"), "--security: .*need a key", WORDS),
        (("--direct", "on"), "--direct: on needs --key", WORDS),
        (("--advertise", "tcp://n:1"), "--advertise: .* needs --direct", WORDS),
    )


def gateway_rows(c, key):
    none, argv = f"{c.folder}/none", c.gateway.argv
    port, node = argv[argv.index("--port") + 1], argv[argv.index("--node") + 1].split(",")[0]
    etcd = ("--meta", "etcds://127.0.0.1:1", "--gateway-id", "1")
    with open(f"{c.folder}/file", "w") as f:
        f.write("x")
    os.mkdir(f"{c.folder}/open")
    os.chmod(f"{c.folder}/open", 0o777)
    return (
        (("--cluster-id", "xyz"), "--cluster-id: 'xyz'", WORDS),
        (("--meta", none), f"{none}", BEGUN),
        (("--meta", "http://x"), "--meta: 'http://x'", WORDS),
        (("--meta", "etcd://127.0.0.1:1"), "--gateway-id is required with an etcd", WORDS),
        (("--meta-ca", none), "--meta: .*--meta-... go with an etcd", WORDS),
        ((*etcd, "--meta-cert", none), "--meta: .*--meta-cert and --meta-key go together", WORDS),
        ((*etcd, "--meta-user", "u"), "--meta: .*--meta-user and --meta-password-file go together", WORDS),
        ((*etcd, "--meta-ca", none), f"{none}", BEGUN),
        (("--port", "gw:1"), "--port: 'gw:1'", WORDS),
        (("--port", f"{port},cpu=x"), "--port: .*cpu must be", WORDS),
        (("--port", f"{port},advertise=0.0.0.0:1"), "--port: .*advertise: .*every machine", WORDS),
        (("--port", port, "--port", port), "--port: .* the address is given twice", WORDS),
        (("--port", "tcp://0.0.0.0:0"), "--port: .*(--key|security)", WORDS),
        (("--node", "n:1"), "--node: 'n:1'", WORDS),
        (("--node", f"{node},rack=a"), "--node: .*only ',domain=...'", WORDS),
        (("--node", node, "--node", node), f"--node: {node} is given twice", WORDS),
        (("--node", f"{node},domain=a"), "--node: .*--min-replicas", WORDS),
        (("--device-memory", "2M"), r"--device-memory: .* at least \d+M", WORDS),
        # 4 TiB: a mistake, whatever host this is.
        ((*("--port", "tcp://127.0.0.1:0") * 16, "--device-memory", "256G"), "more than the .* of memory that there are", WORDS),
        (("--hot-bytes", "1K"), "--hot-bytes: 0, or at least", WORDS),
        (("--mirror-heads", "1K"), "--mirror-heads: 0, or at least", WORDS),
        (("--frame-bytes", "12K"), "--frame-bytes: 12288: no power of two", WORDS),
        (("--read-frame-bytes", "12K"), "--read-frame-bytes: 12288: no power of two", WORDS),
        (("--read-frame-bytes", "32K"), "--read-frame-bytes: 32768: more than --frame-bytes", WORDS),
        (("--metrics", "here"), "--metrics: .*here", BEGUN),
        (("--metrics", "0.0.0.0:0"), "--metrics: 0.0.0.0:0", WORDS),
        (("--metrics-tls",), "--metrics-tls: ", WORDS),
        (("--kek", f"file:{none}"), f"--kek: .*{none}", BEGUN),
        (("--kek", "x"), "--kek: .*x", BEGUN),
        (("--local", "here"), "--local.*here", BEGUN),
        (("--local", f"{c.folder}/file"), f"--local.*{c.folder}/file", BEGUN),
        (("--local", f"{c.folder}/open"), f"--local.*{c.folder}/open: it is no folder, or everybody may write", BEGUN),
        (("--key", none), f"--key: {none}", WORDS),
        (("--key", key), "--key: .*node/9", WORDS),
        (("--security", "tight"), "--security: 'tight'", WORDS),
        (("--force",), "--force goes with", WORDS),
        (("--take",), "--take goes with", WORDS),
        (("--create", "--recover"), "--create: .*--recover", WORDS),
        (("--dump", "--load"), "--dump, --load and --move-to", WORDS),
    )


def agent_rows(c, key):
    none, listen = f"{c.folder}/none", f"unix:{c.folder}/nbd"
    os.mkdir(f"{c.folder}/tls")
    for name in ("ca-cert.pem", "server-cert.pem", "server-key.pem"):
        with open(f"{c.folder}/tls/{name}", "w") as f:
            f.write("nonsense\n")
    with open(f"{c.folder}/agent-file", "w") as f:
        f.write("x")
    os.mkdir(f"{c.folder}/agent-open")
    os.chmod(f"{c.folder}/agent-open", 0o777)
    return (
        (("--gateway", "tcp://x"), "--gateway: 'tcp://x'", WORDS),
        (("--volume", "v w"), "--volume: 'v w' is no name", WORDS),
        (("--volume", "v", "--volume", "v"), "--volume: v is given twice", WORDS),
        (("--volume-id", "7"), "--volume-id: needs one --volume", WORDS),
        (("--listen", "udp://h:1"), "--listen.*udp://h:1", BEGUN),
        (("--listen", f"unix:{none}/nbd"), f"--listen.*{none}", BEGUN),
        (("--listen", f"unix:{c.folder}/agent-file"), f"--listen.*{c.folder}/agent-file: File exists", BEGUN),
        (("--listen", "tcp://0.0.0.0:0"), "--listen: tcp://0.0.0.0:0", WORDS),
        (("--listen", listen, "--listen", listen), f"--listen: {listen} is given twice", WORDS),
        (("--control", f"{c.folder}/nbd"), f"--control: {c.folder}/nbd: --listen has it", WORDS),
        (("--control", f"{none}/control"), f"--control.*{none}", BEGUN),
        (("--replace",), "--replace: needs --control", WORDS),
        (("--stdio",), "--stdio and --listen exclude each other", WORDS),
        (("--tls-certificates", none), f"--tls-certificates: {none}", BEGUN),
        (("--tls-certificates", f"{c.folder}/tls"), f"--tls-certificates: {c.folder}/tls/", BEGUN),
        (("--tls-psk", none), f"--tls-psk: {none}", BEGUN),
        (("--tls-psk", none, "--tls-certificates", none), "--tls-certificates and --tls-psk exclude each other", WORDS),
        (("--tls-verify-peer",), "--tls-verify-peer: needs --tls-certificates", WORDS),
        (("--tls-optional",), "--tls-optional: needs", WORDS),
        (("--local", "here"), "--local: here: ", WORDS),
        (("--local", f"{c.folder}/agent-open"), "--local: .*everybody may write", WORDS),
        (("--metrics", "here"), "--metrics: .*here", BEGUN),
        (("--metrics", "0.0.0.0:0"), "--metrics: 0.0.0.0:0", WORDS),
        (("--key", none), f"--key: {none}", WORDS),
        (("--key", key), "--key: .*node/9", WORDS),
        (("--security", "tight"), "--security: 'tight'", WORDS),
    )


ROWS = {"cleave-storage": storage_rows, "cleave-gateway": gateway_rows, "cleave-agent": agent_rows}
ADDED = ("--node", "--port", "--volume", "--listen", "--gateway")  # lists, which a word makes longer


def with_words(argv, words):
    """Lists are made anew by the words; other options get another value."""
    for option in {word for word in words if word in ADDED}:
        while option in argv:
            at = argv.index(option)
            argv = argv[:at] + argv[at + 2:]
    at = 0
    while at < len(words):
        has_value = at + 1 < len(words) and not words[at + 1].startswith("--")
        if has_value and words[at] not in ADDED:
            argv = replaced(argv, words[at], words[at + 1])
        else:
            argv = [*argv, *words[at:at + 1 + has_value]]
        at += 1 + has_value
    return argv


def what_does_not_fit_together_or_is_not_there():
    """The daemons have ended: a start comes as far as what is wrong."""
    with Authority() as a, Cluster() as c:
        argvs = daemons(c)
        for daemon in (c.gateway, *c.nodes):
            check(daemon.stop() == 0, f"{daemon.name} ended badly")
        for name, argv in argvs.items():
            for words, said, codes in ROWS[name](c, a.issue("node/9")):
                agree(with_words(list(argv), words), said, codes)


def a_file_of_exports_is_read_by_a_check():
    """An agent goes on without the lines that are wrong, and says which: that is no reason for it to end."""
    with Cluster() as c:
        path = f"{c.folder}/exports"
        with open(path, "w") as f:
            f.write("v\nv\nw somehow\n")
        agent = Agent(c, "--exports", path)
        expect_error(run_argv([*agent.argv, "--check-config"], check_rc=False), f"--exports: {path}:2: ",
                     f"--exports: {path}:3: ", codes=(1,))
        with agent:
            for line in (2, 3):
                agent.wait_line(f"{path}:{line}: ")
        agent.argv[agent.argv.index("--exports") + 1] = f"{c.folder}/none/exports"
        expect_error(run_argv([*agent.argv, "--check-config"], check_rc=False), f"--exports: {c.folder}/none", codes=(1,))


def an_agent_that_stands_still_is_waited_for_as_long_as_was_said():
    with Cluster() as c:
        control = f"{c.folder}/control"
        with Agent(c, "--control", control) as agent:
            agent.signal(signal.SIGSTOP)
            try:
                expect_error(c.cleave("--timeout", "10ms", "exports", "--agent", control, check_rc=False),
                             r"the agent has not answered in time \(--timeout\)", codes=(1,))
            finally:
                agent.signal(signal.SIGCONT)
            c.cleave("exports", "--agent", control)


def domains_of_a_new_cluster_have_no_blanks():
    with Cluster() as c:
        argv = [*c.create_argv(f"{c.folder}/meta2")]
        argv[argv.index("--node") + 1] += ",domain=a b"
        agree(argv, "--node: .*without blanks", WORDS)


def who_only_asks_is_no_client():
    """cleave status counts connections that have a volume open: its own has none."""
    with Cluster() as c:
        def connections():
            return int(re.search(r", (\d+) connections of clients", c.cleave("status", check_rc=False).stdout).group(1))

        check(connections() == 0, "its own counts")
        c.volume_create("v", "64M")
        with Agent(c, "--volume", "v", "--attach", "client") as agent:
            client = Client(agent)
            check(client.go() == 1, "GO")
            wait_for(lambda: connections() > 0, "an open volume does not count")
            client.s.close()
            wait_for(lambda: connections() == 0, "a volume that was closed counts")


if __name__ == "__main__":
    small_disks()
    main(values_that_are_none_or_out_of_range, what_does_not_fit_together_or_is_not_there,
         a_file_of_exports_is_read_by_a_check, an_agent_that_stands_still_is_waited_for_as_long_as_was_said,
         domains_of_a_new_cluster_have_no_blanks, who_only_asks_is_no_client)
