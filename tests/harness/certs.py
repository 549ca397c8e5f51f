"""Certificates made on the spot by the command openssl, in a scratch folder."""

import os
import shutil
import subprocess

__all__ = ["Authority", "openssl_missing", "tls_config"]

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def openssl_missing():
    """Why tests with certificates cannot run here; "" when they can."""
    if shutil.which("openssl") is None:
        return "openssl is not installed (Debian: apt install openssl)"
    return ""


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, timeout=60,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE)


class Authority:
    """A CA whose certificate is self.ca."""

    def __init__(self, folder, name="test CA"):
        self.folder = str(folder)
        self.ca = self._path("ca.pem")
        openssl("req", "-x509", *KEY, "-keyout", self._path("ca.key"), "-out",
                self.ca, "-days", 2, "-subj", f"/CN={name}")

    def _path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1", days=2):
        """(certificate, key): two files. days < 0: it has expired."""
        cert, key, request = (self._path(f"{name}.{kind}")
                              for kind in ("pem", "key", "csr"))
        openssl("req", *KEY, "-keyout", key, "-out", request, "-subj",
                f"/CN={name}", "-addext", f"subjectAltName={names}")
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey",
                self._path("ca.key"), "-CAcreateserial", "-days", days,
                "-copy_extensions", "copy", "-out", cert)
        return cert, key


def tls_config(port, cert, key, ca, clients="no"):
    """Lines of a redis.conf. clients: no, optional or yes, for their own
    certificates."""
    return [f"tls-port {port}", f"tls-cert-file {cert}",
            f"tls-key-file {key}", f"tls-ca-cert-file {ca}",
            f"tls-auth-clients {clients}"]
