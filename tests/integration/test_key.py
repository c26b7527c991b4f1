#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cleave key: Debian's own tools take what it makes; it is killed at any moment, and nothing is half or lost."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

import libkeys
from libcluster import CLUSTER_ID, WAIT_S, binary, check, expect_error, main, run, run_argv, skip

SEED = int(os.environ.get("CLEAVE_TEST_SEED", "1"))


class Authority(libkeys.Authority):
    def issued(self):
        return json.loads(self.key("list", "--json").stdout)["issued"]

    def openssl(self, name, *words):
        return run_argv(["openssl", "verify", "-CAfile", f"{self.ca}/ca.pem", *words, self.at(name)], check_rc=False)


def debians_tools_take_them():
    for tool in ("openssl", "certtool"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    with Authority() as a:
        for subject in ("gateway/1", "node/3", "client/db-1", "admin/ann", "monitor/prometheus"):
            name = subject.replace("/", "-")
            a.key("issue", subject, "--out", a.at(name))
            text = run_argv(["certtool", "--certificate-info", "--infile", a.at(name)]).stdout
            check(f"URI: cleave://{CLUSTER_ID}/{subject}" in text, text)
            check("EdDSA (Ed25519)" in text and "Version: 3" in text, text)
            check(a.openssl(name, "-x509_strict", "-purpose", "sslclient").returncode == 0, f"{subject} as a client")
            is_server = subject.startswith(("gateway", "node"))
            check((a.openssl(name, "-purpose", "sslserver").returncode == 0) == is_server, f"{subject} as a server")
            check(a.openssl(name, "-verify_hostname", "gw1.example").returncode != 0, f"{subject} names no host")
            done = run_argv(["certtool", "--verify", "--load-ca-certificate", f"{a.ca}/ca.pem", "--infile", a.at(name)])
            check("Verified. The certificate is trusted" in done.stdout, done.stdout)
            # Its private key is that of its certificate.
            keys = [run_argv(["openssl", *words, "-in", a.at(name)]).stdout for words in
                    (("x509", "-noout", "-pubkey"), ("pkey", "-pubout"))]
            check(keys[0] == keys[1] and "PUBLIC KEY" in keys[0], f"{keys}")
        # One that is a server somewhere says where.
        a.key("issue", "client/served", "--host", "gw1.example", "--host", "10.0.0.1", "--host", "fd00::1", "--out",
              a.at("served"))
        for _ in range(2):
            for words in (("-verify_hostname", "gw1.example"), ("-verify_ip", "10.0.0.1"), ("-verify_ip", "fd00::1")):
                done = a.openssl("served", "-x509_strict", "-purpose", "sslserver", *words)
                check(done.returncode == 0, f"{words}: {done.stderr}")
            check(a.openssl("served", "-verify_hostname", "gw2.example").returncode != 0, "another host")
            shown = json.loads(a.key("show", a.at("served"), "--json").stdout)
            check(shown["hosts"] == ["gw1.example", "10.0.0.1", "fd00::1"] and shown["problems"] == [], f"{shown}")
            a.key("renew", a.at("served"))
        check(re.search(r"host +gw1\.example\nhost +10\.0\.0\.1\n", a.key("show", a.at("served")).stdout), "for people")
        crl = ("-crl_check", "-CRLfile", f"{a.ca}/revoked.pem")
        check(a.openssl("client-db-1", *crl).returncode == 0, "not revoked")
        a.key("revoke", "client/db-1")
        done = a.openssl("client-db-1", *crl)
        check(done.returncode != 0 and "certificate revoked" in done.stdout + done.stderr, done.stdout + done.stderr)
        check(a.openssl("node-3", *crl).returncode == 0, "another one")
        done = run_argv(["certtool", "--verify-crl", "--load-ca-certificate", f"{a.ca}/ca.pem", "--infile",
                         f"{a.ca}/revoked.pem"])
        check("Verified" in done.stdout, done.stdout)


def they_want_no_key_of_who_types_them():
    """$CLEAVE_KEY may name what is not there any more, or not yet: the authority's commands ask no gateway."""
    os.environ["CLEAVE_KEY"] = "/nowhere/admin.key"
    try:
        with Authority() as a:
            a.key("issue", "client/c", "--out", a.at("c"))
            a.key("revoke", "client/c")
            check(len(a.issued()) == 1, "one was issued")
    finally:
        del os.environ["CLEAVE_KEY"]


def what_is_refused_is_named():
    with Authority() as a:
        expect_error(a.key("init", "--cluster-id", CLUSTER_ID, check_rc=False), "holds something", codes=(1,))
        expect_error(a.key("issue", "root/1", "--out", a.at("k"), check_rc=False), "'root/1' is no subject", codes=(1,))
        expect_error(a.key("issue", "node/1", check_rc=False), "--out FILE is required", codes=(1,))
        expect_error(a.key("issue", "node/1", "--out", a.at("k"), "--host", "gw1:9710", check_rc=False),
                     "--host: 'gw1:9710': a DNS name", codes=(1,))
        expect_error(a.key("issue", "node/1", "--out", a.at("k"), "--days", "3651", check_rc=False),
                     "the authority itself expires in", codes=(1,))
        expect_error(a.key("issue", "node/1", "--out", a.at("no/k"), check_rc=False), "no/k: No such file.*nothing was issued",
                     codes=(1,))
        check(json.loads(a.key("list", "--json").stdout)["issued"] == [], "a serial is listed that nobody has")
        a.key("issue", "node/1", "--out", a.at("k"))
        expect_error(a.key("issue", "node/2", "--out", a.at("k"), check_rc=False), "--replace", codes=(1,))
        expect_error(run("cleave", "key", "list", check_rc=False), "--ca DIR is required", codes=(1,))
        expect_error(run("cleave", "key", "list", "--ca", a.at("no"), check_rc=False), "No such file", codes=(1,))
        os.chmod(a.at("k"), 0o644)
        done = run("cleave", "key", "show", a.at("k"), "--json", check_rc=False)
        shown = json.loads(done.stdout)
        check(done.returncode == 1 and [p["code"] for p in shown["problems"]] == ["mode-open"], f"{shown}")
        os.chmod(a.at("k"), 0o600)
        a.key("revoke", shown["serial"])
        check(run("cleave", "key", "show", a.at("k")).returncode == 0, "the file alone cannot know")
        done = a.key("show", a.at("k"), check_rc=False)
        check(done.returncode == 1 and "it was revoked" in done.stdout, done.stdout)
        done = a.key("renew", a.at("k"), check_rc=False)
        expect_error(done, "it is revoked", codes=(1,))


def nothing_secret_is_printed():
    """What is told, in words and in JSON, has nothing of a private key."""
    with Authority() as a:
        said = [a.key("issue", "node/1", "--out", a.at("k")), a.key("issue", "node/2", "--out", a.at("j"), "--json"),
                a.key("show", a.at("k")), a.key("show", a.at("k"), "--json"), a.key("renew", a.at("j")),
                a.key("list"), a.key("list", "--json"), a.key("revoke", "node/1", "--json")]
        told = "".join(done.stdout + done.stderr for done in said)
        for path in (a.at("k"), a.at("j"), f"{a.ca}/ca.key"):
            with open(path, encoding="ascii") as f:
                secret = f.read().split("PRIVATE KEY-----")[1].split("-----")[0].split()
            check(secret and not any(line in told for line in secret), path)
        check("PRIVATE" not in told, told)


def killed_at_any_moment():
    """A key file is absent or whole, each serial of one is in the list, and the list is one."""
    dice = random.Random(SEED)
    print(f"seed {SEED}")
    with Authority() as a:
        whole = killed = 0
        shortest_s = WAIT_S
        for i in range(3):
            began = time.monotonic()
            a.key("issue", "client/first", "--out", a.at("first"), "--replace")
            shortest_s = min(shortest_s, time.monotonic() - began)
        for i in range(40):
            out = a.at(f"key-{i}")
            began = time.monotonic()
            process = subprocess.Popen([binary("cleave"), "key", "issue", f"node/{i + 1}", "--out", out, "--ca", a.ca],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                process.wait(timeout=dice.uniform(0, 1.2 * shortest_s))
                shortest_s = min(shortest_s, time.monotonic() - began)  # or nobody would be killed
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                killed += process.wait() == -signal.SIGKILL
            listed = {entry["serial"]: entry["subject"] for entry in a.issued()}
            if not os.path.exists(out):
                continue
            whole += 1
            shown = json.loads(a.key("show", out, "--json").stdout)
            check(shown["problems"] == [] and listed.get(shown["serial"]) == f"node/{i + 1}", f"{i}: {shown}")
        print(f"{killed} killed, {whole} files")
        check(killed > 0, "nobody was killed")
        # What was left of them is in nobody's way.
        for i in range(40):
            a.key("issue", f"node/{i + 1}", "--out", a.at(f"key-{i}"), "--replace")
        left = [name for name in os.listdir(a.folder) + os.listdir(a.ca) if name.endswith(".part")]
        check(left == [], f"{left}")


def two_at_once_lose_nothing():
    """Whoever comes while another one works is told so, or waits its turn: each key that was made is in the list."""
    with Authority() as a:
        processes = [subprocess.Popen([binary("cleave"), "key", "issue", f"node/{i + 1}", "--out", a.at(f"k{i}"), "--ca",
                                       a.ca], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                     for i in range(8)]
        done = [(process.communicate()[1], process.returncode) for process in processes]
        made = [i for i, (_, code) in enumerate(done) if code == 0]
        check(made and all(code == 0 or "another cleave key works in it" in text for text, code in done), f"{done}")
        check(sorted(entry["subject"] for entry in a.issued()) == sorted(f"node/{i + 1}" for i in made), f"{done}")


if __name__ == "__main__":
    main(debians_tools_take_them, they_want_no_key_of_who_types_them, what_is_refused_is_named, nothing_secret_is_printed,
         killed_at_any_moment, two_at_once_lose_nothing)
