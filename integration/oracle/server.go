package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.opentelemetry.io/otel/trace/noop"
	extensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/filters"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/kubernetes/scheme"
)

// startLimit bounds every wait for something to come up. It is a safety net:
// reaching it is a failure, never an answer.
const startLimit = time.Minute

// startEtcd runs the etcd that upstream's go.mod names, in this process and
// on a data directory of its own. An older etcd would not do: before 3.4.31
// the API server does not trust its progress notifications and answers
// streaming lists and consistent reads differently.
func startEtcd(dir string) (endpoint string, stop func(), err error) {
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	peerPort, err := freePort()
	if err != nil {
		return "", nil, err
	}
	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "etcd")
	config.LogLevel = "error"
	config.LogOutputs = []string{filepath.Join(dir, "etcd.log")}
	// The data is thrown away at the end.
	config.UnsafeNoFsync = true
	client := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	peer := url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", peerPort)}
	config.ListenClientUrls = []url.URL{client}
	config.AdvertiseClientUrls = []url.URL{client}
	config.ListenPeerUrls = []url.URL{peer}
	config.AdvertisePeerUrls = []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)

	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return "", nil, fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return client.String(), etcd.Close, nil
	case err := <-etcd.Err():
		return "", nil, fmt.Errorf("etcd ended: %w", err)
	case <-time.After(startLimit):
		etcd.Close()
		return "", nil, errors.New("etcd did not become ready")
	}
}

// startServer runs the stand-alone apiextensions-apiserver on a free loopback
// port, with no authentication, authorization, core API or admission: none of
// these belong to what the expectations record.
func startServer(ctx context.Context, etcd, dir string) (base string, client *http.Client, done <-chan error, err error) {
	o := options.NewCustomResourceDefinitionsServerOptions(io.Discard, io.Discard)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, nil, err
	}
	address := listener.Addr().(*net.TCPAddr)

	recommended := o.RecommendedOptions
	// kube-apiserver's prefix: some messages name the key.
	recommended.Etcd.StorageConfig.Prefix = "/registry"
	recommended.Etcd.StorageConfig.Transport.ServerList = []string{etcd}
	recommended.SecureServing.Listener = listener
	recommended.SecureServing.BindPort = address.Port
	recommended.SecureServing.BindAddress = address.IP
	recommended.SecureServing.ServerCert.CertDirectory = dir
	recommended.Authentication = nil
	recommended.Authorization = nil
	recommended.CoreAPI = nil
	recommended.Admission = nil
	recommended.Features.EnablePriorityAndFairness = false

	if err := o.ServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return "", nil, nil, fmt.Errorf("feature gates: %w", err)
	}
	if err := o.Complete(); err != nil {
		return "", nil, nil, fmt.Errorf("complete options: %w", err)
	}
	if err := o.Validate(); err != nil {
		return "", nil, nil, fmt.Errorf("options: %w", err)
	}
	config, err := serverConfig(o)
	if err != nil {
		return "", nil, nil, fmt.Errorf("config: %w", err)
	}
	// As in kube-apiserver; without it an unknown path lists this server's own paths.
	notFound := notfoundhandler.New(extensionsapiserver.Codecs, filters.NoMuxAndDiscoveryIncompleteKey)
	server, err := config.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return "", nil, nil, fmt.Errorf("new server: %w", err)
	}
	// Elsewhere the aggregator answers /apis. Its aggregated form is this
	// server's own knowledge, so it can be recorded; the plain form is not.
	paths := server.GenericAPIServer.Handler.NonGoRestfulMux
	paths.Unregister("/apis")
	paths.Handle("/apis", aggregated.WrapAggregatedDiscoveryToHandler(
		http.NotFoundHandler(), server.GenericAPIServer.AggregatedDiscoveryGroupManager, nil))
	ended := make(chan error, 1)
	go func() { ended <- server.GenericAPIServer.PrepareRun().RunWithContext(ctx) }()

	client = &http.Client{
		// A redirect is an answer to record, not one to follow.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			// The certificate was made a moment ago by this process.
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true},
			ForceAttemptHTTP2:  true,
			DisableCompression: true,
		},
	}
	base = fmt.Sprintf("https://127.0.0.1:%d", address.Port)
	deadline := time.Now().Add(startLimit)
	for time.Now().Before(deadline) {
		select {
		case err := <-ended:
			return "", nil, nil, fmt.Errorf("server ended: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
		response, err := client.Get(base + "/readyz")
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return base, client, ended, nil
		}
	}
	return "", nil, nil, errors.New("the server did not become ready")
}

// serverConfig is what upstream's options make of themselves, less what needs
// a core API to ask: its informers would retry for ever.
func serverConfig(o *options.CustomResourceDefinitionsServerOptions) (*extensionsapiserver.Config, error) {
	if err := o.RecommendedOptions.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, nil); err != nil {
		return nil, err
	}
	generic := genericapiserver.NewRecommendedConfig(extensionsapiserver.Codecs)
	if err := o.ServerRunOptions.ApplyTo(&generic.Config); err != nil {
		return nil, err
	}
	if err := o.RecommendedOptions.ApplyTo(generic); err != nil {
		return nil, err
	}
	resources := extensionsapiserver.DefaultAPIResourceConfigSource()
	if err := o.APIEnablement.ApplyTo(&generic.Config, resources, extensionsapiserver.Scheme); err != nil {
		return nil, err
	}
	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions)
	namer := openapinamer.NewDefinitionNamer(extensionsapiserver.Scheme, scheme.Scheme)
	// Without a v2 config nothing of a custom resource is published, not even in v3.
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	// An empty chain: the wrappers of a Terminating type call what they wrap.
	generic.AdmissionControl = admission.NewChainHandler()
	etcd := *o.RecommendedOptions.Etcd
	return &extensionsapiserver.Config{
		GenericConfig: generic,
		ExtraConfig: extensionsapiserver.ExtraConfig{
			CRDRESTOptionsGetter: options.NewCRDRESTOptionsGetter(etcd, generic.ResourceTransformers, generic.StorageObjectCountTracker),
			ServiceResolver:      noServices{},
			AuthResolverWrapper:  webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, generic.LoopbackClientConfig, noop.NewTracerProvider()),
		},
	}, nil
}

// noServices answers conversion webhooks that name a Service.
type noServices struct{}

func (noServices) ResolveEndpoint(namespace, name string, _ int32) (*url.URL, error) {
	return nil, fmt.Errorf("service %q not found", namespace+"/"+name)
}

// freePort asks the kernel for a port. etcd wants to be told its own address,
// so it cannot be given port 0.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
