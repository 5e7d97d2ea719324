package mapping

import (
	"slices"

	"inquiry-gateway/upstream/jsontree"
)

// stage is something that the records of a list wait for before they are evaluated: their other rows, their details, or their
// responses, which become a member of the record.
type stage struct {
	name       string         // one of the three
	memberName string         // of that member
	single     bool           // one thing comes for each record, and must; else an array does
	id         identity       // of a record: what comes is found by it
	noID       Violation      // of a record without one
	second     *SecondRequest // the requests for it; nil: it comes with the list
}

// The stages.
const (
	stageRows      = "rows"
	stageDetails   = "details"
	stageResponses = "responses"
)

// waitingRecord is a record in a stage.
type waitingRecord struct {
	id      string // empty: nothing can belong to it
	version string
	record  jsontree.Value
	parts   []attachedPart
	number  int
	tables  indexes
	skipped bool // it is left out
}

// enterStage adds a record to the nth stage. It waits there, unless the stages before have shown that it will not be served.
func (b *Builder) enterStage(e *element, nth int) *Error {
	if nth == len(b.plan.stages) {
		return b.addWhole(e)
	}
	s := &b.plan.stages[nth]
	outcome, bad := b.evaluateBefore(s, e)
	id, single := s.id.of(e)
	e.beforeDetail = s.name != stageResponses // whose records are evaluated before
	record := e.Value
	if record.Kind() != jsontree.Object { // a bare id becomes a record
		record, _ = jsontree.Parse(`{"` + bareID + `":` + record.Raw() + `}`)
	}
	switch {
	case outcome != outcomeServed:
	case id == "" && !(single && s.second != nil && s.second.idOptional):
		outcome, bad = outcomeInvalid, s.noID
	case record.Member(s.memberName).Kind() != jsontree.Missing:
		outcome, bad = outcomeInvalid, Violation{Field: "record", Problem: reasonOwnMember}
	default:
		outcome = outcomeWaiting
		one := waitingRecord{id: id, record: record, number: b.recordNumber, tables: e.tables}
		if s.second != nil {
			one.version, _ = scalarID(s.second.version.first(e))
		}
		b.addWaiting(s, one)
	}
	return b.recordOutcome(e, outcome, bad)
}

// evaluateBefore evaluates a record before a stage: each row must belong to the account; details are fetched only if the list does
// not show another owner, and responses only for records that are shown.
func (b *Builder) evaluateBefore(s *stage, e *element) (outcome, Violation) {
	switch object := e.Kind() == jsontree.Object; {
	case s.name == stageResponses:
		return b.plan.scratchMapper().evaluate(&Inquiry{}, e, &b.want)
	case s.name == stageRows && !object:
		return outcomeInvalid, Violation{Field: "record", Problem: reasonObject}
	case s.name == stageRows:
		return b.plan.evaluateOwner(e, b.want.Account)
	case b.plan.ownerInList && object:
		return b.plan.evaluateShown(e, b.want.Account, true)
	}
	return outcomeServed, Violation{}
}

// addWaiting adds a record to those that wait, or a further row to its record.
func (b *Builder) addWaiting(s *stage, one waitingRecord) {
	if s.second == nil {
		if at, known := b.rowIndex[one.id]; known {
			b.waiting[at].parts = append(b.waiting[at].parts, attachedPart{value: one.record, tables: one.tables})
			return
		}
		if b.rowIndex == nil {
			b.rowIndex = map[string]int{}
		}
		b.rowIndex[one.id] = len(b.waiting)
	}
	b.waiting = append(b.waiting, one)
}

// CheckEnd refuses a list that is incomplete, and completes the stages that need no request. The error is an [*Error].
func (b *Builder) CheckEnd(end End) error {
	if err := b.checkEnd(end); err != nil {
		return err
	}
	return b.advance()
}

