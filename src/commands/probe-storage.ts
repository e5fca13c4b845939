// Whether Postgres and the queue are as they have to be. Makes no schema and starts no embedded Postgres.

import { Redis } from 'ioredis'
import type { Logger } from '../log.ts'
import { openDatabase } from '../mirror/database.ts'
import { type Check, failed } from './probe-check.ts'

export async function probePostgres(url: string | null, log: Logger): Promise<readonly Check[]> {
  if (url === null)
    return [
      { name: 'postgres', isFine: true, says: 'the embedded one, in .tidemark/ (not started by the probe)' },
    ]
  try {
    // It checks version, encoding and rights, and says what to do about each.
    const database = await openDatabase({ url, log })
    try {
      const { rows } = await database.pool.query<{
        version: string
        time_zone: string
        size: string
        has_schema: boolean
      }>(
        `select current_setting('server_version') as version, current_setting('TimeZone') as time_zone,
           pg_size_pretty(pg_database_size(current_database())) as size,
           to_regclass('tidemark.stream') is not null as has_schema`,
      )
      const [found] = rows
      const schema = found?.has_schema ? 'holds a mirror' : 'holds no mirror yet'
      return [
        {
          name: 'postgres',
          isFine: true,
          says: `${database.address}, version ${found?.version}, ${schema} (${found?.size}), with the rights it takes`,
        },
        {
          name: 'postgres time zone',
          isFine: true,
          says: `${found?.time_zone}; the mirror keeps moments, whatever it is`,
        },
      ]
    } finally {
      await database.close()
    }
  } catch (error) {
    return [failed('postgres', error)]
  }
}

const patienceMs = 5_000

export async function probeQueue(redisUrl: string | null): Promise<Check> {
  if (redisUrl === null) return { name: 'queue', isFine: true, says: 'in Postgres' }
  const redis = new Redis(redisUrl, {
    lazyConnect: true,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    connectTimeout: patienceMs,
  })
  let trouble: unknown = null
  redis.on('error', (error) => {
    trouble = error
  })
  try {
    await redis.connect()
    const info = await redis.info()
    const version = /redis_version:(\S+)/.exec(info)?.[1] ?? 'unknown'
    const policy = /maxmemory_policy:(\S+)/.exec(info)?.[1] ?? 'unknown'
    const isFine = policy === 'noeviction' || policy === 'unknown'
    const advice = isFine ? '' : ': it may throw jobs away; set maxmemory-policy noeviction'
    return { name: 'queue', isFine, says: `Redis ${version}, maxmemory-policy ${policy}${advice}` }
  } catch (error) {
    // What the connection itself said tells more.
    const cause = trouble ?? error
    const why = cause instanceof Error ? cause.message : String(cause)
    return { name: 'queue', isFine: false, says: `Redis cannot be reached: ${why}; check REDIS_URL` }
  } finally {
    redis.disconnect()
  }
}
