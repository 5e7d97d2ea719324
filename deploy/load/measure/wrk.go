package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Request is one kind of request that a script draws from.
type Request struct {
	Path   string
	Header map[string]string
}

// Script is a Lua script for wrk: each request is drawn at random from all
// pairs of a bearer key and a request, and the summary goes out as JSON.
func Script(keys []string, requests []Request) string {
	var b strings.Builder
	b.WriteString("local keys = {")
	for _, key := range keys {
		fmt.Fprintf(&b, "%s,", luaString(key))
	}
	b.WriteString("}\nlocal kinds = {\n")
	for _, r := range requests {
		fmt.Fprintf(&b, "  {path = %s, header = {", luaString(r.Path))
		for name, value := range r.Header {
			fmt.Fprintf(&b, "[%s] = %s,", luaString(name), luaString(value))
		}
		b.WriteString("}},\n")
	}
	b.WriteString("}\n")
	b.WriteString(scriptBody)
	return b.String()
}

// summaryMark starts the line that the script writes at the end.
const summaryMark = "SUMMARY "

// scriptBody makes all requests before the load starts, so that choosing one is
// all that the generator does in between. It shares the machine with the server.
const scriptBody = `local ready = {}

function init(args)
  for _, key in ipairs(keys) do
    for _, kind in ipairs(kinds) do
      local header = {Authorization = "Bearer " .. key}
      for name, value in pairs(kind.header) do header[name] = value end
      ready[#ready + 1] = wrk.format("GET", kind.path, header)
    end
  end
  math.randomseed(1)
end

function request()
  return ready[math.random(#ready)]
end

function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    'SUMMARY {"requests":%d,"duration_us":%d,"bytes":%d,"failed":%d,"status":%d,"p50_us":%d,"p99_us":%d}\n',
    summary.requests, summary.duration, summary.bytes, e.connect + e.read + e.write + e.timeout, e.status,
    latency:percentile(50), latency:percentile(99)))
end
`

// luaString quotes a string byte by byte, so that nothing in it has a meaning.
func luaString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "\\%03d", c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

var errNoSummary = errors.New("wrk printed no summary line")

// ParseWrk reads the summary that a Script writes out of all that wrk printed.
func ParseWrk(output []byte) (Load, error) {
	for line := range bytes.Lines(output) {
		rest, ok := bytes.CutPrefix(line, []byte(summaryMark))
		if !ok {
			continue
		}
		var s struct {
			Requests int   `json:"requests"`
			Duration int64 `json:"duration_us"`
			Bytes    int64 `json:"bytes"`
			Failed   int   `json:"failed"`
			Status   int   `json:"status"`
			P50      int64 `json:"p50_us"`
			P99      int64 `json:"p99_us"`
		}
		if err := json.Unmarshal(rest, &s); err != nil {
			return Load{}, fmt.Errorf("wrk's summary line: %w", err)
		}
		return Load{
			Requests: s.Requests, Duration: time.Duration(s.Duration) * time.Microsecond, Bytes: s.Bytes,
			P50: time.Duration(s.P50) * time.Microsecond, P99: time.Duration(s.P99) * time.Microsecond,
			Errors: s.Failed, BadStatus: s.Status,
		}, nil
	}
	return Load{}, errNoSummary
}
