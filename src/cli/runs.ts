// `tidemark runs`: what was read when, and with what result; `show` tells of one run what it did.

import { run as oneRun, type RunLine, type RunStory, runs as runsDocument } from '../documents/runs.ts'
import { runOutcomes } from '../store/book/runs.ts'
import { kinds } from '../streams/catalog.ts'
import { UsageError } from '../util/errors.ts'
import { count, formatDuration, nearest, plural } from '../util/text.ts'
import { type Call, type Command, findAction, json, oneOf, option, wholeNumber } from './command.ts'
import type { ExitCode } from './exit.ts'
import { listFromMirror, showFromMirror } from './mirror.ts'
import { utcSecond, wrapped } from './output.ts'

export const runs: Command = {
  name: 'runs',
  summary: 'list the runs, newest first; show what one of them did',
  usage: '[list [stream] [--kind KIND] [--outcome OUTCOME] [--limit N] | show ID] [--json]',
  options: {
    kind: option('KIND', `only these: ${kinds.join(', ')}`),
    outcome: option('OUTCOME', `only these: ${runOutcomes.join(', ')} (changed: whatever wrote a row)`),
    limit: option('N', 'list: at most this many (20)'),
    json,
  },
  examples: ['tidemark runs', 'tidemark runs list assignment --outcome failed', 'tidemark runs show 4711'],
  run(call) {
    const [first, ...rest] = call.positionals
    // `list` may be left out before a stream.
    const isWord = first === undefined || words.includes(first)
    const [word, [target, ...more]] = isWord ? [first ?? 'list', rest] : ['list', [first, ...rest]]
    if (more.length > 0 && !isWord && nearest(first, words).length > 0)
      findAction('runs', Object.fromEntries(words.map((one) => [one, one])), first)
    if (more.length > 0)
      throw new UsageError(
        '`tidemark runs` takes one stream, or none for all; `tidemark runs show` takes one id.',
      )
    return word === 'show' ? show(call, target) : list(call, target)
  },
}

const words: readonly string[] = ['list', 'show']

function list(call: Call, name: string | undefined): Promise<ExitCode> {
  const limit = wholeNumber(call.values, 'limit', { least: 1 }) ?? 20
  const kind = oneOf(call.values, 'kind', kinds) ?? undefined
  const outcome = oneOf(call.values, 'outcome', runOutcomes) ?? undefined
  return listFromMirror(call, runsDocument, {
    asked: { stream: name, kind, outcome, limit },
    none: 'No such run is recorded. Runs are kept for 90 days.',
    columns,
  })
}

const some = (amount: number): string => (amount === 0 ? '' : count(amount))

const columns: readonly (readonly [title: string, cell: (line: RunLine) => string])[] = [
  ['ID', ({ id }) => id],
  ['STREAM', ({ stream }) => stream],
  ['KIND', ({ kind }) => kind],
  ['OUTCOME', ({ status, polls }) => (polls > 1 ? `${status}, ${count(polls)} runs` : status)],
  ['BEGAN', ({ started_at }) => utcSecond(started_at)],
  ['TOOK', took],
  ['NEW', ({ inserted }) => some(inserted)],
  ['CHANGED', ({ updated }) => some(updated)],
  ['DELETED', ({ marked_deleted }) => some(marked_deleted)],
  ['REQUESTS', ({ requests }) => some(requests)],
  ['NOTE', ({ error, note }) => [error, note].filter((part) => part !== null).join(' ')],
]

function took({ started_at: began, finished_at: ended, polls }: RunLine): string {
  return ended === null || polls > 1 ? '' : formatDuration(ended.getTime() - began.getTime())
}

async function show(call: Call, id: string | undefined): Promise<ExitCode> {
  const { stdout } = call
  if (id === undefined || !/^\d{1,18}$/.test(id))
    throw new UsageError('`tidemark runs show` takes the id of a run, which `tidemark runs` lists.')
  return await showFromMirror(call, oneRun, { id }, (run) => stdout.say(asText(run, stdout.columns())))
}

/** What it did, and what it came upon. */
function asText(run: RunStory, width: number | null): string {
  const log = run.log.map(({ at, text }) => wrapped(`  ${clock(at)}  ${text}`, width, 16))
  const shared = `${count(run.polls)} runs that found nothing share this line: ${clock(run.started_at)} to ${run.finished_at === null ? 'now' : clock(run.finished_at)}`
  const causes = Object.entries(run.causes ?? {}).map(([cause, rows]) => `${count(rows)} ${cause}`)
  return [
    `run ${run.id}: ${run.kind} of ${run.stream}, ${run.status}, ${run.started_at.toISOString().slice(0, 10)} on ${run.host} (${run.pid})`,
    '',
    ...(log.length > 0 ? log : [`  ${shared}`]),
    ...(causes.length > 0 ? ['', `  Differences: ${causes.join(', ')}.`] : []),
    ...run.differences.map(
      ({ key, cause, fields }) => `    ${key}  ${cause}  ${fields.slice(0, 6).join(', ')}`,
    ),
    ...run.late_arrivals.map((one) => `  Late commit: ${one.key}, ${formatDuration(one.late_ms)} late.`),
    '',
    `  ${plural(run.requests, 'request')}. Times are UTC.`,
  ].join('\n')
}

const clock = (at: Date): string => at.toISOString().slice(11, 23)
