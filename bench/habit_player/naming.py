"""What the jobs of a habit are called by those who gave them GPUs. Pure."""

from bench.habit_player.model import HolderPlan
from bench.habit_player.timeline import Holding
from bench.habit_player.world import World


def slurm_number(world: World, holding: Holding) -> int:
    """The Slurm job id: unique over all habits and their jobs."""
    place = [plan.name for plan in world.habit.holders].index(holding.plan.name)
    return 100_000 + world.number * 1000 + place * 200 + holding.number


def namespace(world: World, holding: Holding) -> str:
    """The namespace of a pod: its project's, else its habit's."""
    return holding.plan.project or f"ns{world.number}"


def pod_name(world: World, holding: Holding) -> str:
    """The name of a pod: its title and which of its kind it is."""
    title = (holding.plan.title or holding.plan.name).lower().replace("_", "-").replace(" ", "-")
    return f"{title}-{world.number}-{holding.number}"


def job_name(world: World, holding: Holding) -> str:
    """The id under which Fallow knows the job, for one that somebody gave."""
    match holding.plan.by:
        case "slurm":
            return f"slurm:{slurm_number(world, holding)}"
        case "kubernetes":
            return f"pod:{namespace(world, holding)}/{pod_name(world, holding)}"
        case _:
            return f"lease-{world.number}-{holding.plan.name}-{holding.number}"


def is_of(world: World, plan: HolderPlan, job: str, user: str | None) -> bool:
    """Whether a job that was found is one of this holder's."""
    if plan.by == "nobody":
        return user is not None and user == plan.user
    return any(job == job_name(world, one) for one in world.held if one.plan.name == plan.name)
