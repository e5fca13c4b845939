// What the upstream or somebody else changed: how it behaves, what its records hold, how it describes itself, and what was done to the
// tables. Most of these are events: nobody has to do anything for them to end.

import { changeText } from '../openapi/changes.ts'
import type { ChangeLine, UnusableDescription } from '../openapi/stored.ts'
import type { StreamSymptoms } from '../store/book/symptoms.ts'
import { beliefKind } from '../streams/beliefs.ts'
import { mostUnplaced } from '../streams/field-types.ts'
import { schemasOf, sourceIn, tableName } from '../streams/names.ts'
import { count, plural, sentence } from '../util/text.ts'
import { type Problem, problemOf } from './stream-problems.ts'

/** The first of many. `joint` stands between them. */
function firstOf(all: readonly string[], most: number, joint: ', ' | '; ', more = ' and'): string {
  const left = all.length - most
  return `${all.slice(0, most).join(joint)}${left > 0 ? `${more} ${count(left)} more` : ''}`
}

/** Of a stream, without what one look at its description found. */
export const whatChanged = (symptoms: StreamSymptoms): readonly Problem[] => [
  ...beliefsChanged(symptoms),
  ...wentBack(symptoms),
  ...locallyDamaged(symptoms),
  ...volatileFields(symptoms),
  ...schemaDrift(symptoms),
  ...recordsDiffer(symptoms),
]

const mostNamed = 5

const beliefsChanged = ({ stream, flippedBeliefs }: StreamSymptoms): Problem[] =>
  flippedBeliefs.map(({ name, value, previousValue, evidence, changedAt }) => {
    const kind = beliefKind(name)
    const about = kind === null ? '' : ` (${kind.claim})`
    // Told only when the belief fell: one that holds again takes nothing back.
    const takenBack = kind?.holdsAs && !kind.holdsAs.includes(value) ? ` ${kind.takenBack}` : ''
    return problemOf('belief_changed', stream, `${stream}:${name}:${value}`, {
      since: changedAt,
      what: `${stream}: the upstream behaves differently. ${name.replaceAll('_', ' ')}${about} was ${previousValue} and is now ${value}: ${sentence(evidence)}${takenBack}`,
      whatToDo: 'Nothing: Tidemark adapts by itself. `tidemark probe` shows how the upstream behaves now.',
    })
  })

const wentBack = ({ stream, epochs }: StreamSymptoms): Problem[] =>
  epochs.map(({ at, runId, position, evidence, isRead }) =>
    problemOf('upstream_restored', stream, `${stream}:${at.toISOString()}`, {
      since: at,
      what: `${stream}: the upstream went back to an older state, as after a restored backup (${evidence}). Position ${position} was given up. ${isRead ? 'Everything has been read again since and has replaced what was here.' : `Run ${runId} began to read everything again and replaces what is here. Until it is done, rows can be newer than upstream.`}`,
      whatToDo: `Nothing: Tidemark repairs this by itself. Ask the operator of the upstream what was restored, and to which time: changes after that are lost there, too. \`tidemark status ${stream}\` shows the progress.`,
    }),
  )

const volatileFields = ({ stream, volatileFields: fields }: StreamSymptoms): Problem[] =>
  fields.map(({ field, evidence, at }) =>
    problemOf('volatile_field', stream, `${stream}:${field}`, {
      since: at,
      what: `${stream}: field ${field} keeps changing by itself: ${evidence}. From now on a row that differs in this field alone counts as unchanged. Its value here is that of the last other change.`,
      whatToDo: `Nothing, unless your reports need ${field}: then read it from the upstream when you use it. To compare it anyway, set VOLATILE_${stream.toUpperCase()}=none.`,
    }),
  )

const inWords: Readonly<Record<string, string>> = {
  insert: 'rows inserted',
  update: 'rows updated',
  delete: 'rows deleted',
  truncate: 'emptied by truncate',
  drop: 'dropped',
  replace: 'replaced by another table of its name',
  alter: 'columns or its key dropped, renamed or given other types',
  unwatch: 'its triggers removed or disabled',
  'drop months': 'months of it dropped',
}

/** All changes that one run found are one problem, and so are all that the next run will find. */
const locallyDamaged = ({ stream, localChanges }: StreamSymptoms): Problem[] =>
  [false, true].flatMap((isHistory) => {
    const changes = localChanges.filter((one) => one.isHistory === isHistory)
    const damage = isHistory ? lostHistory : mendedDamage
    return [...Map.groupBy(changes, ({ runId }) => runId).values()].map((group) => damage(stream, group))
  })

type Damage = StreamSymptoms['localChanges']

const changesInWords = (changes: Damage): string =>
  firstOf(changes.map(describeChange), mostNamed, '; ', '; and')

/** The upstream does not show the past, so a lost history comes back from a backup or not at all. */
function lostHistory(stream: string, changes: Damage): Problem {
  const { at = new Date(0), foundAt = null } = changes[0] ?? {}
  const isLost = changes.some(({ operation }) => operation !== 'insert' && operation !== 'unwatch')
  return problemOf('local_damage', stream, `${stream}:history:${at.toISOString()}`, {
    since: foundAt,
    what: `${stream}: somebody changed its history in Postgres, ${tableName(stream)}_history: ${changesInWords(changes)}. ${isLost ? 'The upstream does not keep old versions, so these lines are lost. The current rows are in it again.' : 'What it contains may be wrong.'}`,
    whatToDo: `Restore what is lost from a backup, if reports need it: insert it into ${tableName(stream)}_history. Find out who writes to schema ${schemasOf(sourceIn(stream)).tables}, and revoke that permission.`,
  })
}

