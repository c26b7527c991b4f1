#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input gets a clear error and changes nothing (I10; faults 25, 26, 28)."""
import os
import random
import resource
import signal
import socket
import struct
import subprocess

from libcluster import (CLUSTER_ID, WAIT_S, Cluster, binary, check, expect_error, free_port, main,
                        run, run_argv, small_disks)


def options():
    for name in ("cleave-storage", "cleave-gateway", "cleave-load", "cleave"):
        result = run(name, "--help")
        check("usage" in result.stdout.lower(), f"{name} --help says: {result.stdout}")
        expect_error(run(name, "--no-such-option", check_rc=False), "no-such-option", codes=(2,))
    expect_error(run("cleave-storage", "--disk", "/nonexistent", check_rc=False), "listen",
                 codes=(2,))
    expect_error(run("cleave-gateway", "--meta", "/nonexistent/meta", check_rc=False),
                 codes=(2,))
    expect_error(run("cleave", "volume", "create", "x", "--size", "12Q", check_rc=False), "size",
                 codes=(2,))


def load_says_whom_it_waits_for():
    """Before all else that it says: that it has given up would be another line."""
    address = f"tcp://127.0.0.1:{free_port()}"
    load = subprocess.Popen([binary("cleave-load"), "--gateway", address, "--volume", "v"],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
    line = load.stderr.readline()
    load.send_signal(signal.SIGTERM)
    load.communicate(timeout=WAIT_S)
    check(f"waiting for the gateway at {address}" in line, f"cleave-load says: {line}")
    check(load.returncode == 1, f"exit {load.returncode}")


class NoGateway(Cluster):
    """Nodes are formatted and started by the test itself."""

    def start(self):
        return self


def config_file():
    with NoGateway(nodes=0) as c:
        path = os.path.join(c.folder, "node.conf")
        with open(path, "w") as f:
            f.write("listen = tcp://127.0.0.1:0\ndisc = /x\n")
        result = run("cleave-storage", "--config", path, check_rc=False)
        expect_error(result, r"node\.conf:2", "disc", codes=(2,))


def disks():
    with NoGateway(nodes=2, disk_size="64M") as c:
        blank = os.path.join(c.folder, "blank")
        with open(blank, "wb") as f:
            f.truncate(64 << 20)
        listen = ("--listen", "tcp://127.0.0.1:0")
        expect_error(run("cleave-storage", "--disk", blank, *listen, check_rc=False),
                     "not formatted|no superblock", "blank", codes=(1,))
        expect_error(run("cleave-storage", "--disk", os.path.join(c.folder, "absent"), *listen,
                         check_rc=False), "absent", codes=(1,))
        c.format(0)
        expect_error(c.format(0, check_rc=False), "formatted|force", codes=(1, 2))
        c.format(0, extra=("--force",))
        c.start_node(0)
        expect_error(c.format(0, ["--force"], check_rc=False), f"in use by process {c.nodes[0].pid}")
        expect_error(run("cleave-storage", "--disk", c.disk(0), *listen, check_rc=False),
                     f"in use by process {c.nodes[0].pid}",
                     codes=(1,))
        c.format(1)
        # One bad superblock leaves the other (ONDISK.md); with both gone the disk is refused.
        with open(c.disk(1), "r+b") as f:
            f.write(os.urandom(4096))
        c.start_node(1)
        c.nodes[1].stop()
        with open(c.disk(1), "r+b") as f:
            f.write(os.urandom(128 << 10))
        expect_error(run("cleave-storage", "--disk", c.disk(1), *listen, check_rc=False),
                     "superblock|format", codes=(1,))
        # A version that nobody knows yet, on a disk that is sound otherwise.
        c.format(1, extra=("--force",))
        with open(c.disk(1), "r+b") as f:
            for offset in (0, 126976):
                f.seek(offset + 8)
                f.write((2).to_bytes(4, "little"))
        expect_error(run("cleave-storage", "--disk", c.disk(1), *listen, check_rc=False),
                     "version is not 1", codes=(1,))
        # Disks swapped between nodes, or clusters.
        c.format(1, extra=("--force",))
        expect_error(run("cleave-storage", "--disk", c.disk(1), *listen, "--node-id", "1",
                         check_rc=False), "node_id is 2, not 1", "another node", codes=(1,))
        expect_error(run("cleave-storage", "--disk", c.disk(1), *listen, "--cluster-id", "77",
                         check_rc=False), "cluster_id", "another cluster", codes=(1,))
        # A port in use.
        address = c.nodes[0].argv[c.nodes[0].argv.index("--listen") + 1]
        c.format(1, extra=("--force",))
        expect_error(run("cleave-storage", "--disk", c.disk(1), "--listen", address,
                         check_rc=False), "in use", codes=(1,))


def another_cluster():
    with Cluster(nodes=3) as c:
        c.gateway.stop()
        argv = [CLUSTER_ID.replace("1", "2") if word == CLUSTER_ID else word
                for word in c.gateway.argv]
        expect_error(run_argv(argv, check_rc=False), "cluster", codes=(1,))


def second_gateway_on_one_directory():
    with Cluster(nodes=3) as c:
        argv = ["tcp://127.0.0.1:0" if word == c.address else word for word in c.gateway.argv]
        expect_error(run_argv(argv, check_rc=False), "runs already", "--gateway-id", codes=(1,))


def volumes():
    with Cluster(nodes=3) as c:
        c.volume_create("one", "8M")
        expect_error(c.cleave("volume", "create", "one", "--size", "8M", check_rc=False), "already",
                     "one", codes=(1,))
        expect_error(c.cleave("volume", "show", "two", check_rc=False), "two", codes=(1,))
        expect_error(c.cleave("volume", "delete", "two", check_rc=False), "two", codes=(1,))
        for size in ("0", "65T", "4097"):
            expect_error(c.cleave("volume", "create", "bad", "--size", size, check_rc=False),
                         "size", codes=(1, 2))
        for name in ("", "-x", "a/b", "x" * 64):
            expect_error(c.cleave("volume", "create", name, "--size", "8M", check_rc=False),
                         codes=(1, 2))
        expect_error(run_argv(c.load_argv("--volume", "two", "--operations", "1"),
                              check_rc=False), "two", codes=(1,))
        expect_error(run_argv(c.load_argv("--volume", "one", "--operations", "1", "--block-size",
                                          "1000"), check_rc=False), "block-size", codes=(1, 2))
        check("one" in c.cleave("volume", "list").stdout, "volume list does not show 'one'")
        c.cleave("volume", "delete", "one")
        check("one" not in c.cleave("volume", "list").stdout, "a deleted volume is listed")


def no_gateway():
    result = run("cleave", "--gateway", "tcp://127.0.0.1:1", "status", check_rc=False)
    expect_error(result, "127.0.0.1:1", codes=(2,))


def header(magic=0x45564C43, version=1, opcode=0x10, payload_bytes=0, fill=0):
    return struct.pack("<IBBBBQQQIIIIHHHHII", magic, version, opcode, 0, 0, 1, 2, 0, 4096,
                       payload_bytes, 0, 0, 0, 0, 0, 0, fill, fill)


def random_bytes_on_every_port():
    rng = random.Random(20231117)
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        targets = [a.split("//")[1].split(":") for a in [c.address, *c.addresses]]
        for host, port in targets:
            for case in range(60):
                if case % 3 == 0:
                    data = rng.randbytes(rng.randrange(1, 9000))
                elif case % 3 == 1:
                    data = header(version=rng.randrange(256), opcode=rng.randrange(256),
                                  payload_bytes=rng.randrange(1 << 32), fill=case)
                else:
                    data = header()[:rng.randrange(1, 64)]
                with socket.create_connection((host, int(port))) as s:
                    try:
                        s.sendall(data)
                        if case % 2 == 0:
                            s.shutdown(socket.SHUT_WR)
                            s.settimeout(60)
                            while s.recv(65536):
                                pass
                    except OSError:
                        pass
        # Everybody lives and serves.
        c.load("--volume", "v", "--operations", "2000", "--in-flight", "16")
        check(c.gateway.process.poll() is None, "the gateway died")
        for node in c.nodes:
            check(node.process.poll() is None, f"{node.name} died")
        # The log says why, and is rate limited.
        check(c.gateway.count_lines("WARN") < 200, "the log is not rate limited")


def is_open(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def many_connections():
    """Silent connections take no service away from a client, as many as they are (faults 24, 26)."""
    count = 1200
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    check(most > 2 * count, f"at most {most} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        host, port = c.address.split("//")[1].split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(count)]
        c.status()  # comes behind them
        refused = count - sum(is_open(each) for each in idle)
        check(refused == 0, f"{refused} of {count} connections were refused")
        c.load("--volume", "v", "--operations", "1000", "--in-flight", "8")
        for s in idle:
            s.close()
        c.load("--volume", "v", "--operations", "1000", "--in-flight", "8")


def node_returns_to_a_flood(c, idle, count):
    """What comes while a node is away does not get its place."""
    host, port = c.address.split("//")[1].split(":")
    from_line = len(c.gateway.lines)
    c.nodes[1].kill()
    c.gateway.wait_line("WARN node .*: lost ", from_line)
    idle += [socket.create_connection((host, int(port))) for _ in range(count)]
    c.nodes[1].start()
    c.gateway.wait_line("node .*: link up", from_line)
    check(c.gateway.count_lines("cannot be reached .*ENOBUFS") == 0, "clients had its place")


def a_full_gateway():
    """
    A gateway that is started with the usual soft limit takes all its connections, says when it is full and
    closes silent ones for others, and has room for those that it makes.
    """
    room, own, surplus = 4096, 256, 40
    count = room - own
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < room + 2000:
        print(f"not tested: at most {most} descriptors")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, most))
    with Cluster(nodes=3) as c:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        host, port = c.address.split("//")[1].split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(count + surplus)]
        c.gateway.wait_line(f"WARN .*its place is needed.*connections_max={count}$")
        node_returns_to_a_flood(c, idle, own)
        c.status()
        check(c.gateway.count_lines("WARN") < 100, "the log is not rate limited")
        for s in idle:
            s.close()
        check(c.metric("qps_cut") >= surplus, "not counted")


def few_descriptors():
    """A daemon whose hard limit is too low for its connections says which one, has less room, and serves."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        argv = c.gateway.argv
        c.gateway.stop()
        c.gateway.start(argv=["prlimit", "--nofile=256:256", *argv])
        c.gateway.wait_line("WARN gateway: .*RLIMIT_NOFILE.*limit=256 ")
        c.load("--volume", "v", "--operations", "100", "--in-flight", "4")
        host, port = c.address.split("//")[1].split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(256)]
        c.gateway.wait_line("WARN .*its place is needed.*connections_max=56$")
        node_returns_to_a_flood(c, idle, 256)
        for s in idle:
            s.close()
        c.load("--volume", "v", "--operations", "100", "--in-flight", "4")


if __name__ == "__main__":
    check(os.path.exists(binary("cleave")), "cleave")
    small_disks()
    main(options, load_says_whom_it_waits_for, config_file, disks, another_cluster,
         second_gateway_on_one_directory, volumes, no_gateway, random_bytes_on_every_port,
         many_connections, a_full_gateway, few_descriptors)
