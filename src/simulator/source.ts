// The data as a test sees it: the truth to compare a mirror with, and every way to change it. Changes made here go the
// same way as those made by requests, row versions, late commits and webhooks included.

import type { Extended } from './extended.ts'
import { type MalformedKind, malformRecord } from './malformed-records.ts'
import type { Rendering } from './rendering.ts'
import type { Replica } from './replica.ts'
import type { ResourceName } from './resources.ts'
import { emptyRow, type Fields, type Row, type Versions } from './row.ts'
import { twinFields } from './selection.ts'
import type { Deletion, Tables, WriteOptions, Writes } from './writes.ts'

type Written = { readonly id: number; readonly version: bigint }
/** A write that has its row version and is not visible yet. */
type LateWrite = Written & { commit(): void }
export type Backup = { readonly version: bigint; readonly rows: ReadonlyMap<ResourceName, readonly Row[]> }
type RawRecord = string | Uint8Array | ((written: Written) => string | Uint8Array)

export type Source = {
  count(resource: ResourceName): number
  /** The visible records as they would be served, soft-deleted ones included, in the order of their ids. */
  texts(resource: ResourceName): string[]
  /** The same, parsed with plain `JSON.parse`; raw records that are not JSON are left out. */
  records(resource: ResourceName): Fields[]
  record(resource: ResourceName, id: number): Fields | null
  ids(resource: ResourceName): number[]
  /** Those that are not soft-deleted. */
  livingIds(resource: ResourceName): number[]
  versionOf(resource: ResourceName, id: number): bigint | null
  /** The highest row version that is visible; 0 when there is no row. */
  highestVersion(resource: ResourceName): bigint

  /** A record with generated fields and, over them, these. With the id of a record that is gone, it comes back. */
  insert(resource: ResourceName, fields?: Fields | null, options?: WriteOptions): Written
  /** Sets these fields; without any, the generated ones move on by a revision. */
  change(resource: ResourceName, id: number, fields?: Fields | null, options?: WriteOptions): Written
  remove(resource: ResourceName, id: number, how?: Deletion): void
  /** Changes in one go, in the order of the ids; all records when none are named. */
  bulkUpdate(resource: ResourceName, ids?: readonly number[] | null, fields?: Fields | null): void
  /** Gives all of these one and the same new row version, and returns it. */
  tie(resource: ResourceName, ids: readonly number[]): bigint

  insertLate(resource: ResourceName, fields?: Fields | null): LateWrite
  changeLate(resource: ResourceName, id: number, fields?: Fields | null): LateWrite
  /** Makes everything visible that was written late. Returns how many rows that were. */
  commitLate(): number

  /** Serves exactly these bytes as a record; `options.id` puts them in the place of a record. */
  appendRaw(resource: ResourceName, raw: RawRecord, options?: WriteOptions): Written

  /** Adds a record that is malformed in one of the known ways. */
  insertMalformed(kind: MalformedKind, resource?: ResourceName): Written

  /** Another record with the same key, beside this one in every list; it has a row version of its own. */
  insertTwin(resource: ResourceName, id: number, fields?: Fields): Written

  /** Who takes part in an assignment; otherwise that is the employee it names. */
  setParticipants(assignmentId: number, employeeIds: readonly number[]): void

  takeBackup(): Backup
  /** Everything is as it was then, and row versions go on from there, or from where they are. */
  restoreBackup(backup: Backup, options?: { readonly keepsCounter?: boolean }): void
}

type Parts = {
  readonly tables: Tables
  readonly writes: Writes
  readonly versions: Versions
  readonly rendering: Rendering
  readonly extended: Extended
  readonly replica: Replica
}

export function openSource(parts: Parts): Source {
  return { ...reading(parts), ...changing(parts), ...restoring(parts) }
}

const rowsOf = (tables: Tables, resource: ResourceName) =>
  tables[resource].byId.slice(0, Number.POSITIVE_INFINITY)
const written = ({ id, version }: Row): Written => ({ id, version })

