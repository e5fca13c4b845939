// The checks of `tidemark probe`: whether Postgres and the queue can be used, whether hosts can be reached, whether each service of the
// upstream signs us in and shows us each stream, and how it behaves. Reads only.

import type { Config } from '../config/load.ts'
import { openConfiguredUpstream, sourcesOf } from '../configured.ts'
import type { Pool } from '../context.ts'
import type { Logger } from '../log.ts'
import { descriptionPlaceOf } from '../openapi/descriptions.ts'
import { type Finding, findDescription } from '../openapi/find-description.ts'
import { openRedis } from '../redis/connection.ts'
import { otherSources, otherSourceText, waysOut } from '../store/book/sources.ts'
import { lackingLimits } from '../store/schema/bi-role.ts'
import { expectNotNewer } from '../store/schema/migrate.ts'
import { type Database, openDatabase, sessionsForWorker } from '../store/server/connect.ts'
import { tooFewText } from '../store/server/pooler.ts'
import { readingConnections } from '../store/server/reading-pool.ts'
import type { ServiceName, Stream } from '../streams/catalog.ts'
import { isAssignments } from '../streams/names.ts'
import { readRecords } from '../streams/record.ts'
import { withPageEnds } from '../sync/lists/page-ends.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/http/errors.ts'
import type { UpstreamObserver } from '../upstream/http/transport.ts'
import { openSource } from '../upstream/stream-source.ts'
import { messageOf } from '../util/errors.ts'
import { describeRedis, redisInfoProblem } from '../util/redis-url.ts'
import { formatDuration, plural, sentence } from '../util/text.ts'
import { sessionsOfQueue } from '../worker/queue/driver.ts'
import { type Check, doubtful, good, wrong } from './check.ts'
import { probeBeliefs, probeDescribed, type StoredMirror } from './probe-beliefs.ts'

export type ProbeUpstream = {
  readonly config: Config
  readonly streams: readonly Stream[]
  readonly mirror: StoredMirror | null
  readonly log: Logger
  readonly signal: AbortSignal
}

export async function* probeService(
  { config, streams, mirror, log, signal }: ProbeUpstream,
  service: ServiceName,
): AsyncGenerator<Check> {
  let signIn: Check | null = null
  const observer: UpstreamObserver = {
    signInDone({ outcome, durationMs }) {
      const name = `sign-in ${service}`
      signIn = outcome === 'failed' ? wrong(name, '') : good(name, `a token in ${Math.round(durationMs)} ms`)
    },
  }
  const upstream = openConfiguredUpstream({ config, log, observer }, service)
  if (!upstream) return
  try {
    const mine = streams.filter((stream) => stream.service === service)
    let finding: Finding | null = null
    for (const [index, stream] of mine.entries()) {
      const rights = await probeRights(upstream, stream, signal)
      if (index === 0) {
        const first = signIn as Check | null
        // The sign-in failed. The error of the first request says why.
        if (first && !first.isFine) {
          yield { ...first, says: rights.check.says }
          return
        }
        if (first) yield first
        const date = rights.check.isFine ? await dateOf(upstream, stream, signal) : null
        if (date) yield clockCheck(service, date)
        const place = descriptionPlaceOf(config, service)
        if (place) finding = await findDescription(place, upstream, signal)
        if (place !== undefined) yield contractCheck(service, finding)
      }
      yield rights.check
      const described = await probeDescribed(stream, finding, mirror)
      if (described && stream.kind !== 'changes') yield described
      if (isAssignments(stream.name) && config.related.length > 0 && rights.received > 0)
        yield await probeExtended(upstream, stream, signal)
      if (!rights.check.isFine || stream.kind !== 'changes' || rights.received === 0) continue
      const versionField = config.dictionary.now().get(stream.name)?.version ?? null
      const { source } = withPageEnds(openSource(upstream, stream))
      try {
        yield* probeBeliefs({ source, stream, versionField, mirror, signal })
      } catch (error) {
        yield wrong(`${stream.name} neworchanged`, error)
      }
      if (described) yield described
    }
  } finally {
    upstream.close()
  }
}

