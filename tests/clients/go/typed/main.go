// Typed clients, in JSON and in protobuf: everyday verbs, patches, pages, watches and errors.
package main

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	. "pykcp.test/clients/harness"
)

func main() {
	ctx, cancel := Context()
	defer cancel()
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		config := Config()
		config.ContentType = contentType
		if contentType == runtime.ContentTypeProtobuf {
			config.AcceptContentTypes = contentType + "," + runtime.ContentTypeJSON
		}
		clientset, err := kubernetes.NewForConfig(config)
		Must("client", err)
		everydayWork(ctx, clientset)
		patches(ctx, clientset)
		pages(ctx, clientset)
		mistakes(ctx, clientset)
		otherKinds(ctx, clientset)
		Done(contentType)
	}
}

func everydayWork(ctx context.Context, clientset kubernetes.Interface) {
	maps := clientset.CoreV1().ConfigMaps(Namespace)
	watcher, err := maps.Watch(ctx, metav1.ListOptions{LabelSelector: "app=typed"})
	Must("watch", err)
	defer watcher.Stop()

	created, err := maps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "typed-", Labels: map[string]string{"app": "typed"}},
		Data:       map[string]string{"colour": "blue"},
		BinaryData: map[string][]byte{"raw": {0, 255, 10}},
	}, metav1.CreateOptions{FieldManager: "typed"})
	Must("create", err)
	Check("generated name", len(created.Name) > len("typed-") && created.UID != "", created)
	expect(ctx, watcher, watch.Added, "blue")

	read, err := maps.Get(ctx, created.Name, metav1.GetOptions{})
	Must("get", err)
	Check("bytes survive", string(read.BinaryData["raw"]) == "\x00\xff\n", read.BinaryData)
	Check("owned by the field manager", len(read.ManagedFields) == 1 && read.ManagedFields[0].Manager == "typed", read.ManagedFields)

	read.Data["colour"] = "red"
	updated, err := maps.Update(ctx, read, metav1.UpdateOptions{})
	Must("update", err)
	Check("a new resource version", updated.ResourceVersion != created.ResourceVersion)
	expect(ctx, watcher, watch.Modified, "red")

	_, err = maps.Update(ctx, created, metav1.UpdateOptions{})
	Check("a stale update conflicts", apierrors.IsConflict(err), err)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := maps.Get(ctx, created.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		current.Data["colour"] = "green"
		_, err = maps.Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
	Must("retry on conflict", err)
	expect(ctx, watcher, watch.Modified, "green")

	wrongUID := types.UID("00000000-0000-0000-0000-000000000000")
	err = maps.Delete(ctx, created.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrongUID}})
	Check("a precondition that fails", apierrors.IsConflict(err), err)
	Must("delete", maps.Delete(ctx, created.Name, metav1.DeleteOptions{}))
	expect(ctx, watcher, watch.Deleted, "green")
}

func expect(ctx context.Context, watcher watch.Interface, wanted watch.EventType, colour string) {
	event := Receive(ctx, "event "+string(wanted), watcher.ResultChan())
	seen, ok := event.Object.(*corev1.ConfigMap)
	Check("event", ok && event.Type == wanted && seen.Data["colour"] == colour, event, wanted, colour)
}

func patches(ctx context.Context, clientset kubernetes.Interface) {
	accounts := clientset.CoreV1().ServiceAccounts(Namespace)
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "patched"},
		Secrets:    []corev1.ObjectReference{{Name: "one"}},
	}, metav1.CreateOptions{})
	Must("create a service account", err)

	patched, err := accounts.Patch(ctx, "patched", types.StrategicMergePatchType, []byte(`{"secrets":[{"name":"two"}]}`), metav1.PatchOptions{})
	Must("strategic merge patch", err)
	Check("lists are merged by name", len(patched.Secrets) == 2, patched.Secrets)

	patched, err = accounts.Patch(ctx, "patched", types.MergePatchType, []byte(`{"secrets":[{"name":"three"}]}`), metav1.PatchOptions{})
	Must("merge patch", err)
	Check("lists are replaced", len(patched.Secrets) == 1 && patched.Secrets[0].Name == "three", patched.Secrets)

	patched, err = accounts.Patch(ctx, "patched", types.JSONPatchType, []byte(`[{"op":"replace","path":"/secrets/0/name","value":"four"}]`), metav1.PatchOptions{})
	Must("JSON patch", err)
	Check("replaced in place", patched.Secrets[0].Name == "four", patched.Secrets)
	Must("delete", accounts.Delete(ctx, "patched", metav1.DeleteOptions{}))

	maps := clientset.CoreV1().ConfigMaps(Namespace)
	wanted := applycorev1.ConfigMap("applied", Namespace).WithData(map[string]string{"a": "1"})
	_, err = maps.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "one"})
	Must("apply", err)
	other := applycorev1.ConfigMap("applied", Namespace).WithData(map[string]string{"a": "2"})
	_, err = maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "two"})
	Check("another manager conflicts", apierrors.IsConflict(err), err)
	applied, err := maps.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "two", Force: true})
	Must("apply by force", err)
	Check("taken over", applied.Data["a"] == "2", applied.Data)
	extracted, err := applycorev1.ExtractConfigMap(applied, "two")
	Must("extract what a manager owns", err)
	Check("owns the field", extracted.Data["a"] == "2", extracted)
	Must("delete", maps.Delete(ctx, "applied", metav1.DeleteOptions{}))
}

