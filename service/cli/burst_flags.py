"""What can be typed about burst plans: ``fallow burst profile``, ``plan`` and ``show``."""

import argparse
from collections.abc import Callable
from pathlib import Path

AddVerb = Callable[[str, str], argparse.ArgumentParser]


def add_verbs(add: AddVerb) -> None:
    """``fallow burst`` with its three orders."""
    verb = add("burst", "plan a training's layers on different numbers of GPUs: profile, plan, show")
    orders = verb.add_subparsers(dest="order", metavar="profile|plan|show", required=True)
    _profile(orders.add_parser("profile", help="measure a model's layers one by one"))
    _plan(orders.add_parser("plan", help="how many GPUs for each layer, and what that brings"))
    shown = orders.add_parser("show", help="a plan that was written to a file")
    shown.add_argument("plan", type=Path, metavar="PLAN", help="the file")
    _json(shown)


def _profile(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "model", metavar="MODULE:NAME", help="a torch module, or a function that returns one: train:model"
    )
    verb.add_argument(
        "--sample", required=True, metavar="AxBxC", help="one sample's shape, for example 3x224x224"
    )
    verb.add_argument(
        "--batches",
        required=True,
        metavar="N[,N]",
        help="samples on one GPU to measure at, up to the global batch: 32,16,8,4,2,1",
    )
    verb.add_argument(
        "-o", "--out", type=Path, required=True, metavar="FILE", help="where to write the layer table"
    )


def _plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "table", type=Path, metavar="TABLE", help="a layer table, from `fallow burst profile`"
    )
    parser.add_argument("--gpus", type=int, required=True, metavar="N", help="GPUs that there are")
    parser.add_argument("--global-batch", type=int, required=True, metavar="B", help="samples of one step")
    parser.add_argument(
        "--network",
        default="pcie",
        metavar="NAME|X.XGB/s",
        help="nvswitch, pcie, 100gbe, 10gbe, 1gbe, or gigabytes a second that a GPU sends (default pcie)",
    )
    parser.add_argument("--latency-us", type=float, metavar="US", help="microseconds before the first byte")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument(
        "--amplification",
        type=float,
        metavar="A",
        help="GPU-time at most A times that of one GPU; least time",
    )
    limit.add_argument(
        "--slowdown", type=float, metavar="D", help="at most 1+D times the least time; least GPU-time"
    )
    parser.add_argument(
        "--memory-gib", type=float, metavar="GIB", help="memory of one GPU that a plan may fill"
    )
    parser.add_argument(
        "--no-overlap",
        action="store_true",
        help="gradients are summed after the backward pass, not during it",
    )
    parser.add_argument(
        "--powers-of-two", action="store_true", help="only 1, 2, 4, 8 GPUs and so on for a layer"
    )
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="also write the plan here")
    _json(parser)


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="a list of objects, units in the names, instead of a table"
    )
