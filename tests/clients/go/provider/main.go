// A provider with controller-runtime as it is: one manager for all consumers of an export, at the address
// that the endpoint slice says. Every cowboy gets a status, written into its consumer's workspace.
package main

import (
	"context"
	"os"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	. "pykcp.test/clients/harness"
)

var (
	group  = os.Getenv("TEST_GROUP")
	export = os.Getenv("TEST_EXPORT")
	slices = schema.GroupVersionKind{Group: "apis.kcp.io", Version: "v1alpha1", Kind: "APIExportEndpointSlice"}
)

func cowboy() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Cowboy"})
	return obj
}

// endpoint waits until the slice names an address: somebody has bound the export.
func endpoint(ctx context.Context, config *rest.Config) string {
	here, err := client.New(config, client.Options{})
	Must("client", err)
	for {
		slice := &unstructured.Unstructured{}
		slice.SetGroupVersionKind(slices)
		Must("slice", here.Get(ctx, types.NamespacedName{Name: export}, slice))
		endpoints, _, _ := unstructured.NestedSlice(slice.Object, "status", "endpoints")
		if len(endpoints) > 0 {
			return endpoints[0].(map[string]any)["url"].(string)
		}
	}
}

func at(config *rest.Config, url, cluster string) *rest.Config {
	there := rest.CopyConfig(config)
	there.Host = url + "/clusters/" + cluster
	return there
}

type hats struct {
	config  *rest.Config
	url     string
	mutex   sync.Mutex
	clients map[string]client.Client
}

func (r *hats) in(cluster string) (client.Client, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if known, ok := r.clients[cluster]; ok {
		return known, nil
	}
	made, err := client.New(at(r.config, r.url, cluster), client.Options{})
	if err == nil {
		r.clients[cluster] = made
	}
	return made, err
}

// Reconcile is told the cluster in front of the namespace: requests have no field of their own for it.
func (r *hats) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster, namespace, _ := strings.Cut(request.Namespace, "|")
	there, err := r.in(cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	obj := cowboy()
	if err := there.Get(ctx, types.NamespacedName{Namespace: namespace, Name: request.Name}, obj); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	hat, _, _ := unstructured.NestedString(obj.Object, "spec", "hat")
	shown, _, _ := unstructured.NestedString(obj.Object, "status", "hat")
	if hat == shown {
		return ctrl.Result{}, nil
	}
	before := client.MergeFrom(obj.DeepCopy())
	Must("status", unstructured.SetNestedField(obj.Object, hat, "status", "hat"))
	return ctrl.Result{}, there.Status().Patch(ctx, obj, before)
}

func main() {
	log.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	ctx := ctrl.SetupSignalHandler()
	config := Config()
	url := endpoint(ctx, config)
	manager, err := ctrl.NewManager(at(config, url, "*"), ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	Must("manager", err)
	byCluster := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		cluster := obj.GetAnnotations()["kcp.io/cluster"]
		key := types.NamespacedName{Namespace: cluster + "|" + obj.GetNamespace(), Name: obj.GetName()}
		return []reconcile.Request{{NamespacedName: key}}
	})
	Must("controller", ctrl.NewControllerManagedBy(manager).
		Named("hats").
		Watches(cowboy(), byCluster).
		Complete(&hats{config: config, url: url, clients: map[string]client.Client{}}))
	Must("run", manager.Start(ctx))
}
