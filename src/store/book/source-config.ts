// The sources as the file of sources was last applied: compared with a file, written as it says, and read by the workers.

import type { Pool } from 'pg'
import { holdableText } from '../../util/text.ts'
import { noticeSourceSql, sourceSql } from '../schema/places.ts'
import { queryAny, queryColumn, queryCount, queryRows } from '../server/query.ts'
import { type Queryable, takeTurn } from '../server/session.ts'
import type { sourceConfigTable } from '../tables/state.ts'
import { inOneTransaction } from './ask.ts'
import { openProblemsSql, problemSourceSql } from './problems.ts'
import { noteOfWorker } from './worker-notices.ts'

export type AppliedSource = Readonly<
  Pick<typeof sourceConfigTable.$inferSelect, 'name' | 'settings' | 'tags' | 'changedAt' | 'goneAt'>
> & { readonly revision: string; readonly generation: number }
type Said = { readonly settings: AppliedSource['settings']; readonly tags: readonly string[] }
/** What a file says. */
export type WantedSources = {
  readonly generation: number
  readonly sources: ReadonlyMap<string, Said>
}
export type SourceChange = {
  readonly name: string
  readonly change: 'added' | 'changed' | 'gone' | 'back'
  /** Of one that is changed: which settings, in words. */
  readonly what: readonly string[]
}

export const readAppliedSources = (client: Queryable) =>
  queryRows<AppliedSource>(client, {
    name: 'tidemark_sources_applied',
    text: `select name, settings, tags, revision::text, generation::float8, changed_at as "changedAt", gone_at as "goneAt"
      from tidemark.source_config order by name`,
  })

/** Those whose tables were last made by what is given for each of them, that are still to be read, and with which nothing is wrong. */
export const sourcesMadeBy = async (client: Queryable, wanted: ReadonlyMap<string, string>) =>
  new Set(
    await queryColumn<string>(
      client,
      `select name from tidemark.source_config join unnest($1::text[], $2::text[]) as wanted (name, by) using (name)
     where made_by = wanted.by and gone_at is null
       and not exists (select from tidemark.notice where key = 'source_stopped:' || name)
       and not exists (select from tidemark.contract_check where problem is not null and ${sourceSql('service')} = name)`,
      [[...wanted.keys()], [...wanted.values()]],
    ),
  )

export async function noteMadeBy(client: Queryable, source: string, by: string) {
  await client.query('update tidemark.source_config set made_by = $2 where name = $1', [source, by])
}

export const newestGeneration = (applied: readonly AppliedSource[]): number =>
  Math.max(0, ...applied.map(({ generation }) => generation))

/** Whether it was dropped and added again since: its revisions begin again at the first one. */
export const isAnew = (before: AppliedSource, now: AppliedSource): boolean =>
  BigInt(now.revision) <= BigInt(before.revision) && now.changedAt.getTime() !== before.changedAt.getTime()

function sourceChanges(applied: readonly AppliedSource[], { sources }: WantedSources) {
  const known = new Map(applied.map((one) => [one.name, one]))
  const wanted = [...sources].flatMap(([name, one]): SourceChange[] => {
    const before = known.get(name)
    if (!before) return [{ name, change: 'added', what: [] }]
    const what = differing(before, one)
    if (before.goneAt !== null) return [{ name, change: 'back', what }]
    return what.length === 0 ? [] : [{ name, change: 'changed', what }]
  })
  const gone = applied.filter(({ name, goneAt }) => goneAt === null && !sources.has(name))
  return [...wanted, ...gone.map(({ name }): SourceChange => ({ name, change: 'gone', what: [] }))]
}

function differing(before: AppliedSource, now: Said): readonly string[] {
  const names = new Set([...Object.keys(before.settings), ...Object.keys(now.settings)])
  const settings = [...names].toSorted().flatMap((name) => {
    const [was, is] = [before.settings[name], now.settings[name]]
    return was === is ? [] : [`${name.toLowerCase()}: ${was ?? 'not set'} → ${is ?? 'not set'}`]
  })
  const tags =
    before.tags.join(', ') === now.tags.join(', ') ? [] : [`tags: ${now.tags.join(', ') || 'none'}`]
  return [...settings, ...tags]
}

