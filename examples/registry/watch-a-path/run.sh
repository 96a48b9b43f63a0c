#!/bin/sh
# Watches a path while a service below it comes, moves and goes.
set -eu
cd "$(dirname "$0")/../../.."
url=${SELVEDGE_URL:-http://127.0.0.1:8088}
selvedge() { bin/selvedge.mjs "$@"; }
seen=$(mktemp)
bin/selvedge.mjs registry watch /users/admin/org-example-watched > "$seen" 2> "$seen.notes" &
watcher=$!
clean() {
  kill "$watcher" 2> "$seen.notes" || true
  rm -f "$seen" "$seen.notes"
  selvedge registry rm --recursive --force /users/admin/org-example-watched
}
trap clean EXIT

# 30 s are enough on any machine.
wait_for() {
  tries=0
  until grep -q "$1" "$2"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ]; then echo "waited in vain for $1" >&2; cat "$2" >&2; exit 1; fi
    sleep 0.1
  done
}

# A path can be watched before it exists.
wait_for watching "$seen.notes"
selvedge registry bind -p /users/admin/org-example-watched/demo1 --api http:// \
  --webui http://10.0.0.5:31001/
selvedge registry bind /users/admin/org-example-watched/demo1 --api http:// \
  --webui http://10.0.0.6:31007/
selvedge registry rm /users/admin/org-example-watched/demo1
wait_for deleted "$seen"
echo "--- the watcher has seen"
cat "$seen"
echo "--- one long poll: says at once where it is when nothing is awaited"
curl --silent --show-error --fail \
  "$url/registry/v1/users/admin/org-example-watched?watch=poll&wait=0"
echo
