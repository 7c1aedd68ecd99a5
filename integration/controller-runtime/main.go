// Program controller-runtime is an ordinary operator: a manager that elects a leader, informers of a type of kindom and of types of
// Kubernetes, a finalizer, owned objects, events and a status. integration/tests/e2e/operators.rs runs it against kindom alone,
// integration/tests/e2e/host against a cluster that kindom is behind.
//
// For each widget it keeps a ConfigMap of the widget's name, a Deployment and a Secret that the widget owns, and writes status.size.
// Where the widget goes, it removes the ConfigMap; whoever collects garbage removes the others.
package main

import (
	"context"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const finalizer = "shop.example.com/labels"

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func widget() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "shop.example.com", Version: "v1", Kind: "Widget"})
	return object
}

func run(ctx context.Context) error {
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection: true, LeaderElectionID: "widgets", LeaderElectionNamespace: "default",
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	c, recorder := manager.GetClient(), manager.GetEventRecorder("widgets")
	reconciler := func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		return ctrl.Result{}, reconcileWidget(ctx, c, recorder, request)
	}
	mapped := func(_ context.Context, object client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
	}
	err = ctrl.NewControllerManagedBy(manager).Named("widgets").For(widget()).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(mapped)).
		Owns(&appsv1.Deployment{}).Owns(&corev1.Secret{}).
		Complete(reconcile.Func(reconciler))
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// own brings an object that the widget owns into being, or up to date.
func own(ctx context.Context, c client.Client, widget *unstructured.Unstructured, owned client.Object, change func()) error {
	_, err := controllerutil.CreateOrUpdate(ctx, c, owned, func() error {
		change()
		return controllerutil.SetControllerReference(widget, owned, c.Scheme())
	})
	return err
}

func reconcileWidget(ctx context.Context, c client.Client, recorder events.EventRecorder, request ctrl.Request) error {
	found := widget()
	if err := c.Get(ctx, request.NamespacedName, found); err != nil {
		return client.IgnoreNotFound(err)
	}
	label := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
	if !found.GetDeletionTimestamp().IsZero() {
		if err := c.Delete(ctx, label); client.IgnoreNotFound(err) != nil {
			return err
		}
		controllerutil.RemoveFinalizer(found, finalizer)
		return client.IgnoreNotFound(c.Update(ctx, found))
	}
	if controllerutil.AddFinalizer(found, finalizer) {
		return c.Update(ctx, found)
	}
	size, _, err := unstructured.NestedInt64(found.Object, "spec", "size")
	if err != nil {
		return err
	}
	_, err = controllerutil.CreateOrUpdate(ctx, c, label, func() error {
		label.Data = map[string]string{"size": fmt.Sprint(size)}
		return nil
	})
	if err != nil {
		if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
			return fmt.Errorf("again: %w", err)
		}
		return err
	}
	named := metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}
	deployment, secret := &appsv1.Deployment{ObjectMeta: named}, &corev1.Secret{ObjectMeta: named}
	err = own(ctx, c, found, deployment, func() {
		labels, replicas := map[string]string{"widget": request.Name}, int32(size)
		deployment.Spec.Replicas = &replicas
		deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		deployment.Spec.Template.Labels = labels
		if len(deployment.Spec.Template.Spec.Containers) == 0 {
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "widget", Image: "example.com/widget:1"}}
		}
	})
	if err != nil {
		return fmt.Errorf("the deployment: %w", err)
	}
	err = own(ctx, c, found, secret, func() { secret.StringData = map[string]string{"size": fmt.Sprint(size)} })
	if err != nil {
		return fmt.Errorf("the secret: %w", err)
	}
	if now, _, _ := unstructured.NestedInt64(found.Object, "status", "size"); now == size {
		return nil
	}
	recorder.Eventf(found, deployment, corev1.EventTypeNormal, "Sized", "Resize", "the widget has size %d", size)
	before := found.DeepCopy()
	if err := unstructured.SetNestedField(found.Object, size, "status", "size"); err != nil {
		return err
	}
	return c.Status().Patch(ctx, found, client.MergeFrom(before))
}
