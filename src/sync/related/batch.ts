// Reads some assignments with their related records, and makes pages of them. Two things are looked at again before they are believed:
// a record that is gone from its assignment (P7), and one that two answers of the same moment show differently.

import type { Json, JsonObject } from '../../json/json.ts'
import { keyOwner, type RelatedStream } from '../../streams/catalog.ts'
import { assignmentIn, fingerprint, type Records, readRecords, readVersion } from '../../streams/record.ts'
import { keyVariable, withoutTwins } from '../../streams/twins.ts'
import { messageOf } from '../../util/errors.ts'
import { chooseKey, isOtherKey } from '../lists/poll.ts'
import type {
  Due,
  Family,
  RelatedBacklog,
  RelatedKeyFields,
  RelatedLink,
  SetAside,
} from '../ports/related.ts'
import type { LeftOut, Source } from '../ports/source.ts'
import { groupRecords, isLeftOut } from './answer.ts'

type Context = {
  readonly source: Source
  readonly streams: readonly RelatedStream[]
  readonly signal: AbortSignal
  readonly budget: Budget
}
/** The field of assignments' row versions; null: it is not known yet. */
type Reading = Context & { readonly versionField: string | null }
/** For the answers of one batch, which are all kept in memory until they are written (P10). */
export type Budget = {
  readonly mostBytes: number
  /** The longest answer so far: nobody knows how long the next one will be, so room is kept for as much. */
  largestBytes: number
}
type Page = { readonly stream: RelatedStream; readonly keyField: string; readonly records: Records }
export type Batch = {
  /** The first so many of those that were wanted were asked for. The others are for the next batch. */
  readonly askedCount: number
  /** How long their answers were. */
  readonly bytes: number
  /** Everything that is on the pages. */
  readonly shown: readonly Family[]
  /** Assignments whose answers may be believed. */
  readonly families: readonly Family[]
  readonly aside: readonly SetAside[]
  /** Those of `families` that are to be read again, because their answers had to leave something out. */
  readonly incomplete: readonly SetAside[]
  /** Those that the upstream does not know, asked for in two ways. */
  readonly gone: readonly Due[]
  readonly pages: readonly Page[]
  /** What ended the reading before all were read. What was read until then is here. */
  readonly failure: Failure | null
}
type Failure = { readonly error: unknown }

const readsAtOnce = 4
/** One at a time: how long an answer with files is only shows when it is here, and one may be as long as a batch. */
const readsWithFilesAtOnce = 1
/** When a group seems to be gone, so many other assignments that had it are asked. */
const othersAsked = 3
/** A group is silent when at least so many assignments that had records of it show none. */
const fewestSilent = 3

