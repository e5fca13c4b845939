// Looks for the descriptions that the services of the upstream give of themselves, keeps them, and makes tables by them. A description is
// only a belief: without one everything works as well, and nothing that goes wrong here keeps a stream from being read.

import type { Pool } from 'pg'
import type { UpstreamConfig } from '../config/load.ts'
import type { DescriptionPlace } from '../config/parsers.ts'
import type { Logger } from '../log.ts'
import { readBeliefs, readSchemaMap } from '../store/book/dictionary.ts'
import { confirmedReferences } from '../store/book/references.ts'
import { learn } from '../store/runs/run-findings.ts'
import { sourceSql } from '../store/schema/places.ts'
import type { Database } from '../store/server/connect.ts'
import { withConnection } from '../store/server/session.ts'
import { isConfirmed } from '../streams/beliefs.ts'
import {
  type Catalogue,
  type FieldKinds,
  type MirroredStream,
  relatedIn,
  type ServiceName,
} from '../streams/catalog.ts'
import { foldField, landedKind, nothingSaid, type StreamMeaning } from '../streams/dictionary.ts'
import { keyIn, sourceIn } from '../streams/names.ts'
import type { Upstream } from '../upstream/client.ts'
import { messageOf } from '../util/errors.ts'
import { plural } from '../util/text.ts'
import { describedStreams } from './described-streams.ts'
import type { Description, RecordType } from './description.ts'
import { readFieldsBeside, verdictOn } from './differences.ts'
import { findDescription } from './find-description.ts'
import { makeTable, noteReferences } from './make-tables.ts'
import {
  forgetDescriptionProblem,
  keepDescription,
  readUnusableDescriptions,
  type StoredDescription,
  storedDescriptions,
  wasCheckedWithin,
} from './stored.ts'

type Needs = {
  readonly pool: Database['pool']
  readonly config: Pick<UpstreamConfig, 'source' | 'contract' | 'dictionary'>
  /** Null: that service is not configured. */
  readonly upstreams: Readonly<Record<ServiceName, Upstream | null>>
  readonly catalogue: Catalogue
  /** The streams whose tables are made. */
  readonly mirrored: readonly MirroredStream[]
  readonly log: Logger
}
export type Descriptions = Awaited<ReturnType<typeof openDescriptions>>
type Asking = { readonly olderThanMs: number; readonly signal: AbortSignal }

/** Where to look for the description of a service. Undefined: CONTRACT names that of the other service. Null: none is looked for. */
export const descriptionPlaceOf = (
  { contract }: Pick<UpstreamConfig, 'contract'>,
  service: ServiceName,
): DescriptionPlace | null | undefined =>
  service === 'assignment' || contract === null || contract.kind === 'usual' ? contract : undefined

/** The record type of each stream, also of one that is not configured. A stream that the settings add goes before related records of its name. */
export const typesIn = (
  descriptions: Parameters<typeof describedStreams>[0],
  catalogue: Catalogue,
): ReadonlyMap<string, RecordType> =>
  describedStreams(descriptions, [...relatedIn(sourceIn(catalogue[0]?.name ?? '')), ...catalogue])

