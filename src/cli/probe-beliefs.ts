// What the probe prints for each belief about a stream: the claim, whether it holds, the evidence, when it was seen, and what it means.

import type { Config } from '../config/load.ts'
import { openContext, type SyncContext } from '../context.ts'
import { hasCluster } from '../embedded-postgres/location.ts'
import type { Logger } from '../log.ts'
import { describedStreams } from '../openapi/described-streams.ts'
import { readFieldsBeside, verdictOn } from '../openapi/differences.ts'
import type { Finding } from '../openapi/find-description.ts'
import { type BeliefLine, readBeliefs } from '../store/book/dictionary.ts'
import { isLocallyChanged } from '../store/book/due.ts'
import { type BeliefKind, type BeliefName, beliefs, verdictOf } from '../streams/beliefs.ts'
import type { ChangesStream, Stream } from '../streams/catalog.ts'
import { describeUpstream } from '../sync/beliefs/describe.ts'
import { knownRows, recordTested, type Tested, testBeliefs } from '../sync/beliefs/test-beliefs.ts'
import type { Source } from '../sync/ports/source.ts'
import { capitalized, formatDuration, sentence } from '../util/text.ts'
import { type Check, good } from './check.ts'

/** What is stored already; null: there is no mirror, or it cannot be read as it is. */
export type StoredMirror = AsyncDisposable & {
  readonly context: SyncContext
  readonly beliefs: readonly BeliefLine[]
}

export async function openStoredMirror(config: Config, log: Logger): Promise<StoredMirror | null> {
  if (config.databaseUrl === null && !(await hasCluster('.tidemark'))) return null
  const quiet = log.isLevelEnabled('debug') ? log : log.child({}, { level: 'silent' })
  try {
    await using opened = new AsyncDisposableStack()
    const context = opened.use(await openContext({ config, log: quiet, migrates: false }))
    const known = await readBeliefs(context.database.pool)
    const kept = opened.move()
    return { context, beliefs: known, [Symbol.asyncDispose]: () => kept.disposeAsync() }
  } catch (error) {
    log.debug({ err: error }, 'what is stored cannot be read')
    return null
  }
}

type Asked = {
  readonly source: Source
  readonly stream: ChangesStream
  readonly versionField: string | null
  readonly mirror: StoredMirror | null
  readonly signal: AbortSignal
}

/** A line for each belief, and one for each other trait of the upstream. */
export async function* probeBeliefs({ mirror, ...asked }: Asked): AsyncGenerator<Check> {
  const { source, stream, signal } = asked
  const recorded = (mirror?.beliefs ?? []).filter((line) => line.stream === stream.name)
  const rows = mirror ? await knownRows(mirror.context.store, stream.name) : []
  const tested = new Map<string, Tested>()
  for await (const one of testBeliefs({ ...asked, rows })) tested.set(one.name, one)
  if (mirror) tested.set('tables_untouched', await testTables(mirror, stream.name))
  const field = tested.get('version_field')?.value ?? null
  const corrected = mirror ? await correct(mirror, asked, field, tested, recorded) : []
  for (const name of told)
    yield checkOf(stream.name, name, tested.get(name) ?? null, recorded, corrected.includes(name))
  for (const { name, value } of field === null ? [] : await describeUpstream(source, stream, field, signal))
    yield good(`${stream.name} ${name}`, value)
}

/** Runs rely on what is recorded: where the test shows something else now, that is recorded (only runs decide on the version field). */
async function correct(
  { context: { store } }: StoredMirror,
  { source, stream, signal }: Pick<Asked, 'source' | 'stream' | 'signal'>,
  field: string | null,
  tested: ReadonlyMap<string, Tested>,
  recorded: readonly BeliefLine[],
): Promise<readonly BeliefName[]> {
  const known = new Map(recorded.map((line) => [line.name, line]))
  if (field === null || known.get('version_field')?.value !== field) return []
  const wrong = [...tested.values()].flatMap(({ name, value, evidence }) => {
    const line = known.get(name)
    const isRight = line === undefined || line.value === value || name === 'tables_untouched'
    return isRight || value === null || name === 'version_field' ? [] : [{ name, value, evidence }]
  })
  if (wrong.length === 0) return []
  const { status } = await recordTested({ store, source, stream, signal, now: () => new Date() }, wrong)
  return status === 'done' ? wrong.map(({ name }) => name) : []
}