func pages(ctx context.Context, clientset kubernetes.Interface) {
	maps := clientset.CoreV1().ConfigMaps(Namespace)
	labels := map[string]string{"app": "pages"}
	for number := range 25 {
		_, err := maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("page-%02d", number), Labels: labels},
		}, metav1.CreateOptions{})
		Must("create", err)
	}
	seen, rounds, options := 0, 0, metav1.ListOptions{LabelSelector: "app=pages", Limit: 10}
	for {
		list, err := maps.List(ctx, options)
		Must("page", err)
		seen, rounds = seen+len(list.Items), rounds+1
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	Check("all in three pages", seen == 25 && rounds == 3, seen, rounds)
	list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=page-07"})
	Must("list by field", err)
	Check("one", len(list.Items) == 1, len(list.Items))
	err = maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=pages"})
	Must("delete a collection", err)
	list, err = maps.List(ctx, metav1.ListOptions{LabelSelector: "app=pages"})
	Must("list", err)
	Check("none left", len(list.Items) == 0, len(list.Items))
}

func mistakes(ctx context.Context, clientset kubernetes.Interface) {
	maps := clientset.CoreV1().ConfigMaps(Namespace)
	_, err := maps.Get(ctx, "missing", metav1.GetOptions{})
	Check("not found", apierrors.IsNotFound(err) && err.Error() == `configmaps "missing" not found`, err)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "No Such Name"}}, metav1.CreateOptions{})
	Check("invalid", apierrors.IsInvalid(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid), err)
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	Check("already exists", apierrors.IsAlreadyExists(err), err)
	_, err = maps.List(ctx, metav1.ListOptions{LabelSelector: "a in b in c"})
	Check("bad request", apierrors.IsBadRequest(err), err)
	_, err = maps.List(ctx, metav1.ListOptions{Continue: "nonsense", Limit: 1})
	Check("bad continue", apierrors.IsBadRequest(err), err)
	_, err = clientset.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{})
	Check("a kind that is not served", apierrors.IsNotFound(err), err)
	anonymous := Config()
	anonymous.BearerToken, anonymous.BearerTokenFile = "no-such-token", ""
	anonymous.CertData, anonymous.KeyData = nil, nil
	stranger, err := kubernetes.NewForConfig(anonymous)
	Must("client", err)
	_, err = stranger.CoreV1().ConfigMaps(Namespace).List(ctx, metav1.ListOptions{})
	Check("unauthorized", apierrors.IsUnauthorized(err), err)
	impersonating := Config()
	impersonating.Impersonate.UserName = "nobody"
	stranger, err = kubernetes.NewForConfig(impersonating)
	Must("client", err)
	_, err = stranger.CoreV1().ConfigMaps(Namespace).List(ctx, metav1.ListOptions{})
	Check("forbidden", apierrors.IsForbidden(err), err)
}

// otherKinds reads back what it wrote: nested lists, maps, bytes and times in another encoding.
func otherKinds(ctx context.Context, clientset kubernetes.Interface) {
	secret, err := clientset.CoreV1().Secrets(Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "secret"}, StringData: map[string]string{"password": "geheim"},
	}, metav1.CreateOptions{})
	Must("secret", err)
	Check("stored as bytes", string(secret.Data["password"]) == "geheim" && secret.Type == corev1.SecretTypeOpaque, secret)
	Must("delete", clientset.CoreV1().Secrets(Namespace).Delete(ctx, "secret", metav1.DeleteOptions{}))

	rules := []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"a"}}}
	role, err := clientset.RbacV1().Roles(Namespace).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "role"}, Rules: rules}, metav1.CreateOptions{})
	Must("role", err)
	Check("rules", fmt.Sprint(role.Rules) == fmt.Sprint(rules), role.Rules)
	Must("delete", clientset.RbacV1().Roles(Namespace).Delete(ctx, "role", metav1.DeleteOptions{}))

	review, err := clientset.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/", Verb: "get"}},
	}, metav1.CreateOptions{})
	Must("access review", err)
	Check("allowed", review.Status.Allowed, review.Status)

	version, err := clientset.Discovery().ServerVersion()
	Must("version", err)
	Check("version 1.36", version.Major == "1" && version.Minor == "36", version)
}
