#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keys that are revoked and renewed while daemons run: who is cut off, who stays out, and what goes on."""
import json
import os
import shutil
import signal
import subprocess

from libcluster import WAIT_S, binary, check, expect_error, main, run_argv, small_disks, wait_for
from libkeys import Authority, Keyed
from libload import Load


def events(c):
    return [json.loads(line) for line in c.cleave("--json", "events").stdout.splitlines()]


def is_refused(c, key):
    answer = c.cleave_as(key, "--timeout", "5s", "volume", "list")
    return answer.returncode != 0 and "was revoked" in answer.stderr


def reload(daemon, pattern="its key was read again"):
    seen = len(daemon.lines)
    daemon.signal(signal.SIGHUP)
    return daemon.wait_line(pattern, from_line=seen)


def daemons(c):
    return [*c.gateways, *c.nodes]


def put(source, target):
    """As an operator does: beside it, and then in its place."""
    shutil.copy(source, target + ".new")
    os.rename(target + ".new", target)


def a_revoked_client_is_cut_off_and_stays_out():
    with Authority() as a, Keyed(a, gateways=2) as c:
        key, other = a.issue("client/db1"), a.issue("client/db2")
        c.volume_create("db-1", "64M")
        c.cleave("user", "add", "db1", "db-*:rw")
        c.cleave("user", "add", "db2", "db-*:r")
        wait_for(lambda: "db-1" in c.cleave_as(key, "volume", "list").stdout, "the right is not there")
        load = subprocess.Popen(c.load_argv_as(key, "--volume", "db-1", "--seconds", "600", "--quiet",
                                        "--io-timeout", "20s"),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            wait_for(lambda: "holder" in c.cleave("--json", "volume", "show", "db-1").stdout, "the load has not come")
            told = c.cleave("key", "publish", a.revoke("client/db1")).stdout
            check("the cluster has it" in told, told)
            for gateway in c.gateways:
                gateway.wait_line("audit: a list of revoked keys has come")
            wait_for(lambda: any(event["code"] == "key-cut" and "client/db1" in event["text"] for event in events(c)),
                     "no event tells of the end")
            wait_for(lambda: is_refused(c, key), "it is let in again")
            check("already" in c.cleave("key", "publish", a.revoke()).stdout, "the same list again")
            said, _ = load.communicate(timeout=WAIT_S)
        finally:
            load.kill()
        check(load.returncode == 1 and "was revoked" in said, f"{load.returncode} {said}")
        check("db-1" in c.cleave_as(other, "volume", "list").stdout, "another client is out as well")
        for daemon in daemons(c):
            daemon.stop()
        for daemon in [*c.nodes, *c.gateways]:
            daemon.start()
        check(is_refused(c, key), "it is let in after a restart")
        check("db-1" in c.cleave_as(other, "volume", "list").stdout, "another client is out after a restart")


def lists_that_are_not_the_newest_of_ours_are_refused():
    with Authority() as a, Authority() as alien, Keyed(a) as c:
        old = a.at("old.pem")
        a.issue("admin/test2"), a.issue("admin/test3")
        shutil.copy(a.revoke("admin/test2"), old)
        c.cleave("key", "publish", a.revoke("admin/test3"))
        expect_error(c.cleave("key", "publish", old, check_rc=False), f"{old}: a list of revoked keys is number 1, and number 2 is known")
        alien.issue("client/x")
        expect_error(c.cleave("key", "publish", alien.revoke("client/x"), check_rc=False), "of another authority")
        with open(a.at("garbage"), "w") as f:
            f.write("no list\n")
        expect_error(c.cleave("key", "publish", a.at("garbage"), check_rc=False), "garbage: it is no list of revoked keys")
        expect_error(c.cleave("key", "publish", "/dev/full", check_rc=False), "/dev/full: it is no regular file")
        expect_error(c.cleave("key", "publish", a.at("none"), check_rc=False), "No such file")
        expect_error(c.cleave_as(a.issue("monitor/m"), "key", "publish", a.revoke("admin/test2")), "may not")
        # A client that has the list refuses a gateway on it.
        listed = a.revoke("gateway/1")
        expect_error(c.cleave("--revoked", listed, "status", check_rc=False), "gateway/1 was revoked")
        check(c.cleave("--revoked", old, "status").returncode == 0, "it is on no list")


def an_old_folder_of_the_authority_gives_nobody_back():
    """Put back from a copy and counted on, its list has a higher number, and lacks who was revoked since."""
    with Authority() as a, Keyed(a, gateways=2) as c:
        shutil.copytree(a.ca, a.at("copy"))
        key = a.issue("client/db1")  # the copy knows nothing of it
        c.cleave("key", "publish", a.revoke("client/db1"))
        for node in c.nodes:
            node.wait_line("lists of revoked keys are kept")
        shutil.rmtree(a.ca)
        shutil.copytree(a.at("copy"), a.ca)
        a.issue("client/x"), a.issue("client/y")
        serial = a.serial("client/db1")
        newer = a.revoke("client/x", "client/y")
        expect_error(c.cleave("key", "publish", newer, check_rc=False), "lacks 1 key that was revoked before", serial,
                     "cleave key adopt", "--force")
        told = c.cleave("key", "publish", "--force", newer).stdout
        check("the cluster has it" in told, told)
        forced = [event["text"] for event in events(c) if "forced, that lacks 1" in event["text"]]
        check(forced and serial in forced[0] and "admin/test" in forced[0], f"{events(c)}")
        check(is_refused(c, key), "it was given back")
        for daemon in daemons(c):
            daemon.stop()
        for daemon in [*c.nodes, *c.gateways]:
            daemon.start()
        check(is_refused(c, key), "it was given back by a restart")
        for _ in range(2):
            a.key("adopt", os.path.join(c.folder, "revoked-1.pem"))
        check(serial in a.key("list").stdout, "the folder does not know it")
        told = c.cleave("key", "publish", a.revoke()).stdout
        check("the cluster has it" in told, told)
        check("already" in c.cleave("key", "publish", a.revoke("client/x")).stdout, "counted up where none was revoked")
        check(is_refused(c, key) and is_refused(c, a.issue("client/y")), "the folder's list lacks one")


def recover(c, a, command=("cleave", "recover"), dump="", key=None):
    words = [word for address in c.addresses for word in ("--node", address)]
    argv = [binary(command[0]), *command[1:], "--meta", os.path.join(c.folder, "meta"), "--cluster-id", a.cluster_id,
            "--key", key or a.issue("gateway/1"), *words]
    return run_argv(argv, stdin_text=dump).stderr


def a_lost_store_gives_nobody_back():
    """The nodes have the list, each in its file; what they have is in the store that is made of them."""
    with Authority() as a, Keyed(a) as c:
        key = a.issue("client/db1")
        c.gateway.stop()
        shutil.rmtree(os.path.join(c.folder, "meta"))
        told = recover(c, a)
        check("no node has a list of revoked keys" in told and "cleave key publish" in told, told)
        c.gateway.start()
        c.cleave("key", "publish", a.revoke("client/db1"))
        for node in c.nodes:
            node.wait_line("lists of revoked keys are kept")
        for daemon in daemons(c):
            daemon.stop()
        for node in c.nodes:
            node.start()
        shutil.rmtree(os.path.join(c.folder, "meta"))
        told = recover(c, a)
        check("lists of revoked keys are those of the nodes" in told, told)
        c.gateway.start()
        check(is_refused(c, key), "it is let in again")


def an_old_dump_gives_nobody_back():
    with Authority() as a, Keyed(a) as c:
        key = a.issue("client/db1")
        c.volume_create("v", "64M")
        dump = run_argv([binary("cleave"), "meta", "dump", "--meta", os.path.join(c.folder, "meta"), "--key",
                         a.issue("gateway/1")]).stdout
        c.cleave("key", "publish", a.revoke("client/db1"))
        for node in c.nodes:
            node.wait_line("lists of revoked keys are kept")
        c.gateway.stop()
        shutil.rmtree(os.path.join(c.folder, "meta"))
        told = recover(c, a, ("cleave", "meta", "load"), dump)
        check("lists of revoked keys are those of the nodes" in told, told)
        c.gateway.start()
        check(is_refused(c, key), "it is let in again")


def a_list_of_an_authority_that_a_recovery_does_not_know_stays():
    """Its key has one authority, and the store the lists of two."""
    with Authority() as a, Authority() as b, Keyed(a) as c:
        known, key = a.at("known.key"), b.issue("client/db1")
        shutil.copy(a.issue("gateway/1"), known)
        for subject in ("gateway/1", "node/1", "node/2", "node/3"):
            with open(os.path.join(b.ca, "ca.pem"), "rb") as new, open(a.issue(subject), "ab") as f:
                f.write(new.read())
        for daemon in daemons(c):
            reload(daemon)
        with open(os.path.join(a.ca, "ca.pem"), "rb") as other, open(key, "ab") as f:
            f.write(other.read())
        check(not is_refused(c, key), "its authority is not known yet")
        a.issue("client/x")
        c.cleave("key", "publish", a.revoke("client/x"))
        c.cleave("key", "publish", b.revoke("client/db1"))
        check(is_refused(c, key), "it is let in")
        c.gateway.stop()
        for node in c.nodes:  # none has a list any more
            node.stop()
        for number in (1, 2, 3):
            os.unlink(os.path.join(c.folder, f"revoked-{number}.pem"))
        for node in c.nodes:
            node.start()
        told = recover(c, a, ("cleave", "recover", "--force"), key=known)
        check("not all of an authority that this key knows" in told, told)
        c.gateway.start()
        check(is_refused(c, key), "it is let in again")


def of_an_old_copy_it_is_told():
    with Authority() as a, Keyed(a) as c:
        meta, copy = os.path.join(c.folder, "meta"), os.path.join(c.folder, "copy")
        a.issue("client/db1")
        c.gateway.stop()
        shutil.copytree(meta, copy)
        c.gateway.start()
        c.cleave("key", "publish", a.revoke("client/db1"))
        for node in c.nodes:
            node.wait_line("lists of revoked keys are kept")
        c.gateway.stop()
        shutil.rmtree(meta)
        os.rename(copy, meta)
        told = recover(c, a, ("cleave-gateway", "--accept-copy", "--force"))
        check("nodes have lists of revoked keys that the copy lacks" in told and "cleave key publish" in told, told)


def who_serves_is_not_revoked_without_a_word():
    with Authority() as a, Keyed(a) as c:
        c.volume_create("v", "64M")
        for subject, words in (("node/2", "node/2 is on the list, and connected"),
                               ("gateway/1", "gateway/1, the gateway that was asked, is on the list")):
            expect_error(c.cleave("key", "publish", a.revoke(subject), check_rc=False), words, "--force")
        c.load("--volume", "v", "--operations", "100")
        check(not any(event["code"] == "keys-revoked" for event in events(c)), "a list was taken")
        for daemon, subject in ((c.gateways[0], "gateway/1"), (c.nodes[1], "node/2")):
            a.key("issue", subject, "--out", a.issue(subject), "--replace")
            reload(daemon)
        # Both have other keys now, and the connections are those of the keys before.
        expect_error(c.cleave("key", "publish", a.revoke(), check_rc=False), "node/2 is on the list, and connected")
        told = c.cleave("key", "publish", "--force", a.revoke()).stdout
        check("the cluster has it" in told, told)
        c.load("--volume", "v", "--operations", "100")


def a_revoked_gateway_is_refused_by_nodes_alone():
    with Authority() as a, Keyed(a, gateways=2) as c:
        with Load(c, size="64M") as load:
            load.wait_writes(200)
            c.cleave("key", "publish", "--force", a.revoke("gateway/2"))  # the other one may be connected
            for node in c.nodes:
                node.wait_line("audit: closed a connection .*gateway/2 was revoked")
                node.wait_line("lists of revoked keys are kept")
            c.gateways[1].wait_line("its own key was revoked")
            c.gateways[1].wait_line("cannot be reached .*gateway/2 was revoked")
            c.gateways[1].kill()
            load.wait_writes(200)  # the other one has its shards
        # Nobody who knows it is there but the nodes, and they were started again.
        c.gateways[0].stop()
        for node in c.nodes:
            node.stop()
            node.start()
        c.gateways[1].start(wait=False)
        for node in c.nodes:
            node.wait_line("refused a connection .*gateway/2 was revoked")
        c.gateways[1].kill()


def renewed_keys_are_used_without_a_restart():
    with Authority() as a, Keyed(a, gateways=2) as c:
        with Load(c, size="64M") as load:
            load.wait_writes(200)
            subjects = [f"gateway/{i}" for i in (1, 2)] + [f"node/{i}" for i in (1, 2, 3)]
            old = {subject: a.serial(subject) for subject in subjects}
            bad = c.gateways[0]
            path = a.issue("gateway/1")
            shutil.copy(path, path + ".good")
            for source, words in ((a.issue("gateway/2"), "gateway/2 is not gateway 1"),
                                  (a.issue("client/x"), "client/x is no gateway"),
                                  (os.devnull, "cannot be read")):
                put(source, path)
                os.chmod(path, 0o600)
                reload(bad, f"its key was not read again, the one before stays: .*{words}")
            put(path + ".good", path)
            for subject in subjects:
                a.key("renew", a.issue(subject))
                check(a.serial(subject) != old[subject], "the same serial")
            for daemon in daemons(c):
                reload(daemon)
            load.wait_writes(200)
            # Who has the old keys is out, and those that have the new ones are in, also when they come anew.
            c.cleave("key", "publish", "--force", a.revoke(*old.values()))
            for node in c.nodes:
                node.wait_line("audit: a list of revoked keys has come")
            load.wait_writes(500)
            check(c.cleave("status", check_rc=False).returncode != 2, "no status")


def an_authority_replaces_another():
    with Authority() as a, Authority() as b, Keyed(a, gateways=2) as c:
        with Load(c, size="64M") as load:
            load.wait_writes(200)
            with open(os.path.join(b.ca, "ca.pem"), "rb") as f:
                new = f.read()
            with open(os.path.join(a.ca, "ca.pem"), "rb") as f:
                before = f.read()
            subjects = [f"gateway/{i}" for i in (1, 2)] + [f"node/{i}" for i in (1, 2, 3)]
            everybody = [*subjects, "admin/test"]
            # First all believe both; then all have keys of the new one; then the old one goes.
            for subject in [*everybody, "monitor/old"]:
                with open(a.issue(subject), "ab") as f:
                    f.write(new)
            for daemon in daemons(c):
                reload(daemon)
            for subject in everybody:
                with open(b.issue(subject), "ab") as f:
                    f.write(before)
                put(b.issue(subject), a.issue(subject))
            for daemon in daemons(c):
                reload(daemon)
            load.wait_writes(200)
            check(c.cleave_as(a.issue("monitor/old"), "status").returncode != 2, "a key of the old one is refused")
            b.issue("node/4")
            c.cleave("key", "publish", b.revoke("node/4"))
            for node in c.nodes:
                node.wait_line("audit: a list of revoked keys has come")
            load.wait_writes(200)
        for subject in everybody:
            os.unlink(b.issue(subject))
            put(b.issue(subject), a.issue(subject))
        for daemon in daemons(c):
            reload(daemon)
        expect_error(c.cleave_as(a.issue("monitor/old"), "status"), "of another authority")
        c.load("--volume", "v", "--take", "--operations", "100")


small_disks()
main(a_revoked_client_is_cut_off_and_stays_out, who_serves_is_not_revoked_without_a_word,
     lists_that_are_not_the_newest_of_ours_are_refused,
     an_old_folder_of_the_authority_gives_nobody_back, a_lost_store_gives_nobody_back,
     an_old_dump_gives_nobody_back, of_an_old_copy_it_is_told,
     a_list_of_an_authority_that_a_recovery_does_not_know_stays,
     a_revoked_gateway_is_refused_by_nodes_alone, renewed_keys_are_used_without_a_restart,
     an_authority_replaces_another)
