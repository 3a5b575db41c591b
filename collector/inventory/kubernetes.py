"""A pod as a holder, from the labels that dcgm-exporter takes from the kubelet, and back from a process.

The kubelet says namespace, pod and container, not the person: a namespace stands for the project, and
the user stays unknown unless the configuration maps a namespace to one.
"""

import re
from collections.abc import Mapping

from collector.model import Holder, JobId, Process

PREFIX = "pod:"

_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""As the API server gives them (RFC 9562). The kubelet names a static pod's control groups by 32 digits of
its own, while the API server has another uid of that pod (Kubernetes, "Create static Pods")."""


def pod_job(namespace: str | None, pod: str) -> JobId:
    """The job id of a pod: ``pod:namespace/name``."""
    return JobId(f"{PREFIX}{namespace or 'default'}/{pod}")


def pod_holder(
    namespace: str | None,
    pod: str,
    container: str | None = None,
    users: Mapping[str, str] | None = None,
) -> Holder:
    """The pod as a holder; ``users`` maps a namespace to the one person behind it."""
    return Holder(
        job=pod_job(namespace, pod),
        user=(users or {}).get(namespace or "default"),
        project=namespace or None,
        name=f"{pod}/{container}" if container and container != pod else pod,
    )


def is_pod(job: JobId) -> bool:
    """Whether the job is a pod that a kubelet named."""
    return job.startswith(PREFIX) and "/" in job


def namespace_of(job: JobId) -> str:
    """The namespace in a pod's job id."""
    return job.removeprefix(PREFIX).partition("/")[0]


def is_uid(text: str) -> bool:
    """Whether it is a uid that the API server gave to a pod."""
    return _UID.fullmatch(text) is not None


def names_process(job: JobId, process: Process) -> bool:
    """Whether the pod's name is the one that the process's environment bears.

    A pod's host name is its own name, unless it shares the node's network or was told otherwise.
    """
    named = dict(process.environment)
    namespace, _, name = job.removeprefix(PREFIX).partition("/")
    own = process.namespace or named.get("POD_NAMESPACE")
    return name in (named.get("POD_NAME"), named.get("HOSTNAME")) and own in (None, namespace)
