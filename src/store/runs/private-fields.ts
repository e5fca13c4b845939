// Private fields as they are in force here (P20). A stream is read only while the dictionary says of its fields what is noted: a rule that is
// new, or other than before, first has to clear what is here already, and everything is read again.

import pg, { type ClientBase, type Pool } from 'pg'
import { type MirroredStream, relatedNamed } from '../../streams/catalog.ts'
import { foldField } from '../../streams/dictionary.ts'
import { baseOf, besideIn, schemasOf, sourceIn } from '../../streams/names.ts'
import {
  changesOf,
  type NotedRule,
  type PrivateFields,
  type RuleChange,
} from '../../streams/private-fields.ts'
import { keyParts } from '../../streams/record.ts'
import { UsageError } from '../../util/errors.ts'
import { readKeyField, readVersionField } from '../book/checkpoints.ts'
import { forgetProblem, noteProblem } from '../book/problems.ts'
import { changeType } from '../schema/grow-table.ts'
import { historyColumns } from '../schema/own-columns.ts'
import { qualified, sourceSql } from '../schema/places.ts'
import { distrustedHash, historyOf, readTableSchema, type TableSchema } from '../schema/table-schema.ts'
import { arraysOf, queryColumn, queryCount, queryRow, queryRows, queryValue } from '../server/query.ts'
import {
  inTransaction,
  limitLockWaits,
  type Queryable,
  retryOnLockTimeout,
  withConnection,
} from '../server/session.ts'
import type { ColumnType } from '../types/table.ts'
import { fenceRuns } from './lease.ts'
import { readAgain } from './local-changes.ts'
import { readFromBeginning } from './positions.ts'

type Rules = Pick<PrivateFields, 'wanted' | 'takeUp' | 'hides'>

/** What the dictionary says of a stream is not in force here, so it must not be read. */
class PrivateFieldsDiffer extends UsageError {}

const noticeOf = (stream: string): string => `private_fields:${stream}`

const ofStream = (noted: readonly RuleInForce[], stream: string) =>
  noted.filter((one) => one.stream === stream)

/** How the dictionary differs from what is in force. */
export async function waitingChanges(client: Queryable, stream: string, wantedOf: Rules['wanted']) {
  return changesOf(ofStream(await readNoted(client, stream), stream), wantedOf(stream))
}

/** Rejects unless the dictionary says of these streams, which are of one source, what is in force. With nothing stored yet, that is what it says. */
export async function expectRules(
  client: ClientBase,
  streams: readonly string[],
  { wanted: wantedOf, takeUp, hides }: Rules,
  inForce?: readonly RuleInForce[],
): Promise<void> {
  const noted = inForce ?? (await readNoted(client, streams[0] ?? ''))
  for (const stream of streams) {
    const [mine, wanted] = [ofStream(noted, stream), wantedOf(stream)]
    const changes = changesOf(mine, wanted)
    if (changes.length > 0 && (mine.length > 0 || (await holdsAnything(client, stream))))
      throw await refusal(client, stream, whyNotRead(stream, changes))
    const other = noted.find((one) => !streams.includes(one.stream) && !hides(one.stream, one))
    if (other)
      throw await refusal(
        client,
        stream,
        `${stream} is not read: its records may hold copies of ${other.stream}, and DICTIONARY or MASK_KEY lacks a rule for them that is in force here (${other.field}: ${other.rule}).`,
        other.stream,
      )
    await expectUnneeded(client, stream, wanted)
    if (changes.length > 0) await noteRules(client, stream, wanted)
    takeUp(stream)
    if (noted.length + wanted.length > 0) await forgetProblem(client, noticeOf(stream))
  }
}

/** The dictionary cannot know a key or a row version that was found in the data. */
async function expectUnneeded(client: Queryable, stream: string, wanted: readonly NotedRule[]) {
  if (wanted.length === 0) return
  const keyField = (await readKeyField(client, stream)) ?? ''
  const versionField = (await readVersionField(client, stream)) ?? ''
  for (const [field, use] of [
    ...keyParts(keyField).map((part) => [part, 'key'] as const),
    [versionField, 'row version'] as const,
  ])
    if (wanted.some((one) => one.field === foldField(field)))
      throw new PrivateFieldsDiffer(
        `${stream} is not read: DICTIONARY leaves out or masks ${field}, which is its ${use}. Take that rule out.`,
      )
}

/** `cleared`: of which stream something is to be cleared first. */
async function refusal(client: Queryable, stream: string, what: string, cleared = stream) {
  await noteProblem(client, { key: noticeOf(stream), what }).catch(() => {})
  return new PrivateFieldsDiffer(
    `${what} See what would be cleared: \`tidemark privacy ${cleared}\`. Then \`tidemark privacy ${cleared} --apply --reason TEXT\`.`,
  )
}