/** Of the problem that a source is not read. */
export const stoppedKey = (source: string): string => `source_stopped:${source}`

/**
 * Notes that this worker cannot read a source since then. Unless other workers may be reading it, its streams are stopped (P18). Nothing is
 * noted of one that is gone meanwhile: nobody would find that it is over.
 */
export const noteStopped = (pool: Pool, source: string, stopped: Stopped): Promise<void> =>
  inOneTransaction(pool, async (client) => {
    const named = 'select from tidemark.source_config where name = $1 and gone_at is null for share'
    if ((await queryCount(client, named, [source])) === 1) await noteUnread(client, source, stopped)
  })

type Stopped = {
  readonly worker: string
  readonly host: string
  readonly why: string
  readonly since: Date
}

async function noteUnread(client: Queryable, source: string, { worker, host, why, since }: Stopped) {
  const what = `The source ${source} is not read: ${why}`
  const isAlone = await queryCount(
    client,
    `with own as (
       select name, read_through_at, last_success_at from tidemark.stream where ${sourceSql('name')} = $1
     ), alone as (
       select where (select count(*) from tidemark.worker where seen_at > now() - interval '1 minute') <= 1
         or greatest($3, (select max(last_success_at) from own)) < now() - interval '5 minutes'
     ), noted as (
       insert into tidemark.standing as known (stream, state, reason, seen_at)
       select name, 'stopped', $2, now() from own, alone
       where read_through_at is not null or exists (select from tidemark.standing where stream = name)
       order by name
       on conflict (stream) do update set state = excluded.state, reason = excluded.reason, seen_at = excluded.seen_at
     )
     select from alone`,
    [source, holdableText(what), since],
  )
  const said =
    isAlone === 1 ? what : `The worker on ${host} cannot read the source ${source}, and others may: ${why}`
  await noteOfWorker(client, { worker, key: stoppedKey(source), what: said })
}

const pausedAsGone = 'The file of sources does not name it any more.'

/** An older file than the one that was applied last. */
export class OlderSourcesFile extends Error {
  override readonly name = 'OlderSourcesFile'
}

/** All or nothing. The streams of a source that is gone are paused, and read again when it is back. Returns what changed. */
export const applySources = (
  pool: Pool,
  wanted: WantedSources,
  { by, isDryRun = false }: { readonly by: string; readonly isDryRun?: boolean },
): Promise<readonly SourceChange[]> =>
  inOneTransaction(pool, async (client) => {
    await takeTurn(client, 'sources')
    const applied = await readAppliedSources(client)
    const newest = newestGeneration(applied)
    const changes = sourceChanges(applied, wanted)
    if (wanted.generation < newest && changes.length > 0)
      throw new OlderSourcesFile(
        `has generation ${wanted.generation}, and one of generation ${newest} was applied before: somebody uses an older file. Give this one a higher number if it is the right one`,
      )
    if (isDryRun) return changes
    for (const { name, change } of changes) {
      const one = wanted.sources.get(name)
      if (one)
        await client.query(
          `insert into tidemark.source_config as known (name, settings, tags, generation, changed_by)
             values ($1, $2, $3, $4, $5)
             on conflict (name) do update set settings = excluded.settings, tags = excluded.tags,
               revision = known.revision + 1, generation = excluded.generation, changed_at = now(),
               changed_by = excluded.changed_by, gone_at = null`,
          [name, one.settings, one.tags, wanted.generation, by],
        )
      else
        await client.query(
          `update tidemark.source_config
             set gone_at = now(), revision = revision + 1, generation = $2, changed_at = now(), changed_by = $3 where name = $1`,
          [name, wanted.generation, by],
        )
      if (change === 'gone') {
        await pauseSource(client, name, { by, reason: pausedAsGone })
        await client.query(`delete from tidemark.notice where ${noticeSourceSql} = $1`, [name])
      }
      if (change === 'back') await resumeSource(client, name, pausedAsGone)
    }
    if (wanted.generation > newest)
      await client.query('update tidemark.source_config set generation = $1', [wanted.generation])
    return changes
  })

