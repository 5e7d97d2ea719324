#!/bin/sh
# After an upgrade a service that runs is restarted, if the new program takes its configuration,
# read with the service's own user and environment.
set -e
service=inquiry-gateway
config=/etc/inquiry-gateway/gateway.yaml

# check runs `check` as the unit would: systemd itself reads what the unit and its drop-ins say.
check() {
  set -- --property="User=$(systemctl show --property=User --value $service)" \
    --property="Environment=$(systemctl show --property=Environment --value $service)" "$@"
  while read -r file option; do
    [ -z "$file" ] || set -- --property="EnvironmentFile=$([ "$option" = '(ignore_errors=yes)' ] && echo -)$file" "$@"
  done <<FILES
$(systemctl show --property=EnvironmentFiles --value $service)
FILES
  systemd-run --quiet --wait --pipe --collect "$@"
}

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
if systemctl is-active --quiet $service 2>/dev/null; then
  if check /usr/bin/inquiry-gateway check -c $config; then
    systemctl restart $service
  else
    echo "The old inquiry-gateway goes on running. Mend what stands above, then: systemctl restart $service" >&2
  fi
fi
if [ ! -e $config ]; then
  echo "Write $config and keys.yaml (0640, group inquiry-gateway), then: systemctl enable --now $service"
fi
