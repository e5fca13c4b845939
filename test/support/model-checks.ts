// What must hold of a model store at every moment, and in which order a model upstream may answer.

import { expect } from 'vitest'
import type { Source } from '../../src/sync/ports/source.ts'
import type { Unread } from '../../src/sync/ports/store.ts'
import type { ModelStore } from './model-store.ts'
import type { Random } from './random.ts'

/** For what is checked with each write: `expect` takes longer than all that it checks. */
export function expectNone(found: readonly unknown[], what: string): void {
  if (found.length > 0) expect(found, what).toEqual([])
}

/** Of requests that are under way together, any may be answered first. */
export function withOtherTiming(upstream: Source, random: Random): Source {
  return {
    ...upstream,
    sortedBy: () => withOtherTiming(upstream, random),
    async changes(request, signal) {
      const answer = await upstream.changes(request, signal)
      for (let turns = request.lowPriority ? random.integer(12) : 0; turns > 0; turns--) await null
      return answer
    },
  }
}

/** What searches for deletions and reconciles do: rows whose records are gone are known no more. */
export function forgetGone(store: ModelStore, upstream: { all(): readonly { readonly id: number }[] }): void {
  const there = new Set(upstream.all().map(({ id }) => String(id)))
  for (const key of [...store.rows.keys()]) if (!there.has(key)) store.rows.delete(key)
}

type Watched = {
  visible(): readonly { id: number; version: bigint }[]
  beginRun(): void
  /** Rows whose version became visible after a higher one was. */
  readonly late?: ReadonlySet<number>
}

/**
 * What a poll that is called complete claims, by the time through which all is read, is checked when it ends (P18). Checks P6 after every write, for what the run has moved the position past or counts as read above it, against what was visible when
 * it began. What counted as read by then was checked in the run that read it: what became visible there since is late.
 */
export function watch(
  store: ModelStore,
  upstream: Watched,
  chaos: () => void,
  /** Of this row nobody could know; without a row: of none. */
  isBlind: (row?: { readonly id: number; readonly version: bigint }) => boolean = () => false,
  /** False: not everywhere is it told that something is not shown. */
  isToldWhole = true,
): void {
  const readThen = { position: store.position(), unread: store.unread(), visible: upstream.visible() }
  const { openRun } = store
  store.openRun = (kind, stream) => {
    Object.assign(readThen, {
      position: store.position(),
      unread: store.unread(),
      visible: upstream.visible(),
    })
    upstream.beginRun()
    return openRun(kind, stream)
  }
  const isHere = ({ id, version }: { id: number; version: bigint }) =>
    (store.rows.get(String(id))?.version ?? -1n) >= version
  store.onFinish = ({ isComplete, status }, kind) => {
    if (kind !== 'incremental' || !isComplete || status !== 'done' || isBlind() || !isToldWhole) return
    const current = new Map(upstream.visible().map((row) => [row.id, row.version]))
    const lost = readThen.visible.filter(
      (row) =>
        current.get(row.id) === row.version && !upstream.late?.has(row.id) && !isHere(row) && !isBlind(row),
    )
    expectNone(lost, 'read through, and not here')
  }
  store.onWrite = (moment) => {
    const position = store.position()
    const unread = store.unread()
    if (moment === 'after' && (position !== readThen.position || unread) && !isBlind()) {
      const current = new Map(upstream.visible().map((row) => [row.id, row.version]))
      const lost = readThen.visible.filter(
        ({ id, version }) =>
          countsAsRead(version, { position, unread }) &&
          !countsAsRead(version, readThen) &&
          current.get(id) === version &&
          !isHere({ id, version }) &&
          !isBlind({ id, version }),
      )
      expectNone(lost, `lost at or below position ${position}`)
    }
    chaos()
  }
}

const countsAsRead = (
  version: bigint,
  { position, unread }: { position: bigint; unread: Unread | null },
): boolean =>
  version <= position ||
  (unread !== null &&
    version <= unread.upTo &&
    !unread.ranges.some((range) => version > range.above && version <= range.upTo))
