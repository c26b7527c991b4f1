#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A gateway dies, its service manager says so (ExecStopPost), and another gateway has its shards at once."""
import json
import os
import signal
import statistics
import time

from libcluster import (CLUSTER_ID, Cluster, binary, check, expect_error, main, owner_and_heir,
                        run_argv)
from libetcd import Etcd
from libkeys import Authority, Keyed
from libload import Load

# Whatever is waited for here has not waited for a lease.
ARGS = ("--lease-ms", "600000", "--node-timeout", "1s")
ROUNDS = int(os.environ.get("CLEAVE_TEST_ROUNDS", "3"))


def release(argv, check_rc=True):
    """As the unit's ExecStopPost does: the gateway's own options, and --release."""
    return run_argv([*argv, "--release"], check_rc=check_rc)


def kill_and_release(c, load):
    """Seconds from each kill -9 to the first write elsewhere. There is one shard: whoever writes has it."""
    took_s = []
    for _ in range(ROUNDS):
        load.wait_writes(500)
        gone, heir, from_line = owner_and_heir(c)
        started_s = time.monotonic()
        gone.kill()
        text = release(gone.argv).stderr
        heir.wait_line(r"shard 0: serving", from_line=from_line)
        load.wait_writes(1)
        took_s.append(time.monotonic() - started_s)
        check("is gone" in text, text)
        gone.start()
        load.wait_writes(500)
    print(f"  kill -9 to the first write elsewhere, {len(took_s)} times: median "
          f"{statistics.median(took_s):.2f} s, worst {max(took_s):.2f} s")


def two_gateways(**options):
    return Cluster(gateways=2, shards=1, gateway_args=ARGS, **options)


def gateway_on_an_etcd_is_killed():
    with Etcd(1) as etcd, two_gateways(meta=etcd.place) as c, Load(c) as load:
        kill_and_release(c, load)


def gateway_on_a_directory_is_killed():
    with two_gateways() as c, Load(c) as load:
        kill_and_release(c, load)


class Numbered(Keyed):
    """A gateway's number is that in its key."""

    def gateway_argv(self, ports=None, index=0):
        argv = super().gateway_argv(ports, index)
        at = argv.index("--gateway-id")
        return argv[:at] + argv[at + 2:]


def the_number_is_that_of_the_key():
    with Authority() as a, Etcd(1) as etcd:
        for place in ({"meta": etcd.place}, {}):
            with Numbered(a, gateways=2, shards=1, gateway_args=ARGS, **place) as c, Load(c) as load:
                load.wait_writes(100)
                told = json.loads(c.cleave("--json", "gateway", "list").stdout)["gateways"]
                ids = {int(gateway["gateway"], 16) for gateway in told}
                check(ids == {1, 2}, f"{ids}")
                if place:  # it works there as a gateway: who does not say so shortens no history
                    kept = etcd.ctl("get", "", "--prefix")
                    check("gateway 1 on " in kept and "cleave on " not in kept, kept)
                gone = c.gateways[1]
                gone.kill()
                text = release(gone.argv).stderr
                check("gateway 2 is gone" in text, text)
                check(not os.path.exists(os.path.join(c.folder, "meta", "gateway-id")), "another number was made")


def gateway_that_stopped_in_good_order_leaves_nothing():
    with Etcd(1) as etcd, two_gateways(meta=etcd.place) as c:
        c.gateways[0].stop()
        release(c.gateways[0].argv)
        check(etcd.ctl("get", "--prefix", "--keys-only", "/cleave").count("/id/") == 1,
              "its claim is still there")
        release(c.gateways[0].argv)


def keep_what_they_have(c):
    """Running gateways: asked for by mistake, nothing is released."""
    epoch = c.status()["shards"][0]["epoch"]
    for gateway in c.gateways:
        expect_error(release(gateway.argv, check_rc=False), "runs", codes=(1,))
        for _ in range(5):
            gateway.signal(signal.SIGSTOP)
            try:
                result = release(gateway.argv, check_rc=False)
            finally:
                gateway.signal(signal.SIGCONT)
            # It was stopped while it had the lock of its store: then --release gives up.
            if "lock is not given back" not in result.stderr:
                break
        expect_error(result, "runs", codes=(1,))
    check(c.status()["shards"][0]["epoch"] == epoch, "a shard has changed its owner")


def living_gateways_keep_what_they_have():
    with Etcd(1) as etcd, two_gateways(meta=etcd.place) as c:
        keep_what_they_have(c)
        # From another set of processes nothing can be told.
        words = [*c.gateway.argv, "--release"]
        if run_argv(["unshare", "--pid", "--fork", "true"], check_rc=False).returncode == 0:
            c.gateway.kill()
            expect_error(run_argv(["unshare", "--pid", "--fork", "--mount-proc", *words],
                                  check_rc=False), "cannot be told", codes=(1,))
            run_argv(words)
    with two_gateways() as c:
        keep_what_they_have(c)


def what_cannot_work_is_told():
    with Etcd(1) as etcd, two_gateways(meta=etcd.place) as c:
        def refused(*patterns, words, code=2):
            expect_error(run_argv([binary("cleave-gateway"), "--release", *words], check_rc=False),
                         *patterns, codes=(code,))

        refused("--meta", words=())
        refused("--cluster-id HEX is required", words=("--meta", etcd.place, "--gateway-id", "1"))
        refused("--gateway-id", words=("--meta", etcd.place, "--cluster-id", CLUSTER_ID))
        refused("which", words=("--meta", etcd.place, "--create"))
        refused("holds no cluster", words=("--meta", os.path.join(c.folder, "nowhere")), code=1)
        result = run_argv([binary("cleave-gateway"), "--release", "--meta", etcd.place,
                           "--cluster-id", CLUSTER_ID, "--gateway-id", "77"])
        check("nothing to release" in result.stderr, result.stderr)


main(gateway_on_an_etcd_is_killed, gateway_on_a_directory_is_killed,
     gateway_that_stopped_in_good_order_leaves_nothing, living_gateways_keep_what_they_have,
     the_number_is_that_of_the_key, what_cannot_work_is_told)
