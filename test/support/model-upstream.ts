// An upstream in memory with every unknown of the real one as a switch: what it serves, and how its rows change.

import type { ChangesStream } from '../../src/streams/catalog.ts'
import type {
  Answer,
  ChangesRequest,
  ListRequest,
  Lookup,
  Refusal,
  SortOrder,
  Source,
} from '../../src/sync/ports/source.ts'
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

export type Order = 'row version' | 'id' | 'descending' | 'unstable'
export type World = {
  readonly order: Order
  readonly inclusive: boolean
  readonly sorts:
    | 'honoured'
    | 'ascending only'
    /** 9 behind 10. */
    | 'as text'
    /** The page is cut first and sorted then. */
    | 'within the page'
    | 'ignored'
    | 'refused'
    | 'switches paging off'
  readonly cap: number | null
  /** Each page has a cap of its own, up to the cap: pages are cut by their bytes, or by how busy the upstream is. */
  readonly capVaries: boolean
  /** From this request on the cap is half of what it was. */
  readonly capHalvesAt: number | null
  /** A capped page is skipped over by the size asked for (Sieve), or by the cap. */
  readonly capArithmetic: 'requested' | 'capped'
  /** With a size of its own, `PageSize` changes nothing and `Page` counts; with the first page again it is the other way round. */
  readonly paging: 'works' | 'ignored' | 'first page again' | 'last page again' | 'own size'
  /** Some rows are left out of a page after it was cut. */
  readonly hides: boolean
  /** Some records have no row version, so that they cannot be rows. */
  readonly spoils: boolean
  /** Once in a run it answers nothing, whatever there is. */
  readonly slips: boolean
  readonly deletes: 'hard' | 'soft'
  readonly tieChance: number
  readonly lateChance: number
}

/** With none of the oddities. */
export const ordinaryWorld: World = {
  order: 'row version',
  inclusive: false,
  sorts: 'honoured',
  cap: null,
  capHalvesAt: null,
  capVaries: false,
  capArithmetic: 'requested',
  paging: 'works',
  hides: false,
  spoils: false,
  slips: false,
  deletes: 'hard',
  tieChance: 0,
  lateChance: 0,
}

const ownPageSize = 30

export type ModelRow = { readonly id: number; readonly version: bigint; readonly deleted: boolean }

export type ModelUpstream = Source & {
  readonly visible: () => readonly ModelRow[]
  /** Also those that no page shows. */
  readonly all: () => readonly ModelRow[]
  /** Rows whose version became visible after a higher one was. */
  readonly late: ReadonlySet<number>
  beginRun(): void
  change(random: Random): void
  settle(): void
  restore(rows: readonly ModelRow[]): void
  onRequest: () => void
}

