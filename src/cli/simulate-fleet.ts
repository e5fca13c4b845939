// `tidemark simulate --fleet N`: the upstream of many clients, and the settings with which a worker mirrors all of them.

import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { type FleetOptions, startFleet } from '../simulator/fleet.ts'
import { type FleetSettings, fleetSettings } from '../simulator/fleet-settings.ts'
import { UsageError } from '../util/errors.ts'
import { asUnwritable, makeFolder } from '../util/files.ts'
import { type Call, textOf, type Values, wholeNumber } from './command.ts'
import { writeDotEnv } from './dot-env.ts'
import { type ExitCode, exitCodes } from './exit.ts'

const ofOneClient = [
  'look',
  'notes',
  'trackers',
  'objects',
  'client-guid',
  'other-client',
  'subject-id',
  'api-key',
]
const notInFleet = [
  ...ofOneClient,
  'first-row-version',
  'malformed',
  'restore-backup-after',
  'restore-keeps-counter',
]
const onlyInFleet = ['hosts', 'write-sources']
const mostClients = 1_000

/** How many clients are wanted; null: no fleet. */
export function fleetSize(values: Values): number | null {
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

export async function simulateFleet(
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
