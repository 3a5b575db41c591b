"""A stand-in for an API server: objects behind HTTP, read and changed as the API reference says, and broken.

It has what Fallow uses: a GET of an object, of a list and of the groups, and a JSON merge patch with
optimistic locking. Any other verb is refused (501). A Job controller of one line ends the pods of a
suspended Job; ``is_slow_to_end`` leaves them ending.
"""

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Event, Thread
from typing import Any
from urllib.parse import unquote, urlsplit

from collector.managers.kubernetes.api import MERGE_PATCH
from tests.collector.dcgm.loopback import QuietServer
from tests.collector.managers.kubernetes import cluster_answers as answers

Object = dict[str, Any]

JOB = "/apis/batch/v1/namespaces/vision/jobs/train"
POD = "/api/v1/namespaces/vision/pods/train-x7k2p"
WORKLOAD = "/apis/kueue.x-k8s.io/v1beta1/namespaces/vision/workloads/job-train-4f1c2"
JOB_UID, POD_UID, WORKLOAD_UID = answers.uid(50), answers.uid(51), answers.uid(52)
LABELS = {"batch.kubernetes.io/controller-uid": JOB_UID, "batch.kubernetes.io/job-name": "train"}
GONE = {"kind": "Status", "status": "Failure", "message": "not found", "reason": "NotFound", "code": 404}


def job(*, allow: str | None = "pause", **spec: Any) -> Object:
    """A Job of one running pod; ``allow``: its owner's annotation."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "vision",
            "uid": JOB_UID,
            "resourceVersion": "100",
            "generation": 1,
            "creationTimestamp": answers.BEGAN,
            **({} if allow is None else {"annotations": {"fallow/allow": allow, "team": "a"}}),
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "suspend": False,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": JOB_UID}},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {**answers.pod("x", 1)["spec"], "restartPolicy": "Never"},
            },
            **spec,
        },
        "status": {"active": 1, "startTime": answers.BEGAN},
    }


def pod() -> Object:
    """The Job's pod, on a GPU."""
    made = answers.pod("train-x7k2p", 51)
    owner = {**answers.owner("Job", "train", 50), "apiVersion": "batch/v1"}
    made["metadata"] |= {"resourceVersion": "101", "labels": dict(LABELS), "ownerReferences": [owner]}
    return made


def workload() -> Object:
    """Kueue's of that Job, admitted."""
    made = answers.workload("train", 52, answers.owner("Job", "train", 50), reserved=True, gpus=1)
    made["metadata"] |= {"resourceVersion": "102", "generation": 1}
    made["spec"] |= {"active": True}
    return made


