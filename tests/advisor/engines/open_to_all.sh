#!/bin/sh
# Run a command where every account can reach this interpreter, its packages and this checkout, however closed root's
# home is: in a mount namespace of its own, with a home of root's that has just them. The rest stays as it is.
#
#   open_to_all.sh FOLDER PATH... -- COMMAND...        FOLDER is an empty one to mount on meanwhile
set -e
stage=$1
shift
mount -t tmpfs tmpfs "$stage"
paths=
number=0
while [ "$1" != -- ]; do
    case $1 in /root/*)
        number=$((number + 1))
        mkdir "$stage/$number"
        mount --bind "$1" "$stage/$number"
        paths="$paths $1"
        ;;
    esac
    shift
done
shift
mount -t tmpfs -o mode=755 tmpfs /root
number=0
for path in $paths; do
    number=$((number + 1))
    mkdir -p "$path"
    mount --move "$stage/$number" "$path"
done
exec "$@"
