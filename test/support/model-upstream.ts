// An upstream in memory with every unknown of the real one as a switch (model-worlds.ts): what it serves, and how its rows change.

import type { Json, JsonObject } from '../../src/json/json.ts'
import { type DialectName, dialectNamed, tellsTotal } from '../../src/simulator/dialects.ts'
import type { ChangesStream } from '../../src/streams/catalog.ts'
import {
  type Answer,
  type ChangesRequest,
  ListRefused,
  type ListRequest,
  type Lookup,
  type Refusal,
  type SortOrder,
  type Source,
} from '../../src/sync/ports/source.ts'
import type { World } from './model-worlds.ts'
import type { Random } from './random.ts'

export const modelStream: ChangesStream = {
  name: 'thing',
  kind: 'changes',
  service: 'assignment',
  changes: 'listChangedThings',
  list: 'listThings',
  lookup: 'getThing',
  keyFields: ['Id'],
  versionFields: ['RowVersion'],
  defaultSchedule: '30s',
}

const ownPageSize = 30
const blockSize = 10n

export type ModelRow = {
  readonly id: number
  readonly version: bigint
  readonly deleted: boolean
  /** Stands for all other fields. */
  readonly text?: number
}

export type ModelUpstream = Source & {
  readonly visible: () => readonly ModelRow[]
  /** Also those that no page shows. */
  readonly all: () => readonly ModelRow[]
  /** Rows whose version became visible after a higher one was. */
  readonly late: ReadonlySet<number>
  /** Two records have its key. */
  isTwin(id: number): boolean
  beginRun(): void
  change(random: Random): void
  /** New rows, each with a version of its own. */
  insert(count: number): void
  /** Rows drawn at random, each gets a version of its own. */
  write(count: number): void
  /** Writes a row in a transaction that stays open until all is settled. */
  hold(random: Random): void
  /** Inserts a row in a transaction that stays open; when that is called it is committed, and the row before it or another one vanishes. */
  holdNew(random: Random): () => void
  /** All that is written and not visible yet becomes visible. */
  settle(): void
  restore(rows: readonly ModelRow[], keepsCounter?: boolean): void
  /** Takes these rows away, and puts them back as they were when that is called. */
  takeAway(ids: readonly number[]): () => void
  /** Writes what can be read although it is not committed; rolled back when that is called. */
  beginDirty(random: Random): () => void
  /** Puts this row in the place of the one with its id, whatever its version. */
  put(row: ModelRow): void
  /** Reads see these rows instead of those that there are; null: those. */
  readFrom: (() => ReadonlyMap<number, ModelRow>) | null
  onRequest: () => void
}

