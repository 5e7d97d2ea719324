package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
)

const unit = "systemd/inquiry-gateway.service"

// unitCommand asks the binary about the command line of the systemd unit.
func unitCommand(t *testing.T, binary string) {
	_, rest, _ := strings.Cut(testkit.Read(t, unit), "\nExecStart=/usr/local/bin/inquiry-gateway ")
	line, _, found := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("there is no ExecStart")
	}
	knows(t, binary, strings.Fields(line))
}

// After an upgrade the new program reads the configuration as the unit does, with its user and
// its environment, and only what it takes is restarted. systemctl and systemd-run are stand-ins
// that write down what they are asked.
func TestUpgradeOfThePackage(t *testing.T) {
	for _, c := range []struct {
		name, show, good string
		want             []string // each is in what was asked, or is not where it begins with !
	}{
		{"environment file", "EnvironmentFiles=/etc/inquiry-gateway/environment (ignore_errors=yes)\n", "true",
			[]string{"--property=EnvironmentFile=-/etc/inquiry-gateway/environment", "--property=User=gw", "\nsystemctl restart inquiry-gateway"}},
		{"drop-ins", "Environment=A=1 \"B=2 3\"\nEnvironmentFiles=/etc/a (ignore_errors=no)\nEnvironmentFiles=/etc/b (ignore_errors=yes)\n", "true",
			[]string{"--property=Environment=A=1 \"B=2 3\"", "--property=EnvironmentFile=/etc/a", "--property=EnvironmentFile=-/etc/b", "\nsystemctl restart inquiry-gateway"}},
		{"no environment", "", "true", []string{"!EnvironmentFile", "\nsystemctl restart inquiry-gateway"}},
		{"refused", "", "false", []string{"!\nsystemctl restart", "The old inquiry-gateway goes on running"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, script := range map[string]string{
				"systemctl":   `case "$*" in is-active*) ;; show*) sed -n "s/^${2#--property=}=//p" ` + dir + `/show ;; *) echo "systemctl $*" ;; esac`,
				"systemd-run": `echo "systemd-run $*"; ` + c.good,
				"show":        "User=gw\n" + c.show,
			} {
				text := script
				if name != "show" {
					text = "#!/bin/sh\n" + script + "\n"
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			got := run(t, "", []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, "sh", "packages/postinstall.sh")
			for _, want := range append(c.want, "inquiry-gateway check -c /etc/inquiry-gateway/gateway.yaml") {
				text, absent := strings.CutPrefix(want, "!")
				if strings.Contains(got, text) == absent {
					t.Errorf("%q in\n%s", want, got)
				}
			}
		})
	}
}
