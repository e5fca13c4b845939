// The metrics say what is, and the manual says what their labels mean.

import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { exportedMetrics } from '../../scripts/reference/metrics.ts'
import type { Part } from '../../src/problems/parts.ts'
import type { ReadingProgress } from '../../src/streams/load-progress.ts'
import { addStateGauges, openMetrics } from '../../src/web/metrics.ts'

describe('metrics', () => {
  it('leave a part out that is there no more, such as the only receiver of alerts when it was removed', async () => {
    const { registry } = openMetrics()
    const part = { state: 'down', since: new Date(), reason: null, whatToDo: null, isUp: false } as const
    let parts: readonly Part[] = [
      { ...part, name: 'queue', kind: 'queue' },
      { ...part, name: 'alerts', kind: 'receiver' },
    ]
    const none = async () => null
    const states = { overview: none, beliefs: none, problems: none, progress: none, queueCounts: none }
    const refresh = addStateGauges(registry, { ...states, parts: () => parts })
    const up = async () => {
      await refresh()
      return (await registry.getSingleMetricAsString('tidemark_up')).split('\n').slice(2)
    }
    expect(await up()).toEqual(['tidemark_up{part="queue"} 0', 'tidemark_up{part="alerts"} 0'])
    parts = parts.slice(0, 1)
    expect(await up()).toEqual(['tidemark_up{part="queue"} 0'])
  })

  it('tell a reading of all that is there already from a first load', async () => {
    const now = new Date()
    const load: ReadingProgress = {
      ...{ stream: 'assignment', reading: 'first load', beganAt: now, updatedAt: now, endedAt: null },
      ...{ isComplete: false, rows: 50, rowsAt: now, requests: 1, bytes: 1, total: 100, totalAt: now },
      ...{
        totalRequests: 1,
        share: 0.5,
        waitsFor: null,
        waitsUntil: null,
        error: null,
        marks: [],
        unread: null,
      },
    }
    const none = async () => null
    const states = { overview: none, beliefs: none, problems: none, queueCounts: none, parts: () => [] }
    const told = async (isAgain: boolean) => {
      const { registry } = openMetrics()
      await addStateGauges(registry, { ...states, progress: async () => [{ ...load, isAgain }] })()
      return (await registry.getSingleMetricAsString('tidemark_progress_ratio')).split('\n').slice(2)
    }
    expect(await told(false)).toEqual([
      'tidemark_progress_ratio{stream="assignment",reading="first load"} 0.5',
    ])
    expect(await told(true)).toEqual([
      'tidemark_progress_ratio{stream="assignment",reading="reading again"} 0.5',
    ])
  })

  it('have labels that the reference explains', () => {
    const page = readFileSync(new URL('../../docs/reference/metrics.md', import.meta.url), 'utf8')
    const explained = new Set([...page.matchAll(/^\| `(\w+)`.* \| .* \|$/gm)].map(([, label]) => label))
    const used = new Set(
      exportedMetrics()
        .filter(({ name }) => !/^tidemark_(process|nodejs)_/.test(name))
        .flatMap(({ labels }) => labels),
    )
    expect([...used].filter((label) => !explained.has(label))).toEqual([])
    expect(page).toMatch(/`status` of runs \|.*`inconclusive`/)
    expect(page).toMatch(/`part` \|.*`alerts`/)
  })
})
