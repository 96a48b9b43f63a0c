#!/bin/sh
# Launches a service whose container registers itself, and sees the record go with the container.
set -eu
cd "$(dirname "$0")/../../.."
selvedge() { bin/selvedge.mjs "$@"; }
components=/users/admin/yarn-service/binds-itself/components
found=$(mktemp)
clean() {
  rm -f "$found"
  if selvedge service status binds-itself > /dev/null 2>&1; then
    selvedge service destroy binds-itself --yes
  fi
}
trap clean EXIT

# 30 s are enough on any machine.
wait_until() {
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 100 ]; then echo "waited in vain: $*" >&2; exit 1; fi
    sleep 0.3
  done
}
look() {
  selvedge registry find /users/admin/yarn-service --internal \
    --api classpath:javax.management.jmx > "$found" 2>&1
}
is_found() { look && grep -q binds-itself/components "$found"; }
is_gone() { look && ! grep -q binds-itself/components "$found"; }

selvedge service launch examples/registry/container-binds-itself/Yarnfile.yaml
wait_until is_found
echo "--- the container's own record, below $components"
cat "$found"
echo "--- what the container was answered: 403 elsewhere, 200 below its own path"
selvedge service logs binds-itself

echo "--- the container ends, and its record with it"
selvedge service stop binds-itself
wait_until is_gone
cat "$found"
