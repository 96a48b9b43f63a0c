#!/usr/bin/env bash
# A whole machine of another kind than the one this runs on: Debian 13 with systemd 257, control groups
# of version 2, Docker's engine and a user's own podman, in QEMU. See README.md beside this file.
#
#   machine.sh make     the disk, by debootstrap (root; about 1 GB is downloaded)
#   machine.sh start    boots it; ready when `machine.sh ssh true` works
#   machine.sh ssh …    a command on it, as root; the machine's port 8188 leads to the cluster here
#   machine.sh stop
set -euo pipefail

folder=${SELVEDGE_MACHINE:-/tmp/selvedge-machine}
project=$(cd "$(dirname "$0")/../.." && pwd)
mirror=http://deb.debian.org/debian
packages=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,udev,kmod,linux-image-cloud-amd64
packages+=,iproute2,iptables,openssh-server,ca-certificates,curl,procps,util-linux,busybox-static
packages+=,docker.io,docker-cli,podman,crun,runc,uidmap,passt,netavark,aardvark-dns,fuse-overlayfs
port=2222

make() {
  apt-get install -y --no-install-recommends qemu-system-x86 debootstrap e2fsprogs openssh-client
  mkdir -p "$folder"
  local root=$folder/root kernel=$folder/kernel
  debootstrap --variant=minbase --include="$packages" trixie "$root" "$mirror"
  # Debian 12's kernel: without KVM, QEMU 7.2 does not get newer ones up.
  debootstrap --variant=minbase --include=linux-image-cloud-amd64 bookworm "$kernel" "$mirror"
  cp -a "$kernel"/lib/modules/* "$root/usr/lib/modules/"
  cp "$kernel"/boot/vmlinuz-* "$folder/vmlinuz"
  cp "$kernel"/boot/initrd.img-* "$folder/initrd"
  rm -f "$folder/key" "$folder/key.pub"
  ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
  install -D -m 600 "$folder/key.pub" "$root/root/.ssh/authorized_keys"
  echo machine > "$root/etc/hostname"
  echo '127.0.0.1 localhost machine' > "$root/etc/hosts"
  echo '/dev/vda / ext4 defaults,noatime 0 0' > "$root/etc/fstab"
  printf '[Match]\nName=en*\n[Network]\nDHCP=yes\n' > "$root/etc/systemd/network/10.network"
  chroot "$root" systemctl enable systemd-networkd ssh
  chroot "$root" useradd --create-home --shell /bin/bash joe
  (cd "$project" && npm run build)
  install -m 755 "$project/dist/selvedge.mjs" "$root/usr/local/bin/selvedge"
  install -m 755 "$(readlink -f "$project/node_modules/.bin/node")" "$root/usr/local/bin/node"
  rm -rf "$root"/var/cache/apt/archives/*.deb
  mkfs.ext4 -q -F -d "$root" "$folder/disk" 5G
}

start() {
  # Under QEMU's own processor everything takes 20 times as long: the first boot some minutes.
  setsid qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max -smp 2 -m 4096 \
    -nographic -no-reboot -kernel "$folder/vmlinuz" -initrd "$folder/initrd" \
    -append 'console=ttyS0 root=/dev/vda rw loglevel=4 mitigations=off' \
    -drive file="$folder/disk",if=virtio,format=raw,cache=unsafe \
    -netdev user,id=net,hostfwd=tcp:127.0.0.1:$port-:22 -device virtio-net-pci,netdev=net \
    > "$folder/console.log" 2>&1 < /dev/null &
  echo $! > "$folder/pid"
}

case ${1:-} in
  make) make ;;
  start) start ;;
  ssh)
    shift
    exec ssh -i "$folder/key" -p "$port" -R 8188:127.0.0.1:8188 -o LogLevel=ERROR \
      -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null root@127.0.0.1 "$@"
    ;;
  stop) kill "$(cat "$folder/pid")" ;;
  *) sed -n '5,8s/^# *//p' "$0" ;;
esac
