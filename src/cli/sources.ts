// `tidemark sources`: the sources beside the one that the environment describes: which there are and how they stand, what a changed file
// would change, and the end of one.

import type { Pool } from 'pg'
import { ConfigError } from '../config/environment.ts'
import { type Environment, loadConfig } from '../config/load.ts'
import { environmentOfSource, readSourcesFile, type SourcesFile } from '../config/sources-file.ts'
import { FileError } from '../config/yaml-file.ts'
import { openUpstreams, streamsIn } from '../configured.ts'
import { type Source, sources as sourceList } from '../documents/sources.ts'
import { readAllOverrides } from '../store/book/overrides.ts'
import {
  applySources,
  hasStreams,
  OlderSourcesFile,
  pauseSource,
  readAppliedSources,
  resumeSource,
  type SourceChange,
} from '../store/book/source-config.ts'
import { dropSource } from '../store/schema/drop-source.ts'
import { overridesOf } from '../streams/settings.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { formatDuration, plural, snakeCased } from '../util/text.ts'
import {
  type Call,
  type Command,
  expectNoWords,
  findAction,
  flag,
  json,
  onlyWord,
  operator,
  option,
  textOf,
  type Values,
} from './command.ts'
import { type ExitCode, exitCodes, worst } from './exit.ts'
import { changeMirror, listFromMirror, readMirror } from './mirror.ts'
import { recordedHere } from './recorded.ts'

export const sources: Command = {
  name: 'sources',
  summary: 'several sources in one deployment: list, check, apply a changed file, pause, drop',
  usage:
    'list | check [NAME] | apply [--dry-run] | export | pause NAME [--reason TEXT] | resume NAME | drop NAME --confirm NAME [--json]',
  options: {
    'dry-run': flag('apply: only say what would change'),
    reason: option('TEXT', 'pause: why; `tidemark sources list` shows it'),
    confirm: option('NAME', 'drop: the name again, because nothing brings the rows back'),
    json,
  },
  examples: [
    'tidemark sources list',
    'tidemark sources check acme',
    'tidemark sources apply --dry-run',
    'tidemark sources drop acme --confirm acme',
  ],
  async run(call) {
    const [word = 'list', ...positionals] = call.positionals
    const act = findAction('sources', actions, word)
    expectOwnOptions(word, call.values)
    return await act({ ...call, positionals })
  },
}

const actions = { list, check, apply, export: exportFile, pause, resume, drop }

const actionOf = { 'dry-run': 'apply', reason: 'pause', confirm: 'drop' } as const

/** An option of another action would be ignored: somebody might take a drop for a dry run. */
function expectOwnOptions(word: string, values: Values): void {
  for (const [name, action] of Object.entries(actionOf))
    if (values[name] !== undefined && action !== word)
      throw new UsageError(
        `--${name} goes with \`tidemark sources ${action}\`, not with ${word}. Nothing was changed.`,
      )
}

function fileOf({ environment }: Call): SourcesFile {
  const file = environment.SOURCES_FILE?.trim()
  if (!file)
    throw new UsageError('SOURCES_FILE is not set: it names the file that says which sources there are.')
  try {
    return readSourcesFile(file, environment)
  } catch (error) {
    if (!(error instanceof FileError)) throw error
    throw new ConfigError(error.message.replaceAll(/^/gm, '  '), { cause: error })
  }
}

const one = (verb: string, { positionals }: Call): string =>
  onlyWord(
    positionals,
    `\`tidemark sources ${verb}\` takes one source, e.g. \`tidemark sources ${verb} acme\`.`,
  )

const ago = (at: Date | null): string =>
  at === null ? '' : `${formatDuration(Math.max(0, Date.now() - at.getTime()))} ago`

