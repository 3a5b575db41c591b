"""A real HTTPS front: nginx before a head, with a certificate that a CA made for the test has signed."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CONFIG = """
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {folder}/head.pem;
        ssl_certificate_key {folder}/head.key;
        location / {{ proxy_pass {behind}; }}
    }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """Where it answers, and the certificate of the CA behind it."""

    port: int
    ca_file: Path

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def url_by_another_name(self) -> str:
        """The same, by a name that its certificate doesn't have."""
        return f"https://localhost:{self.port}"


@contextmanager
def front(folder: Path, behind: str) -> Iterator[Front]:
    """nginx before ``behind``, answering."""
    folder.mkdir()
    _certificates(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "nginx.conf").write_text(CONFIG.format(folder=folder, port=port, behind=behind))
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(["nginx", "-p", folder, "-c", folder / "nginx.conf"], stderr=said)
    try:
        deadline = time.monotonic() + 20
        while not _answers(port):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "said").read_text()
            time.sleep(0.05)
        yield Front(port=port, ca_file=folder / "ca.pem")
    finally:
        process.terminate()
        process.wait(20)


def _answers(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def _certificates(folder: Path) -> None:
    """A CA, and a certificate of it for 127.0.0.1 alone."""
    of_curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    _openssl(folder, "req", "-x509", *of_curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Site CA")
    wanted = ("-keyout", "head.key", "-out", "head.csr", "-subj", "/CN=head")
    _openssl(folder, "req", "-new", *of_curve[:-2], *wanted)
    (folder / "names").write_text("subjectAltName = IP:127.0.0.1\n")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    _openssl(folder, "x509", "-req", "-in", "head.csr", *signed, "-out", "head.pem")


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)
