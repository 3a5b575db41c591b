#!/bin/sh
# Become a systemd that runs nothing yet, in namespaces of its own (cgroup, mount, PID, UTS, IPC): nothing of this
# machine's is reached but programs. What it would set up of the machine is masked, what it writes goes to memory.
set -e
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for folder in /run /tmp /var/lib /var/log /etc/systemd/system "$1"; do
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
