// Who is told of which problems: the receiver that the variables name, which is told everything, those of the file, with its rules, and
// those that were set up in the console. Pure, but for the file.

import {
  type AlertSettings,
  type Kinds,
  type Rule,
  shortestAfterMs,
  type Targets,
} from '../config/alert-file.ts'
import type { Way } from '../config/alert-receivers.ts'
import type { KeptAlerts, Texts } from '../config/kept-alerts.ts'
import type { Config } from '../config/load.ts'
import { environmentSource } from '../streams/names.ts'
import { formatDuration, plural } from '../util/text.ts'
import type { Receiver } from './alert-body.ts'
import { isQuiet, type Timing } from './alerts.ts'
import { isNews, type Problem, problemKinds, sourceOfProblem } from './stream-problems.ts'

/** Where it was said: in the environment, in the file that ALERTS names, in the console. */
type From = 'ALERT_WEBHOOK_URL' | 'file' | 'console'
export type NamedReceiver = Receiver & {
  readonly name: string
  readonly setting: string
  readonly from: From
}
export type NamedRule = Rule & {
  readonly from: From
  /** Those of the console have one. */
  readonly name: string | null
}
export type Alerting = Pick<AlertSettings, 'targets' | 'remarks'> & {
  readonly receivers: readonly NamedReceiver[]
  readonly rules: readonly NamedRule[]
  /** What is wrong with the file, one line each; null: nothing. */
  readonly problem: string | null
  /** What was set up in the console and cannot be used, one line each. */
  readonly unusable: readonly string[]
  /** Why no receiver can be set up in the console; null: it can. */
  readonly keepsNone: string | null
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
  const kept = config.keptAlerts.now(kinds)
  const links = { consoleUrl, runbooksUrl }
  const named = (from: 'file' | 'console', where: string | null, ways: ReadonlyMap<string, Way>) =>
    [...ways].map(([name, way]): NamedReceiver => {
      return { ...way, ...links, name, setting: `receiver ${name} of ${where}`, from }
    })
  const own = named('console', 'the console', kept.receivers)
  const { used = [], hidden = [] } = Object.groupBy(own, ({ name }) =>
    settings.receivers.has(name) ? 'hidden' : 'used',
  )
  const receivers = [...named('file', file, settings.receivers), ...used]
  const rules: NamedRule[] = [
    ...settings.rules.map((rule) => ({ ...rule, from: 'file' as const, name: null })),
    ...[...kept.rules].map(([name, rule]) => ({ ...rule, from: 'console' as const, name })),
  ]
  if (url !== null) {
    const [name, setting] = [defaultReceiver, 'ALERT_WEBHOOK_URL'] as const
    receivers.unshift({ name, setting, from: setting, url, proxies, format, ...links })
    const everything = { kinds: null, streams: null, sources: null, afterMs: shortestAfterMs }
    rules.unshift({ ...everything, to: [name], quiet, from: setting, name: null })
  }
  const unused = hidden.map(
    ({ name }) =>
      `The receiver ${name} of the console is not used, because ${file} has one of that name: remove one of them.`,
  )
  return {
    targets: targetsOf(config),
    receivers,
    rules,
    problem,
    remarks: [...settings.remarks, ...remarksOn(receivers, rules)],
    keepsNone: config.keptAlerts.keepsNone,
    unusable: [...kept.problems, ...unused],
  }
}

/** What is hardly meant in what was set up in the console; of the file its own remarks say it. */
function remarksOn(receivers: readonly NamedReceiver[], rules: readonly NamedRule[]): readonly string[] {
  const told = new Set(rules.flatMap(({ to }) => to))
  const known = new Set(receivers.map(({ name }) => name))
  const untold = receivers.filter(({ name, from }) => from === 'console' && !told.has(name))
  const names = untold.map(({ name }) => name).join(', ')
  const nothing =
    untold.length === 1 ? 'is told nothing: no rule names it' : 'are told nothing: no rule names them'
  const lost = rules
    .filter(({ from }) => from === 'console')
    .flatMap(({ name, to }) => to.filter((one) => !known.has(one)).map((one) => [name, one]))
  return [
    ...(untold.length === 0 ? [] : [`${names} ${nothing}.`]),
    ...lost.map(([rule, one]) => `The rule ${rule} names ${one}, which is no receiver now.`),
  ]
}

/** What is allowed to be set up in the console, and what is kept of it. */
export type AlertKeeping = {
  receiver: KeptAlerts['receiver']
  rule(
    name: string,
    said: Texts,
    known: { readonly receivers: readonly string[]; readonly streams: readonly string[] },
  ): ReturnType<KeptAlerts['rule']>
  /** Receivers that the console cannot change, with where they are. */
  readonly fixed: ReadonlyMap<string, string>
}

export function alertKeepingOf(config: Config): AlertKeeping {
  const { keptAlerts, alertWebhookUrl, alerts: file } = config
  const { receivers } = readAlertFile(config).settings
  return {
    receiver: keptAlerts.receiver,
    rule: (name, said, known) => keptAlerts.rule(name, said, { ...known, kinds }),
    fixed: new Map([
      ...(alertWebhookUrl === null ? [] : [[defaultReceiver, 'ALERT_WEBHOOK_URL'] as const]),
      ...[...receivers.keys()].map((name) => [name, file ?? ''] as const),
    ]),
  }
}

/** The words that a rule may have for kinds of problems, groups of them first. */
export const kindWords: readonly string[] = ['needs_you', 'news', ...problemKinds]

/** When a receiver is told of a problem: as soon as one of its rules says; null: never. */
export const timingOf =
  ({ rules }: { readonly rules: readonly Rule[] }, receiver: string, now: Date) =>
  (problem: Pick<Problem, 'stream' | 'key'> & { readonly kind: string }): Timing | null => {
    const { kind, stream } = problem
    const source = sourceOfProblem(problem)
    const own = rules.filter(
      (rule) =>
        rule.to.includes(receiver) &&
        (rule.kinds?.includes(kind) ?? true) &&
        (rule.streams === null || (stream !== null && rule.streams.includes(stream))) &&
        (!rule.sources || (source !== null && rule.sources.includes(source || environmentSource))),
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

const mostNamed = 10
const named = (all: readonly string[]): string =>
  all.length > mostNamed
    ? `${all.slice(0, mostNamed).join(', ')} and ${all.length - mostNamed} more`
    : all.join(', ')

/** `stale, failing of assignment after 15 m, not 22:00-06:30 UTC`. */
export function ruleInWords({ kinds: some, streams, sources, afterMs, quiet }: Rule): string {
  const what = some === null ? 'everything' : some.length > 4 ? plural(some.length, 'kind') : some.join(', ')
  const of = streams === null ? '' : ` of ${named(streams)}`
  const from = sources ? ` of ${sources.length > 1 ? 'the sources' : 'the source'} ${named(sources)}` : ''
  return `${what}${of}${from} after ${formatDuration(afterMs)}${quiet === null ? '' : `, not ${quietInWords(quiet)}`}`
}
