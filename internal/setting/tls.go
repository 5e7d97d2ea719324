package setting

import (
	"crypto/tls"
	"crypto/x509"
)

// TLS names the certificates of a client: the authority that it trusts, and the
// certificate and key that it shows. The zero value is the machine's authorities
// and no certificate.
type TLS struct {
	CA   `yaml:",inline"`
	Pair `yaml:",inline"`
}

// CA names the authorities that certificates of others are checked against.
type CA struct {
	// CAFile is a PEM file with the trusted authorities. Default: the machine's.
	CAFile File `yaml:"ca_file"`
}

// Pair is a certificate with its key.
type Pair struct {
	// CertFile is a PEM file with the gateway's certificate and its chain.
	CertFile File `yaml:"cert_file"`
	// KeyFile is a PEM file with the private key of cert_file.
	KeyFile File `yaml:"key_file"`
}

// Config builds what the files say. Mistakes go to problems, each at the file's key
// below section.
func (t TLS) Config(section string, problems *Problems) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile.Set() {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(t.CAFile.Text())) {
			problems.Add(section+".ca_file", "holds no certificate in PEM form")
		}
	}
	if own := t.Certificate(section, problems); own != nil {
		c.Certificates = []tls.Certificate{*own}
	}
	return c
}

// Certificate reads the pair; nil: there is none, or it cannot be used.
func (p Pair) Certificate(section string, problems *Problems) *tls.Certificate {
	switch {
	case p.CertFile.Set() && !p.KeyFile.Set():
		problems.Add(section+".key_file", "missing; cert_file is set, add the file of its private key")
	case p.KeyFile.Set() && !p.CertFile.Set():
		problems.Add(section+".cert_file", "missing; key_file is set, add the file of its certificate")
	case p.CertFile.Set():
		pair, err := tls.X509KeyPair([]byte(p.CertFile.Text()), []byte(p.KeyFile.Text()))
		if err == nil {
			return &pair
		}
		problems.Add(section+".cert_file", "certificate and key cannot be used: %v", err)
	}
	return nil
}