/** Not `first_top`, which cannot be tested, and not `contract`, which the probe prints for every kind of stream. */
const told = (Object.keys(beliefs) as BeliefName[]).filter(
  (name) => name !== 'first_top' && name !== 'contract',
)

/** Whether the records of a stream are as the service describes them; null: it does not describe them. */
export async function probeDescribed(
  stream: Stream,
  finding: Finding | null,
  mirror: StoredMirror | null,
): Promise<Check | null> {
  if (finding?.found !== 'description') return null
  const { description, at } = finding
  const type = describedStreams([{ service: stream.service, description }], [stream]).get(stream.name)
  if (!type) return null
  const recorded = (mirror?.beliefs ?? []).filter((line) => line.stream === stream.name)
  const fields = mirror
    ? await readFieldsBeside(mirror.context.database.pool, [stream.name], { mostCounted: 0 })
    : []
  const tested: Tested =
    fields.length === 0
      ? { name: 'contract', value: null, evidence: 'nothing is stored yet that could be compared' }
      : { name: 'contract', ...verdictOn(type, fields, { openApi: description.openApi, at }) }
  return checkOf(stream.name, 'contract', tested, recorded)
}

async function testTables({ context }: StoredMirror, stream: string): Promise<Tested> {
  const isChanged = await isLocallyChanged(context.database.pool, stream)
  return {
    name: 'tables_untouched',
    value: isChanged ? 'no' : 'yes',
    evidence: isChanged
      ? 'somebody changed the table since the last run, which mends it next'
      : 'nobody else changed the table since the last run',
  }
}

function checkOf(
  stream: string,
  name: BeliefName,
  tested: Tested | null,
  recorded: readonly BeliefLine[],
  isCorrected = false,
): Check {
  const now = new Date()
  const known = recorded.find((line) => line.name === name) ?? null
  const belief = reportOf(stream, name, tested, known, now)
  return {
    name: `${stream} ${name}`,
    isFine: true,
    isWarning: belief.verdict === 'does not hold',
    isUntold: belief.verdict === 'could not be told',
    says: inWords(belief, beliefs[name], { isNow: tested?.value != null, isCorrected, now }),
    belief,
  }
}

export type BeliefReport = ReturnType<typeof reportOf>

function reportOf(
  stream: string,
  name: BeliefName,
  tested: Tested | null,
  known: BeliefLine | null,
  now: Date,
) {
  const { claim, without }: BeliefKind = beliefs[name]
  const seenNow = tested?.value != null ? { ...tested, value: tested.value, testedAt: now } : null
  // If the test could not tell now, what a run saw lately counts.
  const seen = seenNow ?? (known && verdictOf(known, now) !== 'unknown' ? known : null)
  const verdict = seen ? verdictOf({ ...seen, expiresAt: null }, now) : 'unknown'
  return {
    stream,
    name,
    claim,
    verdict: verdict === 'unknown' ? 'could not be told' : verdict,
    value: seen?.value ?? null,
    evidence: seen?.evidence ?? tested?.evidence ?? 'nothing is stored yet; runs find it out as they read',
    /** When that was seen: now, or by a run; null: never. */
    testedAt: seen?.testedAt.toISOString() ?? null,
    /** What the runs rely on. */
    recorded: known && { value: known.value, testedAt: known.testedAt.toISOString() },
    means: verdict === 'does not hold' ? (without ?? null) : null,
  } as const
}

function inWords(
  report: BeliefReport,
  kind: BeliefKind,
  { isNow, isCorrected, now }: { readonly isNow: boolean; readonly isCorrected: boolean; readonly now: Date },
): string {
  const { verdict, value, claim, evidence, testedAt, recorded, means } = report
  const said = value === null ? undefined : kind.inWords?.[value]
  const answer = verdict === 'holds' && kind.holdsAs === null ? `${value}` : verdict
  const ago = (at: string) => `${formatDuration(now.getTime() - new Date(at).getTime())} ago`
  const seen =
    testedAt !== null && !isNow
      ? `Seen by a run ${ago(testedAt)}.`
      : recorded === null
        ? null
        : recorded.value === value
          ? `Runs saw the same ${ago(recorded.testedAt)}.`
          : `Runs saw ${kind.inWords?.[recorded.value] ?? recorded.value} ${ago(recorded.testedAt)}.${isCorrected ? ' The next ones rely on what was seen now.' : ''}`
  return [
    said ? sentence(said) : `${answer}: ${sentence(claim)}`,
    sentence(capitalized(evidence)),
    seen,
    means,
  ]
    .filter(Boolean)
    .join(' ')
}
