package deploy_test

import (
	"strings"
	"testing"
)

const unit = "systemd/inquiry-gateway.service"

// unitCommands asks the binary about the command lines of the systemd unit.
func unitCommands(t *testing.T, binary string) {
	checked := 0
	for line := range strings.Lines(read(t, unit)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key != "ExecStart" && key != "ExecStartPre" {
			continue
		}
		words := strings.Fields(value)
		if words[0] != "/usr/local/bin/inquiry-gateway" {
			t.Errorf("%s starts %s", key, words[0])
		}
		knows(t, binary, words[1:])
		checked++
	}
	if checked != 2 {
		t.Errorf("%d command lines", checked)
	}
}

func TestUnitIsHardened(t *testing.T) {
	settings := map[string]bool{}
	for line := range strings.Lines(read(t, unit)) {
		settings[strings.TrimSpace(line)] = true
	}
	for _, want := range []string{
		"User=inquiry-gateway", "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateDevices=yes",
		"CapabilityBoundingSet=", "MemoryDenyWriteExecute=yes", "SystemCallFilter=@system-service", "Restart=on-failure",
	} {
		if !settings[want] {
			t.Errorf("%s is missing", want)
		}
	}
}
