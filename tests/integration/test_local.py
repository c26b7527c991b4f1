#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unix sockets between a gateway and the clients of its host: --local."""
import glob
import json
import os
import stat

from libagent import Agent, Client
from libcluster import Cluster, check, main, run_argv, wait_for


class Local(Cluster):
    """Its gateway has a folder of sockets, and clients are told of it."""

    def __init__(self, **options):
        super().__init__(**options)
        self.local = os.path.join(self.folder, "local")
        self.gateway_args += ["--local", self.local]


def peers(c, name="v"):
    """The addresses by which sessions of the volume come."""
    shown = json.loads(c.cleave("--json", "volume", "show", name).stdout)
    return [session["peer"] for session in shown["usage"]["sessions"]]


def come(agent):
    client = Client(agent)
    check(client.go() == 1, "GO")
    return client


def write(client, block, letter):
    client.command(1, 4096 * block, 4096, data=letter * 4096)
    check(client.error() == 0, "a write")


def read(client, block, letter):
    client.command(0, 4096 * block, 4096)
    check(client.error() == 0 and client.get(4096) == letter * 4096, f"block {block}")


def who_is_on_the_host_comes_by_the_socket():
    with Local(ports=2) as c:
        sockets = glob.glob(f"{c.local}/127.0.0.1:*")
        check(len(sockets) == 2, f"a socket a port: {sockets}")
        for path in sockets:
            check(stat.S_IMODE(os.lstat(path).st_mode) == 0o660, "for owner and group")
        check(stat.S_IMODE(os.stat(c.local).st_mode) & 0o027 == 0, "the folder")
        c.volume_create("v", "4M")
        with Agent(c, "--volume", "v", "--local", c.local) as agent:
            client = come(agent)
            write(client, 3, b"a")
            read(client, 3, b"a")
            check(peers(c) and all(peer.startswith("unix://uid=") for peer in peers(c)), f"{peers(c)}")
        with Agent(c) as agent:
            client = come(agent)
            read(client, 3, b"a")
            check(peers(c) and all(peer.startswith("tcp://") for peer in peers(c)), f"{peers(c)}")
        c.gateway.stop()
        check(glob.glob(f"{c.local}/*") == [], "it takes its sockets along")


def a_gateway_that_has_none_any_more_is_reached_by_its_address():
    with Local() as c:
        c.volume_create("v", "4M")
        with Agent(c, "--volume", "v", "--local", c.local) as agent:
            client = come(agent)
            write(client, 1, b"a")
            # A killed gateway leaves its sockets. The next one is not told of the folder.
            c.gateway.kill()
            check(len(glob.glob(f"{c.local}/*")) == 1, "what is left")
            at = c.gateway.argv.index("--local")
            argv = c.gateway.argv[:at] + c.gateway.argv[at + 2:]
            c.gateway.start(argv=argv)
            write(client, 2, b"b")
            read(client, 1, b"a")
            check(all(peer.startswith("tcp://") for peer in peers(c)), f"{peers(c)}")
            # One that is takes the place of what is left. Whom its socket refused before comes back by TCP, perhaps.
            c.gateway.kill()
            c.gateway.start()
            write(client, 3, b"c")
        with Agent(c, "--volume", "v", "--local", c.local) as agent:
            client = come(agent)
            read(client, 2, b"b")
            wait_for(lambda: read(client, 3, b"c") or all(peer.startswith("unix://") for peer in peers(c)),
                     "the socket again")


def a_folder_that_everybody_writes_to_is_refused():
    with Cluster(nodes=3) as c:
        folder = os.path.join(c.folder, "open")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        agent = Agent(c, "--volume", "v", "--local", folder)
        result = run_argv(agent.argv, check_rc=False)
        check(result.returncode != 0 and f"{folder}: it is no folder, or everybody may write" in result.stderr,
              result.stderr)
        c.gateway.stop()
        result = run_argv([*c.gateway.argv, "--local", folder], check_rc=False)
        check(result.returncode != 0 and f"{folder}: it is no folder, or everybody may write" in result.stderr,
              result.stderr)
        result = run_argv([*c.gateway.argv, "--local", "/" + "x" * 100], check_rc=False)
        check(result.returncode != 0 and "--local" in result.stderr, result.stderr)
        c.gateway.start()


main(who_is_on_the_host_comes_by_the_socket,
     a_gateway_that_has_none_any_more_is_reached_by_its_address,
     a_folder_that_everybody_writes_to_is_refused)
