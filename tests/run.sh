#!/usr/bin/env bash
# `run.sh quick` or `run.sh slow`, with words for pytest after it.
#
# quick: what takes under a second of processor time and starts nothing that lives on, on all cores at once.
#
# slow: the rest. The stories first, whose calendar runs too fast for a machine that does anything else; then the
# others in two lanes side by side: trainings and screens mostly wait, for processes that die and time out and for
# browsers, and would double the time if the others waited for them. Trainings from C but CO (test_crashes and
# others) are in the other lane, and deliveries, which wait for servers that stall, in this one, so that both take
# about as long. The first lane's words come at the end.
#
# What they write goes to memory where there is room: thousands of stores wait for a disk at each commit else.
#
# Hundreds of the slow tests kill, freeze and time real processes beside hundreds of others. What failed is played
# a second time with nothing beside it, if it is little, and decides then; that it failed is said aloud at the end,
# with its report above, for it is a fault of the test or of the program all the same (docs/decisions/0018).
set -uo pipefail
cd "$(dirname "$0")/.."

in_memory() { # a folder in memory, of 8 GiB at least (they write 3), where programs may run; fails where there is none
    local free made
    free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) && [ "${free:-0}" -ge 8388608 ] || return 1
    made=$(mktemp -d /dev/shm/fallow.XXXX) || return 1
    if ! install -m 755 "$(type -P true)" "$made/true" || ! "$made/true"; then
        rm -rf "$made"
        return 1
    fi
    echo "$made"
}

stories=tests/end_to_end/test_stories.py
from_c='tests/fallow/test_c[!o]*' but_c=(--ignore-glob='tests/fallow/test_[!c]*' --ignore-glob='tests/fallow/test_co*')
few=2
kept=$(in_memory || mktemp -d)
trap 'rm -rf "$kept"; kill $(jobs -p) 2>/dev/null' EXIT

lane() { # NAME WHAT...: its tests; what failed is kept under its name
    local came
    "$PYTHON" -m pytest -o cache_dir="$kept/$1" --basetemp="$kept/$1.t" -m "slow or process or browser" "${@:2}"
    came=$?
    [ "$came" -eq 5 ] && [ -n "$words" ] && came=0 # words, such as -k, may leave a lane without tests
    return "$came"
}

failed() { # NAME...: the tests that failed in these lanes, a line each
    local name
    for name in "$@"; do
        grep -o '"tests/.*"' "$kept/$name/v/cache/lastfailed" 2>/dev/null
    done
}

quick() {
    "$PYTHON" -m pytest -p no:cacheprovider --basetemp="$kept/q" -q \
        --numprocesses=auto --dist=loadfile -m "not slow and not process and not browser" "$@"
}

slow() {
    local waiting rest once worst=0
    waiting=(tests/fallow tests/gpu tests/dashboard tests/service/delivery --ignore-glob="$from_c")
    rest=("${but_c[@]}" --ignore=tests/gpu --ignore=tests/dashboard --ignore=tests/service/delivery --ignore="$stories")

    lane stories "$stories" "$@"
    local stories_came=$?
    lane waiting "${waiting[@]}" "$@" >"$kept/said" 2>&1 &
    lane rest "${rest[@]}" "$@"
    local rest_came=$?
    wait $!
    local waiting_came=$?
    cat "$kept/said"

    once=$(failed stories rest waiting)
    local heading="FAILED ONCE, and passed when played again with nothing beside"
    if [ -z "$once" ] || [ "$(wc -l <<<"$once")" -gt "$few" ]; then
        heading="FAILED, and too many to be played again"
        again() { return "$1"; }
    else
        again() { # RESULT NAME WHAT...: the result, or that of a second try of what failed
            [ "$1" -eq 1 ] || return "$1"
            lane "${@:2}" --last-failed
        }
    fi
    again $stories_came stories "$stories" "$@" || worst=$?
    again $rest_came rest "${rest[@]}" "$@" || worst=$?
    again $waiting_came waiting "${waiting[@]}" "$@" || worst=$?
    [ "$worst" -eq 0 ] || [ "$(wc -l <<<"$once")" -gt "$few" ] || heading="FAILED, these or some of them twice"
    [ -z "$once" ] || printf '\n%s:\n%s\n' "$heading" "$once"
    return $worst
}

words=${2:-}
case "${1:-}" in
quick | slow) "$@" ;;
*)
    echo "run.sh: say quick or slow" >&2
    exit 2
    ;;
esac
