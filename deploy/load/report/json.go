package report

import (
	"encoding/json"
	"io"
)

// JSON writes a run with all its samples.
func JSON(w io.Writer, r Run) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
