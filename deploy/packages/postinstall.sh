#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
if [ ! -e /etc/inquiry-gateway/gateway.yaml ]; then
  echo "Write /etc/inquiry-gateway/gateway.yaml and keys.yaml (0640, group inquiry-gateway), then: systemctl enable --now inquiry-gateway"
fi
