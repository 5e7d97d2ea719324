package upstream

import (
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"

	"inquiry-gateway/internal/localcache"
	"inquiry-gateway/upstream/mapping"
)

// maxStoredBytes bounds the replies of all accounts together.
const maxStoredBytes = 16 << 20

// replyStore has the replies to second requests for records that have a version. While a record's
// version is the same they are used again. It is of this process alone, and safe for concurrent use.
type replyStore = localcache.Cache[string, *storedReplies]

// storedReplies are the replies for one record, one for each page.
type storedReplies struct {
	bodies []string
	came   time.Time
}

func newReplyStore() replyStore {
	return otter.Must(&otter.Options[string, *storedReplies]{
		MaximumWeight: maxStoredBytes,
		Weigher: func(key string, r *storedReplies) uint32 {
			bytes := 200 + len(key)
			for _, body := range r.bodies {
				bytes += len(body)
			}
			return uint32(min(bytes, 2*maxStoredBytes))
		},
	})
}

// storeKey is everything that decides on the replies for a batch; empty: they are not stored. A purge or hint changes it, see Request.Changes.
func (f *fetch) storeKey(s *mapping.SecondRequest, b mapping.Batch) string {
	if b.Version == "" || f.want.Changes == "" || f.endpoint.keepFor <= 0 {
		return ""
	}
	return fmt.Sprintf("%q", []string{f.endpoint.fingerprint, s.Name, f.want.Account, b.IDs[0], b.Version, f.want.Changes})
}
