// docs/reference/metrics.md, from the metrics that a worker registers.

import { kinds } from '../../src/streams/catalog.ts'
import { causes } from '../../src/sync/ports/audits.ts'
import { addStateGauges, openMetrics, outcomes } from '../../src/web/metrics.ts'
import { code, generatedBy, sentence, table } from './markdown.ts'

type Metric = {
  readonly name: string
  readonly kind: string
  readonly help: string
  readonly labels: readonly string[]
}

export function metricsPage(): string {
  const known = exportedMetrics().filter(({ name }) => !/^tidemark_(process|nodejs)_/.test(name))
  const ofKind = (...kinds: readonly string[]) => known.filter(({ kind }) => kinds.includes(kind)).map(row)
  return [
    generatedBy('src/web/metrics.ts'),
    `# Metrics

\`GET /metrics\` on the worker's port, for Prometheus. [Monitor](../guides/monitor.md#prometheus-and-grafana) lists the dashboards and alert
rules that use them. The metrics \`tidemark_process_…\` and \`tidemark_nodejs_…\` of the process itself are not listed here.

## Gauges: the current state

Those with the label \`stream\` come from Postgres and are the same in every worker: take the maximum.

${table(['name', 'what it is'], ofKind('Gauge'))}`,
    `## Counters and histograms: what this worker did

They start at 0 with the worker: sum \`rate(…)\` or \`increase(…)\` over the workers.

${table(['name', 'what it is'], ofKind('Counter', 'Histogram'))}`,
    `## Labels

${table(['label', 'values'], labels)}`,
  ].join('\n')
}

const list = (names: readonly string[]): string => names.map(code).join(', ')

const labels = [
  [
    code('stream'),
    'the name of the stream, with that of its source before it where it has one (`acme.assignment`); `related` for all related records in counters',
  ],
  ['`kind` of runs', list(kinds)],
  ['`kind` of problems', '[all kinds](problems.md)'],
  ['`status` of runs', list(['done', 'failed', 'inconclusive', 'stopped', 'skipped'])],
  ['`status` of requests', 'the HTTP status, or `none` when there was no answer'],
  [
    '`outcome` of rows',
    `${list(outcomes)}; a rescued row is stored, and a value that does not fit is kept beside`,
  ],
  ['`outcome` of sign-ins', list(['new_token', 'same_token', 'failed'])],
  ['`reason` of retries', '[error codes](../guides/call-the-upstream.md#when-it-fails)'],
  ['`reason` of waits', list(['budget', 'retry-after'])],
  [code('cause'), list(causes)],
  [
    code('reading'),
    `${code('first load')}, ${code('reading again')} while all is read once more, or the kind of the run`,
  ],
  [code('bound'), list(['least', 'most'])],
  [code('announced'), 'whether a webhook asked for the run'],
  [code('belief'), `[all beliefs](../how-it-works/beliefs.md#all-of-them)`],
  [
    code('service'),
    `${list(['assignment', 'tracking'])}; of a source with a name ${code('acme.assignment')}`,
  ],
  [code('part'), list(['database', 'queue', 'assignment', 'tracking', 'alerts'])],
  [code('state'), list(['waiting', 'active', 'delayed'])],
]

const row = ({ name, kind, help, labels }: Metric): readonly string[] => [
  code(`${name}${labels.length > 0 ? `{${labels.join(',')}}` : ''}`),
  `${kind === 'Histogram' ? 'Histogram. ' : ''}${sentence(help)}`,
]

/** All that a worker exports, which has no state yet. */
export function exportedMetrics(): readonly Metric[] {
  const { registry } = openMetrics()
  addStateGauges(registry, {
    overview: async () => null,
    beliefs: async () => null,
    problems: async () => null,
    progress: async () => null,
    queueCounts: async () => null,
    parts: () => [],
  })
  return registry.getMetricsAsArray().map((metric) => ({
    name: metric.name,
    help: metric.help,
    kind: registry.getSingleMetric(metric.name)?.constructor.name ?? '',
    labels: 'labelNames' in metric && Array.isArray(metric.labelNames) ? metric.labelNames.map(String) : [],
  }))
}
