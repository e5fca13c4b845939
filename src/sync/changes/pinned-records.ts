// Pinned records: a few dozen rows of different ages whose records are looked at again and again, because the upstream may go back
// (P14). One that fell to an older version is one row to mend. Several that fell mean that a backup was restored: a new epoch begins.
// A replica that lags shows older versions too; so two looks have to agree that are further apart than a replica lags.
// A backup holds all streams: when one stream shows that the upstream went back, the others believe it, even if no pinned record of
// theirs fell.

import type { JsonObject } from '../../json/json.ts'
import { versionedBy } from '../../streams/catalog.ts'
import { readRecords } from '../../streams/record.ts'
import { plural } from '../../util/text.ts'
import { detected, knownBeliefs, learn } from '../capabilities.ts'
import type { ReadingContext } from '../perform-run.ts'
import type { Pin, Run, VersionRange, WentBack } from '../ports/store.ts'

/** A record that is older than its row for less than this may come from a replica that lags. */
export const longestReplicaLagMs = 6 * 60_000
/** When this many fell, it is the upstream that went back, and not single records. */
const manyFell = 3

/** A run looks at the newest pinned record, and at this many of those that were not looked at for the longest time. */
const looksInTurn = 2
/** And at this many that are superfluous, because another of their age is pinned: each gets a last look before it is released. */
const looksBeforeRelease = 6
const rowsBeside = 4
/** Where much changes, more become superfluous than can be looked at. So many wait for their last look, the others are released without. */
const mostWaiting = 24
const looksAtOnce = 4

// ── which are looked at ──────────────────────────────────────────────────────────────────────────────────────

/** The age of a version is its distance to the newest, in steps that grow: ages begin at the distances 1, 2, 3, 4, 6, 8, 12, 16 … */
export function ageOf(top: bigint, version: bigint): number {
  const bits = (version > top ? 1n : top - version + 1n).toString(2)
  return 2 * (bits.length - 1) + Number(bits[1] ?? 1)
}

const beginningOf = (age: number): bigint => ((2n + BigInt(age % 2)) << BigInt(age >> 1)) >> 1n

/** One row is pinned for each age. Returns the ranges of versions whose age has none yet. */
export function rangesToPin(pins: readonly Pin[], top: bigint): readonly VersionRange[] {
  const taken = new Set(pins.map(({ version }) => ageOf(top, version)))
  const ranges: VersionRange[] = []
  for (let age = 1, upTo = top; upTo > 0n; age++) {
    const above = top - beginningOf(age + 1) + 1n
    if (!taken.has(age)) ranges.push({ above: above > 0n ? above : 0n, upTo })
    upTo = above
  }
  return ranges
}

/** All pins of an age but the oldest, which is the closest to the next age. */
export function superfluous(pins: readonly Pin[], top: bigint): ReadonlySet<string> {
  const kept = new Set<number>()
  const oldestFirst = pins.toSorted((a, b) => compare(a.version, b.version))
  return new Set(
    oldestFirst.flatMap(({ key, version }) => {
      const age = ageOf(top, version)
      if (kept.has(age)) return [key]
      kept.add(age)
      return []
    }),
  )
}

/** The superfluous ones that would wait for too long. */
export function tooMany(pins: readonly Pin[], spare: ReadonlySet<string>): readonly Pin[] {
  return pins
    .filter((pin) => spare.has(pin.key) && pin.lostSince === null && !isNext(pin))
    .toSorted((a, b) => Number(a.lookedAt) - Number(b.lookedAt))
    .slice(mostWaiting)
}

/** `spare`: the superfluous ones. Undecided ones are looked at each time, so that it is seen when a lagging replica catches up. */
export function dueNow(pins: readonly Pin[], spare: ReadonlySet<string>, now: Date): readonly Pin[] {
  const waiting = pins
    .filter((pin) => !isNext(pin))
    .toSorted((a, b) => Number(a.lookedAt) - Number(b.lookedAt))
  const newest = pins.toSorted((a, b) => compare(b.version, a.version)).slice(0, 1)
  const due = [
    ...newest,
    ...pins.filter((pin) => isNext(pin) || isUndecided(pin, now)),
    ...waiting.slice(0, looksInTurn),
    ...waiting.filter(({ key }) => spare.has(key)).slice(0, looksBeforeRelease),
  ]
  return [...new Set(due)]
}

