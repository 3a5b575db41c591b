"""Which role each route asks for: one table, and a route that is not in it cannot be made.

Seeing is for everybody whom the service knows. What changes something asks for a USER, and the desk then asks
whose it is. What reaches beyond one's own jobs asks for an OPERATOR.
"""

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import compile_path

from service.control.errors import NotAllowed, WrongState
from service.control.interface import Caller, Role

Rule = tuple[str, str]

RULES: Mapping[Rule, Role] = MappingProxyType(
    {
        ("GET", "/healthz"): Role.VIEWER,
        ("GET", "/metrics"): Role.VIEWER,
        ("GET", "/openapi.json"): Role.VIEWER,
        ("GET", "/docs"): Role.VIEWER,
        ("GET", "/v1/queries"): Role.VIEWER,
        ("GET", "/v1/query/{name}"): Role.VIEWER,
        ("GET", "/v1/export"): Role.VIEWER,
        ("GET", "/v1/imports"): Role.VIEWER,
        ("POST", "/v1/imports"): Role.OPERATOR,
        ("POST", "/v1/imports/runs"): Role.OPERATOR,
        ("GET", "/v1/whoami"): Role.VIEWER,
        ("GET", "/v1/jobs"): Role.VIEWER,
        ("POST", "/v1/jobs"): Role.USER,
        ("GET", "/v1/jobs/{job:path}/directives"): Role.USER,
        ("POST", "/v1/jobs/{job:path}/reports"): Role.USER,
        ("POST", "/v1/jobs/{job:path}/pause"): Role.USER,
        ("POST", "/v1/jobs/{job:path}/resume"): Role.USER,
        ("POST", "/v1/jobs/{job:path}/cancel"): Role.USER,
        ("POST", "/v1/jobs/{job:path}/resize"): Role.USER,
        ("POST", "/v1/jobs/{job:path}/keep"): Role.USER,
        ("GET", "/v1/jobs/{job:path}"): Role.VIEWER,
        ("GET", "/v1/consents"): Role.VIEWER,
        ("POST", "/v1/consents"): Role.USER,
        ("GET", "/v1/queue"): Role.VIEWER,
        ("GET", "/v1/leases"): Role.VIEWER,
        ("GET", "/v1/engines"): Role.VIEWER,
        ("GET", "/v1/plans"): Role.VIEWER,
        ("GET", "/v1/plans/trial"): Role.VIEWER,
        ("POST", "/v1/plans/{plan}/apply"): Role.USER,
        ("POST", "/v1/plans/{plan}/reject"): Role.USER,
        ("GET", "/v1/actions"): Role.VIEWER,
        ("POST", "/v1/actions/{action}/undo"): Role.USER,
        ("GET", "/v1/acting"): Role.VIEWER,
        ("POST", "/v1/acting/stop"): Role.OPERATOR,
        ("POST", "/v1/acting/start"): Role.OPERATOR,
        ("POST", "/v1/nodes/ticks"): Role.NODE,
    }
)


STILL_TAKEN: frozenset[Rule] = frozenset(
    {
        ("POST", "/v1/nodes/ticks"),  # refuses by itself, with what becomes of the ticks
        ("POST", "/v1/jobs/{job:path}/reports"),  # how a job that runs fares, no order; its launcher goes on
        ("POST", "/v1/acting/stop"),  # stopping is never refused
    }
)
"""What a head that another one has superseded takes all the same; every other order goes to the new head."""
NOT_THE_HEAD = (
    "this service takes no orders any more, another head does: {because}. Nothing was done; "
    "give the order there"
)


class RuledRoute(APIRoute):
    """A route that asks for its role before a byte of the body is read. Raises KeyError without a rule.

    Where the application's ``state.superseded`` says that another head is the one, orders are refused.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[object, None, Response]]:
        """The handler behind its rule."""
        methods = sorted(self.methods or ())
        role = max((RULES[method, self.path] for method in methods), key=tuple(Role).index)
        is_order = any(method != "GET" and (method, self.path) not in STILL_TAKEN for method in methods)
        handle, what = super().get_route_handler(), f"{' '.join(methods)} {self.path}"

        async def ruled(request: Request) -> Response:
            caller = caller_of(request)
            if not may(caller.role, role):
                remedy = "" if role is Role.NODE else "an operator can do it, or "
                raise NotAllowed(
                    f"{caller.name} is {_a(caller.role)} here, and {what} asks for {_a(role)}; {remedy}"
                    "issue a token with that role (`fallow token add`)"
                )
            reason = superseded(request) if is_order else None
            if reason is not None:
                raise WrongState(NOT_THE_HEAD.format(because=reason))
            return await handle(request)

        return ruled


def may(role: Role, required: Role) -> bool:
    """Whether a role may use a route that asks for ``required``; what a node does is for nodes alone."""
    return role is Role.NODE if required is Role.NODE else role.covers(required)


def superseded(request: Request) -> str | None:
    """Why the service that is asked is not the head any more; ``None`` where no other one is known."""
    ask: Callable[[], str | None] | None = getattr(request.app.state, "superseded", None)
    return None if ask is None else ask()


def methods_at(path: str) -> tuple[str, ...]:
    """The methods that a path has a route for."""
    return tuple(sorted({method for method, rule in RULES if compile_path(rule)[0].match(path)}))


def caller_of(request: Request) -> Caller:
    """Who asks, as the gate found."""
    caller: Caller = request.scope["state"]["caller"]
    return caller


def _a(role: Role) -> str:
    return f"an {role}" if role is Role.OPERATOR else f"a {role}"
