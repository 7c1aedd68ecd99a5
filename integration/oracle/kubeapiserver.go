package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// startKubeAPIServer runs a kube-apiserver (integration/kube-apiserver builds one)
// on a free loopback port, for a client that may do everything. Admission is
// the default but for the disabled plugins: without a controller there are no
// service accounts, and nobody ends the protection of volumes in use.
func startKubeAPIServer(ctx context.Context, settings settings, etcd, dir string) (base string, client *http.Client, done <-chan error, err error) {
	port, err := freePort()
	if err != nil {
		return "", nil, nil, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return "", nil, nil, err
	}
	keyFile := filepath.Join(dir, "service-accounts.key")
	block := pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&block), 0o600); err != nil {
		return "", nil, nil, err
	}
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, users, 0o600); err != nil {
		return "", nil, nil, err
	}
	log, err := os.Create(filepath.Join(dir, "kube-apiserver.log"))
	if err != nil {
		return "", nil, nil, err
	}
	server := exec.CommandContext(ctx, settings.binary,
		"--etcd-servers="+etcd, fmt.Sprintf("--secure-port=%d", port), "--bind-address=127.0.0.1",
		"--cert-dir="+filepath.Join(dir, "pki"), "--service-cluster-ip-range=10.0.0.0/24",
		"--token-auth-file="+tokens, "--authorization-mode=RBAC", "--disable-admission-plugins="+settings.disabled,
		"--service-account-key-file="+keyFile, "--service-account-signing-key-file="+keyFile,
		"--service-account-issuer=https://127.0.0.1/", fmt.Sprintf("--enable-priority-and-fairness=%t", settings.fairness))
	if settings.policy != "" {
		server.Args = append(server.Args, "--audit-policy-file="+settings.policy, "--audit-log-path="+settings.log)
	}
	if !settings.fairness {
		server.Args = append(server.Args, "--max-requests-inflight=0", "--max-mutating-requests-inflight=0")
	}
	server.Stdout, server.Stderr = log, log
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	server.WaitDelay = startLimit
	if err := server.Start(); err != nil {
		return "", nil, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // its own certificate, on loopback
	client = &http.Client{Transport: authorized{transport}}
	base = fmt.Sprintf("https://127.0.0.1:%d", port)
	for limit := time.Now().Add(startLimit); ; {
		answer, err := client.Get(base + "/readyz")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return base, client, ended, nil
			}
		}
		select {
		case err := <-ended:
			text, _ := os.ReadFile(log.Name())
			return "", nil, nil, fmt.Errorf("kube-apiserver ended: %w\n%s", err, text)
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(limit) {
			text, _ := os.ReadFile(log.Name())
			return "", nil, nil, fmt.Errorf("kube-apiserver did not become ready:\n%s", text[max(0, len(text)-4000):])
		}
	}
}

const token = "recorder"

// users are those that a script may be: their tokens are their names. The recorder and boss are masters, the others may
// do only what a script lets them. The replay gives kindom the same file.
//
//go:embed tokens.csv
var users []byte

// authorized adds the recorder's token to every request that has none of its own.
type authorized struct{ to *http.Transport }

func (a authorized) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	if request.Header.Get("Authorization") == "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return a.to.RoundTrip(request)
}

func (a authorized) CloseIdleConnections() { a.to.CloseIdleConnections() }
