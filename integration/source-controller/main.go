// Program source-controller is Flux's source-controller: all controllers of its module, with the defaults of its own binary. The
// full tests fetch a Helm repository with it.
//
// Outside a pod, upstream's binary cannot elect a leader: it reads the namespace of its lease from a file that a kubelet writes.
// This main names the namespace instead. The controllers are internal packages, which Go lets a module import whose path is below
// theirs.
//
// It reads $KUBECONFIG, leads by a lease in the namespace flux-system, which has to exist, serves its artifacts at a free port of
// 127.0.0.1, and runs until it is told to end.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/fluxcd/pkg/artifact/config"
	"github.com/fluxcd/pkg/artifact/storage"
	"github.com/fluxcd/pkg/runtime/client"
	helper "github.com/fluxcd/pkg/runtime/controller"
	"github.com/fluxcd/pkg/runtime/events"
	feathelper "github.com/fluxcd/pkg/runtime/features"
	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/fluxcd/pkg/runtime/leaderelection"
	"github.com/fluxcd/pkg/runtime/logger"
	"github.com/fluxcd/pkg/runtime/metrics"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"github.com/fluxcd/source-controller/internal/cache"
	"github.com/fluxcd/source-controller/internal/controller"
	"github.com/fluxcd/source-controller/internal/features"
	"github.com/fluxcd/source-controller/internal/oci/cosign"
	flag "github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/getter"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcfg "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	name = "source-controller"
	// namespace is that of the lease.
	namespace = "flux-system"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var (
		artifacts config.Options
		api       client.Options
		gates     feathelper.FeatureGates
		intervals jitter.IntervalOptions
		leader    leaderelection.Options
		logs      logger.Options
		limits    helper.RateLimiterOptions
	)
	artifacts.BindFlags(flag.CommandLine)
	api.BindFlags(flag.CommandLine)
	gates.BindFlags(flag.CommandLine)
	intervals.BindFlags(flag.CommandLine)
	leader.BindFlags(flag.CommandLine)
	logs.BindFlags(flag.CommandLine)
	limits.BindFlags(flag.CommandLine)
	flag.Parse()
	logger.SetLogger(logger.NewLogger(logs))
	if err := gates.WithLogger(ctrl.Log).SupportedFeatures(features.FeatureGates()); err != nil {
		return err
	}
	if err := intervals.SetGlobalJitter(nil); err != nil {
		return err
	}

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, sourcev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	panics := true
	manager, err := ctrl.NewManager(client.GetConfigOrDie(api), ctrl.Options{
		Scheme:                        scheme,
		LeaderElection:                leader.Enable,
		LeaderElectionID:              name + "-leader-election",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: leader.ReleaseOnCancel,
		LeaseDuration:                 &leader.LeaseDuration,
		RenewDeadline:                 &leader.RenewDeadline,
		RetryPeriod:                   &leader.RetryPeriod,
		Logger:                        ctrl.Log,
		Client: ctrlclient.Options{Cache: &ctrlclient.CacheOptions{
			DisableFor: []ctrlclient.Object{&corev1.Secret{}, &corev1.ConfigMap{}},
		}},
		Metrics:    server.Options{BindAddress: "0"},
		Controller: ctrlcfg.Controller{RecoverPanic: &panics, MaxConcurrentReconciles: 2},
	})
	if err != nil {
		return err
	}

	// Upstream's server of artifacts takes a fixed port; this one takes a free port, which the URLs of artifacts name.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	artifacts.StorageAdvAddress = listener.Addr().String()
	stored, err := storage.New(&artifacts)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-manager.Elected():
		}
		err := http.Serve(listener, http.FileServer(http.Dir(artifacts.StoragePath)))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}()

	recorder, err := events.NewRecorder(manager, ctrl.Log, "", name)
	if err != nil {
		return err
	}
	measured := helper.NewMetrics(manager, metrics.MustMakeRecorder(), sourcev1.SourceFinalizer)
	caches := cache.MustMakeMetrics()
	verifiers := cosign.NewCosignVerifierFactory()
	getters := getter.Providers{
		{Schemes: []string{"http", "https"}, New: getter.NewHTTPGetter},
		{Schemes: []string{"oci"}, New: getter.NewOCIGetter},
	}

	// Upstream's default is no cache of indexes. Its cache of cloud tokens is left out: the tests have no cloud.
	git := &controller.GitRepositoryReconciler{
		Client: manager.GetClient(), EventRecorder: recorder, Metrics: measured, Storage: stored, ControllerName: name,
	}
	helm := &controller.HelmRepositoryReconciler{
		Client: manager.GetClient(), EventRecorder: recorder, Metrics: measured, Storage: stored, ControllerName: name,
		Getters: getters, TTL: -1, CacheRecorder: caches,
	}
	chart := &controller.HelmChartReconciler{
		Client: manager.GetClient(), EventRecorder: recorder, Metrics: measured, Storage: stored, ControllerName: name,
		Getters: getters, TTL: -1, CacheRecorder: caches, CosignVerifierFactory: verifiers,
	}
	bucket := &controller.BucketReconciler{
		Client: manager.GetClient(), EventRecorder: recorder, Metrics: measured, Storage: stored, ControllerName: name,
	}
	oci := &controller.OCIRepositoryReconciler{
		Client: manager.GetClient(), EventRecorder: recorder, Metrics: measured, Storage: stored, ControllerName: name,
		CosignVerifierFactory: verifiers,
	}
	for _, err := range []error{
		git.SetupWithManager(manager, controller.GitRepositoryReconcilerOptions{
			DependencyRequeueInterval: 30 * time.Second,
			RateLimiter:               helper.GetRateLimiter(limits),
		}),
		helm.SetupWithManager(manager, controller.HelmRepositoryReconcilerOptions{
			RateLimiter: helper.GetRateLimiter(limits),
		}),
		chart.SetupWithManager(ctx, manager, controller.HelmChartReconcilerOptions{
			RateLimiter: helper.GetRateLimiter(limits),
		}),
		bucket.SetupWithManager(manager, controller.BucketReconcilerOptions{
			RateLimiter: helper.GetRateLimiter(limits),
		}),
		oci.SetupWithManager(manager, controller.OCIRepositoryReconcilerOptions{
			RateLimiter: helper.GetRateLimiter(limits),
		}),
	} {
		if err != nil {
			return err
		}
	}
	return manager.Start(ctx)
}
