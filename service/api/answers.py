"""How routes say what they answer, for the OpenAPI document; the shapes themselves are ``service.schemas``.

Answers are written as they are made and not checked again at each request: tests hold them against their
shapes (tests/service/api/test_api_answers.py). A newer service may say more than stands there.
"""

from service.schemas.headers import ARROW, JSON, TOTAL
from service.schemas.records import Refusal

Responses = dict[int | str, dict[str, object]]

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

CUT: Responses = {
    200: {
        "headers": {
            TOTAL: {"description": "how many there are, listed or not", "schema": {"type": "integer"}}
        }
    }
}
"""A list that may be cut; a header says how many there are."""

ROWS: Responses = {
    200: {
        "description": "The rows, as the request's Accept header asks; `/v1/queries` has the columns of each "
        "query. Times are ISO 8601 UTC in JSON.",
        "content": {
            ARROW: {"schema": {"type": "string", "format": "binary"}},
            JSON: {"schema": {"type": "array", "items": {"type": "object"}}},
        },
    }
}
"""The rows of a named query: their columns depend on its name, so no one shape has them."""


def stream(media_type: str, about: str, *, binary: bool = False) -> Responses:
    """An answer that is no JSON object: text, or bytes."""
    shape = {"type": "string", "format": "binary"} if binary else {"type": "string"}
    return {200: {"description": about, "content": {media_type: {"schema": shape}}}}


def refusal_shape() -> dict[str, object]:
    """The shape that ``REFUSALS`` refers to."""
    from pydantic import TypeAdapter

    return TypeAdapter(Refusal).json_schema(mode="serialization")
