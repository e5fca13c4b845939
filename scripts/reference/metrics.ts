// docs/reference/metrics.md, from the metrics that a worker registers.

import { addStateGauges, openMetrics } from '../../src/web/metrics.ts'
import { code, generatedBy, sentence, table } from './markdown.ts'

type Metric = {
  readonly name: string
  readonly kind: string
  readonly help: string
  readonly labels: readonly string[]
}

export function metricsPage(): string {
  const known = metrics().filter(({ name }) => !/^tidemark_(process|nodejs)_/.test(name))
  const ofKind = (...kinds: readonly string[]) => known.filter(({ kind }) => kinds.includes(kind)).map(row)
  return [
    generatedBy('src/web/metrics.ts'),
    `# Metrics

\`GET /metrics\` on the port of the worker, for Prometheus. [Monitor](../guides/monitor.md#prometheus-and-grafana) tells of the dashboards and alert
rules that use them. \`tidemark_process_…\` and \`tidemark_nodejs_…\` are about the process and left out here.

## Gauges: how things are

Those with the label \`stream\` come from Postgres and are the same in every worker: take the maximum.

${table(['name', 'what it is'], ofKind('Gauge'))}`,
    `## Counters and histograms: what this worker did

They begin with 0 when the worker starts: sum \`rate(…)\` or \`increase(…)\` over the workers.

${table(['name', 'what it is'], ofKind('Counter', 'Histogram'))}`,
  ].join('\n')
}

const row = ({ name, kind, help, labels }: Metric): readonly string[] => [
  code(`${name}${labels.length > 0 ? `{${labels.join(',')}}` : ''}`),
  `${kind === 'Histogram' ? 'Histogram. ' : ''}${sentence(help)}`,
]

function metrics(): readonly Metric[] {
  const { registry } = openMetrics()
  addStateGauges(registry, {
    overview: async () => null,
    problems: async () => null,
    queueCounts: async () => null,
    parts: () => ({}),
  })
  return registry.getMetricsAsArray().map((metric) => ({
    name: metric.name,
    help: metric.help,
    kind: registry.getSingleMetric(metric.name)?.constructor.name ?? '',
    labels: 'labelNames' in metric && Array.isArray(metric.labelNames) ? metric.labelNames.map(String) : [],
  }))
}
