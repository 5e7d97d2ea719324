package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/upstream/legacy"
)

// listPath is the endpoint under load.
const listPath = "/api/v1/buyer/inquiries"

// filters are the four lists of each account, as raw queries.
func filters() []string {
	return []string{"", "status=pending", "status=answered", "status=closed"}
}

// target is the path and query of a request.
func target(query string) string {
	if query == "" {
		return listPath
	}
	return listPath + "?" + query
}

// fixture is what all servers of a run share: callers and a certificate.
type fixture struct {
	dir  string
	keys []string // one buyer's each, of an account of its own
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func newFixture(dir string, keys int) (*fixture, error) {
	f := &fixture{dir: dir}
	accounts := make(map[string]string, keys)
	for i := range keys {
		key, err := auth.Generate(legacy.KindBuyer)
		if err != nil {
			return nil, err
		}
		f.keys = append(f.keys, key)
		accounts[key] = account(i)
	}
	if err := os.WriteFile(f.path("keys.yaml"), []byte(keysFile(f.keys)), 0o600); err != nil {
		return nil, err
	}
	text, err := json.Marshal(accounts)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(f.path("accounts.json"), text, 0o600); err != nil {
		return nil, err
	}
	return f, f.certificate()
}

func account(i int) string { return fmt.Sprintf("account-%06d", i) }

// keysFile gives each key an account of its own.
func keysFile(keys []string) string {
	var b strings.Builder
	b.WriteString("accounts:\n")
	for i := range keys {
		fmt.Fprintf(&b, "  - {id: %s, api_access: paid}\n", account(i))
	}
	b.WriteString("keys:\n")
	for i, key := range keys {
		fmt.Fprintf(&b, "  - {id: key-%06d, sha256: %s, kind: buyer, account: %s, scopes: [\"%s\"]}\n",
			i, auth.Hasher{}.Hash(key).Hex(), account(i), auth.ScopeInquiriesRead)
	}
	return b.String()
}

// certificate writes cert.pem and key.pem of a self-signed P-256 certificate.
func (f *fixture) certificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(f.path(name), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}
