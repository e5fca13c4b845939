// Proves that the records of missing rows are gone (P7). A few are looked up one by one. Many are proven slice by slice, where the list is
// sorted by key and has hidden nothing so far: each slice of it is read once more, and must lack the same keys; one of them is looked up.
// If one of those is there, lists hide records: then each is looked up, no faster than the upstream is to be asked.

import { setTimeout } from 'node:timers/promises'
import type { JsonObject } from '../../json/json.ts'
import { isFlaggedDeleted, type Records, readRecords } from '../../streams/record.ts'
import { plural } from '../../util/text.ts'
import { usable } from '../capabilities.ts'
import type { ShownKeys } from '../deletions/shown-keys.ts'
import { type KeyedList, KeyOrderBroken, keyListing, keyOrderOf, listByKey } from '../lists/by-key.ts'
import type { ReadingContext } from '../perform-run.ts'
import { type Gone, provenByParts } from '../ports/audits.ts'
import type { Run, Written } from '../ports/store.ts'

/** So many records are looked up in a minute at most. */
export type Paced = ReadingContext & {
  readonly lookupsPerMinute: number
  readonly wait?: (ms: number, signal: AbortSignal) => Promise<void>
}
type Proof = Paced & {
  readonly run: Run<'reconcile'>
  /** What the list has shown just now. */
  readonly shown: ShownKeys
  /** Of records that the list lacked and that are there. */
  readonly onFound: (written: Written, page: Records) => Promise<void>
  readonly onGone: (keys: readonly string[], all?: number) => Promise<void>
}
/** How many were there, and of how many a look told nothing. */
type Proven = { readonly alive: number; readonly unclear: number }

const keysAtOnce = 200
const looksAtOnce = 4
const minuteMs = 60_000

export async function proveGone(proof: Proof, missing: number): Promise<Proven> {
  const pace = openPace(proof)
  if (missing > proof.lookupsPerMinute) {
    proof.run.progress.step('Read the slices of the list again in which rows are missing')
    if (await isProvenBySlices(proof, pace)) return { alive: 0, unclear: 0 }
  }
  if (missing > 0) proof.run.progress.step(`Look up ${plural(missing, 'missing row')} one by one`)
  return await lookAtEach(proof, pace)
}

// ── slice by slice ───────────────────────────────────────────────────────────────────────────────────────────

async function isProvenBySlices(proof: Proof, pace: Pace): Promise<boolean> {
  const { run, source, stream, now, signal, shown } = proof
  const listed = { source, keyField: stream.keyFields[0] ?? '', pageSize: proof.pageSize, signal }
  const hidesNothing = usable(run.state.beliefs, 'ranks', now())?.value === 'trusted'
  if (!hidesNothing || (await keyOrderOf({ ...listed, run, now })).order !== 'honoured') return false
  try {
    if ((await areSlicesGone(proof, listed, pace)) && (await shown.areThere(signal))) {
      await proof.onGone(await run.absent.some(keysAtOnce), await run.absent.countGone())
      return true
    }
  } catch (error) {
    if (!(error instanceof KeyOrderBroken)) throw error
  }
  await run.absent.forgetGone()
  return false
}

async function areSlicesGone(
  { run, source, signal, shown }: Proof,
  listed: KeyedList,
  pace: Pace,
): Promise<boolean> {
  for (let after: bigint | null = null; ; ) {
    const lowest = await run.absent.lowestAbove(after)
    if (lowest === null) return true
    const from: bigint = lowest.key - 1n
    const slice = await listByKey(keyListing(listed), from).next()
    if (slice.done && !slice.value.isWhole) return false
    const keys = slice.done ? [] : slice.value.keys
    const to = keys.at(-1) ?? null
    shown.show(keys)
    const sample = await run.absent.lackedAgain({ after: from, to, listed: keys })
    if (sample !== null) {
      await pace()
      if ((await source.lookup?.(sample, signal)) !== 'gone') return false
      const evidence = `${provenByParts}, like record ${sample}, which the upstream says is not there`
      await run.absent.noteSliceGone({ after: from, to }, lowest.at, evidence)
    }
    if (to === null) return true
    after = to
  }
}

// ── one by one ───────────────────────────────────────────────────────────────────────────────────────────────

async function lookAtEach(proof: Proof, pace: Pace): Promise<Proven> {
  const { run, source, stream, signal, shown } = proof
  const { lookup } = source
  if (!lookup)
    throw new Error(
      `The upstream has no request for a single record of ${stream.name}, so no deletion can be proven.`,
    )
  let [alive, unclear] = [0, 0]
  for await (const keys of batches((after) => run.absent.keys(after, keysAtOnce))) {
    const vanished: string[] = []
    for (let start = 0; start < keys.length; start += looksAtOnce) {
      signal.throwIfAborted()
      const looks = keys.slice(start, start + looksAtOnce).map(async (key) => {
        await pace()
        return { key, answer: await lookup(key, signal) }
      })
      const gone: Gone[] = []
      const found: JsonObject[] = []
      const there: string[] = []
      for (const { key, answer } of await Promise.all(looks)) {
        if (answer === 'unclear') unclear += 1
        else if (answer === 'gone') vanished.push(key)
        else {
          found.push(answer.found)
          const isDeleted = isFlaggedDeleted(answer.found)
          if (isDeleted) gone.push({ key, evidence: saysSoItself })
          else there.push(key)
        }
      }
      if (found.length > 0) {
        const page = readRecords(found, stream.keyFields, stream.versionFields)
        await proof.onFound(await run.pages.commit(page, null), page)
      }
      if (gone.length > 0) await run.absent.noteGone(gone)
      await run.absent.noteThere(there)
      alive += there.length
    }
    if (vanished.length === 0) continue
    // After the last look: whatever hides all records may have begun at any of them.
    if (!(await shown.areThere(signal))) unclear += vanished.length
    else {
      await run.absent.noteGone(vanished.map((key) => ({ key, evidence: saysNothing })))
      await proof.onGone(vanished)
    }
  }
  return { alive, unclear }
}

const saysSoItself = 'missing from the list, and the record itself says that it is deleted'
const saysNothing = 'missing from the list, and the upstream says that there is no record of this id'

/** Keys in their order, some at a time. */
export async function* batches(
  next: (after: string | null) => Promise<readonly string[]>,
): AsyncGenerator<readonly string[]> {
  for (let after: string | null = null; ; ) {
    const keys = await next(after)
    if (keys.length === 0) return
    yield keys
    after = keys.at(-1) ?? null
  }
}

type Pace = () => Promise<void>

/** Lets the looks of a minute go at once; the others wait until it is over. */
function openPace({ lookupsPerMinute, signal, now, wait = waitFor }: Proof): Pace {
  let [beganMs, looks] = [now().getTime(), 0]
  return async () => {
    for (; looks >= lookupsPerMinute; [beganMs, looks] = [now().getTime(), 0])
      await wait(Math.min(minuteMs, Math.max(1, beganMs + minuteMs - now().getTime())), signal)
    looks += 1
  }
}

const waitFor = (ms: number, signal: AbortSignal): Promise<void> =>
  setTimeout(ms, undefined, { signal }).catch(() => signal.throwIfAborted())
