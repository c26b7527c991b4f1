#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may use an etcd: certificates, users, tokens that expire; what is refused is told in one line."""
import os
import re
import tempfile

from libcluster import CLUSTER_ID, Cluster, binary, check, expect_error, main, run_argv
from libetcd import Etcd
from libload import Load
from libtls import Certificates

# A machine that stands still for a second or two costs no lease; what is waited for lasts longer than one.
LEASE_S = 9
FAST = ("--gateway-id", "1", "--lease-ms", f"{1000 * LEASE_S}")
TOKEN_S = 2


def refused(c, words, *patterns, code=1):
    """A gateway with these words about its store ends, and its last line says why."""
    argv = [binary("cleave-gateway"), "--gateway-id", "9", "--cluster-id", CLUSTER_ID, "--port",
            "tcp://127.0.0.1:0", *words]
    for index, address in enumerate(c.addresses):
        argv += ["--node", f"{address},domain=rack{index + 1}"]
    result = run_argv(argv, check_rc=False)
    expect_error(result, *patterns, codes=(code,))
    errors = [line for line in result.stderr.splitlines() if "ERROR gateway:" in line]
    check(len(errors) == 1, result.stderr)
    for pattern in patterns:
        check(re.search(pattern, errors[0], re.I), f"no '{pattern}' in {errors[0]}")


def certificates_are_shown_and_checked():
    with tempfile.TemporaryDirectory(prefix="cleave-test-") as folder:
        ours, others = Certificates(os.path.join(folder, "ours")), \
            Certificates(os.path.join(folder, "others"))
        named = ours.of("named", "cn = somebody")
        with Etcd(1, tls=ours) as etcd, Cluster(
                meta=etcd.place, meta_args=ours.gateway_args(), gateway_args=FAST) as c:
            with Load(c) as load:
                load.wait_writes(1000)
                c.gateway.kill()
                c.gateway.start()
                load.wait_writes(1000)

            def words(*args, place=etcd.place):
                return ["--meta", place, *args]

            shown = ["--meta-cert", ours.client, "--meta-key", ours.client + ".key"]
            refused(c, words("--meta-ca", others.ca, *shown), "certificate")
            refused(c, words(*shown), "certificate")
            refused(c, words("--meta-ca", ours.ca), "certificate")
            refused(c, words("--meta-ca", ours.ca, "--meta-cert", others.client, "--meta-key",
                             others.client + ".key"), "certificate")
            refused(c, words("--meta-ca", os.path.join(folder, "none"), *shown), "none")
            refused(c, words("--meta-ca", ours.ca, "--meta-cert", os.path.join(folder, "none"),
                             "--meta-key", ours.client + ".key"), "none")
            # An etcd with users takes no certificate that names one, since it would not count.
            password = os.path.join(folder, "password")
            with open(password, "w", encoding="ascii") as file:
                file.write("secret\n")
            for each in (("user", "add", "root:secret"), ("user", "grant-role", "root", "root"),
                         ("auth", "enable")):
                etcd.ctl(*each)
            refused(c, words("--meta-ca", ours.ca, "--meta-cert", named, "--meta-key",
                             named + ".key", "--meta-user", "root", "--meta-password-file",
                             password), "CommonName")


def tokens_that_expire_are_asked_for_again():
    """Under a load; and a user without the role is told what it lacks."""
    with tempfile.TemporaryDirectory(prefix="cleave-test-") as folder:
        secret = os.path.join(folder, "secret")
        with open(secret, "w", encoding="ascii") as file:
            file.write("a secret of all members\n")
        password = os.path.join(folder, "password")
        with open(password, "w", encoding="ascii") as file:
            file.write("of cleave\n")
        token = f"jwt,priv-key={secret},sign-method=HS256,ttl={TOKEN_S}s"
        with Etcd(3, ["--auth-token", token, "--bcrypt-cost", "4"]) as etcd:
            prefix = f"/cleave/{CLUSTER_ID}/"
            for words in (("user", "add", "root:secret"), ("user", "grant-role", "root", "root"),
                          ("user", "add", "cleave:of cleave"), ("role", "add", "cleave"),
                          ("role", "grant-permission", "cleave", "readwrite", "--prefix", prefix),
                          ("user", "grant-role", "cleave", "cleave"),
                          ("user", "add", "other:of cleave"), ("auth", "enable")):
                etcd.ctl(*words)
            user = ["--meta-user", "cleave", "--meta-password-file", password]
            with Cluster(meta=etcd.place, meta_args=user, gateway_args=FAST) as c:
                with Load(c, "--rate", "1000") as load:
                    load.wait_writes(1000 * (TOKEN_S + 2 * LEASE_S))
                check(c.gateway.count_lines("lost its lease") == 0, "a token's end cost the lease")
                user[1] = "other"
                refused(c, ["--meta", etcd.place, *user], "user other needs a role", prefix)


def write_password(file, text):
    """As an operator does: beside it, and then in its place."""
    with open(file + ".new", "w", encoding="ascii") as new:
        new.write(text + "\n")
    os.rename(file + ".new", file)


def change_password(etcd, user, text):
    with tempfile.TemporaryFile() as stdin:
        stdin.write((text + "\n").encode())
        stdin.seek(0)
        etcd.ctl("--user", "root:secret", "user", "passwd", user, "--interactive=false", stdin=stdin)


def a_password_that_is_changed_is_read_anew():
    """Under a load: first in the file, then in the etcd; and the other way round."""
    with tempfile.TemporaryDirectory(prefix="cleave-test-") as folder, Etcd(3, ["--bcrypt-cost", "4"]) as etcd:
        password = os.path.join(folder, "password")
        write_password(password, "first")
        for words in (("user", "add", "root:secret"), ("user", "grant-role", "root", "root"),
                      ("user", "add", "cleave:first"), ("role", "add", "cleave"),
                      ("role", "grant-permission", "cleave", "readwrite", "--prefix", f"/cleave/{CLUSTER_ID}/"),
                      ("user", "grant-role", "cleave", "cleave"), ("auth", "enable")):
            etcd.ctl(*words)
        with Cluster(meta=etcd.place, gateway_args=FAST,
                     meta_args=["--meta-user", "cleave", "--meta-password-file", password]) as c:
            with Load(c, "--rate", "1000") as load:
                load.wait_writes(1000)
                write_password(password, "second")
                change_password(etcd, "cleave", "second")
                c.gateway.wait_line("the password was read anew")
                load.wait_writes(1000 * 2 * LEASE_S)
                check(c.gateway.count_lines("lost its lease") == 0, "a new password cost the lease")
                change_password(etcd, "cleave", "third")
                c.gateway.wait_line(f"authentication failed.*{password}")
                write_password(password, "third")
                load.wait_writes(1000)
            write_password(password, "fourth")
            refused(c, ["--meta", etcd.place, "--meta-user", "cleave", "--meta-password-file", password],
                    "user cleave", "authentication failed", password)


main(certificates_are_shown_and_checked, tokens_that_expire_are_asked_for_again,
     a_password_that_is_changed_is_read_anew)
