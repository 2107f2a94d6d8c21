"""The roles every installation has, as text tables.

One role a heading, one rule an indented line; a deeper line continues the one above:

    <verbs> <groups> <resources> [= <names>]     or     <verbs> <URLs>

`read` is get, list, watch; `write` is create, delete, deletecollection, patch, update; `core`
is the group without a name; groups are joined by `+`, all else by commas. A line of only
`events` grants to record events. `bootstrap_policy` turns the tables into objects.
"""

PEOPLE = """\
cluster-admin
  * * *
  * *
system:aggregate-to-admin
  create authorization.k8s.io localsubjectaccessreviews
  read,write rbac.authorization.k8s.io rolebindings,roles
system:aggregate-to-edit
  read core pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy
  impersonate core serviceaccounts
  write core pods,pods/attach,pods/exec,pods/portforward,pods/proxy
  create core pods/eviction
  write core configmaps,persistentvolumeclaims,replicationcontrollers,
      replicationcontrollers/scale,secrets,serviceaccounts,services,services/proxy
  create core serviceaccounts/token
  write core+events.k8s.io events
  write apps daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,
      replicasets/scale,statefulsets,statefulsets/scale
  write autoscaling horizontalpodautoscalers
  write batch cronjobs,jobs
  write extensions daemonsets,deployments,deployments/rollback,deployments/scale,ingresses,
      networkpolicies,replicasets,replicasets/scale,replicationcontrollers/scale
  write policy poddisruptionbudgets
  write networking.k8s.io ingresses,networkpolicies
  read,write coordination.k8s.io leases
  write resource.k8s.io resourceclaims,resourceclaimtemplates
system:aggregate-to-view
  read core configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,
      replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,
      services/status
  read core bindings,limitranges,namespaces/status,pods/log,pods/status,
      replicationcontrollers/status,resourcequotas,resourcequotas/status
  read core namespaces
  read core+events.k8s.io events
  read discovery.k8s.io endpointslices
  read apps controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,
      deployments/status,replicasets,replicasets/scale,replicasets/status,statefulsets,
      statefulsets/scale,statefulsets/status
  read autoscaling horizontalpodautoscalers,horizontalpodautoscalers/status
  read batch cronjobs,cronjobs/status,jobs,jobs/status
  read extensions daemonsets,daemonsets/status,deployments,deployments/scale,
      deployments/status,ingresses,ingresses/status,networkpolicies,replicasets,replicasets/scale,
      replicasets/status,replicationcontrollers/scale
  read policy poddisruptionbudgets,poddisruptionbudgets/status
  read networking.k8s.io ingresses,ingresses/status,networkpolicies
  read resource.k8s.io resourceclaims,resourceclaims/status,resourceclaimtemplates
"""
"""What is meant for people; admin, edit and view gather what is labelled for them."""

EVERYBODY = """\
system:basic-user
  create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews
  create authentication.k8s.io selfsubjectreviews
system:discovery
  get /api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/
system:public-info-viewer
  get /healthz,/livez,/readyz,/version,/version/
system:monitoring
  get /flagz,/healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*,
      /statusz
  get core nodes/metrics
system:service-account-issuer-discovery
  get /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,
      /openid/v1/jwks/
"""
"""Roles of all users, authenticated or anonymous."""