export async function openDescriptions(needs: Needs) {
  const { pool, config, catalogue, mirrored, log } = needs
  let known = new Map<string, FieldKinds>()
  const learn = (types: ReadonlyMap<string, RecordType>) => {
    known = new Map([...types].map(([name, type]) => [name, kindsIn(type)]))
  }
  if (config.contract !== null) learn(typesIn(await storedDescriptions(pool, config), catalogue))
  let isWhole = false
  const refresh = async (options: Asking): Promise<readonly string[]> => {
    isWhole = false
    const answered = [
      await lookAt(needs, 'assignment', options),
      await lookAt(needs, 'tracking', options),
    ].every(Boolean)
    if (config.contract === null) {
      await forgetDescriptionBeliefs(pool, config.source)
      isWhole = true
      return []
    }
    const stored = await storedDescriptions(pool, config)
    const types = typesIn(stored, catalogue)
    const { made, failed } = await makeTables(needs, types)
    learn(types)
    await believeDescriptions(pool, stored, types, mirrored)
    isWhole = answered && failed === 0
    return made
  }
  return {
    /** Notes which columns refer to which views, by names and by the dictionary, where the rows confirm it. */
    noteReferences: () => noteConfirmed(needs),
    /** Whether the last refresh made everything as the services say, or as they said when they were asked last. */
    isWhole: () => isWhole,
    /** Undefined where nothing describes them. */
    kindsOf(stream: string): FieldKinds | undefined {
      const kinds = known.get(stream)
      const fields = config.dictionary.now().get(stream)?.fields
      if (!kinds || !fields) return kinds
      return Object.fromEntries(
        Object.entries(kinds).flatMap(([name, described]) => {
          const kind = landedKind(fields.get(foldField(name)), described.kind)
          return kind === undefined ? [] : [[name, { kind }] as const]
        }),
      )
    },
    /**
     * Asks the services whose description was not looked for within that time, and makes the tables as they say. Returns the streams
     * whose tables are made so.
     */
    refresh: (options: Asking) =>
      refresh(options).catch((error) => {
        if (options.signal.aborted) throw error
        log.warn(
          { err: error },
          'What the upstream says about itself could not be used. Its data are read all the same.',
        )
        return []
      }),
  }
}

const kindsIn = ({ fields }: RecordType): FieldKinds =>
  Object.fromEntries(
    fields.flatMap(({ name, kind, texts }) =>
      kind === null ? [] : [[name, { kind, ...(texts && { texts }) }] as const],
    ),
  )

/** As its records land here: without what is left out, and with the types of masked values (P20). */
const landedType = (type: RecordType, meanings: StreamMeaning['fields'] = new Map()): RecordType => ({
  ...type,
  fields: type.fields.flatMap((field) => {
    const kind = landedKind(meanings.get(foldField(field.name)), field.kind)
    return kind === undefined ? [] : [{ ...field, kind }]
  }),
})

/** False: it did not answer. */
async function lookAt(
  { pool, config, upstreams, catalogue, log }: Needs,
  service: ServiceName,
  { olderThanMs, signal }: Asking,
): Promise<boolean> {
  const place = descriptionPlaceOf(config, service)
  const upstream = upstreams[service]
  const named = keyIn(config.source, service)
  if (!place || (upstream === null && place.kind !== 'file')) {
    await forgetDescriptionProblem(pool, named)
    return true
  }
  if (olderThanMs > 0 && (await wasCheckedWithin(pool, named, olderThanMs))) return true
  const finding = await findDescription(place, upstream, signal)
  signal.throwIfAborted()
  if (finding.found === 'no answer') {
    const asked = 'The upstream was asked how it describes itself, and did not answer.'
    log.info({ service, why: finding.why }, asked)
    return false
  }
  const found =
    finding.found === 'description' && isOf(service, finding.description, catalogue) ? finding : null
  const problem = finding.found === 'unusable' ? `${finding.at} cannot be used: ${finding.why}` : null
  const changes = await keepDescription(
    pool,
    named,
    { found, problem },
    streamOfType(service, found, catalogue),
  )
  if (finding.found === 'unusable')
    log.warn({ service, at: finding.at, why: finding.why }, 'The description of the upstream cannot be used.')
  if (found !== null)
    log.info(
      { service, at: found.at, operations: found.description.operations.length },
      changes.length > 0
        ? `The upstream describes itself otherwise than before: ${plural(changes.length, 'change')}.`
        : 'The upstream describes itself.',
    )
  return true
}

/** Two services of one host may show the same description: it is that of the one whose records it names. */
function isOf(service: ServiceName, description: Description, catalogue: Catalogue): boolean {
  const own = catalogue.filter((stream) => stream.service === service)
  return service === 'assignment' || describedStreams([{ service, description }], own).size > 0
}

/** The stream whose records are of a type. Attachments and their data have the same: it counts as that of attachments. */
function streamOfType(
  service: ServiceName,
  found: { readonly description: Description } | null,
  catalogue: Catalogue,
): (type: string) => string | null {
  const types = typesIn(found ? [{ service, description: found.description }] : [], catalogue)
  const streamOf = new Map([...types].toReversed().map(([stream, { name }]) => [name, stream]))
  return (type) => streamOf.get(type) ?? null
}

