// Looks for the descriptions that the services of the upstream give of themselves, keeps them, and makes tables by them. A description is
// only a belief: without one everything works as well, and nothing that goes wrong here keeps a stream from being read.

import { type Config, ConfigError, type UpstreamConfig } from './config/load.ts'
import { addedIn } from './config/parsers.ts'
import type { Logger } from './log.ts'
import { readContracts, wasCheckedWithin } from './store/queries/contract.ts'
import { readSchemaMap } from './store/queries/dictionary.ts'
import { learnAddedStreams } from './store/queries/found-out.ts'
import { confirmedReferences, type LikelyReference } from './store/queries/references.ts'
import { believeContracts, forgetContractBeliefs } from './store/runs/believe-contract.ts'
import { forgetContractProblem, keepContract } from './store/runs/keep-contract.ts'
import { noteStream } from './store/runs/note-stream.ts'
import { applyContract, noteReferences } from './store/schema/apply-contract.ts'
import { createTable } from './store/schema/create-table.ts'
import type { Database } from './store/server/connect.ts'
import { withConnection } from './store/server/session.ts'
import {
  type AddedStream,
  addedStreams,
  type FieldKinds,
  type FoundOut,
  type MirroredStream,
  relatedStreams,
  type ServiceName,
  streams,
  unknownStreams,
} from './streams/catalog.ts'
import type {
  Contract,
  ContractOperation,
  ContractPlace,
  ListOffered,
  RecordType,
} from './streams/contract.ts'
import type { Upstream } from './upstream/client.ts'
import { describedStreams } from './upstream/contract/described-streams.ts'
import { type Finding, findContract } from './upstream/contract/find-description.ts'
import { findOut } from './upstream/contract/find-out.ts'
import { operationNamed } from './upstream/operations/table.ts'
import { messageOf } from './util/errors.ts'
import { plural } from './util/text.ts'

type Pool = Database['pool']

export type ContractConfig = Pick<UpstreamConfig, 'contract'> & Pick<Config, 'keyFields'>

export type ContractNeeds = {
  readonly pool: Pool
  readonly config: ContractConfig
  /** Null: that service is not configured. */
  readonly upstreams: Readonly<Record<ServiceName, Upstream | null>>
  /** The streams whose tables are made. */
  readonly mirrored: readonly MirroredStream[]
  readonly log: Logger
}
export type Contracts = {
  /** Undefined where nothing describes them. */
  kindsOf(stream: string): FieldKinds | undefined
  /**
   * Asks the services whose description was not looked for within that time, and makes the tables as they say. Returns the streams
   * whose tables are made so.
   */
  refresh(options: { readonly olderThanMs: number; readonly signal: AbortSignal }): Promise<readonly string[]>
  /** What is known of each stream by the descriptions that were read last. */
  described(): Promise<ReadonlyMap<string, RecordType>>
  listsOffered(contract: Contract): readonly ListOffered[]
}

const services = ['assignment', 'tracking'] as const

/** A description is read once a day, perhaps an hour late. */
const believedForMs = 25 * 3_600_000

/** Where to look for the description of a service. Undefined: CONTRACT names that of the other service. Null: none is looked for. */
export const contractPlaceOf = (
  { contract }: Pick<UpstreamConfig, 'contract'>,
  service: ServiceName,
): ContractPlace | null | undefined =>
  service === 'assignment' || contract === null || contract.kind === 'usual' ? contract : undefined

export async function openContracts(needs: ContractNeeds): Promise<Contracts> {
  const { pool, config, log } = needs
  let known = new Map<string, FieldKinds>()
  const learn = async () => {
    if (config.contract === null) return
    known = new Map([...(await describedHere(pool))].map(([name, type]) => [name, kindsIn(type)]))
  }
  await learn()
  return {
    kindsOf: (stream) => known.get(stream),
    described: () => describedHere(pool),
    listsOffered: (contract) =>
      listsOffered(
        contract,
        needs.mirrored.filter(({ kind }) => kind === 'related').map(({ name }) => name),
      ),
    async refresh({ olderThanMs, signal }) {
      try {
        for (const service of services) await lookAt(needs, service, { olderThanMs, signal })
        if (config.contract === null) {
          await forgetContractBeliefs(pool)
          return []
        }
        const applied = await applyStored(needs)
        await learn()
        await believeContracts(pool, await describedHere(pool), needs.mirrored, {
          readWithinMs: believedForMs,
          now: new Date(),
        })
        return applied
      } catch (error) {
        if (signal.aborted) throw error
        log.warn(
          { err: error },
          'What the upstream says about itself could not be used. Its data are read all the same.',
        )
        return []
      }
    },
  }
}

