package upstream

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"inquiry-gateway/upstream/mapping"
)

// maxStoredBytes bounds the replies of all accounts together.
const maxStoredBytes = 16 << 20

// replyStore has the replies to second requests for records that have a version. While a record's
// version is the same they are used again. It is of this process alone, and safe for concurrent use.
type replyStore struct {
	mu    sync.Mutex
	by    map[storeKey]*list.Element
	order *list.List // of *storedReplies, the last used first
	bytes int
}

// storeKey is everything that decides on what came for a record.
type storeKey struct {
	fingerprint string // of the mapping, and of its kind
	name        string // details or responses
	account     string
	id, version string
	changes     string // see Request.Changes: a purge or hint leaves all of before behind
}

// storedReplies are the replies for one record, one for each page.
type storedReplies struct {
	storeKey
	bodies []string
	came   time.Time
	bytes  int
}

func newReplyStore() *replyStore {
	return &replyStore{by: map[storeKey]*list.Element{}, order: list.New()}
}

// storeKey is where the replies for a batch are stored; false: they are not.
func (f *fetch) storeKey(s *mapping.SecondRequest, b mapping.Batch) (k storeKey, may bool) {
	k = storeKey{f.endpoint.fingerprint, s.Name, f.want.Account, b.IDs[0], b.Version, f.want.Changes}
	return k, b.Version != "" && f.want.Changes != "" && f.endpoint.keepFor > 0
}

// get gives what came since a moment.
func (c *replyStore) get(k storeKey, since time.Time) (bodies []string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.by[k]
	if e == nil {
		return nil, false
	}
	one := e.Value.(*storedReplies)
	if one.came.Before(since) {
		c.drop(e)
		return nil, false
	}
	c.order.MoveToFront(e)
	return one.bodies, true
}

// put stores replies, in the place of those that were used the longest ago.
func (c *replyStore) put(k storeKey, bodies []string, came time.Time) {
	const each = 200                                                // bytes besides
	k.id, k.version = strings.Clone(k.id), strings.Clone(k.version) // they are parts of the list's body
	one := &storedReplies{k, bodies, came, each + len(k.account) + len(k.id) + len(k.version)}
	for _, body := range bodies {
		one.bytes += len(body)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.by[k]; old != nil {
		c.drop(old)
	}
	c.by[k] = c.order.PushFront(one)
	for c.bytes += one.bytes; c.bytes > maxStoredBytes; {
		c.drop(c.order.Back())
	}
}

// drop forgets replies. c.mu is held.
func (c *replyStore) drop(e *list.Element) {
	one := c.order.Remove(e).(*storedReplies)
	delete(c.by, one.storeKey)
	c.bytes -= one.bytes
}
