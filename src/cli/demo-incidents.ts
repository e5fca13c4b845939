// What can go wrong in the demo: three incidents that lose rows in most tools that copy data, and a few harder ones. Buttons break and mend
// them. What Tidemark did about each is read from its own records.

import { setTimeout as wait } from 'node:timers/promises'
import type { SyncContext } from '../context.ts'
import type { Logger } from '../log.ts'
import type { Simulator } from '../simulator/simulator.ts'
import type { Backup } from '../simulator/source.ts'
import type { RunRequest } from '../streams/catalog.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { count, formatDuration, plural } from '../util/text.ts'
import type { Demo, DemoCard, DemoShown, DemoStep, OneTimeKey } from '../web/demo.ts'
import { type Proof, proveCopy } from './demo-proof.ts'

type Parts = {
  readonly simulator: Simulator
  readonly context: SyncContext
  readonly requestRun: (request: RunRequest) => Promise<void>
  readonly key: OneTimeKey
  readonly signal: AbortSignal
  readonly log: Logger
}

type Incident = { readonly at: Date; readonly id: number }
type Late = Incident & { readonly version: bigint; shownAt: Date | null }
type State = Parts & {
  /** Of the upstream, as it was when the demo began. */
  readonly backup: Backup
  late: Late | null
  vanished: Incident | null
  bad: (Incident & { mendedAt: Date | null }) | null
  harder: { readonly words: string; readonly at: Date; endedAt: Date | null } | null
  proof: Proof | null
  provingSince: Date | null
  proofError: string | null
}

/** How long a commit stays hidden: longer than a run of the reader. */
export const hiddenMs = 12_000
const outageMs = 30_000
const goodOnes = 40

export function openDemo(parts: Parts): Demo {
  const state: State = {
    ...parts,
    backup: parts.simulator.source.takeBackup(),
    late: null,
    vanished: null,
    bad: null,
    harder: null,
    proof: null,
    provingSince: null,
    proofError: null,
  }
  return {
    key: parts.key,
    show: () => show(state),
    async press(name) {
      const press = Object.hasOwn(buttons, name) ? buttons[name] : undefined
      if (!press) throw new UsageError('The demo has no such button.')
      if (name !== 'prove' && !(await isLoaded(state)))
        throw new UsageError('The first load is still running. Wait until it is complete.')
      return await press(state)
    },
  }
}

async function isLoaded({ context }: State): Promise<boolean> {
  const { rows } = await context.database.pool.query<{ is_loaded: boolean }>(
    `select bool_and(first_read_through_at is not null) as is_loaded
     from tidemark.stream where name in ('assignment', 'assignment_note')`,
  )
  return rows[0]?.is_loaded ?? false
}

/** Some assignment. Most likely the churn of the demo does not change it soon. */
function someAssignment({ simulator }: State, but?: number): number {
  const ids = simulator.source.livingIds('assignment').filter((id) => id !== but)
  const id = ids[Math.floor(Math.random() * ids.length)]
  if (id === undefined) throw new UsageError('There are no work orders: start the demo with some.')
  return id
}

/** Does the work later, unless the program ends before. */
const later = ({ signal }: State, ms: number, work: () => void) =>
  void wait(ms, undefined, { signal, ref: false }).then(work, () => {})

