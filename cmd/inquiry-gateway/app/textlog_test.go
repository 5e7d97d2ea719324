package app

import (
	"bytes"
	"testing"
)

func TestTextLog(t *testing.T) {
	for line, want := range map[string]string{
		`{"time":"2026-11-22T10:45:02Z","level":"INFO","msg":"two words","status":200,"cause":"a b","empty":"","key":"x"}` + "\n": `2026-11-22T10:45:02Z INFO two words status=200 cause="a b" empty="" key=x` + "\n",
		`{"level":"WARN","security":{"event":"e","deep":{"n":9007199254740993}},"list":["a",1]}` + "\n":                           `WARN security.event=e security.deep.n=9007199254740993 list=["a",1]` + "\n",
		`{"cause":"line\nbreak=\u001b[31m"}` + "\n":                                                                               `cause="line\nbreak=\x1b[31m"` + "\n",
		"no record\n":                  "no record\n",
		`{"cut": ` + "\n":              `{"cut": ` + "\n",
		`{"a":1}` + "\n{\"b\":null}\n": "a=1\nb=null\n",
	} {
		var out bytes.Buffer
		if n, err := TextLog(&out).Write([]byte(line)); n != len(line) || err != nil || out.String() != want {
			t.Errorf("%d, %v, got\n%s\nwant\n%s", n, err, out.String(), want)
		}
	}
}