COMPONENTS = """\
system:auth-delegator
  create authentication.k8s.io tokenreviews
  create authorization.k8s.io subjectaccessreviews
system:certificates.k8s.io:certificatesigningrequests:nodeclient
  create certificates.k8s.io certificatesigningrequests/nodeclient
system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
  create certificates.k8s.io certificatesigningrequests/selfnodeclient
system:certificates.k8s.io:kube-apiserver-client-approver
  approve certificates.k8s.io signers = kubernetes.io/kube-apiserver-client
system:certificates.k8s.io:kube-apiserver-client-kubelet-approver
  approve certificates.k8s.io signers = kubernetes.io/kube-apiserver-client-kubelet
system:certificates.k8s.io:kubelet-serving-approver
  approve certificates.k8s.io signers = kubernetes.io/kubelet-serving
system:certificates.k8s.io:legacy-unknown-approver
  approve certificates.k8s.io signers = kubernetes.io/legacy-unknown
system:heapster
  read core events,namespaces,nodes,pods
  read extensions deployments
system:kube-aggregator
  read core endpoints,services
system:kube-controller-manager
  events
  create coordination.k8s.io leases
  get,update coordination.k8s.io leases = kube-controller-manager
  create core secrets,serviceaccounts
  delete core secrets
  get core configmaps,namespaces,secrets,serviceaccounts
  update core secrets,serviceaccounts
  create authentication.k8s.io tokenreviews
  create authorization.k8s.io subjectaccessreviews
  list,watch * *
  create core serviceaccounts/token
system:kube-dns
  list,watch core endpoints,services
system:kube-scheduler
  events
  create coordination.k8s.io leases
  read,update coordination.k8s.io leases = kube-scheduler
  read,write coordination.k8s.io leasecandidates
  read core nodes
  read,delete core pods
  create core bindings,pods/binding
  patch,update core pods/status
  read core replicationcontrollers,services
  read apps+extensions replicasets
  read apps statefulsets
  read policy poddisruptionbudgets
  read core persistentvolumeclaims,persistentvolumes
  create authentication.k8s.io tokenreviews
  create authorization.k8s.io subjectaccessreviews
  read storage.k8s.io csinodes
  read storage.k8s.io volumeattachments
  read core namespaces
  read storage.k8s.io csidrivers
  read storage.k8s.io csistoragecapacities
  read resource.k8s.io deviceclasses
  read,patch,update resource.k8s.io resourceclaims
  read,patch,update resource.k8s.io resourceclaims/status
  update core pods/finalizers
  read resource.k8s.io resourceslices
  patch,update resource.k8s.io resourceclaims/binding
system:kubelet-api-admin
  read core nodes
  proxy core nodes
  * core nodes/log,nodes/metrics,nodes/proxy,nodes/stats
  * core nodes/configz,nodes/healthz,nodes/pods
system:node
  create authentication.k8s.io tokenreviews
  create authorization.k8s.io localsubjectaccessreviews,subjectaccessreviews
  read core services
  read,create core nodes
  patch,update core nodes/status
  patch,update core nodes
  events
  read core pods
  create,delete core pods
  patch,update core pods/status
  create core pods/eviction
  read core configmaps,secrets
  get core persistentvolumeclaims,persistentvolumes
  get core endpoints
  read,create certificates.k8s.io certificatesigningrequests
  create,delete,get,patch,update coordination.k8s.io leases
  get storage.k8s.io volumeattachments
  create core serviceaccounts/token
  get,patch,update core persistentvolumeclaims/status
  read storage.k8s.io csidrivers
  create,delete,get,patch,update storage.k8s.io csinodes
  read node.k8s.io runtimeclasses
  get resource.k8s.io resourceclaims
  deletecollection resource.k8s.io resourceslices
  get core serviceaccounts
system:node-bootstrapper
  read,create certificates.k8s.io certificatesigningrequests
system:node-problem-detector
  get core nodes
  patch core nodes/status
  events
system:node-proxier
  list,watch core endpoints,services
  read core nodes
  events
  list,watch networking.k8s.io servicecidrs
  list,watch discovery.k8s.io endpointslices
system:persistent-volume-provisioner
  read,create,delete core persistentvolumes
  read,update core persistentvolumeclaims
  read storage.k8s.io storageclasses
  watch core events
  events
system:volume-scheduler
  read,patch,update core persistentvolumes
  read storage.k8s.io storageclasses
  read,patch,update core persistentvolumeclaims
"""
"""Roles of Kubernetes' components and certificate signers."""

