// Every change of the data, whoever makes it: a request, a test, the churn. A write takes its row version at once; when
// it is late, it becomes visible afterwards, as with a transaction that is still open.

import type { Behaviour } from './behaviour.ts'
import type { Random } from './random.ts'
import type { Replica } from './replica.ts'
import type { ResourceName } from './resources.ts'
import { emptyRow, type Fields, type Row, type Versions } from './row.ts'
import type { RowBytes } from './row-bytes.ts'
import type { Table } from './table.ts'

export type Tables = Readonly<Record<ResourceName, Table>>
type WriteKind = 'Created' | 'Changed' | 'Deleted'
export type WriteEvent = { readonly kind: WriteKind; readonly resource: ResourceName; readonly row: Row }

export type WriteOptions = {
  /** This id instead of the next one. */
  readonly id?: number
  /** This row version instead of the next one. */
  readonly version?: bigint
  /** Late or not; otherwise the behaviour's `lateFraction` decides. */
  readonly isLate?: boolean
  /** The record keeps its version, as when somebody works on the database by hand. */
  readonly keepsVersion?: boolean
}
export type Deletion = 'hard' | 'soft'

export type Writes = {
  insert(resource: ResourceName, own: Fields | null, options?: WriteOptions): Row
  insertRaw(
    resource: ResourceName,
    raw: (id: number, version: bigint) => string | Uint8Array,
    options?: WriteOptions,
  ): Row
  /** Sets fields; without any, the generated ones move on by one revision. Undefined when there is no such record. */
  change(resource: ResourceName, id: number, own: Fields | null, options?: WriteOptions): Row | undefined
  /** With `own`, what a soft deletion sets besides the mark. */
  remove(resource: ResourceName, id: number, how?: Deletion, own?: Fields | null): Row | undefined
  /** Makes what was written late visible, now; all of it, or one record's. Returns how many rows that were. */
  commitLate(resource?: ResourceName, id?: number): number
  /** Forgets what was written late: those transactions never happened. */
  dropLate(): void
  onWrite(listener: (event: WriteEvent) => void): () => void
  close(): void
}

type Committed = (event: WriteEvent) => void

