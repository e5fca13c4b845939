// Finds the field of a changes stream that `neworchanged` answers to, by asking and not by its name. A candidate has a version in
// every record. It is refuted by an answer that holds a record below what was asked, or that lacks records which the candidate says
// are above it. Names only decide in which order candidates are tried. Pure but for the questions.

import type { Json, JsonObject } from '../../json/json.ts'
import type { ChangesStream } from '../../streams/catalog.ts'
import { fieldNames, isObject, keyReader, readVersion } from '../../streams/record.ts'
import { parsedRecords } from '../../wire/record-page.ts'
import type { ReadingContext } from '../perform-run.ts'
import type { Source } from '../ports/source.ts'
import type { RunCore, StreamState } from '../ports/store.ts'

/** Records of `neworchanged/{since}`, in whatever order the upstream likes. */
export type AskChanges = (since: bigint) => Promise<readonly Json[]>

export type VersionField =
  | { readonly kind: 'found'; readonly field: string; readonly evidence: string }
  /** There are no records yet, so nothing can be said. */
  | { readonly kind: 'empty' }
  | { readonly kind: 'none'; readonly evidence: string }

/** At most so many candidates are tried: an upstream has one field that answers, and perhaps a few that look like it. */
const mostCandidates = 6

/**
 * `versionFields`: names, the likeliest first, without regard to case. Key fields are no candidates: a change leaves the key as it is,
 * even if a few records seem to answer to it. `only`: the operator's choice, tested like any other. `onCandidate`: called with each
 * candidate just before its test.
 */
export async function findVersionField(
  ask: AskChanges,
  { versionFields: preferred, keyFields }: Pick<ChangesStream, 'versionFields' | 'keyFields'>,
  only: string | null = null,
  onCandidate: (field: string, sampled: number) => void = () => {},
): Promise<VersionField> {
  const sample = (await ask(0n)).filter(isObject)
  if (sample.length === 0) return { kind: 'empty' }
  const isWanted = (field: string) =>
    only === null ? !keyFields.some((key) => isSameName(field, key)) : isSameName(field, only)
  const candidates = candidatesOf(sample, only === null ? preferred : [only])
    .filter(({ field }) => isWanted(field))
    .slice(0, mostCandidates)
  const refuted: string[] = []
  const keyOf = keyReader(keyFields)
  const rivalsOf = (candidate: Candidate) => candidates.filter((other) => other !== candidate)
  const found = (field: string, { evidence }: Verdict): VersionField => ({ kind: 'found', field, evidence })
  // Records of the sample may have been written meanwhile, some with a lower version than before, or deleted: then there are fewer.
  const testAgain = async (before: Candidate, ifFewer: boolean): Promise<Verdict | null> => {
    const records = (await ask(0n)).filter(isObject)
    const areFewer = records.length < sample.length
    const candidate = candidatesOf(records, [before.field]).find(({ field }) => field === before.field)
    return candidate && areFewer === ifFewer
      ? test(ask, candidate, rivalsOf(before), { records, keyOf })
      : null
  }
  const named: Candidate[] = []
  for (const candidate of candidates) {
    const { field, isNamed } = candidate
    onCandidate(field, sample.length)
    let verdict = await test(ask, candidate, rivalsOf(candidate), { records: sample, keyOf })
    if (!verdict.isHeld && isNamed) verdict = (await testAgain(candidate, false)) ?? verdict
    // A shorter sample shows less. But before a field is taken whose name says nothing, it is tested whether that alone spoke against others.
    for (const other of verdict.isHeld && !isNamed ? named : []) {
      const again = await testAgain(other, true)
      if (again?.isHeld) return found(other.field, again)
    }
    if (verdict.isHeld) return found(field, verdict)
    if (isNamed && !verdict.isServedBelow) named.push(candidate)
    refuted.push(`${field} (${verdict.evidence})`)
  }
  const seen = `${sample.length} records of neworchanged/0`
  return {
    kind: 'none',
    evidence:
      refuted.length === 0
        ? only === null
          ? `${seen} have no field with a whole number in each of them`
          : `${seen} have no field ${only} with a whole number in each of them; their fields are ${fieldNames(sample[0] ?? {}).join(', ')}`
        : `in ${seen} no field answers to what is asked: ${refuted.join('; ')}`,
  }
}

