package measure

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

//go:embed wrk.lua
var wrkScript []byte

// Wrk loads with wrk on one thread. Each request is drawn at random from all
// pairs of a key and a request. The error is of writing its files.
func Wrk(p Plan) (Generator, error) {
	var requests strings.Builder
	for _, r := range p.Requests {
		requests.WriteString(r.Path)
		for name, value := range r.Header {
			requests.WriteString("\t" + name + "\t" + value)
		}
		requests.WriteByte('\n')
	}
	// wrk reads them when it starts, so a generator can run as often as one likes.
	script, keys, kinds := p.Files+".lua", p.Files+".keys", p.Files+".requests"
	err := errors.Join(
		os.WriteFile(script, wrkScript, 0o600),
		os.WriteFile(keys, []byte(strings.Join(p.Keys, "\n")+"\n"), 0o600),
		os.WriteFile(kinds, []byte(requests.String()), 0o600),
	)
	return func(ctx context.Context, d time.Duration) (Load, error) {
		output, err := run(ctx, d, "wrk", "-t1", "-c"+strconv.Itoa(p.Connections), "--timeout", "10s",
			"-d"+seconds(d)+"s", "-s", script, p.URL, "--", keys, kinds)
		if err != nil {
			return Load{}, err
		}
		return parseWrk(output)
	}, err
}

// parseWrk reads the line that wrk.lua writes at the end.
func parseWrk(output []byte) (Load, error) {
	_, line, ok := bytes.Cut(output, []byte("SUMMARY "))
	if !ok {
		return Load{}, fmt.Errorf("wrk printed no summary: %s", tail(output))
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	var load Load
	if err := json.Unmarshal(line, &load); err != nil {
		return Load{}, fmt.Errorf("wrk's summary: %w", err)
	}
	return load, nil
}
