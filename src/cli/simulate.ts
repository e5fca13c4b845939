// `tidemark simulate`: the stand-in upstream as a program of its own, until it is told to stop.

import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { type Behaviour, looks, readSwitch, switchOptions } from '../simulator/behaviour.ts'
import { type Fault, faultSyntax, mildMix, readFault } from '../simulator/faults.ts'
import { type FleetOptions, startFleet } from '../simulator/fleet.ts'
import { type FleetSettings, fleetSettings } from '../simulator/fleet-settings.ts'
import { type MalformedKind, malformedKinds } from '../simulator/malformed-records.ts'
import { introduction, startSimulator } from '../simulator/simulator.ts'
import { UsageError } from '../util/errors.ts'
import { asUnwritable, makeFolder } from '../util/files.ts'
import {
  type Call,
  type Command,
  expectNoWords,
  flag,
  type Option,
  oneOf,
  option,
  textOf,
  type Values,
  wholeNumber,
} from './command.ts'
import { writeDotEnv } from './dot-env.ts'
import { type ExitCode, exitCodes } from './exit.ts'

const options: Record<string, Option> = {
  port: option('N', 'port to listen on; 0 picks a free one (8090)'),
  host: option('ADDRESS', 'address to listen on (127.0.0.1)'),
  seed: option('N', 'the same seed serves the same records (1)'),
  look: option(
    looks.join('|'),
    'recorded has the fields and the behaviour of a service that was recorded; plain has others, and its own defaults for many options below (recorded)',
  ),
  assignments: option('N', 'how many assignments there are (1000)'),
  notes: option('N', 'how many assignment notes there are (2000)'),
  trackers: option('N', 'how many vehicles there are (20)'),
  objects: option('N', 'how many assignment objects there are (100)'),
  fleet: option('N', 'the upstream of N clients of different size, speed, make and fault, on several ports'),
  hosts: option('N', 'with --fleet: on how many ports (one for ten clients)'),
  'write-sources': option(
    'FOLDER',
    'with --fleet: write sources.yaml and .env there, with which `tidemark serve` mirrors all of them',
  ),
  churn: option('N', 'how many records change per second; vehicles move too (0: nothing changes)'),
  'client-guid': option('GUID', 'CLIENT_GUID of the client that has data'),
  'other-client': option('GUID', 'another client, with a tenth as many records'),
  'subject-id': option('TEXT', 'SUBJECT_ID that may sign in'),
  'api-key': option('TEXT', 'API_KEY of that subject'),
  'first-row-version': option('N', 'the first row version (1)'),
  malformed: option(
    'all|KIND,…',
    `add assignments that are malformed: ${malformedKinds.join(', ')}, invalid-utf8 (not in all)`,
  ),
  fault: option('FAULT', faultSyntax, { multiple: true }),
  faults: option('all', 'a mix of all faults, in about one request of twenty'),
  'restore-backup-after': option(
    'SECONDS',
    'after this many seconds, go back to the data of the start, like a restored backup',
  ),
  'restore-keeps-counter': flag('row versions then go on from where they were, instead of falling'),
  ...Object.fromEntries(
    switchOptions.map(({ option: name, isFlag, value, describe }) => [
      name,
      isFlag ? flag(describe) : option(value, describe),
    ]),
  ),
}

