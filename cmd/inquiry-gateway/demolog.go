package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// shortLog shows the log of a demo to a person: a short line for each request. Only one goroutine may
// write to it.
type shortLog struct{ out io.Writer }

// logLine is what is shown of a record, of whichever sort it is; what a record does not
// have is empty.
type logLine struct {
	Time     time.Time `json:"time"`
	Level    string    `json:"level"`
	Msg      string    `json:"msg"`
	Status   int       `json:"status"`
	Cache    string    `json:"cache"`
	Duration float64   `json:"duration_seconds"`
	Bytes    int       `json:"bytes"`
	Endpoint string    `json:"endpoint"`
	Account  string    `json:"account"`
	Code     string    `json:"error_code"`
	Cause    string    `json:"cause"`
	Security any       `json:"security"`
}

// Write takes whole lines of JSON. What is no record is shown as it is.
func (s *shortLog) Write(lines []byte) (int, error) {
	var shown bytes.Buffer
	for line := range bytes.Lines(lines) {
		var l logLine
		switch err := json.Unmarshal(line, &l); {
		case err != nil:
			shown.Write(line)
		case l.Msg == "request":
			text := fmt.Sprintf("%s %d %-16s %8s %8d B  %s %s %s %s", l.Time.Local().Format(time.TimeOnly), l.Status, l.Cache,
				time.Duration(l.Duration*float64(time.Second)).Round(10*time.Microsecond), l.Bytes, l.Endpoint, l.Account, l.Code, l.Cause)
			fmt.Fprintln(&shown, strings.TrimRight(text, " "))
		case l.Msg != "request" && l.Security == nil && l.Msg != "serving": // the record of the request, or the welcome, says it
			_, rest, _ := bytes.Cut(bytes.TrimSpace(line), []byte(`"msg":`))
			fmt.Fprintf(&shown, "%s %s %s\n", l.Time.Local().Format(time.TimeOnly), l.Level, bytes.TrimSuffix(rest, []byte("}")))
		}
	}
	if _, err := s.out.Write(shown.Bytes()); err != nil {
		return 0, err
	}
	return len(lines), nil
}
