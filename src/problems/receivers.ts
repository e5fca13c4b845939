// Who is told of which problems: the receiver that the variables name, which is told everything, and those of the file, with its rules. Pure,
// but for the file.

import {
  type AlertSettings,
  type Kinds,
  type Rule,
  shortestAfterMs,
  type Targets,
} from '../config/alert-file.ts'
import type { Config } from '../config/load.ts'
import { environmentSource } from '../streams/names.ts'
import { formatDuration, plural } from '../util/text.ts'
import type { Receiver } from './alert-body.ts'
import { isQuiet, type Timing } from './alerts.ts'
import { isNews, type Problem, problemKinds, sourceOfProblem } from './stream-problems.ts'

export type NamedReceiver = Receiver & { readonly name: string; readonly setting: string }
export type Alerting = Pick<AlertSettings, 'rules' | 'targets' | 'remarks'> & {
  readonly receivers: readonly NamedReceiver[]
  /** What is wrong with the file, one line each; null: nothing. */
  readonly problem: string | null
}

const kinds: Kinds = {
  ...Object.fromEntries(problemKinds.map((kind) => [kind, [kind]])),
  needs_you: problemKinds.filter((kind) => !isNews(kind)),
  news: problemKinds.filter(isNews),
}

/** The receiver of ALERT_WEBHOOK_URL. */
const defaultReceiver = 'default'

const readAlertFile = ({ alertFile }: Pick<Config, 'alertFile'>) => alertFile.read(kinds)

/** What the file says, and above it what the settings of single streams say. */
export function targetsOf(config: Pick<Config, 'alertFile' | 'dynamic'>): Targets {
  const {
    TARGET_READ: read,
    TARGET_SETTLED: settled,
    TARGET_DELETIONS: deletions,
  } = config.dynamic.now().ofStreams
  const said = new Map(Object.entries(readAlertFile(config).settings.targets))
  for (const [time, own] of Object.entries({ read, settled, deletions }))
    for (const [stream, ms] of Object.entries(own)) said.set(stream, { ...said.get(stream), [time]: ms })
  return Object.fromEntries(said)
}

export function alertingOf(config: Config): Alerting {
  const { alertWebhookUrl: url, alertFormat: format, alertQuietHours: quiet, alerts: file, proxies } = config
  const { consoleUrl, runbooksUrl } = config
  const { settings, problem } = readAlertFile(config)
  const links = { consoleUrl, runbooksUrl }
  const first = {
    name: defaultReceiver,
    setting: 'ALERT_WEBHOOK_URL',
    url: url ?? '',
    proxies,
    format,
    ...links,
  }
  const named = [...settings.receivers].map(([name, way]) => ({
    ...{ ...way, ...links, name, setting: `receiver ${name} of ${file}` },
  }))
  const everything: Rule = {
    ...{ to: [defaultReceiver], kinds: null, streams: null, sources: null, quiet, afterMs: shortestAfterMs },
  }
  return {
    ...{ targets: targetsOf(config), remarks: settings.remarks, problem },
    receivers: url === null ? named : [first, ...named],
    rules: url === null ? settings.rules : [everything, ...settings.rules],
  }
}

/** When a receiver is told of a problem: as soon as one of its rules says; null: never. */
export const timingOf =
  ({ rules }: Pick<Alerting, 'rules'>, receiver: string, now: Date) =>
  (problem: Pick<Problem, 'key' | 'stream'> & { readonly kind: string }): Timing | null => {
    const { kind, stream } = problem
    const source = sourceOfProblem(problem)
    const own = rules.filter(
      (rule) =>
        rule.to.includes(receiver) &&
        (rule.kinds?.includes(kind) ?? true) &&
        (rule.streams === null || (stream !== null && rule.streams.includes(stream))) &&
        (rule.sources === null || (source !== null && rule.sources.includes(source || environmentSource))),
    )
    if (own.length === 0) return null
    const loud = own.filter(({ quiet }) => quiet === null || !isQuiet(quiet, now))
    return {
      isHeld: loud.length === 0,
      afterMs: Math.min(...(loud.length > 0 ? loud : own).map((one) => one.afterMs)),
    }
  }

/** `22:00-06:30 Europe/Oslo`, as it is written. */
function quietInWords({ from, to, timeZone }: NonNullable<Rule['quiet']>): string {
  const clock = (minutes: number) =>
    `${String(Math.floor(minutes / 60)).padStart(2, '0')}:${String(minutes % 60).padStart(2, '0')}`
  return `${clock(from)}-${clock(to)} ${timeZone}`
}

/** `stale, failing of assignment after 15 m, not 22:00-06:30 UTC`. */
export function ruleInWords({ kinds: some, streams, sources, afterMs, quiet }: Rule): string {
  const what = some === null ? 'everything' : some.length > 4 ? plural(some.length, 'kind') : some.join(', ')
  const named = (all: readonly string[]) =>
    all.length > 10 ? `${all.slice(0, 10).join(', ')} and ${all.length - 10} more` : all.join(', ')
  const of = streams === null ? (sources === null ? '' : ` of ${named(sources)}`) : ` of ${named(streams)}`
  return `${what}${of} after ${formatDuration(afterMs)}${quiet === null ? '' : `, not ${quietInWords(quiet)}`}`
}
