package drill

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Report is a drill for a person or a machine.
type Report struct {
	OK       bool     `json:"ok"`              // every row is as declared
	Settings string   `json:"settings"`        // whose they are
	Redis    string   `json:"redis"`           // which one was drilled with; empty: none
	Keys     Source   `json:"keys"`            // where keys come from
	LeftOut  []string `json:"left_out"`        // what was not drilled, and why
	Seconds  float64  `json:"seconds"`         // that it took
	HeldUp   float64  `json:"held_up_seconds"` // seconds for which this machine held up the drill at the most; answers may take as much longer
	Rows     []Row    `json:"rows"`
	Trials   []Trial  `json:"trials"`
}

// report sums up the rows and trials of a drill. What could not be drilled is left out,
// and said; it is no failure.
func (r *run) report(rows []Row, trials []Trial, took time.Duration) Report {
	sum := Report{
		Settings: r.Whose, Keys: r.terms.keys, LeftOut: []string{}, Rows: rows, Trials: trials,
		Seconds: took.Seconds(), HeldUp: r.busy.heldUp().Seconds(),
	}
	switch {
	case r.terms.redis:
		sum.Redis = r.Store.What
	case len(r.Config.Redis.Addrs) == 0:
		sum.LeftOut = append(sum.LeftOut, "Redis: this gateway has none (redis.addrs)")
	default:
		sum.LeftOut = append(sum.LeftOut, "Redis: "+ErrNoStore.Error()+"; install it, or give one on this machine by REDIS_URL")
	}
	switch {
	case sum.Keys == FromRedis && !r.terms.redis:
		sum.LeftOut = append(sum.LeftOut, "the key store: it is in Redis (auth.redis)")
	case sum.Keys == FromFile:
		sum.LeftOut = append(sum.LeftOut, "a slow key store: the keys file is read into the process")
	}
	sum.OK = len(sum.wrong()) == 0
	return sum
}

// wrong says which rows and trials are not as declared, and why.
func (r Report) wrong() (all []string) {
	for _, row := range r.Rows {
		if row.Problem != "" {
			all = append(all, fmt.Sprintf("Redis %s, legacy system %s, key store %s; %s:\n       %s", row.Redis, row.Legacy, row.Keys, r.known(row.Case), row.Problem))
		}
	}
	for _, t := range r.Trials {
		if t.Problem != "" {
			all = append(all, fmt.Sprintf("%s:\n       %s", t.Does, t.Problem))
		}
	}
	return all
}

// all is how many rows and trials there are.
func (r Report) all() int { return len(r.Rows) + len(r.Trials) }

// Err says how many rows are not as declared; nil: none.
func (r Report) Err() error {
	if r.OK {
		return nil
	}
	return fmt.Errorf("%d of %d rows are not as declared", len(r.wrong()), r.all())
}

// WriteText writes the table for a person, into memory: an error of out is lost.
func (r Report) WriteText(out io.Writer) {
	fmt.Fprintf(out, "What callers get while something fails, with the settings of %s.\n", r.Settings)
	fmt.Fprintf(out, "Legacy system and key store (%s) are the drill's own", r.Keys)
	if r.Redis != "" {
		fmt.Fprintf(out, ", and so is the way to Redis: %s", r.Redis)
	}
	fmt.Fprintln(out, ". Nothing real is touched.")
	for _, what := range r.LeftOut {
		fmt.Fprintf(out, "LEFT OUT: %s\n", what)
	}
	if r.HeldUp > 0.1 {
		fmt.Fprintf(out, "This machine is busy: the drill itself was held up for up to %.1f s, which answers are allowed, too.\n", r.HeldUp)
	}
	r.section(out, "One at a time", 1)
	r.section(out, "Two at once: the stricter row of the two", 2)
	r.trials(out)
	wrong := r.wrong()
	for _, what := range wrong {
		fmt.Fprintf(out, "\nWRONG: %s\n", what)
	}
	fmt.Fprintf(out, "\n%d of %d rows as declared, in %.0f s\n", r.all()-len(wrong), r.all(), r.Seconds)
}

// section writes the rows with so many parts in trouble; that all are well
// belongs to the first.
func (r Report) section(out io.Writer, title string, troubles int) {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return max(1, len(row.troubles())) != troubles })
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(out, "\n%s\n", title)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tREDIS\tLEGACY\tKEYS\tTHE NODE KNOWS\tDECLARED\tSEEN\tTHAT IS")
	for _, row := range rows {
		declared := answers()[row.Declared.Outcome]
		due, seen := declared.text(), row.Seen.text()
		if row.limit > 0 {
			due += fmt.Sprintf(", +%s at most", short(row.limit))
			seen += fmt.Sprintf(", +%s", short(row.Added))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", verdict(row.Problem), shown(row.Redis), shown(row.Legacy), shown(row.Keys), r.known(row.Case), due, seen, declared.Means)
	}
	_ = t.Flush() // an error of out shows at its next write
}

// trials writes what one account or address does, and what another account gets.
func (r Report) trials(out io.Writer) {
	if len(r.Trials) == 0 {
		return
	}
	fmt.Fprintf(out, "\nWhat one account, one address or the legacy system does, and what another account gets\n")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tONE\tDECLARED FOR ANOTHER\tANSWERS")
	for _, trial := range r.Trials {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\n", verdict(trial.Problem), trial.Does, answers()[trial.Declared].text(), trial.Asked)
	}
	_ = t.Flush() // an error of out shows at its next write
}

// verdict marks a row or a trial.
func verdict(problem string) string {
	if problem == "" {
		return "ok"
	}
	return "WRONG"
}

// shown leaves out what is as it should be, so that the trouble is seen.
func shown(s State) string {
	if s == Up {
		return "-"
	}
	return string(s)
}

// known is what a node knows in a case. One that reads its keys from a file knows
// them all.
func (r Report) known(c Case) string {
	if r.Keys == FromFile {
		return map[Case]string{Warm: "list", Shared: "list in Redis", Cold: "no list", Later: "no list; breaker open"}[c]
	}
	return map[Case]string{Warm: "key and list", Shared: "nothing; list in Redis", Cold: "nothing", Later: "key; breaker open"}[c]
}

// shownAnswer is an answer in JSON. Zero values are left out: they say nothing.
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
