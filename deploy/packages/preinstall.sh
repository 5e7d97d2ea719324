#!/bin/sh
# The user that the service runs as; it owns nothing.
set -e
if ! getent passwd inquiry-gateway >/dev/null; then
  useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin inquiry-gateway
fi
