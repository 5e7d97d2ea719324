{{- define "inquiry-gateway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What a pod is found by; it never changes in the life of a release. */}}
{{- define "inquiry-gateway.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "inquiry-gateway.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "inquiry-gateway.selectorLabels" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "inquiry-gateway.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* What the pods of all templates have in common. */}}
{{- define "inquiry-gateway.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- range $key := list "imagePullSecrets" "priorityClassName" "nodeSelector" "tolerations" "affinity" }}
{{- with index $.Values $key }}
{{ $key }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Of pods that only send requests. */}}
{{- define "inquiry-gateway.smallResources" -}}
requests: {cpu: 10m, memory: 32Mi}
limits: {memory: 256Mi}
{{- end -}}

{{- define "inquiry-gateway.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The most pods at a time, with the one more of a roll-out. */}}
{{- define "inquiry-gateway.mostPods" -}}
{{ add1 (ternary .Values.autoscaling.maxReplicas .Values.replicas .Values.autoscaling.enabled) }}
{{- end -}}

{{- define "inquiry-gateway.config" -}}
{{- $upstream := (fromYaml .Values.config).upstream | default dict -}}
{{- $most := include "inquiry-gateway.mostPods" . | int -}}
{{- if and $upstream.max_requests_per_second (not (kindIs "string" $upstream.max_nodes)) (lt (int $upstream.max_nodes) $most) -}}
{{- fail (printf "upstream.max_nodes of config: set it to %d or more, the most pods at a time with one more during a roll-out; with fewer the legacy system gets more than max_requests_per_second while Redis is away" $most) -}}
{{- end -}}
# Written by the chart.
listen: 0.0.0.0:8080
ops: {listen: "0.0.0.0:9090", token_file: /etc/inquiry-gateway/ops/token, read_token_file: /etc/inquiry-gateway/ops/read-token}
{{- with .Values.trustedProxies }}
{{- if regexMatch "(?m)^gateway *:" $.Values.config }}{{ fail "config has a section `gateway`: put trustedProxies there, as trusted_proxies" }}{{ end }}
gateway: {trusted_proxies: {{ toJson . }}}
{{- end }}
# From the value config.
{{ required "config is required: the gateway's configuration, with at least `upstream`" .Values.config | trim }}
{{- end -}}

{{/* Each configuration has a ConfigMap of its own: pods of an older revision go on
     with theirs, also when they are restarted. */}}
{{- define "inquiry-gateway.configMap" -}}
{{ include "inquiry-gateway.fullname" . }}-{{ include "inquiry-gateway.config" . | sha256sum | trunc 10 }}
{{- end -}}

{{/* The files of the configuration, for the gateway and for the check before an upgrade.
     Folders, not single files: only these follow a change of a Secret. */}}
{{- define "inquiry-gateway.volumeMounts" -}}
- {name: config, mountPath: /etc/inquiry-gateway/config, readOnly: true}
- {name: ops, mountPath: /etc/inquiry-gateway/ops, readOnly: true}
{{- if .Values.keys.existingSecret }}
- {name: keys, mountPath: /etc/inquiry-gateway/keys, readOnly: true}
{{- end }}
{{- range $i, $name := .Values.secrets }}
- {name: secret-{{ $i }}, mountPath: /etc/inquiry-gateway/secrets/{{ $name }}, readOnly: true}
{{- end }}
{{- end -}}

{{- define "inquiry-gateway.volumes" -}}
{{- if and (contains "/etc/inquiry-gateway/keys/" .Values.config) (not .Values.keys.existingSecret) -}}
{{- fail "keys.existingSecret is required: config reads a keys file from that Secret" -}}
{{- end -}}
- name: config
  configMap: {name: {{ include "inquiry-gateway.configMap" . }}}
- name: ops
  secret: {secretName: {{ required "ops.existingSecret is required: a Secret with the ops listener's tokens, token and read-token" .Values.ops.existingSecret }}, defaultMode: 0440}
{{- with .Values.keys.existingSecret }}
- name: keys
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- range $i, $name := .Values.secrets }}
- name: secret-{{ $i }}
  secret: {secretName: {{ $name }}, defaultMode: 0440}
{{- end }}
{{- end -}}