export function openWrites(parts: {
  readonly tables: Tables
  readonly versions: Versions
  readonly behaviour: Behaviour
  readonly rowBytes: RowBytes
  readonly random: Random
  readonly replica: Replica
}): Writes {
  const { tables, versions, behaviour, random } = parts
  const listeners = new Set<Committed>()
  const commit: Committed = (event) => {
    store(parts, event)
    for (const listener of listeners) listener(event)
  }
  const late = openLateWrites(commit, behaviour)
  const fallBacks = openFallBacks(parts, commit)

  function write(event: WriteEvent, options: WriteOptions): Row {
    const { resource, row } = event
    if (options.isLate ?? (behaviour.lateFraction > 0 && random() < behaviour.lateFraction)) {
      tables[resource].reserveId(row.id)
      late.add(event)
    } else commit(event)
    return row
  }

  /** The row as the next writer finds it: a database makes that writer wait for the open transaction. */
  function current(resource: ResourceName, id: number): Row | undefined {
    late.commit(resource, id)
    return tables[resource].find(id)
  }

  return {
    insert(resource, own, options = {}) {
      const row = newRow(tables[resource], versions, options)
      const filled = { ...row, own: ownFields(own), isDeleted: own?.SysDeleted === true }
      return write({ kind: 'Created', resource, row: filled }, options)
    },
    insertRaw(resource, raw, options = {}) {
      const row = newRow(tables[resource], versions, options)
      return write({ kind: 'Created', resource, row: { ...row, raw: raw(row.id, row.version) } }, options)
    },
    change(resource, id, own, options = {}) {
      const row = current(resource, id)
      if (!row) return undefined
      const isDeleted = typeof own?.SysDeleted === 'boolean' ? own.SysDeleted : row.isDeleted
      const merged = own ? { ...row.own, ...ownFields(own) } : row.own
      const isSilent = behaviour.silentChanges > 0 && random() < behaviour.silentChanges
      const how = isSilent ? { keepsVersion: true, ...options } : options
      const next = nextRow(row, tables[resource], versions, how)
      const changed = { ...next, revision: row.revision + (own ? 0 : 1), own: merged, raw: null, isDeleted }
      fallBacks.perhaps(resource, row, changed)
      return write({ kind: 'Changed', resource, row: changed }, options)
    },
    remove(resource, id, how = behaviour.deletes, own = null) {
      const row = current(resource, id)
      if (!row) return undefined
      const next = () => nextRow(row, tables[resource], versions, {})
      const removed =
        how === 'soft' ? { ...next(), isDeleted: true, own: own ? { ...row.own, ...own } : row.own } : row
      if (how === 'hard') commit({ kind: 'Deleted', resource, row: { ...row, isDeleted: false } })
      else commit({ kind: 'Deleted', resource, row: removed })
      return removed
    },
    commitLate: late.commit,
    dropLate() {
      late.drop()
      fallBacks.drop()
    },
    onWrite(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    close() {
      late.drop()
      fallBacks.drop()
    },
  }
}

/** Changes that are taken back: as when somebody read what a transaction wrote that was rolled back, or a record was restored. */
function openFallBacks(
  parts: { readonly tables: Tables; readonly behaviour: Behaviour; readonly random: Random },
  commit: Committed,
) {
  const { tables, behaviour, random } = parts
  const timers = new Set<NodeJS.Timeout>()

  return {
    perhaps(resource: ResourceName, before: Row, after: Row): void {
      if (behaviour.fallBacks === 0 || random() >= behaviour.fallBacks) return
      const timer = setTimeout(() => {
        timers.delete(timer)
        const table = tables[resource]
        if (table.find(after.id)?.version !== after.version) return
        commit({ kind: 'Changed', resource, row: { ...before, place: table.takePlace(), cached: null } })
      }, behaviour.lateDelayMs)
      timer.unref()
      timers.add(timer)
    },
    drop(): void {
      for (const timer of timers) clearTimeout(timer)
      timers.clear()
    },
  }
}

/** What is written and not yet visible, each until its timer or somebody commits it. */
function openLateWrites(commit: Committed, behaviour: Behaviour) {
  type Pending = { readonly event: WriteEvent; readonly timer: NodeJS.Timeout }
  const pending = new Map<string, Pending>()
  const nameOf = (resource: ResourceName, id: number) => `${resource} ${id}`

  function commitLate(resource?: ResourceName, id?: number): number {
    const names = resource !== undefined && id !== undefined ? [nameOf(resource, id)] : [...pending.keys()]
    let committed = 0
    for (const name of names) {
      const write = pending.get(name)
      if (!write) continue
      clearTimeout(write.timer)
      pending.delete(name)
      commit(write.event)
      committed++
    }
    return committed
  }

  return {
    commit: commitLate,
    add(event: WriteEvent): void {
      const { resource, row } = event
      const timer = setTimeout(() => commitLate(resource, row.id), behaviour.lateDelayMs)
      timer.unref()
      pending.set(nameOf(resource, row.id), { event, timer })
    },
    drop(): void {
      for (const { timer } of pending.values()) clearTimeout(timer)
      pending.clear()
    },
  }
}

function store(
  parts: { readonly tables: Tables; readonly rowBytes: RowBytes; readonly replica: Replica },
  { kind, resource, row }: WriteEvent,
): void {
  const table = parts.tables[resource]
  const isGone = kind === 'Deleted' && !row.isDeleted
  const before = isGone ? table.drop(row.id) : table.put(row)
  if (before) parts.rowBytes.forget(before)
  parts.replica.changed(resource, row.id, before, isGone ? undefined : row)
}

function versionFor(versions: Versions, options: WriteOptions): bigint {
  if (options.version === undefined) return versions.next()
  versions.reach(options.version)
  return options.version
}

function newRow(table: Table, versions: Versions, options: WriteOptions): Row {
  const nowMs = Date.now()
  const id = options.id ?? table.takeId()
  const version = versionFor(versions, options)
  return { ...emptyRow, id, version, createdAtMs: nowMs, changedAtMs: nowMs, place: table.takePlace() }
}

const nextRow = (row: Row, table: Table, versions: Versions, options: WriteOptions): Row => ({
  ...row,
  version: options.keepsVersion ? row.version : versionFor(versions, options),
  place: table.takePlace(),
  revision: row.revision + 1,
  changedAtMs: Date.now(),
  cached: null,
})

const reserved = ['SysRowVersion', 'SysDeleted']

function ownFields(own: Fields | null): Fields | null {
  return own && Object.fromEntries(Object.entries(own).filter(([name]) => !reserved.includes(name)))
}
