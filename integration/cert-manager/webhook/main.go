// Program webhook is cert-manager's webhook: the admission plugins of its own binary, with the certificate that it makes for itself and
// keeps in a secret. The full tests have it admit, change and refuse objects.
//
// That binary is a module of its own, which is in no registry, and serves on all addresses of the machine. The plugins are internal
// packages, which Go lets a module import whose path is below theirs.
//
// It reads $KUBECONFIG, needs the namespace cert-manager, serves at a free port of 127.0.0.1, which it prints, and runs until it is told to
// end.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	acmeinstall "github.com/cert-manager/cert-manager/internal/apis/acme/install"
	cminstall "github.com/cert-manager/cert-manager/internal/apis/certmanager/install"
	metainstall "github.com/cert-manager/cert-manager/internal/apis/meta/install"
	"github.com/cert-manager/cert-manager/internal/webhook/admission/certificaterequest/approval"
	"github.com/cert-manager/cert-manager/internal/webhook/admission/certificaterequest/identity"
	"github.com/cert-manager/cert-manager/internal/webhook/admission/resourcevalidation"
	"github.com/cert-manager/cert-manager/pkg/logs"
	servertls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	cmadmission "github.com/cert-manager/cert-manager/pkg/webhook/admission"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// The secret of the certificate's authority, and the name that the server's certificate is for.
const (
	namespace  = "cert-manager"
	secret     = "cert-manager-webhook-ca"
	serverName = "cert-manager-webhook.cert-manager.svc"
)

func main() {
	logs.InitLogs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	handler, err := handler(config)
	if err != nil {
		return err
	}
	source := &servertls.DynamicSource{
		DNSNames:  []string{serverName},
		Authority: &authority.DynamicAuthority{SecretNamespace: namespace, SecretName: secret, RESTConfig: config},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 2)
	go func() { ended <- source.Start(ctx) }()
	go func() {
		// As a readiness probe would ask.
		healthy := func(context.Context) (bool, error) { return source.Healthy(), nil }
		if wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, healthy) == nil {
			fmt.Println(listener.Addr().(*net.TCPAddr).Port)
		}
	}()
	go func() {
		secured := tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: source.GetCertificate})
		ended <- server.Serve(secured)
	}()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	_ = server.Close()
	return err
}

// handler has the plugins and paths of NewCertManagerWebhookServer and Server.Run.
func handler(config *rest.Config) (http.Handler, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	authorizer, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             time.Second,
		DenyCacheTTL:              time.Second,
		WebhookRetryBackoff:       &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 2, Cap: 5 * time.Second},
	}.New()
	if err != nil {
		return nil, err
	}
	chain := cmadmission.PluginChain{
		identity.NewPlugin(), approval.NewPlugin(authorizer, client.Discovery()), resourcevalidation.NewPlugin(),
	}
	scheme := runtime.NewScheme()
	cminstall.Install(scheme)
	acmeinstall.Install(scheme)
	metainstall.Install(scheme)
	mux := http.NewServeMux()
	for path, hook := range map[string]*admission.Webhook{
		"/mutate":   cmadmission.NewCustomMutationWebhook(chain),
		"/validate": cmadmission.NewCustomValidationWebhook(scheme, chain),
	} {
		served, err := admission.StandaloneWebhook(hook, admission.StandaloneOptions{})
		if err != nil {
			return nil, err
		}
		mux.Handle(path, served)
	}
	return mux, nil
}
