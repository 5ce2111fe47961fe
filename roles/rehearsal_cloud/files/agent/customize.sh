#!/bin/sh
# Run by mmdebstrap with the root of the new file system: what makes it the ramdisk of Ironic's agent.
set -eu
root=$1
here=$(dirname "$0")

# The agent is in no distribution; all that it imports is. This machine's pip knows the index.
for packages in "$root"/usr/local/lib/python3.*/dist-packages; do
  "$here/../bmc/bin/pip" install --quiet --no-deps --no-compile --target "$packages" --requirement "$here/requirements.txt"
done
install --mode=0755 "$here/ramdisk/lease" "$root/usr/sbin/lease"
# What the agent calls at its end, where no systemd runs.
for end in poweroff reboot; do
  printf '#!/bin/sh\nsync\nexec busybox %s -f\n' "$end" >"$root/usr/sbin/$end"
  chmod 0755 "$root/usr/sbin/$end"
done
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale
