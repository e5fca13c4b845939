// `tidemark config`: every setting with its value and where it comes from, what is wrong, and what is ignored. Asks nobody.

import { ConfigError } from '../config/environment.ts'
import { loadConfig } from '../config/load.ts'
import { readSettings } from '../config/settings.ts'
import { redact } from '../log.ts'
import { remarkOn, type Setting, sourceInWords, unknownInWords } from '../streams/settings.ts'
import { type Call, type Command, flag, json } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { fitted, fittedTable } from './output.ts'
import { expectNoWords } from './parse.ts'

export const config: Command = {
  name: 'config',
  summary: 'show every setting, where it comes from, and names that are unknown',
  usage: '[--set] [--json]',
  options: {
    set: flag('only what is set'),
    json,
  },
  examples: ['tidemark config', 'tidemark config --set', 'tidemark config --json'],
  run,
}

/** Exit 2 when the settings cannot be used. */
async function run(call: Call): Promise<ExitCode> {
  const { environment, values, stdout } = call
  expectNoWords('config', call)
  const problems = problemsOf(environment)
  const { settings: all, unknown } = readSettings(environment)(call.catalogue)
  const settings = values.set ? all.filter(({ source }) => source !== 'default') : all
  if (values.json)
    stdout.json({ settings: settings.map(asJson), unknown: unknown.map(inSnakeCase), problems })
  else {
    for (const [group, some] of Map.groupBy(settings, (one) => one.group)) {
      stdout.say(`${group}\n`)
      stdout.say(`${fittedTable(['setting', 'from', 'value'], some.map(cells), stdout)}\n`)
    }
    const notes = [
      ...settings.flatMap(({ name, ...one }) =>
        one.lacks === null ? [] : `${name} ${remarkOn({ name, ...one })}`,
      ),
      ...unknown.map(unknownInWords),
    ]
    for (const note of notes) stdout.say(fitted(`! ${note}`, stdout))
    if (problems.length > 0) stdout.say('The configuration cannot be used:')
    for (const problem of problems) stdout.say(fitted(`  ${problem}`, stdout))
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

const cells = (setting: Setting): readonly string[] => [setting.name, sourceInWords(setting), setting.value]

const asJson = ({ name, value, source, file, isSecret, meaning, stream, problem, lacks }: Setting) => ({
  name,
  value: source === 'default' ? null : value,
  ...(source === 'default' && { default: value }),
  source,
  file,
  secret: isSecret,
  stream,
  problem,
  ignored_without: lacks,
  meaning,
})

const inSnakeCase = ({ meant, ...rest }: { readonly meant: string | null }) => ({
  ...rest,
  did_you_mean: meant,
})
