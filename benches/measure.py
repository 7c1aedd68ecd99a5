#!/usr/bin/env python3
"""Measures kindom beside kube-apiserver and etcd: the start, the memory, and 100 registrations.

It builds both servers first (kube-apiserver takes minutes of Go) unless KINDOM_BIN and KUBE_APISERVER name them, and needs
openssl and an etcd: the one that KINDOM_ETCD names, else the one on PATH. Each round starts kindom, and then kube-apiserver
with its etcd and the flags that envtest gives them, in folders of their own, and ends them. It prints the medians of the rounds.

    python3 benches/measure.py [ROUNDS]
"""

import http.client
import json
import os
import pathlib
import platform
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
KINDOM = pathlib.Path(os.environ.get("KINDOM_BIN", TARGET / "release/kindom"))
KUBE_APISERVER = pathlib.Path(os.environ.get("KUBE_APISERVER", ROOT / ".test/bin/kube-apiserver"))
ETCD = os.environ.get("KINDOM_ETCD", "etcd")
TYPES = 100
TOKEN = "measure"
STUCK = 120
WIDGETS = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["colour"],
            "properties": {
                "colour": {"type": "string", "enum": ["red", "green", "blue"]},
                "size": {"type": "integer", "minimum": 1, "maximum": 100, "default": 1},
            },
        },
    },
}


def build():
    if "KINDOM_BIN" not in os.environ:
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "kindom-server"], cwd=ROOT, check=True)
    if "KUBE_APISERVER" not in os.environ:
        subprocess.run([ROOT / "integration/kube-apiserver/build", KUBE_APISERVER], check=True)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """Processes that end with the block, and a connection to the one that serves HTTPS."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        self.connection = None
        (folder / "tokens").write_text(f"{TOKEN},admin,1,system:masters\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.kill()
            process.wait()

    def run(self, *command):
        with open(self.folder / f"{len(self.processes)}.log", "w") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def request(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        try:
            self.connection.request(method, path, body and json.dumps(body), headers)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            return None, b""

    def until(self, status, path):
        """Asks every 2 ms until the answer has this status."""
        limit = time.monotonic() + STUCK
        while (found := self.request("GET", path)[0]) != status:
            if time.monotonic() > limit or any(p.poll() is not None for p in self.processes):
                logs = "\n".join(log.read_text()[-2000:] for log in sorted(self.folder.glob("*.log")))
                raise RuntimeError(f"{path}: {found}\n{logs}")
            time.sleep(0.002)

    def memory(self):
        """The resident memory of all processes in MiB."""
        total = 0
        for process in self.processes:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            total += int(status.split("VmRSS:")[1].split()[0])
        return total / 1024

    def connect(self, port, tls):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.connection = (
            http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=STUCK)
            if tls
            else http.client.HTTPConnection("127.0.0.1", port, timeout=STUCK)
        )


def kindom(server):
    port = free_port()
    server.run(
        *[KINDOM, "serve", f"--secure-port={port}", f"--data-dir={server.folder / 'data'}"],
        f"--token-auth-file={server.folder / 'tokens'}",
    )
    server.connect(port, tls=True)


def kube_apiserver(server):
    clients, peers, port = free_port(), free_port(), free_port()
    server.run(
        *[ETCD, f"--data-dir={server.folder / 'etcd'}", "--unsafe-no-fsync"],
        *[f"--{kind}-client-urls=http://127.0.0.1:{clients}" for kind in ("listen", "advertise")],
        f"--listen-peer-urls=http://127.0.0.1:{peers}",
    )
    server.connect(clients, tls=False)
    server.until(200, "/health")
    key = server.folder / "sa.key"
    server.run(
        *[KUBE_APISERVER, f"--etcd-servers=http://127.0.0.1:{clients}", f"--secure-port={port}"],
        *["--bind-address=127.0.0.1", f"--cert-dir={server.folder / 'pki'}", "--service-cluster-ip-range=10.0.0.0/24"],
        *["--allow-privileged=true", "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount"],
        *[f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"],
        *["--service-account-issuer=https://127.0.0.1/", f"--token-auth-file={server.folder / 'tokens'}"],
    )
    server.connect(port, tls=True)


def register(server):
    for i in range(TYPES):
        plural, kind = f"widgets{i}", f"Widget{i}"
        spec = {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": WIDGETS}}],
        }
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.example.com"},
            "spec": spec,
        }
        status, body = server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        if status != 201:
            raise RuntimeError(f"{status}: {body}")
    for i in range(TYPES):
        server.until(200, f"/apis/example.com/v1/namespaces/default/widgets{i}")


def measured(start):
    with tempfile.TemporaryDirectory() as folder, Server(pathlib.Path(folder)) as server:
        command = ["openssl", "genrsa", "-out", server.folder / "sa.key", "2048"]
        subprocess.run(command, check=True, capture_output=True)
        begin = time.monotonic()
        start(server)
        server.until(200, "/readyz")
        ready = time.monotonic() - begin
        empty = server.memory()
        begin = time.monotonic()
        register(server)
        return ready, empty, time.monotonic() - begin, server.memory()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    build()
    results = {kindom: [], kube_apiserver: []}
    for _ in range(rounds):
        for start, found in results.items():
            found.append(measured(start))
    etcd = subprocess.run([ETCD, "--version"], capture_output=True, text=True)
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {etcd.stdout.splitlines()[0]}")
    names = ["start to /readyz, s", "memory when ready, MiB", f"{TYPES} registrations served, s", "memory with them, MiB"]
    print(f"{f'median (least to most) of {rounds}':32} {'kindom':>24} {'kube-apiserver + etcd':>24}")
    for i, name in enumerate(names):
        columns = [sorted(r[i] for r in found) for found in results.values()]
        cells = [f"{statistics.median(c):.3f} ({c[0]:.3f} to {c[-1]:.3f})" for c in columns]
        print(f"{name:32} {cells[0]:>24} {cells[1]:>24}")


main()