function reading({ tables, rendering }: Parts) {
  const textOf = (resource: ResourceName, row: Row) => {
    const pieces = rendering.pieces(tables[resource].resource, row)
    return pieces.map((piece) => (typeof piece === 'string' ? piece : Buffer.from(piece).toString())).join('')
  }
  const texts: Source['texts'] = (resource) => rowsOf(tables, resource).map((row) => textOf(resource, row))
  return {
    texts,
    count: (resource) => tables[resource].byId.size,
    records: (resource) =>
      texts(resource)
        .map(parsed)
        .filter((record) => record !== null),
    record(resource, id) {
      const row = tables[resource].find(id)
      return row ? parsed(textOf(resource, row)) : null
    },
    ids: (resource) => rowsOf(tables, resource).map(({ id }) => id),
    livingIds: (resource) => rowsOf(tables, resource).flatMap(({ id, isDeleted }) => (isDeleted ? [] : id)),
    versionOf: (resource, id) => tables[resource].find(id)?.version ?? null,
    highestVersion: (resource) =>
      tables[resource].byVersion.at(tables[resource].byVersion.size - 1)?.version ?? 0n,
  } satisfies Partial<Source>
}

function changing({ tables, writes, versions, rendering, extended }: Parts) {
  const change: Source['change'] = (resource, id, fields = null, options = {}) => {
    const row = writes.change(resource, id, fields, options)
    if (!row) throw new Error(`There is no ${resource} with the id ${id}, so it cannot be changed.`)
    return written(row)
  }
  const late = (resource: ResourceName, write: Written): LateWrite => ({
    ...write,
    commit: () => {
      writes.commitLate(resource, write.id)
    },
  })
  return {
    change,
    insert: (resource, fields = null, options = {}) => written(writes.insert(resource, fields, options)),
    remove(resource, id, how) {
      if (!writes.remove(resource, id, how))
        throw new Error(`There is no ${resource} with the id ${id}, so it cannot be removed.`)
    },
    bulkUpdate(resource, ids, fields = null) {
      const chosen = ids ? [...ids].sort((a, b) => a - b) : rowsOf(tables, resource).map(({ id }) => id)
      for (const id of chosen) change(resource, id, fields)
    },
    tie(resource, ids) {
      const version = versions.next()
      for (const id of ids) change(resource, id, null, { version })
      return version
    },
    insertLate: (resource, fields = null) =>
      late(resource, written(writes.insert(resource, fields, { isLate: true }))),
    changeLate: (resource, id, fields = null) =>
      late(resource, change(resource, id, fields, { isLate: true })),
    commitLate: () => writes.commitLate(),
    appendRaw(resource, raw, options = {}) {
      const made = (id: number, version: bigint) => (typeof raw === 'function' ? raw({ id, version }) : raw)
      return written(writes.insertRaw(resource, made, options))
    },
    insertMalformed(kind, resource = 'assignment') {
      const { resource: ordinary } = tables[resource]
      const row = writes.insertRaw(resource, (id, version) => {
        const fields = rendering.fields(ordinary, { ...emptyRow, id, version })
        return malformRecord(kind)(fields, ordinary.keyField, rendering.stringify)
      })
      return written(row)
    },
    insertTwin(resource, id, fields = {}) {
      const { keyField } = tables[resource].resource
      const own = tables[resource].find(id)?.own
      return written(writes.insert(resource, { ...own, ...twinFields(id, 1), ...fields, [keyField]: id }))
    },
    setParticipants(assignmentId, employeeIds) {
      const row = tables.assignment.find(assignmentId)
      if (!row) throw new Error(`There is no assignment with the id ${assignmentId}.`)
      for (const id of extended.participants(row)) extended.setParticipant(row, id, false)
      for (const id of employeeIds) extended.setParticipant(row, id, true)
    },
  } satisfies Partial<Source>
}

function restoring({ tables, writes, versions, replica }: Parts) {
  const names = Object.keys(tables) as ResourceName[]
  return {
    takeBackup: () => ({
      version: versions.current(),
      rows: new Map(names.map((name) => [name, rowsOf(tables, name)])),
    }),
    restoreBackup(backup, { keepsCounter = false } = {}) {
      writes.dropLate()
      for (const name of names) tables[name].load(backup.rows.get(name) ?? [])
      replica.restored()
      if (!keepsCounter) versions.reset(backup.version)
    },
  } satisfies Partial<Source>
}

function parsed(text: string): Fields | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : null
  } catch {
    return null
  }
}
