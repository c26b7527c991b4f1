# SPDX-License-Identifier: Apache-2.0
"""A cluster in which everybody has a key, made by cleave key.

    with Authority() as a, Keyed(a) as c:       # node/1 ..., gateway/1 ..., and clients have client/test
        c.load("--volume", "v", ...)
        c.cleave_as(a.issue("monitor/m"), "status")
"""
import json
import os
import shutil
import tempfile

from libcluster import CLUSTER_ID, Cluster, binary, run, run_argv


class Authority:
    """A folder with an authority in it, and room for keys beside it."""

    def __init__(self, cluster_id=CLUSTER_ID):
        self.cluster_id = cluster_id

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="cleave-test-")
        self.ca = os.path.join(self.folder, "ca")
        self.key("init", "--cluster-id", self.cluster_id)
        return self

    def __exit__(self, kind, value, trace):
        shutil.rmtree(self.folder)
        return False

    def key(self, *words, check_rc=True):
        return run("cleave", "key", *words, "--ca", self.ca, check_rc=check_rc)

    def at(self, name):
        return os.path.join(self.folder, name)

    def kek(self):
        """The path of a KEK, made the first time."""
        if not os.path.exists(self.at("kek")):
            run("cleave", "key", "kek", self.at("kek"))
        return self.at("kek")

    def revoke(self, *subjects):
        """The path of the list, which has them."""
        for subject in subjects:
            self.key("revoke", subject)
        return os.path.join(self.ca, "revoked.pem")

    def serial(self, subject):
        return json.loads(run("cleave", "--json", "key", "show", self.issue(subject)).stdout)["serial"]

    def issue(self, subject, *hosts):
        """The path of its key, made the first time."""
        path = self.at(subject.replace("/", "-") + ".key")
        if not os.path.exists(path):
            self.key("issue", subject, "--out", path, *[word for host in hosts for word in ("--host", host)])
        return path


class Keyed(Cluster):
    def __init__(self, authority, **more):
        super().__init__(**more)
        self.authority = authority
        self.client_key = authority.issue("admin/test")

    def start_node(self, index, listen=None):
        usual = self.node_args
        self.node_args = [*usual, "--revoked", os.path.join(self.folder, f"revoked-{index + 1}.pem"),
                          "--key", self.authority.issue(f"node/{index + 1}")]
        try:
            return super().start_node(index, listen)
        finally:
            self.node_args = usual

    def gateway_argv(self, ports=None, index=0):
        return [*super().gateway_argv(ports, index), "--key",
                self.authority.issue(f"gateway/{index + 1}")]

    def create_argv(self, meta=None):
        return [*super().create_argv(meta), "--key", self.authority.issue("gateway/1")]

    def gateway_words(self):
        return [*super().gateway_words(), "--key", self.client_key]

    def status(self, address=None):
        if address is None:
            return super().status()
        argv = [binary("cleave"), "--gateway", address, "--key", self.client_key, "--json", "status"]
        return json.loads(run_argv(self.at_client(argv), check_rc=False).stdout)  # not well: 1

    def load_argv_as(self, key, *words):
        """The command line of a load of a client with another key."""
        usual, self.client_key = self.client_key, key
        try:
            return self.load_argv(*words)
        finally:
            self.client_key = usual

    def cleave_as(self, key, *words):
        """Of a client with another key; None: with none. Whatever comes of it."""
        more = [] if key is None else ["--key", key]
        return run_argv([binary("cleave"), *Cluster.gateway_words(self), *more, *words],
                        check_rc=False)
