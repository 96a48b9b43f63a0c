#!/bin/sh
# Publishes HDFS as a core service, moves it, and stops it.
set -eu
here=examples/registry/publish-a-core-service
cd "$(dirname "$0")/../../.."
url=${SELVEDGE_URL:-http://127.0.0.1:8088}
selvedge() { bin/selvedge.mjs "$@"; }

# Only where none is: a cluster's own HDFS stays as it is.
selvedge registry bind /services/hdfs --file "$here/hdfs.json" --if-version absent
trap 'selvedge registry rm /services/hdfs' EXIT
selvedge registry resolve /services/hdfs
echo "--- the same without a token, as any program in any language reads it"
curl --silent --show-error --fail "$url/registry/v1/services/hdfs"
echo

echo "--- the NameNode fails over to another machine"
sed 's/namenode1/namenode2/' "$here/hdfs.json" |
  selvedge registry bind /services/hdfs --file /dev/stdin
selvedge registry resolve /services/hdfs

echo "--- stopped: the path stays, the endpoints go"
selvedge registry bind /services/hdfs --file "$here/stopped.json"
selvedge registry resolve /services/hdfs
