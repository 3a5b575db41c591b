#!/bin/sh
# Installs what real-part tests need (Chromium, Prometheus, VictoriaMetrics, Slurm with its accounting, nginx,
# libfaketime, a C compiler; mmdebstrap for the tests that take minutes) where that can be done unasked: on Debian, as
# root. Elsewhere it changes nothing, and those tests skip, naming the package.
set -eu
missing=""
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need chromium chromium
need prometheus prometheus
need promtool prometheus
need victoria-metrics victoria-metrics
need cc gcc
need slurmctld slurm-wlm
need slurmd slurm-wlm
need munged munge
need slurmdbd slurmdbd
need mariadbd mariadb-server-core
need mariadb mariadb-client-core
need nginx nginx-light
need faketime faketime
[ -z "${FALLOW_LONG:-}" ] || need mmdebstrap mmdebstrap
[ -e /usr/include/stdio.h ] || missing="$missing libc6-dev"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing for the real-part tests:$missing"
    apt-get update -qq
    # Slurm's and munge's own services are not to be started: the tests start theirs.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "real-part tests will skip; missing packages:$missing"
fi
