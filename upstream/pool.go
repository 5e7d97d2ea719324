package upstream

import "sync/atomic"

// A list of 1,000 records takes 300 KiB beside the bytes of the reply that its
// texts are in, and all of it is free again when the list has been rendered. So
// that it does not have to be collected and allocated anew, it goes round:
//
//	take -> one fetch fills it -> lend -> the list is rendered -> Release
//
// A reply that is not released, or whose fetch panics, is garbage like any other
// memory: only what nobody can use any more comes back.

// take gives a reply of this plan that belongs to the caller alone.
func (p *endpointPlan) take(want Request) *reply {
	if p.pool == nil {
		return newReply(p, want)
	}
	r, ok := p.pool.Get().(*reply)
	if !ok {
		return newReply(p, want)
	}
	r.want, r.account = want, want.Account
	return r
}

// lease is the right to give a reply back. There is one for each time that a
// reply is lent, so that giving back twice cannot take it from the next fetch.
type lease struct{ reply atomic.Pointer[reply] }

// lend gives the list out.
func (r *reply) lend() *lease {
	l := &lease{}
	l.reply.Store(r)
	return l
}

// Release gives back the memory of the inquiries for lists to come. Afterwards
// neither they nor any text of theirs may be used: they would turn into another
// account's. It need not be called; calling it again does nothing.
func (l *List) Release() {
	l.Inquiries = nil
	if l.lease == nil {
		return
	}
	if r := l.lease.reply.Swap(nil); r != nil {
		r.giveBack()
	}
}

// giveBack ends the use of a reply and of those for its second calls.
func (r *reply) giveBack() {
	for _, sub := range r.subs {
		sub.giveBack()
	}
	r.memory.free()
	if r.plan.pool == nil {
		return
	}
	r.reset()
	r.plan.pool.Put(r)
}

// reset forgets everything about a list and keeps the memory that it took, and
// the names that its records have.
func (r *reply) reset() {
	for i := range r.frames {
		f := &r.frames[i]
		f.text, f.record, f.texts = "", "", nil
	}
	forms, learnt := r.forms, r.learnt
	if learnt >= maxLearnt { // perhaps of names that never come again
		forms, learnt = nil, 0
	}
	*r = reply{
		plan: r.plan, frames: r.frames, memory: r.memory, forms: forms, learnt: learnt,
		list: emptied(r.list), responses: emptied(r.responses), keys: emptied(r.keys), fetchIDs: emptied(r.fetchIDs), samples: emptied(r.samples),
		ids: idSet{keys: emptied(r.ids.keys), spans: emptied(r.ids.spans), texts: r.ids.texts.emptied(), index: uuidIndex{places: emptied(r.ids.index.places)}},
	}
	if r.list == nil {
		r.list = []Inquiry{} // an empty list is a list
	}
}

// emptied clears what was used of a slice. One that was far too large is let go:
// a single long list must not hold memory for as long as short ones follow.
func emptied[T any](list []T) []T {
	if cap(list) > 4*len(list)+1024 {
		return nil
	}
	clear(list[:min(len(list)+1, cap(list))]) // one more than was kept may have been used
	return list[:0]
}
