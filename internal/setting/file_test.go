package setting

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestContentIsNeverPrinted(t *testing.T) {
	f := NewFile("/etc/gw/password", "hunter2\n")
	if f.Text() != "hunter2\n" || f.Secret() != "hunter2" {
		t.Errorf("the content is %q and %q", f.Text(), f.Secret())
	}
	section := struct {
		File  File
		Files []File
	}{f, []File{f}}
	encoded, err := json.Marshal(section)
	shown := []string{string(encoded), slog.AnyValue(section).String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		shown = append(shown, fmt.Sprintf(verb, f), fmt.Sprintf(verb, section))
	}
	for _, text := range shown {
		if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) || !strings.Contains(text, "/etc/gw/password") {
			t.Errorf("shown as %s", text)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func TestEqualOnlyWithTheSameContent(t *testing.T) {
	f := NewFile("a", "x")
	if same := NewFile("a", "x"); f != same || f == NewFile("a", "y") || f == NewFile("b", "x") {
		t.Error("two files are equal if name and content are")
	}
}

func TestTLSNamesTheKey(t *testing.T) {
	text := NewFile("f", "no PEM")
	for want, files := range map[string]TLS{
		"redis.tls.ca_file":   {CA: CA{text}},
		"redis.tls.key_file":  {Pair: Pair{CertFile: text}},
		"redis.tls.cert_file": {Pair: Pair{text, text}},
	} {
		var problems Problems
		files.Config("redis.tls", &problems)
		if len(problems) != 1 || problems[0].Key != want {
			t.Errorf("got %v, want one error at %s", problems, want)
		}
	}
	var problems Problems
	if c := (TLS{}).Config("", &problems); problems != nil || c.RootCAs != nil || c.Certificates != nil {
		t.Errorf("without files: %+v, %v", c, problems)
	}
}