function whyNotRead(stream: string, changes: readonly RuleChange[]): string {
  const isKey = changes.every(({ before, after }) => before !== null && before.rule === after?.rule)
  const said = changes.map(
    ({ field, before, after }) =>
      `${field}: ${after?.rule ?? 'as it is'} instead of ${before?.rule ?? 'as it is'}`,
  )
  return isKey
    ? `${stream} is not read: MASK_KEY is another one than its hashes were made with.`
    : `${stream} is not read: DICTIONARY says of private fields what is not in force here (${said.join(', ')}).`
}

async function holdsAnything(client: Queryable, stream: string): Promise<boolean> {
  const { rows } = await client.query<{ tables: readonly string[] }>(
    `select array(
       select oid::regclass::text from pg_class where oid in (to_regclass($1), to_regclass($2))
     ) as tables`,
    [qualified({ name: stream }), qualified({ name: `${stream}_history` })],
  )
  const tables = [...(rows[0]?.tables ?? []).map((table) => `exists (select from ${table})`)]
  return (
    (await queryValue<boolean>(
      client,
      `select ${['exists (select from tidemark.quarantine where stream = $1)', ...tables].join(' or ')} as any`,
      [stream],
    )) ?? false
  )
}

const noteRules = (client: Queryable, stream: string, wanted: readonly NotedRule[]) =>
  client.query(
    `with gone as (
       delete from tidemark.private_field where stream = $1 and field <> all ($2::text[])
     )
     insert into tidemark.private_field as known (stream, field, rule, key_mark)
     select $1, * from unnest($2::text[], $3::text[], $4::text[])
     on conflict (stream, field) do update set rule = excluded.rule, key_mark = excluded.key_mark, since = now()
     where (known.rule, known.key_mark) is distinct from (excluded.rule, excluded.key_mark)`,
    [stream, ...arraysOf(wanted, 'field', 'rule', 'keyMark')],
  )

export type Cleared = Readonly<Record<'rows' | 'history' | 'quarantine' | 'texts', number>>

const nothing: Cleared = { rows: 0, history: 0, quarantine: 0, texts: 0 }

/** Values of these fields that are stored here: in columns of their own, nested in others, and in texts that quote an answer. */
type Places = { readonly tableSchema: TableSchema | null; readonly fields: readonly string[] }

const columnsIn = ({ tableSchema, fields }: Places) => {
  const columns = tableSchema?.columns ?? []
  return {
    own: columns
      .filter(({ field }) => fields.includes(foldField(field)))
      .map(({ name }) => pg.escapeIdentifier(name)),
    nested: columns.filter(({ type }) => type === 'jsonb').map(({ name }) => pg.escapeIdentifier(name)),
  }
}

const holdsSql = (places: Places, others: readonly string[]): string => {
  const { own, nested } = columnsIn(places)
  const conditions = [
    ...own.map((name) => `${name} is not null`),
    ...[...nested, ...others].map((name) => namesAnySql(`${name}::text`, places.fields)),
  ]
  return conditions.length === 0 ? 'false' : `(${conditions.join(' or ')})`
}

const emptySql = (places: Places, others: readonly string[]): string => {
  const { own, nested } = columnsIn(places)
  return [
    ...own.map((name) => `${name} = null`),
    ...[...nested.filter((name) => !own.includes(name)), ...others].map(
      (name) =>
        `${name} = case when ${namesAnySql(`${name}::text`, places.fields)} then null else ${name} end`,
    ),
  ].join(', ')
}

/** Texts of errors quote the beginning of an answer. */
const quoting = [
  { table: 'run', column: 'error' },
  { table: 'run', column: 'note' },
  { table: 'progress', column: 'error' },
  { table: 'backfill', column: 'error' },
  { table: 'problem', column: 'what' },
  { table: 'problem_history', column: 'what' },
] as const
const quoteSql = `'(It begins|It says): .*$'`
const withoutQuote = (column: string) => `regexp_replace(${column}, ${quoteSql}, 'Its text was left out.')`

/** What a record is called where it is nested in those of other streams, and which of its fields are meant. */
type Nested = { readonly names: readonly string[]; readonly fields: readonly string[] }

/** All that is kept of a record in quarantine: jsonb cannot hold each of them. */
const quarantinedSql = `concat_ws(' ', record::text, record_text, repeated::text)`
const holdsNestedSql = (text: string, { names, fields }: Nested): string =>
  `${namesAnySql(text, names)} and ${namesAnySql(text, fields)}`

/** Columns of other streams, and of their past, that hold such records. What is nested under a name of the stream, such as `customer` in an assignment, has its rules. */
async function copiesOf(client: Queryable, { name }: MirroredStream, nested: Nested) {
  const rows = await queryRows<{ table: string; column: string; isNamed: boolean }>(
    client,
    `select relname as table, attname as column, lower(regexp_replace(attname, '[^[:alnum:]]', '', 'g')) = any ($2) as "isNamed"
     from pg_attribute
     join pg_class on pg_class.oid = attrelid join pg_namespace on pg_namespace.oid = relnamespace
     where nspname = $3 and relkind in ('r', 'p') and not relispartition and atttypid = 'jsonb'::regtype
       and relname <> all ($1)
     order by relname, attnum`,
    [[baseOf(name), `${baseOf(name)}_history`], nested.names, schemasOf(sourceIn(name)).tables],
  )
  return rows.map(({ table: base, column, isNamed }) => {
    const table = besideIn(name, base)
    const quoted = pg.escapeIdentifier(column)
    const text = `${quoted}::text`
    return {
      table: qualified({ name: table }),
      stream: table.replace(/_history$/, ''),
      isPast: table.endsWith('_history'),
      column: quoted,
      where: isNamed ? namesAnySql(text, nested.fields) : holdsNestedSql(text, nested),
    }
  })
}

/** Empties them; their own streams bring them again, by the rules. Their records in quarantine come again as well. */
async function clearCopies(client: ClientBase, own: MirroredStream, nested: Nested, reason: string) {
  const emptied = new Set<string>()
  for (const { table, stream, isPast, column, where } of await copiesOf(client, own, nested)) {
    const noted = isPast ? '' : `, _hash = ${distrustedHash}, _xid = pg_current_xact_id()`
    if (await queryCount(client, `update ${table} set ${column} = null${noted} where ${where}`))
      emptied.add(stream)
  }
  const quarantined = await queryColumn<string>(
    client,
    `delete from tidemark.quarantine where ${sourceSql('stream')} = $1 and ${holdsNestedSql(quarantinedSql, nested)} returning stream`,
    [sourceIn(own.name)],
  )
  for (const stream of new Set([...emptied, ...quarantined])) await readWhole(client, stream, reason)
}

async function readWhole(client: ClientBase, name: string, reason: string): Promise<void> {
  const related = relatedNamed(name)
  if (related) await readAgain(client, related)
  else await readFromBeginning(client, { stream: name, runId: null }, reason)
}

/** How much of that there is. */
export async function countPrivate(
  client: Queryable,
  stream: MirroredStream,
  changes: readonly RuleChange[],
  names: readonly string[],
): Promise<Cleared> {
  if (changes.length === 0) return nothing
  const tableSchema = await readTableSchema(client, stream)
  const places = { tableSchema, fields: changes.map(({ field }) => field) }
  const counted = (table: string, where: string) => `(select count(*) from ${table} where ${where})::float8`
  const nested = { names, fields: places.fields }
  const copies = await copiesOf(client, stream, nested)
  const copied = (isPast: boolean) =>
    copies
      .filter((one) => one.isPast === isPast)
      .map(({ table, where }) => ` + ${counted(table, where)}`)
      .join('')
  const alone = await readPastAlone(client, stream, places.fields)
  const inPast = [
    ...(tableSchema?.history ? [holdsSql(places, [])] : []),
    ...alone.map(({ where }) => `(${where})`),
  ]
  const texts = quoting.map(({ table, column }) =>
    counted(`tidemark.${table}`, `stream = $1 and ${column} ~ ${quoteSql}`),
  )
  const found = await queryRow<Cleared>(
    client,
    `select ${tableSchema ? counted(qualified(stream), holdsSql(places, ['_rescued'])) : '0::float8'}${copied(false)} as rows,
       ${inPast.length > 0 ? counted(qualified(historyOf(stream)), inPast.join(' or ')) : '0::float8'}${copied(true)} as history,
       ${counted('tidemark.quarantine', `stream = $1 or ${holdsNestedSql(quarantinedSql, nested)}`)} as quarantine,
       ${texts.join(' + ')} as texts`,
    [stream.name],
  )
  return found ?? nothing
}

const typeOfRule = (rule: string | undefined): ColumnType | null =>
  rule === 'hash' || rule?.startsWith('first ') ? 'text' : rule === 'year' ? 'bigint' : null

type Given = {
  readonly wantedOf: Rules['wanted']
  /** As PrivateFields has them. */
  readonly names: readonly string[]
  readonly reason: string
}

/** Clears all of it, puts the rules in force, and has everything read again, in one transaction. No run writes before that. */
export const applyRules = (pool: Pool, stream: MirroredStream, given: Given): Promise<Cleared> =>
  withConnection(pool, (client) =>
    retryOnLockTimeout(client, qualified(stream), 'clear private fields of', () =>
      inTransaction(client, async () => {
        await limitLockWaits(client)
        return await putInForce(client, stream, given)
      }),
    ),
  )