// advance completes stages up to the next one that needs requests.
func (b *Builder) advance() error {
	for b.stageIndex < len(b.plan.stages) && len(b.pendingBatches()) == 0 {
		if err := b.completeStage(); err != nil {
			return err
		}
	}
	return nil
}

// pendingBatches returns the waiting records, grouped by the request that is to be made for them.
func (b *Builder) pendingBatches() [][]*waitingRecord {
	second, records := b.plan.stages[b.stageIndex].second, []*waitingRecord{}
	if second == nil {
		return nil
	}
	for i := range b.waiting {
		if b.waiting[i].id != "" {
			records = append(records, &b.waiting[i])
		}
	}
	return slices.Collect(slices.Chunk(records, max(second.batch, 1)))
}

// Next returns the second requests to make now; nil: none. [Builder.Attach] takes their replies.
func (b *Builder) Next() (s *SecondRequest, batches []Batch) {
	if b.stageIndex == len(b.plan.stages) {
		return nil, nil
	}
	for _, records := range b.pendingBatches() {
		s = b.plan.stages[b.stageIndex].second
		batch := Batch{Version: records[0].version}
		for _, one := range records {
			batch.IDs = append(batch.IDs, one.id)
		}
		batches = append(batches, batch)
	}
	return s, batches
}

// Attach attaches the replies to the waiting records, one attachment for each batch of [Builder.Next]. If several records have the same
// id, each gets all that came for it. The error is an [*Error].
func (b *Builder) Attach(list []*Attachment) error {
	s := b.plan.stages[b.stageIndex].second
	for i, records := range b.pendingBatches() {
		byID := map[string][]*waitingRecord{}
		for _, one := range records {
			byID[one.id] = append(byID[one.id], one)
		}
		a := list[i]
		b.ids.Merge(&a.ids)
		for _, one := range records {
			if a.Missing {
				one.id, one.skipped = "", s.Missing == "skip" // nothing is attached
			}
		}
		b.bytes += a.bytes // with which what look-ups give is compared
		for _, p := range a.parts {
			if s.batch == 0 {
				p.key = records[0].id
			}
			if len(byID[p.key]) == 0 { // it could be somebody else's
				return newError("record", "%s came for a record that was not asked for, or without its id", s.Name)
			}
			for _, one := range byID[p.key] {
				one.parts = append(one.parts, p)
			}
		}
	}
	if err := b.completeStage(); err != nil {
		return err
	}
	return b.advance()
}

// completeStage attaches to each waiting record what came for it, and adds the record to the next stage.
func (b *Builder) completeStage() error {
	s, list, next := &b.plan.stages[b.stageIndex], b.waiting, b.stageIndex+1
	b.waiting, b.stageIndex = nil, next
	for _, one := range list {
		if one.skipped {
			b.Hidden++
			continue
		}
		values, tables, deliver := make([]jsontree.Value, len(one.parts)), make([]indexes, len(one.parts)), b.deliver
		for i, p := range one.parts {
			values[i], tables[i] = p.value, p.tables
		}
		b.deliver = func(e *element) *Error { return b.enterStage(e, next) }
		switch {
		case one.id == "":
		case !s.single:
			one.record.Attach(s.memberName, jsontree.ListOf(values...))
		case len(values) == 1:
			one.record.Attach(s.memberName, values[0])
		case len(values) > 1:
			return newError("record", "two details of one record came")
		default:
			b.deliver = b.addWithoutDetail
		}
		if s.name == stageDetails {
			tables = nil // a detail is no response
		}
		b.recordNumber = one.number
		failed := b.addItem(&element{Value: one.record, tables: one.tables, partTables: tables})
		if b.deliver = deliver; failed != nil {
			return failed
		}
	}
	return nil
}

// addWithoutDetail records the outcome of a record without its detail.
func (b *Builder) addWithoutDetail(e *element) *Error {
	return b.recordOutcome(e, outcomeInvalid, Violation{Field: "details", Problem: reasonNoDetail})
}
