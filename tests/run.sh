#!/usr/bin/env bash
# All tests: the stories first, whose calendar runs too fast for a machine that does anything else; then the
# rest in two lanes side by side: trainings and screens mostly wait, for processes that die and time out and for
# browsers, and would double the time if the others waited for them. Trainings from C but CO (test_crashes and
# others) are in the other lane, and deliveries, which wait for servers that stall, in this one, so that both take
# about as long. The first lane's words come at the end.
#
# What they write goes to memory where there is room: thousands of stores wait for a disk at each commit else.
#
# Hundreds of these tests kill, freeze and time real processes beside hundreds of others. What failed is played
# a second time with nothing beside it, if it is little, and decides then; that it failed is said aloud, with its
# report above, for it is a fault of the test or of the program all the same (docs/decisions/0018).
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
few=4
kept=$(in_memory || mktemp -d)
trap 'rm -rf "$kept"; kill $(jobs -p) 2>/dev/null' EXIT

lane() { # NAME WHAT...: its tests; what failed is kept under its name
    "$PYTHON" -m pytest -o cache_dir="$kept/$1" --basetemp="$kept/$1.t" "${@:2}"
}

again() { # RESULT NAME WHAT...: the result, or that of a second try
    local failed
    failed=$(grep -o '"tests/.*"' "$kept/$2/v/cache/lastfailed" 2>/dev/null)
    if [ "$1" -ne 1 ] || [ -z "$failed" ] || [ "$(wc -l <<<"$failed")" -gt "$few" ]; then
        return "$1"
    fi
    printf '\nFAILED ONCE, and played again with nothing beside:\n%s\n' "$failed"
    lane "${@:2}" --last-failed
}

waiting=(tests/fallow tests/gpu tests/dashboard tests/service/delivery --ignore-glob="$from_c")
rest=("${but_c[@]}" --ignore=tests/gpu --ignore=tests/dashboard --ignore=tests/service/delivery --ignore="$stories")

lane stories "$stories" "$@"
told=$?
lane waiting "${waiting[@]}" "$@" >"$kept/said" 2>&1 &
lane rest "${rest[@]}" "$@"
rested=$?
wait $!
waited=$?
cat "$kept/said"

worst=0
again $told stories "$stories" "$@" || worst=$?
again $rested rest "${rest[@]}" "$@" || worst=$?
again $waited waiting "${waiting[@]}" "$@" || worst=$?
exit $worst
