package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// reconciles runs an ordinary controller over shared informers in a media type: for each Service it keeps a ConfigMap that the
// Service owns, and tells the ConfigMap's address in an annotation of the Service.
func reconciles(ctx context.Context, from *rest.Config, mediaType string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config := rest.CopyConfig(from)
	config.ContentType = mediaType
	client := must(kubernetes.NewForConfig(config))
	factory := informers.NewSharedInformerFactory(client, 0)
	services, maps := factory.Core().V1().Services(), factory.Core().V1().ConfigMaps()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	defer queue.ShutDown()
	enqueue := func(object any) { queue.Add(must(cache.DeletionHandlingObjectToName(object))) }
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, object any) { enqueue(object) }, DeleteFunc: enqueue,
	}
	must(services.Informer().AddEventHandler(handler))
	must(maps.Informer().AddEventHandler(handler))
	// Others that a controller of Kubernetes reads.
	factory.Core().V1().Secrets().Informer()
	factory.Core().V1().ServiceAccounts().Informer()
	factory.Core().V1().Namespaces().Informer()
	factory.Core().V1().ResourceQuotas().Informer()
	factory.Discovery().V1().EndpointSlices().Informer()
	factory.Coordination().V1().Leases().Informer()
	factory.Rbac().V1().ClusterRoles().Informer()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		expect(synced, "the informer of %s does not sync in %s", kind, mediaType)
	}

	reconcile := func(name cache.ObjectName) error {
		service, err := services.Lister().Services(name.Namespace).Get(name.Name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		check(err)
		owner := metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service"))
		wanted := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name.Name, OwnerReferences: []metav1.OwnerReference{*owner}},
			Data:       map[string]string{"address": service.Spec.ClusterIP},
		}
		found, err := maps.Lister().ConfigMaps(name.Namespace).Get(name.Name)
		if apierrors.IsNotFound(err) {
			_, err = client.CoreV1().ConfigMaps(name.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
			return err
		}
		check(err)
		if service.Annotations["address"] == found.Data["address"] {
			return nil
		}
		service = service.DeepCopy()
		service.Annotations = map[string]string{"address": found.Data["address"]}
		_, err = client.CoreV1().Services(name.Namespace).Update(ctx, service, metav1.UpdateOptions{})
		return err
	}
	go func() {
		for {
			name, ends := queue.Get()
			if ends {
				return
			}
			if err := reconcile(name); err != nil {
				queue.AddRateLimited(name)
			} else {
				queue.Forget(name)
			}
			queue.Done(name)
		}
	}()

	watching := must(client.CoreV1().Services("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=go"}))
	defer watching.Stop()
	ports := []corev1.ServicePort{{Port: 80}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "go"}, Spec: corev1.ServiceSpec{Ports: ports}}
	created := must(client.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{}))
	for event := range watching.ResultChan() {
		if told := event.Object.(*corev1.Service).Annotations["address"]; told != "" {
			expect(told == created.Spec.ClusterIP, "the service has %s, and is told %s", created.Spec.ClusterIP, told)
			break
		}
	}
	gone := must(client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=go"}))
	defer gone.Stop()
	check(client.CoreV1().Services("default").Delete(ctx, "go", metav1.DeleteOptions{}))
	for event := range gone.ResultChan() {
		if event.Type == "DELETED" {
			break
		}
	}
	expect(ctx.Err() == nil, "the controller took too long in %s", mediaType)
	fmt.Println("reconciled in " + mediaType)
}
