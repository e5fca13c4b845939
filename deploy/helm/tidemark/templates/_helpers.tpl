{{- define "tidemark.name" -}}
{{- if contains "tidemark" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-tidemark" (.Release.Name | trunc 41 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "tidemark.selector" -}}
app.kubernetes.io/name: tidemark
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidemark.labels" -}}
{{ include "tidemark.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "tidemark.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{ .Values.image.repository }}{{ if hasPrefix "sha256:" $tag }}@{{ else }}:{{ end }}{{ $tag }}
{{- end }}

{{/* What is missing is said in one line, before anything is installed. */}}
{{- define "tidemark.check" -}}
{{- range $name := list "ASSIGNMENT_BASE_URL" "AUTH_URL" "CLIENT_GUID" "SUBJECT_ID" }}
{{- if not (or (get $.Values.settings $name) (get $.Values.secrets $name)) }}{{ fail (printf "settings.%s is not set: docs/guides/kubernetes.md shows each setting that is required" $name) }}{{ end }}
{{- end }}
{{- range $name := list "DATABASE_URL" "API_KEY" }}
{{- if not (get $.Values.secrets $name) }}{{ fail (printf "secrets.%s is not set: name the Secret that holds it, such as %s: { secret: tidemark, key: %s }" $name $name (lower $name | replace "_" "-")) }}{{ end }}
{{- end }}
{{- range $name, $_ := .Values.secrets }}
{{- if hasKey $.Values.settings $name }}{{ fail (printf "%s is in settings and in secrets: remove one of them" $name) }}{{ end }}
{{- end }}
{{- end }}

{{/* The settings, and the dictionary. Values are as they are: Kubernetes replaces $(NAME) in `env`, and nothing in a ConfigMap. */}}
{{- define "tidemark.configMaps" -}}
{{- $root := .root }}
{{- $annotations := .annotations }}
{{- $maps := dict .name .settings }}
{{- if $root.Values.dictionary }}{{ $_ := set $maps (printf "%s-dictionary" .name) (dict "dictionary.yaml" $root.Values.dictionary) }}{{ end }}
{{- range $name, $data := $maps }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  labels: {{- include "tidemark.labels" $root | nindent 4 }}
  {{- with $annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
data:
  {{- range $key, $value := $data }}
  {{ $key }}: {{ $value | toJson }}
  {{- end }}
{{- end }}
{{- end }}

{{/* What the worker and the Job have in common: given root, secrets and the name of their ConfigMap. */}}
{{- define "tidemark.container" -}}
image: {{ include "tidemark.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
envFrom:
  - configMapRef:
      name: {{ .name }}
env:
  - name: HTTP_HOST
    value: 0.0.0.0
  - name: HTTP_PORT
    value: "8080"
  {{- range $name, $_ := .secrets }}
  - name: {{ $name }}_FILE
    value: /run/secrets/tidemark/{{ $name }}
  {{- end }}
  {{- if .root.Values.dictionary }}
  - name: DICTIONARY
    value: /etc/tidemark/dictionary.yaml
  {{- end }}
resources: {{- toYaml .root.Values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: secrets
    mountPath: /run/secrets/tidemark
    readOnly: true
  {{- if .root.Values.dictionary }}
  - name: dictionary
    mountPath: /etc/tidemark
    readOnly: true
  {{- end }}
  - name: tmp
    mountPath: /tmp
{{- end }}

{{- define "tidemark.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: secrets
    projected:
      defaultMode: 0440
      sources:
        {{- range $name, $from := .secrets }}
        - secret:
            name: {{ $from.secret }}
            items:
              - key: {{ $from.key }}
                path: {{ $name }}
        {{- end }}
  {{- if .root.Values.dictionary }}
  - name: dictionary
    configMap:
      name: {{ .name }}-dictionary
  {{- end }}
  - name: tmp
    emptyDir: {}
{{- end }}
