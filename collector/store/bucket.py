"""A bucket of S3-compatible storage: files are put there whole, looked for and opened for reading.

By pyarrow's own client, which takes credentials where AWS tools look for them: the variables
``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, the files of ``~/.aws``, or the machine's role. They are
never read, kept or told here.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pyarrow import fs

from collector.store.errors import ArchiveAway

CONNECT_S, REQUEST_S = 3.0, 20.0
"""A bucket in reach connects in milliseconds; a part of 10 MB over 10 Mbit/s takes 8 s."""
TRIES, COPY_TRIES = 2, 4
"""Of a request that fails by a transient error: the network, a 5xx, SlowDown. A person waits for a question,
and a copy has time: with the client's own growing, random waits 4 tries took 3.6 to 5.1 s (a server that
always says 503 or hangs up, pyarrow 26, two busy cores). What is refused (no right) isn't repeated."""
SAID_CHARS = 160
CHUNK_BYTES = 8 * 2**20
ANY_REGION = "us-east-1"
"""What servers of one's own take where no region is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePlace:
    """``address``: s3://BUCKET/PREFIX; ``endpoint``: http(s)://HOST:PORT, empty for Amazon's; ``ca_file``:
    the certificate (PEM) of the CA behind its https, empty for the system's."""

    address: str
    endpoint: str = ""
    region: str = ""
    ca_file: str = ""

    @property
    def root(self) -> str:
        """Bucket and prefix, without a slash at the end."""
        return self.address.removeprefix("s3://").strip("/")

    @property
    def shown(self) -> str:
        """The address, with the endpoint where there is one."""
        return f"{self.address} at {self.endpoint}" if self.endpoint else self.address


class Bucket:
    """What a place holds, by keys below its address. Calls block; each raises ArchiveAway.

    ``tries``: how often a request is made that fails by a transient error.
    """

    def __init__(self, place: ArchivePlace, *, tries: int = TRIES) -> None:
        self.place = place
        parts = urlsplit(place.endpoint)
        region = place.region or (ANY_REGION if place.endpoint else None)
        try:
            self.files = fs.S3FileSystem(
                endpoint_override=parts.netloc or None,
                scheme=parts.scheme or "https",
                region=region,
                tls_ca_file_path=place.ca_file or None,
                connect_timeout=CONNECT_S,
                request_timeout=REQUEST_S,
                retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=tries),
            )
        except (OSError, ValueError) as error:
            raise away(place, "cannot be asked", error) from error

    def path(self, key: str) -> str:
        """Bucket, prefix and key, as ``files`` takes them."""
        return f"{self.place.root}/{key}"

    def sizes(self, keys: Sequence[str]) -> dict[str, int | None]:
        """The bytes of each object; ``None``: the bucket answers that there is none."""
        try:
            found = self.files.get_file_info([self.path(key) for key in keys])
        except OSError as error:
            raise away(self.place, "does not answer", error) from error
        return {key: info.size if info.is_file else None for key, info in zip(keys, found, strict=True)}

    def put(self, file: Path, key: str, sha256: str) -> None:
        """Copy a file there, and read it back: returns only where every byte is what it was."""
        try:
            # An object appears when its last part is told; left open after an error, it never does.
            sink = self.files.open_output_stream(self.path(key))
            with file.open("rb") as source:
                while chunk := source.read(CHUNK_BYTES):
                    sink.write(chunk)
            sink.close()
            with self.files.open_input_stream(self.path(key)) as stored:
                found = _sha256(iter(lambda: stored.read(CHUNK_BYTES), b""))
        except OSError as error:
            raise away(self.place, f"did not take {file.name}", error) from error
        if found != sha256:
            raise ArchiveAway(
                f"the archive {self.place.shown} gave back other bytes than {file} has, as {key}; the day "
                "stays on this disk, and is copied again within an hour"
            )

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is removed already."""
        try:
            self.files.delete_file(self.path(key))
        except FileNotFoundError:
            return
        except OSError as error:
            raise away(self.place, f"did not delete {key}", error) from error

    def answers(self) -> None:
        """Raise ArchiveAway unless the bucket can be listed."""
        try:
            self.files.get_file_info(fs.FileSelector(self.place.root, allow_not_found=True))
            (bucket,) = self.files.get_file_info([self.place.root.partition("/")[0]])
        except OSError as error:
            raise away(self.place, "does not answer", error) from error
        if bucket.type == fs.FileType.NotFound:
            raise ArchiveAway(
                f"the archive {self.place.shown}: there is no such bucket; make it, or mend [archive]"
            )


def sha256_of(file: Path) -> str:
    """The digest of a file's bytes, in hexadecimal."""
    with file.open("rb") as source:
        return _sha256(iter(lambda: source.read(CHUNK_BYTES), b""))


def away(place: ArchivePlace, doing: str, error: Exception) -> ArchiveAway:
    """What to tell of a bucket that failed."""
    return ArchiveAway(
        f"the archive {place.shown} {doing}: {reason_of(error)}. Nothing is lost: what is not there stays "
        "on this disk; `fallow doctor` tries it"
    )


def reason_of(error: BaseException) -> str:
    """The end of what the client says, on one line of a screen: before that it names our own keys."""
    said = str(error).partition("\n")[0]
    for sign in ("Details: ", "AWS Error "):
        said = said.rpartition(sign)[2]
    return said[:SAID_CHARS]


def _sha256(chunks: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()