const buttons: Readonly<Record<string, (state: State) => string | Promise<string>>> = {
  'late-commit'(state) {
    const { source } = state.simulator
    const id = someAssignment(state)
    const { version, commit } = source.changeLate('assignment', id)
    const late: Late = { at: new Date(), id, version, shownAt: null }
    state.late = late
    // Another record moves the position past it.
    source.change('assignment', someAssignment(state, id))
    later(state, hiddenMs, () => {
      commit()
      late.shownAt = new Date()
    })
    return `Work order ${id} was changed, and nobody can see it for ${hiddenMs / 1000} s.`
  },
  vanish(state) {
    const id = someAssignment(state)
    state.simulator.source.remove('assignment', id, 'hard')
    state.vanished = { at: new Date(), id }
    return `Work order ${id} is gone upstream, and nobody was told.`
  },
  async reconcile({ requestRun }) {
    await requestRun({ stream: 'assignment', kind: 'reconcile', cause: 'operator' })
    return 'The reconcile of assignment was requested and begins in a moment.'
  },
  'bad-record'(state) {
    const { source } = state.simulator
    for (let index = 0; index < goodOnes; index++) source.insert('assignment')
    const { id } = source.insertMalformed('no-row-version', 'assignment')
    state.bad = { at: new Date(), id, mendedAt: null }
    return `${goodOnes} good work orders and a bad one, ${id}, were made.`
  },
  mend(state) {
    const { bad, simulator } = state
    if (!bad) throw new UsageError('There is no bad record to correct.')
    simulator.source.change('assignment', bad.id)
    bad.mendedAt = new Date()
    return `Work order ${bad.id} was corrected upstream. Try it again in the quarantine, or wait until it is read.`
  },
  outage: (state) =>
    faulty(state, 'The upstream answers 503 for 30 s', () => state.simulator.faults.add({ kind: 503 })),
  throttle: (state) =>
    faulty(state, 'The upstream answers 429 for 30 s', () =>
      state.simulator.faults.add({ kind: 429, retryAfterSeconds: 10 }),
    ),
  shuffle: (state) =>
    faulty(state, 'The upstream shows its lists in another order each time, for 30 s', () => {
      const { behaviour } = state.simulator
      const { order, sorts } = behaviour
      Object.assign(behaviour, { order: 'unstable', sorts: 'ignored' })
      return () => Object.assign(behaviour, { order, sorts })
    }),
  prove: (state) => prove(state),
  'delete-many'(state) {
    const { source } = state.simulator
    const gone = source.livingIds('assignment').filter((id) => id % 10 < 3)
    for (const id of gone) source.remove('assignment', id, 'hard')
    state.harder = overAtOnce(`${count(gone.length)} work orders are gone upstream`)
    return `${state.harder.words}. So many at once are mostly a mistake of the upstream: Tidemark marks none of them as deleted, and asks you.`
  },
  'old-backup'(state) {
    const { simulator, backup } = state
    simulator.source.restoreBackup(backup)
    state.harder = overAtOnce('The upstream is as it was when the demo began, row versions too')
    return `${state.harder.words}. Tidemark looks twice, minutes apart, before it believes that, and then reads everything again.`
  },
}

const overAtOnce = (words: string) => ({ words, at: new Date(), endedAt: new Date() })

function faulty(state: State, words: string, begin: () => () => void): string {
  if (state.harder && state.harder.endedAt === null)
    throw new UsageError('One at a time: wait until the last one is over.')
  const end = begin()
  const harder = { words, at: new Date(), endedAt: null as Date | null }
  state.harder = harder
  later(state, outageMs, () => {
    end()
    harder.endedAt = new Date()
  })
  return `${words}.`
}

// ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────

async function show(state: State): Promise<DemoShown> {
  const orders = count(state.simulator.source.livingIds('assignment').length)
  const next = (await isLoaded(state))
    ? 'Let three things go wrong; each of them loses rows in most tools.'
    : 'They are being loaded for the first time; wait until that is complete.'
  const lead = `This is a simulated field-service system with ${orders} work orders. ${next}`
  const asked = [await lateCard(state), await vanishedCard(state), await badCard(state)]
  return { lead, cards: [...asked, harderCard(state), proofCard(state), queryCard] }
}

/** As the first of these that is so. */
function standing(
  ...ways: readonly (readonly [unknown, DemoCard['tone'], string])[]
): Pick<DemoCard, 'tone' | 'words'> {
  const [, tone, words] = ways.find(([isSo]) => isSo) ?? [true, 'todo', 'not tried yet']
  return { tone, words }
}

/** Those that were taken. */
const stepsOf = (
  ...steps: readonly (readonly [isTaken: unknown, text: string, at: Date | null | undefined])[]
): readonly DemoStep[] => steps.flatMap(([isTaken, text, at = null]) => (isTaken ? [{ text, at }] : []))

/** Whether the record has been changed once more: such a change waits for the late commit, and then both become visible at once. */
function hasAnotherVersion({ id, version, shownAt }: Late, { source }: Simulator): boolean {
  const now = source.versionOf('assignment', id)
  return shownAt ? now !== version : now === null || now > version
}

