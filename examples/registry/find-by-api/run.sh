#!/bin/sh
# Registers two HBase services and an Oozie, and finds them by what they offer.
set -eu
cd "$(dirname "$0")/../../.."
url=${SELVEDGE_URL:-http://127.0.0.1:8088}
selvedge() { bin/selvedge.mjs "$@"; }
made=
# Only where none is: what the cluster has already stays as it is.
register() {
  selvedge registry bind "$@" --parents --if-version absent
  made="$made $1"
}
clean() {
  for path in $made; do selvedge registry rm "$path"; done
}
trap clean EXIT

register /services/hbase --api org.apache.hbase \
  --inet --host zookeeper1.example.com --port 2181
register /users/admin/org-apache-hbase/demo1 --api org.apache.hbase \
  --rest http://demo1.example.com:8080/
register /services/oozie --api org.apache.oozie \
  --webui http://oozie.example.com:11000/oozie

echo "--- all HBase services"
selvedge registry find --api org.apache.hbase
echo "--- of one user"
selvedge registry find /users/admin --api org.apache.hbase
echo "--- those that speak REST"
selvedge registry find --api org.apache.hbase --protocol REST --external
echo "--- whatever has this host in its record"
selvedge registry find --text oozie.example.com
echo "--- by HTTP; pages go on with ?after={next}"
curl --silent --show-error --fail \
  "$url/registry/v1/?find&endpointField.api=org.apache.hbase&limit=10"
echo