const kindsIn = ({ fields }: RecordType): FieldKinds =>
  Object.fromEntries(fields.flatMap(({ name, kind }) => (kind === null ? [] : [[name, { kind }] as const])))

/** A stream that the settings add goes before related records of its name. */
const everything = (): readonly MirroredStream[] => [...relatedStreams, ...streams]

/** What is known of each stream by the descriptions that were read last. */
export async function describedHere(pool: Pool): Promise<ReadonlyMap<string, RecordType>> {
  const stored = await readContracts(pool)
  return describedStreams(new Map(stored.map(({ service, contract }) => [service, contract])), everything())
}

async function lookAt(
  { pool, config, upstreams, log }: ContractNeeds,
  service: ServiceName,
  { olderThanMs, signal }: Parameters<Contracts['refresh']>[0],
): Promise<void> {
  const place = contractPlaceOf(config, service)
  const upstream = upstreams[service]
  if (!place || (upstream === null && place.kind !== 'file'))
    return await forgetContractProblem(pool, service)
  if (olderThanMs > 0 && (await wasCheckedWithin(pool, service, olderThanMs))) return
  const finding = await findContract(place, upstream, signal)
  signal.throwIfAborted()
  if (finding.found === 'no answer') {
    log.info(
      { service, why: finding.why },
      'The upstream was asked how it describes itself, and did not answer.',
    )
    return
  }
  const contract = finding.found === 'contract' && isOf(service, finding.contract) ? finding : null
  const changes = await keepContract(
    pool,
    { service, contract: contract && { ...contract, location: contract.at }, problem: problemIn(finding) },
    streamOfType(service, contract?.contract ?? null),
  )
  if (contract !== null || finding.found !== 'contract') tell(log, service, finding, changes.length)
}

/** Two services of one host may show the same description: it is that of the one whose records it names. */
function isOf(service: ServiceName, contract: Contract): boolean {
  const own = streams.filter((stream) => stream.service === service)
  return service === 'assignment' || describedStreams(new Map([[service, contract]]), own).size > 0
}

const problemIn = (finding: Finding): string | null =>
  finding.found === 'unusable' ? `${finding.at} cannot be used: ${finding.why}` : null

/** The stream whose records are of a type. */
function streamOfType(service: ServiceName, contract: Contract | null): (type: string) => string | null {
  const described = contract ? describedStreams(new Map([[service, contract]]), everything()) : new Map()
  // Attachments and their data have the same type: it counts as that of attachments.
  const streamOf = new Map([...described].toReversed().map(([stream, { name }]) => [name, stream]))
  return (type) => streamOf.get(type) ?? null
}

function tell(log: Logger, service: ServiceName, finding: Finding, changeCount: number): void {
  if (finding.found === 'unusable')
    log.warn({ service, at: finding.at, why: finding.why }, 'The description of the upstream cannot be used.')
  if (finding.found !== 'contract') return
  const { at, contract } = finding
  log.info(
    { service, at, operations: contract.operations.length },
    changeCount > 0
      ? `The upstream describes itself otherwise than before: ${plural(changeCount, 'change')}.`
      : 'The upstream describes itself.',
  )
}

/** Makes the tables as the stored descriptions say. Returns the streams for which that worked. */
async function applyStored(needs: ContractNeeds): Promise<readonly string[]> {
  const { pool, config, mirrored, log } = needs
  const described = await describedHere(pool)
  const wanted = mirrored.flatMap((stream) => {
    const type = described.get(stream.name)
    return type ? [{ stream, type, keyField: config.keyFields[stream.name] ?? null }] : []
  })
  if (wanted.length > 0) await noteConfirmed(needs)
  const applied: string[] = []
  for (const one of wanted)
    try {
      await withConnection(pool, (client) => applyContract(client, [one], log))
      applied.push(one.stream.name)
    } catch (error) {
      // Somebody reads the table, or a view of theirs is in the way. That does not keep rows from coming.
      log.warn(
        { stream: one.stream.name, why: messageOf(error) },
        'The table could not be made what the upstream says that its records are.',
      )
    }
  return applied
}

/** Which columns refer to which views; the comments of the tables name them. */
async function noteConfirmed({ pool, mirrored, log }: ContractNeeds): Promise<void> {
  try {
    const views = await readSchemaMap(pool, mirrored)
    const onFailure = (one: LikelyReference, error: unknown) =>
      log.warn({ ...one, why: messageOf(error) }, 'Whether a column refers to a view could not be looked up.')
    const names = mirrored.map(({ name }) => name)
    await noteReferences(pool, names, await confirmedReferences(pool, views, onFailure))
  } catch (error) {
    log.warn({ why: messageOf(error) }, 'Which columns refer to which views could not be looked up.')
  }
}

