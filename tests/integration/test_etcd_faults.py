#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three members of a real etcd, three gateways and their nodes in network namespaces, under a load that is verified.

Each kind of fault strikes once, with a short lease; those that test_etcd.py, test_network.py and test_release.py have,
too, are left out. More of them, and what users have: tests/rounds.
"""
import time

from libcluster import main
from libfaults import KINDS, STEADY, strike, world

ELSEWHERE = ("leader_killed", "member_killed", "member_stopped", "member_cut_off", "node_killed", "node_stopped",
             "node_cut_off", "gateway_released")


def each_fault_strikes_once():
    with world(lease_ms=3000, nodes=3) as w, w.load:
        w.load.wait_writes(STEADY)
        for kind in KINDS:
            if kind.name in ELSEWHERE:
                continue
            if kind.name == "leader_disk_frozen" and not w.etcd.mounted:
                print("  SKIPPED leader_disk_frozen: a file cannot be mounted as a disk here")
                continue
            started = time.monotonic()
            longest_s, silent_s = strike(w, kind)
            print(f"  {kind.name}: {silent_s:.2f} s without an acknowledgement, longest request {longest_s:.2f} s, of "
                  f"{time.monotonic() - started:.1f} s", flush=True)


main(each_fault_strikes_once)
