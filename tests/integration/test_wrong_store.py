#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A gateway whose metadata store is not the cluster's: it is refused, and what the nodes hold stays."""
import os
import shutil
import signal

from libcluster import (CLUSTER_ID, Cluster, Daemon, Nodes, binary, check, expect_error, main, run_argv,
                        small_disks, wait_for)


def meta(c):
    return os.path.join(c.folder, "meta")


def write(c, name, operations=2000):
    journal = os.path.join(c.folder, name)
    c.load("--volume", "v", "--pattern", "random", "--operations", str(operations), "--in-flight",
           "16", "--journal", journal)
    return journal


def verify(c, journal):
    c.load("--verify-journal", journal, "--volume", "v")


def deleted(c):
    return [line for node in c.nodes for line in node.lines if "deleted" in line] + \
        [line for gateway in c.gateways for line in gateway.lines if "orphan" in line]


def run_alone(argv, check_rc=True):
    """What wants no gateway at the nodes, behind one that was killed: a node reads what that has sent before it reads its
    end."""
    results = []

    def is_alone():
        results.append(run_argv(argv, check_rc=False))
        return "a gateway is connected to node" not in results[-1].stderr

    wait_for(is_alone, "a node counts a gateway that has gone")
    if check_rc:
        check(results[-1].returncode == 0, f"{argv}: {results[-1].stderr}")
    return results[-1]


def store_that_is_gone_is_not_made_anew():
    with Cluster(nodes=3, gateway_args=("--sweep-interval", "1s")) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        c.gateway.stop()
        os.rename(meta(c), meta(c) + ".gone")
        for _ in range(2):
            result = run_argv(c.gateway.argv, check_rc=False)
            expect_error(result, meta(c), "no cluster", "not mounted", "cleave recover",
                         "--create", codes=(1,))
            check(not os.path.exists(meta(c)), "a directory was made")
        # Mounted, and empty: nothing is left in it.
        os.mkdir(meta(c))
        expect_error(run_argv(c.gateway.argv, check_rc=False), "no cluster", codes=(1,))
        check(os.listdir(meta(c)) == [], f"left behind: {os.listdir(meta(c))}")
        os.rmdir(meta(c))
        os.rename(meta(c) + ".gone", meta(c))
        c.gateway.start()
        verify(c, journal)
        check(not deleted(c), f"{deleted(c)}")


def expect_check(c, *said):
    expect_error(run_argv([*c.gateway.argv, "--check-config"], check_rc=False), *said, codes=(1,))


def store_that_is_in_use_is_found_whole():
    with Cluster(nodes=3) as c:
        for i in range(20):
            c.volume_create(f"v{i}", "4M")
            run_argv([*c.gateway.argv, "--check-config"])  # beside the gateway, which goes on
        files = sorted(os.listdir(meta(c)))
        run_argv([*c.gateway.argv, "--check-config"])
        check(sorted(os.listdir(meta(c))) == files, "a check has made something")


