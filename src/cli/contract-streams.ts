// `tidemark contract streams`: the lists that the upstream describes, which of them are mirrored, and the line of settings for the others.
// How many records each has is counted as during a first load.

import { ConfigError, sourceOfEnvironment } from '../config/environment.ts'
import { type Config, loadConfig } from '../config/load.ts'
import { openConfiguredUpstream } from '../configured.ts'
import { type ListOffered, listsOffered } from '../openapi/lists.ts'
import { storedDescriptions } from '../openapi/stored.ts'
import { addedStream } from '../streams/catalog.ts'
import { countRecords } from '../sync/lists/count-records.ts'
import { withPageEnds } from '../sync/lists/page-ends.ts'
import type { Upstream } from '../upstream/client.ts'
import { openSource } from '../upstream/stream-source.ts'
import type { Call } from './command.ts'
import { type Format, listsTold, type Sized, tell } from './contract-formats.ts'
import type { ExitCode } from './exit.ts'
import { readMirror } from './mirror.ts'

export async function showLists(call: Call, format: Format): Promise<ExitCode> {
  const { signal, environment, log } = call
  const config = configOrNull(environment)
  return await readMirror(call, async (pool) => {
    const [stored] = await storedDescriptions(pool, { source: sourceOfEnvironment(environment) })
    const lists = stored ? listsOffered(stored.description, call.catalogue, config?.related ?? []) : []
    const upstream = config && openConfiguredUpstream({ config, log }, 'assignment')
    try {
      const sized: Sized[] = []
      for (const one of lists)
        sized.push({ ...one, records: upstream && (await countList(upstream, one, signal)) })
      tell(call, format, listsTold(sized))
    } finally {
      upstream?.close()
    }
  })
}

function configOrNull(environment: Call['environment']): Config | null {
  try {
    return loadConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return null
    throw error
  }
}

/** Null: it cannot be counted. */
async function countList(
  upstream: Upstream,
  { type, path }: ListOffered,
  signal: AbortSignal,
): Promise<number | null> {
  const { source } = withPageEnds(openSource(upstream, addedStream({ name: type, path })))
  try {
    const counted = await countRecords(source, signal)
    if (counted !== null) return counted.records
    const { records } = await source.list({ page: 1, pageSize: 1 }, signal)
    // Without pages, or with an upstream that ignores them, this answer is all there is.
    return records.length > 1 || !source.listHasPages ? records.length : null
  } catch (error) {
    if (signal.aborted) throw error
    return null
  }
}