type Candidate = {
  readonly field: string
  /** Rising, each once. */
  readonly versions: readonly bigint[]
  /** Records in which it is empty. */
  readonly lacking: number
  /** Its name says that it may be the row version. */
  readonly isNamed: boolean
}

/** Fields with a version in every record, the likeliest first. */
function candidatesOf(sample: readonly Json[], preferred: readonly string[]): readonly Candidate[] {
  const records = sample.filter(isObject)
  const [first] = records
  if (!first) return []
  const candidates = fieldNames(first).flatMap((field): Candidate[] => {
    const versions = records.map((record) => readVersion(record, field))
    const lacking = versions.filter((version) => version === null || version < 0n).length
    if (lacking > fewOf(records.length)) return []
    const distinct = new Set(versions.flatMap((version) => version ?? []))
    // A flag or a status is the same in many records, a row version hardly ever. And where there are only one or two records, any number
    // may seem to answer.
    const mayBeAnything = distinct.size < leastDistinct || distinct.size < records.length / 2
    const isNamed = rank(field, preferred) < unknownName
    if (mayBeAnything && !isNamed) return []
    return [{ field, lacking, isNamed, versions: [...distinct].sort((a, b) => (a < b ? -1 : 1)) }]
  })
  return candidates.sort(
    (a, b) =>
      Number(b.isNamed) - Number(a.isNamed) ||
      Number(a.lacking > 0) - Number(b.lacking > 0) ||
      rank(a.field, preferred) - rank(b.field, preferred) ||
      b.versions.length - a.versions.length,
  )
}

const unknownName = 1_000
/** A field whose name says nothing needs at least so many different numbers. */
const leastDistinct = 3

/** So many records may lack a version before the field is doubted: a few may be broken. */
const fewOf = (records: number): number => Math.floor(records / 3)

function rank(field: string, preferred: readonly string[]): number {
  const place = preferred.findIndex((name) => name.toLowerCase() === field.toLowerCase())
  if (place >= 0) return place
  return /version|timestamp|sequence|change/i.test(field) ? unknownName / 2 : unknownName
}

/** The first answer, with which others are compared. */
type Sample = {
  readonly records: readonly JsonObject[]
  readonly keyOf: (record: JsonObject) => string | null
}

/** A question that tells two fields apart: by one of them a record is above `since`, by the other it is not. */
type Decider = {
  readonly since: bigint
  readonly key: string
  readonly isAbove: boolean
  /** `since` lies between the two values, so it does not matter whether the upstream includes it. */
  readonly isBetween: boolean
}

/** No number above so many times the highest version is asked for: the upstream may not be able to read it. */
const mostAbove = 10n

/** Of two fields that rise side by side, both seem to answer. Only records in which they differ tell which one does. */
function decidersBetween(
  { field, versions }: Candidate,
  rival: Candidate,
  { records, keyOf }: Sample,
): readonly Decider[] {
  const highest = versions.at(-1) ?? 0n
  const deciders = records.flatMap((record): Decider[] => {
    const [mine, theirs, key] = [readVersion(record, field), readVersion(record, rival.field), keyOf(record)]
    if (mine === null || theirs === null || key === null || mine === theirs) return []
    const isAbove = mine > theirs
    const isBetween = (isAbove ? mine - theirs : theirs - mine) > 1n
    const since = isAbove ? mine - 1n : isBetween ? theirs - 1n : theirs
    return since < highest * mostAbove ? [{ since, key, isAbove, isBetween }] : []
  })
  // The higher `since` is, the shorter is the answer.
  const best = (some: readonly Decider[]) =>
    some.reduce<Decider | null>((top, one) => (top && top.since >= one.since ? top : one), null)
  const sure = best(deciders.filter(({ isBetween }) => isBetween))
  if (sure) return [sure]
  // The two differ by one everywhere. Then it takes two questions: one decides if `since` is inclusive, the other if it is not.
  const [above, below] = [true, false].map((isAbove) =>
    best(deciders.filter((one) => one.isAbove === isAbove)),
  )
  return [above, below].flatMap((one) => one ?? [])
}

type Verdict = {
  readonly isHeld: boolean
  /** A record came in which it is below what was asked for: whatever happens meanwhile, that refutes it. */
  readonly isServedBelow?: boolean
  readonly evidence: string
}

