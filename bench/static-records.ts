// The records of the static upstream as bytes, in the order of their versions: the stand-in's, taken once from it, or others.

import { type Look, looks } from '../src/simulator/behaviour.ts'
import { startSimulator } from '../src/simulator/simulator.ts'
import { unlikeRecord } from './unlike-records.ts'

export const kindsOfRecords = [...looks, 'unlike'] as const
export type KindOfRecords = (typeof kindsOfRecords)[number]

export type StaticRecords = {
  readonly count: number
  /** How many records have a version up to this. */
  rankOf(version: number): number
  /** From this rank up to that one, with commas between them. */
  range(from: number, to: number): Buffer
  byKey(key: number): Buffer | null
}

export const fieldsOf = {
  recorded: { key: 'assignmentId', version: 'sysRowVersion' },
  plain: { key: 'AssignmentId', version: 'RowVersion' },
  unlike: { key: 'assignmentId', version: 'rowVersion' },
} as const
const pageSize = 5_000

export async function takeRecords(kind: KindOfRecords, count: number): Promise<StaticRecords> {
  const texts =
    kind === 'unlike'
      ? Array.from({ length: count }, (_, rank) => unlikeRecord(rank, count))
      : await takeTexts(kind, count)
  const { bytes, starts } = joined(texts)
  const numbers = (field: string) => Float64Array.from(texts, (text) => Number(numberIn(text, field)?.[2]))
  const [keys, versions] = [numbers(fieldsOf[kind].key), numbers(fieldsOf[kind].version)]
  const range = (from: number, to: number) => bytes.subarray((starts[from] ?? 0) + 1, starts[to])
  return {
    count,
    range,
    rankOf(wanted) {
      let [low, high] = [0, versions.length]
      while (low < high) {
        const middle = (low + high) >> 1
        if ((versions[middle] ?? 0) > wanted) high = middle
        else low = middle + 1
      }
      return low
    },
    byKey(wanted) {
      const rank = keys.indexOf(wanted)
      return rank < 0 ? null : range(rank, rank + 1)
    },
  }
}

// Keys and versions of as many digits as the last one: written over those of a record, they leave its length as it is.
const base = 100_000_000

/** A few different records again and again, each with a key and a version of its own. */
export async function repeatRecords(look: Look, different: number, count: number): Promise<StaticRecords> {
  const { key, version } = fieldsOf[look]
  const texts = (await takeTexts(look, different)).map((text) =>
    [key, version].reduce((changed, field) => {
      const [all = '', before = ''] = numberIn(changed, field) ?? []
      return changed.replace(all, `${before}${base}`)
    }, text),
  )
  const { bytes, starts } = joined(texts)
  const places = [key, version].map((field) =>
    Uint32Array.from(texts, (text) => {
      const found = numberIn(text, field)
      return Buffer.byteLength(text.slice(0, (found?.index ?? 0) + (found?.[1]?.length ?? 0))) + 1
    }),
  )
  const range = (from: number, to: number) => {
    const parts: Buffer[] = []
    for (let at = from; at < to; ) {
      const first = at % different
      const end = Math.min(different, first + to - at)
      const part = Buffer.from(bytes.subarray(starts[first], starts[end]))
      for (let record = first; record < end; record++, at++)
        for (const place of places)
          part.write(
            String(base + at + 1),
            (starts[record] ?? 0) - (starts[first] ?? 0) + (place[record] ?? 0),
            'latin1',
          )
      parts.push(part)
    }
    return Buffer.concat(parts).subarray(1)
  }
  return {
    count,
    range,
    rankOf: (wanted) => Math.max(0, Math.min(count, wanted - base)),
    byKey(wanted) {
      const rank = wanted - base - 1
      return rank < 0 || rank >= count ? null : range(rank, rank + 1)
    },
  }
}

const numberIn = (text: string, field: string) => new RegExp(`("${field}":)(\\d+)`).exec(text)

function joined(texts: readonly string[]): { readonly bytes: Buffer; readonly starts: Float64Array } {
  const starts = new Float64Array(texts.length + 1)
  const parts = texts.map((text, index) => {
    const part = Buffer.from(`,${text}`)
    starts[index + 1] = (starts[index] ?? 0) + part.length
    return part
  })
  return { bytes: Buffer.concat(parts), starts }
}

async function takeTexts(look: Look, wanted: number): Promise<readonly string[]> {
  await using simulator = await startSimulator({
    look,
    assignments: wanted,
    notes: 0,
    objects: 0,
    trackers: 0,
  })
  const { clientGuid, subjectId, apiKey } = simulator.credentials
  const signIn = await fetch(`${simulator.authUrl}/Token/GenerateAccessTokenFromCache`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ clientId: 3, subjectId, apiKey }),
  })
  const { accessToken } = (await signIn.json()) as { accessToken: string }
  const { version } = fieldsOf[look]
  const texts: string[] = []
  while (texts.length < wanted) {
    const since = numberIn(texts.at(-1) ?? '', version)?.[2] ?? 0
    const url = `${simulator.assignmentUrl}/api/Assignment/neworchanged/${since}?Page=1&PageSize=${pageSize}&Sorts=${version}`
    const answer = await fetch(url, {
      headers: { authorization: `Bearer ${accessToken}`, clientId: clientGuid },
    })
    const found = splitRecords(await answer.text())
    if (found.length === 0) throw new Error(`the stand-in has only ${texts.length} records`)
    texts.push(...found)
  }
  return texts
}

/** Records without objects in them. */
const splitRecords = (list: string): string[] => list.match(/\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}/g) ?? []
