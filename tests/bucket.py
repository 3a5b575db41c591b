"""A bucket of S3-compatible storage on loopback: moto's server, which can go away and come back."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from pyarrow import fs

from collector.store.bucket import ArchivePlace, Bucket

NAME = "samples"
SECRET = "a-secret-that-nobody-may-find"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIDOFTHETESTS",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_EC2_METADATA_DISABLED": "true",  # or a machine without a role is asked for it for seconds
}


class BucketServer:
    """A server with one bucket; what is in it outlives ``stop``."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._make = ThreadedMotoServer
        self._port = 0
        self.start()

    def start(self) -> None:
        """Answer, where it answered before."""
        self._server = self._make(ip_address="127.0.0.1", port=self._port, verbose=False)
        self._server.start()
        _, self._port = self._server.get_host_and_port()

    def stop(self) -> None:
        """Be away."""
        self._server.stop()

    @property
    def place(self) -> ArchivePlace:
        """Where it is."""
        return ArchivePlace(address=f"s3://{NAME}/gpus", endpoint=f"http://127.0.0.1:{self._port}")

    def objects(self) -> list[str]:
        """The keys of the objects below the address."""
        files = Bucket(self.place).files
        found = files.get_file_info(fs.FileSelector(f"{NAME}/gpus", recursive=True, allow_not_found=True))
        return sorted(each.path.removeprefix(f"{NAME}/gpus/") for each in found if each.is_file)

    def write(self, key: str, content: bytes) -> None:
        """Put an object there, in the place of another of the key."""
        with Bucket(self.place).files.open_output_stream(f"{NAME}/gpus/{key}") as sink:
            sink.write(content)

    def read(self, key: str) -> bytes:
        """An object's bytes."""
        with Bucket(self.place).files.open_input_stream(f"{NAME}/gpus/{key}") as source:
            return bytes(source.read())

    def clear(self) -> None:
        """An empty bucket."""
        files = fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{self._port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        files.create_dir(NAME)
        files.delete_dir_contents(NAME)


@contextmanager
def served() -> Iterator[BucketServer]:
    """A server, with credentials for it in this process's environment and none of a person's files."""
    nothing = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    with patch.dict(os.environ, CREDENTIALS | nothing):
        server = BucketServer()
        try:
            yield server
        finally:
            server.stop()


def holds(folder: Path, word: str) -> bool:
    """Whether any file below a folder has a word in it."""
    return any(word.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())
