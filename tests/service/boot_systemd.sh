#!/bin/sh
# Become a systemd that runs nothing yet, in namespaces of its own (cgroup, mount, PID, UTS, IPC): nothing of this
# machine's is reached but programs. What it would set up of the machine is masked, what it writes goes to memory.
#
# $1 is a folder that is emptied as well; the others are what accounts without powers must reach, however closed the
# folders above them are.
set -e
own=$1
shift
mount -t tmpfs tmpfs /mnt
mkdir /mnt/etc /mnt/work
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/etc,workdir=/mnt/work overlay /etc # accounts are made here
if [ "$(stat -c %a /root | tail -c 2)" = 0 ]; then # others may not pass: a root's home with just what they need
    number=0
    for path in "$@"; do
        case $path in /root/*)
            number=$((number + 1))
            mkdir "/mnt/$number"
            mount --bind "$path" "/mnt/$number"
            ;;
        esac
    done
    mount -t tmpfs -o mode=755 tmpfs /root
    number=0
    for path in "$@"; do
        case $path in /root/*)
            number=$((number + 1))
            mkdir -p "$path"
            mount --move "/mnt/$number" "$path"
            ;;
        esac
    done
fi
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for folder in /run /tmp /var/lib /var/log /etc/systemd/system "$own"; do
    mkdir -p "$folder"
    mount -t tmpfs tmpfs "$folder"
done
for unit in dbus.service getty.target modprobe@.service kmod-static-nodes.service \
    dev-hugepages.mount dev-mqueue.mount proc-sys-fs-binfmt_misc.automount sys-fs-fuse-connections.mount \
    sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
    systemd-ask-password-console.path systemd-binfmt.service systemd-firstboot.service systemd-hwdb-update.service \
    systemd-journal-flush.service systemd-machine-id-commit.service systemd-modules-load.service \
    systemd-pcrphase.service systemd-random-seed.service systemd-remount-fs.service systemd-repart.service \
    systemd-sysctl.service systemd-sysusers.service systemd-tmpfiles-setup.service \
    systemd-tmpfiles-setup-dev.service systemd-tmpfiles-setup-dev-early.service systemd-udev-trigger.service \
    systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket; do
    ln -s /dev/null "/etc/systemd/system/$unit"
done
exec env -i container=fallow-test PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=no
