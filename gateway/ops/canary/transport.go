package canary

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
)

// Dial makes the Target of a listener of this machine. A listener on all
// addresses is reached on loopback; proxies of the environment are not used.
//
// certificate is what the listener shows, DER of the leaf; nil is clear text.
// Whoever shows another one is not the listener and gets no key. Names and dates
// of the certificate are no matter here: it is known to be the right one.
func Dial(address net.Addr, certificate []byte) Target {
	hosts, port := hostsOf(address)
	t := &http.Transport{
		DisableCompression: true, // what is packed is looked at here
		MaxConnsPerHost:    1,
		DialContext: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
			var dialer net.Dialer
			for _, host := range hosts {
				var failed error
				if conn, failed = dialer.DialContext(ctx, network, net.JoinHostPort(host, port)); failed == nil {
					return conn, nil
				}
				err = errors.Join(err, failed)
			}
			return nil, err
		},
	}
	scheme := "http"
	if certificate != nil {
		scheme = "https"
		t.TLSClientConfig = pinned(certificate)
	}
	return Target{URL: scheme + "://" + net.JoinHostPort(hosts[0], port), Transport: t}
}

// hostsOf are the addresses at which a listener is tried, in order. "[::]" is
// all addresses of both families as a rule, but a machine may have only one.
func hostsOf(address net.Addr) (hosts []string, port string) {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return []string{address.String()}, ""
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		return []string{host}, port
	}
	return []string{"127.0.0.1", "::1"}, port
}

var errOtherCertificate = errors.New("another certificate is shown there than the gateway's own")

// pinned accepts one certificate and no other. The usual verification is off
// because it asks for a name and an issuer, which a loopback address has not.
func pinned(certificate []byte) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the whole certificate, at resumption too
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, certificate) {
				return errOtherCertificate
			}
			return nil
		},
	}
}