def store_that_is_written_over_in_use_ends_its_gateway_with_a_word():
    """LMDB reads it as memory, and asserts what it finds there: nothing that a gateway could go on with."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        file = os.path.join(meta(c), "data.mdb")
        with open(file, "r+b") as f:
            f.write(bytes(os.path.getsize(file)))
        c.cleave("--timeout", "1s", "volume", "create", "w", "--size", "4M", check_rc=False)
        c.gateway.wait_line(f"{file} was written over while it was in use: .*cleave recover")
        check(c.gateway.wait_exit() == 1, "its exit status")
        os.rename(meta(c), meta(c) + ".broken")
        run_alone(recover_argv(c))
        c.gateway.start()
        verify(c, journal)


def store_that_is_broken_says_so_and_is_made_anew():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        c.gateway.stop()
        file, whole = os.path.join(meta(c), "data.mdb"), os.path.join(c.folder, "whole")
        shutil.copyfile(file, whole)
        # Its end is gone: the first two pages say where the others are.
        os.truncate(file, 2 * 4096)
        for argv in (c.gateway.argv, recover_argv(c)):
            expect_error(run_argv(argv, check_rc=False), f"SIGBUS: {file} is shorter than it was", "cleave recover",
                         codes=(-signal.SIGBUS,))
        expect_check(c, "--meta: .*its file was cut off or written over", "cleave recover")
        with open(file, "wb") as f:
            f.write(b"\xa5" * os.path.getsize(whole))
        for argv in (c.gateway.argv, recover_argv(c)):
            expect_error(run_argv(argv, check_rc=False), "is broken: put a whole one in its place", "cleave recover",
                         codes=(1,))
        expect_check(c, "--meta: .*its file was cut off or written over", "cleave recover")
        # Whole at both ends, and a page of it is not what it was.
        with open(whole, "rb") as f:
            pages = bytearray(f.read())
        pages[2 * 4096:] = bytes(len(pages) - 2 * 4096)
        with open(file, "wb") as f:
            f.write(pages)
        expect_check(c, "--meta: .*its file was cut off or written over")
        # One without a byte is none: a check says so as a start does.
        os.truncate(file, 0)
        for words in ((), ("--check-config",)):
            expect_error(run_argv([*c.gateway.argv, *words], check_rc=False), "holds no cluster", codes=(1,))
        run_argv(recover_argv(c))
        c.gateway.start()
        verify(c, journal)


def cluster_is_made_over_empty_nodes_only():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        # Beside the gateway, which does not notice.
        other = os.path.join(c.folder, "other")
        expect_error(run_argv(c.create_argv(other), check_rc=False), "holds a cluster's data",
                     "cleave recover", "format --force", codes=(1,))
        check(not os.path.exists(other), "a directory was made")
        expect_error(run_argv(c.create_argv(), check_rc=False), "holds a cluster already",
                     codes=(1,))
        verify(c, journal)
        c.nodes[2].stop()
        expect_error(run_argv([*c.create_argv(other), "--node-timeout", "5s"], check_rc=False),
                     c.addresses[2], "not reached", codes=(1,))
        c.nodes[2].start()
        verify(c, journal)


def accept_copy(c):
    result = run_argv([*c.gateway.argv, "--accept-copy"])
    check("WARN" in result.stderr and meta(c) in result.stderr, f"not in the log: {result.stderr}")


def accept_old_copy(c):
    """The nodes know better, so it is insisted on."""
    expect_error(run_alone([*c.gateway.argv, "--accept-copy"], check_rc=False),
                 "older than what the nodes hold", "cleave recover", "--force", codes=(1,))
    expect_copy_refused(c.gateway.argv, meta(c))
    result = run_argv([*c.gateway.argv, "--accept-copy", "--force"])
    check("older than what the nodes hold" in result.stderr and "forced" in result.stderr, result.stderr)


def gateway_beside(c, store, name="other"):
    """A second gateway at these nodes, with a metadata store of its own."""
    argv = [word for word in c.gateway.argv]
    argv[argv.index("--meta") + 1] = store
    argv[argv.index("--port") + 1] = "tcp://127.0.0.1:0"
    return Daemon(name, argv)


def second_gateway_with_a_store_of_its_own_is_refused():
    with Cluster(nodes=3, gateway_args=("--sweep-interval", "1s")) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        # No gateway has served from it: that would have written nodes of its own into it within a second, and --node would
        # count no more.
        store = os.path.join(c.folder, "alien")
        with Nodes(nodes=3) as alien:
            run_argv(alien.create_argv(store))
        other = gateway_beside(c, store)
        other.start(wait=False)
        try:
            for address in c.addresses:
                other.wait_line(f"obeys another metadata store address={address}")
            for node in c.nodes:
                node.wait_line("refused, its gateway is of another metadata store")
            # The first one writes on, and notices nothing.
            verify(c, journal)
            second = write(c, "second")
        finally:
            other.stop()
        check(not any("claimed" in line or "orphan" in line for line in other.lines),
              "it has claimed a shard")
        c.gateway.kill()
        c.gateway.start()
        verify(c, second)
        check(not deleted(c), f"{deleted(c)}")


def node_of_another_cluster_is_refused():
    with Cluster(nodes=3) as c, Cluster(nodes=3) as alien:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        # Where the third one was, another cluster's listens now: a mistake in a node's unit.
        c.gateway.stop()
        alien.gateway.stop()
        for cluster in (c, alien):
            cluster.nodes[2].stop()
        own = c.nodes[2].argv
        theirs = list(alien.nodes[2].argv)
        theirs[theirs.index("--listen") + 1] = c.addresses[2]
        wrong = Daemon("node3", theirs).start()
        try:
            wrong.wait_ready()
            c.gateway.start(wait=False)
            c.gateway.wait_line(f"obeys another metadata store address={c.addresses[2]}")
            c.gateway.stop()
        finally:
            wrong.kill()
        c.nodes[2].argv = own
        c.nodes[2].start()
        c.gateway.start()
        verify(c, journal)


def store_that_was_recovered_elsewhere_is_refused():
    with Cluster(nodes=3, shards=2) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        c.gateway.stop()
        os.rename(meta(c), meta(c) + ".old")
        # A node is away while all others learn of the new store.
        c.nodes[2].stop()
        argv = [binary("cleave"), "recover", "--meta", meta(c), "--cluster-id", CLUSTER_ID,
                "--node-timeout", "5s"]
        for address in c.addresses:
            argv += ["--node", address]
        run_argv(argv)
        for node in c.nodes[:2]:
            node.wait_line("a recovered metadata store replaces the one of before")
        old = gateway_beside(c, meta(c) + ".old")
        old.start(wait=False)
        for address in c.addresses[:2]:
            old.wait_line(f"obeys another metadata store address={address}")
        old.stop()
        check(not any("claimed" in line for line in old.lines), "it has claimed a shard")
        c.gateway.start(wait=False)  # it may wait for a copy of the third node
        c.nodes[2].start()
        c.gateway.wait_ready()
        verify(c, journal)
        c.nodes[2].wait_line("a recovered metadata store replaces the one of before")
        second = write(c, "second")
        # What they obey is on their disks.
        for node in c.nodes:
            node.kill()
            node.start()
        verify(c, second)


def old_copy_says_so_and_changes_nothing():
    with Cluster(nodes=3, shards=2) as c:
        c.volume_create("v", "64M")
        c.gateway.stop()
        shutil.copytree(meta(c), meta(c) + ".old")
        c.gateway.start()
        journal = write(c, "journal")
        c.gateway.stop()
        os.rename(meta(c), meta(c) + ".new")
        os.rename(meta(c) + ".old", meta(c))
        accept_old_copy(c)
        # Claim by claim its epochs would come to stand above all that nodes know.
        for attempt in range(3):
            c.gateway.start(wait=False)
            for shard in range(2):
                c.gateway.wait_line(f"shard {shard}: stopped: the metadata store is stale")
            if attempt == 0:  # who waits for it is told, too
                result = c.load("--volume", "v", "--read-percent", "100", "--operations", "1",
                                "--io-timeout", "8s", check_rc=False)
                expect_error(result, "the metadata store is stale", codes=(1,))
            c.gateway.stop()
            lines = c.gateway.lines[c.gateway.first_line:]
            said = [line for line in lines if "stale" in line and "health: store-stale: " not in line]
            check(len(said) == 2, f"said {len(said)} times: {said[:5]}")
            check(all("cleave recover" in line for line in said), f"{said}")
            check(not any("claimed" in line for line in lines), "it has claimed a shard")
        os.rename(meta(c), meta(c) + ".old")
        os.rename(meta(c) + ".new", meta(c))
        c.gateway.start()
        verify(c, journal)


def shards(c):
    return c.whole_status()["shards"]


def recover_argv(c):
    argv = [binary("cleave"), "recover", "--meta", meta(c), "--cluster-id", CLUSTER_ID]
    for address in c.addresses:
        argv += ["--node", address]
    return argv


def written_since_a_copy(c):
    """A copy of the store as META.old, of before volume w was made and written; the journal of that."""
    c.volume_create("v", "64M")
    shutil.copytree(meta(c), meta(c) + ".old")
    c.volume_create("w", "64M")
    journal = os.path.join(c.folder, "journal")
    c.load("--volume", "w", "--pattern", "random", "--operations", "2000", "--journal", journal)
    return journal


def what_was_found_stale_is_recovered():
    """A gateway that gives an old store up has claimed epochs in it before: they say nothing of its age."""
    with Cluster(nodes=3, shards=2) as c:
        journal = written_since_a_copy(c)
        c.gateway.stop()
        shutil.rmtree(meta(c))
        os.rename(meta(c) + ".old", meta(c))
        accept_old_copy(c)
        for _ in range(2):
            expect_error(run_argv(c.gateway.argv, check_rc=False), "run cleave recover", codes=(1,))
        run_argv(recover_argv(c))
        c.gateway.start()
        c.load("--verify-journal", journal, "--volume", "w")


def copy_of_a_store_in_use_is_noticed_by_its_ids():
    """Its epochs pass: no shard has had another owner since. Its next volume would get the blocks of another."""
    with Cluster(nodes=3, shards=2) as c:
        journal = written_since_a_copy(c)
        c.gateway.kill()
        os.rename(meta(c), meta(c) + ".new")
        os.rename(meta(c) + ".old", meta(c))
        accept_old_copy(c)
        # The shards' epochs pass the first time alone; it is as wrong the second time.
        for _ in range(2):
            expect_error(run_argv(c.gateway.argv, check_rc=False), "the metadata store is stale",
                         "next volume", "older copy", "cleave recover", codes=(1,))
        os.rename(meta(c), meta(c) + ".old")
        os.rename(meta(c) + ".new", meta(c))
        run_argv(recover_argv(c))
        c.gateway.start()
        c.load("--verify-journal", journal, "--volume", "w")
        # The old copy, made anew from the nodes, knows all that they do, too.
        c.gateway.stop()
        os.rename(meta(c), meta(c) + ".new")
        os.rename(meta(c) + ".old", meta(c))
        run_argv(recover_argv(c))
        c.gateway.start()
        c.load("--verify-journal", journal, "--volume", "w")


def copy_of_before_a_volume_was_taken_is_noticed():
    """No id was given out since, and no shard has had another owner: but v has, whose writes were acknowledged."""
    with Cluster(nodes=3, shards=2) as c:
        c.volume_create("v", "64M")
        write(c, "before")
        shutil.copytree(meta(c), meta(c) + ".old")
        journal = write(c, "journal")
        c.gateway.kill()
        os.rename(meta(c), meta(c) + ".new")
        os.rename(meta(c) + ".old", meta(c))
        accept_old_copy(c)
        for _ in range(2):
            expect_error(run_argv(c.gateway.argv, check_rc=False), "the metadata store is stale",
                         "volume 'v' was opened since", "cleave recover", codes=(1,))
        run_argv(recover_argv(c))
        c.gateway.start()
        verify(c, journal)


def served(c, address):
    return {shard["shard"] for shard in c.status(address)["shards"] if shard["state"] == "serving"}


def nothing_is_made_in_a_store_that_was_set_back():
    """In the same file, as by a snapshot of its host's disk. Shard 1's epoch passes, shard 0's does not, where the store
    would be compared. A volume that was made got the id of one that the store has forgotten, and was written over it."""
    with Cluster(nodes=3, shards=2, gateways=2) as c:
        store, copy = os.path.join(meta(c), "data.mdb"), os.path.join(c.folder, "copy")
        wait_for(lambda: [len(served(c, at)) for at in c.gateway_addresses] == [1, 1], "a shard each")
        first = 0 if 0 in served(c, c.gateway_addresses[0]) else 1
        shutil.copy(store, copy)
        c.volume_create("w", "128M")
        journal = os.path.join(c.folder, "journal")
        c.load("--volume", "w", "--pattern", "random", "--operations", "2000", "--journal", journal)
        c.gateways[first].stop()
        wait_for(lambda: len(served(c, c.gateway_addresses[1 - first])) == 2, "both are at the other one")
        c.gateways[1 - first].stop()
        with open(copy, "rb") as old, open(store, "r+b") as new:
            new.truncate()
            shutil.copyfileobj(old, new)
        for gateway in c.gateways:
            gateway.start(wait=False)

        def is_refused():
            result = c.cleave("--timeout", "3s", "volume", "create", "x", "--size", "128M", check_rc=False)
            check(result.returncode != 0, "a volume was made in a store that was set back")
            return "older copy" in result.stderr

        wait_for(is_refused, "nothing is made before the store is compared")
        check(c.cleave("volume", "list").returncode == 0, "who looks is answered")
        for gateway in c.gateways:
            gateway.stop()
        run_argv(recover_argv(c))
        for gateway in c.gateways:
            gateway.start()
        c.load("--verify-journal", journal, "--volume", "w")
        c.volume_create("x", "128M")


def expect_copy_refused(argv, folder):
    result = run_argv(argv, check_rc=False)
    expect_error(result, f"{folder} is a copy", "original still runs", "--accept-copy",
                 "cleave recover", codes=(1,))
    check("claimed" not in result.stdout + result.stderr, "it has claimed a shard")


def copy_beside_a_live_gateway_is_refused():
    """Epochs and identity are the original's: without its place it would take every shard."""
    with Cluster(nodes=3, shards=2) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        copy = meta(c) + ".copy"
        shutil.copytree(meta(c), copy)
        owned = [line for line in c.gateway.lines if "claimed" in line]
        epochs = sorted((s["shard"], s["epoch"]) for s in shards(c))
        for extra in ((), ("--gateway-id", "77")):
            expect_copy_refused([*gateway_beside(c, copy).argv, *extra], copy)
        verify(c, journal)
        second = write(c, "second")
        check([line for line in c.gateway.lines if "claimed" in line] == owned, "shards moved")
        check(sorted((s["shard"], s["epoch"]) for s in shards(c)) == epochs, "epochs moved")
        c.gateway.kill()
        expect_copy_refused(gateway_beside(c, copy).argv, copy)
        c.gateway.start()
        verify(c, second)


