#!/bin/sh
# A service with two components, of a user of its own, as in the seed's example.
set -eu
here=examples/registry/service-and-components
cd "$(dirname "$0")/../../.."
url=${SELVEDGE_URL:-http://127.0.0.1:8088}
service=/users/devteam/org-apache-tomcat/test1
selvedge() { bin/selvedge.mjs "$@"; }
header=$(mktemp)
trap 'rm -f "$header"' EXIT

# What `login` does for a person; `echo` is the shell's own, so no process shows the token.
fail=
authorize() { echo "Authorization: Bearer $1" > "$header"; }
post() {
  curl --silent --show-error $fail --header "@$header" --header 'Content-Type: application/json' \
    --write-out '  (%{http_code})\n' --data "$2" "$url/ws/v1/registry-operations/$1"
}

echo "--- another user may not: 403"
authorize "$(selvedge token create --user joe)"
post transact "@$here/transaction.json"
echo "--- devteam registers the service and both components, all or nothing"
authorize "$(selvedge token create --user devteam)"
# No record is overwritten: where the service is already, this is refused, and the script ends.
fail=--fail-with-body
post transact "@$here/transaction.json"
trap 'rm -f "$header"; selvedge registry rm --recursive "$service"' EXIT

echo "--- a client connects to the service"
selvedge registry resolve "$service"
echo "--- the load balancer lists the components, with their records in one answer"
selvedge registry ls "$service/components"
curl --silent --show-error --fail "$url/registry/v1$service/components?depth=1"
echo
echo "--- management finds their JMX ports, which are internal"
selvedge registry find "$service" --api classpath:javax.management.jmx --internal

echo "--- a container has ended: what was bound to it goes"
authorize "$(selvedge token create --user operator --role admin --lifetime 60)"
post purge '{"yarnId": "container_1408631738011_0001_01_000001", "persistence": "container"}'
selvedge registry ls "$service/components"
