// What must hold of a model store at every moment, and in which order a model upstream may answer.

import { expect } from 'vitest'
import type { Source } from '../../src/sync/ports/source.ts'
import type { ModelStore } from './model-store.ts'
import type { Random } from './random.ts'

/** Of requests that are under way together, any may be answered first. */
export function withOtherTiming(upstream: Source, random: Random): Source {
  return {
    ...upstream,
    sortedBy: () => withOtherTiming(upstream, random),
    async changes(request, signal) {
      const answer = await upstream.changes(request, signal)
      for (let turns = request.givesWay ? random.integer(12) : 0; turns > 0; turns--) await null
      return answer
    },
  }
}

type Watched = { visible(): readonly { id: number; version: bigint }[]; beginRun(): void }

/**
 * Checks P6 after every write, for what the run has moved the position past or counts as read above it, against what was visible when
 * it began.
 */
export function watch(
  store: ModelStore,
  upstream: Watched,
  chaos: () => void,
  isBlind: () => boolean = () => false,
): void {
  let visibleThen = upstream.visible()
  let positionThen = store.position()
  const { openRun } = store
  store.openRun = (kind, stream) => {
    visibleThen = upstream.visible()
    positionThen = store.position()
    upstream.beginRun()
    return openRun(kind, stream)
  }
  store.onWrite = (moment) => {
    const position = store.position()
    const unread = store.unread()
    if (moment === 'after' && (position !== positionThen || unread) && !isBlind()) {
      const current = new Map(upstream.visible().map((row) => [row.id, row.version]))
      const countsAsRead = (version: bigint) =>
        version <= position ||
        (unread !== null &&
          version <= unread.upTo &&
          !unread.ranges.some((range) => version > range.above && version <= range.upTo))
      const lost = visibleThen.filter(
        ({ id, version }) =>
          version > positionThen &&
          countsAsRead(version) &&
          current.get(id) === version &&
          !((store.rows.get(String(id))?.version ?? -1n) >= version),
      )
      expect(lost, `lost at or below position ${position}`).toEqual([])
    }
    chaos()
  }
}
