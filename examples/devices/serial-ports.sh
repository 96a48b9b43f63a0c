#!/bin/sh
# Says which devices this machine has: one line of JSON for each. Here: USB serial ports, under the
# resource type example.com/serial. No port, no line; an exit code other than 0 keeps the node from
# starting, and the last line on stderr is its reason.
set -eu
for path in "${1:-/dev}"/ttyUSB* "${1:-/dev}"/ttyACM*; do
  # A pattern that finds nothing stays as it is.
  [ -e "$path" ] || continue
  name=${path##*/}
  printf '{"type": "example.com/serial", "id": "%s", "paths": ["%s"], "env": {"SERIAL_PORT": "%s"}}\n' \
    "$name" "$path" "$path"
done
