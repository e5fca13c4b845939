// What a run did step by step: how it is kept, and how it is shown.

import { describe, expect, it } from 'vitest'
import { openSteps } from '../../src/streams/run-steps.ts'
import { markupOf } from '../../src/web/html.ts'
import { stepsFigure } from '../../src/web/run-charts.ts'

describe('the steps of a run', () => {
  it('last until the next one begins, and hold what was asked for meanwhile', () => {
    const steps = openSteps()
    steps.begin('List everything', 0)
    steps.add({ requests: 1, records: 100 }, 40)
    steps.begin('List everything', 50)
    steps.add({ requests: 1, records: 20 }, 90)
    steps.begin('Look up 2 missing rows one by one', 100)
    steps.add({ requests: 2, records: 0 }, 130)
    expect(steps.told(140)).toEqual([
      { what: 'List everything', from: 0, to: 100, requests: 2, records: 120, waitedMs: 0, waits: [] },
      {
        ...{ what: 'Look up 2 missing rows one by one', from: 100, to: 140 },
        ...{ requests: 2, records: 0, waitedMs: 0, waits: [] },
      },
    ])
  })

  it('say how long they waited, and for what', () => {
    const steps = openSteps()
    steps.begin('List everything', 0)
    steps.look(null, 1_000)
    steps.look('429', 2_000)
    steps.look('429', 3_000)
    steps.look(null, 4_000)
    steps.look('503', 9_000)
    steps.begin('Look behind the end of the list', 9_100)
    steps.look('503', 10_000)
    const [listing, behind] = steps.told(11_000)
    expect(listing).toMatchObject({
      waitedMs: 7_000,
      waits: [
        { from: 1_000, to: 3_000, what: '429' },
        { from: 4_000, to: 9_000, what: '503' },
      ],
    })
    expect(behind).toMatchObject({ waitedMs: 900, waits: [{ from: 9_100, to: 10_000, what: '503' }] })
  })

  it('stay few, however often a run goes to and fro (P10)', () => {
    const steps = openSteps()
    for (let index = 0; index < 10_000; index++) {
      steps.begin(index % 2 === 0 ? 'Read by row version' : 'Read records that share a version', index)
      steps.look(`waits for ${index}`, index)
      steps.add({ requests: 1, records: 2 }, index)
    }
    const told = steps.told(10_000)
    expect(told).toHaveLength(25)
    expect(told.at(-1)).toMatchObject({ what: 'Further steps', from: 24, to: 10_000 })
    expect(told.reduce((sum, { requests }) => sum + requests, 0)).toBe(10_000)
    expect(JSON.stringify(told).length).toBeLessThan(5_000)
  })

  it('are told where nothing named them', () => {
    const steps = openSteps()
    steps.add({ requests: 1, records: 1 }, 5)
    expect(steps.told(9)).toMatchObject([{ what: 'Ask the upstream', from: 5, to: 9, requests: 1 }])
  })

  it('are shown with their times, as a sentence, and as a table', () => {
    const step = { requests: 0, records: 0, waitedMs: 0, waits: [] }
    const steps = [
      {
        ...{ ...step, what: 'List everything', from: 0, to: 8_000, requests: 72, records: 60_003 },
        ...{ waitedMs: 2_000, waits: [{ from: 1_000, to: 3_000, what: 'the service <answers> 429' }] },
      },
      { ...step, what: 'Block deletions: too many are missing', from: 8_000, to: 8_001 },
    ]
    const shown = markupOf(stepsFigure(steps, { isBlocked: true, isFailed: false, of: null }))
    expect(shown).toContain(
      'List everything · 8 s<tspan class="alt"> · 72 requests · 60,003 records · waited 2 s</tspan>',
    )
    expect(shown).toContain('2 steps: List everything, 8 s; Block deletions: too many are missing, 1 ms')
    expect(shown).toContain('Waited 2 s: the service &lt;answers&gt; 429')
    expect(shown).toContain('>blocked</li>')
    expect(shown).toContain('Show the numbers')
    // What is over in a moment is seen all the same, within the picture.
    expect(shown).toContain('<rect class="f-bad" x="99.50%" width="0.50%"')
  })
})