export function modelUpstream(world: World, random: Random): ModelUpstream {
  const rows = new Map<number, ModelRow>()
  const uncommitted: ModelRow[] = []
  const late = new Set<number>()
  let version = 0n
  let lastId = 0
  const comesAgain = world.paging === 'last page again' || world.paging === 'first page again'
  let requests = 0
  let slipsAfter = -1
  const isShown = ({ id }: ModelRow) => !world.hides || id % 5 !== 0
  const isSpoilt = ({ id }: ModelRow) => world.spoils && id % 7 === 0
  const cap = () => {
    if (world.cap && world.capVaries) return 1 + random.integer(world.cap)
    const isHalved = world.capHalvesAt !== null && requests >= world.capHalvesAt
    return world.cap && isHalved ? Math.ceil(world.cap / 2) : world.cap
  }

  const nextVersion = () => {
    if (!(version > 0n && random.chance(world.tieChance))) version += BigInt(1 + random.integer(3))
    return version
  }
  let highestShown = 0n
  /** What one transaction wrote becomes visible at once. */
  const show = (...written: ModelRow[]) => {
    const before = highestShown
    for (const row of written) {
      if (row.version <= before) late.add(row.id)
      if (row.version > highestShown) highestShown = row.version
      rows.set(row.id, row)
    }
  }
  const store = (...written: ModelRow[]) => {
    // While a transaction holds a row, nobody else changes it.
    const free = written.filter((row) => !uncommitted.some(({ id }) => id === row.id))
    if (random.chance(world.lateChance)) uncommitted.push(...free)
    else show(...free)
  }
  const existing = () => random.pick([...rows.values()])

  const model: ModelUpstream = {
    onRequest: () => {},
    late,
    all: () => [...rows.values()],
    visible: () => [...rows.values()].filter((row) => isShown(row) && !isSpoilt(row)),
    beginRun() {
      if (world.slips) slipsAfter = random.integer(12)
    },
    change() {
      const kind = random.integer(11)
      if (kind < 3 || rows.size === 0) store({ id: ++lastId, version: nextVersion(), deleted: false })
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
    settle() {
      while (uncommitted.length > 0) commit()
    },
    restore(earlier) {
      rows.clear()
      for (const row of earlier) rows.set(row.id, row)
    },
    sortedBy: () => model,
    async changes(request) {
      requests += 1
      model.onRequest()
      return slipsAfter-- === 0 ? answer([]) : serve(request)
    },
    async list(request) {
      requests += 1
      model.onRequest()
      return answer(paged(ordered([...rows.values()], null), request, null))
    },
    listHasPages: true,
    async lookup(key): Promise<Lookup> {
      model.onRequest()
      const row = rows.get(Number(key))
      return row ? { found: record(row) } : 'gone'
    },
  }
  return model

  function remove(row: ModelRow) {
    if (uncommitted.some(({ id }) => id === row.id)) return
    if (world.deletes === 'hard') rows.delete(row.id)
    else store({ ...row, version: nextVersion(), deleted: !row.deleted })
  }

  function commit() {
    const [row] = uncommitted.splice(random.integer(Math.max(1, uncommitted.length)), 1)
    if (row) show(row)
  }

  function serve(request: ChangesRequest): Answer | Refusal {
    if (request.sorts && world.sorts === 'refused') return { refused: 400 }
    const wanted = [...rows.values()].filter((row) =>
      world.inclusive ? row.version >= request.since : row.version > request.since,
    )
    if (request.sorts && world.sorts === 'within the page')
      return answer(sorted(paged(ordered(wanted, null), request, request.sorts), request.sorts))
    return answer(paged(ordered(wanted, request.sorts), request, request.sorts))
  }

  function sorted(set: readonly ModelRow[], sorts: SortOrder): readonly ModelRow[] {
    const compare = world.sorts === 'as text' ? byText : ascending
    return set.toSorted((a, b) => (sorts === 'ascending' ? compare(a, b) : compare(b, a)))
  }

  function ordered(set: ModelRow[], sorts: ChangesRequest['sorts']): readonly ModelRow[] {
    if (sorts && (world.sorts === 'honoured' || world.sorts === 'as text')) {
      // Where the last page comes for ever, an order that changes would hide that it does.
      const shuffledTies = comesAgain ? set : random.shuffled(set)
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
        return comesAgain ? set : random.shuffled(set)
    }
  }

  function paged(
    set: readonly ModelRow[],
    request: ListRequest,
    sorts: ChangesRequest['sorts'],
  ): readonly ModelRow[] {
    if (world.paging === 'ignored' || (sorts && world.sorts === 'switches paging off')) return set
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
    return set.slice((page - 1) * stride, (page - 1) * stride + size)
  }

  function answer(served: readonly ModelRow[]): Answer {
    return {
      records: served
        .filter(isShown)
        .map((row) => (isSpoilt(row) ? { ...record(row), RowVersion: null } : record(row))),
      bytes: served.length,
    }
  }
}

const ascending = (a: ModelRow, b: ModelRow) => Number(a.version - b.version)
const byText = (a: ModelRow, b: ModelRow) =>
  String(a.version) < String(b.version) ? -1 : Number(a.version !== b.version)
const byId = (a: ModelRow, b: ModelRow) => a.id - b.id

const record = (row: ModelRow) => ({
  Id: row.id,
  RowVersion: row.version.toString(),
  SysDeleted: row.deleted,
})
