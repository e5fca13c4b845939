// What a stream says of how current it is, compared with what the model upstream knows: whatever is said has to hold at the moment at
// which it is said (P18).

import type { Lie, LyingUpstream } from './model-lies.ts'
import type { StoredRow } from './model-store.ts'
import { isOmitted } from './model-upstream.ts'
import { cannotBeReadWhole, type World } from './model-worlds.ts'

export type Freshness = {
  readonly readThroughVersion: bigint
  readonly readThroughTime: Date | null
  readonly settledThroughVersion: bigint | null
  readonly settledThroughTime: Date | null
  readonly deletionsKnownThrough: Date | null
  /** When the last look-back began that reached all the way. */
  readonly lookedBackAt: Date | null
}

export const nothingRead: Freshness = {
  readThroughVersion: 0n,
  readThroughTime: null,
  settledThroughVersion: null,
  settledThroughTime: null,
  deletionsKnownThrough: null,
  lookedBackAt: null,
}

/** As Postgres compares: what is not known does not count. */
export const latest = (a: Date | null, b: Date | null): Date | null => (!a || (b && b > a) ? b : a)
export const earliest = (a: Date | null, b: Date | null): Date | null => (!a || (b && b < a) ? b : a)

type Mirror = {
  readonly rows: ReadonlyMap<string, Pick<StoredRow, 'version' | 'gone' | 'record'>>
  readonly freshness: () => Freshness
}

/** Returns a function that tells in words what is false; nothing: all that is said is true. */
export function openTruth(
  upstream: LyingUpstream,
  { world, lies }: { readonly world: World; readonly lies: readonly Lie[] },
): (mirror: Mirror) => readonly string[] {
  /** Whenever its present version came: no poll and no look-back brings it. */
  const isLeftOut = (id: number) => world.omits && isOmitted(id)
  const { truth, goneSince, visibleSince, isLate, mostAgeMs } = upstream
  // A reading that relies on what is a lie may miss something until it is noticed; and where each page has a cap of its own nothing proves the end.
  const readsAll =
    lies.length === 0 && world.cutBeforeSort === null && !world.capVaries && !cannotBeReadWhole(world)
  /** However old an answer was. */
  const isBefore = (since: Date | null, claimed: Date | null) =>
    since !== null && claimed !== null && since.getTime() + mostAgeMs < claimed.getTime()
  /** Rows of vanished records that a record hid which no poll and no look-back brings: it takes their place when records are counted. */
  const hidden = new Set<string>()

  function hidesOne(fresh: Freshness, rows: Mirror['rows']): boolean {
    return truth.all().some(({ id }) => {
      const mine = rows.get(String(id))
      const isHere = mine !== undefined && mine.gone !== 'absent'
      const [since, read] = [visibleSince(id), fresh.readThroughTime]
      const isPassed =
        read !== null && since < read && fresh.lookedBackAt !== null && since < fresh.lookedBackAt
      return truth.isTwin(id) || (!isHere && (isPassed || isLeftOut(id)))
    })
  }

  return ({ rows, freshness }) => {
    const fresh = freshness()
    const hides = hidesOne(fresh, rows)
    const found: string[] = []
    const told = (what: string, since: Date | null, claimed: Date | null) =>
      found.push(`${what} since ${since?.getTime()}, before ${claimed?.getTime()}`)
    for (const [key, { gone }] of rows) {
      const since = gone === null ? goneSince(Number(key)) : null
      if (since === null) hidden.delete(key)
      else if (hides) hidden.add(key)
      if (isBefore(since, fresh.deletionsKnownThrough) && !hidden.has(key))
        told(`deletions: ${key} is gone`, since, fresh.deletionsKnownThrough)
    }
    for (const { id, version, deleted, text = 0 } of rows.size > 0 ? truth.visible() : []) {
      const mine = rows.get(String(id))
      const isHere = mine !== undefined && ((mine.version ?? -1n) >= version || mine.record.Text === text)
      const isMarkedThere = deleted && world.showsMarked !== 'everywhere' && mine?.gone !== null
      if (isHere || isMarkedThere || truth.isTwin(id)) continue
      const since = visibleSince(id)
      const isRead = readsAll && isBefore(since, fresh.readThroughTime) && !isLate(id) && !isLeftOut(id)
      if (isRead) told(`read: ${id} at ${version} is there`, since, fresh.readThroughTime)
      if (isBefore(since, fresh.settledThroughTime) && version <= (fresh.settledThroughVersion ?? -1n))
        told(`settled: ${id} at ${version} is there`, since, fresh.settledThroughTime)
    }
    return found
  }
}