/** Asks just above its middle, just below its highest, just above its lowest version, and where it differs from its rivals. */
async function test(
  ask: AskChanges,
  candidate: Candidate,
  rivals: readonly Candidate[],
  sample: Sample,
): Promise<Verdict> {
  const { field, versions, isNamed } = candidate
  const lowest = versions[0] ?? 0n
  const middle = versions[Math.floor(versions.length / 2)] ?? lowest
  const highest = versions.at(-1) ?? lowest
  const deciders = rivals.flatMap((rival) => decidersBetween(candidate, rival, sample))
  const asked = [middle + 1n, highest - 1n, lowest + 1n, ...deciders.map(({ since }) => since)]
  const points = [...new Set(asked)].filter((point) => point >= 0n)
  const answers = (await Promise.all(points.map(ask))).map((answer) => answer.filter(isObject))
  for (const [index, since] of points.entries()) {
    let answer = { since, records: answers[index] ?? [] }
    // Where answers differ in length, the next one may show what this one lacks.
    for (let tries = 1; tries < mostTries && isTooShort(answer, candidate); tries++) {
      const again = (await ask(since)).filter(isObject)
      if (again.length > answer.records.length) answer = { since, records: again }
    }
    const why = whatRefutes(answer, candidate) ?? whatDecides(answer, deciders, sample)
    if (why !== null)
      return {
        ...refuse(`neworchanged/${since} ${why}`),
        isServedBelow: lowestBelow(answer, field) !== undefined,
      }
  }
  const records = answers.flat()
  const told = `${records.length} records of neworchanged/${points.join(', ')}`
  const lacking = records.filter((record) => readVersion(record, field) === null).length
  if (lacking > fewOf(records.length + versions.length)) return refuse(`in ${lacking} of ${told} it is empty`)
  const { again, changed, changedAlone } = countChanged(field, records, sample)
  const [moved, mostMoved] = isNamed
    ? [changedAlone, Math.max(someChanged, fewOf(records.length))]
    : [changed, fewOf(again)]
  if (moved > mostMoved) return refuse(`in ${moved} of ${told} it had changed since the answer before`)
  return { isHeld: true, evidence: `in ${told} it was never below what was asked` }
}

type SeenAnswer = { readonly since: bigint; readonly records: readonly JsonObject[] }

/** So many times a question is asked before a field is refuted by how little it brought. */
const mostTries = 3

const lowestBelow = ({ since, records }: SeenAnswer, field: string): bigint | undefined =>
  records
    .map((record) => readVersion(record, field) ?? undefined)
    .find((version) => version !== undefined && version < since)

// A record that was above `since` in the sample still is: if it changed meanwhile, its version is higher now.
const countAbove = (since: bigint, { versions }: Candidate): number =>
  versions.filter((version) => version > since).length

function isTooShort(answer: SeenAnswer, candidate: Candidate): boolean {
  const above = countAbove(answer.since, candidate)
  return lowestBelow(answer, candidate.field) === undefined && answer.records.length < above - fewOf(above)
}

function whatRefutes(answer: SeenAnswer, candidate: Candidate): string | null {
  const { since, records } = answer
  const { field, versions } = candidate
  const tooLow = lowestBelow(answer, field)
  if (tooLow !== undefined) return `served a record in which it is ${tooLow}`
  const above = countAbove(since, candidate)
  if (records.length === 0 && above > 0)
    return `served nothing, although it is ${versions.at(-1)} in a record`
  return records.length < above - fewOf(above)
    ? `served ${records.length} records, although it is above that in ${above}`
    : null
}

/** An answer as long as the sample may be cut: what it lacks proves nothing. */
function whatDecides(
  { since, records }: SeenAnswer,
  deciders: readonly Decider[],
  { records: sampled, keyOf }: Sample,
): string | null {
  if (records.length >= sampled.length) return null
  const keys = new Set(records.map(keyOf))
  const lacked = deciders.find((one) => one.since === since && one.isAbove && !keys.has(one.key))
  return lacked ? `lacked record ${lacked.key}, in which it is above that` : null
}

/**
 * A number that grows with each answer would pass all other tests. `again`: how many records the sample had shown as well;
 * `changedAlone`: those of them in which nothing else is different. Otherwise the record may have changed between the two answers.
 */
