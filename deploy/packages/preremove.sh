#!/bin/sh
# On a removal, which Debian calls "remove" and RPM 0; an upgrade leaves the service
# running until postinstall.sh restarts it.
set -e
if [ -d /run/systemd/system ] && { [ "$1" = remove ] || [ "$1" = 0 ]; }; then
  systemctl disable --now inquiry-gateway
fi
