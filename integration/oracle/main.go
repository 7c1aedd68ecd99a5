// Oracle records what the real server answers.
//
// It starts a stand-alone apiextensions-apiserver on an etcd of its own, both
// in this process, sends it the requests of every `<topic>.script.json` and
// writes the answers, with everything masked that differs from run to run, to
// `<topic>.expected.json`.
package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func main() {
	scripts := flag.String("scripts", "../expectations", "folder with the scripts")
	out := flag.String("out", "../expectations", "folder for the expectations")
	only := flag.String("only", "", "comma-separated topics to record; all if empty")
	serve := flag.String("serve", "", "record nothing: write a kubeconfig to this file and serve until interrupted")
	cases := flag.String("cases", "", "record nothing: answer the cases of this folder, one by one")
	stored := flag.String("stored", "", "record nothing else: what the server stores and reads, as this folder's setup.json says")
	types := flag.String("types", "", "record nothing else: the warnings about the types in this folder's policies; with -kube-apiserver")
	kubeAPIServer := flag.String("kube-apiserver", "", "record the answers of this kube-apiserver in place of those of the stand-alone server")
	disabled := flag.String("disable-admission-plugins", "ServiceAccount,StorageObjectInUseProtection", "the plugins that kube-apiserver runs without")
	fairness := flag.Bool("priority-and-fairness", false, "kube-apiserver keeps its own FlowSchemas and judges those of others")
	policy := flag.String("audit-policy", "", "kube-apiserver writes an audit log by this policy")
	verbose := flag.Bool("verbose", false, "print the server's log")
	flag.Parse()
	// What the server writes for itself is owned by a manager named for the program.
	os.Args[0] = "kube-apiserver"
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	if *stored != "" {
		if err := recordStored(*stored); err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(1)
		}
		return
	}
	ctx, interrupted := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer interrupted()
	log := ""
	if *policy != "" {
		dir, err := os.MkdirTemp("", "oracle-audit-")
		if err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(1)
		}
		defer os.RemoveAll(dir)
		log = filepath.Join(dir, "audit.log")
	}
	settings := settings{binary: *kubeAPIServer, disabled: *disabled, fairness: *fairness, policy: *policy, log: log}
	err := withServer(settings, func(base string, client *http.Client) error {
		if *serve != "" {
			return serveUntil(ctx, *serve, base)
		}
		if *cases != "" {
			return answerCases(*cases, base, client)
		}
		if *types != "" {
			return recordTypes(*types, *kubeAPIServer, base, client)
		}
		return record(*scripts, *out, *only, settings, base, client)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

// settings are those of a kube-apiserver.
type settings struct {
	// binary is empty for the stand-alone server.
	binary   string
	disabled string
	fairness bool
	// policy and log are the files of its audit, if it has one.
	policy, log string
}

// withServer does the work while the real server runs: a kube-apiserver if one
// is named.
func withServer(settings settings, work func(base string, client *http.Client) error) error {
	dir, err := os.MkdirTemp("", "oracle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	etcd, stopEtcd, err := startEtcd(dir)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	start := startServer
	if settings.binary != "" {
		start = func(ctx context.Context, etcd, dir string) (string, *http.Client, <-chan error, error) {
			return startKubeAPIServer(ctx, settings, etcd, dir)
		}
	}
	base, client, ended, err := start(ctx, etcd, dir)
	if err != nil {
		stop()
		stopEtcd()
		return err
	}
	defer func() {
		client.CloseIdleConnections()
		stop()
		<-ended
		stopEtcd()
	}()
	return work(base, client)
}

// serveUntil lets other clients at the server. It asks for no credentials, but
// kubectl does not start without any.
func serveUntil(ctx context.Context, path, base string) error {
	config := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: oracle, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: anyone, user: {token: any}}]
contexts: [{name: oracle, context: {cluster: oracle, user: anyone}}]
current-context: oracle
`, base)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func record(scripts, out, only string, settings settings, base string, client *http.Client) error {
	paths, err := filepath.Glob(filepath.Join(scripts, "*.script.json"))
	if err != nil {
		return err
	}
	made := header()
	if settings.binary != "" {
		made, err = headerOf(settings)
	}
	if err != nil {
		return err
	}
	steps := 0
	var failures []error
	for _, path := range paths {
		topic := strings.TrimSuffix(filepath.Base(path), ".script.json")
		if only != "" && !strings.Contains(","+only+",", ","+topic+",") {
			continue
		}
		script, err := readScript(path)
		if err != nil {
			return err
		}
		vars := maps.Clone(script.Vars)
		if vars == nil {
			vars = map[string]string{}
		}
		masked := func(text string) string { return text }
		if strings.Contains(script.text, "${webhook}") {
			webhook, err := startConversionWebhook()
			if err != nil {
				return err
			}
			defer webhook.stop()
			vars["webhook"], vars["authorities"], masked = webhook.address, webhook.authorities, webhook.mask
		}
		mask := newMasker(script.MaskManagedFields == nil || *script.MaskManagedFields, script.text)
		run := runner{base: base, client: client, script: script, vars: vars, mask: mask, auditLog: settings.log}
		answers, err := run.run()
		if err != nil {
			// The others are worth recording all the same.
			failures = append(failures, fmt.Errorf("%s: %w", topic, err))
			continue
		}
		if err := write(filepath.Join(out, topic+".expected.json"), made, topic, script, answers, masked); err != nil {
			return err
		}
		steps += len(answers)
		fmt.Printf("%s: %d steps\n", topic, len(answers))
	}
	fmt.Printf("%d steps in all\n", steps)
	return errors.Join(failures...)
}

// write lays an expectation file out by hand: the header first, one step after
// the other, keys sorted.
func write(path string, made map[string]string, topic string, script *Script, answers []Answer, masked func(string) string) error {
	var text strings.Builder
	text.WriteString("{\n \"oracle\": ")
	layout(&text, tree(made), 1, 10)
	fmt.Fprintf(&text, ",\n \"script\": %q,\n \"requests\": %q,\n \"steps\": [\n  ", topic, fingerprint([]byte(script.text)))
	for i, answer := range answers {
		if i > 0 {
			text.WriteString(",\n  ")
		}
		layout(&text, tree(answer), 2, 2)
	}
	text.WriteString("\n ]\n}\n")
	return os.WriteFile(path, []byte(masked(settle(text.String()))), 0o644)
}

// fingerprint is the FNV-1a hash of 64 bits: a recording carries that of its
// script, so that the replay sees when the script has changed since
// (`integration/src/fingerprint.rs` is the same).
func fingerprint(text []byte) string {
	hash := fnv.New64a()
	hash.Write(text)
	return fmt.Sprintf("%016x", hash.Sum64())
}

// header says what made the file, from what is linked into this binary.
func header() map[string]string {
	made := map[string]string{
		"command": "go run . -scripts ../expectations -out ../expectations",
		"go":      runtime.Version(),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return made
	}
	for _, dependency := range info.Deps {
		switch dependency.Path {
		case "k8s.io/apiextensions-apiserver", "k8s.io/apiserver", "go.etcd.io/etcd/server/v3":
			made[dependency.Path] = dependency.Version
		}
	}
	return made
}

// headerOf says what made the file where that is a kube-apiserver.
func headerOf(settings settings) (map[string]string, error) {
	command := "go run . -kube-apiserver FILE -scripts ../expectations/built-in -out ../expectations/built-in"
	if settings.fairness {
		command = "go run . -priority-and-fairness -kube-apiserver FILE -scripts ../expectations/flow-control -out ../expectations/flow-control"
	}
	if settings.policy != "" {
		command = "go run . -audit-policy ../expectations/audit/policy.yaml -kube-apiserver FILE -scripts ../expectations/audit -out ../expectations/audit"
	}
	info, err := buildinfo.ReadFile(settings.binary)
	if err != nil {
		return nil, err
	}
	made := map[string]string{
		"command": command,
		"go":      info.GoVersion,
	}
	for _, dependency := range info.Deps {
		if dependency.Path == "k8s.io/kubernetes" {
			made[dependency.Path] = dependency.Version
		}
	}
	return made, nil
}
