#!/bin/sh
# Two writers of one record; the slower one is refused and tries again.
set -eu
cd "$(dirname "$0")/../../.."
selvedge() { bin/selvedge.mjs "$@"; }
path=/users/admin/org-example-database/demo1
trap 'selvedge registry rm --recursive --force /users/admin/org-example-database' EXIT
bind() { selvedge registry bind "$path" --api org.example.sql --inet --port 5432 "$@"; }
version() {
  selvedge registry stat "$path" -o json | sed -n 's/.*"version": \([0-9]*\).*/\1/p'
}
# Expects the command to be refused with exit code 49, "in conflict with the present state".
refused() {
  code=0
  "$@" || code=$?
  if [ "$code" -ne 49 ]; then echo "exit code $code, not 49" >&2; exit 1; fi
}

echo "--- only the first to register gets the path"
bind --parents --host db1.example.com --if-version absent
refused bind --host db2.example.com --if-version absent

echo "--- two have read the same version; one writes first"
mine=$(version)
bind --host db3.example.com --if-version "$mine"
refused bind --host db4.example.com --if-version "$mine"

echo "--- the other one reads again, and decides again"
bind --host db4.example.com --if-version "$(version)"
selvedge registry resolve "$path"