const isNext = ({ lookedAt }: Pin): boolean => lookedAt === null

const isUndecided = ({ lostSince }: Pin, now: Date): boolean =>
  lostSince !== null && now.getTime() - lostSince.getTime() < 2 * longestReplicaLagMs

const compare = (a: bigint, b: bigint): number => (a < b ? -1 : Number(a > b))

// ── what the looks say ───────────────────────────────────────────────────────────────────────────────────────

export type Look = Pin & { readonly found: bigint | 'gone' | 'unclear' }

const hasFallen = ({ found, version }: Look): boolean => typeof found === 'bigint' && found < version
const isLost = (look: Look): boolean => hasFallen(look) || (look.found === 'gone' && !look.isMarked)

/** The loss is seen for the first time, or for the first time after so long that no replica lags like that. */
export function isNews(look: Look, now: Date): boolean {
  if (!isLost(look)) return false
  return look.lostSince === null || (isOld(look, now) && !isOld(look, look.lookedAt ?? now))
}

const isOld = ({ lostSince }: Pin, at: Date): boolean =>
  lostSince !== null && at.getTime() - lostSince.getTime() >= longestReplicaLagMs

/** `waiting`: too early to tell it from a replica that lags. Where it `went back`, those that are gone count as fallen. */
export type Verdict = { readonly fallen: readonly Look[] } & (
  | { readonly kind: 'as before' | 'fallen' | 'went back' }
  | { readonly kind: 'waiting'; readonly until: Date }
)

/** `lostSince` of each look is what earlier looks have noted. */
export function judge(looks: readonly Look[], now: Date): Verdict {
  const confirmed = looks.filter((look) => isLost(look) && isOld(look, now))
  const fallen = confirmed.filter(hasFallen)
  const standing = looks.filter((look) => typeof look.found === 'bigint' && !isLost(look))
  // Single records vanish every day. But when all of the newest are gone and older ones are there, a backup was restored. Only a
  // record at its old version counts as there: it may have been written again, or another one has its key.
  const asBefore = standing.filter(({ found, version }) => found === version)
  const newestThere = asBefore.reduce((most, { version }) => (version > most ? version : most), -1n)
  const isProof = fallen.length > 0 || standing.length > 0
  const vanished = confirmed.filter(({ found, version }) => found === 'gone' && version > newestThere)
  const lost = [...fallen, ...vanished]
  if (lost.length >= manyFell && isProof) return { kind: 'went back', fallen: lost }
  const early = looks.filter((look) => hasFallen(look) && !isOld(look, now))
  const [first] = early
  // Whether one fell alone is known only when all that fell have been seen again, late enough.
  if (first) {
    const since = early.map(({ lostSince }) => (lostSince ?? now).getTime())
    return { kind: 'waiting', fallen: early, until: new Date(Math.max(...since) + longestReplicaLagMs) }
  }
  return { kind: fallen.length > 0 ? 'fallen' : 'as before', fallen }
}

/** The pin as it is stored after a look. */
export const noted = (look: Look, now: Date): Pin => ({
  key: look.key,
  version: look.version,
  isMarked: look.isMarked,
  lookedAt: now,
  lostSince: look.found === 'unclear' ? look.lostSince : isLost(look) ? (look.lostSince ?? now) : null,
})

const describe = ({ key, version, found }: Look): string =>
  found === 'gone'
    ? `record ${key}, version ${version} here, is gone`
    : `record ${key} has version ${found} there and ${version} here`

// ── for a run ────────────────────────────────────────────────────────────────────────────────────────────────

type Context = Pick<ReadingContext, 'source' | 'stream' | 'now' | 'signal'> & {
  readonly run: Run<'lookback'>
  /** Look only if something that earlier looks have shown is still undecided. */
  readonly onlyUndecided?: boolean
}
type PinnedOutcome = {
  /** A new epoch began. This run can end: everything is read again. */
  readonly beginsAnew: boolean
  /** Perhaps the upstream went back. Until that is decided, what comes below the position may be an old state, and is not called late. */
  readonly isWaiting: boolean
  readonly note: string | null
}
const nothing: PinnedOutcome = { beginsAnew: false, isWaiting: false, note: null }

type Seen = Look & { readonly record: JsonObject | null }

export async function lookAtPinned(context: Context): Promise<PinnedOutcome> {
  const { run, source, now } = context
  if (!source.lookup || run.state.versionField === null) return nothing
  const isOpen = (pin: Pin) => isNext(pin) || isUndecided(pin, now())
  if (context.onlyUndecided && !(await run.pinned.known()).pins.some(isOpen)) return nothing
  const another = context.onlyUndecided ? null : await run.pinned.shownByAnother(longestReplicaLagMs)
  if (another)
    return await beginAnew(run, {
      looked: 0,
      lost: 0,
      evidence: `as ${another.stream} showed: ${another.evidence}`,
    })
  const { pins, top, spare } = await choose(run)
  if (top === null) return nothing
  run.progress.step('Look at pinned records')
  const dropped = tooMany(pins, spare)
  if (dropped.length > 0) await run.pinned.note(dropped.map((pin) => ({ ...pin, isReleased: true })))
  const kept = pins.filter((pin) => !dropped.includes(pin))
  const seen = await lookAt(context, dueNow(kept, spare, now()))
  if (seen.some((look) => isNews(look, now()))) seen.push(...(await lookAround(context, seen)))
  const doubted = await refuted(context, seen)
  const looks = seen.filter(({ key }) => !doubted.has(key))
  await run.pinned.note([
    ...looks.map((look) => ({
      ...noted(look, now()),
      isReleased: spare.has(look.key) && !isLost(look) && look.found !== 'unclear',
    })),
    ...seen
      .filter(({ key }) => doubted.has(key))
      .map((look) => ({ ...look, lookedAt: now(), lostSince: null, isReleased: false })),
  ])
  // Records at the version of their row are written: that mends a row with other content (P3).
  await write(
    context,
    looks.filter(({ found, version }) => found === version),
  )
  return await act(context, looks)
}

async function choose({ pinned }: Run<'lookback'>) {
  const before = await pinned.known()
  const ranges = before.top === null ? [] : rangesToPin(before.pins, before.top)
  if (ranges.length > 0) await pinned.pinWithin(ranges)
  const { pins, top } = ranges.length > 0 ? await pinned.known() : before
  return { pins, top, spare: top === null ? new Set<string>() : superfluous(pins, top) }
}

/** Looks at all other pinned rows and at the neighbours of those that fell: a restored backup takes whole stretches of versions back. */
async function lookAround(context: Context, seen: readonly Seen[]): Promise<readonly Seen[]> {
  const { pinned } = context.run
  const fallen = seen.filter(hasFallen)
  if (fallen.length > 0) await pinned.pinNext(fallen, rowsBeside)
  const { pins } = await pinned.known()
  return await lookAt(
    context,
    pins.filter(({ key }) => !seen.some((look) => look.key === key)),
  )
}

/**
 * For polls, which see first that a record fell. As one of the newest it is likely to be written again soon. Then it shows nothing any
 * more, but its neighbours still do.
 */
export async function pinFallen(
  { pinned }: Pick<Run<'incremental'>, 'pinned'>,
  fallen: Pick<Pin, 'key' | 'version'>,
): Promise<void> {
  const { pins } = await pinned.known()
  if (pins.some(isNext)) return
  await pinned.pinNext([fallen], rowsBeside)
}

async function lookAt(context: Context, pins: readonly Pin[]): Promise<Seen[]> {
  const { source, signal } = context
  const seen: Seen[] = []
  for (let start = 0; start < pins.length; start += looksAtOnce) {
    signal.throwIfAborted()
    const looks = pins.slice(start, start + looksAtOnce).map(async (pin): Promise<Seen> => {
      const answer = (await source.lookup?.(pin.key, signal)) ?? 'unclear'
      if (typeof answer === 'string') return { ...pin, found: answer, record: null }
      const [row] = read(context, [answer.found]).rows
      return { ...pin, found: row?.version ?? 'unclear', record: answer.found }
    })
    seen.push(...(await Promise.all(looks)))
  }
  return seen
}

