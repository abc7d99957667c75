{{- define "agentjobs.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "agentjobs.selector" -}}
app.kubernetes.io/name: agentjobs
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "agentjobs.labels" -}}
{{ include "agentjobs.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "agentjobs.agentsNamespace" -}}
{{- .Values.agents.namespace | default (printf "%s-agents" .Release.Namespace) -}}
{{- end -}}

{{- define "agentjobs.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{- define "agentjobs.repositoriesClaim" -}}
{{- .Values.repositories.existingClaim | default (printf "%s-repositories" (include "agentjobs.fullname" .)) -}}
{{- end -}}

{{/* The text of a setting. Numbers of values are floats, which would be printed as 1e+06. */}}
{{- define "agentjobs.setting" -}}
{{- if kindIs "slice" . -}}
{{- join "," . -}}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- int64 . -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* Settings that all processes share, as YAML. */}}
{{- define "agentjobs.sharedSettings" -}}
public_url: {{ required "publicUrl is required: set it to the address at which users and workers reach the service, such as https://agents.example.com" .Values.publicUrl | quote }}
# Created by the program, so that it owns the directory: the volume belongs to root.
data_dir: /var/lib/agentjobs/data
host: 0.0.0.0
metrics_bind: 0.0.0.0:9090
# The hook migrates.
auto_migrate: {{ not .Values.migrations.enabled }}
# A worker whose container is restarted adopts its pods within this time.
lease_seconds: 30
lease_renew_seconds: 5
drain_grace_seconds: {{ .Values.worker.drainGraceSeconds }}
sandbox: kubernetes
kubernetes_namespace: {{ include "agentjobs.agentsNamespace" . }}
kubernetes_image: {{ printf "%s:%s" .Values.agents.image.repository (.Values.agents.image.tag | default .Chart.AppVersion) | quote }}
kubernetes_image_pull_policy: {{ .Values.agents.image.pullPolicy }}
{{- with .Values.agents.imagePullSecrets }}
kubernetes_image_pull_secrets:
{{- range . }}
  - {{ .name | quote }}
{{- end }}
{{- end }}
kubernetes_user_namespaces: {{ .Values.agents.userNamespaces | quote }}
kubernetes_pending_seconds: {{ .Values.agents.pendingSeconds }}
kubernetes_cache_claim: {{ .Values.agents.cacheClaim | quote }}
kubernetes_worker_labels:
  - app.kubernetes.io/name=agentjobs
  - app.kubernetes.io/instance={{ .Release.Name }}
  - app.kubernetes.io/component=worker
{{- if .Values.caCertificates.configMap }}
ca_file: /etc/agentjobs/certificates/ca.crt
{{- end }}
{{- end -}}

{{/* Variables of a container, for a dict with root, the name of the component and its own settings. */}}
{{- define "agentjobs.environment" -}}
{{- $shared := include "agentjobs.sharedSettings" .root | fromYaml -}}
{{- $component := index .root.Values .component | default dict -}}
{{- $settings := mergeOverwrite $shared (.settings | default dict) (deepCopy .root.Values.config) (deepCopy ($component.config | default dict)) -}}
{{- range $name, $value := $settings }}
- name: AGENTJOBS_{{ upper $name }}
  value: {{ include "agentjobs.setting" $value | quote }}
{{- end }}
{{- if .root.Values.configFile }}
- name: AGENTJOBS_CONFIG
  value: /etc/agentjobs/agentjobs.toml
{{- end }}
{{- range $name, $secret := dict "DATABASE_URL" .root.Values.secrets.databaseUrl "DATABASE_DIRECT_URL" .root.Values.secrets.databaseDirectUrl "ENCRYPTION_KEY" .root.Values.secrets.encryptionKey "OIDC_CLIENT_SECRET" .root.Values.secrets.oidcClientSecret "METRICS_TOKEN" .root.Values.secrets.metricsToken }}
{{- if $secret.name }}
- name: AGENTJOBS_{{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $secret.name | quote }}
      key: {{ $secret.key | quote }}
{{- end }}
{{- end }}
{{- with $component.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "agentjobs.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "agentjobs.configFileMount" -}}
- name: config
  mountPath: /etc/agentjobs/agentjobs.toml
  subPath: agentjobs.toml
  readOnly: true
{{- end -}}

{{- define "agentjobs.volumeMounts" -}}
- name: data
  mountPath: /var/lib/agentjobs
- name: tmp
  mountPath: /tmp
{{- if .Values.configFile }}
{{ include "agentjobs.configFileMount" . }}
{{- end }}
{{- if .Values.caCertificates.configMap }}
- name: certificates
  mountPath: /etc/agentjobs/certificates
  readOnly: true
{{- end }}
{{- end -}}

{{- define "agentjobs.volumes" -}}
- name: tmp
  emptyDir: {}
{{- if .Values.configFile }}
- name: config
  configMap:
    name: {{ include "agentjobs.fullname" . }}
{{- end }}
{{- with .Values.caCertificates }}
{{- if .configMap }}
- name: certificates
  configMap:
    name: {{ .configMap | quote }}
    items:
      - key: {{ .key | quote }}
        path: ca.crt
{{- end }}
{{- end }}
{{- end -}}

{{/* Annotations and labels of a pod, for a dict with root and component. */}}
{{- define "agentjobs.podMetadata" -}}
{{- $values := index .root.Values .component -}}
annotations:
  kubectl.kubernetes.io/default-container: {{ .component }}
  checksum/config: {{ .root.Values.configFile | sha256sum }}
  {{- with $values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
labels:
  {{- include "agentjobs.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
  {{- with $values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Where a pod runs, for a dict with root and component. */}}
{{- define "agentjobs.placement" -}}
{{- $values := index .root.Values .component -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
topologySpreadConstraints:
{{- with $values.topologySpreadConstraints }}
  {{- toYaml . | nindent 2 }}
{{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "agentjobs.selector" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
{{- end }}
{{- end -}}

{{/* Combinations of values that the schema cannot express. */}}
{{- define "agentjobs.checkValues" -}}
{{- if and (eq .Values.repositories.accessMode "ReadWriteOnce") (not .Values.repositories.existingClaim) (gt (int .Values.serve.replicas) 1) -}}
{{- fail "repositories.accessMode ReadWriteOnce allows one replica: set serve.replicas to 1, or use a storage class with ReadWriteMany" -}}
{{- end -}}
{{- with .Values.worker.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "worker.autoscaling.minReplicas (%d) is greater than maxReplicas (%d)" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- if and (or .Values.ingress.enabled .Values.httpRoute.enabled) (trimSuffix "/" (urlParse .Values.publicUrl).path) -}}
{{- fail "publicUrl has a path, which ingress and httpRoute do not support: use a host name of its own, or a route that removes the path before it forwards a request" -}}
{{- end -}}
{{- end -}}
