#!/bin/sh
# After an upgrade a service that runs is restarted, if its configuration is good.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  if systemctl is-active --quiet inquiry-gateway; then
    if /usr/bin/inquiry-gateway check -c /etc/inquiry-gateway/gateway.yaml; then
      systemctl restart inquiry-gateway
    else
      echo "The old inquiry-gateway goes on running: mend /etc/inquiry-gateway/gateway.yaml, then: systemctl restart inquiry-gateway"
    fi
  fi
fi
if [ ! -e /etc/inquiry-gateway/gateway.yaml ]; then
  echo "Write /etc/inquiry-gateway/gateway.yaml and keys.yaml (0640, group inquiry-gateway), then: systemctl enable --now inquiry-gateway"
fi
