#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What nothing can serve waits: a guest gets no error, and whoever looks finds the reason in the agent's log."""
import subprocess

from libagent import Agent, Client, Steady
from libcluster import Cluster, WAIT_S, check, expect_error, main, small_disks, wait_for


def each_stall_ends_once(agent):
    """Where this machine stands still there may be more of them than the test makes: each is said once, and so is its end."""
    def is_so():
        return agent.count_lines("gets no answers") == (agent.count_lines("is answered again") +
                                                        agent.count_lines("its requests were given up"))

    wait_for(is_so, "a stall, or its end, was said more than once")


def a_volume_without_nodes_waits_for_ever_and_says_why():
    with Cluster(nodes=3, gateway_args=["--min-replicas", "2", "--node-timeout", "500ms"]) as c:
        c.volume_create("v", "64M")
        with Agent(c) as agent:
            load = Steady(agent)
            load.more(100)
            for node in c.nodes[:2]:
                node.kill()
            said = agent.wait_line(r"volume 'v' gets no answers .*the gateway says: shard \d+ waits for")
            check("storage nodes" in said or "answers" in said, f"no reason in: {said}")
            for index in range(2):
                c.start_node(index, listen=c.addresses[index])
            agent.wait_line(r"volume 'v' is answered again after_ms=\d+")
            load.more(100)
            load.stop()
            each_stall_ends_once(agent)


def error_of_write(client, offset_bytes):
    """Of one that is given up after a while: the next one may be served."""
    client.command(1, offset_bytes, 4096, data=b"b" * 4096)
    return client.error()


def an_error_that_a_client_gets_is_in_the_log():
    """Of stalls their begin and their end, of requests that were given up each, a few a second."""
    with Cluster(nodes=3, gateway_args=["--min-replicas", "2", "--node-timeout", "500ms"]) as c:
        c.volume_create("v", "64M")
        with Agent(c, "--volume", "v", "--io-timeout", "8s") as agent:
            client = Client(agent)
            check(client.go() == 1, "GO")
            wait_for(lambda: error_of_write(client, 4096) == 0, "a write")
            for node in c.nodes[:2]:
                node.kill()
            check(error_of_write(client, 8192) != 0, "a write that nobody could serve")
            line = agent.wait_line("export: a write has failed, its client gets an error .*offset_bytes=8192")
            check("ERROR" in line and "name=v offset_bytes=8192 bytes=4096 rc=-ETIMEDOUT" in line, line)
            check(agent.count_lines("WARN agent: volume 'v' gets no answers") > 0, "its stall was not said")
            agent.wait_line("WARN agent: volume 'v': its requests were given up, nobody has answered")
            first = len(c.gateway.lines)
            for index in range(2):
                c.start_node(index, listen=c.addresses[index])
            for number in (1, 2):  # the gateway asks for them less and less often
                c.gateway.wait_line(f"node {number}: link up", first)
            wait_for(lambda: error_of_write(client, 8192) == 0, "a write when the nodes are back")
            each_stall_ends_once(agent)
            client.s.close()


def others_choose_how_long():
    with Cluster(nodes=3, gateway_args=["--node-timeout", "500ms"]) as c:
        for name in ("v", "w"):
            c.volume_create(name, "64M")
            c.load("--volume", name, "--operations", "100")
        for node in c.nodes:
            node.kill()
        with subprocess.Popen(c.load_argv("--volume", "w", "--operations", "100", "--io-timeout", "0"),
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as patient:
            try:
                expect_error(c.load("--volume", "v", "--operations", "100", "--io-timeout", "2s", check_rc=False),
                             r"no answer in time|timed out", codes=(1,))
                check(patient.poll() is None, "who has for ever waits no longer")
                for index in range(3):
                    c.start_node(index, listen=c.addresses[index])
                check(patient.wait(WAIT_S) == 0, "who has for ever got an error")
            finally:
                patient.kill()


if __name__ == "__main__":
    small_disks()
    main(a_volume_without_nodes_waits_for_ever_and_says_why, an_error_that_a_client_gets_is_in_the_log,
         others_choose_how_long)
