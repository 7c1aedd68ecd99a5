// Program cluster-api is the webhooks of Cluster API's core: those of its own binary, which change, judge and convert its types. The full
// tests store and serve these in two versions.
//
// That binary serves on all addresses of the machine, and runs controllers that need clusters. What it asks for the versions of other
// providers' types is an internal package, which Go lets a module import whose path is below theirs.
//
// It reads $KUBECONFIG, serves at a free port of 127.0.0.1, which it prints, with the certificate in tls.crt and tls.key of the folder that
// is its argument, and runs until it is told to end.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	addonsv1beta1 "sigs.k8s.io/cluster-api/api/addons/v1beta1"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1alpha1 "sigs.k8s.io/cluster-api/api/ipam/v1alpha1"
	ipamv1beta1 "sigs.k8s.io/cluster-api/api/ipam/v1beta1"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	runtimev1alpha1 "sigs.k8s.io/cluster-api/api/runtime/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/cluster-api/core/webhooks/conversion"
	"sigs.k8s.io/cluster-api/internal/contract"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// served is controller-runtime's server of webhooks, at an address of this program's choice.
type served struct {
	webhook.Server
	listener net.Listener
	folder   string
}

func (s served) Start(ctx context.Context) error {
	certificate, err := tls.LoadX509KeyPair(filepath.Join(s.folder, "tls.crt"), filepath.Join(s.folder, "tls.key"))
	if err != nil {
		return err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	server := &http.Server{Handler: s.WebhookMux(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	fmt.Println(s.listener.Addr().(*net.TCPAddr).Port)
	if err := server.Serve(tls.NewListener(s.listener, config)); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func run(ctx context.Context) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		clusterv1beta1.AddToScheme, clusterv1.AddToScheme,
		addonsv1beta1.AddToScheme, addonsv1.AddToScheme,
		ipamv1alpha1.AddToScheme, ipamv1beta1.AddToScheme, ipamv1.AddToScheme,
		runtimev1alpha1.AddToScheme, runtimev1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:        scheme,
		Metrics:       server.Options{BindAddress: "0"},
		WebhookServer: served{webhook.NewServer(webhook.Options{}), listener, os.Args[1]},
	})
	if err != nil {
		return err
	}
	client := manager.GetClient()
	conversion.SetAPIVersionGetter(func(ctx context.Context, of schema.GroupKind) (string, error) {
		return contract.GetAPIVersion(ctx, client, of)
	})
	for _, hooks := range []interface{ SetupWebhookWithManager(ctrl.Manager) error }{
		&admission.ClusterClass{Client: client},
		&admission.Cluster{Client: client},
		&admission.Machine{},
		&admission.MachineSet{},
		&admission.MachineDeployment{},
		&admission.MachineDrainRule{},
		&admission.MachinePool{},
		&admission.ClusterResourceSet{},
		&admission.ClusterResourceSetBinding{},
		&admission.MachineHealthCheck{},
		&admission.ExtensionConfig{},
		&admission.IPAddress{Client: manager.GetAPIReader()},
		&admission.IPAddressClaim{},
	} {
		if err := hooks.SetupWebhookWithManager(manager); err != nil {
			return err
		}
	}
	return manager.Start(ctx)
}
