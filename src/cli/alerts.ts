// `tidemark alerts`: who is told of which problems, a message to see that it arrives, what is muted or acknowledged, and the rules for
// Prometheus that follow from the targets.

import { readSecretPlace } from '../config/alert-file.ts'
import { loadConfig } from '../config/load.ts'
import { alertsJson } from '../documents/settings.ts'
import { allReceivers, noReceiver } from '../operator/actions.ts'
import { formOf } from '../problems/alert-body.ts'
import { silencesOf } from '../problems/alerts.ts'
import { sendTests } from '../problems/deliver.ts'
import { type Alerting, alertingOf, ruleInWords } from '../problems/receivers.ts'
import { measured, targetRules } from '../problems/targets.ts'
import { readOverridesAndAsked } from '../store/book/overrides.ts'
import { readSilences, type Silence } from '../store/book/silences.ts'
import { overridesOf } from '../streams/settings.ts'
import { UsageError } from '../util/errors.ts'
import { utcMinute } from '../util/text.ts'
import {
  type Call,
  type Command,
  expectNoWords,
  json,
  onlyWord,
  option,
  runAction,
  textsOf,
} from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { readMirror } from './mirror.ts'
import { fittedTable } from './output.ts'
import { peekAtKept } from './peek.ts'
import { act, actThere } from './recorded.ts'
import { openGathering } from './status.ts'

export const alerts: Command = {
  name: 'alerts',
  summary:
    'show who is told of problems, set up receivers and rules, send a test message, mute alerts, acknowledge a problem',
  usage:
    'list | test [receiver] | receiver <name> [--webhook PLACE] [--format FORM] [--key PLACE] [--smtp SERVER] [--password PLACE] [--from ADDRESS] [--to ADDRESSES] | rule <name> --to RECEIVERS [--kinds KINDS] [--streams STREAMS] [--sources SOURCES] [--after TIME] [--quiet HOURS] | remove <receiver:name|rule:name> | undo <receiver:name|rule:name> | mute <problem|kind|stream|all> (--for TIME | --until TIME) --reason TEXT | unmute <what> | ack <problem> --reason TEXT | rules [--json]',
  options: {
    for: option('TIME', 'mute: for how long, such as 2h; at most 30d'),
    until: option('TIME', 'mute: when it ends, such as 2026-03-02T18:00Z'),
    reason: option('TEXT', 'why; of mute and ack it is shown with the problem'),
    webhook: option('PLACE', 'receiver: where its address stands, env:NAME or file:PATH'),
    format: option('FORM', 'receiver: slack, teams, pagerduty or json; left out: the address decides'),
    key: option('PLACE', 'receiver, for pagerduty: where the integration key stands'),
    smtp: option('SERVER', 'receiver: the mail server, such as smtp://tidemark@mail.example'),
    password: option(
      'PLACE',
      'receiver: where the password of the mail server stands; left out: the one that is kept',
    ),
    from: option('ADDRESS', 'receiver: the address of mail that sends'),
    to: option('NAMES', 'receiver: addresses of mail; rule: receivers; comma-separated'),
    kinds: option('KINDS', 'rule: kinds of problems, needs_you or news; left out: all'),
    streams: option('STREAMS', 'rule: only problems of these'),
    sources: option('SOURCES', 'rule: only problems of these'),
    after: option('TIME', 'rule: how long a problem lasts before it is told, such as 15m'),
    quiet: option('HOURS', 'rule: when nothing is told, such as "22:00-06:30 Europe/Oslo"'),
    json,
  },
  examples: [
    'tidemark alerts list',
    'tidemark alerts test',
    'tidemark alerts receiver chat --webhook file:chat-address',
    'tidemark alerts rule night --to chat --kinds needs_you --after 15m',
    'tidemark alerts undo rule:night',
    'tidemark alerts mute assignment --for 2h --reason "the upstream is being upgraded"',
    'tidemark alerts ack stale:assignment --reason "ticket 4711"',
  ],
  run: runAction('alerts', {
    list,
    test,
    mute: (call) => act(call, 'muteAlerts', target('mute', call), textsOf(call, ['for', 'until', 'reason'])),
    unmute: (call) => act(call, 'unmuteAlerts', target('unmute', call)),
    receiver: setReceiver,
    rule: (call) => act(call, 'setRule', target('rule', call), textsOf(call, ruleOptions)),
    remove: (call) => act(call, 'removeAlerting', target('remove', call), textsOf(call, ['reason'])),
    undo: (call) => act(call, 'undoAlerting', target('undo', call), textsOf(call, ['reason'])),
    ack: (call) => act(call, 'acknowledgeProblem', target('ack', call), textsOf(call, ['reason'])),
    rules,
  }),
}

const ruleOptions = ['to', 'kinds', 'streams', 'sources', 'after', 'quiet', 'reason'] as const
const receiverOptions = ['format', 'smtp', 'from', 'to', 'reason'] as const
const secretOptions = ['webhook', 'key', 'password'] as const

