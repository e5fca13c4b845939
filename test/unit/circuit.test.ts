// A host that hangs is tried by one request after the other. Those that hang are sent again once another is answered (P10, P19).

import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { openCircuits } from '../../src/upstream/http/circuit.ts'
import { UpstreamError } from '../../src/upstream/http/errors.ts'
import { sendWatched } from '../../src/upstream/http/pacing.ts'
import type { HttpAnswer, HttpRequest } from '../../src/upstream/http/transport.ts'
import { systemClock } from '../../src/util/waiting.ts'

const request: HttpRequest = {
  ...{ method: 'GET', url: new URL('http://upstream.example/Assignment'), headers: {}, body: null },
}
const answer = { status: 200, headers: {}, bytes: Buffer.from('[]') } as HttpAnswer
const longestMs = 60_000
const { signal } = new AbortController()

/** Until it is ended from without. */
const hang = (until: AbortSignal): Promise<HttpAnswer> =>
  new Promise((_, reject) => until.addEventListener('abort', () => reject(until.reason)))
const told = { code: 'UPSTREAM_TIMEOUT', status: null, problem: 'no answer in time.' } as const

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

async function hostThatHangs() {
  const circuits = openCircuits({ clock: systemClock, shared: null })
  const circuitOf = (source: string) =>
    circuits.of('http://upstream.example', { name: `${source}.assignment`, source }, longestMs)
  const [one, other] = [circuitOf('one'), circuitOf('other')]
  for (const circuit of [one, other, one, other]) await (await circuit.begin(request)).failed(told)
  await expect(one.begin(request)).rejects.toMatchObject({ code: 'UPSTREAM_LEFT_ALONE' })
  await vi.advanceTimersByTimeAsync(10_000)
  return { one, other }
}

it('sends a try again that hangs, once the host has answered another one', async () => {
  const { one, other } = await hostThatHangs()
  let ended: unknown = null
  void sendWatched(one, request, signal, hang).catch((error) => {
    ended = error
  })
  await vi.advanceTimersByTimeAsync(30_000)
  expect(ended).toBeNull()
  await sendWatched(other, request, signal, async () => answer)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(ended).toBeInstanceOf(UpstreamError)
  expect(ended).toMatchObject({ code: 'UPSTREAM_TIMEOUT', retryable: true })
  // It was no failure of the host.
  expect(await one.heldUntil()).toBeNull()
  await expect(sendWatched(one, request, signal, async () => answer)).resolves.toBe(answer)
})

it('lets a request be that takes long while nothing is wrong with its host', async () => {
  const circuits = openCircuits({ clock: systemClock, shared: null })
  const circuit = circuits.of('http://upstream.example', { name: 'one.assignment', source: 'one' }, longestMs)
  const slow = sendWatched(circuit, request, signal, async (until) => {
    await new Promise((resolve) => setTimeout(resolve, 50_000))
    until.throwIfAborted()
    return answer
  })
  await sendWatched(circuit, request, signal, async () => answer)
  await vi.advanceTimersByTimeAsync(50_000)
  await expect(slow).resolves.toBe(answer)
})

it('is tried by one at once when the clock was put back, and by others when that one failed and its time has come', async () => {
  const { one, other } = await hostThatHangs()
  await (await one.begin(request)).failed(told)
  await expect(other.begin(request)).rejects.toMatchObject({ code: 'UPSTREAM_LEFT_ALONE' })
  vi.setSystemTime(Date.now() - 1_800_000)
  expect((await one.heldUntil())?.getTime()).toBeLessThanOrEqual(Date.now())
  const tried = await one.begin(request)
  await expect(other.begin(request)).rejects.toMatchObject({ code: 'UPSTREAM_LEFT_ALONE' })
  await tried.failed(told)
  await expect(other.begin(request)).rejects.toMatchObject({ code: 'UPSTREAM_LEFT_ALONE' })
  await vi.advanceTimersByTimeAsync(20_000)
  const triedAgain = await other.begin(request)
  triedAgain.answered()
  await vi.advanceTimersByTimeAsync(1)
  expect(await one.heldUntil()).toBeNull()
})
