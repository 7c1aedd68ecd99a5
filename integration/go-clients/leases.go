package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leases uses leases as any Go program does, in this media type, and has two candidates hold one in turn.
func leases(ctx context.Context, config *rest.Config, mediaType string) {
	config = rest.CopyConfig(config)
	config.ContentType = mediaType
	client := must(coordination.NewForConfig(config))
	own := client.Leases("default")

	// What is written is what is read, to the microsecond.
	renewed := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC))
	wanted := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: pointer("a"), LeaseDurationSeconds: pointer(int32(15)), RenewTime: &renewed},
	}
	listed := must(own.List(ctx, metav1.ListOptions{}))
	events := must(own.Watch(ctx, metav1.ListOptions{ResourceVersion: listed.ResourceVersion}))
	created := must(own.Create(ctx, wanted, metav1.CreateOptions{}))
	expect(created.Spec.RenewTime.Equal(&renewed) && *created.Spec.HolderIdentity == "a", "created %v", created.Spec)
	added := <-events.ResultChan()
	seen, is := added.Object.(*coordinationv1.Lease)
	expect(is && added.Type == watch.Added && seen.UID == created.UID && seen.Spec.RenewTime.Equal(&renewed), "the watch has %v", added)
	events.Stop()
	list := must(own.List(ctx, metav1.ListOptions{}))
	expect(len(list.Items) == 1 && list.Items[0].UID == created.UID, "the list has %v", list.Items)
	created.Spec.LeaseTransitions = pointer(int32(-1))
	_, err := own.Update(ctx, created, metav1.UpdateOptions{})
	expect(apierrors.IsInvalid(err), "an invalid one gives %v", err)
	patched := must(own.Patch(ctx, "one", types.StrategicMergePatchType, []byte(`{"spec":{"holderIdentity":null}}`), metav1.PatchOptions{}))
	expect(patched.Spec.HolderIdentity == nil, "patched to %v", patched.Spec)
	check(own.Delete(ctx, "one", metav1.DeleteOptions{}))

	// The second candidate takes over when the first one gives the lease up.
	leads := make(chan string)
	run := func(ctx context.Context, identity string) {
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: "elected"},
			Client:     client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, Name: "elected",
			LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leads <- identity },
				OnStoppedLeading: func() {},
			},
		})
	}
	first, resign := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { run(first, "first"); close(ended) }()
	expect(<-leads == "first", "the only candidate does not lead")
	second, stop := context.WithCancel(ctx)
	go run(second, "second")
	held := must(own.Get(ctx, "elected", metav1.GetOptions{}))
	expect(*held.Spec.HolderIdentity == "first", "the lease is held by %s", *held.Spec.HolderIdentity)
	resign()
	<-ended
	expect(<-leads == "second", "the other candidate does not lead")
	held = must(own.Get(ctx, "elected", metav1.GetOptions{}))
	expect(*held.Spec.HolderIdentity == "second" && *held.Spec.LeaseTransitions == 1, "the lease is %v", held.Spec)
	stop()
	check(own.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	fmt.Println("leases in", mediaType)
}
