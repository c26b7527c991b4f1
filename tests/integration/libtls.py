# SPDX-License-Identifier: Apache-2.0
"""An authority of certificates for one test, made by GnuTLS' certtool.

    certificates = Certificates(folder)
    certificates.ca, .server, .client       # PEM; a key is at PATH.key
    certificates.of("named", cn="somebody") # another one of the same authority
"""
import os
import shutil
import subprocess

from libcluster import check, skip

DAYS = 2


class Certificates:
    def __init__(self, folder):
        if shutil.which("certtool") is None:
            skip("there is no certtool")
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.ca = self._make("ca", ["cn = a test's authority", "ca", "cert_signing_key"],
                             ["--generate-self-signed"])
        # etcd's own gateway from HTTP to gRPC is a client of it, and shows the server's.
        self.server = self.of("server", "ip_address = 127.0.0.1", "tls_www_server")
        self.client = self.of("client")

    def _make(self, name, lines, how):
        path = os.path.join(self.folder, name)
        with open(path + ".template", "w", encoding="ascii") as file:
            file.write("\n".join([f"expiration_days = {DAYS}", "organization = cleave", *lines, ""]))
        for argv in (["certtool", "--generate-privkey", "--key-type", "ecdsa", "--outfile",
                      path + ".key"],
                     ["certtool", *how, "--load-privkey", path + ".key", "--template",
                      path + ".template", "--outfile", path]):
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            check(done.returncode == 0, f"{argv}: {done.stderr}")
        return path

    def of(self, name, *lines):
        """A certificate of this authority that a client may show; its path."""
        return self._make(name, ["signing_key", "tls_www_client", *lines],
                          ["--generate-certificate", "--load-ca-certificate", self.ca,
                           "--load-ca-privkey", self.ca + ".key"])

    def server_args(self):
        return ["--cert-file", self.server, "--key-file", self.server + ".key", "--trusted-ca-file",
                self.ca, "--client-cert-auth"]

    def etcdctl_args(self):
        return ["--cacert", self.ca, "--cert", self.client, "--key", self.client + ".key"]

    def gateway_args(self):
        return ["--meta-ca", self.ca, "--meta-cert", self.client, "--meta-key", self.client + ".key"]