async function lateCard({ late, context, simulator }: State): Promise<DemoCard> {
  const { rows } = await context.database.pool.query<{ found_at: Date }>(
    `select found_at from tidemark.late_arrival
     where stream = 'assignment' and key = $1 and version = $2 order by id limit 1`,
    [String(late?.id ?? 0), String(late?.version ?? 0)],
  )
  const foundAt = rows[0]?.found_at
  const isOvertaken = late !== null && !foundAt && hasAnotherVersion(late, simulator)
  const shownAt = late?.shownAt
  const took = shownAt && foundAt ? formatDuration(foundAt.getTime() - shownAt.getTime()) : null
  const overtaken =
    'Changed again or deleted before Tidemark looked back, so nothing is left to look back for. Try again'
  return {
    title: '1. A late commit',
    isThird: true,
    lead: `A record gets its row version now and becomes visible ${hiddenMs / 1000} s later, when the mirror has passed that version.`,
    ...standing(
      [foundAt, 'ok', 'caught'],
      [isOvertaken, 'todo', 'changed again'],
      [late, 'busy', shownAt ? 'passed over' : 'hidden'],
    ),
    steps: stepsOf(
      [late, `Work order ${late?.id} changed, still hidden`, late?.at],
      [isOvertaken, overtaken, null],
      [shownAt && !isOvertaken, 'Visible now; ordinary reading is past it', shownAt],
      [took, `Look-back found and stored it, ${took} after it showed`, foundAt],
    ),
    links: foundAt && late ? [[`/records/assignment/${late.id}`, 'The row’s story']] : [],
    buttons: [{ name: 'late-commit', words: late ? 'Again' : 'Break it', isMain: !late || isOvertaken }],
  }
}

async function vanishedCard({ vanished, context }: State): Promise<DemoCard> {
  const { rows } = await context.database.pool.query<{ gone_at: Date | null; known: Date | null }>(
    `select (select _deleted_at from mirror.assignment where assignment_id = $1) as gone_at,
       (select deletions_known_at from tidemark.stream where name = 'assignment') as known`,
    [vanished?.id ?? 0],
  )
  const goneAt = vanished ? (rows[0]?.gone_at ?? null) : null
  const known = rows[0]?.known
  const isHere = vanished && !goneAt
  return {
    title: '2. A vanished record',
    isThird: true,
    lead: 'The upstream deletes a record and tells nobody: no version, no webhook. Tidemark looks for such records every minute; a reconcile finds it at once.',
    ...standing([goneAt, 'ok', 'marked'], [vanished, 'busy', 'your turn']),
    steps: stepsOf(
      [vanished, `Work order ${vanished?.id} is gone upstream`, vanished?.at],
      [isHere && known, 'The mirror still has it. Deletions are known through', known],
      [isHere && !known, 'The mirror still has it. Deletions are not known before the first reconcile', null],
      [goneAt, 'Noticed, proven, and marked as deleted', goneAt],
    ),
    links: vanished ? [[`/records/assignment/${vanished.id}`, 'The row’s story']] : [],
    buttons: [
      ...(isHere ? [{ name: 'reconcile', words: 'Reconcile now', isMain: true }] : []),
      { name: 'vanish', words: vanished ? 'Again' : 'Break it', isMain: !vanished },
    ],
  }
}

async function badCard({ bad, context }: State): Promise<DemoCard> {
  const { rows } = await context.database.pool.query<{
    open: Date | null
    stored: boolean
    gone_at: Date | null
  }>(
    `select (
         select min(first_seen_at) from tidemark.quarantine
         where stream = 'assignment' and dropped_at is null and first_seen_at >= $2::timestamptz
       ) as open,
       exists (select from mirror.assignment where assignment_id = $1) as stored,
       (select _deleted_at from mirror.assignment where assignment_id = $1) as gone_at`,
    [bad?.id ?? 0, bad?.at ?? new Date()],
  )
  const { open = null, stored = false, gone_at: goneAt = null } = rows[0] ?? {}
  const isClosed = bad !== null && open === null && stored
  return {
    title: '3. A bad record',
    isThird: true,
    lead: `The upstream sends a work order that cannot be a row, among ${goodOnes} good ones.`,
    ...standing([isClosed, 'ok', 'closed'], [open, 'warn', 'in quarantine'], [bad, 'busy', 'on its way']),
    steps: stepsOf(
      [bad, `${goodOnes} good work orders and one without a row version, ${bad?.id}`, bad?.at],
      [open, 'Put aside whole; the good ones are stored, and nothing waits', open],
      [bad?.mendedAt, 'Corrected upstream', bad?.mendedAt],
      [
        isClosed,
        `It ${goneAt ? 'became' : 'is'} a row${goneAt ? '' : ' now'}, and is out of the quarantine`,
        null,
      ],
      [isClosed && goneAt, 'Deleted upstream since then, and marked as deleted', goneAt],
    ),
    links: open ? [['/quarantine?stream=assignment', 'Look at it, try again']] : [],
    buttons: [
      ...(bad && !bad.mendedAt ? [{ name: 'mend', words: 'Correct it upstream', isMain: true }] : []),
      { name: 'bad-record', words: bad ? 'Again' : 'Break it', isMain: !bad },
    ],
  }
}

