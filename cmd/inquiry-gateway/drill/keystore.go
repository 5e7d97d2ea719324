package drill

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"

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

// keyStore holds the callers' keys. harm puts it into a state, once.
type keyStore interface {
	configure(c *config.Config)
	harm(ctx context.Context, s State) error
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

// keysFile is a keys file in the folder of a world.
type keysFile struct{ path string }

func newKeysFile(ctx context.Context, dir string, c callers) (keysFile, error) {
	f := keysFile{filepath.Join(dir, "keys.yaml")}
	return f, addKeys(ctx, auth.NewKeysFile(f.path, auth.Hasher{}), c)
}

func (f keysFile) configure(c *config.Config) { c.Auth = auth.Config{KeysFile: f.path} }

func (f keysFile) harm(_ context.Context, s State) error {
	if s == Down {
		return os.Remove(f.path)
	}
	return os.WriteFile(f.path, []byte("\x00garbage"), 0o600)
}

func (f keysFile) close() {}

// keysInRedis are in the gateway's own Redis, which is harmed by itself.
type keysInRedis struct{ settings auth.RedisConfig }

func newKeysInRedis(ctx context.Context, s *Store, prefix string, settings auth.RedisConfig, c callers) (keysInRedis, error) {
	settings.TTL = max(settings.TTL, keyLife)
	return keysInRedis{settings}, addKeys(ctx, auth.NewRedisKeys(s.client, prefix, auth.Hasher{}), c)
}

func (k keysInRedis) configure(c *config.Config)        { c.Auth = auth.Config{Redis: &k.settings} }
func (k keysInRedis) harm(context.Context, State) error { return nil }
func (k keysInRedis) close()                            {}

// authServer answers about keys as RFC 7662 says.
type authServer struct {
	*server
	settings auth.IntrospectionConfig
	accounts map[string]string // by key
	trouble  latch
}

func newAuthServer(settings auth.IntrospectionConfig, c callers) (*authServer, error) {
	if settings.TTL > 0 {
		settings.TTL = max(settings.TTL, keyLife)
	}
	s := &authServer{settings: settings, accounts: map[string]string{c.known.key: c.known.account, c.stranger.key: c.stranger.account}}
	var err error
	s.server, err = serve(s)
	return s, err
}

func (s *authServer) configure(c *config.Config) {
	i := auth.DefaultIntrospectionConfig()
	i.URL, i.Timeout, i.TTL, i.NegativeTTL = s.url(), s.settings.Timeout, s.settings.TTL, s.settings.NegativeTTL
	c.Auth = auth.Config{Introspection: &i}
}

func (s *authServer) harm(_ context.Context, state State) error {
	if state == Down {
		s.server.close()
	}
	s.trouble.set(state)
	return nil
}

// ServeHTTP answers one question, as the server's state lets it.
func (s *authServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	account, known := s.accounts[r.PostFormValue("token")]
	switch s.trouble.get() {
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
