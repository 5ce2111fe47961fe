#!/bin/sh
# Run by mmdebstrap with the root of the new filesystem: what makes it a node of a rehearsal lab.
# CERTIFICATES is a folder of this machine's own, CACHED the packages that a node will be asked for.
set -eu
root=$1
here=$(dirname "$0")

(cd "$here/node" && find . -type f -exec install -D --mode=0644 '{}' "$root/{}" ';')
chmod 0755 "$root"/usr/sbin/rehearsal-*
install -d "$root/etc/systemd/system/sysinit.target.wants"
ln -s ../rehearsal-groups.service "$root/etc/systemd/system/sysinit.target.wants"
if [ -n "$(ls "$CERTIFICATES")" ]; then
  cp "$CERTIFICATES"/*.crt "$root/usr/local/share/ca-certificates/"
  chroot "$root" update-ca-certificates >/dev/null
fi

# An ordinary account with sudo, as a lab's hosts have. No password is right for it.
chroot "$root" useradd --create-home --shell /bin/bash --password '*' strata
echo 'strata ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/strata"
chmod 0440 "$root/etc/sudoers.d/strata"
# A node's host key comes from the controller, who pins it.
rm -f "$root"/etc/ssh/ssh_host_*

# What would set the machine's own kernel, or wait for a console or a timer that a node has not.
for unit in systemd-sysctl systemd-binfmt systemd-modules-load systemd-udevd console-getty getty@ \
  systemd-remount-fs; do
  ln -sf /dev/null "$root/etc/systemd/system/$unit.service"
done
for timer in apt-daily apt-daily-upgrade dpkg-db-backup e2scrub_all fstrim; do
  ln -sf /dev/null "$root/etc/systemd/system/$timer.timer"
done
ln -sf /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"

# The packages wait in the cache: nodes install them for real, and fetch nothing.
# shellcheck disable=SC2086
chroot "$root" apt-get -qq install --yes --download-only $CACHED >/dev/null
mkdir -p "$root/var/lib/apt/periodic"
touch "$root/var/lib/apt/periodic/update-success-stamp"