function countChanged(
  field: string,
  records: readonly JsonObject[],
  { records: sampled, keyOf }: Sample,
): { readonly again: number; readonly changed: number; readonly changedAlone: number } {
  const before = new Map(sampled.map((record) => [keyOf(record), record]))
  const restOf = (record: JsonObject) => JSON.stringify({ ...record, [field]: null })
  let [again, changed, changedAlone] = [0, 0, 0]
  for (const record of records) {
    const key = keyOf(record)
    const known = key === null ? undefined : before.get(key)
    const [was, is] = [known ? readVersion(known, field) : null, readVersion(record, field)]
    if (known === undefined || was === null || is === null) continue
    again++
    if (was === is) continue
    changed++
    if (restOf(known) === restOf(record)) changedAlone++
  }
  return { again, changed, changedAlone }
}

/** So many records may be written without another change. A field whose name says nothing has to stand still. */
const someChanged = 3

const refuse = (evidence: string): Verdict => ({ isHeld: false, evidence })

// ── for a run ────────────────────────────────────────────────────────────────────────────────────────────────

/** No field answers to `neworchanged`. */
export class NoVersionField extends Error {
  override readonly name = 'NoVersionField'
  readonly code = 'UPSTREAM_NO_VERSION'

  constructor({ name }: Pick<ChangesStream, 'name'>, evidence: string) {
    super(
      `${name} cannot be read by row version: ${evidence}. If you know the field that \`neworchanged\` answers to, name it in VERSION_${name.toUpperCase()}.`,
    )
  }
}

type Asked = Pick<ReadingContext, 'stream' | 'source' | 'versionField' | 'signal'> & {
  readonly run: Pick<RunCore, 'state' | 'findings' | 'progress'>
  /** False: what is not known stays unknown in this run. */
  readonly mayFind: boolean
  /** Called with each candidate before its test: probably that is the outcome. Not where paging seems to be ignored. */
  readonly onCandidate?: (likely: Versioned) => void
}
export type Versioned = {
  /** The stream, with that field alone as its row version. */
  readonly stream: ChangesStream
  /** The source, which sorts by that field. */
  readonly source: Source
  /** Positions so far were values of another field: the stream begins anew. */
  readonly beginsAnew: boolean
}

const sampleSize = 100

/** The stream with the field its row versions are in, as it is known or found now; null while it has no records. */
export async function withVersionField(asked: Asked): Promise<Versioned | null> {
  const { stream, source, run, versionField = null, mayFind, onCandidate, signal } = asked
  const versioned = (field: string, beginsAnew = false): Versioned => ({
    stream: { ...stream, versionFields: [field] },
    source: source.sortedBy(field),
    beginsAnew,
  })
  const known = run.state.versionField
  if (known !== null && (versionField === null || isSameName(known, versionField))) {
    // A field that an operator named is not replaced.
    const mayBeAnother = mayFind && versionField === null && isDoubtful(run.state)
    const other = mayBeAnother ? await findOther(asked, known) : null
    if (other === null) return versioned(known)
    return versioned(other.field, await run.findings.setVersionField(other.field, other.evidence))
  }
  if (!mayFind) return null
  run.progress.step('Find out which field is the row version')
  const found = await findVersionField(askChanges(source, signal), stream, versionField, (field, sampled) => {
    if (sampled <= sampleSize) onCandidate?.(versioned(field))
  })
  if (found.kind === 'empty') return null
  if (found.kind === 'none') throw new NoVersionField(stream, found.evidence)
  return versioned(found.field, await run.findings.setVersionField(found.field, found.evidence))
}

const inconclusiveBeforeDoubt = 3

/** If answers never show a known record, `neworchanged` may answer to another field. */
const isDoubtful = ({ inconclusiveRuns }: Pick<StreamState, 'inconclusiveRuns'>): boolean =>
  inconclusiveRuns > 0 && inconclusiveRuns % inconclusiveBeforeDoubt === 0

/** The field that `neworchanged` answers to, if the known one is refuted and another passes; null otherwise. */
async function findOther({ stream, source, run, signal }: Asked, known: string) {
  run.progress.step('Test again which field is the row version')
  const ask = askChanges(source, signal)
  const again = await findVersionField(ask, stream, known)
  if (again.kind !== 'none') return null
  const found = await findVersionField(ask, stream)
  return found.kind === 'found' && !isSameName(found.field, known) ? found : null
}

const isSameName = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase()

/** A few records of `neworchanged`, in the upstream's own order. */
export const askChanges =
  (source: Source, signal: AbortSignal): AskChanges =>
  async (since) => {
    const answer = await source.changes({ since, page: 1, pageSize: sampleSize, sorts: null }, signal)
    return 'records' in answer ? parsedRecords(answer.records) : []
  }
