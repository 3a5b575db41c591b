"""What ``membership.decide`` can ask of the controller: a closed set of values. Pure."""

from dataclasses import dataclass

from fallow.protocol import MemberId, Plan


@dataclass(frozen=True, slots=True)
class Start:
    """Start ``count`` workers; founders when there is no generation to join."""

    count: int
    founder: bool


@dataclass(frozen=True, slots=True)
class Publish:
    """Make the plan known to everybody in it."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Commit:
    """Everybody is connected: the members may switch at their next step boundary."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Cancel:
    """The plan is dropped; members of the generation it departs from lose nothing.

    ``failure`` says that nobody is to blame, so that the attempt itself counts.
    """

    plan: Plan
    reason: str
    failure: bool = False


@dataclass(frozen=True, slots=True)
class Adopt:
    """Everybody has switched: the plan is the generation now."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Kill:
    """End this worker; ``failure`` when it doesn't answer, and must not be allowed to wake up later."""

    member: MemberId
    reason: str
    failure: bool = True


@dataclass(frozen=True, slots=True)
class Settle:
    """Stay at the size that there is, and start nobody until somebody asks again."""

    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The training cannot go on."""

    reason: str


Action = Start | Publish | Commit | Cancel | Adopt | Kill | Settle | GiveUp
