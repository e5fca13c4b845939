// `tidemark contract streams`: the lists that the upstream describes, which of them are mirrored, and the line of settings for the others.
// The number of records is only estimated: pages are asked for, each time twice as far, until one is empty.

import { ConfigError } from '../config/environment.ts'
import { type Config, loadConfig } from '../config/load.ts'
import { openConfiguredUpstream } from '../configured.ts'
import { type ListOffered, listsOffered } from '../openapi/lists.ts'
import { storedDescriptions } from '../openapi/stored.ts'
import type { Upstream } from '../upstream/client.ts'
import { count } from '../util/text.ts'
import { isRecordPage } from '../wire/record-page.ts'
import type { Call } from './command.ts'
import type { ExitCode } from './exit.ts'
import { readMirror } from './mirror.ts'
import { alignedTable } from './output.ts'

export async function showLists(call: Call, format: string): Promise<ExitCode> {
  const { stdout, signal, environment, log } = call
  const config = configOrNull(environment)
  return await readMirror(call, async (pool) => {
    const [stored] = await storedDescriptions(pool)
    const lists = stored ? listsOffered(stored.description, config?.related ?? []) : []
    const upstream = config && openConfiguredUpstream({ config, log }, 'assignment')
    try {
      const sized = []
      for (const one of lists)
        sized.push({ ...one, records: upstream ? await guessSize(upstream, one.path, signal) : null })
      if (format === 'json') stdout.json({ lists: sized })
      else if (sized.length === 0)
        stdout.say('The description of the upstream names no list: `tidemark contract`.')
      else stdout.write(asTable(sized, format === 'markdown'))
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

/** At least `from` and fewer than `below`; `below` null: the end cannot be told. */
type Size = { readonly from: number; readonly below: number | null } | null
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

function sizeText(size: Size): string {
  if (size === null) return 'size not known'
  const { from, below } = size
  if (below === null) return `${count(from)} or more`
  return below - from <= 1 ? count(from) : `${count(from)} to ${count(below - 1)}`
}

type Sized = ListOffered & { readonly records: Size }

function asTable(lists: readonly Sized[], isMarkdown: boolean): string {
  const rows = lists.map(({ path, type, hasChanges, stream, setting, records }) => [
    path,
    type,
    hasChanges ? 'changes' : 'whole list',
    sizeText(records),
    stream === null ? (setting === null ? '' : `STREAMS=…,${setting}`) : `mirrored as ${stream}`,
  ])
  const head = ['list', 'records', 'read by', 'about how many', 'to mirror it']
  if (isMarkdown)
    return `${[head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')}\n`
  return `${alignedTable(head, rows)}\n`
}
