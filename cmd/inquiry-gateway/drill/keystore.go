package drill

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/upstream/legacy"
)

// caller is somebody with a key.
type caller struct{ account, key string }

// callers are the two who ask: one that the gateway knows and one that it does
// not, each with lists of their own.
type callers struct{ known, stranger caller }

// newCallers makes new keys for each environment: none of them is good anywhere else.
func newCallers() (callers, error) {
	known, err := auth.Generate(auth.KindBuyer)
	stranger, other := auth.Generate(auth.KindBuyer)
	return callers{caller{legacy.BuyerTypical, known}, caller{legacy.BuyerOther, stranger}}, errors.Join(err, other)
}

// keyStore holds the callers' keys. inject puts it into a state, once; close may be
// called twice.
type keyStore struct {
	config auth.Config // of a gateway with it
	inject func(State) error
	close  func()
}

// keyAdder is what can hold keys.
type keyAdder interface {
	Add(ctx context.Context, k auth.KeyRecord, create *auth.Account) error
}

// addKeys adds both callers, with accounts that have paid: refusals are not drilled.
func addKeys(ctx context.Context, to keyAdder, c callers) error {
	var errs []error
	for _, who := range []caller{c.known, c.stranger} {
		account := auth.Account{ID: who.account, APIAccess: auth.AccessPaid}
		errs = append(errs, to.Add(ctx, auth.KeyRecord{
			ID: "drill-" + who.account, Kind: auth.KindBuyer, Account: who.account, Scopes: []string{auth.ScopeInquiriesRead},
			Digest: auth.Hasher{}.Hash(who.key),
		}, &account))
	}
	return errors.Join(errs...)
}

// inFile keeps the keys in a file, which is lost or spoilt while the gateway runs.
func inFile(ctx context.Context, path string, c callers) (keyStore, error) {
	return keyStore{
		config: auth.Config{KeysFile: path},
		inject: func(s State) error {
			if s == Down {
				return os.Remove(path)
			}
			return os.WriteFile(path, []byte("\x00garbage"), 0o600)
		},
		close: func() {},
	}, addKeys(ctx, keysfile.NewEditor(path, auth.Hasher{}), c)
}

// inRedis keeps the keys in the gateway's own Redis, which is made to fail by
// itself.
func inRedis(ctx context.Context, settings auth.RedisConfig, store *Store, prefix string, c callers) (keyStore, error) {
	settings.TTL = max(settings.TTL, keyLife)
	return keyStore{auth.Config{Redis: &settings}, func(State) error { return nil }, func() {}},
		addKeys(ctx, keysredis.NewEditor(store.client, prefix, auth.Hasher{}), c)
}

// inAuthServer keeps the keys in an authorization server of the drill's own. Of the
// settings it takes the times; where the real server is and its secrets play no part.
func inAuthServer(settings auth.IntrospectionConfig, c callers) (keyStore, error) {
	s := &authServer{accounts: map[string]string{c.known.key: c.known.account, c.stranger.key: c.stranger.account}}
	web, err := serve(s)
	if err != nil {
		return keyStore{close: func() {}}, err
	}
	i := auth.DefaultIntrospectionConfig()
	i.URL, i.Timeout, i.TTL, i.NegativeTTL = web.url(), settings.Timeout, settings.TTL, settings.NegativeTTL
	if i.TTL > 0 {
		i.TTL = max(i.TTL, keyLife)
	}
	return keyStore{
		config: auth.Config{Introspection: &i},
		inject: func(state State) error {
			if state == Down {
				web.close()
			}
			s.state.Store(state)
			return nil
		},
		close: web.close,
	}, nil
}

// authServer answers about keys as RFC 7662 says.
type authServer struct {
	accounts map[string]string // by key
	state    atomic.Value      // State; nothing while it is up
}

// ServeHTTP answers one question, as the server's state lets it.
func (s *authServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	account, known := s.accounts[r.PostFormValue("token")]
	switch s.state.Load() {
	case Slow:
		<-r.Context().Done()
		return
	case Garbage:
		_, _ = io.WriteString(w, "<html>Please log in</html>") // a gateway that left needs no answer
		return
	}
	answer := map[string]any{"active": known}
	if known {
		answer["sub"], answer["kind"], answer["scope"], answer["api_access"] = account, auth.KindBuyer, auth.ScopeInquiriesRead, auth.AccessPaid
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // as above
}
