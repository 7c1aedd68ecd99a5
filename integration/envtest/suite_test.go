package envtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var (
	environment *envtest.Environment
	config      *rest.Config
	api         client.Client
)

func TestMain(m *testing.M) {
	environment = &envtest.Environment{CRDDirectoryPaths: []string{"config/crd"}, ErrorIfCRDPathMissing: true}
	began := time.Now()
	started, err := environment.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("envtest: started in %d ms\n", time.Since(began).Milliseconds())
	config = started
	if api, err = client.New(config, client.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func(ctx context.Context) (bool, error)) {
	t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 5*time.Millisecond, 30*time.Second, true, holds)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func widget(name string, size int64) *unstructured.Unstructured {
	object := newWidget()
	object.SetName(name)
	object.SetNamespace("default")
	object.Object["spec"] = map[string]any{"size": size}
	return object
}

func runManager(t *testing.T) {
	t.Helper()
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:          server.Options{BindAddress: "0"},
		LeaderElection:   true,
		LeaderElectionID: "widgets.example.com", LeaderElectionNamespace: "default",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Reconciler{manager.GetClient()}).SetupWithManager(manager); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAWidgetGetsItsConfigMapAndItsStatus(t *testing.T) {
	runManager(t)
	ctx := context.Background()
	if err := api.Create(ctx, widget("one", 3)); err != nil {
		t.Fatal(err)
	}
	key := types.NamespacedName{Namespace: "default", Name: "one"}
	eventually(t, "the status", func(ctx context.Context) (bool, error) {
		found := newWidget()
		if err := api.Get(ctx, key, found); err != nil {
			return false, err
		}
		ready, _, _ := unstructured.NestedBool(found.Object, "status", "ready")
		return ready, nil
	})
	owned := &corev1.ConfigMap{}
	if err := api.Get(ctx, key, owned); err != nil || owned.Data["size"] != "3" || !metav1.IsControlledBy(owned, mustGet(t, key)) {
		t.Fatalf("%v %v", owned, err)
	}
	// A change of what is owned wakes the controller.
	owned.Data["size"] = "7"
	if err := api.Update(ctx, owned); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ConfigMap", func(ctx context.Context) (bool, error) {
		err := api.Get(ctx, key, owned)
		return owned.Data["size"] == "3", err
	})
}

func mustGet(t *testing.T, key types.NamespacedName) *unstructured.Unstructured {
	t.Helper()
	found := newWidget()
	if err := api.Get(context.Background(), key, found); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTheSchemaIsEnforced(t *testing.T) {
	err := api.Create(context.Background(), widget("wrong", 0))
	if !apierrors.IsInvalid(err) {
		t.Fatalf("%v", err)
	}
}

func TestAUserOfTheEnvironmentHasAClient(t *testing.T) {
	user, err := environment.AddUser(envtest.User{Name: "jane", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	jane, err := client.New(user.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"}, StringData: map[string]string{"a": "b"}}
	if err := jane.Create(context.Background(), secret); err != nil {
		t.Fatal(err)
	}
	kubectl, err := user.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := kubectl.Run("get", "secret", "s", "--output=name"); err != nil {
		t.Fatal(err)
	} else if text, _ := readAll(out); text != "secret/s\n" {
		t.Fatal(text)
	}
}

func readAll(from io.Reader) (string, error) {
	text, err := io.ReadAll(from)
	return string(text), err
}