/** Makes the tables as the stored descriptions say. Returns the streams for which that worked, and for how many it did not. */
async function makeTables(
  needs: Needs,
  types: ReadonlyMap<string, RecordType>,
): Promise<{ readonly made: readonly string[]; readonly failed: number }> {
  const { pool, config, mirrored, log } = needs
  const wanted = mirrored.flatMap((stream) => {
    const meaning = config.dictionary.now().get(stream.name) ?? nothingSaid
    const described = types.get(stream.name)
    const type = described && landedType(described, meaning.fields)
    return type
      ? [{ stream: { ...stream, meaning, fieldKinds: kindsIn(type) }, type, keyField: meaning.key }]
      : []
  })
  if (wanted.length > 0) await noteConfirmed(needs)
  const made: string[] = []
  for (const one of wanted)
    try {
      await withConnection(pool, (client) => makeTable(client, one, log))
      made.push(one.stream.name)
    } catch (error) {
      // Somebody reads the table, or a view of theirs is in the way. That does not keep rows from coming.
      log.warn(
        { stream: one.stream.name, why: messageOf(error) },
        'The table could not be made what the upstream says that its records are.',
      )
    }
  return { made, failed: wanted.length - made.length }
}

/** Which columns refer to which views; the comments of the tables name them. */
async function noteConfirmed({ pool, mirrored, log }: Needs): Promise<void> {
  const names = mirrored.map(({ name }) => name)
  try {
    const views = await readSchemaMap(pool, mirrored)
    const references = await confirmedReferences(pool, views, (one, error) =>
      log.warn(
        { ...one, why: messageOf(error) },
        'Whether a column refers to a view could not be looked up.',
      ),
    )
    await noteReferences(pool, names, references)
  } catch (error) {
    log.warn({ why: messageOf(error) }, 'Which columns refer to which views could not be looked up.')
  }
}

const belief = 'contract'
/** A description is read once a day, perhaps an hour late. If it is not served any more, the belief expires. */
const believedForMs = 25 * 3_600_000

/** Keeps a belief about each stream: its records are as the description says, or otherwise. Runs note what they see of that. */
export async function believeDescriptions(
  pool: Pool,
  stored: readonly StoredDescription[],
  types: ReadonlyMap<string, RecordType>,
  mirrored: readonly MirroredStream[],
): Promise<void> {
  const now = new Date()
  const source = sourceIn(mirrored[0]?.name ?? '')
  const unusable = (await readUnusableDescriptions(pool)).map(({ service }) => service)
  const fresh = stored.filter(
    ({ service, lastReadAt }) =>
      now.getTime() - lastReadAt.getTime() <= believedForMs && !unusable.includes(keyIn(source, service)),
  )
  const streams = mirrored.map((stream) => stream.name)
  const known = (await readBeliefs(pool, { streams })).filter((line) => line.name === belief)
  const fields = await readFieldsBeside(pool, [...types.keys()], { mostCounted: 0 })
  for (const stream of mirrored) {
    const type = types.get(stream.name)
    const of = (wanted: string) => fresh.find(({ service }) => service === wanted)
    const found = (stream.kind !== 'related' && of(stream.service)) || of('assignment')
    if (!type || !found) continue
    const beside = fields.filter((field) => field.stream === stream.name)
    const verdict = verdictOn(type, beside, { openApi: found.description.openApi, at: found.location })
    const line = known.find((one) => one.stream === stream.name)
    if (isConfirmed(line, verdict.value, now) && line?.evidence === verdict.evidence) continue
    await withConnection(pool, (client) =>
      learn(client, stream.name, [{ name: belief, ...verdict, testedAt: now }]),
    )
  }
}

/** The description is not used. */
async function forgetDescriptionBeliefs(pool: Pool, source: string): Promise<void> {
  await pool.query(`delete from tidemark.belief where name = $1 and ${sourceSql('stream')} = $2`, [
    belief,
    source,
  ])
}