@dataclass
class ApiServer:
    """The objects by their paths, what was asked, and what goes wrong.

    ``refuses``: the status of every change. ``cuts``: it hangs up without an answer ``before`` or ``after``
    it did what it was asked. ``hangs``: it doesn't answer a change at all. ``drips``: it answers it with a
    byte now and then. ``meanwhile``: called before a change, as somebody who is quicker.
    """

    objects: dict[str, Object] = field(default_factory=lambda: {JOB: job(), POD: pod()})
    asked: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[Object] = field(default_factory=list)
    refuses: int | None = None
    cuts: str | None = None
    hangs: bool = False
    drips: bool = False
    is_slow_to_end: bool = False
    has_kueue: bool = False
    meanwhile: Callable[[], None] = lambda: None
    versions: int = 1000

    @property
    def changes(self) -> list[str]:
        """The paths of the changes that were asked for."""
        return [path for verb, path in self.asked if verb != "GET"]

    def with_kueue(self) -> "ApiServer":
        self.has_kueue = True
        self.objects[WORKLOAD] = workload()
        return self

    def touch(self, path: str, change: Callable[[Object], None], *, spec: bool = True) -> None:
        """Somebody else changes an object."""
        self._changed(path, change, spec=spec)
        self._control(path)

    def get(self, path: str) -> tuple[int, Object]:
        plain = unquote(urlsplit(path).path)
        if plain == "/apis":
            found = answers.served(["workloads"] if self.has_kueue else [])
            return found.status, dict(found.body or {})
        if plain in self.objects:
            return 200, self.objects[plain]
        kind = plain.rpartition("/")[2]
        if kind in ("pods", "nodes", "jobs", "workloads"):
            items = [each for at, each in self.objects.items() if f"/{kind}/" in at]
            items = items + ([answers.node("gpu-a")] if kind == "nodes" else [])
            # As the API reference has it, entries of a list don't repeat their kind.
            plain_items = [
                {k: v for k, v in each.items() if k not in ("kind", "apiVersion")} for each in items
            ]
            return 200, dict(answers.listed(kind.title().removesuffix("s"), plain_items).body or {})
        return 404, GONE

    def patch(self, path: str, body: Object) -> tuple[int, Object]:
        """A merge patch, as RFC 7386 and the API's optimistic locking have it."""
        of = self.objects.get(path)
        if of is None:
            return 404, GONE
        wanted = body.get("metadata", {})
        for key in ("uid", "resourceVersion"):
            if key in wanted and wanted[key] != of["metadata"][key]:
                message = "the object has been modified; please apply your changes to the latest version"
                return 409, dict(answers.refused(409, message).body or {})
        self._changed(path, lambda each: _merge(each, body), spec="spec" in body)
        result = copy.deepcopy(self.objects[path])
        self._control(path)
        return 200, result

    def _changed(self, path: str, change: Callable[[Object], None], *, spec: bool) -> None:
        of = copy.deepcopy(self.objects[path])
        change(of)
        self.versions += 1
        of["metadata"]["resourceVersion"] = str(self.versions)
        if spec:
            of["metadata"]["generation"] = of["metadata"].get("generation", 1) + 1
        self.objects[path] = of

    def _control(self, path: str) -> None:
        if path == WORKLOAD and self.objects[path]["spec"]["active"] is False:
            self._changed(JOB, lambda each: each["spec"].update(suspend=True), spec=True)
            reserved = self.objects[path]["status"]["conditions"][0]
            reserved |= {"status": "True" if self.is_slow_to_end else "False"}
        if JOB in self.objects and self.objects[JOB]["spec"].get("suspend"):
            if not self.is_slow_to_end:
                self.ends()
        elif JOB in self.objects:
            self._changed(JOB, lambda each: each["status"].update(active=1), spec=False)

    def ends(self) -> None:
        """The pods of the Job are gone."""
        self.objects.pop(POD, None)
        self._changed(JOB, lambda each: each["status"].pop("active", None), spec=False)


def _merge(into: Object, patch: Object) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            inner = into.setdefault(key, {})
            _merge(inner, value)
        elif value is None:
            into.pop(key, None)
        else:
            into[key] = value


@contextmanager
def serving(server: ApiServer) -> Iterator[str]:
    """Its address."""
    over = Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            server.asked.append(("GET", self.path))
            self.answer(*server.get(self.path))

        def do_PATCH(self) -> None:
            server.asked.append(("PATCH", self.path))
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.bodies.append(body)
            if self.headers["Content-Type"] != MERGE_PATCH:
                return self.answer(415, dict(answers.refused(415, "unsupported media type").body or {}))
            server.meanwhile()
            if server.refuses is not None:
                found = answers.refused(server.refuses, f"jobs.batch is refused with {server.refuses}")
                return self.answer(found.status, dict(found.body or {}))
            if server.hangs:
                over.wait(30)
            if server.hangs or server.cuts == "before":
                self.close_connection = True
                return None
            status, result = server.patch(self.path, body)
            if server.cuts == "after":
                self.close_connection = True
                return None
            return self.answer(status, result, drips=server.drips)

        def answer(self, status: int, body: Object, *, drips: bool = False) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            for at in range(len(text)) if drips else ():
                try:
                    self.wfile.write(text[at : at + 1])
                except OSError:
                    return
                if over.wait(0.05):
                    return
            if not drips:
                self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            return

    http = QuietServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        over.set()
        http.shutdown()
        http.server_close()
        thread.join()
