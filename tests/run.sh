#!/usr/bin/env bash
# `run.sh quick` or `run.sh slow`, with words for pytest after it.
#
# quick: what takes under a second of processor time and starts nothing that lives on, on all cores at once, by one
# process more than there are cores: two on two cores took 345 s for some 490 s of processor time (27 November),
# for they wait for what tests start.
#
# slow: the rest. The stories first, whose calendar runs too fast for a machine that does anything else; then the
# others in five lanes side by side: most of them wait, for processes that die and time out, for servers that stall
# and for browsers, and three lanes leave over a third of two cores unused. Tests that may use the same port or
# account are in one lane, by folder. The words of all lanes but the last come at the end.
#
# What they write goes to memory where there is room: thousands of stores wait for a disk at each commit else.
#
# Hundreds of the tests kill, freeze, fork and time real processes beside hundreds of others. What failed is played
# a second time with nothing beside it, if it is little, and decides then; that it failed is said aloud at the end,
# with its report above, for it is a fault of the test or of the program all the same (docs/decisions/0018).
#
# COSTS=FOLDER has the quick run and each lane write what their tests took there (docs/dev/testing.md).
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

# Each run would else rewrite the asserts of 580 files anew, in each of its processes: half the time of collecting.
unset PYTHONDONTWRITEBYTECODE

stories=tests/end_to_end/test_stories.py
few=4
kept=$(in_memory || mktemp -d)
trap 'rm -rf "$kept"; kill $(jobs -p) 2>/dev/null' EXIT

lane() { # NAME WHAT...: its tests; what failed is kept under its name
    local came
    "$PYTHON" -m pytest -o cache_dir="$kept/$1" --basetemp="$kept/$1.t" -m "slow or process or browser" \
        ${COSTS:+"--costs=$COSTS/$1.jsonl"} "${@:2}"
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
    local came once
    local how=(-o cache_dir="$kept/quick" -m "not slow and not process and not browser")
    "$PYTHON" -m pytest --basetemp="$kept/quick.t" -q --numprocesses=$(($(nproc) + 1)) --dist=loadfile "${how[@]}" \
        ${COSTS:+"--costs=$COSTS/quick.jsonl"} "$@"
    came=$?
    once=$(failed quick)
    if [ "$came" -ne 1 ] || [ -z "$once" ] || [ "$(wc -l <<<"$once")" -gt "$few" ]; then
        return "$came"
    fi
    local heading="FAILED ONCE, and passed when played again with nothing beside"
    "$PYTHON" -m pytest --basetemp="$kept/quick.t" -q --last-failed "${how[@]}" "$@"
    came=$?
    [ "$came" -eq 0 ] || heading="FAILED, these or some of them twice"
    printf '\n%s:\n%s\n' "$heading" "$once"
    return "$came"
}

slow() {
    local trainings stores launchers pages devices others rest once worst=0
    trainings=(tests/fallow tests/gpu)
    launchers=(tests/service/launcher tests/end_to_end tests/service/test_cli_*.py)
    stores=(tests/collector tests/analytics tests/advisor tests/bench)
    # The first four lanes were done up to five minutes before the rest: these go where there is time.
    pages=(tests/dashboard tests/service/delivery tests/service/printed tests/service/reports tests/service/alerts)
    rest=("${trainings[@]/#/--ignore=}" "${stores[@]/#/--ignore=}" "${launchers[@]/#/--ignore=}")
    rest+=("${pages[@]/#/--ignore=}")
    # Trainings take the longest of all, stores and pages the shortest: these files go where there is time.
    devices=(tests/fallow/test_device*.py)
    others=(tests/fallow/test_pretend.py tests/fallow/test_driving*.py)
    trainings+=("${devices[@]/#/--ignore=}" "${others[@]/#/--ignore=}")
    pages+=("${devices[@]}")
    stores+=("${others[@]}")
    launchers+=(--ignore="$stories")

    lane stories "$stories" "$@"
    local stories_came=$?
    lane trainings "${trainings[@]}" "$@" >"$kept/trainings.said" 2>&1 &
    local first=$!
    lane stores "${stores[@]}" "$@" >"$kept/stores.said" 2>&1 &
    local second=$!
    lane launchers "${launchers[@]}" "$@" >"$kept/launchers.said" 2>&1 &
    local third=$!
    lane pages "${pages[@]}" "$@" >"$kept/pages.said" 2>&1 &
    local fourth=$!
    lane rest "${rest[@]}" "$@"
    local rest_came=$?
    wait $first
    local trainings_came=$?
    wait $second
    local stores_came=$?
    wait $third
    local launchers_came=$?
    wait $fourth
    local pages_came=$?
    cat "$kept"/{trainings,stores,launchers,pages}.said

    once=$(failed stories rest trainings stores launchers pages)
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
    again $trainings_came trainings "${trainings[@]}" "$@" || worst=$?
    again $stores_came stores "${stores[@]}" "$@" || worst=$?
    again $launchers_came launchers "${launchers[@]}" "$@" || worst=$?
    again $pages_came pages "${pages[@]}" "$@" || worst=$?
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