/** A secret stands in no command, which others of this machine could see. */
async function setReceiver(call: Call): Promise<ExitCode> {
  const name = target('receiver', call)
  const secrets = Object.entries(textsOf(call, secretOptions)).map(([option, place]) => [
    option,
    place === null ? null : readSecretPlace(call.environment, `--${option}`, place),
  ])
  return await act(call, 'setReceiver', name, {
    ...textsOf(call, receiverOptions),
    ...Object.fromEntries(secrets),
  })
}

const words: Readonly<Record<string, string>> = {
  mute: 'what `tidemark alerts list` shows, a kind of problem, a stream, or all',
  receiver: 'the name of the receiver',
  rule: 'the name of the rule',
  remove: 'receiver:NAME or rule:NAME',
  undo: 'receiver:NAME or rule:NAME',
}
const target = (verb: string, { positionals }: Call): string =>
  onlyWord(
    positionals,
    `\`tidemark alerts ${verb}\` takes one word: ${words[verb] ?? 'what `tidemark alerts list` shows'}.`,
  )

type Kept = Pick<Awaited<ReturnType<typeof readOverridesAndAsked>>, 'overrides' | 'alerts'>

/** A file with mistakes is told here at once. */
function settings({ environment }: Call, { overrides, alerts: kept }: Kept): Alerting {
  const config = loadConfig(environment)
  config.dynamic.takeUp(overridesOf(overrides, config.source))
  config.keptAlerts.takeUp(kept)
  const alerting = alertingOf(config)
  if (alerting.problem !== null) throw new UsageError(alerting.problem)
  return alerting
}

async function test(call: Call): Promise<ExitCode> {
  const { positionals, values, signal, stdout, stderr } = call
  const there =
    positionals.length > 1 ? null : await actThere(call, 'testAlert', positionals[0] ?? allReceivers)
  if (there !== null) return there
  const { receivers } = settings(call, await peekAtKept(call.environment, call.log))
  if (receivers.length === 0) throw new UsageError(noReceiver)
  const [name, ...more] = positionals
  const wanted = receivers.filter((one) => name === undefined || one.name === name)
  if (wanted.length === 0 || more.length > 0)
    throw new UsageError(
      `\`tidemark alerts test\` takes one receiver, or none for all: ${receivers.map((one) => one.name).join(', ')}.`,
    )
  const tested = await sendTests(wanted, signal)
  const failed = tested.filter(({ failure }) => failure !== null)
  const [first] = wanted
  if (values.json)
    stdout.json({
      sent: failed.length === 0,
      format: first && formOf(first),
      receivers: tested.map(({ receiver, text, failure }) => ({ receiver, sent: failure === null, text })),
    })
  else for (const { text, failure } of tested) (failure === null ? stdout : stderr).tell(text)
  return failed.length === 0 ? exitCodes.done : exitCodes.failed
}

async function list(call: Call): Promise<ExitCode> {
  expectNoWords('alerts list', call)
  const { stdout, values } = call
  const gather = openGathering({ ...call, positionals: [] })
  return await readMirror(call, async (pool) => {
    const [{ problems }, silences] = [await gather(pool), await readSilences(pool)]
    const alerting = settings(call, await readOverridesAndAsked(pool))
    const { receivers, rules: all, remarks, unusable } = alerting
    if (values.json) return stdout.json(alertsJson(alerting, problems, silences))
    const told = receivers.flatMap((receiver) =>
      all
        .filter(({ to }) => to.includes(receiver.name))
        .map((rule) => [receiver.name, formOf(receiver), ruleInWords(rule), placeOf(rule)]),
    )
    const lines = (title: string, header: readonly string[], rows: readonly (readonly string[])[]) =>
      rows.length === 0 ? [] : [`${title}\n${fittedTable(header, rows, stdout)}`]
    stdout.say(
      [
        ...(told.length === 0
          ? [noReceiver]
          : lines('Who is told', ['RECEIVER', 'FORM', 'OF WHAT', 'RULE'], told)),
        ...unusable,
        ...remarks,
        ...lines('Muted or acknowledged', ['WHAT', 'UNTIL', 'BY', 'WHY'], silences.map(silenceRow)),
        ...lines(
          'Problems',
          ['PROBLEM', 'ALERTS', 'WHAT'],
          problems.map((one) => [one.key, alertsOf(silencesOf(one, silences)), one.what]),
        ),
      ].join('\n\n'),
    )
  })
}

const placeOf = ({ name, from }: Alerting['rules'][number]): string =>
  from === 'console' ? (name ?? '') : from === 'file' ? 'in the file' : from

const silenceRow = ({ target: what, until, by, reason }: Silence): readonly string[] => [
  ...[what, until === null ? 'it is over or worse' : utcMinute(until), by, reason],
]
const alertsOf = ([first]: readonly Silence[]): string =>
  first === undefined ? 'are sent' : first.until === null ? 'acknowledged' : 'muted'

async function rules(call: Call): Promise<ExitCode> {
  expectNoWords('alerts rules', call)
  const { targets } = settings(call, await peekAtKept(call.environment, call.log))
  if (Object.keys(targets).length === 0)
    throw new UsageError(
      'No targets are set. Set TARGET_READ_ASSIGNMENT and the like, or ALERTS to a file with targets for some streams.',
    )
  // JSON is YAML: Prometheus reads it as a file of rules.
  call.stdout.json(targetRules(measured(targets, call.catalogue)))
  return exitCodes.done
}