export const simulate: Command = {
  name: 'simulate',
  summary: 'run a simulated upstream, with faults on request',
  usage: '[--assignments N] [--churn N] [--fault FAULT]… [--fleet N]',
  options,
  examples: [
    'tidemark simulate --churn 20',
    'tidemark simulate --assignments 100000 --churn 50 --order unstable --page-cap 100',
    'tidemark simulate --fault 429:probability=0.05,path=neworchanged,retry-after=1',
    'tidemark simulate --malformed all --faults all --late-fraction 0.1',
    'tidemark simulate --fleet 50 --churn 20 --write-sources fleet',
  ],
  ignoresDemo: true,
  async run(call) {
    const { values, signal, stdout, log } = call
    expectNoWords('simulate', call)
    const clients = fleetSize(values)
    if (clients !== null) {
      const ofEach = { faults: faults(values), behaviour: behaviour(values) }
      return await simulateFleet(call, { clients, ...ofEach }).catch(asUsageError)
    }
    const number = (name: string, fallback: number, most: number, least = 0): number =>
      wholeNumber(values, name, { least, most }) ?? fallback
    const restoreAfterSeconds = number('restore-backup-after', 0, 1_000_000, 1)
    const otherGuid = text(values, 'other-client')
    const counts = {
      assignments: number('assignments', 1_000, 10_000_000),
      notes: number('notes', 2_000, 10_000_000),
      trackers: number('trackers', 20, 1_000_000),
      objects: number('objects', 100, 1_000_000),
    }
    await using simulator = await startSimulator({
      ...counts,
      look: oneOf(values, 'look', looks) ?? 'recorded',
      ...(otherGuid && { otherClients: [{ guid: otherGuid, ...tenth(counts) }] }),
      host: text(values, 'host') ?? '127.0.0.1',
      port: number('port', 8090, 65_535),
      seed: number('seed', 1, 2_147_483_647),
      churnPerSecond: number('churn', 0, 100_000),
      firstRowVersion: rowVersion(values),
      credentials: credentials(values),
      malformed: malformedRecords(values),
      faults: faults(values),
      behaviour: behaviour(values),
    }).catch(asUsageError)
    stdout.write(introduction(simulator))
    const backup = simulator.source.takeBackup()
    const timer = restoreAfterSeconds ? setTimeout(restore, restoreAfterSeconds * 1000) : undefined

    function restore(): void {
      const keepsCounter = values['restore-keeps-counter'] === true
      simulator.source.restoreBackup(backup, { keepsCounter })
      log.info('the data of the start is restored')
    }

    if (!signal.aborted) await once(signal, 'abort')
    clearTimeout(timer)
    return exitCodes.done
  },
}

function asUsageError(cause: unknown): never {
  throw isAboutTheAddress(cause) ? new UsageError(cause.message, { cause }) : cause
}

const isAboutTheAddress = (error: unknown): error is Error =>
  error instanceof Error && error.cause instanceof Error && 'syscall' in error.cause

function text(values: Values, name: string): string | undefined {
  const value = values[name]
  return typeof value === 'string' ? value : undefined
}

const tenth = (counts: Readonly<Record<'assignments' | 'notes' | 'trackers' | 'objects', number>>) => ({
  assignments: Math.ceil(counts.assignments / 10),
  notes: Math.ceil(counts.notes / 10),
  trackers: 0,
  objects: Math.ceil(counts.objects / 10),
})

function rowVersion(values: Values): bigint {
  const value = text(values, 'first-row-version') ?? '1'
  if (/^\d{1,19}$/.test(value) && BigInt(value) < 2n ** 62n) return BigInt(value)
  throw new UsageError(`--first-row-version must be a whole number below 2^62, not "${value}".`)
}

function credentials(values: Values) {
  const [clientGuid, subjectId, apiKey] = ['client-guid', 'subject-id', 'api-key'].map((name) => {
    const value = text(values, name)
    if (value !== undefined && value.trim() === '')
      throw new UsageError(`--${name} is empty: give it a value, or leave it out.`)
    return value
  })
  return { ...(clientGuid && { clientGuid }), ...(subjectId && { subjectId }), ...(apiKey && { apiKey }) }
}

function malformedRecords(values: Values): MalformedKind[] {
  const names = text(values, 'malformed')?.split(',') ?? []
  return names.flatMap((name) => {
    if (name === 'all') return malformedKinds
    const kind = [...malformedKinds, 'invalid-utf8' as const].find((known) => known === name)
    if (kind) return [kind]
    throw new UsageError(
      `--malformed knows no "${name}". It takes all, or some of ${malformedKinds.join(', ')}, invalid-utf8.`,
    )
  })
}