CONTROLLERS = """\
attachdetach-controller
  list,watch core persistentvolumeclaims,persistentvolumes
  read core nodes
  patch,update core nodes/status
  list,watch core pods
  events
  read,create,delete storage.k8s.io volumeattachments
  read storage.k8s.io csidrivers
  read storage.k8s.io csinodes
certificate-controller
  read,delete certificates.k8s.io certificatesigningrequests
  update certificates.k8s.io certificatesigningrequests/approval,
      certificatesigningrequests/status
  approve certificates.k8s.io signers = kubernetes.io/kube-apiserver-client-kubelet
  sign certificates.k8s.io signers = kubernetes.io/kube-apiserver-client,
      kubernetes.io/kube-apiserver-client-kubelet,kubernetes.io/kubelet-serving,
      kubernetes.io/legacy-unknown
  create authorization.k8s.io subjectaccessreviews
  events
clusterrole-aggregation-controller
  read,escalate,patch,update rbac.authorization.k8s.io clusterroles
cronjob-controller
  read,update batch cronjobs
  read,create,delete,patch,update batch jobs
  update batch cronjobs/status
  update batch cronjobs/finalizers
  delete,list,watch core pods
  events
daemon-set-controller
  read apps+extensions daemonsets
  update apps+extensions daemonsets/status
  update apps+extensions daemonsets/finalizers
  list,watch core nodes
  create,delete,list,patch,watch core pods
  create core pods/binding
  read,create,delete,patch,update apps controllerrevisions
  events
deployment-controller
  read,update apps+extensions deployments
  update apps+extensions deployments/status
  update apps+extensions deployments/finalizers
  read,create,delete,patch,update apps+extensions replicasets
  read,update core pods
  events
device-taint-eviction-controller
  read,delete core pods
  patch,update core pods/status
  read resource.k8s.io resourceclaims
  read resource.k8s.io resourceslices
  read resource.k8s.io deviceclasses
  events
disruption-controller
  read apps+extensions deployments
  read apps+extensions replicasets
  read core replicationcontrollers
  read policy poddisruptionbudgets
  read apps statefulsets
  update policy poddisruptionbudgets/status
  patch,update core pods/status
  get * */scale
  events
endpoint-controller
  read core pods,services
  read,create,delete,update core endpoints
  create core endpoints/restricted
  events
endpointslice-controller
  read core nodes,pods,services
  update core services/finalizers
  read,create,delete,update discovery.k8s.io endpointslices
  events
endpointslicemirroring-controller
  read core endpoints,services
  update core services/finalizers
  update core endpoints/finalizers
  read,create,delete,update discovery.k8s.io endpointslices
  events
ephemeral-volume-controller
  read core pods
  update core pods/finalizers
  read,create core persistentvolumeclaims
  events
expand-controller
  read,patch,update core persistentvolumes
  patch,update core persistentvolumeclaims/status
  read core persistentvolumeclaims
  events
generic-garbage-collector
  read,delete,patch,update * *
  events
horizontal-pod-autoscaler
  read autoscaling horizontalpodautoscalers
  update autoscaling horizontalpodautoscalers/status
  get,update * */scale
  list,watch core pods
  list,watch metrics.k8s.io pods
  read custom.metrics.k8s.io *
  read external.metrics.k8s.io *
  events
job-controller
  read,patch,update batch jobs
  update batch jobs/status
  update batch jobs/finalizers
  create,delete,list,patch,watch core pods
  events
legacy-service-account-token-cleaner
  get core configmaps = kube-apiserver-legacy-service-account-token-tracking
  delete,patch core secrets
namespace-controller
  read,delete core namespaces
  update core namespaces/finalize,namespaces/status
  read,delete,deletecollection * *
node-controller
  read,delete,patch,update core nodes
  patch,update core nodes/status
  patch,update core pods/status
  read,delete core pods
  events
persistent-volume-binder
  read,create,delete,update core persistentvolumes
  update core persistentvolumes/status
  read,update core persistentvolumeclaims
  update core persistentvolumeclaims/status
  read,create,delete core pods
  read storage.k8s.io storageclasses
  list,watch core nodes
  events
  watch core events
pod-garbage-collector
  delete,list,watch core pods
  read core nodes
  patch core pods/status
pv-protection-controller
  read,update core persistentvolumes
  events
pvc-protection-controller
  read,update core persistentvolumeclaims
  update core persistentvolumeclaims/status
  read core pods
  events
replicaset-controller
  read,update apps+extensions replicasets
  update apps+extensions replicasets/status
  update apps+extensions replicasets/finalizers
  create,delete,list,patch,watch core pods
  events
replication-controller
  read,update core replicationcontrollers
  update core replicationcontrollers/status
  update core replicationcontrollers/finalizers
  create,delete,list,patch,watch core pods
  events
resource-claim-controller
  read core pods
  update core pods/finalizers
  read,create,delete resource.k8s.io resourceclaims
  patch,update resource.k8s.io resourceclaims,resourceclaims/status
  patch,update core pods/status
  events
  patch,update resource.k8s.io resourceclaims/binding
resourcequota-controller
  list,watch * *
  update core resourcequotas/status
  events
root-ca-cert-publisher
  create,update core configmaps
  events
route-controller
  list,watch core nodes
  patch core nodes/status
  events
selinux-warning-controller
  events
  read core persistentvolumes
  read core persistentvolumeclaims
  read core pods
  read storage.k8s.io csidrivers
service-account-controller
  create core serviceaccounts
  events
service-cidrs-controller
  read,patch,update networking.k8s.io servicecidrs
  patch,update networking.k8s.io servicecidrs/finalizers
  patch,update networking.k8s.io servicecidrs/status
  read networking.k8s.io ipaddresses
  events
service-controller
  read core services
  patch,update core services/status
  list,watch core nodes
  events
statefulset-controller
  list,watch core pods
  read apps statefulsets
  update apps statefulsets/status
  update apps statefulsets/finalizers
  create,delete,get,patch,update core pods
  read,create,delete,patch,update apps controllerrevisions
  read,create core persistentvolumeclaims
  delete,update core persistentvolumeclaims
  update core pods/finalizers
  events
ttl-after-finished-controller
  read,delete batch jobs
  events
ttl-controller
  list,patch,update,watch core nodes
  events
validatingadmissionpolicy-status-controller
  read admissionregistration.k8s.io validatingadmissionpolicies
  get,patch,update admissionregistration.k8s.io validatingadmissionpolicies/status
  events
volumeattributesclass-protection-controller
  read core persistentvolumeclaims
  read core persistentvolumes
  read,update storage.k8s.io volumeattributesclasses
  events
"""
"""`system:controller:<name>`, each bound to the service account of that name."""

