"""What can be configured of a bucket that takes old sealed days."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from service.config.fields import Misplaced, bounded, told


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveConfig:
    """A bucket of S3-compatible storage for samples that `[retention]` would let go of.

    The same questions and `fallow export` read them there ([how](store.md#archive)). Credentials don't belong
    here: the usual AWS variables and files are used (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
    `AWS_PROFILE`, `~/.aws`), or the machine's role.
    """

    address: str = told("", "the bucket and a prefix, `s3://BUCKET/PREFIX`; empty: nothing is archived")
    endpoint: str = told("", "of a server of one's own, for example `https://minio:9000`; empty: Amazon's")
    region: str = told("", "where the server wants one; empty: the AWS variables, or what any server takes")
    ca_file: str = told("", "the certificate (PEM) of the CA behind its `https`; empty: the system's")
    keep_days: float = bounded(
        0.0,
        0,
        36500,
        "archived days older than that are deleted there; 0: never, the bucket's owner sees to it",
    )

    def __post_init__(self) -> None:
        if self.address:
            _check_address(self.address)
        elif self.endpoint or self.region or self.ca_file or self.keep_days:
            raise Misplaced("there is an archive to describe, and no address: s3://BUCKET/PREFIX", "address")
        if self.endpoint:
            try:
                parts = urlsplit(self.endpoint)
                good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            except ValueError:
                good = False
            if (
                not good
                or not self.endpoint.isprintable()
                or parts.path.strip("/")
                or parts.query
                or parts.fragment
            ):
                raise Misplaced(
                    f"{self.endpoint!r} is no endpoint, for example https://minio:9000", "endpoint"
                )
            if parts.username is not None or parts.password is not None:
                raise Misplaced(
                    "the endpoint holds a login; credentials are taken from the AWS variables", "endpoint"
                )


def _check_address(address: str) -> None:
    bucket, _, prefix = address.removeprefix("s3://").partition("/")
    parts = prefix.strip("/").split("/") if prefix.strip("/") else []
    plain = address.isprintable() and not set(address) & set("?#@ ")
    if not address.startswith("s3://") or not bucket or not plain or {"", ".", ".."} & set(parts):
        raise Misplaced(f"{address!r} is no bucket, for example s3://gpu-samples/fallow", "address")
