package main

import (
	"bytes"
	"testing"
)

// A person sees a line for each request of their own, and none of the canary's.
func TestShortLog(t *testing.T) {
	var out bytes.Buffer
	log := shortLog{out: &out}
	lines := `{"time":"2026-11-22T10:45:12.100Z","level":"INFO","msg":"request","status":200,"duration_seconds":0.0204,"bytes":1386,"endpoint":"buyer_inquiries","account":"acme","key_id":"demo-buyer","cache":"miss"}
{"time":"2026-11-22T10:45:12.200Z","level":"INFO","msg":"request","status":200,"key_id":"canary-buyer-0","account":"buyer-0004","cache":"hit"}
{"time":"2026-11-22T10:45:12.210Z","level":"INFO","msg":"authentication refused","security":{"event":"auth_failed"}}
{"time":"2026-11-22T10:45:12.220Z","level":"INFO","msg":"request","status":401,"error_code":"missing_api_key"}
{"time":"2026-11-22T10:45:13.220Z","level":"INFO","msg":"request","status":401,"endpoint":"buyer_inquiries","error_code":"missing_api_key"}
{"time":"2026-11-22T10:45:14Z","level":"ERROR","msg":"request","status":502,"endpoint":"buyer_inquiries","account":"acme","key_id":"demo-buyer","cache":"error","error_code":"upstream_error","cause":"it is down"}
{"time":"2026-11-22T10:45:15Z","level":"WARN","msg":"breaker","state":"open"}
no record
`
	if n, err := log.Write([]byte(lines)); err != nil || n != len(lines) {
		t.Fatalf("%d, %v", n, err)
	}
	at := func(second string) string {
		var l logLine
		_ = l.Time.UnmarshalText([]byte("2026-11-22T10:45:" + second + "Z"))
		return l.Time.Local().Format("15:04:05")
	}
	want := at("12") + " \x1b[32m200\x1b[0m miss               20.4ms     1386 B  buyer_inquiries acme\n" +
		at("13") + " \x1b[33m401\x1b[0m                        0s        0 B  buyer_inquiries  missing_api_key\n" +
		at("14") + " \x1b[31m502\x1b[0m error                  0s        0 B  buyer_inquiries acme upstream_error it is down\n" +
		at("15") + ` WARN "breaker","state":"open"` + "\nno record\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