function mendedDamage(stream: string, changes: Damage): Problem {
  const { at = new Date(0), foundAt = null, runId = null } = changes[0] ?? {}
  const mending =
    runId === null
      ? 'The next run reads the stream again from the upstream.'
      : `Run ${runId} began to read the stream again from the upstream and replaces rows that are wrong.`
  return problemOf('local_damage', stream, `${stream}:${at.toISOString()}`, {
    since: foundAt,
    what: `${stream}: somebody changed its table in Postgres: ${changesInWords(changes)}. ${mending}`,
    whatToDo: `Nothing: Tidemark repairs this by itself. \`tidemark status ${stream}\` shows the progress. Find out who writes to schema ${schemasOf(sourceIn(stream)).tables}, and revoke that permission.`,
  })
}

function describeChange(change: Damage[number]): string {
  const { operation, rows, role, application, at, lostFrom, lostThrough } = change
  const done = inWords[operation] ?? operation
  const many = rows === null ? '' : ` (${plural(rows, 'row')})`
  const by = role === null ? '' : ` by role ${role}`
  const from = application ? ` with ${application}` : ''
  const seen =
    lostFrom === null || lostThrough === null
      ? ''
      : `, seen from ${new Date(lostFrom).toISOString()} to ${new Date(lostThrough).toISOString()},`
  return `${done}${many}${seen}${by}${from} at ${at.toISOString()}`
}

/** Fields that changed within minutes of each other are one problem. */
const driftGapMs = 10 * 60_000

function groupedDrift(drift: StreamSymptoms['drift']): StreamSymptoms['drift'][] {
  const groups: (typeof drift)[number][][] = []
  for (const change of drift.toSorted((a, b) => a.at.getTime() - b.at.getTime())) {
    const group = groups.at(-1)
    const last = group?.at(-1)
    if (group && last && change.at.getTime() - last.at.getTime() <= driftGapMs) group.push(change)
    else groups.push([change])
  }
  return groups
}

const inRescued = ` The names of up to ${mostUnplaced} fields without a column are kept, and all of their values, in \`_rescued\`.`
/** Only for fields that the upstream does not describe: for the others `recordsDiffer` tells the difference. */
const schemaDrift = ({ stream, drift }: StreamSymptoms): Problem[] =>
  groupedDrift(drift.filter(({ said = null }) => said === null)).map((group) => {
    const { at = new Date(0) } = group[0] ?? {}
    const named = group.map(({ field, change }) => `${field} (${change})`)
    const rescued = group.some(({ change }) => change === 'without a column') ? inRescued : ''
    return problemOf('schema_drift', stream, `${stream}:${at.toISOString()}`, {
      since: at,
      what: `${stream}: ${plural(group.length, 'field')} of its records changed: ${firstOf(named, mostNamed, ', ')}.${rescued}`,
      whatToDo: `Check whether reports need them: \`tidemark schema ${stream}\`.`,
    })
  })

// ── what the upstream says about itself ──────────────────────────────────────────────────────────────────────

const mostDescribed = 8

/** Fields of which records show something else than the description says. */
const recordsDiffer = ({ stream, drift }: StreamSymptoms): Problem[] =>
  groupedDrift(drift.filter(({ said = null }) => said !== null)).map((group) => {
    const { at = new Date(0) } = group[0] ?? {}
    const named = group.map(({ field, change, said }) =>
      change === 'new' ? `${field} (not in the description)` : `${field} (described as ${said}: ${change})`,
    )
    return problemOf('contract_differs', stream, `${stream}:${at.toISOString()}`, {
      since: at,
      what: `${stream}: its records do not match the description of the upstream in ${plural(group.length, 'field')}: ${firstOf(named, mostDescribed, ', ')}. Tidemark follows the records.`,
      whatToDo: `Tell the operator of the upstream. All differences: \`tidemark contract ${stream} --diff\`.`,
    })
  })

export type DescriptionSymptoms = {
  readonly changes: readonly ChangeLine[]
  readonly unusable: readonly UnusableDescription[]
}

export const descriptionProblems = ({ changes, unusable }: DescriptionSymptoms): readonly Problem[] => [
  ...unusable.map(unusableProblem),
  ...changedProblems(changes),
]

const unusableProblem = ({ service, problem, since }: UnusableDescription): Problem =>
  problemOf('contract_unusable', null, service, {
    since,
    what: `The description (OpenAPI) of the ${service} service cannot be used: ${sentence(problem)} Rows are read as usual, and column types come from the data.`,
    whatToDo:
      'Set CONTRACT to the address of the description, or to `off`. `tidemark probe` shows what was found.',
  })

/** All changes that one look found are one problem. Changes of what is neither mirrored nor an operation show only in the history. */
function changedProblems(changes: readonly ChangeLine[]): readonly Problem[] {
  const told = changes.filter(({ stream, subject }) => stream !== null || /^[A-Z]+ \//.test(subject))
  const groups = Map.groupBy(told, ({ service, foundAt }) => `${service}:${foundAt.toISOString()}`)
  return [...groups].map(([key, group]) =>
    problemOf('contract_changed', null, key, {
      since: group[0]?.foundAt ?? null,
      what: `The ${group[0]?.service} service changed its description (OpenAPI), ${plural(group.length, 'change')}: ${firstOf(group.map(changeText), mostDescribed, '; ')}.`,
      whatToDo: 'Check whether your reports or programs use what changed: `tidemark contract history`.',
    }),
  )
}
