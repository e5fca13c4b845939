// `tidemark probe`: everything that has to be right before a mirror can work, a line each, then what the upstream is like.
// Writes nothing but what runs rely on and the tests show otherwise.

import { ConfigError } from '../config/environment.ts'
import { type Config, loadConfig } from '../config/load.ts'
import { configuredStreams } from '../configured.ts'
import { formatDuration, plural } from '../util/text.ts'
import { areFine, type Check, exitCodeOfCheck, good, markOfCheck, wrong } from './check.ts'
import { type Call, type Command, expectNoWords, json } from './command.ts'
import { worst } from './exit.ts'
import { wrapped } from './output.ts'
import { openStoredMirror } from './probe-beliefs.ts'
import { probePostgres, probeQueue, probeService } from './probe-checks.ts'
import { probeHost } from './probe-hosts.ts'

export const probe: Command = {
  name: 'probe',
  summary: 'check connections and permissions, and test how the upstream behaves',
  usage: '[--json]',
  options: { json },
  examples: ['tidemark probe', 'tidemark probe --json'],
  async run(call) {
    const { values, stdout } = call
    expectNoWords('probe', call)
    const checks: Check[] = []
    const startedAt = performance.now()
    for await (const check of everyCheck(call)) {
      checks.push(check)
      if (values.json) continue
      stdout.write(`${stdout.mark(markOfCheck(check))} `)
      stdout.say(checkInLines(check, stdout.columns()))
    }
    if (values.json) {
      const told = checks.map(({ name, isFine, says }) => ({ name, fine: isFine, says }))
      const beliefs = checks.flatMap(({ belief }) => belief ?? [])
      stdout.json({ fine: areFine(checks), checks: told, beliefs })
    } else stdout.say(summary(checks, performance.now() - startedAt))
    return worst(checks.map(exitCodeOfCheck))
  },
}

/** As wide as the longest name of a belief about the streams that every upstream has. */
const nameWidth = 34

/** The text of a check, behind its mark. On a narrow terminal, what the check says is below its name. */
function checkInLines({ name, says }: Check, width: number | null): string {
  if (width !== null && width < narrowBelow) return `${name}\n${wrapped(`    ${says}`, width, 4)}`
  const indent = nameWidth + 4
  return wrapped(`  ${name.padEnd(nameWidth)}  ${says}`, width, indent).slice(2)
}

const narrowBelow = 90

/** `11 passed, 1 warning, 1 failed, 1.9 s`. */
export function summary(checks: readonly Check[], tookMs: number): string {
  const marked = (mark: ReturnType<typeof markOfCheck>) =>
    checks.filter((check) => markOfCheck(check) === mark).length
  const [warnings, untold] = [marked('warning'), marked('idle')]
  return [
    `${marked('good')} passed`,
    warnings > 0 && plural(warnings, 'warning'),
    untold > 0 && `${untold} could not be told`,
    `${marked('bad')} failed`,
    formatDuration(tookMs),
  ]
    .filter(Boolean)
    .join(', ')
}

export async function* everyCheck({ environment, catalogue, log, signal }: Call): AsyncGenerator<Check> {
  let config: Config
  try {
    config = loadConfig(environment)
    yield good('configuration', 'complete')
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.problems) yield wrong('configuration', problem)
    return
  }
  yield* await probePostgres(config, log)
  yield await probeQueue(config.redisUrl, log)
  const streams = configuredStreams(config, catalogue)
  await using mirror = await openStoredMirror(config, log)
  const urls = {
    assignment: [config.authUrl, config.assignmentBaseUrl],
    tracking: config.trackingBaseUrl === null ? [] : [config.trackingAuthUrl, config.trackingBaseUrl],
  } as const
  const probed = new Map<string, boolean>()
  for (const service of ['assignment', 'tracking'] as const) {
    let isReachable = urls[service].length > 0
    for (const url of urls[service]) {
      const { origin } = new URL(url)
      if (!probed.has(origin)) {
        const checks = await probeHost(url, config.proxies)
        probed.set(origin, areFine(checks))
        yield* checks
      }
      isReachable &&= probed.get(origin) === true
    }
    if (isReachable) yield* probeService({ config, streams, mirror, log, signal }, service)
  }
}