export async function readFamilies(
  given: Context,
  run: {
    readonly state: { readonly versionField: string | null }
    readonly keyFields: RelatedKeyFields
    readonly backlog: Pick<RelatedBacklog, 'linked' | 'othersWith'>
  },
  wanted: readonly Due[],
): Promise<Batch> {
  const context = { ...given, versionField: run.state.versionField }
  const hasFiles = context.streams.some(({ bulkField }) => bulkField)
  const first = await readAll(context, wanted, hasFiles ? readsWithFilesAtOnce : readsAtOnce)
  const { keys, unknown } = await keyFieldsOf(context.streams, run.keyFields, first.answers)
  const before = first.answers.map((answer) => understand(answer, context.streams, keys))
  const linked = await run.backlog.linked(before.map(({ due }) => due.assignmentId))
  const doubtful = doubtfulOf(before, linked)
  // One after the other, so that it is known which of two answers is the later one.
  const again = await readAll(unbounded(context), first.failure ? [] : [...doubtful], 1)
  const understood = [
    ...before.filter(({ due }) => !doubtful.has(due)),
    ...again.answers.map((answer) => understand(answer, context.streams, keys)),
  ]
  const earlier = new Map(before.map((one) => [one.due, one]))
  const isSteady = (one: Understood) => keysText(one) === keysText(earlier.get(one.due) ?? one)
  const silent = await silentGroups(context, run.backlog, understood, linked)
  const lostSome = new Map(
    linked.filter(({ stream }) => silent.has(stream)).map((link) => [link.assignmentId, link.stream]),
  )
  const whyAside = (one: Understood): string | null => {
    if (!isSteady(one)) return 'the upstream answered twice with different records'
    const silentGroup = lostSome.get(one.due.assignmentId)
    if (silentGroup !== undefined) return silenceOf(silentGroup)
    const keyless = one.groups.find(({ stream, records }) => records.length > 0 && unknown.has(stream.name))
    return keyless ? messageOf(unknown.get(keyless.stream.name)?.error) : null
  }
  const believed = understood.filter((one) => whyAside(one) === null)
  const [keyUnknown = null] = unknown.values()
  return {
    askedCount: first.askedCount,
    bytes: first.bytes,
    shown: understood.map(familyOf),
    families: believed.map(familyOf),
    aside: [
      ...first.aside,
      ...again.aside,
      ...understood.flatMap((one) => {
        const problem = whyAside(one)
        return problem === null ? [] : [{ due: one.due, problem }]
      }),
    ],
    incomplete: believed.flatMap(({ due, leftOut }) => (leftOut ? [{ due, problem: leftOut.problem }] : [])),
    gone: [...first.gone, ...again.gone],
    pages: pagesOf(context.streams, keys, understood),
    failure: first.failure ?? again.failure ?? keyUnknown,
  }
}

/** For what is read to decide about others: never more than they are. */
const unbounded = (context: Reading): Reading => ({
  ...context,
  budget: { mostBytes: Number.POSITIVE_INFINITY, largestBytes: 0 },
})

type Answered = {
  readonly due: Due
  readonly answer: JsonObject
  readonly bytes: number
  readonly leftOut: LeftOut | null
}
type NotThere = { readonly due: Due; readonly isNotThere: true }

async function readAll(context: Reading, wanted: readonly Due[], atOnce: number) {
  const { signal, budget } = context
  const results: (Answered | SetAside | NotThere)[] = new Array(wanted.length)
  const failures: Failure[] = []
  let [askedCount, heldBytes, underWay] = [0, 0, 0]
  const hasRoom = () =>
    heldBytes + underWay === 0 || heldBytes + (underWay + 1) * budget.largestBytes <= budget.mostBytes
  async function readOn(): Promise<void> {
    while (failures.length === 0 && hasRoom()) {
      const index = askedCount
      const due = wanted[index]
      if (!due) return
      signal.throwIfAborted()
      askedCount++
      underWay++
      try {
        const result = await readOne(context, due)
        results[index] = result
        const bytes = 'answer' in result ? result.bytes : 0
        heldBytes += bytes
        budget.largestBytes = Math.max(budget.largestBytes, bytes)
      } catch (error) {
        signal.throwIfAborted()
        failures.push({ error })
        // Perhaps the service is in trouble, perhaps only this assignment. Set aside, it is not the first one of the next run again.
        results[index] = { due, problem: messageOf(error) }
      } finally {
        underWay--
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, wanted.length) }, readOn))
  return {
    askedCount,
    bytes: heldBytes,
    answers: results.filter((result) => 'answer' in result),
    aside: results.filter((result) => 'problem' in result),
    gone: results.filter((result) => 'isNotThere' in result).map(({ due }) => due),
    failure: failures[0] ?? null,
  }
}

