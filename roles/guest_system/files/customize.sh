#!/bin/sh
# Run by mmdebstrap with the root of the new filesystem: what makes it a guest of a cloud.
set -eu
root=$1
here=$(dirname "$0")

(cd "$here/guest" && find . -type f -exec install -D --mode=0644 '{}' "$root/{}" ';')
chmod 0755 "$root/usr/sbin/strata-guest"
# An ordinary account with sudo. No password is right for it.
chroot "$root" useradd --create-home --shell /bin/bash --password '*' strata
echo 'strata ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/strata"
chmod 0440 "$root/etc/sudoers.d/strata"
# Each guest makes a host key of its own.
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/machine-id"
touch "$root/etc/machine-id"
chroot "$root" systemctl enable systemd-networkd.service strata-guest.service
chroot "$root" systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer
