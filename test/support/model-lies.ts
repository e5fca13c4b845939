// What an upstream may do for a while, or once, that breaks what a reader believes of it: the lies of a world. Each begins in a round
// and ends in a later one, at the latest when the world becomes quiet.

import fc from 'fast-check'
import type { Answer, Refusal, Source } from '../../src/sync/ports/source.ts'
import { type ModelRow, type ModelUpstream, modelUpstream, NoPage } from './model-upstream.ts'
import type { World } from './model-worlds.ts'
import type { Random } from './random.ts'

export const lieKinds = [
  /** Lists show nothing: an error envelope, null, no content, a lost right, another client. Single records: as ever, 404, 403. */
  'lists are empty',
  'lists are empty and reads gone',
  'lists are empty and reads unclear',
  /** The route was removed, or a proxy lost its way. */
  'lists are a 404',
  'some requests are a 404',
  'pages behind the first are a 404',
  'everything fails',
  'some requests fail',
  'lists come from a cache',
  'everything comes from a cache',
  'a replica lags',
  'a replica lags for some reads',
  /** Replication stopped: for lists, for what changed, or for single records. */
  'lists stand still',
  'changes stand still',
  'reads stand still',
  /** A copy of the backup, which others work with: a stage that is called by mistake. */
  'another copy answers',
  /** One of several nodes behind a balancer: set up wrongly, or another version of the program. */
  'another copy answers some requests',
  'some requests are not sorted',
  'some requests include the version asked for, or not',
  'some pages are short',
  'some reads find nothing',
  'rights hide after paging',
  'cut before the sort',
  'neworchanged omits some',
  'the order is another one',
  'sorting is ignored',
  'sorting switches paging off',
  'paging is ignored',
  'the cap is small',
  'since is inclusive or not, the other way',
  'a backup is restored',
  'a backup is restored and versions go on',
  /** A replica takes over that lacks the last few: their versions and ids are handed out again. */
  'a failover loses the last writes',
  /** What was not committed was read, and is rolled back. */
  'a transaction that was read is rolled back',
  /** They are in no answer at all, and come back as they were. */
  'some records are away',
  'a record falls back',
  'a record changes in silence',
  'many records vanish',
  'a transaction stays open',
  /** In the list they cancel each other: as many records as before. */
  'one vanishes when a new one is committed late',
  'some records are malformed',
] as const
export type LieKind = (typeof lieKinds)[number]

/** What the rules of reading do not notice in every world. */
const unnoticed: readonly LieKind[] = ['cut before the sort']

export type Lie = { readonly kind: LieKind; readonly from: number; readonly rounds: number }

export const someLies: fc.Arbitrary<readonly Lie[]> = fc.array(
  fc.record({
    kind: fc.constantFrom(...lieKinds.filter((kind) => !unnoticed.includes(kind))),
    from: fc.integer({ min: 0, max: 5 }),
    rounds: fc.integer({ min: 1, max: 3 }),
  }),
  { maxLength: 3 },
)

/** An old answer may still come this long after the lie began. */
const cachedMs = 20_000
const lagMs = 30_000
/** So many changes a replica may lack that takes over. */
const mostLost = 6

const brief: Partial<Record<LieKind, Partial<World>>> = {
  'rights hide after paging': { hides: 'some' },
  'cut before the sort': { cutBeforeSort: 12 },
  'neworchanged omits some': { omits: true },
  'the order is another one': { order: 'unstable' },
  'sorting is ignored': { sorts: 'ignored' },
  'sorting switches paging off': { sorts: 'switches paging off' },
  'paging is ignored': { paging: 'ignored' },
  'the cap is small': { cap: 4 },
  'some records are malformed': { spoils: true },
}

export type LyingUpstream = {
  readonly source: Source
  readonly truth: ModelUpstream
  /** The lies that are told now. */
  readonly told: ReadonlySet<LieKind>
  /** Of each record, since when it has been there in its version. */
  visibleSince(id: number): Date
  /** Whether a higher version had been there before that. */
  isLate(id: number): boolean
  goneSince(id: number): Date | null
  /** How old its answers are at most while it lies. */
  readonly mostAgeMs: number
  beginRound(round: number): void
  beQuiet(): void
  change(): void
}

type Parts = {
  readonly world: World
  readonly lies: readonly Lie[]
  readonly random: Random
  readonly now: () => Date
}

function ageOf(kind: LieKind): number {
  if (/stand still|another copy/.test(kind)) return Number.POSITIVE_INFINITY
  if (kind.startsWith('a replica lags')) return lagMs
  return kind.includes('a cache') ? cachedMs : 0
}
const mostAgeOf = (lies: readonly Lie[]): number => Math.max(0, ...lies.map(({ kind }) => ageOf(kind)))

