// Problems that one worker has and another one may not have, such as a secret that is missing on one machine. Beside the notice itself, each
// worker that has the problem notes so again and again. The notice lasts for as long as one of them does.

import { holdableText } from '../../util/text.ts'
import { noticeSourceSql } from '../schema/places.ts'
import type { Queryable } from '../server/session.ts'
import { forgetProblem, type Notice, noteProblem } from './problems.ts'

/** A worker that did not note a problem for so long has it no more, or is gone. */
const lastsFor = `interval '3 minutes'`
/** Their kinds. */
const kinds = ['source_stopped', 'sources_file']

/** `worker`: a name that no other one has. */
type Own = Pick<Notice, 'key'> & { readonly worker: string }

const ownKey = ({ key, worker }: Own): string => `seen_${key}:${worker}`
/** In SQL: whether any worker has the problem of a notice. */
const isSeenSql = `exists (
  select from tidemark.notice as seen where starts_with(seen.key, 'seen_' || notice.key || ':') and seen.since > now() - ${lastsFor}
)`

export async function noteOfWorker(client: Queryable, own: Own & Pick<Notice, 'what'>): Promise<void> {
  await client.query(
    `insert into tidemark.notice (key, what) values ($1, $2)
     on conflict (key) do update set what = excluded.what, since = now()`,
    [ownKey(own), holdableText(own.what)],
  )
  await noteProblem(client, { key: own.key, what: own.what })
}

/** This worker does not have the problem, or not any more. */
export async function forgetOfWorker(client: Queryable, own: Own): Promise<void> {
  await forgetProblem(client, ownKey(own))
  await client.query(`delete from tidemark.notice where key = $1 and not ${isSeenSql}`, [own.key])
}

/** What this worker noted lasts on; what no worker has any more is over, and so is what is wrong with sources that are gone. To be called more often than it lasts. */
export async function keepNotices(client: Queryable, worker: string): Promise<void> {
  await client.query(
    `update tidemark.notice set since = now() where starts_with(key, 'seen_') and right(key, length($1) + 1) = ':' || $1`,
    [worker],
  )
  await client.query(
    `delete from tidemark.notice
     where starts_with(key, 'seen_') and since < now() - ${lastsFor} or split_part(key, ':', 1) = any ($1) and not ${isSeenSql}`,
    [kinds],
  )
  // Whoever was at it when the source went may have noted a problem of it afterwards.
  await client.query(
    `delete from tidemark.notice where ${noticeSourceSql} <> '' and not exists (
       select from tidemark.source_config where name = ${noticeSourceSql} and gone_at is null
     )`,
  )
}

/** Of a worker that ends: those that go on say what is still so. */
export const endNotices = (client: Queryable, worker: string) =>
  client.query(
    `delete from tidemark.notice where starts_with(key, 'seen_') and right(key, length($1) + 1) = ':' || $1`,
    [worker],
  )
