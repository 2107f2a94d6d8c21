// `@kubernetes/client-node`: verbs, patches, watch, informer, errors.
import assert from "node:assert/strict";
import {
  AuthorizationV1Api, CoreV1Api, KubeConfig, KubernetesObjectApi, PatchStrategy, VersionApi, Watch,
  makeInformer, setHeaderOptions,
} from "@kubernetes/client-node";

const namespace = process.env.TEST_NAMESPACE;
const config = new KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(CoreV1Api);
const map = (name, data, labels) => ({ metadata: { name, labels }, data });

/** Calls and expects the server to refuse with this code and reason. */
async function refused(code, reason, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.code, code, error.message);
    assert.equal(JSON.parse(error.body).reason, reason);
    return true;
  });
}

/** A promise and the function that keeps it; rejects if that takes too long. */
function promised(what) {
  let keep;
  const promise = new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`waited in vain for ${what}`)), 30_000);
    keep = (value) => { clearTimeout(timer); resolve(value); };
  });
  return { promise, keep };
}

async function everydayWork() {
  const made = await core.createNamespacedConfigMap({ namespace, body: map("one", { colour: "blue" }) });
  assert.ok(made.metadata.creationTimestamp instanceof Date);
  made.data.colour = "red";
  await core.replaceNamespacedConfigMap({ name: "one", namespace, body: made });
  await refused(409, "Conflict", () => core.replaceNamespacedConfigMap({ name: "one", namespace, body: made }));
  const patch = (body, strategy) =>
    core.patchNamespacedConfigMap({ name: "one", namespace, body }, setHeaderOptions("Content-Type", strategy));
  assert.deepEqual((await patch([{ op: "add", path: "/data/a", value: "1" }], PatchStrategy.JsonPatch)).data, { colour: "red", a: "1" });
  assert.deepEqual((await patch({ data: { a: null } }, PatchStrategy.MergePatch)).data, { colour: "red" });
  assert.deepEqual((await patch({ data: { b: "2" } }, PatchStrategy.StrategicMergePatch)).data, { colour: "red", b: "2" });
  const listed = await core.listNamespacedConfigMap({ namespace, fieldSelector: "metadata.name=one" });
  assert.deepEqual(listed.items.map((item) => item.metadata.name), ["one"]);
  await core.deleteNamespacedConfigMap({ name: "one", namespace });
  await refused(404, "NotFound", () => core.readNamespacedConfigMap({ name: "one", namespace }));
  await refused(422, "Invalid", () => core.createNamespacedConfigMap({ namespace, body: map("A b") }));
  await refused(400, "BadRequest", () => core.listNamespacedConfigMap({ namespace, labelSelector: "=" }));
}

async function watching() {
  const seen = [];
  const { promise, keep } = promised("the deletion");
  const request = await new Watch(config).watch(
    `/api/v1/namespaces/${namespace}/configmaps`, { fieldSelector: "metadata.name=seen", allowWatchBookmarks: true },
    (type) => { if (type !== "BOOKMARK") seen.push(type); if (type === "DELETED") keep(); }, () => {});
  const made = await core.createNamespacedConfigMap({ namespace, body: map("seen", { step: "1" }) });
  made.data.step = "2";
  await core.replaceNamespacedConfigMap({ name: "seen", namespace, body: made });
  await core.deleteNamespacedConfigMap({ name: "seen", namespace });
  await promise;
  request.abort();
  assert.deepEqual(seen, ["ADDED", "MODIFIED", "DELETED"]);
}

async function informing() {
  const labelSelector = "app=informed";
  await core.createNamespacedConfigMap({ namespace, body: map("early", {}, { app: "informed" }) });
  const informer = makeInformer(
    config, `/api/v1/namespaces/${namespace}/configmaps`,
    () => core.listNamespacedConfigMap({ namespace, labelSelector }), labelSelector);
  const events = { add: promised("early"), late: promised("late"), update: promised("update"), delete: promised("delete") };
  informer.on("add", (item) => events[item.metadata.name === "late" ? "late" : "add"].keep(item));
  informer.on("update", (item) => events.update.keep(item));
  informer.on("delete", (item) => events.delete.keep(item));
  informer.on("error", (error) => { if (error.type !== "aborted") throw error; }); // stop() aborts
  await informer.start();
  await events.add.promise;
  const late = await core.createNamespacedConfigMap({ namespace, body: map("late", { step: "1" }, { app: "informed" }) });
  await events.late.promise;
  assert.equal(informer.list(namespace).length, 2);
  late.data.step = "2";
  await core.replaceNamespacedConfigMap({ name: "late", namespace, body: late });
  assert.equal((await events.update.promise).data.step, "2");
  await core.deleteNamespacedConfigMap({ name: "late", namespace });
  await events.delete.promise;
  assert.equal(informer.get("late", namespace), undefined);
  await informer.stop();
}

async function objects() {
  const api = KubernetesObjectApi.makeApiClient(config);
  const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: "generic", namespace }, spec: { holderIdentity: "me" } };
  await api.create(lease);
  lease.spec.holderIdentity = "you";
  const applied = await api.patch(lease, undefined, undefined, "node", true, PatchStrategy.ServerSideApply);
  assert.equal(applied.spec.holderIdentity, "you");
  await api.delete(lease);
  const review = await config.makeApiClient(AuthorizationV1Api).createSelfSubjectAccessReview(
    { body: { spec: { resourceAttributes: { verb: "list", resource: "secrets", namespace } } } });
  assert.equal(review.status.allowed, true);
  assert.equal((await config.makeApiClient(VersionApi).getCode()).minor, "36");
}

await everydayWork();
await watching();
await informing();
await objects();
console.log("done");
process.exit(0);