KCP = """\
system:kcp:tenancy:reader
  read tenancy.kcp.io workspaces
  read tenancy.kcp.io workspacetypes
  read core.kcp.io logicalclusters
system:kcp:tenancy:workspace-bootstrapper
  * * *
  * *
system:kcp:logical-cluster-admin
  * core.kcp.io logicalclusters,logicalclusters/status
  delete,get,update tenancy.kcp.io workspaces
system:kcp:workspace:access
  access /
system:kcp:metrics-reader
  get /metrics
system:kcp:external-logical-cluster-admin
  delete,get,update core.kcp.io logicalclusters,logicalclusters/status
  delete,get,patch,update tenancy.kcp.io workspaces
  get tenancy.kcp.io workspaceauthenticationconfigurations
  get core secrets,serviceaccounts
  access /
  create authorization.k8s.io subjectaccessreviews
  read apis.kcp.io apiexportendpointslices
  get,patch,update apis.kcp.io apiexportendpointslices/status
  read cache.kcp.io clustercachedresourceendpointslices
  get,patch,update cache.kcp.io clustercachedresourceendpointslices/status
  create migration.kcp.io logicalclusterdumps
  get,patch,update migration.kcp.io logicalclustermigrations,logicalclustermigrations/status
  list apis.kcp.io apibindings
  get apis.kcp.io apiexports,apiresourceschemas
  create,get apiextensions.k8s.io customresourcedefinitions
"""

NAMESPACED = """\
kube-public system:controller:bootstrap-signer
  read core configmaps
  update core configmaps = cluster-info
  events
kube-system extension-apiserver-authentication-reader
  read core configmaps = extension-apiserver-authentication
kube-system system::leader-locking-kube-controller-manager
  read,create,update coordination.k8s.io leases
  read,create,update coordination.k8s.io leasecandidates
kube-system system::leader-locking-kube-scheduler
  read,create,update coordination.k8s.io leases
  read,create,update coordination.k8s.io leasecandidates
kube-system system:controller:bootstrap-signer
  read core secrets
kube-system system:controller:cloud-provider
  read,create core configmaps
kube-system system:controller:token-cleaner
  read,delete core secrets
  events
"""
"""Roles; the heading is `<namespace> <name>`."""
