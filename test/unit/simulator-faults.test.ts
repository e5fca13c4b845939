// When a fault strikes: its conditions, its schedule, and the text it is written as.

import { describe, expect, it } from 'vitest'
import type { Incoming } from '../../src/simulator/answer.ts'
import { type Fault, faultKinds, mildMix, readFault, scheduleFaults } from '../../src/simulator/faults.ts'
import { emptyRow } from '../../src/simulator/row.ts'

const request = (parts: Partial<Incoming> = {}): Incoming => ({
  method: 'GET',
  service: 'assignment',
  path: '/api/Assignment/neworchanged/5',
  query: new Map(),
  headers: {},
  body: Buffer.alloc(0),
  ...parts,
})

/** Which of a number of equal requests a fault strikes, counted from 1. */
function strikes(fault: Partial<Fault>, requests = 12, seed = 1): number[] {
  const faults = scheduleFaults(seed)
  faults.add({ kind: 500, ...fault })
  return Array.from({ length: requests }, (_, index) => (faults.faultFor(request()) ? index + 1 : 0)).filter(
    Boolean,
  )
}

describe('a fault', () => {
  it('strikes the nth, every nth, or a number of times', () => {
    expect(strikes({ nth: 3 })).toEqual([3])
    expect(strikes({ every: 5 })).toEqual([5, 10])
    expect(strikes({ times: 2 })).toEqual([1, 2])
    expect(strikes({ every: 2, times: 2 })).toEqual([2, 4])
  })

  it('strikes by chance, and the same seed has the same luck', () => {
    const some = strikes({ probability: 0.3 }, 1_000)
    expect(some.length).toBeGreaterThan(220)
    expect(some.length).toBeLessThan(380)
    expect(strikes({ probability: 0.3 }, 1_000)).toEqual(some)
    expect(strikes({ probability: 0.3 }, 1_000, 2)).not.toEqual(some)
  })

  it('strikes only what its conditions name', () => {
    const struck = (fault: Partial<Fault>, parts: Partial<Incoming>) => {
      const faults = scheduleFaults(1)
      faults.add({ kind: 500, ...fault })
      return faults.faultFor(request(parts)) !== null
    }
    expect(struck({ path: 'NEWORCHANGED' }, {})).toBe(true)
    expect(struck({ path: /AssignmentNote/ }, {})).toBe(false)
    expect(struck({ method: 'post' }, { method: 'POST' })).toBe(true)
    expect(struck({ method: 'post' }, {})).toBe(false)
    expect(struck({ page: 2 }, { query: new Map([['page', '2']]) })).toBe(true)
    expect(struck({ page: 2 }, {})).toBe(false)
    expect(struck({ while: ({ path }) => path.endsWith('/6') }, {})).toBe(false)
  })

  it('spares the sign-in unless its path is named', () => {
    const signIn = request({ service: 'auth', method: 'POST', path: '/Token/GenerateAccessTokenFromCache' })
    const faults = scheduleFaults(1)
    faults.add({ kind: 500 })
    expect(faults.faultFor(signIn)).toBeNull()
    faults.add({ kind: 503, path: 'Token' })
    expect(faults.faultFor(signIn)?.kind).toBe(503)
  })

  it('that waits for a record strikes only answers with it', () => {
    const faults = scheduleFaults(1)
    faults.add({ kind: 500, record: 7 })
    expect(faults.faultFor(request())).toBeNull()
    expect(faults.faultForRows(request(), [{ ...emptyRow, id: 6 }])).toBeNull()
    expect(faults.faultForRows(request(), [{ ...emptyRow, id: 7 }])?.kind).toBe(500)
  })

  it('can be taken away, alone and with the others', () => {
    const faults = scheduleFaults(1)
    const remove = faults.add({ kind: 500 })
    remove()
    expect(faults.faultFor(request())).toBeNull()
    faults.add({ kind: 500 })
    faults.clear()
    expect(faults.faultFor(request())).toBeNull()
    expect(faults.struck).toBe(0)
  })
})

describe('readFault', () => {
  it('reads kinds and conditions', () => {
    expect(readFault('429:probability=0.05,path=neworchanged,retry-after=1')).toEqual({
      kind: 429,
      probability: 0.05,
      path: 'neworchanged',
      retryAfterSeconds: 1,
    })
    expect(readFault('503:retry-after-date=2')).toEqual({
      kind: 503,
      retryAfterSeconds: 2,
      retryAfterAs: 'date',
    })
    expect(
      readFault('slow-drip:bytes-per-second=10,nth=2,times=3,every=4,page=5,record=6,method=GET'),
    ).toEqual({
      kind: 'slow-drip',
      bytesPerSecond: 10,
      nth: 2,
      times: 3,
      every: 4,
      page: 5,
      record: 6,
      method: 'GET',
    })
    for (const kind of faultKinds) expect(readFault(kind)).toEqual({ kind })
  })

  it.each([
    '',
    '200',
    '600',
    'nonsense',
    '500:probability=2',
    '500:probability=',
    '500:nth=0',
    '500:nth',
    '500:colour=red',
    '429:retry-after=soon',
    '500:path=',
  ])('refuses %j and says what to write', (text) => {
    expect(readFault(text)).toEqual({ wrong: expect.stringMatching(/should be|neither|no condition/) })
  })

  it('has every kind in the mild mix, but those that have no end', () => {
    const endless: readonly string[] = ['endless', 'gzip-bomb']
    expect(new Set(mildMix.map(({ kind }) => kind))).toEqual(
      new Set([...faultKinds.filter((kind) => !endless.includes(kind)), 401, 403, 404, 429, 500, 503]),
    )
  })
})
