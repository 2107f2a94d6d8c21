// Leader election with a Lease: one of two leads, the other takes over when the first lets go.
package main

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	. "pykcp.test/clients/harness"
)

func main() {
	ctx, cancel := Context()
	defer cancel()
	clientset, err := kubernetes.NewForConfig(Config())
	Must("client", err)
	leading := make(chan string, 2)
	firstCtx, firstLetsGo := context.WithCancel(ctx)
	first := candidate(firstCtx, clientset, "first", leading)
	Check("the first leads", Receive(ctx, "leader", leading) == "first")
	second := candidate(ctx, clientset, "second", leading)
	lease, err := clientset.CoordinationV1().Leases(Namespace).Get(ctx, "election", metav1.GetOptions{})
	Must("lease", err)
	Check("held by the first", *lease.Spec.HolderIdentity == "first", lease.Spec)
	awaitRenewal(ctx, clientset, lease)
	firstLetsGo()
	Receive(ctx, "the first ends", first)
	Check("the second leads", Receive(ctx, "leader", leading) == "second")
	lease, err = clientset.CoordinationV1().Leases(Namespace).Get(ctx, "election", metav1.GetOptions{})
	Must("lease", err)
	Check("held by the second", *lease.Spec.HolderIdentity == "second" && *lease.Spec.LeaseTransitions >= 1, lease.Spec)
	cancel()
	<-second
	Done("leader election")
}

// awaitRenewal returns right after the holder renewed, so that no renewal is under way when it lets go.
func awaitRenewal(ctx context.Context, clientset kubernetes.Interface, lease *coordinationv1.Lease) {
	watcher, err := clientset.CoordinationV1().Leases(Namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: lease.ResourceVersion})
	Must("watch", err)
	defer watcher.Stop()
	for {
		renewed := Receive(ctx, "renewal", watcher.ResultChan()).Object.(*coordinationv1.Lease)
		if renewed.Spec.RenewTime.After(lease.Spec.RenewTime.Time) {
			return
		}
	}
}

func candidate(ctx context.Context, clientset kubernetes.Interface, name string, leading chan<- string) <-chan struct{} {
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, Namespace, "election",
		clientset.CoreV1(), clientset.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name})
	Must("lock", err)
	ended := make(chan struct{}, 1)
	go func() {
		defer func() { ended <- struct{}{} }()
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, Name: name,
			LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 300 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leading <- name },
				OnStoppedLeading: func() {},
			},
		})
	}()
	return ended
}
