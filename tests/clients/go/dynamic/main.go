// Discovery, the REST mapper built on it, the dynamic client and the metadata client.
package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/restmapper"

	. "pykcp.test/clients/harness"
)

func main() {
	ctx, cancel := Context()
	defer cancel()
	resource := discover()
	Done("discovery")
	dynamicWork(ctx, resource)
	Done("dynamic")
	metadataWork(ctx, resource)
	Done("metadata")
}

func discover() schema.GroupVersionResource {
	client, err := discovery.NewDiscoveryClientForConfig(Config())
	Must("client", err)
	groups, lists, err := client.ServerGroupsAndResources()
	Must("groups and resources", err)
	Check("more than the core", len(groups) > 5 && len(lists) > 5, len(groups), len(lists))
	legacy := discovery.NewDiscoveryClientForConfigOrDie(Config())
	legacy.UseLegacyDiscovery = true
	_, legacyLists, err := legacy.ServerGroupsAndResources()
	Must("without aggregation", err)
	Check("the same either way", len(legacyLists) == len(lists), len(legacyLists), len(lists))
	preferred, err := client.ServerPreferredNamespacedResources()
	Must("preferred", err)
	Check("namespaced kinds", len(preferred) > 3, preferred)

	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	mapping, err := mapper.RESTMapping(schema.GroupKind{Kind: "ConfigMap"})
	Must("mapping", err)
	Check("configmaps, in namespaces", mapping.Resource.Resource == "configmaps" && mapping.Scope.Name() == meta.RESTScopeNameNamespace, mapping)
	shortcuts := restmapper.NewShortcutExpander(mapper, client, nil)
	kind, err := shortcuts.KindFor(schema.GroupVersionResource{Resource: "cm"})
	Must("short name", err)
	Check("cm is ConfigMap", kind.Kind == "ConfigMap", kind)
	_, err = mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	Check("no match", meta.IsNoMatchError(err), err)

	document, err := client.OpenAPISchema()
	Must("OpenAPI v2", err)
	Check("definitions", len(document.Definitions.AdditionalProperties) > 50)
	root := openapi3.NewRoot(client.OpenAPIV3())
	spec, err := root.GVSpec(schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"})
	Must("OpenAPI v3", err)
	Check("schema of Role", spec.Components.Schemas["io.k8s.api.rbac.v1.Role"] != nil)
	return mapping.Resource
}

func dynamicWork(ctx context.Context, resource schema.GroupVersionResource) {
	client, err := dynamic.NewForConfig(Config())
	Must("client", err)
	maps := client.Resource(resource).Namespace(Namespace)
	wanted := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "dynamic"},
		"data":     map[string]any{"colour": "blue"},
	}}
	created, err := maps.Create(ctx, wanted, metav1.CreateOptions{})
	Must("create", err)
	watcher, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: created.GetResourceVersion(), FieldSelector: "metadata.name=dynamic"})
	Must("watch", err)
	defer watcher.Stop()
	_, err = maps.Patch(ctx, "dynamic", types.MergePatchType, []byte(`{"data":{"colour":"red"}}`), metav1.PatchOptions{})
	Must("patch", err)
	event := Receive(ctx, "event", watcher.ResultChan())
	colour, _, _ := unstructured.NestedString(event.Object.(*unstructured.Unstructured).Object, "data", "colour")
	Check("modified", event.Type == watch.Modified && colour == "red", event)
	wanted.SetManagedFields(nil)
	applied, err := maps.Apply(ctx, "dynamic", wanted, metav1.ApplyOptions{FieldManager: "dynamic", Force: true})
	Must("apply", err)
	colour, _, _ = unstructured.NestedString(applied.Object, "data", "colour")
	Check("applied", colour == "blue", applied)
	list, err := maps.List(ctx, metav1.ListOptions{})
	Must("list", err)
	Check("listed", len(list.Items) >= 1 && list.GetKind() == "ConfigMapList", list.GetKind())
	wanted.Object["datta"] = "misspelt"
	wanted.SetName("strict")
	_, err = maps.Create(ctx, wanted, metav1.CreateOptions{FieldValidation: "Strict"})
	Check("an unknown field", apierrors.IsBadRequest(err), err)
	Must("delete", maps.Delete(ctx, "dynamic", metav1.DeleteOptions{}))
	_, err = maps.Get(ctx, "dynamic", metav1.GetOptions{})
	Check("gone", apierrors.IsNotFound(err), err)
}

func metadataWork(ctx context.Context, resource schema.GroupVersionResource) {
	client, err := metadata.NewForConfig(Config())
	Must("client", err)
	list, err := client.Resource(resource).Namespace(Namespace).List(ctx, metav1.ListOptions{})
	Must("list", err)
	Check("metadata alone", len(list.Items) > 0 && list.Items[0].Name != "" && list.Items[0].UID != "", list)
	watcher, err := client.Resource(resource).Namespace(Namespace).Watch(ctx, metav1.ListOptions{})
	Must("watch", err)
	defer watcher.Stop()
	event := Receive(ctx, "event", watcher.ResultChan())
	seen, ok := event.Object.(*metav1.PartialObjectMetadata)
	Check("metadata in events", ok && seen.Name != "", event)
}
