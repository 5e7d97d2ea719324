package upstream

import "time"

// Probe is what one reply looks like through the mapping, for a person who
// writes or mends a configuration. Unlike everything else here it holds content
// and internal ids: it is for the operator's screen, not for logs or callers.
type Probe struct {
	Kind     string        `json:"kind"`
	Account  string        `json:"account"`
	Request  *ProbeRequest `json:"request,omitempty"` // nil for a saved reply
	Status   int           `json:"status,omitempty"`  // of the reply; 0: none came
	Bytes    int           `json:"bytes"`
	Took     time.Duration `json:"took_ns"`
	Problem  string        `json:"problem,omitempty"`   // why the reply as a whole cannot be used
	NextPage string        `json:"next_page,omitempty"` // where the list goes on, or why it cannot; only the first page is probed

	Items       int              `json:"items"` // records in the reply
	Records     []ProbeRecord    `json:"records"`
	Violations  []ProbeViolation `json:"violations"`
	Owner       ProbeOwner       `json:"owner"`
	InternalIDs []ProbeID        `json:"internal_ids"`
	Unused      []ProbeUnused    `json:"unused"` // fields of the records that no part of the mapping looks at
}

// ProbeRequest is what was sent. Values of headers that may be secrets are
// replaced by "(hidden)".
type ProbeRequest struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
}

// ProbeRecord shows one record field by field.
type ProbeRecord struct {
	Number int          `json:"number"` // from 1
	Fields []ProbeField `json:"fields"`
}

// ProbeField is the way of one value.
type ProbeField struct {
	Field   string `json:"field"`
	Path    string `json:"path"`   // the configured one that counted
	Raw     string `json:"raw"`    // JSON as it came, shortened; empty: nothing there
	Mapped  string `json:"mapped"` // as the public record has it; null for null
	Problem string `json:"problem,omitempty"`
}

// ProbeViolation is one reason to refuse a record.
type ProbeViolation struct {
	Record  int    `json:"record"`
	Field   string `json:"field"`
	Problem string `json:"problem"`
}

// ProbeOwner is the outcome of the ownership check.
type ProbeOwner struct {
	Path    string `json:"path"` // empty: not checked
	Matches int    `json:"matches"`
	Missing []int  `json:"missing"` // numbers of records without an owner
	Foreign []int  `json:"foreign"` // numbers of records of somebody else
}

// ProbeID is one configured path of internal ids.
type ProbeID struct {
	Path   string   `json:"path"`
	Found  int      `json:"found"`
	Quoted []string `json:"quoted"` // "record 3 content": texts that had one of its ids in them
}

// ProbeUnused is a path in the records.
type ProbeUnused struct {
	Path  string   `json:"path"`
	Types []string `json:"types"`
}

// ProbeOptions choose what is probed.
type ProbeOptions struct {
	Sample  []byte // a saved reply; nil: one real request
	Records int    // to show field by field; default 3
}
