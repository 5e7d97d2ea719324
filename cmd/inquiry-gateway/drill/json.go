package drill

import (
	"encoding/json"
	"time"
)

// shownAnswer is an answer in JSON.
type shownAnswer struct {
	Status      int     `json:"status,omitempty"`
	Code        string  `json:"code,omitempty"`
	CacheStatus string  `json:"cache_status,omitempty"`
	AddedMS     float64 `json:"added_ms,omitempty"` // declared: at most; seen: where that is declared
	TookMS      float64 `json:"took_ms,omitempty"`
}

// MarshalJSON writes what a machine wants to know of a row.
func (row Row) MarshalJSON() ([]byte, error) {
	want := answers()[row.Declared.Outcome]
	declared := shownAnswer{Status: want.Status, Code: want.Code, AddedMS: ms(row.limit)}
	if want.Status == 200 {
		declared.CacheStatus = words("", want.CacheStatus, want.Detail)
	}
	seen := shownAnswer{Status: row.Seen.Status, Code: row.Seen.Code, CacheStatus: row.Seen.CacheStatus, TookMS: ms(row.Seen.Took)}
	if row.limit > 0 {
		seen.AddedMS = ms(row.Added)
	}
	return json.Marshal(struct {
		Cell
		Case     Case        `json:"case"`
		OK       bool        `json:"ok"`
		Declared shownAnswer `json:"declared"`
		Seen     shownAnswer `json:"seen"`
		Means    string      `json:"means"`
		Problem  string      `json:"problem,omitempty"`
	}{row.Cell, row.Case, row.Problem == "", declared, seen, want.Means, row.Problem})
}

// ms is a duration in milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// MarshalJSON writes what a machine wants to know of a trial.
func (t Trial) MarshalJSON() ([]byte, error) {
	want := answers()[t.Declared]
	return json.Marshal(struct {
		Name     string      `json:"name"`
		Does     string      `json:"does"`
		OK       bool        `json:"ok"`
		Declared shownAnswer `json:"declared"`
		Asked    int         `json:"asked"`
		Problem  string      `json:"problem,omitempty"`
	}{t.Name, t.Does, t.Problem == "", shownAnswer{Status: want.Status, CacheStatus: words("", want.CacheStatus, want.Detail)}, t.Asked, t.Problem})
}
