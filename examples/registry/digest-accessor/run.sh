#!/bin/sh
# Makes a path with an accessor, and writes below it with nothing but that.
set -eu
cd "$(dirname "$0")/../../.."
url=${SELVEDGE_URL:-http://127.0.0.1:8088}
selvedge() { bin/selvedge.mjs "$@"; }
base=/users/admin/org-example-tomcat
header=$(mktemp)
clean() {
  rm -f "$header"
  selvedge registry rm --recursive --force "$base"
}
trap clean EXIT
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

echo "--- the user makes the path, with the accessor beside the token"
SELVEDGE_REGISTRY_ACCESSOR="tomcat:$password" \
  selvedge registry mknode --parents "$base/test1/components"
SELVEDGE_REGISTRY_ACCESSOR="tomcat:$password" selvedge registry acl "$base/test1/components"

# mktemp has made the file for its owner alone; `echo` is the shell's own, so no process shows it.
echo "X-Registry-Accessor: tomcat:$password" > "$header"
write() {
  curl --silent --show-error --header "@$header" --header 'Content-Type: application/json' \
    --write-out '  (%{http_code})\n' --data "$2" "$url/ws/v1/registry-operations/$1"
}

echo "--- a container writes its record, with the accessor and no token"
container=$base/test1/components/ctr-1408631738011-0001-01-000001
write bind '{"path": "'"$container"'", "record": {
  "yarn:id": "container_1408631738011_0001_01_000001", "yarn:persistence": "container",
  "external": [{"api": "http://", "addressType": "uri", "protocolType": "webui",
                "addresses": [{"uri": "http://rack4server3:43572"}]}]}}'
selvedge registry resolve "$container"

echo "--- elsewhere it may nothing: 403"
write bind '{"path": "/services/tomcat", "record": {}}'
