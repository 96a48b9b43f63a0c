#!/bin/sh
# Says who it is, once a minute, as conf/hello.env has it.
. conf/hello.env
while true; do
  echo "$GREETING from $NAME"
  sleep 60
done