export function modelUpstream(world: World, random: Random): ModelUpstream {
  const rows = new Map<number, ModelRow>()
  const uncommitted: ModelRow[] = []
  const held: ModelRow[] = []
  /** Not committed, and read all the same. */
  const dirty = new Set<number>()
  /** Marked as deleted, and shown nowhere. */
  const removed: ModelRow[] = []
  /** While a transaction holds a row, nobody else changes it. */
  const isHeld = ({ id }: ModelRow) => dirty.has(id) || [...uncommitted, ...held].some((row) => row.id === id)
  const late = new Set<number>()
  let version = 0n
  let lastId = 0
  let lastText = 0
  let restores = 0
  const comesAgain = () => world.paging.endsWith(' again') || pastEnd === 'first page'
  let requests = 0
  let slipsAfter = -1
  const versionName = versionNameOf(world)
  const tellsAll = tellsTotal(world.dialect)
  const { pastEnd } = dialectNamed(world.dialect)
  let reads = 0
  /** Rows do not change, and each is shown many times. */
  const records = new WeakMap<ModelRow, JsonObject>()
  const twins = new WeakMap<ModelRow, ModelRow>()
  const isShown = ({ id }: ModelRow) =>
    world.hides === 'most' ? id % 30 < 12 : world.hides !== 'some' || id % 5 !== 0
  const readable = () => model.readFrom?.() ?? rows
  const isSpoilt = ({ id }: ModelRow) => world.spoils && id % 7 === 0
  const cap = () => {
    if (world.cap && world.capVaries) return 1 + random.integer(world.cap)
    const isHalved = world.capHalvesAt !== null && requests >= world.capHalvesAt
    return world.cap && isHalved ? Math.ceil(world.cap / 2) : world.cap
  }

  const blocks: { next: bigint; left: number }[] = []
  const nextVersion = () => {
    if (world.counters > 1) return nextOfBlock()
    if (!(version > 0n && random.chance(world.tieChance))) version += step()
    return version
  }
  const step = () => {
    const isLeap = world.leapChance > 0 && random.chance(world.leapChance)
    return isLeap ? 10n ** BigInt(2 + random.integer(14)) : BigInt(1 + random.integer(3))
  }
  const nextOfBlock = () => {
    const place = random.integer(world.counters)
    const block = blocks[place]
    if (block && block.left > 0) {
      block.left -= 1
      return block.next++
    }
    const first = version + 1n
    version += blockSize
    blocks[place] = { next: first + 1n, left: Number(blockSize) - 1 }
    return first
  }
  let highestShown = 0n
  /** What one transaction wrote becomes visible at once. */
  const show = (...written: ModelRow[]) => {
    const before = highestShown
    for (const one of written) {
      const row = { ...one, text: ++lastText }
      if (row.version <= before) late.add(row.id)
      if (row.version > highestShown) highestShown = row.version
      rows.set(row.id, row)
    }
  }
  const store = (...written: ModelRow[]) => {
    const free = written.filter((row) => !isHeld(row))
    if (random.chance(world.lateChance)) uncommitted.push(...free)
    else show(...free)
  }
  const existing = () => random.pick([...rows.values()])

  const model: ModelUpstream = {
    onRequest: () => {},
    late,
    all: () => [...rows.values()],
    isTwin,
    visible: () => [...rows.values()].filter((row) => isShown(row) && !isSpoilt(row)),
    beginRun() {
      if (world.slips) slipsAfter = random.integer(12)
    },
    change() {
      const kind = random.integer(11)
      if (kind < 3 && removed.length > 0 && random.chance(0.5))
        store(...removed.splice(0, 1).map((row) => ({ ...row, version: nextVersion() })))
      else if (kind < 3 || rows.size === 0)
        store({ id: ++lastId, version: nextVersion(), deleted: false, text: 0 })
      else if (kind < 6) store({ ...existing(), version: nextVersion() })
      else if (kind === 6) remove(existing())
      else if (kind === 7)
        store(
          ...[...rows.values()]
            .filter(() => random.chance(0.3))
            .map((row) => ({ ...row, version: nextVersion() })),
        )
      else if (kind === 8) {
        const tied = nextVersion()
        store(
          ...[...rows.values()].filter(() => random.chance(0.4)).map((row) => ({ ...row, version: tied })),
        )
      } else if (kind === 9) {
        // In order of ids, from the first one on: a list in that order looks sorted by version afterwards.
        const some = [...rows.values()].sort((a, b) => a.id - b.id).slice(0, 1 + random.integer(rows.size))
        store(...some.map((row) => ({ ...row, version: nextVersion() })))
      } else commit()
    },
    hold() {
      if (rows.size === 0) return
      const row = existing()
      if (!isHeld(row)) held.push({ ...row, version: nextVersion() })
    },
    holdNew(random) {
      const row = { id: ++lastId, version: nextVersion(), deleted: false }
      const back = restores
      return () => {
        if (restores !== back) return
        const others = [...rows.values()].filter((one) => !isHeld(one))
        const beside = others.find(({ id }) => id === row.id - 1)
        const gone = beside && random.chance(0.5) ? beside : others[random.integer(others.length)]
        if (gone) rows.delete(gone.id)
        show(row)
      }
    },
    settle() {
      show(...held.splice(0))
      while (uncommitted.length > 0) commit()
    },
    insert(count) {
      for (let inserted = 0; inserted < count; inserted++)
        show({ id: ++lastId, version: nextVersion(), deleted: false })
    },
    write(count) {
      for (let written = 0; written < count; written++) show({ ...existing(), version: nextVersion() })
    },
    restore(earlier, keepsCounter = true) {
      restores += 1
      rows.clear()
      uncommitted.length = 0
      held.length = 0
      removed.length = 0
      for (const row of earlier) rows.set(row.id, row)
      if (keepsCounter) return
      blocks.length = 0
      lastId = Math.max(0, ...rows.keys())
      version = earlier.reduce((highest, row) => (row.version > highest ? row.version : highest), 0n)
      highestShown = version
    },
    put: (row) => void rows.set(row.id, row),
    takeAway(ids) {
      const away = ids.flatMap((id) => rows.get(id) ?? []).filter((row) => !isHeld(row))
      for (const { id } of away) rows.delete(id)
      const back = restores
      return () => {
        if (restores === back) for (const row of away) rows.set(row.id, row)
      }
    },
    beginDirty(random) {
      const before = [...rows.values()].filter((row) => !isHeld(row) && random.chance(0.1))
      const gone = random.chance(0.5) ? before[0] : undefined
      const written = before.filter((row) => row !== gone)
      for (const { id } of before) dirty.add(id)
      if (gone) rows.delete(gone.id)
      const fresh = { id: ++lastId, version: nextVersion(), deleted: false }
      dirty.add(fresh.id)
      show(fresh, ...written.map((row) => ({ ...row, version: nextVersion() })))
      const back = restores
      return () => {
        dirty.clear()
        if (restores !== back) return
        rows.delete(fresh.id)
        for (const row of before) rows.set(row.id, row)
      }
    },
    readFrom: null,
    sortedBy: () => model,
    async changes(request) {
      requests += 1
      model.onRequest()
      if (slipsAfter-- === 0) return answer({ served: [], total: 0 })
      return orRefused(request.sorts !== null, () => serve(request))
    },
    async list(request) {
      requests += 1
      model.onRequest()
      const answered = orRefused(request.byKey !== undefined, () =>
        answer(paged(listed(request), request, null)),
      )
      if ('refused' in answered) throw new ListRefused('status 400', 'status 400')
      return answered
    },
    listHasPages: true,
    async lookup(key): Promise<Lookup> {
      model.onRequest()
      const row = readable().get(Number(key))
      if (row?.deleted && world.showsMarked === 'in changes alone') return 'gone'
      return row ? { found: record(row) } : 'gone'
    },
  }
  return model

  function record(row: ModelRow): JsonObject {
    const known = records.get(row) ?? {
      Id: row.id,
      ...(world.hasLegacyVersion && { RowVersion: row.id % 23 === 0 ? row.id : null }),
      [versionName]: versionIn(world.versions, row.version),
      SysDeleted: row.deleted,
      Text: row.text ?? 0,
    }
    records.set(row, known)
    return world.isVolatile ? { ...known, Url: ++reads } : known
  }

  function twinOf(row: ModelRow): ModelRow {
    const twin = twins.get(row) ?? { ...row, text: -(row.text ?? 0) }
    twins.set(row, twin)
    return twin
  }

  function remove(row: ModelRow) {
    if (isHeld(row)) return
    if (world.deletes === 'soft') return store({ ...row, version: nextVersion(), deleted: !row.deleted })
    rows.delete(row.id)
    if (world.deletes === 'hidden') removed.push(row)
  }

  function commit() {
    const [row] = uncommitted.splice(random.integer(Math.max(1, uncommitted.length)), 1)
    if (row) show(row)
  }

  function serve(request: ChangesRequest): Answer | Refusal {
    if (request.sorts && world.sorts === 'refused') return { refused: 400 }
    const { below = null } = request
    const above = [...readable().values()].filter(
      (row) =>
        (world.inclusive ? row.version >= request.since : row.version > request.since) &&
        (below === null || row.version < below) &&
        !(world.omits && isOmitted(row.id)),
    )
    const wanted = cut(above)
    if (request.sorts && world.sorts === 'within the page')
      return answer(sortedPage(paged(ordered(wanted, null), request, request.sorts), request.sorts))
    return answer(paged(ordered(wanted, request.sorts), request, request.sorts))
  }

  function isTwin(id: number): boolean {
    return world.twins && id % 9 === 0
  }

  function cut(set: ModelRow[]): ModelRow[] {
    const twinned = world.twins ? set.flatMap((row) => (isTwin(row.id) ? [row, twinOf(row)] : [row])) : set
    return world.cutBeforeSort === null ? twinned : twinned.sort(byId).slice(0, world.cutBeforeSort)
  }

  function listed({ byKey }: ListRequest): readonly ModelRow[] {
    const all = [...readable().values()].filter((row) => !row.deleted || world.showsMarked === 'everywhere')
    if (!byKey || world.byKey === 'ignored') return ordered(cut(all), null)
    const wanted = cut(all.filter(({ id }) => byKey.after === null || BigInt(id) > byKey.after))
    if (world.byKey === 'filters only') return ordered(wanted, null)
    return wanted.sort((a, b) => (byKey.order === 'ascending' ? byId(a, b) : byId(b, a)))
  }

  function sortedPage({ served, total }: Paged, sorts: SortOrder): Paged {
    return { served: sorted(served, sorts), total }
  }

  function sorted(set: readonly ModelRow[], sorts: SortOrder): readonly ModelRow[] {
    const compare = world.sorts === 'as text' ? byText : ascending
    return set.toSorted(sorts === 'ascending' ? compare : (a, b) => compare(b, a))
  }

  function ordered(set: ModelRow[], sorts: ChangesRequest['sorts']): readonly ModelRow[] {
    if (sorts && (world.sorts === 'honoured' || world.sorts === 'as text')) {
      // Where the last page comes for ever, an order that changes would hide that it does.
      const shuffledTies = comesAgain() ? set : random.shuffled(set)
      return sorted(shuffledTies, sorts)
    }
    if (sorts && world.sorts === 'ascending only') return set.sort((a, b) => ascending(a, b) || byId(a, b))
    switch (world.order) {
      case 'row version':
        return set.sort((a, b) => ascending(a, b) || byId(a, b))
      case 'id':
        return set.sort(byId)
      case 'descending':
        return set.sort((a, b) => ascending(b, a) || byId(a, b))
      case 'unstable':
        return comesAgain() ? set : random.shuffled(set)
    }
  }

  function paged(set: readonly ModelRow[], request: ListRequest, sorts: ChangesRequest['sorts']): Paged {
    const noPages = world.paging === 'ignored' || (sorts && world.sorts === 'switches paging off')
    if (noPages) return orPastEnd(request, set, set.length)
    const isOwn = world.paging === 'own size'
    const size = isOwn ? ownPageSize : Math.min(request.pageSize, cap() ?? request.pageSize)
    const stride = isOwn || world.capArithmetic === 'capped' ? size : request.pageSize
    const lastPage = Math.max(1, Math.ceil(set.length / stride))
    const page =
      world.paging === 'first page again'
        ? 1
        : world.paging === 'last page again'
          ? Math.min(request.page, lastPage)
          : request.page
    const served = set.slice((page - 1) * stride, (page - 1) * stride + size)
    const isFirstAgain = served.length === 0 && pastEnd === 'first page'
    return orPastEnd(request, isFirstAgain ? set.slice(0, size) : served, set.length)
  }

  function orPastEnd({ page }: { page: number }, served: readonly ModelRow[], total: number): Paged {
    if (served.length === 0) expectPage(world.dialect, page)
    return { served, total }
  }

  function answer({ served, total }: Paged): Answer {
    return {
      records: served
        .filter(isShown)
        .map((row) => (isSpoilt(row) ? { ...record(row), [versionName]: null } : record(row))),
      bytes: served.length,
      ...(tellsAll && { total }),
    }
  }
}