async function readOne(
  { source, signal, streams, versionField }: Reading,
  due: Due,
): Promise<Answered | SetAside | NotThere> {
  const looked = (await source.lookup?.(due.assignmentId, signal)) ?? 'unclear'
  if (looked === 'gone') return { due, isNotThere: true }
  if (looked === 'unclear')
    return { due, problem: 'the upstream does not answer for it, or answers with another assignment' }
  const { found: answer, bytes = 0, leftOut = null } = looked
  // A lagging replica, or a cache: it shows what was there before the change because of which this is read (P11).
  const shown = versionField ? readVersion(assignmentIn(answer), versionField) : null
  if (shown !== null && due.version !== null && shown < BigInt(due.version))
    return {
      due,
      problem: `the answer shows version ${shown} of the assignment, and version ${due.version} is known`,
    }
  if (streams.every((stream) => groupRecords(answer, stream, '0') === null))
    return { due, problem: 'the answer has none of the groups that were asked for' }
  return { due, answer, bytes, leftOut }
}

type Keys = {
  readonly keys: ReadonlyMap<string, string>
  /** Groups whose records show no key. Assignments that have some wait; the others are read. */
  readonly unknown: ReadonlyMap<string, Failure>
}

/** Chosen when the first records of a group come, and the same from then on. */
async function keyFieldsOf(
  streams: readonly RelatedStream[],
  keyFields: RelatedKeyFields,
  answers: readonly Answered[],
): Promise<Keys> {
  const keys = new Map<string, string>()
  const unknown = new Map<string, Failure>()
  for (const stream of streams) {
    const stored = await keyFields.of(stream.name)
    const [wanted = null] = stream.isKeyChosen ? stream.keyFields : []
    let key = isOtherKey(stored, wanted) ? null : stored
    if (key === null) {
      const records = answers.flatMap(
        ({ due, answer }) => groupRecords(answer, stream, due.assignmentId) ?? [],
      )
      if (records.length === 0) continue
      try {
        key = chooseKey(stream, wanted, records)
      } catch (error) {
        unknown.set(stream.name, { error })
        continue
      }
      await keyFields.keep(stream.name, key)
    }
    keys.set(stream.name, key)
  }
  return { keys, unknown }
}

type Group = Records & {
  readonly stream: RelatedStream
  readonly records: readonly Json[]
}
/** Groups that the answer has. */
type Understood = Pick<Answered, 'due' | 'leftOut'> & { readonly groups: readonly Group[] }

function understand(
  { due, answer, leftOut }: Answered,
  streams: readonly RelatedStream[],
  keys: ReadonlyMap<string, string>,
): Understood {
  const groups = streams.flatMap((stream): Group[] => {
    if (isLeftOut(leftOut, stream)) return []
    const records = groupRecords(answer, stream, due.assignmentId)
    if (records === null) return []
    const keyField = keys.get(stream.name) ?? ''
    const chosenBy = { variable: keyVariable(keyOwner(stream)), keyField }
    return [{ stream, records, ...withoutTwins(readRecords(records, [keyField], null), chosenBy) }]
  })
  return { due, leftOut, groups }
}

function doubtfulOf(understood: readonly Understood[], linked: readonly RelatedLink[]): ReadonlySet<Due> {
  const doubtful = new Set<Due>()
  const contents = new Map<string, { readonly content: () => string; readonly due: Due }>()
  const shown = new Set<string>()
  const listed = new Map<string, Due>()
  for (const { due, groups } of understood)
    for (const { stream, rows } of groups) {
      listed.set(placeOf(due.assignmentId, stream.name), due)
      for (const { key, record } of rows) {
        shown.add(placeOf(due.assignmentId, stream.name, key))
        const content = lazily(() => fingerprint(record))
        const other = contents.get(placeOf(stream.name, key))
        if (other && other.content() !== content()) doubtful.add(other.due).add(due)
        contents.set(placeOf(stream.name, key), { content, due })
      }
    }
  for (const { assignmentId, stream, key } of linked) {
    const due = listed.get(placeOf(assignmentId, stream))
    if (due && !shown.has(placeOf(assignmentId, stream, key))) doubtful.add(due)
  }
  return doubtful
}