const about = ({ is_gone: isGone, problem, reasons, tags, changed_settings: changed }: Source): string =>
  [
    isGone ? 'gone from the file' : null,
    problem,
    ...(problem === null ? reasons.slice(0, 1) : []),
    problem === null && reasons.length > 1 ? `and ${reasons.length - 1} more` : null,
    changed > 0 ? `${plural(changed, 'setting')} changed while workers run` : null,
    tags.length > 0 ? `[${tags.join(', ')}]` : null,
  ]
    .filter((part) => part !== null)
    .join(' ')

function list(call: Call): Promise<ExitCode> {
  expectNoWords('sources list', call)
  return listFromMirror(call, sourceList, {
    asked: {},
    none: 'There is no source yet.',
    columns: [
      ['source', ({ name }) => name || '(environment)'],
      ['state', ({ state }) => state],
      ['streams', ({ streams }) => String(streams)],
      ['read', ({ read_through_at: at }) => ago(at)],
      ['deletions', ({ deletions_known_at: at }) => ago(at)],
      ['', about],
    ],
  })
}

/** Signs in to each and reads one record; nothing is written. */
async function check(call: Call): Promise<ExitCode> {
  const { sources: known } = fileOf(call)
  const [name, ...more] = call.positionals
  if (more.length > 0) throw new UsageError('`tidemark sources check` takes one source, or none for all.')
  if (name !== undefined && !known.has(name))
    throw new UsageError(`The file names no source ${name}. It names ${[...known.keys()].join(', ')}.`)
  const results = []
  const codes: ExitCode[] = []
  for (const [source, { settings }] of known) {
    if (name !== undefined && name !== source) continue
    const environment = environmentOfSource(call.environment, source, settings)
    const { problem, code } = await checkSource(call, environment)
    results.push({ source, problem })
    codes.push(code)
    if (!call.values.json) call.stdout.say(`${source}: ${problem ?? 'signs in and reads'}`)
  }
  if (call.values.json) call.stdout.json({ sources: results })
  return worst(codes)
}

/** Signs in and reads one record of the first list: two requests. `problem`: null when it answers. */
async function checkSource(
  { log, signal }: Call,
  environment: Environment,
): Promise<{ readonly problem: string | null; readonly code: ExitCode }> {
  try {
    const config = loadConfig(environment)
    const upstreams = openUpstreams({ config, log })
    try {
      const [stream] = streamsIn(config)
      if (stream) await upstreams.sourceOf(stream).list({ page: 1, pageSize: 1 }, signal)
      return { problem: null, code: exitCodes.done }
    } finally {
      upstreams.close()
    }
  } catch (error) {
    signal.throwIfAborted()
    return error instanceof ConfigError
      ? { problem: error.problems.join('; '), code: exitCodes.usage }
      : { problem: messageOf(error), code: exitCodes.upstream }
  }
}

const words: Readonly<Record<SourceChange['change'], string>> = {
  added: 'is new',
  changed: 'changes',
  gone: 'is gone from the file: its streams are paused, and its rows stay',
  back: 'is back: its streams are read again',
}

async function apply(call: Call): Promise<ExitCode> {
  expectNoWords('sources apply', call)
  const { values, stdout, log } = call
  const file = fileOf(call)
  const isDryRun = values['dry-run'] === true
  return await changeMirror(call, async (pool) => {
    const work = () =>
      applySources(pool, file, { by: operator(), isDryRun }).catch((error) => {
        if (!(error instanceof OlderSourcesFile)) throw error
        throw new UsageError(`${file.file} ${error.message}.`, { cause: error })
      })
    const told = (changes: readonly SourceChange[]) => saidOf(changes).join(' ')
    const changes = isDryRun
      ? await work()
      : await recordedHere({ pool, log }, { action: 'sources', target: file.file }, work, told)
    if (values.json) return stdout.json({ is_dry_run: isDryRun, changes: changes.map(snakeCased) })
    for (const line of saidOf(changes)) stdout.say(line)
    if (isDryRun && changes.length > 0) stdout.say('Nothing was changed yet.')
  })
}

