// Shared informers, in JSON and in protobuf: fed by streaming lists, which is what the client asks for
// by default, or by list and watch when KUBE_FEATURE_WatchListClient is "false".
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	. "pykcp.test/clients/harness"
)

const objects = 200

// requests counts what the informers ask for.
type requests struct {
	sync.Mutex
	lists, streams int
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		query := request.URL.Query()
		if request.Method == http.MethodGet {
			r.Lock()
			if query.Get("sendInitialEvents") == "true" {
				r.streams++
			} else if query.Get("watch") == "" {
				r.lists++
			}
			r.Unlock()
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func main() {
	ctx, cancel := Context()
	defer cancel()
	writer, err := kubernetes.NewForConfig(Config())
	Must("client", err)
	for number := range objects {
		_, err := writer.CoreV1().ConfigMaps(Namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("seen-%03d", number), Labels: map[string]string{"part": fmt.Sprint(number % 2)}},
		}, metav1.CreateOptions{})
		Must("create", err)
	}
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		asked := &requests{}
		config := Config()
		config.ContentType = contentType
		config.WrapTransport = asked.wrap
		follow(ctx, config, writer)
		streaming := os.Getenv("KUBE_FEATURE_WatchListClient") != "false"
		Check("fed as wished", (asked.streams > 0) == streaming && (asked.lists > 0) != streaming, asked.streams, asked.lists)
		Done(contentType)
	}
}

func follow(ctx context.Context, config *rest.Config, writer kubernetes.Interface) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	clientset, err := kubernetes.NewForConfig(config)
	Must("client", err)
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 10*time.Minute, informers.WithNamespace(Namespace))
	informer := factory.Core().V1().ConfigMaps()
	added, updated, deleted := make(chan string, 2*objects), make(chan string, objects), make(chan string, objects)
	_, err = informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { added <- name(obj) },
		UpdateFunc: func(_, obj any) { updated <- name(obj) },
		DeleteFunc: func(obj any) { deleted <- name(obj) },
	})
	Must("handler", err)
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		Check("synced", synced, kind)
	}
	all, err := informer.Lister().List(labels.Everything())
	Must("lister", err)
	Check("all in the cache", len(all) >= objects, len(all))
	half, err := informer.Lister().List(labels.Set{"part": "1"}.AsSelector())
	Must("lister", err)
	Check("selected from the cache", len(half) == objects/2, len(half))
	for range len(all) {
		Receive(ctx, "initial event", added)
	}

	maps := writer.CoreV1().ConfigMaps(Namespace)
	late, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	Must("create", err)
	Check("late add", Receive(ctx, "add", added) == "late")
	late.Data = map[string]string{"a": "b"}
	_, err = maps.Update(ctx, late, metav1.UpdateOptions{})
	Must("update", err)
	Check("late update", Receive(ctx, "update", updated) == "late")
	Must("delete", maps.Delete(ctx, "late", metav1.DeleteOptions{}))
	Check("late delete", Receive(ctx, "delete", deleted) == "late")
	cancel()
	factory.Shutdown()
}

func name(obj any) string {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	return obj.(*corev1.ConfigMap).Name
}