/** Made only when needed: most records are shown once, and the fingerprint of a file takes as much memory as the file is long. */
function lazily(make: () => string): () => string {
  let made: string | null = null
  return () => {
    made ??= make()
    return made
  }
}

const silenceOf = (group: string): string =>
  `the upstream shows no ${group} of any assignment any more, so the rows that are here are kept: check the permissions of the integration user`

/**
 * Groups that no answer shows any more, neither of these assignments nor of others that had records of them. A lost right looks like
 * that, so it proves nothing about the records (P7). Where only few assignments are concerned, it is believed.
 */
async function silentGroups(
  context: Reading,
  backlog: Pick<RelatedBacklog, 'othersWith'>,
  understood: readonly Understood[],
  linked: readonly RelatedLink[],
): Promise<ReadonlySet<string>> {
  const silent = new Set<string>()
  for (const stream of context.streams) {
    const answered = understood.flatMap(({ due, groups }) =>
      groups
        .filter((group) => group.stream === stream)
        .map(({ records }) => ({ id: due.assignmentId, isEmpty: records.length === 0 })),
    )
    const had = new Set(linked.filter((link) => link.stream === stream.name).map((link) => link.assignmentId))
    const emptied = answered.filter(({ id }) => had.has(id))
    if (emptied.length === 0 || answered.some(({ isEmpty }) => !isEmpty)) continue
    const ids = understood.map(({ due }) => due.assignmentId)
    const others = await backlog.othersWith(stream.name, ids, othersAsked)
    const { isShown, silentCount } = await askOthers(context, stream, others.map(asDue))
    if (!isShown && emptied.length + silentCount >= fewestSilent) silent.add(stream.name)
  }
  return silent
}

/** Asks one after the other and keeps none, as each answer may be as long as a batch (P10). One whose files were left out tells nothing. */
async function askOthers(
  context: Reading,
  stream: RelatedStream,
  others: readonly Due[],
): Promise<{ readonly isShown: boolean; readonly silentCount: number }> {
  let silentCount = others.length
  for (const other of others) {
    const { answers } = await readAll(unbounded(context), [other], 1)
    for (const { due, answer, leftOut } of answers)
      if (isLeftOut(leftOut, stream)) silentCount -= 1
      else if (groupRecords(answer, stream, due.assignmentId)?.length) return { isShown: true, silentCount }
  }
  return { isShown: false, silentCount }
}

const asDue = (assignmentId: string): Due => ({
  assignmentId,
  hash: '',
  version: null,
  isGone: false,
})

const placeOf = (...parts: readonly string[]): string => JSON.stringify(parts)

/** Makes one page for each group, in the order of the reads: of two rows with one key, the later one is kept. */
function pagesOf(
  streams: readonly RelatedStream[],
  keys: ReadonlyMap<string, string>,
  understood: readonly Understood[],
): readonly Page[] {
  return streams.flatMap((stream) => {
    const keyField = keys.get(stream.name)
    const own = understood.flatMap(({ groups }) => groups.filter((group) => group.stream === stream))
    const rows = own.flatMap((group) => group.rows)
    const rejected = own.flatMap((group) => group.rejected)
    if (keyField === undefined || rows.length + rejected.length === 0) return []
    const readAtMs = Math.min(...own.flatMap((group) => group.readAtMs ?? []))
    return [{ stream, keyField, records: { rows, rejected, readAtMs } }]
  })
}

const familyOf = ({ due, groups }: Understood): Family => ({
  due,
  children: groups.map(({ stream, rows }) => ({ stream: stream.name, keys: keysOf(rows) })),
})

const keysOf = (rows: Records['rows']): readonly string[] => [...new Set(rows.map(({ key }) => key))]

const keysText = ({ groups }: Understood): string =>
  JSON.stringify(groups.map(({ stream, rows }) => [stream.name, keysOf(rows).toSorted()]))
