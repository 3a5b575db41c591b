"""What the acting routes answer, for the OpenAPI document: the shapes that a program may rely on.

Answers are written by the desk and sent as they are; these models describe them, and a newer service may send
more fields than stand here.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict

from service.schemas.headers import TOTAL


class Row(BaseModel):
    """An object that may hold more than is named here."""

    model_config = ConfigDict(extra="allow")


class Refusal(BaseModel):
    """Why not: a kind for programs, and a message for people that says what would do."""

    error: str
    message: str


class Who(BaseModel):
    """Whom the service takes the asker for."""

    name: str
    uid: int | None
    role: str


class Job(Row):
    """A submitted job as the register has it."""

    job: str
    stand: str
    submitted_ms: int
    gpus: list[str]


class Taken(Row):
    """The report was taken."""

    known: bool


class Done(Row):
    """What came of an order so far; ``action`` is its number in the journal."""

    action: int | None = None
    outcome: str
    message: str


class Consent(Row):
    """Whether something may be done to a job, and by whose word."""

    job: str
    kind: str
    allowed: bool
    origin: str


class Waiting(Row):
    """A job that waits."""

    job: str
    user: str
    project: str
    place: int
    waits_for: str


class Lease(Row):
    """A GPU that was given away by Fallow."""

    job: str
    gpu: str
    share: float


class Plan(Row):
    """A plan and its steps."""

    plan: int
    state: str
    steps: list[dict[str, Any]]


class Act(Row):
    """A row of the journal; ``outcome`` is null while it is being done."""

    action: int
    at_ms: int
    job: str
    verb: str
    actor: str
    user: str | None
    outcome: str | None


class Switch(Row):
    """Whether the service acts."""

    acting: bool


Responses = dict[int | str, dict[str, Any]]

REASONS = {
    400: "the request cannot be read",
    401: "nobody knows who asks",
    403: "it is known who asks, and they may not",
    404: "there is no such thing",
    409: "it stands where this cannot be done",
    410: "it has ended",
    411: "a request's body comes in pieces, without its length",
    413: "more was sent than an order can hold",
    421: "this service does not answer to that name",
    422: "the request is not understood",
    429: "one person asks for more than one may have",
    500: "an error of the service's own",
    503: "too many ask at once, or nothing is measured",
    504: "it took too long",
    507: "it could not be written down, and so was not done",
}

REFUSALS: Responses = {
    status: {
        "description": why,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
    }
    for status, why in REASONS.items()
}
"""By reference, so that no model is made for every status of every route at each start."""


def listed(model: Any) -> Responses:
    """A list of this shape that may be cut; a header says how many there are."""
    said = {"description": "how many there are, listed or not", "schema": {"type": "integer"}}
    return {200: {"model": list[model], "description": "well", "headers": {TOTAL: said}}}


def of(model: Any, *statuses: int) -> Responses:
    """A success of this shape."""
    return {status: {"model": model, "description": "well"} for status in statuses or (200,)}