function read({ run, stream }: Context, records: readonly JsonObject[]) {
  const { keyFields, versionFields } = versionedBy(stream, run.state.versionField)
  return readRecords(records, keyFields, versionFields)
}

async function write(context: Context, seen: readonly Seen[]): Promise<void> {
  const records = seen.map(({ record }) => record).filter((record) => record !== null)
  if (records.length > 0) await context.run.pages.commit(read(context, records), null)
}

/**
 * Asks `neworchanged` for a few of those that fell. Where it shows them as they are here, they did not fall: the look was answered from
 * an old state. Returns the keys of these; then those that were not asked for are doubted as well.
 */
async function refuted(context: Context, seen: readonly Seen[]): Promise<ReadonlySet<string>> {
  const { run, now, signal } = context
  const doubted = seen.filter((look) => hasFallen(look) && isOld(look, now()))
  const isSorted = knownBeliefs(run.state.beliefs, now()).sorting === 'proven'
  if (doubted.length === 0 || !isSorted) return new Set()
  const source = context.source.sortedBy(run.state.versionField ?? '')
  const asked = doubted.slice(0, manyFell)
  const served = new Set<string>()
  for (const { key, version } of asked) {
    const request = { since: version - 1n, page: 1, pageSize: 20, sorts: 'ascending' } as const
    const answer = await source.changes(request, signal)
    if ('refused' in answer) break
    const { rows } = readRecords(answer.records, context.stream.keyFields, [run.state.versionField ?? ''])
    if (rows.some((row) => row.key === key && row.version !== null && row.version >= version)) served.add(key)
  }
  const unasked = served.size === 0 ? [] : doubted.slice(manyFell).map(({ key }) => key)
  return new Set([...served, ...unasked])
}

async function act(context: Context, looks: readonly Seen[]): Promise<PinnedOutcome> {
  const { run, now } = context
  const verdict = judge(looks, now())
  // While a lagging replica may be the reason, nothing can be said yet.
  if (verdict.kind !== 'waiting' && looks.length > 0) await learnFrom(context, verdict, looks.length)
  if (verdict.kind === 'as before') return nothing
  if (verdict.kind === 'went back') return await beginAnew(run, evidenceOf(verdict.fallen, looks.length))
  const [first, ...more] = verdict.fallen
  if (!first) return nothing
  const others = more.length === 0 ? '' : `, as ${plural(more.length, 'other')} are older than here`
  if (verdict.kind === 'waiting') {
    const note = `${describe(first)}${others}: believed when it is still so at ${verdict.until.toISOString()}`
    return { ...nothing, isWaiting: true, note }
  }
  const keys = new Set(verdict.fallen.map(({ key }) => key))
  const fallen = looks.filter(({ key }) => keys.has(key))
  await run.pinned.invalidateRows(fallen)
  await write(context, fallen)
  return { ...nothing, note: `${plural(fallen.length, 'row')} mended: ${describe(first)}` }
}

/** Did one fall, or so many that it is another upstream? */
async function learnFrom({ run, now }: Context, { kind, fallen }: Verdict, looked: number): Promise<void> {
  const [first] = fallen
  const stand = `${plural(looked, 'pinned record')} looked at`
  const evidence = first
    ? `${fallen.length} of ${stand}: ${describe(first)}`
    : `${stand}, none has a lower version than here`
  const seen = [
    detected('versions_rise', first ? 'no' : 'yes', evidence),
    detected('same_upstream', kind === 'went back' ? 'no' : 'yes', evidence),
  ]
  await learn(run, seen, now())
}

async function beginAnew(run: Run<'lookback'>, found: WentBack): Promise<PinnedOutcome> {
  await run.pinned.beginEpoch(found)
  return {
    ...nothing,
    beginsAnew: true,
    note: `a new epoch begins, everything is read again: ${found.evidence}`,
  }
}

function evidenceOf(lost: readonly Look[], looked: number): WentBack {
  const [first] = lost.toSorted((a, b) => compare(b.version, a.version))
  const since = first?.lostSince?.toISOString() ?? 'before'
  return {
    looked,
    lost: lost.length,
    evidence: `${lost.length} of ${looked} pinned records fell, first seen at ${since} and again now${first ? `: ${describe(first)}` : ''}`,
  }
}