/** A page of one record, or of one to three, and no other one: so looks a list of so many. */
const looksShort = ({ cap, capVaries }: World): boolean =>
  cap === 1 || (capVaries && (cap === 2 || cap === 3))

export function lyingUpstream({ world: asEver, lies, random, now }: Parts): LyingUpstream {
  const world: World = { ...asEver }
  const truth = modelUpstream(world, random)
  const told = new Set<LieKind>()
  const past = openPast(
    truth,
    now,
    lies.some(({ kind }) => kind.startsWith('a replica lags')),
  )
  const cached = new Map<string, { readonly answer: unknown; readonly untilMs: number }>()
  let backup: readonly ModelRow[] = []
  /** As it was before each of the last changes. */
  const recent: (readonly ModelRow[])[] = []
  const copy = modelUpstream(world, random)
  const still = new Map<string, ReadonlyMap<number, ModelRow>>()
  const undo = new Map<LieKind, () => void>()

  function set(kind: LieKind): void {
    told.add(kind)
    happen[kind]?.()
    const end = begin[kind]?.()
    if (end) undo.set(kind, end)
    follow()
  }
  function unset(kind: LieKind): void {
    told.delete(kind)
    undo.get(kind)?.()
    undo.delete(kind)
  }
  function standStill(what: string) {
    still.set(what, new Map(truth.all().map((row) => [row.id, row])))
    return () => void still.delete(what)
  }
  const pickRow = () => (truth.all().length > 0 ? random.pick(truth.all()) : null)
  const happen: Partial<Record<LieKind, () => void>> = {
    'a backup is restored': () => truth.restore(backup, false),
    'a backup is restored and versions go on': () => truth.restore(backup),
    'a failover loses the last writes'() {
      const earlier = recent.at(-1 - random.integer(recent.length))
      if (earlier) truth.restore(earlier, false)
    },
    'another copy answers': () => copy.restore(backup, false),
    'another copy answers some requests': () => copy.restore(backup, false),
    'a record falls back'() {
      const row = pickRow()
      const earlier = row && backup.find(({ id }) => id === row.id)
      if (earlier) truth.put(earlier)
    },
    'a record changes in silence'() {
      const row = pickRow()
      if (row) truth.put({ ...row, text: -1 - random.integer(1_000_000) })
    },
    'many records vanish'() {
      truth.restore(truth.all().filter(() => random.chance(0.6)))
    },
    'a transaction stays open': () => truth.hold(random),
  }
  /** With what happens at their end. */
  const begin: Partial<Record<LieKind, () => () => void>> = {
    'a transaction that was read is rolled back': () => truth.beginDirty(random),
    'some records are away'() {
      const share = random.pick([0.05, 0.15, 0.6])
      const ids = truth.all().map(({ id }) => id)
      return truth.takeAway(ids.filter(() => random.chance(share)))
    },
    'one vanishes when a new one is committed late': () => truth.holdNew(random),
    'lists stand still': () => standStill('list'),
    'changes stand still': () => standStill('changes'),
    'reads stand still': () => standStill('record'),
  }
  /** The world as it is while these lies are told. */
  function follow(): void {
    Object.assign(world, asEver)
    for (const kind of told) Object.assign(world, brief[kind])
    if (told.has('since is inclusive or not, the other way'))
      Object.assign(world, { inclusive: !asEver.inclusive })
    past.note()
  }

  async function ask<Any>(what: string, asked: object, right: () => Promise<Any>): Promise<Any> {
    if (told.has('everything fails')) throw new Error('the upstream does not answer')
    if (told.has('some requests fail') && random.chance(0.05)) throw new Error('a node is ill')
    const lags =
      told.has('a replica lags') || (told.has('a replica lags for some reads') && random.chance(0.5))
    const old = still.get(what)
    truth.readFrom = lags ? past.at(new Date(now().getTime() - lagMs)) : old ? () => old : null
    const isCached =
      told.has('everything comes from a cache') || (what !== 'record' && told.has('lists come from a cache'))
    const name = isCached ? `${what} ${text(asked)}` : ''
    const known = isCached ? cached.get(name) : undefined
    if (known && known.untilMs > now().getTime()) {
      truth.onRequest()
      return known.answer as Any
    }
    const answer = await right()
    if (isCached) cached.set(name, { answer, untilMs: now().getTime() + cachedMs })
    return answer
  }
  const isMissing = (page: number) =>
    told.has('lists are a 404') ||
    (told.has('some requests are a 404') && random.chance(0.05)) ||
    (told.has('pages behind the first are a 404') && page > 1 && !looksShort(world))
  const isEmpty = () => [...told].some((kind) => kind.startsWith('lists are empty'))
  const listed = async <Any extends Answer | Refusal>(
    page: number,
    right: () => Promise<Any>,
  ): Promise<Any | Answer> => {
    if (isMissing(page)) {
      truth.onRequest()
      throw new NoPage('status 404')
    }
    if (!isEmpty()) return await right()
    await right().catch(() => {})
    return { records: [], bytes: 2 }
  }
  const text = (request: object) =>
    JSON.stringify(request, (_, value) => (typeof value === 'bigint' ? String(value) : value))
  const answering = () => {
    copy.onRequest = truth.onRequest
    const isOther =
      told.has('another copy answers') ||
      (told.has('another copy answers some requests') && random.chance(0.3))
    return isOther ? copy : truth
  }
  /** What one of several nodes does in its own way, for one request. */
  const differing: readonly (readonly [LieKind, () => Partial<World>])[] = [
    ['some requests are not sorted', () => ({ sorts: 'ignored' })],
    ['some requests include the version asked for, or not', () => ({ inclusive: !asEver.inclusive })],
    ['some pages are short', () => ({ cap: 5 })],
  ]
  async function byNode<Any>(right: () => Promise<Any>): Promise<Any> {
    const ofNode = differing.filter(([kind]) => told.has(kind) && random.chance(0.3))
    if (ofNode.length === 0) return await right()
    const before = { ...world }
    for (const [, oddity] of ofNode) Object.assign(world, oddity())
    const answer = right()
    Object.assign(world, before)
    return await answer
  }
  const source: Source = {
    sortedBy: () => source,
    changes: (request, signal) =>
      ask('changes', request, () =>
        listed(request.page, () => byNode(() => answering().changes(request, signal))),
      ),
    list: (request, signal) =>
      ask('list', request, () => listed(request.page, () => byNode(() => answering().list(request, signal)))),
    listHasPages: true,
    lookup: (key, signal) =>
      ask('record', { key }, async () => {
        const found = (await answering().lookup?.(key, signal)) ?? 'unclear'
        if (told.has('lists are empty and reads gone')) return 'gone'
        if (told.has('some reads find nothing') && random.chance(0.3)) return 'gone'
        return told.has('lists are empty and reads unclear') ? 'unclear' : found
      }),
  }
  return {
    source,
    truth,
    told,
    visibleSince: past.since,
    isLate: past.isLate,
    goneSince: past.goneSince,
    mostAgeMs: mostAgeOf(lies),
    change() {
      recent.push(truth.all())
      if (recent.length > mostLost) recent.shift()
      truth.change(random)
      if (told.has('another copy answers') || told.has('another copy answers some requests'))
        copy.change(random)
      past.note()
    },
    beginRound(round) {
      if (round === 1) backup = truth.all()
      for (const { kind, from, rounds } of lies) {
        if (from === round) set(kind)
        if (from + rounds === round) unset(kind)
      }
      follow()
    },
    beQuiet() {
      for (const kind of told) unset(kind)
      truth.readFrom = null
      follow()
    },
  }
}

