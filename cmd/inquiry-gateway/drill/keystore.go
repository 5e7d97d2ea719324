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
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/upstream/legacy"
)

// caller is somebody with a key.
type caller struct{ account, key string }

// callers are the two who ask: one that the gateway knows and one that it does
// not, each with lists of their own.
type callers struct{ known, stranger caller }

func newCallers() (c callers, err error) {
	for _, who := range []struct {
		to      *caller
		account string
	}{{&c.known, legacy.BuyerTypical}, {&c.stranger, legacy.BuyerOther}} {
		key, keyErr := auth.Generate(auth.KindBuyer)
		*who.to, err = caller{who.account, key}, errors.Join(err, keyErr)
	}
	return c, err
}

// keyStore holds the callers' keys. inject puts it into a state, once.
type keyStore interface {
	configure(c *config.Config)
	inject(ctx context.Context, s State) error
	close()
}

// keyAdder is what can hold keys.
type keyAdder interface {
	Add(ctx context.Context, k auth.KeyRecord, create *auth.Account) error
}

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

// keysFile is a keys file in the folder of an environment.
type keysFile struct{ path string }

func (f keysFile) configure(c *config.Config) { c.Auth = auth.Config{KeysFile: f.path} }

func (f keysFile) inject(_ context.Context, s State) error {
	if s == Down {
		return os.Remove(f.path)
	}
	return os.WriteFile(f.path, []byte("\x00garbage"), 0o600)
}

func (f keysFile) close() {}

// keysInRedis are in the gateway's own Redis, which is made to fail by itself.
type keysInRedis struct{ settings auth.RedisConfig }

func (k keysInRedis) configure(c *config.Config) {
	k.settings.TTL = max(k.settings.TTL, keyLife)
	c.Auth = auth.Config{Redis: &k.settings}
}

func (k keysInRedis) inject(context.Context, State) error { return nil }
func (k keysInRedis) close()                              {}

// authServer answers about keys as RFC 7662 says.
type authServer struct {
	*server
	settings auth.IntrospectionConfig
	accounts map[string]string // by key
	state    atomic.Value      // State; nothing while it is up
}

func newAuthServer(settings auth.IntrospectionConfig, c callers) (*authServer, error) {
	s := &authServer{settings: settings, accounts: map[string]string{c.known.key: c.known.account, c.stranger.key: c.stranger.account}}
	var err error
	if s.server, err = serve(s); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *authServer) configure(c *config.Config) {
	i := auth.DefaultIntrospectionConfig()
	i.URL, i.Timeout, i.TTL, i.NegativeTTL = s.url(), s.settings.Timeout, s.settings.TTL, s.settings.NegativeTTL
	if i.TTL > 0 {
		i.TTL = max(i.TTL, keyLife)
	}
	c.Auth = auth.Config{Introspection: &i}
}

func (s *authServer) inject(_ context.Context, state State) error {
	if state == Down {
		s.server.close()
	}
	s.state.Store(state)
	return nil
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