/** Whether the service describes itself. It is no fault if it does not. */
function contractCheck(service: ServiceName, finding: Finding | null): Check {
  const name = `contract ${service}`
  if (finding === null) return good(name, 'not looked for (CONTRACT is off)')
  switch (finding.found) {
    case 'description': {
      const { openApi, operations, remarks } = finding.description
      const what = `OpenAPI ${openApi}, ${plural(operations.length, 'operation')}, at ${finding.at}`
      return remarks.length > 0 ? doubtful(name, `${what}. ${remarks.join(' ')}`) : good(name, what)
    }
    case 'nothing':
      return good(name, 'it does not describe itself; types come from the data')
    case 'unusable':
      return doubtful(name, `${finding.at} cannot be used: ${finding.why}. ${withoutContract}`)
    default:
      return doubtful(name, `not known: ${finding.why}. ${withoutContract}`)
  }
}

const withoutContract =
  'Types come from the data until a description can be read; CONTRACT says where, or off.'

async function probeRights(upstream: Upstream, stream: Stream, signal: AbortSignal) {
  const name = `stream ${stream.name}`
  const askedAt = performance.now()
  try {
    const { records } = await openSource(upstream, stream).list({ page: 1, pageSize: 1 }, signal)
    const empty =
      stream.service === 'assignment'
        ? 'it has no records, or CLIENT_GUID is not yours'
        : 'it has no records, or this user may not see them'
    const took = formatDuration(performance.now() - askedAt)
    const received = records.length
    if (received === 0) return { check: doubtful(name, `readable but empty: ${empty}`), received }
    return { check: good(name, `readable, answered in ${took}`), received }
  } catch (error) {
    return { check: wrong(name, error), received: 0 }
  }
}

/** Related records come with it. */
async function probeExtended(upstream: Upstream, stream: Stream, signal: AbortSignal): Promise<Check> {
  const name = 'extended read'
  try {
    const { records } = await openSource(upstream, stream).list({ page: 1, pageSize: 1 }, signal)
    const [row] = readRecords(records, stream.keyFields, null).rows
    if (!row) return doubtful(name, 'not tried: there is no assignment to try it with')
    await upstream.call('getExtendedAssignment', { path: { assignmentId: Number(row.key) } }, signal)
    return good(name, `answers for assignment ${row.key}`)
  } catch (error) {
    const isOff = error instanceof UpstreamError && error.status === 404
    const says = messageOf(error)
    return wrong(name, isOff ? `${sentence(says)} It is switched off, and RELATED needs it.` : says)
  }
}

/** The upstream's time, from a second request like the first, because a list does not carry it. Null if that request fails. */
async function dateOf(upstream: Upstream, stream: Stream, signal: AbortSignal): Promise<Date | null> {
  // Lists without pages come whole; they are short.
  const query = stream.kind === 'changes' ? { Page: 1, PageSize: 1 } : {}
  try {
    return (await upstream.call(stream.list, { query }, signal)).date
  } catch {
    return null
  }
}

const mostSkewMs = 30_000

function clockCheck(service: ServiceName, date: Date): Check {
  // The header tells whole seconds: on average it is half a second behind.
  const skewMs = Date.now() - date.getTime() - 500
  const name = `clock ${service}`
  const says =
    Math.abs(skewMs) <= 2_500
      ? 'agrees with the upstream'
      : `${formatDuration(Math.abs(skewMs))} ${skewMs > 0 ? 'ahead of' : 'behind'} the upstream`
  return Math.abs(skewMs) <= mostSkewMs
    ? good(name, says)
    : wrong(name, `${says}: correct the clock of this machine (NTP)`)
}

// Whether Postgres and the queue are as they have to be. Makes no schema and starts no embedded Postgres.
const roleChecks = ({ role, is_superuser, owns_record }: Found): readonly Check[] => {
  const risk = is_superuser
    ? `${role} is a superuser: whoever gets into its session has a shell on the machine of Postgres. Tidemark needs no such rights: give it a role of its own`
    : `${role} owns the record of who did what: whoever gets into its session can change that record unnoticed. To prevent this, let workers connect as another role than the owner`
  return is_superuser || owns_record
    ? [doubtful('postgres role', `${risk} (docs/guides/deploy-as-a-container.md).`)]
    : []
}

async function limitChecks(pool: Pool, role: string, zone: string): Promise<readonly Check[]> {
  const lacking = await lackingLimits(pool, role, zone)
  const name = 'postgres BI role'
  if (lacking.length === 0) return [good(name, `${role} has limits on time, space and connections`)]
  return lacking.map(({ risk, statement }) =>
    doubtful(name, `${role} ${risk}. Have an administrator run: ${statement}`),
  )
}

