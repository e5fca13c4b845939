// The exchanges that were recorded with a real service of the kind that the upstream most likely is, its records, and
// a stand-in that has the same ones.

import { readFileSync } from 'node:fs'
import type { Behaviour } from '../../src/simulator/behaviour.ts'
import { recordedSchemas } from '../../src/simulator/recorded-schemas.ts'
import { type ResourceName, resourceNames } from '../../src/simulator/resources.ts'
import { type Simulator, startSimulator } from '../../src/simulator/simulator.ts'

const folder = new URL('../fixtures/recorded/', import.meta.url)
const read = (name: string) => readFileSync(new URL(name, folder), 'utf8')

export type Exchange = {
  readonly name: string
  readonly note?: string
  readonly request: {
    readonly method: string
    readonly path: string
    readonly query: string | null
    readonly headers: Readonly<Record<string, string>>
    readonly body: string | null
    readonly settings: Readonly<Record<string, string>>
  }
  readonly response: RecordedResponse
}
export type RecordedResponse = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** The first three records of a list; everything of other answers. */
  readonly body: unknown
  /** Of lists: how many records there were, their ids and their versions. */
  readonly count?: number
  readonly ids?: readonly number[]
  readonly sysRowVersions?: readonly number[]
  /** How the answer began, as text. */
  readonly rawStart?: string
}

export const exchanges: readonly Exchange[] = JSON.parse(read('exchanges.json'))
/** By the name of an exchange: what the stand-in does not answer as the service did, and why. */
export const differing: Readonly<Record<string, string>> = {}

export const recordedOpenApi = (): Record<string, unknown> => JSON.parse(read('openapi-v1.json'))

export const clientGuid = '6f1c1d52-3a0b-4f0e-9a53-0b7c9d1e2a11'
const otherGuid = 'c2a7e9b4-58d1-4c36-8b7f-7d20f4a69e02'
export const credentials = { clientGuid, subjectId: 'integration@nordvik.example', apiKey: 'the key' }

type RecordLine = {
  readonly client: string
  readonly resource: string
  readonly record: Readonly<Record<string, unknown>>
}

/** The stand-in with the records of the recorded service: same ids, same row versions, in the same order. */
export async function startRecorded(behaviour: Partial<Behaviour> = {}): Promise<Simulator> {
  const simulator = await startSimulator({
    look: 'recorded',
    behaviour,
    credentials,
    otherClients: [{ guid: otherGuid }],
    hasGeneratedRecords: false,
  })
  const lines = recordLines()
  for (const { client, resource, record } of lines) {
    const name = resourceNames.find((known) => known === resource)
    if (name) insert(simulator, client, name, record)
  }
  for (const { client, resource, record } of lines)
    if (resource === 'participants')
      simulator
        .sourceOf(client)
        .setParticipants(Number(record.assignmentId), record.employeeIds as readonly number[])
  return simulator
}

function recordLines(): RecordLine[] {
  const lines = read('records.jsonl').trim().split('\n')
  return lines.map((line) => JSON.parse(line, keepDigits) as RecordLine)
}

/** `3.0000` stays what it is. */
const keepDigits = (_name: string, value: unknown, context?: { readonly source?: string }): unknown =>
  typeof value === 'number' && context?.source && String(value) !== context.source
    ? JSON.rawJSON(context.source)
    : value

function insert(
  simulator: Simulator,
  client: string,
  resource: ResourceName,
  record: RecordLine['record'],
): void {
  const served = new Map(Object.entries(record).map(([name, value]) => [name.toLowerCase(), value]))
  const { fields } = recordedSchemas[resource]
  const own = Object.fromEntries(fields.map(({ name }) => [name, served.get(name.toLowerCase())]))
  const id = Number(Object.values(record)[0])
  const version = served.get('sysrowversion')
  // Vehicles have no version: they must not take one from the others.
  simulator.sourceOf(client).insert(resource, own, { id, version: BigInt(Number(version ?? 1)) })
}
