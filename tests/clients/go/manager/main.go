// A controller-runtime manager with one controller: for each ConfigMap labelled "parent" it makes a
// child with an owner reference, and holds the parent with a finalizer until the child is gone.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	. "pykcp.test/clients/harness"
)

const finalizer = "pykcp.test/hold"

type parents struct{ client.Client }

func (r *parents) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	parent := &corev1.ConfigMap{}
	if err := r.Get(ctx, request.NamespacedName, parent); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: parent.Namespace, Name: parent.Name + "-child"}}
	if !parent.DeletionTimestamp.IsZero() {
		if err := r.Delete(ctx, child); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		if controllerutil.RemoveFinalizer(parent, finalizer) {
			return ctrl.Result{}, r.Update(ctx, parent)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(parent, finalizer) {
		if err := r.Update(ctx, parent); err != nil {
			return ctrl.Result{}, err
		}
	}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		child.Data = map[string]string{"copy": parent.Data["text"]}
		return controllerutil.SetControllerReference(parent, child, r.Scheme())
	})
	return ctrl.Result{}, err
}

func main() {
	ctx, cancel := Context()
	defer cancel()
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	manager, err := ctrl.NewManager(Config(), ctrl.Options{
		Metrics:                 server.Options{BindAddress: "0"},
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{Namespace: {}}},
		LeaderElection:          true,
		LeaderElectionID:        "parents",
		LeaderElectionNamespace: Namespace,
	})
	Must("manager", err)
	isParent := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetLabels()["parent"] != "" })
	Must("controller", ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}, builder.WithPredicates(isParent)).
		Owns(&corev1.ConfigMap{}).
		Complete(&parents{manager.GetClient()}))
	managerCtx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(managerCtx) }()
	exercise(ctx, manager.GetAPIReader(), manager.GetClient())
	stop()
	Must("manager ends", Receive(ctx, "end", ended))
	Done("manager")
}

func exercise(ctx context.Context, reader client.Reader, writer client.Client) {
	parent := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "parent", Labels: map[string]string{"parent": "yes"}},
		Data:       map[string]string{"text": "one"},
	}
	Must("create", writer.Create(ctx, parent))
	key, childKey := client.ObjectKeyFromObject(parent), client.ObjectKey{Namespace: Namespace, Name: "parent-child"}
	child := &corev1.ConfigMap{}
	eventually(ctx, "the child is made", func() bool {
		return reader.Get(ctx, childKey, child) == nil && child.Data["copy"] == "one"
	})
	Check("owned", metav1.IsControlledBy(child, parent), child.OwnerReferences)
	Must("get", reader.Get(ctx, key, parent))
	Check("held", controllerutil.ContainsFinalizer(parent, finalizer), parent.Finalizers)

	Must("patch", writer.Patch(ctx, parent, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"text":"two"}}`))))
	eventually(ctx, "the child follows", func() bool {
		return reader.Get(ctx, childKey, child) == nil && child.Data["copy"] == "two"
	})
	Must("delete the child", writer.Delete(ctx, child))
	before := child.UID
	eventually(ctx, "the child is made again", func() bool {
		return reader.Get(ctx, childKey, child) == nil && child.UID != before
	})
	Must("delete the parent", writer.Delete(ctx, parent))
	for _, gone := range []client.ObjectKey{key, childKey} {
		eventually(ctx, fmt.Sprintf("%s is gone", gone.Name), func() bool {
			return apierrors.IsNotFound(reader.Get(ctx, gone, &corev1.ConfigMap{}))
		})
	}
}

func eventually(ctx context.Context, step string, check func() bool) {
	for !check() {
		select {
		case <-ctx.Done():
			Must(step, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	Done(step)
}