def copy_is_not_accepted_while_its_original_serves():
    """A gateway that is started with it would take every shard from the ones that run."""
    with Cluster(nodes=3, shards=2) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        copy = meta(c) + ".copy"
        shutil.copytree(meta(c), copy)
        accept = [*gateway_beside(c, copy).argv, "--accept-copy"]
        expect_error(run_argv(accept, check_rc=False), "the original is in use",
                     "a gateway is connected to node", "--take", codes=(1,))
        expect_copy_refused(gateway_beside(c, copy).argv, copy)
        # What cannot be known is not taken for good either.
        for node in c.nodes:
            node.signal(signal.SIGSTOP)
        expect_error(run_argv([*accept, "--node-timeout", "5s"], check_rc=False), "no node answers", "--take", codes=(1,))
        for node in c.nodes:
            node.signal(signal.SIGCONT)
        verify(c, journal)
        text = run_argv([*accept, "--take"]).stderr
        check("a gateway is connected to node" in text and "forced" in text, text)


def copy_put_back_serves_when_it_is_accepted():
    with Cluster(nodes=3, shards=2) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        c.gateway.stop()
        shutil.copytree(meta(c), meta(c) + ".copy")
        shutil.rmtree(meta(c))
        # In one file system a store may be moved; this is a copy all the same.
        os.rename(meta(c) + ".copy", meta(c))
        for _ in range(2):
            expect_copy_refused(c.gateway.argv, meta(c))
        # It knows all that the nodes do, so nothing is to be made anew.
        expect_error(run_argv(recover_argv(c), check_rc=False), "is a copy, and not older",
                     "--accept-copy", codes=(1,))
        argv = list(c.gateway.argv)
        argv[argv.index("--cluster-id") + 1] = "77" * 8
        expect_error(run_argv([*argv, "--accept-copy"], check_rc=False), "cluster-id", codes=(1,))
        expect_copy_refused(c.gateway.argv, meta(c))
        accept_copy(c)
        c.gateway.start()
        verify(c, journal)
        c.gateway.stop()
        result = run_argv([*c.gateway.argv, "--accept-copy"])
        check("nothing to accept" in result.stderr, result.stderr)
        c.gateway.start()
        verify(c, journal)