function faults(values: Values): Fault[] {
  const mix = text(values, 'faults')
  if (mix !== undefined && mix !== 'all')
    throw new UsageError(
      `--faults takes only "all", not "${mix}". For a single fault: --fault ${faultSyntax}.`,
    )
  const { fault = [] } = values
  const single = [fault].flat().map((written) => {
    const read = readFault(String(written))
    if ('wrong' in read) throw new UsageError(`--fault ${written}: ${read.wrong}.`)
    return read
  })
  return [...single, ...(mix ? mildMix : [])]
}

function behaviour(values: Values): Partial<Behaviour> {
  const settings = switchOptions.map(({ name, option }) => {
    const value = values[option]
    if (value === undefined) return {}
    const read = readSwitch(name, String(value))
    if ('wrong' in read) throw new UsageError(`--${option}: ${read.wrong}.`)
    return read
  })
  return Object.assign({}, ...settings)
}

// ── --fleet: the upstream of many clients, and the settings with which a worker mirrors all of them ──────────────

const notInFleet = [
  'look',
  'notes',
  'trackers',
  'objects',
  'client-guid',
  'other-client',
  'subject-id',
  'api-key',
  'first-row-version',
  'malformed',
  'restore-backup-after',
  'restore-keeps-counter',
]
const onlyInFleet = ['hosts', 'write-sources']
const mostClients = 1_000

/** How many clients are wanted; null: no fleet. */
function fleetSize(values: Values): number | null {
  const clients = wholeNumber(values, 'fleet', { least: 2, most: mostClients })
  const wrong = (clients === null ? onlyInFleet : notInFleet).find((name) => values[name] !== undefined)
  if (wrong !== undefined)
    throw new UsageError(
      clients === null
        ? `--${wrong} is about many clients: say how many there are with --fleet.`
        : `--${wrong} is about one client, so it cannot be combined with --fleet.`,
    )
  return clients
}

async function simulateFleet(
  { values, signal, stdout }: Call,
  given: Pick<FleetOptions, 'clients' | 'faults' | 'behaviour'>,
): Promise<ExitCode> {
  const number = (name: string, most: number, least = 0) => wholeNumber(values, name, { least, most })
  await using fleet = await startFleet({
    ...given,
    hosts: number('hosts', given.clients, 1) ?? undefined,
    host: textOf(values, 'host') ?? undefined,
    port: number('port', 65_535 - given.clients) ?? 8090,
    seed: number('seed', 2_147_000_000) ?? 1,
    assignments: number('assignments', 1_000_000, 1) ?? 1_000,
    churnPerSecond: number('churn', 100_000) ?? 0,
  })
  const folder = textOf(values, 'write-sources')
  if (folder !== null) await writeSettings(folder, fleetSettings(fleet.clients))
  const [first = ''] = fleet.origins
  stdout.write(`The stand-in upstream of ${fleet.clients.length} clients is up; Ctrl-C stops it.

  hosts                ${fleet.origins.join(' ')}
  their clients        curl -s ${first}/simulator
  one of them          curl -s ${first}/simulator/${fleet.clients[0]?.name}

${nextSteps(folder)}
`)
  if (!signal.aborted) await once(signal, 'abort')
  return exitCodes.done
}

async function writeSettings(folder: string, { environment, file }: FleetSettings): Promise<void> {
  try {
    await makeFolder(folder)
    writeFileSync(join(folder, 'sources.yaml'), stringify(file))
    writeDotEnv(join(folder, '.env'), { ...environment, SOURCES_FILE: 'sources.yaml' })
  } catch (error) {
    throw asUnwritable(error, folder)
  }
}

const nextSteps = (folder: string | null): string =>
  folder === null
    ? 'For the settings of a worker that mirrors all of them, add --write-sources FOLDER.'
    : `Settings are in ${join(folder, '.env')} and ${join(folder, 'sources.yaml')}. In other terminals:

cd ${folder} && npx tidemark serve
cd ${folder} && npx tidemark status`