/** Whether any worker has opened it. */
export async function hasStreams(client: Queryable, name: string): Promise<boolean> {
  return await queryAny(client, `select from tidemark.stream where ${sourceSql('name')} = $1 limit 1`, [name])
}

/** Returns how many streams it has that were read until now. */
export const pauseSource = (
  client: Queryable,
  name: string,
  { by, reason }: { readonly by: string; readonly reason: string | null },
) =>
  queryCount(
    client,
    `update tidemark.stream set paused_at = now(), paused_by = $2, pause_reason = $3
     where ${sourceSql('name')} = $1 and paused_at is null`,
    [name, by, reason],
  )

/** `reason`: only those that were paused for it. */
export const resumeSource = (client: Queryable, name: string, reason: string | null = null) =>
  queryCount(
    client,
    `update tidemark.stream set paused_at = null, paused_by = null, pause_reason = null
     where ${sourceSql('name')} = $1 and paused_at is not null and ($2::text is null or pause_reason = $2)`,
    [name, reason],
  )

export type SourceLine = {
  readonly name: string
  /** The worst state of its streams. */
  readonly state: 'stopped' | 'behind' | 'loading' | 'paused' | 'new' | 'live'
  readonly streams: number
  readonly readThroughAt: Date | null
  readonly deletionsKnownAt: Date | null
  readonly reasons: readonly string[]
  readonly tags: readonly string[]
  readonly isGone: boolean
  readonly problem: string | null
  /** How many problems there are of it, by what the workers noted. */
  readonly problems: number
  /** How many of its settings were changed while workers run. */
  readonly changedSettings: number
}

/** Worst first. The source that the environment describes has an empty name. */
export const readSourceLines = (client: Queryable) =>
  queryRows<SourceLine>(
    client,
    `with seen as (
       select known.*, is_fresh, bool_or(is_fresh) over (partition by source) as is_read
       from tidemark.freshness as known left join (
         select stream, seen_at > now() - interval '5 minutes' as is_fresh from tidemark.standing
       ) as noted using (stream)
     ), ofStreams as (
       select source, count(*)::int as streams,
         case when bool_and(read_through_time is not null) then min(read_through_time) end as "readThroughAt",
         case when bool_and(deletions_known_through is not null) then min(deletions_known_through) end as "deletionsKnownAt",
         min(place) as place, array_agg(distinct case when strpos(reason, stream) > 0 then reason else base || ': ' || reason end)
           filter (where reason is not null) as reasons
       from seen
       cross join lateral (
         select array_position(array['stopped', 'behind', 'loading', 'paused', 'live'], coalesce(state, 'behind')) as place
       ) as ranked
       -- A worker says of each stream that it mirrors how it stands. Without one, all that were ever mirrored count: a pause holds for others, too.
       where case when is_read then is_fresh
         else state <> 'paused' or is_fresh is not null or read_through_time is not null or last_success_at is not null end
       group by source
     ), problems as (
       select ${problemSourceSql} as of_source, count(*)::int as problems from ${openProblemsSql} group by 1
     ), settings as (
       select ${sourceSql('name')} as of_source, count(*)::int as changed from tidemark.setting_override group by 1
     )
     select coalesce(known.name, source) as name, coalesce(streams, 0) as streams, "readThroughAt", "deletionsKnownAt",
       case when gone_at is not null then 'paused' when place is null then case when notice.what is null then 'new' else 'stopped' end
         else (array['stopped', 'behind', 'loading', 'paused', 'live'])[place] end as state,
       coalesce(reasons, '{}') as reasons, coalesce(tags, '{}') as tags, gone_at is not null as "isGone", notice.what as problem,
       coalesce(problems.problems, 0) as problems, coalesce(settings.changed, 0) as "changedSettings"
     from ofStreams full join tidemark.source_config as known on known.name = source
     left join tidemark.notice on notice.key = 'source_stopped:' || known.name
     left join problems on problems.of_source = coalesce(known.name, ofStreams.source)
     left join settings on settings.of_source = coalesce(known.name, ofStreams.source)
     order by case when notice.what is not null or place = 1 then 1 when place = 2 then 2 when problems.problems > 0 then 3
       else 3 + coalesce(place, 2) end, "readThroughAt" nulls first, 1`,
  )