// Lists that the settings add: nobody wrote down what they are like.
/** Finds out what added streams are like, if nobody has yet. One that does not answer, or is empty, is read as a list until the next start. */
export async function knowAddedStreams({
  pool,
  config,
  upstream,
  migrates = true,
  log,
}: Pick<ContractNeeds, 'pool' | 'log'> & {
  readonly config: Pick<Config, 'keyFields'>
  readonly upstream: Upstream
  /** False: nothing is asked, and no table is made. */
  readonly migrates?: boolean
}): Promise<void> {
  const known = await learnAddedStreams(pool)
  for (const added of addedStreams()) {
    const found = known.get(added.name)
    if (found) expectSameList(added, found)
    if (found) expectSameKey(added, found, config.keyFields[added.name] ?? null)
    // Older programs did not note it.
    if (found && !found.path && migrates) await noteStream(pool, added.name, { ...found, path: added.path })
  }
  if (!migrates) return
  const signal = AbortSignal.timeout(longestFindingMs)
  for (const added of unknownStreams())
    try {
      const found = await findOut(upstream, added, config.keyFields[added.name] ?? null, signal)
      if (found !== null) await noteStream(pool, added.name, { ...found, path: added.path })
    } catch (error) {
      log.warn(
        { stream: added.name, path: added.path, why: messageOf(error) },
        'A list that STREAMS names could not be looked at. It is read whole, if at all, until the next start.',
      )
    }
  for (const stream of streams)
    if (stream.isAdded && stream.kind === 'changes')
      await withConnection(pool, (client) =>
        createTable(client, stream, { field: stream.keyFields[0] ?? '', type: 'bigint' }, log),
      )
}

/** Rejects if the name was used for another list: nobody could tell the rows of two lists in one table apart. */
function expectSameList({ name, path }: AddedStream, found: FoundOut): void {
  if (found.path === undefined || found.path.toLowerCase() === path.toLowerCase()) return
  throw new ConfigError(
    `STREAMS: mirror.${name} holds the rows of ${found.path}, and ${name}=${path} would add those of another list. Choose another name for ${path}.`,
  )
}

/** A list gets another key by the setting; what changes is read by the number that the stream was found to have. */
function expectSameKey({ name }: AddedStream, { kind, keyField }: FoundOut, wanted: string | null): void {
  const isSame = wanted?.toLowerCase() === keyField?.toLowerCase()
  if (kind === 'list' || wanted === null || isSame) return
  throw new ConfigError(
    `KEY_${name.toUpperCase()} is ${wanted}, and mirror.${name} goes by ${keyField} since it was first read. Remove the setting, or give the list another name in STREAMS.`,
  )
}

const longestFindingMs = 30_000

// The lists that a description names.
/** Lists without parameters in their paths. The names of related records that are copied are taken. */
export function listsOffered(contract: Contract, related: readonly string[]): readonly ListOffered[] {
  const paths = new Set(contract.operations.map(({ path }) => path.toLowerCase()))
  const mirrored = new Map(streams.map(({ name, list }) => [operationNamed(list).path.toLowerCase(), name]))
  const isList = ({ method, path, answers, parameters }: ContractOperation) =>
    method === 'GET' &&
    !path.includes('{') &&
    // An answer that is not described may be a list all the same, where it can be paged.
    (answers?.isList ?? parameters.some(({ name }) => /^page(?:size)?$/i.test(name)))
  const taken = new Set([...related, ...streams.map(({ name }) => name)])
  const offered = new Map(contract.operations.filter(isList).map((one) => [withoutSlash(one.path), one]))
  return [...offered].map(([path, { answers }]) => {
    const hasChanges = [...paths].some((one) => one.startsWith(`${path.toLowerCase()}/neworchanged/{`))
    const stream = mirrored.get(path.toLowerCase()) ?? null
    const name = stream ?? freeName(nameOf(path), taken)
    taken.add(name)
    const setting = `${name}=${path}`
    const canBeSet = stream !== null || addedIn(setting).length === 1
    return {
      ...{ path, hasChanges, type: answers?.type ?? 'not described', stream },
      setting: canBeSet ? setting : null,
    }
  })
}

const withoutSlash = (path: string): string => path.replace(/(?<!\/)\/+$/, '')

function freeName(name: string, taken: ReadonlySet<string>): string {
  for (let n = 1; ; n++) {
    const free = n === 1 ? name : `${name.slice(0, 36)}_${n}`
    if (!taken.has(free)) return free
  }
}

/** `work_order` for `/api/WorkOrder`. */
const nameOf = (path: string): string =>
  (path.split('/').at(-1) ?? '')
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replaceAll(/[^a-z0-9_]/g, '_')
    .replace(/^(?=[^a-z])/, 'list_')
    .slice(0, 40)
