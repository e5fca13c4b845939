// `tidemark probe`: everything that has to be right before a mirror can work, a line each, then what the upstream is like.
// Reads only.

import { type Config, ConfigError, loadConfig } from '../config/load.ts'
import { configuredStreams } from '../context.ts'
import { visible } from '../util/text.ts'
import { type Call, type Command, type ExitCode, exitCodes } from './command.ts'
import { expectNoWords } from './parse.ts'
import { type Check, probeHost, probePostgres, probeQueue, probeService } from './probe-checks.ts'

export const probe: Command = {
  name: 'probe',
  summary: 'check everything a mirror needs, and find out what the upstream is like',
  usage: '[--json]',
  options: { json: { type: 'boolean', describe: 'print one JSON document' } },
  examples: ['tidemark probe', 'tidemark probe --json'],
  run,
}

async function run(call: Call): Promise<ExitCode> {
  const { values, stdout } = call
  expectNoWords('probe', call)
  const checks: Check[] = []
  for await (const check of probeAll(call)) {
    checks.push(check)
    if (!values.json) stdout.write(line(check, stdout.isTTY))
  }
  const isFine = checks.every((check) => check.isFine)
  if (values.json)
    stdout.write(
      `${JSON.stringify({ fine: isFine, checks: checks.map((check) => ({ name: check.name, fine: check.isFine, says: check.says })) }, null, 2)}\n`,
    )
  return isFine ? exitCodes.done : exitCodes.failed
}

async function* probeAll({ environment, log, signal }: Call): AsyncGenerator<Check> {
  let config: Config
  try {
    config = loadConfig(environment)
    yield { name: 'configuration', isFine: true, says: 'complete' }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const problem of error.message.split('\n'))
      yield { name: 'configuration', isFine: false, says: problem.trim() }
    return
  }
  yield* await probePostgres(config.databaseUrl, log)
  yield await probeQueue(config.redisUrl)
  const streams = configuredStreams(config)
  const services = {
    assignment: [config.authUrl, config.assignmentBaseUrl],
    tracking: trackingUrls(config),
  } as const
  const probed = new Map<string, boolean>()
  for (const service of ['assignment', 'tracking'] as const) {
    let isReachable = services[service].length > 0
    for (const url of services[service]) {
      const { origin } = new URL(url)
      if (!probed.has(origin)) {
        const checks = await probeHost(url)
        probed.set(
          origin,
          checks.every((check) => check.isFine),
        )
        yield* checks
      }
      isReachable &&= probed.get(origin) === true
    }
    if (isReachable) yield* probeService({ config, streams, log, signal }, service)
  }
}

const trackingUrls = (config: Config): readonly string[] =>
  config.trackingBaseUrl === null ? [] : [config.trackingAuthUrl, config.trackingBaseUrl]

function line({ name, isFine, says }: Check, isTerminal: boolean): string {
  const mark = isFine ? '✓' : '✗'
  const coloured = isTerminal ? `\x1b[${isFine ? 32 : 31}m${mark}\x1b[0m` : mark
  return `${coloured} ${name.padEnd(30)} ${visible(says)}\n`
}
