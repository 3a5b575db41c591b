"""What root says of a machine, for all accounts on it. It counts where ``service.trust.believed`` reads
it.
"""

from dataclasses import dataclass

from service.config.fields import told


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemConfig:
    """Whom everybody on the machine believes.

    Only in `/etc/fallow/fallow.toml`, which nobody but root may be able to write. Fallow reads a folder, a
    configuration, a template or a service's answer only where it is your own, root's, or that account's. The
    machine's service may have its whole configuration in the same file (`--config /etc/fallow/fallow.toml`).
    """

    account: str = told("", "the account that the machine's service runs as, where that isn't root")
    data: str = told(
        "",
        "the DATA folder of whoever names none and may read it, for example `/var/lib/fallow`; all others "
        "have their own, `~/.local/state/fallow`",
    )