type Found = {
  readonly version: string
  readonly time_zone: string
  readonly size: string
  readonly has_schema: boolean
  readonly has_source: boolean
  readonly has_limits: boolean
  readonly role: string
  readonly is_superuser: boolean
  readonly owns_record: boolean
}

export async function probePostgres(config: Config, log: Logger): Promise<readonly Check[]> {
  const { databaseUrl: url } = config
  if (url === null) return [good('postgres', 'the embedded one, in .tidemark/ (the probe does not start it)')]
  try {
    // Opening the database checks version, encoding and rights, and says what to do about each.
    await using database = await openDatabase({ url, log })
    const { rows } = await database.pool.query<Found>(
      `select current_setting('server_version') as version, current_setting('TimeZone') as time_zone,
         pg_size_pretty(pg_database_size(current_database())) as size,
         to_regclass('tidemark.stream') is not null as has_schema, to_regclass('tidemark.source') is not null as has_source,
         to_regclass('tidemark.role_limit') is not null as has_limits,
         current_user::text as role, (select rolsuper from pg_roles where rolname = current_user) as is_superuser,
         exists (select from pg_class where oid = to_regclass('tidemark.action_log') and pg_has_role(relowner, 'usage')) as owns_record`,
    )
    const found = rows[0] as Found
    await expectNotNewer(database)
    const schema = found.has_schema ? 'holds a mirror' : 'holds no mirror yet'
    const what = `${database.address}, version ${found.version}, ${schema} (${found.size}), rights sufficient`
    return [
      good('postgres', what),
      good('postgres time zone', `${found.time_zone}; any is fine`),
      ...roleChecks(found),
      ...(config.biRole !== null && found.has_limits
        ? await limitChecks(database.pool, config.biRole, config.sourceTimezone)
        : []),
      await sessionsCheck(database, config),
      ...(found.has_source ? await sourceChecks(database.pool, config) : []),
    ]
  } catch (error) {
    return [wrong('postgres', error)]
  }
}

/** Those that running workers have are counted as well: it is they who need them. */
async function sessionsCheck(database: Database, { redisUrl }: Config): Promise<Check> {
  const name = 'postgres sessions'
  const { needed, got, isPooled } = await sessionsForWorker(
    database,
    sessionsOfQueue(redisUrl) + readingConnections,
  )
  const { rows } = await database.pool.query<{ held: string; free: string }>(
    `select count(*) filter (where application_name like 'tidemark%' and usename = current_user and datname = current_database()) as held,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - count(*) as free
     from pg_stat_activity where backend_type = 'client backend'`,
  )
  const [held, free] = [Number(rows[0]?.held), Number(rows[0]?.free)]
  if (isPooled && got + held < needed)
    return wrong(name, tooFewText({ needed, got: got + held }, database.address))
  const left = isPooled ? 'the pooler has them' : `${plural(free, 'session')} of max_connections are free`
  return (free + held < needed ? doubtful : good)(name, `a worker needs up to ${needed}; ${left}`)
}

async function sourceChecks(pool: Pool, config: Config): Promise<readonly Check[]> {
  const others = await otherSources(pool, sourcesOf(config))
  return others.map((other) =>
    wrong(`source ${other.wanted.service}`, `${otherSourceText(other)} ${waysOut(other.wanted.name)}`),
  )
}

const storageTimeoutMs = 5_000

export async function probeQueue(redisUrl: string | null, log: Logger): Promise<Check> {
  if (redisUrl === null) return good('queue', 'in Postgres')
  const { redis, url, open, close } = openRedis({ redisUrl, name: 'tidemark-probe', retries: 0, log })
  try {
    const info = await open(() => redis.info(), storageTimeoutMs)
    const [, kind = 'redis', version = 'unknown'] =
      /(valkey)_version:(\S+)/.exec(info) ?? /(redis)_version:(\S+)/.exec(info) ?? []
    const policy = /maxmemory_policy:(\S+)/.exec(info)?.[1] ?? 'unknown'
    const problem = redisInfoProblem(url, info)
    if (problem) return wrong('queue', `REDIS_URL ${problem}`)
    const says = `${kind === 'valkey' ? 'Valkey' : 'Redis'} ${version} at ${describeRedis(url)}, maxmemory-policy ${policy}`
    if (policy === 'noeviction' || policy === 'unknown') return good('queue', says)
    return wrong('queue', `${says}: Redis may discard jobs; set maxmemory-policy noeviction`)
  } catch (error) {
    return wrong('queue', error)
  } finally {
    close()
  }
}
