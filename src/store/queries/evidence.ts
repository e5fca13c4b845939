// What speaks for and against deletions that are blocked: which rows are missing, what looks at their records said, from which time
// they are, and how many were ever deleted at once. Read-only.

import type { ClientBase } from 'pg'
import type { MissingLook } from '../../sync/ports/audits.ts'

/** As it is kept in `blocked_deletions` of the stream. */
export type MissingEvidence = {
  /** When the looks were made, perhaps by an earlier run. */
  readonly at: string
  /** The run that found the spread. */
  readonly runId: string
  readonly looks: readonly MissingLook[]
  /** Null where the rows have no time. */
  readonly spread: MissingSpread | null
}
/** Each bucket begins at a day and says how many of its rows are missing, and how many there are. */
export type MissingSpread = {
  readonly column: string
  readonly unit: 'year' | 'month' | 'day'
  readonly buckets: readonly (readonly [from: string, missing: number, rows: number])[]
  /** The first bucket holds all older rows as well. Left out by older programs, as `after`. */
  readonly before?: boolean
  /** The last bucket holds all newer rows as well. */
  readonly after?: boolean
}

const digits = { year: 4, month: 7, day: 10 } as const

/** The buckets as people name them, in their order. */
export const bucketNames = ({ unit, buckets, before, after }: MissingSpread): readonly string[] =>
  buckets.map(([from], index) => {
    const words = [
      ...(before && index === 0 ? ['before'] : []),
      ...(after && index === buckets.length - 1 ? ['after'] : []),
    ]
    return [from.slice(0, digits[unit]), ...words].join(' or ')
  })

export type DeletionEvidence = {
  /** Some of the rows that are missing, with what a look at the record said; null: there was no look. */
  readonly samples: readonly { readonly key: string; readonly evidence: string | null }[]
  /** What became of those that were asked for by key. */
  readonly looked: { readonly gone: number; readonly there: number; readonly unclear: number }
  readonly lookedAt: Date | null
  readonly spread: MissingSpread | null
  /** The run that found the spread out. */
  readonly runId: string | null
  /** The most rows that one run ever marked deleted, in what the ledger still knows. */
  readonly mostInARun: number
  /** Other rows, which were marked within the last day, since a person last approved deletions. */
  readonly markedWithinDay: number
}

const mostSamples = 20

/** Of a line of tidemark.stream: within the last day, since a person last approved deletions. Too many are too many bit by bit as well (P7). */
export const markedWithinDaySql = `(
  select coalesce(sum(marked_deleted), 0)::float8 from tidemark.run
  where run.stream = name and run.kind in ('deletions', 'reconcile', 'list') and run.started_at > now() - interval '1 day'
    and run.started_at > coalesce(deletions_approved_at, '-infinity'))`

type Found = Pick<DeletionEvidence, 'samples' | 'mostInARun' | 'markedWithinDay'> & {
  readonly kept: MissingEvidence | null
}

export async function readDeletionEvidence(
  client: Pick<ClientBase, 'query'>,
  stream: string,
): Promise<DeletionEvidence> {
  const { rows } = await client.query<Found>(
    `select
       coalesce((
         select jsonb_agg(jsonb_build_object('key', key, 'evidence', evidence) order by key) from (
           -- With evidence it is marked already.
           select key, evidence from tidemark.suspect where stream = $1 and evidence is null order by key limit ${mostSamples}
         ) as shown
       ), '[]') as samples,
       (select ${markedWithinDaySql} from tidemark.stream where name = $1) as "markedWithinDay",
       (select coalesce(max(marked_deleted), 0)::float8 from tidemark.run where stream = $1) as "mostInARun",
       (select blocked_deletions -> 'evidence' from tidemark.stream where name = $1) as kept`,
    [stream],
  )
  const [found] = rows
  const kept = found?.kept ?? null
  const looks = kept?.looks ?? []
  const of = (wanted: string) => looks.filter(({ answer }) => answer === wanted).length
  return {
    samples:
      looks.length > 0
        ? looks.map(({ key, answer }) => ({ key, evidence: words[answer] }))
        : (found?.samples ?? []),
    looked: {
      gone: of('gone'),
      there: of('there'),
      unclear: of('unclear'),
    },
    lookedAt: looks.length > 0 && kept ? new Date(kept.at) : null,
    spread: kept?.spread ?? null,
    runId: kept?.runId ?? null,
    mostInARun: found?.mostInARun ?? 0,
    markedWithinDay: found?.markedWithinDay ?? 0,
  }
}

const words = { gone: 'gone', there: 'still there', unclear: 'the answer was unclear' } as const
