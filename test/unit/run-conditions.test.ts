// Which source reads a run: sources are opened anew and closed while runs wait.

import { expect, it } from 'vitest'
import { runBySource } from '../../src/worker/run-conditions.ts'

const request = { stream: 'acme.assignment', kind: 'incremental', cause: 'tick' } as const
const outcome = {
  ...{ stream: request.stream, kind: request.kind, runId: '1', note: null, error: null },
  tally: { inserted: 0, updated: 0, unchanged: 0, rescued: 0, quarantined: 0, requests: 0, bytes: 0 },
  ...{ isComplete: true, yielded: false },
} as const

/** A source that is open reads, and says by whose settings. Closing it ends the run. */
function openedAs(settings: string) {
  const closing = new AbortController()
  const read = async ({ signal }: { readonly signal: AbortSignal }) => ({
    ...outcome,
    status: signal.aborted ? ('stopped' as const) : ('done' as const),
    note: settings,
  })
  return { read, closing }
}

function fleet() {
  let open: ReturnType<typeof openedAs> | null = openedAs('first')
  return {
    open: (settings: string | null) => {
      open?.closing.abort()
      open = settings === null ? null : openedAs(settings)
    },
    run: runBySource(
      { readerOf: () => open?.read ?? null, closingOf: () => open?.closing.signal ?? null },
      request,
    ),
  }
}
const hooks = { signal: new AbortController().signal } as Parameters<ReturnType<typeof fleet>['run']>[0]

it('a run is read by the source that is open when it begins, whatever was open when it was taken up (P19)', async () => {
  const sources = fleet()
  sources.open('second')
  expect(await sources.run(hooks)).toMatchObject({ status: 'done', note: 'second', isPutOff: false })
})

it('a run whose source is not open any more reads nothing, and is no failure (P19)', async () => {
  const sources = fleet()
  sources.open(null)
  expect(await sources.run(hooks)).toBeNull()
})

it('a run that ends because its source is closed is put off', async () => {
  const sources = fleet()
  const closed = openedAs('closed')
  closed.closing.abort()
  const run = runBySource({ readerOf: () => closed.read, closingOf: () => closed.closing.signal }, request)
  expect(await run(hooks)).toMatchObject({ status: 'stopped', isPutOff: true })
  expect(await sources.run(hooks)).toMatchObject({ status: 'done', isPutOff: false })
})