async function putInForce(client: ClientBase, stream: MirroredStream, { wantedOf, names, reason }: Given) {
  const { name } = stream
  // Any stream may hold copies.
  await fenceRuns(client, await queryColumn<string>(client, 'select distinct stream from tidemark.lease'))
  await client.query('update tidemark.stream set columns_version = columns_version + 1 where name = $1', [
    name,
  ])
  const changes = await waitingChanges(client, name, wantedOf)
  const cleared = await countPrivate(client, stream, changes, names)
  await clear(client, stream, changes)
  await clearCopies(client, stream, { names, fields: changes.map(({ field }) => field) }, reason)
  await noteRules(client, name, wantedOf(name))
  await readWhole(client, name, reason)
  await forgetProblem(client, noticeOf(name))
  return cleared
}

async function clear(client: ClientBase, stream: MirroredStream, changes: readonly RuleChange[]) {
  const tableSchema = await readTableSchema(client, stream)
  const places = { tableSchema, fields: changes.map(({ field }) => field) }
  for (const column of tableSchema?.columns ?? []) {
    const change = changes.find(({ field }) => field === foldField(column.field))
    const to = typeOfRule(change?.after?.rule)
    if (tableSchema && to !== null && to !== column.type)
      await changeType(client, tableSchema, column.name, {
        from: column.type,
        to,
        using: ` using null::${to}`,
        note: null,
      })
  }
  if (tableSchema) {
    const emptied = emptySql(places, ['_rescued'])
    await client.query(
      `update ${qualified(stream)} set ${emptied}, _hash = ${distrustedHash}, _xid = pg_current_xact_id()`,
    )
    const { history } = tableSchema
    const inHistory = emptySql(places, [])
    if (history && inHistory !== '')
      await client.query(`update ${history.table} set ${inHistory} where ${holdsSql(places, [])}`)
  }
  for (const { column, where } of await readPastAlone(client, stream, places.fields))
    await client.query(`update ${qualified(historyOf(stream))} set ${column} = null where ${where}`)
  await client.query('delete from tidemark.quarantine where stream = $1', [stream.name])
  await client.query('update tidemark.field set steady_sample = null where stream = $1', [stream.name])
  await client.query(
    `update tidemark.related_fetch set problem = ${withoutQuote('problem')}
     where source = ${sourceSql('$1')} and problem ~ ${quoteSql}`,
    [stream.name],
  )
  for (const { table, column } of quoting)
    await client.query(
      `update tidemark.${table} set ${column} = ${withoutQuote(column)}
       where stream = $1 and ${column} ~ ${quoteSql}`,
      [stream.name],
    )
}

/** Whether a text of JSON has names that fold to one of these. */
function namesAnySql(text: string, names: readonly string[]): string {
  const letters = (name: string) =>
    [...name].map((one) => one.replace(/[^\p{L}\p{N}]/u, '.')).join('[^[:alnum:]"]*')
  const pattern = `"[^[:alnum:]"]*(${names.map(letters).join('|')})[^[:alnum:]"]*"\\s*:`
  return `${text} ~* ${pg.escapeLiteral(pattern)}`
}

/** Columns of the history that the table has no more, because somebody dropped it, and which of their lines hold values of these fields. */
async function readPastAlone(client: Queryable, stream: MirroredStream, fields: readonly string[]) {
  const bare = (name: string) => name.toLowerCase().replaceAll(/[^\p{L}\p{N}]/gu, '')
  const rows = await queryRows<{ name: string; isJson: boolean }>(
    client,
    `select attname as name, atttypid = 'jsonb'::regtype as "isJson" from pg_attribute as kept
     where attrelid = to_regclass($1) and attnum > 0 and not attisdropped and not exists (
       select from pg_attribute as mine
       where mine.attrelid = to_regclass($2) and mine.attname = kept.attname and not mine.attisdropped
     )`,
    [qualified(historyOf(stream)), qualified(stream)],
  )
  const [wanted, own] = [fields.map(bare), historyColumns.map(({ name }) => name)]
  return rows.flatMap(({ name, isJson }) => {
    const isWanted = wanted.includes(bare(name))
    if (own.includes(name) || !(isWanted || isJson)) return []
    const column = pg.escapeIdentifier(name)
    return { column, where: isWanted ? `${column} is not null` : namesAnySql(`${column}::text`, fields) }
  })
}

export type RuleInForce = NotedRule & { readonly stream: string }

/** Of the source $1. */
export const rulesSql = `select stream, field, rule, key_mark as "keyMark" from tidemark.private_field where ${sourceSql('stream')} = $1 order by field`

async function readNoted(client: Queryable, stream: string): Promise<readonly RuleInForce[]> {
  const values = [sourceIn(stream)]
  return await queryRows<RuleInForce>(client, {
    name: 'tidemark_private_fields',
    text: rulesSql,
    values,
  })
}