const harderCard = ({ harder }: State): DemoCard => ({
  title: 'Something harder',
  lead: 'Watch on the console what Tidemark does about it. Afterwards, the proof below shows whether a row was lost.',
  ...standing([harder?.endedAt, 'ok', 'over'], [harder, 'busy', 'goes on']),
  steps: stepsOf([harder, `${harder?.words}`, harder?.at], [harder?.endedAt, 'Over', harder?.endedAt]),
  links: [['/problems', 'See what Tidemark says of it']],
  buttons: [
    { name: 'outage', words: 'Upstream down for 30 s' },
    { name: 'throttle', words: 'Answer 429' },
    { name: 'shuffle', words: 'Shuffle the pages' },
    { name: 'delete-many', words: 'Delete 30 % of the list' },
    { name: 'old-backup', words: 'Restore an old backup' },
  ],
})

function proofCard({ proof, provingSince, proofError, ...broken }: State): DemoCard {
  const differing = `${proof?.total === 0 ? 'no difference' : plural(proof?.total ?? 0, 'difference')} at ${proof?.at.toISOString().slice(11, 19)} UTC`
  const { late, vanished, bad, harder } = broken
  const isOld = [late, vanished, bad, harder].some((one) => one && proof && one.at > proof.at)
  const compared = `${count(proof?.compared ?? 0)} records were compared with the upstream, value by value`
  return {
    title: 'Proof',
    lead: 'Compares every record of the simulated upstream with its row, value by value, as they are at that moment. One that cannot be a row has to be in the quarantine. For your own upstream, run tidemark verify.',
    ...standing(
      [provingSince, 'busy', 'comparing'],
      [proofError, 'bad', 'could not be compared'],
      [isOld, 'todo', `${differing}, before the last thing went wrong`],
      [proof, proof?.total === 0 ? 'ok' : 'warn', differing],
      [true, 'todo', 'not compared yet'],
    ),
    steps: stepsOf(
      [proofError, `${proofError}`, null],
      [proof && !proofError, compared, proof?.at],
      [
        proof?.quarantined && !proofError,
        `${plural(proof?.quarantined ?? 0, 'record')} cannot be ${proof?.quarantined === 1 ? 'a row and is' : 'rows and are'} in the quarantine`,
        null,
      ],
      ...(proofError ? [] : (proof?.differences ?? [])).map((text) => [true, text, null] as const),
    ),
    links: [],
    buttons: [{ name: 'prove', words: proof ? 'Compare again' : 'Compare', isMain: !proof }],
  }
}

const queryCard: DemoCard = {
  title: 'Query it',
  lead: 'In the directory where the demo runs. Its terminal shows the address for Power BI, Metabase or Grafana; the views are in schema bi.',
  command: 'npx tidemark sql "select city, count(*) from bi.assignment group by 1 order by 2 desc"',
  tone: 'idle',
  words: 'schema bi',
  steps: [],
  links: [['/find', 'Find a record']],
  buttons: [],
}

/** In the background: it takes seconds. */
function prove(state: State): string {
  if (state.provingSince) throw new UsageError('The comparison is already running.')
  state.provingSince = new Date()
  state.proofError = null
  void proveCopy(state, state.signal)
    .then((proof) => {
      state.proof = proof
    })
    .catch((error) => {
      state.proofError = messageOf(error)
      state.log.warn({ err: error }, 'the copy could not be compared with the simulated upstream')
    })
    .finally(() => {
      state.provingSince = null
    })
  return 'All records are being compared.'
}
