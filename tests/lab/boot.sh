#!/bin/bash
# PID 1 of one machine of the lab: tells its pid, waits until it is plugged in, sets itself up, says so, adopts orphans.
#   boot.sh NAME ADDRESS GATEWAY HOSTS_FILE OWN_FOLDER [DAEMON ARGUMENT...]
set -eu
name=$1 address=$2 gateway=$3 hosts=$4 own=$5
shift 5

# /proc is still that of whoever started the machine, so this is the pid they know.
read -r pid _ </proc/self/stat
echo "$pid"
read -r _
exec </dev/null

hostname "$name"
mount -t proc proc /proc
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=1777 shm /dev/shm
mount --bind "$hosts" /etc/hosts
# No name server: a name that is not in that file is unknown at once.
: >"$own/resolv.conf"
mount --bind "$own/resolv.conf" /etc/resolv.conf
if command -v podman >/dev/null; then
  mkdir -p "$own/containers" /var/lib/containers
  mount --bind "$own/containers" /var/lib/containers
fi

ip link set lo up
ip address add "$address/24" dev eth0
ip link set eth0 up
ip route add default via "$gateway"

echo up
exec >&2

if [ $# -gt 0 ]; then
  "$@" &
fi
# Blocked for ever; bash reaps every orphan meanwhile.
exec 3<> <(:)
while :; do read -ru 3 || :; done