/** Of these, some upstreams tell no change. */
export const isOmitted = (id: number): boolean => id % 6 === 0

/** A page, and how many records there are on all pages. */
type Paged = { readonly served: readonly ModelRow[]; readonly total: number }

/** As the answer of a service to a page that it does not have. */
export class NoPage extends Error {
  readonly noPage: string
  constructor(noPage: string) {
    // Most requests of some worlds end so: to note where takes longer than all the rest of the answer.
    const { stackTraceLimit } = Error
    Error.stackTraceLimit = 0
    super(noPage)
    Error.stackTraceLimit = stackTraceLimit
    this.noPage = noPage
  }
}

/** Nothing is on this page: throws as the dialect has it. */
export function expectPage(dialect: DialectName, page: number): void {
  const { pastEnd, isAlsoFirst } = dialectNamed(dialect)
  if (typeof pastEnd === 'object' && (page > 1 || isAlsoFirst))
    throw new NoPage(pastEnd.status === 200 ? 'null' : `status ${pastEnd.status}`)
}

/** A service that says 400 says it to any request, also to one that sorts. */
export function orRefused<Any>(isSorted: boolean, serve: () => Any): Any | Refusal {
  try {
    return serve()
  } catch (error) {
    if (isSorted && error instanceof NoPage && error.noPage === 'status 400') return { refused: 400 }
    throw error
  }
}

const ascending = (a: ModelRow, b: ModelRow) => (a.version < b.version ? -1 : Number(a.version > b.version))
const byText = (a: ModelRow, b: ModelRow) => {
  const [one, other] = [versionText(a), versionText(b)]
  return one < other ? -1 : Number(one !== other)
}
/** Of each version once: a page is sorted for every request. */
function versionText(row: ModelRow): string {
  const text = versionTexts.get(row) ?? String(row.version)
  versionTexts.set(row, text)
  return text
}
const versionTexts = new WeakMap<ModelRow, string>()
const byId = (a: ModelRow, b: ModelRow) => a.id - b.id

export const versionNameOf = ({ hasLegacyVersion }: World): string =>
  hasLegacyVersion ? 'SysRowVersion' : 'RowVersion'

export function versionIn(form: World['versions'], version: bigint): Json {
  if (form === 'number') return JSON.rawJSON(String(version))
  if (form === 'string') return String(version)
  const bytes = Buffer.alloc(8)
  bytes.writeBigInt64BE(version)
  return bytes.toString('base64')
}
