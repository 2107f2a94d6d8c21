{{- define "kcp.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Selector of a component: include "kcp.selector" (list . "server") */}}
{{- define "kcp.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: kcp
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "kcp.labels" -}}
{{- $root := index . 0 -}}
{{ include "kcp.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{/* Metadata of an object: include "kcp.metadata" (list . "name" "component") */}}
{{- define "kcp.metadata" -}}
{{- $root := index . 0 -}}
name: {{ index . 1 }}
namespace: {{ $root.Release.Namespace }}
labels:
  {{- include "kcp.labels" (list $root (index . 2)) | nindent 2 }}
{{- end -}}

{{- define "kcp.externalHostname" -}}
{{- required "externalHostname is required" .Values.externalHostname -}}
{{- end -}}

{{- define "kcp.externalPort" -}}
{{- if .Values.externalPort -}}{{ .Values.externalPort }}
{{- else if eq .Values.kcpFrontProxy.service.type "LoadBalancer" -}}8443{{- else -}}443{{- end -}}
{{- end -}}

{{- define "kcp.externalURL" -}}
https://{{ include "kcp.externalHostname" . }}:{{ include "kcp.externalPort" . }}
{{- end -}}

{{/* What verifies the front-proxy, for the shard: file and directory. */}}
{{- define "kcp.frontProxyAuthority" -}}
{{- $secret := .Values.kcpFrontProxy.certificateIssuer.secret | default (dict) -}}
{{- if $secret.name -}}/etc/kcp/tls/front-proxy-ca/{{ $secret.key | default "ca.crt" }}
{{- else -}}/etc/kcp/tls/ca/tls.crt{{- end -}}
{{- end -}}

{{- define "kcp.baseURL" -}}
https://{{ include "kcp.fullname" . }}.{{ .Release.Namespace }}.svc:6443
{{- end -}}

{{- define "kcp.pullSecrets" -}}
{{- range .Values.global.imagePullSecrets }}
- name: {{ if kindIs "map" . }}{{ .name }}{{ else }}{{ . }}{{ end }}
{{- end }}
{{- end -}}

{{/* Fields of a pod that users set: include "kcp.podFields" .Values.kcp */}}
{{- define "kcp.podFields" -}}
securityContext: {{ toYaml (mergeOverwrite (deepCopy .podSecurityContext) .securityContext) | nindent 2 }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "kcp.authenticationFlags" -}}
{{- if .Values.authentication.configMapRef.name }}
- --authentication-config=/etc/kcp/authentication/config.yaml
{{- else if .Values.oidc.enabled }}
- '--oidc-issuer-url={{ required "oidc.issuerUrl is required" .Values.oidc.issuerUrl }}'
- '--oidc-client-id={{ required "oidc.clientId is required" .Values.oidc.clientId }}'
- '--oidc-groups-claim={{ .Values.oidc.groupClaim }}'
- '--oidc-groups-prefix={{ .Values.oidc.groupsPrefix }}'
- '--oidc-username-claim={{ .Values.oidc.usernameClaim }}'
- '--oidc-username-prefix={{ .Values.oidc.usernamePrefix }}'
{{- if .Values.oidc.caSecretName }}
- '--oidc-ca-file=/etc/kcp/tls/oidc/{{ .Values.oidc.caSecretKeyName }}'
{{- end }}
{{- end }}
{{- if .Values.kcp.tokenAuth.enabled }}
- --token-auth-file=/etc/kcp/token-auth/{{ .Values.kcp.tokenAuth.fileName }}
{{- end }}
{{- end -}}

{{- define "kcp.authenticationMounts" -}}
{{- if .Values.authentication.configMapRef.name }}
- {name: authentication, mountPath: /etc/kcp/authentication, readOnly: true}
{{- else if and .Values.oidc.enabled .Values.oidc.caSecretName }}
- {name: oidc-ca, mountPath: /etc/kcp/tls/oidc, readOnly: true}
{{- end }}
{{- if .Values.kcp.tokenAuth.enabled }}
- {name: token-auth, mountPath: /etc/kcp/token-auth, readOnly: true}
{{- end }}
{{- end -}}

{{- define "kcp.authenticationVolumes" -}}
{{- if .Values.authentication.configMapRef.name }}
- name: authentication
  configMap: {name: {{ .Values.authentication.configMapRef.name }}}
{{- else if and .Values.oidc.enabled .Values.oidc.caSecretName }}
- name: oidc-ca
  secret: {secretName: {{ .Values.oidc.caSecretName }}}
{{- end }}
{{- if .Values.kcp.tokenAuth.enabled }}
- name: token-auth
  secret: {secretName: {{ include "kcp.fullname" . }}-token-auth}
{{- end }}
{{- end -}}

{{/* A volume of one Secret: include "kcp.secretVolume" (list "name" "secret") */}}
{{- define "kcp.secretVolume" -}}
- name: {{ index . 0 }}
  secret: {secretName: {{ index . 1 }}}
{{- end -}}