def moved_store_is_the_same():
    with Cluster(nodes=3, shards=2) as c:
        c.volume_create("v", "64M")
        journal = write(c, "journal")
        c.gateway.stop()
        os.rename(meta(c), meta(c) + ".moved")
        c.gateway.argv[c.gateway.argv.index("--meta") + 1] = meta(c) + ".moved"
        c.gateway.start()
        verify(c, journal)
        c.gateway.stop()
        absent = ["--meta", meta(c), *c.gateway.argv[3:]]
        expect_error(run_argv([c.gateway.argv[0], *absent, "--accept-copy"], check_rc=False),
                     meta(c), "no cluster", codes=(1,))
        check(not os.path.exists(meta(c)), "a directory was made")
        expect_error(run_argv([*c.gateway.argv, "--accept-copy", "--create"], check_rc=False),
                     "--accept-copy", codes=(2,))


if __name__ == "__main__":
    small_disks()
    main(store_that_is_gone_is_not_made_anew, store_that_is_broken_says_so_and_is_made_anew,
         store_that_is_in_use_is_found_whole, store_that_is_written_over_in_use_ends_its_gateway_with_a_word, cluster_is_made_over_empty_nodes_only,
         second_gateway_with_a_store_of_its_own_is_refused, node_of_another_cluster_is_refused,
         store_that_was_recovered_elsewhere_is_refused, old_copy_says_so_and_changes_nothing,
         what_was_found_stale_is_recovered, copy_of_a_store_in_use_is_noticed_by_its_ids,
         copy_of_before_a_volume_was_taken_is_noticed, nothing_is_made_in_a_store_that_was_set_back,
         copy_beside_a_live_gateway_is_refused,
         copy_is_not_accepted_while_its_original_serves, copy_put_back_serves_when_it_is_accepted,
         moved_store_is_the_same)
