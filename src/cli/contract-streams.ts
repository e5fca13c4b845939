// `tidemark contract streams`: the lists that the upstream describes, which of them are mirrored, and the line of settings for the others.
// The number of records is only estimated: pages are asked for, each time twice as far, until one is empty.

import { ConfigError } from '../config/environment.ts'
import { type Config, loadConfig } from '../config/load.ts'
import { openConfiguredUpstream } from '../configured.ts'
import { listsOffered } from '../openapi/lists.ts'
import { storedDescriptions } from '../openapi/stored.ts'
import type { Upstream } from '../upstream/client.ts'
import { isRecordPage } from '../wire/record-page.ts'
import type { Call } from './command.ts'
import { type Format, listsTold, type Size, type Sized, tell } from './contract-formats.ts'
import type { ExitCode } from './exit.ts'
import { readMirror } from './mirror.ts'

export async function showLists(call: Call, format: Format): Promise<ExitCode> {
  const { signal, environment, log } = call
  const config = configOrNull(environment)
  return await readMirror(call, async (pool) => {
    const [stored] = await storedDescriptions(pool)
    const lists = stored ? listsOffered(stored.description, call.catalogue, config?.related ?? []) : []
    const upstream = config && openConfiguredUpstream({ config, log }, 'assignment')
    try {
      const sized: Sized[] = []
      for (const one of lists)
        sized.push({ ...one, records: upstream ? await guessSize(upstream, one.path, signal) : null })
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

const mostPages = 2 ** 30

async function guessSize(upstream: Upstream, path: string, signal: AbortSignal): Promise<Size> {
  const recordsAt = async (page: number) => {
    const request = { query: { Page: page, PageSize: 1 } }
    const { body } = await upstream.callForRecords(`GET ${path}`, request, signal)
    return isRecordPage(body) || Array.isArray(body) ? body.length : null
  }
  try {
    const first = await recordsAt(1)
    if (first === null || first === 0) return first === null ? null : { from: 0, below: 1 }
    // The upstream ignores paging, so this answer is all there is.
    if (first > 1) return { from: first, below: first + 1 }
    for (let page = 2; page < mostPages; page *= 2)
      if ((await recordsAt(page)) === 0) return { from: page / 2, below: page }
    return null
  } catch (error) {
    if (signal.aborted) throw error
    return null
  }
}
