package main

import (
	"context"
	"fmt"
	"net/http"

	"inquiry-gateway/deploy/load/report"
)

// sizesTable takes lists of growing length from the gateway and puts them into
// a cache of their own.
func (s *stand) sizesTable(ctx context.Context, o options) (report.Table, error) {
	t := report.Table{
		Title:  "Growth: records in a list",
		Header: []string{"records", "the legacy's reply", "body", "gzip", "zstd", "in the process per list", "of the body", "Redis per list"},
		Text:   "Filled through the whole gateway. A coding is made when a caller first takes it, and then kept in the process beside the body; Redis has the body alone. What a miss costs is in the table of misses.",
	}
	for _, n := range []int{20, 200, 1000, 5000} {
		if o.quick && n > 1000 {
			break
		}
		cells, err := s.sizeCells(ctx, n)
		if err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, cells)
	}
	return t, nil
}

func (s *stand) sizeCells(ctx context.Context, records int) ([]string, error) {
	p, err := s.startNode(ctx, node{name: fmt.Sprintf("size-%d", records), records: records, backend: s.backend.addr})
	if err != nil {
		return nil, err
	}
	var sizes [3]int
	var body []byte
	for i, coding := range []string{"identity", "gzip", "zstd"} {
		response, b, err := s.get(ctx, "http://"+p.addr+target(""), s.fixture.keys[0], "Accept-Encoding", coding)
		if err != nil {
			return nil, err
		}
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("a list of %d records: %s", records, response.Status)
		}
		if sizes[i] = len(b); i == 0 {
			body = b
		}
	}
	if err := p.stop(); err != nil {
		return nil, err
	}
	_, reply, err := s.get(ctx, fmt.Sprintf("http://%s/r%d/v2/tickets?customer=%s", s.backend.addr, records, account(0)), "")
	if err != nil {
		return nil, err
	}
	// As many lists as make some 64 MiB, so that what every cache has counts little.
	copies := min(max((64<<20)/(2*len(body)), 8), 2000)
	c, err := fillLists(ctx, copies, body)
	if err != nil {
		return nil, err
	}
	inRedis, err := s.redisBytes(ctx, copies, body)
	if err != nil {
		return nil, err
	}
	each, held := c.heap/float64(copies), float64(sizes[0])
	memory, share := report.Bytes(each), fmt.Sprintf("%.2f ×", each/held)
	if each <= 0 {
		// The heap shrank meanwhile by more than the lists take.
		memory, share = "too little to tell", ""
	}
	return []string{
		report.Count(records), report.Bytes(float64(len(reply))), report.Bytes(float64(sizes[0])), report.Bytes(float64(sizes[1])), report.Bytes(float64(sizes[2])),
		memory, share, report.Bytes(inRedis / float64(copies)),
	}, nil
}
