package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// canaryRound is how long the canary's requests without a good key may follow one
// of its others. Their records do not say whose they are.
const canaryRound = 250 * time.Millisecond

// shortLog shows the log of a demo to a person: a short line for each request, none for the canary's. Only one goroutine may write to it.
type shortLog struct {
	out    io.Writer
	colors bool
	canary time.Time // of its newest record
}

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
	KeyID    string    `json:"key_id"`
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
			s.request(&shown, l)
		case l.Security == nil && l.Msg != "serving": // the record of the request, or the welcome, says it
			fmt.Fprintf(&shown, "%s %s %s\n", l.Time.Local().Format(time.TimeOnly), l.Level, rest(line))
		}
	}
	if _, err := s.out.Write(shown.Bytes()); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// request shows the record of one request: moment, status in colour, what the cache did,
// time, size, and who asked for what. Those of the canary only set when it was last seen.
func (s *shortLog) request(out io.Writer, l logLine) {
	const red, green, yellow = 31, 32, 33
	if strings.HasPrefix(l.KeyID, canaryKeyID) {
		s.canary = l.Time
		return
	}
	if l.KeyID == "" && l.Status == http.StatusUnauthorized && l.Time.Sub(s.canary) < canaryRound {
		return
	}
	color := green
	switch {
	case l.Status >= http.StatusInternalServerError:
		color = red
	case l.Status >= http.StatusBadRequest:
		color = yellow
	}
	status := strconv.Itoa(l.Status)
	if s.colors {
		status = fmt.Sprintf("\x1b[%dm%s\x1b[0m", color, status)
	}
	line := fmt.Sprintf("%s %s %-16s %8s %8d B  %s %s %s %s", l.Time.Local().Format(time.TimeOnly), status, l.Cache,
		time.Duration(l.Duration*float64(time.Second)).Round(10*time.Microsecond), l.Bytes, l.Endpoint, l.Account, l.Code, l.Cause)
	fmt.Fprintln(out, strings.TrimRight(line, " "))
}

// rest is a record without what the line begins with.
func rest(line []byte) string {
	_, text, _ := bytes.Cut(line, []byte(`"msg":`))
	return strings.TrimSuffix(strings.TrimSpace(string(text)), "}")
}