/** What there was at which time. */
function openPast(truth: ModelUpstream, now: () => Date, keepsStates: boolean) {
  const states: { readonly at: Date; readonly rows: ReadonlyMap<number, ModelRow> }[] = []
  const since = new Map<number, { readonly row: ModelRow; readonly at: Date; readonly isLate: boolean }>()
  let highest = -1n
  const gone = new Map<number, Date>()
  /** There, and shown to nobody. What rights hide becomes visible when they are back. */
  let hidden = new Set<number>()

  function note(): void {
    const all = truth.all()
    const at = now()
    const there = new Set<number>()
    const before = highest
    const shown = new Set(truth.visible().map(({ id }) => id))
    for (const row of all) {
      const { id } = row
      there.add(id)
      gone.delete(id)
      const isShownAgain = hidden.has(id) && shown.has(id)
      if (since.get(id)?.row !== row || isShownAgain)
        since.set(id, { row, at, isLate: row.version <= before })
      if (row.version > highest) highest = row.version
    }
    for (const id of since.keys())
      if (!there.has(id) && !gone.has(id)) {
        gone.set(id, at)
        since.delete(id)
      }
    hidden = new Set([...there].filter((id) => !shown.has(id)))
    if (keepsStates) states.push({ at, rows: new Map(all.map((row) => [row.id, row])) })
  }
  return {
    note,
    since: (id: number) => since.get(id)?.at ?? now(),
    isLate: (id: number) => since.get(id)?.isLate ?? false,
    goneSince: (id: number) => gone.get(id) ?? null,
    at: (time: Date) => () => states.findLast(({ at }) => at <= time)?.rows ?? states[0]?.rows ?? new Map(),
  }
}
