// Which sources have all in Postgres that opening them would make, seen of many at once: a worker with a thousand sources opens them with a few
// statements, and only those are prepared where something is to be done.

import { hash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import type { Config } from './config/load.ts'
import { configuredCatalogue, mirroredStreams, sourcesOf } from './configured.ts'
import type { Logger } from './log.ts'
import { noteMadeBy, sourcesMadeBy } from './store/book/source-config.ts'
import { unclaimedSources } from './store/book/sources.ts'
import { unprepared } from './store/schema/migrate.ts'
import type { Database } from './store/server/connect.ts'
import { withConnection } from './store/server/session.ts'

/** Of these named sources. Of none, if that cannot be told: then each is prepared, which says what is wrong. */
export async function wholeSources(
  { pool }: Pick<Database, 'pool'>,
  configs: readonly Config[],
  { version, log }: { readonly version: string; readonly log: Logger },
): Promise<ReadonlySet<string>> {
  try {
    return await withConnection(pool, async (client) => {
      const made = await sourcesMadeBy(
        client,
        new Map(configs.map((config) => [config.source, madeBy(config, version)])),
      )
      const known = configs.filter(({ source }) => made.has(source))
      const prepared = known.map((config) => ({ ...config, streams: configuredCatalogue(config), log }))
      const lacking = new Set([
        ...(await unprepared(client, prepared, log)),
        ...(await unclaimedSources(client, known.flatMap(sourcesOf))).map(({ name }) => name),
      ])
      return new Set([...made].filter((source) => !lacking.has(source)))
    })
  } catch (error) {
    log.debug({ err: error }, 'it could not be seen which sources have all that they need')
    return new Set()
  }
}

/** Its tables are as its upstream describes them. */
export const noteWhole = ({ pool }: Pick<Database, 'pool'>, config: Config, version: string): Promise<void> =>
  noteMadeBy(pool, config.source, madeBy(config, version))

/** By what tables are made, beside what stands in Postgres: another version or other settings may make them otherwise. */
function madeBy(config: Config, version: string): string {
  const { contract, dictionary, sourceTimezone } = config
  const streams = mirroredStreams(config, configuredCatalogue(config)).map(({ name }) => name)
  const file = contract?.kind === 'file' && existsSync(contract.at) ? readFileSync(contract.at) : ''
  const said = [version, contract, hash('sha256', file), sourcesOf(config), sourceTimezone, streams]
  return hash('sha256', JSON.stringify([...said, dictionary.now()], asJson))
}

/** Maps, and how long a history is kept that is kept for ever. */
const asJson = (_: string, value: unknown): unknown =>
  value instanceof Map ? [...value] : value === Number.POSITIVE_INFINITY ? 'for ever' : value
