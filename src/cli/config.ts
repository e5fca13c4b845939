// `tidemark config`: every setting with its value and where it comes from, what is wrong, and what is ignored; and changing one while
// workers run.

import { ConfigError, sourceOfEnvironment } from '../config/environment.ts'
import { loadConfig } from '../config/load.ts'
import { readSettings } from '../config/settings.ts'
import { settingsJson } from '../documents/settings.ts'
import { redact } from '../log.ts'
import { baseOf, keyIn, sourceIn } from '../streams/names.ts'
import {
  layerInWords,
  type Override,
  remarkOn,
  type Setting,
  sourceInWords,
  unknownInWords,
} from '../streams/settings.ts'
import { UsageError } from '../util/errors.ts'
import { type Call, type Command, expectNoWords, flag, json, option, textOf } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { fittedTable } from './output.ts'
import { peekAtOverrides } from './peek.ts'
import { act } from './recorded.ts'

export const config: Command = {
  name: 'config',
  summary: 'show every setting and where it comes from; change one while workers run, and undo that',
  usage: '[--set] | set <NAME[ stream]=VALUE> [--reason TEXT] | unset <NAME [stream]> [--json]',
  options: {
    set: flag('only what is set'),
    reason: option('TEXT', 'set, unset: why; `tidemark actions` shows it'),
    json,
  },
  examples: [
    'tidemark config',
    'tidemark config --set',
    'tidemark config set PAGE_SIZE=500',
    'tidemark config set SCHEDULE assignment=10s --reason "the month ends"',
    'tidemark config unset SCHEDULE assignment',
    'tidemark config set SCHEDULE acme.assignment=10s',
    'tidemark config --source acme',
  ],
  async run(call) {
    const [word, ...positionals] = call.positionals
    const reason = textOf(call.values, 'reason')
    const source = sourceOfEnvironment(call.environment)
    if (word === 'set') {
      const { name, value } = assignmentIn(positionals, source)
      return await act(call, 'setSetting', name, { value, reason })
    }
    if (word === 'unset') return await act(call, 'unsetSetting', nameIn(positionals, source), { reason })
    return await show(call)
  },
}

function assignmentIn(words: readonly string[], source: string): Override {
  const text = words.join(' ')
  const at = text.indexOf('=')
  if (at < 1 || words.length > 2)
    throw new UsageError(
      '`tidemark config set` takes a name and a value, e.g. `tidemark config set PAGE_SIZE=500`, or `tidemark config set PAGE_SIZE assignment=500` for one stream.',
    )
  return { name: nameIn(text.slice(0, at).split(' '), source), value: text.slice(at + 1) }
}

/** `SCHEDULE assignment` is `SCHEDULE_ASSIGNMENT`, and `SCHEDULE acme.assignment` is `acme.SCHEDULE_ASSIGNMENT`. */
function nameIn([name, stream, ...more]: readonly string[], source: string): string {
  if (name === undefined || more.length > 0)
    throw new UsageError(
      '`tidemark config unset` takes the name of a setting, e.g. `tidemark config unset PAGE_SIZE`; `tidemark config --set` shows what is set.',
    )
  const named = [name, stream ?? ''].map(sourceIn).find((one) => one !== '') ?? source
  if (source !== '' && named !== source)
    throw new UsageError(
      `--source says ${source}, and ${stream ?? name} is of ${named}: leave out one of them.`,
    )
  const own = sourceIn(name) === '' ? name : baseOf(name)
  return keyIn(named, stream === undefined ? own : `${own}_${baseOf(stream).toUpperCase()}`)
}

/** Exit 2 when the settings cannot be used. */
async function show(call: Call): Promise<ExitCode> {
  const { environment, values, stdout, log } = call
  expectNoWords('config', call)
  const problems = problemsOf(environment)
  // Without an address of Postgres nothing can be asked.
  const { overrides, unknownBecause } = await peekAtOverrides(environment, log)
  const shown = readSettings(environment)(call.catalogue, overrides)
  const { settings: all, unknown } = shown
  const settings = values.set
    ? all.filter(({ source, override }) => source !== 'default' || override !== null)
    : all
  if (values.json)
    stdout.json({
      ...settingsJson({ ...shown, settings }),
      problems,
      overrides_unknown_because: unknownBecause,
    })
  else {
    for (const [group, some] of Map.groupBy(settings, (one) => one.group)) {
      stdout.say(`${group}\n`)
      stdout.say(`${fittedTable(['setting', 'from', 'value', 'instead of'], some.map(cells), stdout)}\n`)
    }
    const notes = [
      ...settings.flatMap((one) => (one.lacks === null ? [] : `${one.name} ${remarkOn(one)}`)),
      ...settings.flatMap(({ override, source, problem }) =>
        override !== null && source !== 'override' && problem !== null ? problem : [],
      ),
      ...unknown.map(unknownInWords),
      ...(unknownBecause === null
        ? []
        : [`What was changed while workers run is not shown: ${unknownBecause}`]),
    ]
    for (const note of notes) stdout.tell(`! ${note}`)
    if (problems.length > 0) stdout.say('The configuration cannot be used:')
    for (const problem of problems) stdout.tell(`  ${problem}`)
  }
  return problems.length === 0 ? exitCodes.done : exitCodes.usage
}

function problemsOf(environment: Call['environment']): readonly string[] {
  try {
    loadConfig(environment)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map(redact)
    throw error
  }
}

const cells = (setting: Setting): readonly string[] => [
  ...[setting.name, sourceInWords(setting), setting.value],
  setting.beneath.map(layerInWords).join(', '),
]