const saidOf = (changes: readonly SourceChange[]): readonly string[] =>
  changes.length === 0
    ? ['The file says what holds already.']
    : changes.map(
        ({ name, change, what }) =>
          `${name} ${words[change]}${what.length > 0 ? `: ${what.join('; ')}` : ''}.`,
      )

/** As a file that says the same again. What was changed while workers run is a remark: it holds over any file. */
async function exportFile(call: Call): Promise<ExitCode> {
  expectNoWords('sources export', call)
  return await readMirror(call, async (pool) => {
    const applied = (await readAppliedSources(pool)).filter(({ goneAt }) => goneAt === null)
    const generation = Math.max(0, ...applied.map((source) => source.generation))
    const lower = ({ settings, tags }: (typeof applied)[number]) => ({
      ...Object.fromEntries(Object.entries(settings).map(([name, value]) => [name.toLowerCase(), value])),
      ...(tags.length > 0 && { tags }),
    })
    // YAML holds JSON: a text is quoted as it is there.
    const lines = applied.map((source) => `  ${source.name}: ${JSON.stringify(lower(source))}`)
    const overrides = await readAllOverrides(pool)
    const changed = applied.flatMap(({ name }) => {
      const own = overridesOf(overrides, name).map((one) => `${one.name}=${one.value}`)
      return own.length === 0 ? [] : [`# ${name}: ${own.join(', ')}`.replaceAll(/\s+/g, ' ')]
    })
    const remark =
      changed.length === 0 ? [] : ['# Changed while workers run, which wins over this file:', ...changed]
    call.stdout.say([...remark, `generation: ${generation}`, 'sources:', ...lines].join('\n'))
  })
}

async function pause(call: Call): Promise<ExitCode> {
  const name = one('pause', call)
  const reason = textOf(call.values, 'reason')
  return await change(call, name, 'pauseSource', reason, async (pool) => {
    if (!(await hasStreams(pool, name)))
      throw new UsageError(
        `Nothing was paused: no worker has opened ${name} yet, so it has no streams. Try again once a worker reads it, or take it out of the file of sources.`,
      )
    const count = await pauseSource(pool, name, { by: operator(), reason })
    return `${name}: ${plural(count, 'stream')} paused. Runs in progress end after the page in hand.`
  })
}

async function resume(call: Call): Promise<ExitCode> {
  const name = one('resume', call)
  return await change(call, name, 'resumeSource', null, (pool) =>
    resumeSource(pool, name).then((count) => `${name}: ${plural(count, 'stream')} read again from now on.`),
  )
}

async function drop(call: Call): Promise<ExitCode> {
  const name = one('drop', call)
  if (textOf(call.values, 'confirm') !== name)
    throw new UsageError(
      `Nothing was dropped. This removes all rows of ${name} and all that is known of it: to confirm it, write --confirm ${name}.`,
    )
  return await change(call, name, 'dropSource', null, (pool) =>
    dropSource(pool, name).then(
      ({ tables }) =>
        `${name}: ${plural(tables, 'table')} dropped, and all that was known of it is forgotten.`,
    ),
  )
}

async function change(
  call: Call,
  name: string,
  action: 'pauseSource' | 'resumeSource' | 'dropSource',
  reason: string | null,
  work: (pool: Pool) => Promise<string>,
): Promise<ExitCode> {
  return await changeMirror(call, async (pool) => {
    const known = await readAppliedSources(pool)
    if (known.every((source) => source.name !== name))
      throw new UsageError(
        `There is no source ${name}. There are ${known.map((source) => source.name).join(', ') || 'none'}.`,
      )
    const text = await recordedHere(
      { pool, log: call.log },
      { action, target: name, reason },
      () => work(pool),
      (said) => said,
    )
    if (call.values.json) call.stdout.json({ source: name, result: text })
    else call.stdout.say(text)
  })
}
